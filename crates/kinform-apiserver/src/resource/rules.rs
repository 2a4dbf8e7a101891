//! The differences between types in writes and deletes, as data.
//!
//! ```text
//! (group, plural) -> Rules: generation, unconditional update, create on update, reply of a delete, ..
//! ```
//!
//! Upstream has a strategy for each type. This table is checked against the recordings of 45 kinds
//! and against upstream's own tests of the differences.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/*/*/strategy.go`,
//! `test/integration/apiserver/apidefinitions`.

/// The rules of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) generation: Generation,
    /// An update without a resource version replaces the current state.
    pub(crate) unconditional_update: bool,
    /// An update of an object that does not exist creates it.
    pub(crate) create_on_update: bool,
    /// A delete returns the object, not a `Status`.
    pub(crate) returns_deleted: bool,
    /// The status in a create request is dropped.
    pub(crate) resets_status: bool,
    pub(crate) name: NameRule,
    pub(crate) prefix: PrefixRule,
    /// The warning in every reply about a deprecated type.
    pub(crate) deprecation: Option<&'static str>,
    /// The treatment of dependents by a delete that does not specify it.
    pub(crate) propagation: Propagation,
    /// BOUND: the size of an object's data in bytes, if its type limits it.
    pub(crate) max_data_bytes: Option<usize>,
    /// Paths that cannot change: members joined by dots.
    pub(crate) immutable: &'static [&'static str],
}

/// The changes by which a type's `metadata.generation` grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The type has no generation.
    Absent,
    /// It grows when `spec` changes.
    Spec,
    /// It grows when `spec` changes; a new object has no generation.
    SpecChanges,
    /// It grows when any field outside of `metadata` and `status` changes.
    Content,
    /// It grows as for `Content`, and when labels or annotations change.
    ContentAndLabels,
    /// It is set once.
    Constant,
}

/// The names that a type's objects may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// A DNS subdomain, as for most types.
    Subdomain,
    /// A DNS label.
    Label,
    /// Any text that is valid as a path segment.
    PathSegment,
    /// The key of a ConfigMap.
    ConfigKey,
    /// An IP address.
    Address,
    /// A DNS subdomain after the name of the object's signer, if it has one.
    AfterSigner,
}

/// The writes in which `metadata.generateName` is validated as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrefixRule {
    /// It is never validated.
    Never,
    /// It is validated when the object is new.
    New,
    /// It is validated with every write.
    Always,
}

/// The treatment of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted later.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

impl Rules {
    /// The rules of custom resources.
    pub(crate) const CUSTOM: Self = Self {
        generation: Generation::Content,
        unconditional_update: false,
        create_on_update: false,
        returns_deleted: false,
        resets_status: true,
        name: NameRule::Subdomain,
        prefix: PrefixRule::New,
        deprecation: None,
        propagation: Propagation::Background,
        max_data_bytes: None,
        immutable: &[],
    };

    /// The rules of a built-in resource.
    pub(crate) fn of_builtin(group: &str, plural: &str) -> Self {
        Self {
            generation: generation(group, plural),
            unconditional_update: unconditional_update(group, plural),
            create_on_update: create_on_update(group, plural),
            returns_deleted: returns_deleted(group, plural),
            resets_status: !matches!((group, plural), ("", "nodes")),
            name: name_rule(group, plural),
            prefix: prefix_rule(group, plural),
            deprecation: deprecation(group, plural),
            propagation: match (group, plural) {
                ("", "replicationcontrollers") | ("batch", "jobs") => Propagation::Orphan,
                _ => Propagation::Background,
            },
            max_data_bytes: match (group, plural) {
                ("", "configmaps" | "secrets") => Some(1 << 20),
                _ => None,
            },
            immutable: immutable(group, plural),
        }
    }
}

fn generation(group: &str, plural: &str) -> Generation {
    match (group, plural) {
        ("", "pods" | "replicationcontrollers")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs" | "cronjobs")
        | ("autoscaling", "horizontalpodautoscalers")
        | ("networking.k8s.io", "ingresses" | "ingressclasses" | "networkpolicies")
        | ("policy", "poddisruptionbudgets")
        | ("flowcontrol.apiserver.k8s.io", _)
        | ("apiextensions.k8s.io", _)
        | ("resource.k8s.io", "deviceclasses" | "devicetaintrules" | "resourceslices")
        | (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicies"
            | "validatingadmissionpolicybindings"
            | "mutatingadmissionpolicies"
            | "mutatingadmissionpolicybindings",
        ) => Generation::Spec,
        ("storage.k8s.io", "csidrivers") => Generation::SpecChanges,
        ("", "podtemplates") | ("admissionregistration.k8s.io", _) => Generation::Content,
        ("discovery.k8s.io", "endpointslices") => Generation::ContentAndLabels,
        ("scheduling.k8s.io", "priorityclasses") => Generation::Constant,
        _ => Generation::Absent,
    }
}

fn unconditional_update(group: &str, plural: &str) -> bool {
    !matches!(
        (group, plural),
        (
            "coordination.k8s.io" | "apiextensions.k8s.io" | "apiregistration.k8s.io",
            _
        ) | ("policy", "poddisruptionbudgets")
            | ("node.k8s.io", "runtimeclasses")
            | (
                "storage.k8s.io",
                "volumeattachments" | "csidrivers" | "csinodes" | "csistoragecapacities"
            )
            | (
                "admissionregistration.k8s.io" | "storagemigration.k8s.io",
                _
            )
    )
}

fn create_on_update(group: &str, plural: &str) -> bool {
    matches!(
        (group, plural),
        ("coordination.k8s.io" | "rbac.authorization.k8s.io", _)
            | ("", "endpoints" | "events" | "limitranges" | "services")
            | ("events.k8s.io", "events")
            | ("node.k8s.io", "runtimeclasses")
    )
}

fn returns_deleted(group: &str, plural: &str) -> bool {
    matches!(
        (group, plural),
        (
            "",
            "pods"
                | "namespaces"
                | "services"
                | "serviceaccounts"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "resourcequotas"
                | "podtemplates"
        ) | (
            "storage.k8s.io",
            "storageclasses" | "csidrivers" | "csinodes" | "volumeattachments"
        )
    )
}

fn name_rule(group: &str, plural: &str) -> NameRule {
    match (group, plural) {
        ("", "namespaces" | "services") => NameRule::Label,
        ("rbac.authorization.k8s.io", _) | ("policy", "poddisruptionbudgets") | ("", "events") => {
            NameRule::PathSegment
        }
        ("coordination.k8s.io", "leasecandidates") => NameRule::ConfigKey,
        ("networking.k8s.io", "ipaddresses") => NameRule::Address,
        ("certificates.k8s.io", "clustertrustbundles") => NameRule::AfterSigner,
        _ => NameRule::Subdomain,
    }
}

/// Returns the rule for generated names, as recorded from a real server for each type.
fn prefix_rule(group: &str, plural: &str) -> PrefixRule {
    match (group, plural) {
        ("", "replicationcontrollers" | "events")
        | ("policy" | "rbac.authorization.k8s.io", _)
        | ("resource.k8s.io", "deviceclasses") => PrefixRule::Never,
        ("apps", "controllerrevisions") => PrefixRule::Always,
        ("", "services" | "podtemplates")
        | ("apps" | "batch" | "autoscaling" | "coordination.k8s.io", _)
        | ("networking.k8s.io", "networkpolicies")
        | ("storage.k8s.io", "csidrivers")
        | ("scheduling.k8s.io", "priorityclasses")
        | ("resource.k8s.io", "resourceslices") => PrefixRule::New,
        _ => PrefixRule::Always,
    }
}

/// Upstream: the marker `+k8s:prerelease-lifecycle-gen:deprecated` of `kubernetes/api`.
fn deprecation(group: &str, plural: &str) -> Option<&'static str> {
    match (group, plural) {
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        ("", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        _ => None,
    }
}

fn immutable(group: &str, plural: &str) -> &'static [&'static str] {
    match (group, plural) {
        ("apps", "controllerrevisions") => &["data"],
        ("apps", _) => &["spec.selector"],
        ("batch", "jobs") => &["spec.selector", "spec.completionMode"],
        ("", "secrets") => &["type"],
        _ => &[],
    }
}
