//! Default classes: of storage for claims, and of ingresses.
//!
//! ```text
//! no class named ──newest class marked as default──▶ its name
//! ```
//!
//! A class that is named as an empty text stays so: the claim wants none.
//!
//! Upstream: `kubernetes:plugin/pkg/admission/storage/storageclass/setdefault`,
//! `plugin/pkg/admission/network/defaultingressclass`.

use std::cmp::Reverse;

use kinform_api::Status;
use serde_json::Value;

use super::{all, is_default};
use crate::admission::Question;
use crate::object::{at, text};

const STORAGE: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
const INGRESS: &str = "ingressclass.kubernetes.io/is-default-class";
const OLD_INGRESS: &str = "kubernetes.io/ingress.class";
const OLD_STORAGE: &str = "volume.beta.kubernetes.io/storage-class";

/// Sets the storage class of a new claim.
pub(super) fn set_storage_class(
    question: &Question<'_>,
    claim: &mut Value,
) -> Result<(), Box<Status>> {
    let has_annotation = !claim["metadata"]["annotations"][OLD_STORAGE].is_null();
    if !claim["spec"]["storageClassName"].is_null() || has_annotation {
        return Ok(());
    }
    if let Some(name) = default_of(question, "storageclasses.storage.k8s.io", &STORAGE) {
        claim["spec"]["storageClassName"] = Value::from(name);
    }
    Ok(())
}

/// Sets the class of a new ingress.
pub(super) fn set_ingress_class(
    question: &Question<'_>,
    ingress: &mut Value,
) -> Result<(), Box<Status>> {
    let has_annotation = !ingress["metadata"]["annotations"][OLD_INGRESS].is_null();
    if !ingress["spec"]["ingressClassName"].is_null() || has_annotation {
        return Ok(());
    }
    if let Some(name) = default_of(question, "ingressclasses.networking.k8s.io", &[INGRESS]) {
        ingress["spec"]["ingressClassName"] = Value::from(name);
    }
    Ok(())
}

/// The name of the newest class that is marked as default; of classes of one second, the first by
/// name.
fn default_of(question: &Question<'_>, shelf: &str, annotations: &[&str]) -> Option<String> {
    let view = all(question, shelf);
    let marked = |class: &&_| annotations.iter().any(|of| is_default(class, of));
    let defaults = view.snapshot.iter().filter(|class| marked(&&***class));
    let newest = defaults.max_by_key(|class| {
        let value = class.value();
        let made = at(&value, &["metadata", "creationTimestamp"]).and_then(Value::as_str);
        (
            made.map(str::to_owned),
            Reverse(text(&value, &["metadata", "name"]).to_owned()),
        )
    });
    newest.map(|class| class.name().to_owned())
}
