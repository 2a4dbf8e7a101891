//! The identity of a snapshot: what must be the same for it to be used.
//!
//! ```text
//! kube-system's uid, the user's name │ resource, selection, form, projection, release → lines
//! ```
//!
//! The uid of the namespace `kube-system` is that of a cluster for as long as it lives, and survives
//! a restore. The user belongs to it, since another one may not list the same objects.
//! BOUND: each question ends after five seconds.
//!
//! Upstream counterpart: none; `k8s.io/api/authentication/v1` (`SelfSubjectReview`) names the user.

use std::fmt::Write as _;
use std::hash::Hasher;
use std::time::Duration;

use kinform_core::object::projection::Projection;
use kube_client::Client;
use serde_json::{Value, json};

use crate::source::{Representation, ResourceInfo};

/// BOUND: the time for one question.
const LIMIT: Duration = Duration::from_secs(5);

/// The names of a cluster and of the user there.
#[derive(Clone, Debug)]
pub(crate) struct ServerIdentity {
    cluster: String,
    user: String,
}

/// The part of a cluster that an informer caches, and its form.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    resource: String,
    lines: String,
    /// Of informers with one selection, in one folder.
    variant: String,
}

impl Selected {
    pub(crate) fn new(
        info: &ResourceInfo,
        representation: Representation,
        projection: &Projection,
        variant: String,
    ) -> Self {
        let of = &info.resource;
        let mut lines = String::new();
        let mut line = |name: &str, value: &str| {
            // A line is a line, whatever a selector has in it.
            let _ = writeln!(lines, "{name}: {}", value.escape_debug());
        };
        line(
            "resource",
            &format!("{}/{}/{}", of.group, of.version, of.resource),
        );
        line("kind", &info.kind);
        line("namespace", info.namespace.as_deref().unwrap_or("*"));
        line(
            "label selector",
            info.label_selector.as_deref().unwrap_or(""),
        );
        line(
            "field selector",
            info.field_selector.as_deref().unwrap_or(""),
        );
        line("form", &format!("{representation:?}"));
        line("projection", &format!("{projection:?}"));
        let resource = match of.group.is_empty() {
            true => of.resource.clone(),
            false => format!("{}.{}", of.resource, of.group),
        };
        Self {
            resource,
            lines,
            variant,
        }
    }

    /// The name of its file: that of the resource, and a hash of the selection. Two selections of one
    /// hash would take each other's place, and be refused.
    pub(super) fn file_name(&self) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let plain = |c| if is_plain(c) { c } else { '_' };
        let resource: String = self.resource.chars().map(plain).take(100).collect();
        // The hasher's keys are fixed: the name is the same in each process.
        #[expect(deprecated, reason = "the only hasher of std whose result is fixed")]
        let mut hasher = std::hash::SipHasher::new();
        hasher.write(self.lines.as_bytes());
        hasher.write(self.variant.as_bytes());
        format!("{resource}-{:016x}.snapshot", hasher.finish())
    }

    pub(super) fn identity(&self, server: &ServerIdentity) -> String {
        let ServerIdentity { cluster, user } = server;
        let (cluster, user) = (cluster.escape_debug(), user.escape_debug());
        let release = env!("CARGO_PKG_VERSION");
        let lines = &self.lines;
        format!("cluster: {cluster}\nuser: {user}\nrelease of kinform: {release}\n{lines}")
    }
}

/// Asks the server which cluster it is and who the user is, as far as the program did not say it.
pub(super) async fn of_server(
    client: Option<Client>,
    cluster: Option<String>,
    user: Option<String>,
) -> Result<ServerIdentity, String> {
    let asked = || {
        let source = "the source of the informer has no client to ask for the cluster and the user";
        client.clone().ok_or_else(|| source.to_owned())
    };
    let cluster = match cluster {
        Some(name) => name,
        None => {
            ask(
                asked()?,
                uid_request(),
                "/metadata/uid",
                "get namespace kube-system",
            )
            .await?
        }
    };
    let user = match user {
        Some(name) => name,
        None => {
            let what = "create selfsubjectreviews.authentication.k8s.io";
            ask(asked()?, user_request(), "/status/userInfo/username", what).await?
        }
    };
    Ok(ServerIdentity { cluster, user })
}

async fn ask(
    client: Client,
    request: http::Request<Vec<u8>>,
    pointer: &str,
    what: &str,
) -> Result<String, String> {
    let reply = tokio::time::timeout(LIMIT, client.request::<Value>(request)).await;
    let reply = reply.map_err(|_| format!("{what}: no reply within {LIMIT:?}"))?;
    let reply = reply.map_err(|error| crate::error::one_line(&format!("{what}: {error}")))?;
    let found = reply.pointer(pointer).and_then(Value::as_str);
    let found = found.filter(|text| !text.is_empty());
    found
        .map(str::to_owned)
        .ok_or_else(|| format!("{what}: the reply has no {pointer}"))
}

fn uid_request() -> http::Request<Vec<u8>> {
    let mut request = http::Request::new(Vec::new());
    *request.uri_mut() = http::Uri::from_static("/api/v1/namespaces/kube-system");
    request
}

fn user_request() -> http::Request<Vec<u8>> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let mut request = http::Request::new(review.to_string().into_bytes());
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() =
        http::Uri::from_static("/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let json = http::HeaderValue::from_static("application/json");
    request
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    request
}
