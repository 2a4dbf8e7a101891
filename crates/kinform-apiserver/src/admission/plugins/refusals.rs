//! Plugins that only refuse: growing claims, and certificates of the group that may do everything.
//!
//! Upstream: `kubernetes:plugin/pkg/admission/storage/persistentvolume/resize`,
//! `plugin/pkg/admission/certificates/subjectrestriction`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kinform_api::Status;
use serde_json::Value;

use super::forbidden;
use crate::admission::{Objects, Question};
use crate::object::quantity::Quantity;
use crate::object::text;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The group, as the subject of a request for a certificate contains it.
const MASTERS: &[u8] = b"system:masters";

/// Refuses a bound claim that grows, unless its class allows it.
pub(super) fn check_resize(
    question: &Question<'_>,
    objects: Objects<'_>,
) -> Result<(), Box<Status>> {
    let (Some(claim), Some(old)) = (objects.object, objects.old) else {
        return Ok(());
    };
    let size = |claim: &Value| -> Option<Quantity> {
        text(claim, &["spec", "resources", "requests", "storage"])
            .parse()
            .ok()
    };
    let grows = size(claim) > size(old);
    if !grows || text(old, &["status", "phase"]) != "Bound" {
        return Ok(());
    }
    let store = &question.state.store;
    let class = text(claim, &["spec", "storageClassName"]);
    let class = store.get(store.shelf("storageclasses.storage.k8s.io"), class);
    if class.is_some_and(|class| class.value()["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions \
               the pvc must support resize";
    Err(forbidden(question, text(claim, &["metadata", "name"]), why))
}

/// Refuses a request for a client certificate of the group that may do everything.
pub(super) fn check_subject(
    question: &Question<'_>,
    objects: Objects<'_>,
) -> Result<(), Box<Status>> {
    let Some(request) = objects.object else {
        return Ok(());
    };
    let pem = STANDARD
        .decode(text(request, &["spec", "request"]))
        .unwrap_or_default();
    if text(request, &["spec", "signerName"]) != SIGNER || !names_masters(&pem) {
        return Ok(());
    }
    let why = format!("use of {SIGNER} signer with system:masters group is not allowed");
    Err(forbidden(
        question,
        text(request, &["metadata", "name"]),
        &why,
    ))
}

/// Returns whether a request in PEM contains the group's name.
fn names_masters(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("-----"));
    let der = STANDARD
        .decode(lines.collect::<String>())
        .unwrap_or_default();
    der.windows(MASTERS.len()).any(|window| window == MASTERS)
}
