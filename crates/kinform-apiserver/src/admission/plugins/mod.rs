//! The compiled-in plugins, in the order of a real server.
//!
//! ```text
//! Question + object ──mutate──▶ object with limits, priority, tolerations, classes
//! Question + objects ──validate──▶ go on | 403          ──reserve──▶ quota counted | 403
//! ```
//!
//! Plugins read the store and never wait; `write/` calls them around the chain. Most are about whole
//! objects, not subresources. Those that change objects run once more after a webhook did: each leaves
//! alone what it has set.
//!
//! Two plugins of a real server are not here, since they only make sense with the controller that
//! undoes their work: the finalizers of claims and volumes in use, and the taint of new nodes.
//!
//! * `priority.rs`, `tolerations.rs`, `runtime_class.rs`, `service_account.rs`: pods;
//! * `pod_security/`: pods as the labels of their namespace demand; `limits.rs`: limit ranges;
//! * `topology.rs`: the zone and region of a pod; `classes.rs`: default classes of storage and ingresses;
//! * `quota.rs`, `usage.rs`: resource quotas;
//! * `amounts.rs`: amounts of resources, which limits and quotas share;
//! * `refusals.rs`: plugins that only refuse.
//!
//! Upstream: `kubernetes:plugin/pkg/admission`.

pub(crate) mod amounts;
mod classes;
mod limits;
mod pod_security;
mod priority;
pub(crate) mod quota;
mod refusals;
mod runtime_class;
mod service_account;
mod tolerations;
pub(crate) mod topology;
pub(crate) mod usage;

use std::sync::Arc;

use kinform_api::Status;
use serde_json::Value;

use super::{Objects, Operation, Question};
use crate::resource::ResourceInfo;
use crate::state::plugins::{AdmissionPlugins, Plugin};
use crate::storage::{Stored, View};

/// A plugin that changes an object.
type Change = fn(&Question<'_>, &mut Value) -> Result<(), Box<Status>>;
/// A plugin that refuses an object.
type Check = fn(&Question<'_>, Objects<'_>) -> Result<(), Box<Status>>;

/// Changes of new objects: plugin, group, resource.
const CHANGES: [(Plugin, &str, &str, Change); 8] = [
    (Plugin::LimitRanger, "", "pods", limits::set_defaults),
    (Plugin::ServiceAccount, "", "pods", service_account::set),
    (Plugin::Priority, "", "pods", priority::set),
    (
        Plugin::DefaultTolerationSeconds,
        "",
        "pods",
        tolerations::add,
    ),
    (
        Plugin::DefaultStorageClass,
        "",
        "persistentvolumeclaims",
        classes::set_storage_class,
    ),
    (Plugin::RuntimeClass, "", "pods", runtime_class::apply),
    (
        Plugin::DefaultIngressClass,
        "networking.k8s.io",
        "ingresses",
        classes::set_ingress_class,
    ),
    (Plugin::PodTopologyLabels, "", "pods", topology::label),
];

/// A check of objects.
#[derive(Debug)]
struct Row {
    plugin: Plugin,
    operations: &'static [Operation],
    group: &'static str,
    plurals: &'static [&'static str],
    /// Subresources; `""` is the object itself.
    parts: &'static [&'static str],
    check: Check,
}

const CREATE: &[Operation] = &[Operation::Create];
const UPDATE: &[Operation] = &[Operation::Update];
const BOTH: &[Operation] = &[Operation::Create, Operation::Update];
const MAIN: &[&str] = &[""];
const DEBUG: &[&str] = &["ephemeralcontainers"];
const RESIZE: &[&str] = &["resize"];

const fn row(
    plugin: Plugin,
    operations: &'static [Operation],
    (group, plurals): (&'static str, &'static [&'static str]),
    check: Check,
) -> Row {
    Row {
        plugin,
        operations,
        group,
        plurals,
        parts: MAIN,
        check,
    }
}

/// The checks, in the order of a real server.
const CHECKS: [Row; 13] = [
    row(
        Plugin::LimitRanger,
        CREATE,
        ("", &["pods"]),
        limits::check_pod,
    ),
    Row {
        parts: RESIZE,
        ..row(
            Plugin::LimitRanger,
            UPDATE,
            ("", &["pods"]),
            limits::check_pod,
        )
    },
    row(
        Plugin::LimitRanger,
        BOTH,
        ("", &["persistentvolumeclaims"]),
        limits::check_claim,
    ),
    row(
        Plugin::ServiceAccount,
        CREATE,
        ("", &["pods"]),
        service_account::check,
    ),
    Row {
        parts: DEBUG,
        ..row(
            Plugin::ServiceAccount,
            UPDATE,
            ("", &["pods"]),
            service_account::check_debug,
        )
    },
    row(
        Plugin::PodSecurity,
        BOTH,
        ("", &["namespaces"]),
        pod_security::check_namespace,
    ),
    Row {
        parts: &["", "ephemeralcontainers", "resize"],
        ..row(
            Plugin::PodSecurity,
            BOTH,
            ("", &["pods"]),
            pod_security::check_pod,
        )
    },
    row(
        Plugin::PodSecurity,
        BOTH,
        ("", &["podtemplates", "replicationcontrollers"]),
        pod_security::check_workload,
    ),
    row(
        Plugin::PodSecurity,
        BOTH,
        (
            "apps",
            &["daemonsets", "deployments", "replicasets", "statefulsets"],
        ),
        pod_security::check_workload,
    ),
    row(
        Plugin::PodSecurity,
        BOTH,
        ("batch", &["cronjobs", "jobs"]),
        pod_security::check_workload,
    ),
    row(
        Plugin::Priority,
        CREATE,
        ("scheduling.k8s.io", &["priorityclasses"]),
        priority::check_class,
    ),
    row(
        Plugin::PersistentVolumeClaimResize,
        UPDATE,
        ("", &["persistentvolumeclaims"]),
        refusals::check_resize,
    ),
    row(
        Plugin::CertificateSubjectRestriction,
        CREATE,
        ("certificates.k8s.io", &["certificatesigningrequests"]),
        refusals::check_subject,
    ),
];

/// Returns whether a plugin changes objects of a create of this resource.
pub(crate) fn changes(plugins: AdmissionPlugins, resource: &ResourceInfo) -> bool {
    let mut all = CHANGES.iter();
    all.any(|(plugin, group, plural, _)| plugins.has(*plugin) && is(resource, group, plural))
}

/// Applies the changing plugins to the object of a create.
///
/// # Errors
/// 403 in the words of the plugin.
pub(crate) fn mutate(question: &Question<'_>, object: &mut Value) -> Result<(), Box<Status>> {
    let plugins = question.state.plugins;
    for (plugin, group, plural, change) in &CHANGES {
        if plugins.has(*plugin) && is(question.resource, group, plural) {
            change(question, object)?;
        }
    }
    Ok(())
}

/// Returns whether a plugin checks an operation on this resource, or on this subresource of it.
pub(crate) fn checks(
    plugins: AdmissionPlugins,
    resource: &ResourceInfo,
    part: (&str, Operation),
) -> bool {
    let mut rows = CHECKS.iter();
    rows.any(|row| row.is_asked(plugins, resource, part))
}

/// Applies the checking plugins.
///
/// # Errors
/// 403 in the words of the plugin; 422 for labels of a namespace.
pub(crate) fn validate(question: &Question<'_>, objects: Objects<'_>) -> Result<(), Box<Status>> {
    let plugins = question.state.plugins;
    let part = (question.subresource, question.operation);
    for row in &CHECKS {
        if row.is_asked(plugins, question.resource, part) {
            (row.check)(question, objects)?;
        }
    }
    Ok(())
}

impl Row {
    fn is_asked(
        &self,
        plugins: AdmissionPlugins,
        resource: &ResourceInfo,
        (subresource, operation): (&str, Operation),
    ) -> bool {
        self.group == resource.group
            && self.plurals.contains(&resource.plural.as_str())
            && self.parts.contains(&subresource)
            && self.operations.contains(&operation)
            && plugins.has(self.plugin)
    }
}

fn is(resource: &ResourceInfo, group: &str, plural: &str) -> bool {
    resource.group == group && resource.plural == plural
}

/// The 403 of a plugin.
fn forbidden(question: &Question<'_>, name: &str, why: &str) -> Box<Status> {
    Box::new(Status::forbidden(
        &question.resource.group_resource(),
        name,
        why,
    ))
}

/// All objects of a shelf.
fn all(question: &Question<'_>, shelf: &str) -> View {
    let store = &question.state.store;
    store.view(store.shelf(shelf))
}

/// The objects of a shelf in the question's namespace, by name.
fn in_namespace(question: &Question<'_>, shelf: &str) -> Vec<Arc<Stored>> {
    objects_in(question, shelf, question.namespace.unwrap_or_default())
}

/// The objects of a shelf in a namespace, by name.
fn objects_in(question: &Question<'_>, shelf: &str, namespace: &str) -> Vec<Arc<Stored>> {
    let prefix = format!("{namespace}/");
    let snapshot = all(question, shelf).snapshot;
    let mut place = snapshot.seek(&prefix);
    let mut found = Vec::new();
    while let Some(object) = snapshot
        .at(place)
        .filter(|of| of.key().starts_with(&prefix))
    {
        found.push(object.clone());
        place = snapshot.next(place);
    }
    found
}

/// The namespace of the question.
fn namespace(question: &Question<'_>) -> Option<Arc<Stored>> {
    let store = &question.state.store;
    store.get(store.shelf("namespaces"), question.namespace?)
}

/// Returns whether an annotation has the value `true`.
fn is_default(object: &Stored, annotation: &str) -> bool {
    let value = object.value();
    value["metadata"]["annotations"][annotation] == "true"
}
