//! The compiled-in plugins, in the order of a real server.
//!
//! ```text
//! Question + object ──mutate──▶ object with limits, priority, tolerations, classes
//! Question + objects ──validate──▶ go on | 403          ──reserve──▶ quota counted | 403
//! ```
//!
//! Plugins read the store and never wait; `write/` calls them around the chain. They are about whole
//! objects, not subresources, and run once more after a webhook changed the object: each leaves alone
//! what it has set.
//!
//! Two plugins of a real server are not here, since they only make sense with the controller that
//! undoes their work: the finalizers of claims and volumes in use, and the taint of new nodes.
//!
//! * `priority.rs`, `tolerations.rs`, `runtime_class.rs`: pods; `limits.rs`: limit ranges;
//! * `classes.rs`: default classes of storage and ingresses; `quota.rs`, `usage.rs`: resource quotas;
//! * `amounts.rs`: amounts of resources, which limits and quotas share;
//! * `refusals.rs`: plugins that only refuse.
//!
//! Upstream: `kubernetes:plugin/pkg/admission`.

pub(crate) mod amounts;
mod classes;
mod limits;
mod priority;
pub(crate) mod quota;
mod refusals;
mod runtime_class;
mod tolerations;
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
const CHANGES: [(Plugin, &str, &str, Change); 6] = [
    (Plugin::LimitRanger, "", "pods", limits::set_defaults),
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
];

/// Checks of objects: plugin, operation, group, resource.
const CHECKS: [(Plugin, Operation, &str, &str, Check); 6] = [
    (
        Plugin::LimitRanger,
        Operation::Create,
        "",
        "pods",
        limits::check_pod,
    ),
    (
        Plugin::LimitRanger,
        Operation::Create,
        "",
        "persistentvolumeclaims",
        limits::check_claim,
    ),
    (
        Plugin::LimitRanger,
        Operation::Update,
        "",
        "persistentvolumeclaims",
        limits::check_claim,
    ),
    (
        Plugin::Priority,
        Operation::Create,
        "scheduling.k8s.io",
        "priorityclasses",
        priority::check_class,
    ),
    (
        Plugin::PersistentVolumeClaimResize,
        Operation::Update,
        "",
        "persistentvolumeclaims",
        refusals::check_resize,
    ),
    (
        Plugin::CertificateSubjectRestriction,
        Operation::Create,
        "certificates.k8s.io",
        "certificatesigningrequests",
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

/// Returns whether a plugin checks an operation on this resource.
pub(crate) fn checks(
    plugins: AdmissionPlugins,
    resource: &ResourceInfo,
    operation: Operation,
) -> bool {
    CHECKS.iter().any(|(plugin, of, group, plural, _)| {
        *of == operation && plugins.has(*plugin) && is(resource, group, plural)
    })
}

/// Applies the checking plugins.
///
/// # Errors
/// 403 in the words of the plugin.
pub(crate) fn validate(question: &Question<'_>, objects: Objects<'_>) -> Result<(), Box<Status>> {
    let plugins = question.state.plugins;
    for (plugin, operation, group, plural, check) in &CHECKS {
        let is_asked = *operation == question.operation && plugins.has(*plugin);
        if is_asked && is(question.resource, group, plural) {
            check(question, objects)?;
        }
    }
    Ok(())
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
    let prefix = format!("{}/", question.namespace.unwrap_or_default());
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

/// Returns whether an annotation has the value `true`.
fn is_default(object: &Stored, annotation: &str) -> bool {
    let value = object.value();
    value["metadata"]["annotations"][annotation] == "true"
}
