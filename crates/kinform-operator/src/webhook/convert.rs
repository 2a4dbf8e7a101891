//! A call of the conversion webhook, from a review to converted objects.
//!
//! ```text
//! ConversionReview {uid, desired version, objects} ─▶ chain of the kind, one object after another
//!   ─▶ review {uid, Success, objects} | {uid, Failure, which object, why}
//! ```
//!
//! The first object that fails ends the call: a server does not take a part of them.
//!
//! Upstream counterpart: `controller-runtime:pkg/webhook/conversion`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::conversion::Chain;
use super::refusal::{Refusal, without_values};
use super::review::{envelope, uid_of};

pub(super) const KIND: &str = "ConversionReview";
pub(super) const VERSION: &str = "apiextensions.k8s.io/v1";

/// BOUND: objects that are converted before other tasks have their turn.
const TURN: usize = 32;

/// The chains by group and kind.
pub(super) type Chains = BTreeMap<(String, String), Arc<Chain>>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(default)]
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired: String,
    #[serde(borrow, default)]
    objects: Vec<&'a RawValue>,
}

/// The names of an object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    api_version: String,
    kind: String,
    metadata: Names,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Names {
    name: Option<String>,
    namespace: Option<String>,
}

/// Answers the body of a call with the body of a reply.
pub(super) async fn answer(chains: &Chains, body: &[u8]) -> Result<Bytes, Refusal> {
    let request = envelope(body, KIND, VERSION)?;
    let bad = |line: String| Refusal::bad(line).with_uid(uid_of(request).as_deref());
    let request: Request<'_> = serde_json::from_str(request.get())
        .map_err(|error| bad(format!("not a {KIND}: request: {}", without_values(&error))))?;
    if request.uid.is_empty() {
        return Err(bad(format!("not a {KIND}: the request has no uid")));
    }
    let (objects, result) = match all(chains, &request).await {
        Ok(objects) => (objects, json!({ "status": "Success" })),
        Err(message) => {
            tracing::warn!(fault = message, "a conversion failed");
            (
                Vec::new(),
                json!({ "status": "Failure", "message": message }),
            )
        }
    };
    let review = json!({
        "apiVersion": VERSION,
        "kind": KIND,
        "response": {
            "uid": request.uid,
            "convertedObjects": objects,
            "result": result,
        },
    });
    Ok(Bytes::from(review.to_string()))
}

async fn all(chains: &Chains, request: &Request<'_>) -> Result<Vec<Value>, String> {
    let mut converted = Vec::with_capacity(request.objects.len());
    for (index, text) in request.objects.iter().enumerate() {
        if index % TURN == TURN - 1 {
            tokio::task::yield_now().await;
        }
        let head: Head = serde_json::from_str(text.get())
            .map_err(|error| format!("object {index} is no object: {}", without_values(&error)))?;
        let object = one(chains, &head, &request.desired, text);
        converted.push(object.map_err(|fault| named(index, &head, &fault))?);
    }
    Ok(converted)
}

fn one(chains: &Chains, head: &Head, desired: &str, text: &RawValue) -> Result<Value, String> {
    let group = |api_version: &str| match api_version.split_once('/') {
        Some((group, _)) => group.to_owned(),
        None => String::new(),
    };
    let of = group(&head.api_version);
    if of != group(desired) {
        return Err("it cannot be converted to another group".to_owned());
    }
    let chain = chains.get(&(of, head.kind.clone()));
    let chain = chain.ok_or("this program does not convert its kind")?;
    chain.convert(&head.api_version, desired, text)
}

/// A fault of an object, in one line.
fn named(index: usize, head: &Head, fault: &str) -> String {
    let Names { name, namespace } = &head.metadata;
    let name = name.as_deref().unwrap_or_default();
    let key = match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    };
    let line = format!("object {index} ({} {key}): {fault}", head.kind);
    let line = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    // BOUND: characters of a message, which users see.
    line.take(1024).collect()
}
