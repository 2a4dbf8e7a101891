//! Tokens of service accounts.
//!
//! ```text
//! TokenRequest { audiences, expirationSeconds, boundObjectRef } ──▶ the same with a token, 201
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/serviceaccount/storage/token.go`,
//! `pkg/apis/authentication/validation`.

use http::Response;
use jiff::{SignedDuration, Timestamp};
use kinform_api::{FieldError, GroupKind, GroupResource, Status};
use serde_json::{Map, Value, json};

use super::{Act, Owners};
use crate::access::{AUDIENCE, Bound, Claim};
use crate::http::body::Body;
use crate::object::{at, metadata, text};
use crate::storage::Stored;

pub(super) const KIND: [&str; 3] = ["authentication.k8s.io", "v1", "TokenRequest"];
/// Default lifetime of a token.
pub(super) const HOUR: i64 = 3600;

/// Issues a token.
pub(super) async fn make(act: &Act<'_>) -> Result<Response<Body>, Box<Status>> {
    let request = act.body_owned(KIND, Owners::Recorded)?;
    let account = act.object()?;
    let said = text(&request, &["metadata", "name"]);
    if !said.is_empty() && said != act.name() {
        let message = format!(
            "the name of the object ({said}) does not match the name on the URL ({})",
            act.name()
        );
        return Err(Box::new(Status::bad_request(message)));
    }
    let now = act.state.clock.now();
    let complete = |request: &mut Value| {
        for (name, value) in described(&account, now) {
            request["metadata"][name] = value;
        }
        let audiences = audiences(request);
        let spec = &mut request["spec"];
        spec["audiences"] = json!(audiences);
        spec["boundObjectRef"] = spec["boundObjectRef"].take();
        request["status"] = json!({"token": "", "expirationTimestamp": null});
    };
    let mut request = act.admitted_create(KIND, request, complete).await?;
    // Read now: it may be another one than before admission was asked.
    let account = act.object()?;
    let seconds = at(&request, &["spec", "expirationSeconds"])
        .and_then(Value::as_i64)
        .unwrap_or(HOUR);
    check_time(seconds)?;
    let audiences = audiences(&request);
    let wanted = at(&request, &["spec", "boundObjectRef"]).filter(|of| !of.is_null());
    let wanted = wanted.cloned();
    let bound = wanted.as_ref().map(|of| bound(act, &account, of));
    let bound = bound.transpose()?;
    let claim = Claim {
        namespace: account.namespace().unwrap_or_default(),
        name: account.name(),
        uid: account.uid(),
        audiences: audiences.clone(),
        bound,
        from: now,
        seconds,
    };
    let token = act.state.access.signer.sign(&claim);
    let token = token.ok_or_else(|| {
        Box::new(Status::internal_error(
            "there is no key to sign tokens with",
        ))
    })?;
    let end = now
        .checked_add(SignedDuration::from_secs(seconds))
        .unwrap_or(now);
    let owners = metadata::of(&mut request).remove("managedFields");
    let mut answer = json!({
        "metadata": Map::from_iter(described(&account, now).map(|(key, of)| (key.to_owned(), of))),
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": wanted,
        },
        "status": {"token": token, "expirationTimestamp": metadata::time(end)},
    });
    if let Some(owners) = owners {
        answer["metadata"]["managedFields"] = owners;
    }
    act.shown(KIND, answer)
}

/// The metadata that a request for a token gets from its account.
fn described(account: &Stored, now: Timestamp) -> [(&'static str, Value); 4] {
    [
        ("name", Value::from(account.name())),
        ("namespace", Value::from(account.namespace())),
        ("uid", Value::from(account.uid())),
        ("creationTimestamp", metadata::time(now)),
    ]
}

/// The audiences of a request; without one, that of this server.
fn audiences(request: &Value) -> Vec<String> {
    let said = request["spec"]["audiences"].as_array();
    let said = said.into_iter().flatten().filter_map(Value::as_str);
    let audiences: Vec<String> = said.map(str::to_owned).collect();
    match audiences.is_empty() {
        true => vec![AUDIENCE.to_owned()],
        false => audiences,
    }
}

fn check_time(seconds: i64) -> Result<(), Box<Status>> {
    let detail = match seconds {
        ..600 => "may not specify a duration less than 10 minutes",
        600..=0x1_0000_0000 => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", seconds, detail);
    let kind = GroupKind::new(KIND[0], KIND[2]);
    Err(Box::new(Status::invalid(&kind, "", &[error])))
}

/// Object to which the token is bound.
fn bound(act: &Act<'_>, account: &Stored, wanted: &Value) -> Result<Bound, Box<Status>> {
    let (version, kind) = (text(wanted, &["apiVersion"]), text(wanted, &["kind"]));
    let (name, uid) = (text(wanted, &["name"]), text(wanted, &["uid"]));
    let namespace = account.namespace().unwrap_or_default();
    let (what, plural, key) = match (version, kind) {
        ("v1", "Pod") => ("pod", "pods", format!("{namespace}/{name}")),
        ("v1", "Secret") => ("secret", "secrets", format!("{namespace}/{name}")),
        ("v1", "Node") => ("node", "nodes", name.to_owned()),
        _ => {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let message =
                format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Box::new(Status::bad_request(message)));
        }
    };
    let resource = GroupResource::new("", plural);
    let found = act.state.store.get(act.state.store.shelf(plural), &key);
    let found = found.ok_or_else(|| Box::new(Status::not_found(&resource, name)))?;
    if !uid.is_empty() && uid != found.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The \
             object might have been deleted and then recreated"
        );
        return Err(Box::new(Status::conflict(&resource, name, &why)));
    }
    let runs_as = found.value();
    let runs_as = text(&runs_as, &["spec", "serviceAccountName"]);
    if what == "pod" && runs_as != account.name() {
        let message = format!(
            "cannot bind token for serviceaccount {:?} to pod running with different \
             serviceaccount name.",
            account.name()
        );
        return Err(Box::new(Status::bad_request(message)));
    }
    Ok(Bound {
        what,
        name: name.to_owned(),
        uid: found.uid().to_owned(),
    })
}
