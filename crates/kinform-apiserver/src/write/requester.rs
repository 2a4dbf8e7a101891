//! Requester of a certificate, recorded in the signing request.
//!
//! ```text
//! signing request + user -> spec.{username, uid, groups, extra}: never from the body
//! ```
//!
//! Approvers and signers rely on these fields. Only the handler of the request knows the user.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/certificates/certificates/strategy.go`
//! (`PrepareForCreate`).

use serde_json::{Value, json};

use super::{Action, Answer, Outcome};
use crate::access::User;
use crate::resource::ResourceInfo;

/// Sets the requester in a new signing request.
pub(super) fn put(resource: &ResourceInfo, user: &User, outcome: &mut Outcome) {
    if (resource.group.as_str(), resource.plural.as_str())
        != ("certificates.k8s.io", "certificatesigningrequests")
    {
        return;
    }
    let object = match (&mut outcome.action, &mut outcome.answer) {
        (Action::Create(object), _) | (Action::Nothing, Answer::Object(object)) => object,
        _ => return,
    };
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, value, is_empty) in [
        ("username", json!(user.name()), user.name().is_empty()),
        ("uid", json!(user.uid()), user.uid().is_empty()),
        ("groups", json!(user.groups()), user.groups().is_empty()),
        ("extra", json!(user.extra()), user.extra().is_empty()),
    ] {
        if is_empty {
            spec.remove(name);
        } else {
            spec.insert(name.to_owned(), value);
        }
    }
}
