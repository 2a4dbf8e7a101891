//! An admission request, from the body of a call to a typed value.
//!
//! ```text
//! body ──▶ Review (names, user, objects as text) ──▶ AdmissionRequest<K>
//!   └ no review, wrong version, no uid: Refusal (400) with the uid, if it is readable
//! ```
//!
//! Any client that reaches the port can send a body. Bodies are bounded before, and read without
//! recursion until an object is decoded, which ends at 128 levels.
//!
//! Upstream counterpart: `controller-runtime:pkg/webhook/admission/{http,decode}.go`.

use k8s_openapi::api::authentication::v1::UserInfo;
use kube_core::{GroupVersionKind, GroupVersionResource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::refusal::{Refusal, without_values};

/// The kind of the body.
pub(super) const KIND: &str = "AdmissionReview";
/// The one version that is spoken: v1beta1 ended with Kubernetes 1.22.
pub(super) const VERSION: &str = "admission.k8s.io/v1";

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// An object is created; by an apply or a PUT, too.
    Create,
    /// An object is updated or patched. The removal of the last finalizer is an update.
    Update,
    /// An object is deleted.
    Delete,
    /// A connection to an object, such as `exec`.
    Connect,
}

/// A request that an API server asks about.
///
/// The objects are decoded as `K`.
///
/// Upstream: `admission.Request`, whose objects are decoded by hand.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AdmissionRequest<K> {
    /// The identity of this call, another one for each call.
    pub uid: String,
    /// The kind of the object, as the webhook's rule wants it.
    pub kind: GroupVersionKind,
    /// The resource, as the webhook's rule wants it.
    pub resource: GroupVersionResource,
    /// The subresource, as the webhook's rule wants it.
    pub sub_resource: Option<String>,
    /// The kind that the user sent. It differs from [`Self::kind`] if the server has converted.
    pub request_kind: GroupVersionKind,
    /// The resource that the user asked for.
    pub request_resource: GroupVersionResource,
    /// The subresource that the user asked for.
    pub request_sub_resource: Option<String>,
    /// The name of the object. Empty for a mutating webhook if the name will be generated.
    pub name: String,
    /// The namespace; that of a Namespace is its own name.
    pub namespace: Option<String>,
    /// The operation.
    pub operation: Operation,
    /// The user, with the groups and extra data that authentication gave.
    pub user: UserInfo,
    /// The object as it would be stored; `None` for a deletion and a connection.
    pub object: Option<K>,
    /// The object as it is stored; `None` for a creation and a connection.
    pub old_object: Option<K>,
    /// Set for a dry run: the object is not stored, and the webhook must have no side effects.
    pub dry_run: bool,
    /// The options of the operation, such as `CreateOptions`. Of a connection they are the options
    /// of its subresource, such as `PodExecOptions`.
    pub options: Option<Value>,
}

/// A review whose objects are still text.
#[derive(Debug)]
pub(super) struct Review<'a> {
    request: Request<'a>,
    operation: Operation,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(default)]
    uid: String,
    kind: Kind,
    resource: Resource,
    sub_resource: Option<String>,
    request_kind: Option<Kind>,
    request_resource: Option<Resource>,
    request_sub_resource: Option<String>,
    #[serde(default)]
    name: Option<String>,
    namespace: Option<String>,
    operation: String,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
    dry_run: Option<bool>,
    #[serde(borrow)]
    options: Option<&'a RawValue>,
}

/// Absent members are empty, as Go writes them.
#[derive(Clone, Debug, Deserialize)]
struct Kind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Resource {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    resource: String,
}

impl<'a> Review<'a> {
    /// Reads the body of a call.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Refusal> {
        let request = envelope(body, KIND, VERSION)?;
        let bad = |line: String| Refusal::bad(line).with_uid(uid_of(request).as_deref());
        let request: Request<'a> = serde_json::from_str(request.get()).map_err(|error| {
            bad(format!(
                "not an {KIND}: request: {}",
                without_values(&error)
            ))
        })?;
        if request.uid.is_empty() {
            return Err(bad(format!("not an {KIND}: the request has no uid")));
        }
        let operation = match request.operation.as_str() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            "CONNECT" => Operation::Connect,
            _ => return Err(bad("the operation is not known".to_owned())),
        };
        Ok(Self { request, operation })
    }

    pub(super) fn uid(&self) -> &str {
        &self.request.uid
    }

    fn bad(&self, line: impl AsRef<str>) -> Refusal {
        Refusal::bad(line).with_uid(Some(self.uid()))
    }

    /// Checks that the objects are of a kind: another one is a mistake in a webhook's rules.
    ///
    /// An object of a subresource has a kind of its own, and so do the options of a connection.
    pub(super) fn expect(&self, expected: &GroupVersionKind) -> Result<(), Refusal> {
        let Kind {
            group,
            version,
            kind,
        } = &self.request.kind;
        let is_it = (group, version, kind) == (&expected.group, &expected.version, &expected.kind);
        if is_it || self.operation == Operation::Connect {
            return Ok(());
        }
        let (got, expected) = (
            shown(group, version, kind),
            shown(&expected.group, &expected.version, &expected.kind),
        );
        Err(self.bad(format!(
            "this webhook is for {expected}, and was called for {got}: check its rules"
        )))
    }

    /// Decodes the objects.
    pub(super) fn typed<K: DeserializeOwned>(&self) -> Result<AdmissionRequest<K>, Refusal> {
        let request = &self.request;
        let (object, old_object, options) = match self.operation {
            Operation::Connect => (None, None, request.object.or(request.options)),
            _ => (request.object, request.old_object, request.options),
        };
        let (kind, resource) = (request.kind.clone(), request.resource.clone());
        let request_kind = request.request_kind.clone().unwrap_or_else(|| kind.clone());
        let request_resource = request.request_resource.clone();
        let request_resource = request_resource.unwrap_or_else(|| resource.clone());
        let request_sub_resource = request.request_sub_resource.clone();
        let typed = AdmissionRequest {
            uid: request.uid.clone(),
            kind: kind.into(),
            resource: resource.into(),
            sub_resource: request.sub_resource.clone(),
            request_kind: request_kind.into(),
            request_resource: request_resource.into(),
            request_sub_resource: request_sub_resource.or_else(|| request.sub_resource.clone()),
            name: request.name.clone().unwrap_or_default(),
            namespace: request.namespace.clone(),
            operation: self.operation,
            user: request.user_info.clone(),
            object: self.decode("object", object)?,
            old_object: self.decode("oldObject", old_object)?,
            dry_run: request.dry_run.unwrap_or_default(),
            options: self.decode("options", options)?,
        };
        let (needs_new, needs_old) = match self.operation {
            Operation::Create => (true, false),
            Operation::Update => (true, true),
            Operation::Delete => (false, true),
            Operation::Connect => (false, false),
        };
        if needs_new && typed.object.is_none() {
            return Err(self.bad("the request has no object"));
        }
        if needs_old && typed.old_object.is_none() {
            return Err(self.bad("the request has no oldObject"));
        }
        Ok(typed)
    }

    /// The object as it was sent.
    pub(super) fn original(&self) -> Result<Option<Value>, Refusal> {
        self.decode("object", self.request.object)
    }

    fn decode<T: DeserializeOwned>(
        &self,
        name: &str,
        text: Option<&RawValue>,
    ) -> Result<Option<T>, Refusal> {
        let Some(text) = text else { return Ok(None) };
        serde_json::from_str(text.get()).map(Some).map_err(|error| {
            let fault = without_values(&error);
            self.bad(format!("{name} cannot be decoded: {fault}"))
        })
    }
}

/// The request in a review of this kind and version.
pub(super) fn envelope<'a>(
    body: &'a [u8],
    kind: &str,
    version: &str,
) -> Result<&'a RawValue, Refusal> {
    if body.is_empty() {
        return Err(Refusal::bad(format!("not {}: the body is empty", a(kind))));
    }
    let envelope: Envelope<'a> = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("not {}: {}", a(kind), without_values(&error))))?;
    let uid = || envelope.request.and_then(uid_of);
    let bad = |line: String| Err(Refusal::bad(line).with_uid(uid().as_deref()));
    if envelope.kind != kind {
        return bad(format!("not {}: the body is of another kind", a(kind)));
    }
    if envelope.api_version != version {
        return bad(format!(
            "only {version} is spoken: set {:?} in the webhook's versions",
            version.rsplit('/').next().unwrap_or_default()
        ));
    }
    match envelope.request {
        Some(request) => Ok(request),
        None => bad(format!("not {}: it has no request", a(kind))),
    }
}

/// The kind with its article.
fn a(kind: &str) -> String {
    let article = if kind.starts_with('A') { "an" } else { "a" };
    format!("{article} {kind}")
}

/// The uid of a request that may be broken otherwise.
pub(super) fn uid_of(request: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Uid {
        uid: String,
    }
    let found: Uid = serde_json::from_str(request.get()).ok()?;
    Some(found.uid)
}

fn shown(group: &str, version: &str, kind: &str) -> String {
    let slash = if group.is_empty() { "" } else { "/" };
    format!("{kind} of {group}{slash}{version}")
}

impl From<Kind> for GroupVersionKind {
    fn from(kind: Kind) -> Self {
        Self::gvk(&kind.group, &kind.version, &kind.kind)
    }
}

impl From<Resource> for GroupVersionResource {
    fn from(of: Resource) -> Self {
        Self::gvr(&of.group, &of.version, &of.resource)
    }
}
