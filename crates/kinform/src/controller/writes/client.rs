//! The client of one run: notes what it writes.
//!
//! ```text
//! GET ──────────────────────────────▶ server
//! POST, PUT, PATCH, DELETE ──▶ server ──▶ reply, read to its end ──▶ version | uid | unknown
//! ```
//!
//! A delete that needs a fresher view is not sent.
//! A request that is dropped, or has no reply, counts as unknown. A reply that refuses wrote nothing.
//!
//! Upstream counterpart: `controller-runtime:pkg/client/consistency.go`.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use kinform_api::{ObjectKey, mutant};
use kube_client::Client;
use kube_client::client::Body;
use serde::Deserialize;
use tower::BoxError;

use super::target::Target;
use super::{Effect, Writes};
use crate::controller::echo::Certainty;
use crate::controller::signs::Effects;
use crate::controller::view::View;

/// BOUND: bytes of a reply that is read: an object has a few MiB, a deleted collection lists its own.
const MAX_REPLY: usize = 64 << 20;

/// A client above `below` whose writes are noted for `key`.
pub(super) fn noting(
    (writes, effects): (Arc<Writes>, Arc<Effects>),
    key: ObjectKey,
    view: Arc<View>,
    below: &Client,
) -> Client {
    let (below, namespace) = (below.clone(), below.default_namespace().to_owned());
    let send = move |request: Request<Body>| {
        let (client, writes, key) = (below.clone(), Arc::clone(&writes), key.clone());
        let (view, effects) = (Arc::clone(&view), Arc::clone(&effects));
        async move { pass(&client, (&writes, &key, &effects), &view, request).await }
    };
    Client::new(tower::service_fn(send), namespace)
}

type Reply = Response<http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>>;

async fn pass(
    client: &Client,
    (writes, key, effects): (&Writes, &ObjectKey, &Effects),
    view: &View,
    request: Request<Body>,
) -> Result<Reply, BoxError> {
    let Some(target) = written(&request) else {
        let reply = client.send(request).await?;
        return Ok(reply.map(|body| body.map_err(Into::into).boxed_unsync()));
    };
    let is_delete = request.method() == Method::DELETE;
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    // The options of a delete are its body.
    let is_dry = is_delete && is_dry_run(&body);
    if is_delete && !is_dry && !mutant!("R4") {
        view.allow_delete().await?;
    }
    let is_change = matches!(head.method, Method::PUT | Method::PATCH);
    let cached = is_change.then(|| writes.cached_version(&target)).flatten();
    let mut noting = Noting {
        about: (!is_dry).then_some((writes, key, target)),
        effects,
        is_noop: false,
        stated: stated_version(&body),
        is_created: false,
    };
    let request = Request::from_parts(head, Body::from(body));
    let reply = client.send(request).await?;
    let (head, body) = reply.into_parts();
    // A 4xx means that nothing was stored; a 408 may come after the write.
    let is_refused = head.status.is_client_error() && head.status != StatusCode::REQUEST_TIMEOUT;
    let body = http_body_util::Limited::new(body, MAX_REPLY);
    let bytes = body.collect().await?.to_bytes();
    if is_refused {
        noting.about = None;
    } else if head.status.is_success() {
        let effect = effect(&bytes, is_delete);
        if is_change && effect.is_of_version([&cached, &noting.stated]) {
            writes.counters.noop_writes.add(1);
            noting.is_noop = true;
        }
        noting.is_created = head.status == StatusCode::CREATED;
        noting.tell(effect);
    }
    let body = Full::new(bytes).map_err(|never| match never {});
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

/// The target of a request that writes; `None` for others, and for dry runs.
fn written(request: &Request<Body>) -> Option<Target> {
    let is_write = !matches!(*request.method(), Method::GET | Method::HEAD);
    let query = request.uri().query().unwrap_or_default();
    let is_dry = query.split('&').any(|pair| pair.starts_with("dryRun="));
    if !is_write || is_dry {
        return None;
    }
    let target = Target::parse(request.uri().path())?;
    // These change no object of this resource.
    let others = ["attach", "exec", "portforward", "proxy", "token"];
    let is_other = |part: &str| others.contains(&part);
    (!target.subresource.as_deref().is_some_and(is_other)).then_some(target)
}

/// Returns whether the options of a delete ask for a dry run.
fn is_dry_run(options: &[u8]) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Options {
        dry_run: Vec<String>,
    }
    serde_json::from_slice::<Options>(options).is_ok_and(|options| !options.dry_run.is_empty())
}

/// The version that the object must have for the write to happen.
fn stated_version(request: &[u8]) -> Option<String> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Stated {
        resource_version: Option<String>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Body {
        metadata: Stated,
    }
    let body = serde_json::from_slice::<Body>(request).ok()?;
    let version = body.metadata.resource_version;
    version.filter(|version| !version.is_empty())
}

/// Notes an unknown effect if it is dropped before the effect is known.
struct Noting<'a> {
    about: Option<(&'a Writes, &'a ObjectKey, Target)>,
    effects: &'a Effects,
    is_noop: bool,
    /// The version that the request requires.
    stated: Option<String>,
    is_created: bool,
}

impl Noting<'_> {
    fn tell(&mut self, effect: Effect) {
        if let Some((writes, key, target)) = self.about.take() {
            match self.is_noop {
                true => self.effects.keep(),
                false => self.effects.change(),
            }
            let changed = |before: &&String| match &effect {
                Effect::Stored { version, .. } => version != *before,
                _ => false,
            };
            let from = self.stated.as_ref().filter(changed);
            let from = from.and_then(|before| before.parse().ok());
            let certainty = match from {
                _ if self.is_created => Certainty::Created,
                Some(from) => Certainty::Changed(from),
                None => Certainty::Likely,
            };
            writes.note(key, target, effect, certainty);
        }
    }
}

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        self.tell(Effect::Unknown);
    }
}

/// The members of a reply that state its effect.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Told {
    kind: String,
    metadata: Metadata,
    details: Details,
    items: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    namespace: Option<String>,
    name: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
    labels: Option<HashMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    name: String,
    uid: String,
}

fn effect(reply: &[u8], is_delete: bool) -> Effect {
    let Ok(told) = serde_json::from_slice::<Told>(reply) else {
        return Effect::Unknown;
    };
    let Told {
        kind,
        metadata,
        details,
        items,
    } = told;
    if items.is_some() {
        return Effect::Unknown;
    }
    if is_delete && kind == "Status" && !details.uid.is_empty() {
        return Effect::Deleted {
            namespace: String::new(),
            name: details.name,
            uid: details.uid,
        };
    }
    let namespace = metadata.namespace.unwrap_or_default();
    if is_delete && metadata.deletion_timestamp.is_none() && !metadata.uid.is_empty() {
        // The object as it was last: it is gone.
        return Effect::Deleted {
            namespace,
            name: metadata.name,
            uid: metadata.uid,
        };
    }
    if metadata.resource_version.is_empty() {
        return Effect::Unknown;
    }
    Effect::Stored {
        namespace,
        name: metadata.name,
        version: metadata.resource_version,
        labels: metadata.labels.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replies_tell_a_version_a_uid_or_nothing() {
        let stored = |version: &str| Effect::Stored {
            namespace: "a".into(),
            name: "x".into(),
            version: version.into(),
            labels: HashMap::new(),
        };
        let deleted = |namespace: &str| Effect::Deleted {
            namespace: namespace.into(),
            name: "x".into(),
            uid: "u".into(),
        };
        let object = json!({"kind": "ConfigMap", "metadata": {
            "namespace": "a", "name": "x", "uid": "u", "resourceVersion": "7"}});
        let mut going = object.clone();
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let status = json!({"kind": "Status", "metadata": {}, "status": "Success",
            "details": {"name": "x", "uid": "u"}});
        let list = json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": "7"},
            "items": []});
        for (reply, is_delete, expected) in [
            (&object, false, stored("7")),
            (&going, true, stored("7")),
            (&object, true, deleted("a")),
            (&status, true, deleted("")),
            (&list, true, Effect::Unknown),
            (&json!({"kind": "Status"}), true, Effect::Unknown),
            (&json!("?"), false, Effect::Unknown),
        ] {
            let found = effect(reply.to_string().as_bytes(), is_delete);
            assert_eq!(found, expected, "{reply}");
        }
    }

    #[test]
    fn only_writes_that_may_be_stored_count() {
        for (method, uri, counts) in [
            ("GET", "/api/v1/namespaces/a/pods/x", false),
            ("POST", "/api/v1/namespaces/a/pods?dryRun=All", false),
            ("POST", "/api/v1/namespaces/a/pods/x/exec", false),
            ("POST", "/api/v1/namespaces/a/pods/x/eviction", true),
            ("POST", "/api/v1/namespaces/a/pods?fieldManager=m", true),
            ("PATCH", "/api/v1/namespaces/a/pods/x/status", true),
            ("DELETE", "/api/v1/namespaces/a/pods", true),
        ] {
            let request = Request::builder().method(method).uri(uri);
            let request = request.body(Body::empty()).unwrap();
            assert_eq!(written(&request).is_some(), counts, "{method} {uri}");
        }
        assert!(is_dry_run(br#"{"dryRun": ["All"]}"#));
        let body = br#"{"metadata": {"resourceVersion": "7", "labels": {"a": null}}, "x": 1}"#;
        assert_eq!(stated_version(body).as_deref(), Some("7"));
        for body in ["", "[]", "{}", r#"{"metadata": {"resourceVersion": ""}}"#] {
            assert_eq!(stated_version(body.as_bytes()), None, "{body}");
        }
        for options in ["", "{}", r#"{"dryRun": []}"#, "nonsense"] {
            assert!(!is_dry_run(options.as_bytes()), "{options}");
        }
    }
}
