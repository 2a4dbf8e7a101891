//! Helpers for tests of webhooks: a call in the process, without a server or a certificate.
//!
//! ```text
//! object ──▶ Asked {operation, user, ..} ──▶ Webhooks ──▶ Answered {allowed, object after the patch}
//! ```
//!
//! A call takes the way that an API server's takes, from the body to the bytes of the reply.
//!
//! Upstream counterpart: none; tests of operators call their functions, or start an API server.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube_core::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Webhooks;
use super::error::Error;

/// An admission request for a test.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinform_operator::webhook::testing::Asked;
/// use kinform_operator::webhook::{AdmissionRequest, Error, Verdict, Webhooks, mutate_path};
///
/// async fn label(request: AdmissionRequest<ConfigMap>) -> Result<Verdict, Error> {
///     let mut object = request.object.unwrap_or_default();
///     object.metadata.labels.get_or_insert_default().insert("team".into(), "a".into());
///     Ok(Verdict::change(&object))
/// }
///
/// let webhooks = Webhooks::new().mutate(label)?;
/// let answered = Asked::create(&ConfigMap::default())
///     .call(&webhooks, &mutate_path::<ConfigMap>())
///     .await?;
/// let object: ConfigMap = answered.object()?;
/// assert_eq!(object.metadata.labels.unwrap_or_default()["team"], "a");
/// # Ok::<_, Error>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Asked {
    request: Value,
    timeout: String,
}

impl Asked {
    /// The creation of an object.
    pub fn create<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Self {
        Self::new::<K>("CREATE", Some(object), None)
    }

    /// An update of an object.
    pub fn update<K: Resource<DynamicType = ()> + Serialize>(old: &K, new: &K) -> Self {
        Self::new::<K>("UPDATE", Some(new), Some(old))
    }

    /// The deletion of an object.
    pub fn delete<K: Resource<DynamicType = ()> + Serialize>(old: &K) -> Self {
        Self::new::<K>("DELETE", None, Some(old))
    }

    fn new<K: Resource<DynamicType = ()> + Serialize>(
        operation: &str,
        object: Option<&K>,
        old: Option<&K>,
    ) -> Self {
        let kind =
            json!({ "group": K::group(&()), "version": K::version(&()), "kind": K::kind(&()) });
        let resource = json!({
            "group": K::group(&()), "version": K::version(&()), "resource": K::plural(&()),
        });
        let meta = object
            .or(old)
            .map(|named| named.meta().clone())
            .unwrap_or_default();
        let request = json!({
            "uid": "00000000-0000-4000-8000-000000000000",
            "kind": kind,
            "requestKind": kind,
            "resource": resource,
            "requestResource": resource,
            "name": meta.name,
            "namespace": meta.namespace,
            "operation": operation,
            "userInfo": { "username": "test" },
            "object": sent(object),
            "oldObject": sent(old),
            "dryRun": false,
            "options": null,
        });
        Self {
            request,
            timeout: "10s".to_owned(),
        }
    }

    /// Sets the user.
    pub fn by(mut self, user: &UserInfo) -> Self {
        self.request["userInfo"] = json!(user);
        self
    }

    /// Makes it a dry run.
    pub fn as_dry_run(mut self) -> Self {
        self.request["dryRun"] = true.into();
        self
    }

    /// Sets the subresource.
    pub fn of_sub_resource(mut self, name: &str) -> Self {
        self.request["subResource"] = name.into();
        self.request["requestSubResource"] = name.into();
        self
    }

    /// Sets the time that the caller waits, as in `2s`; 10 s unless set.
    pub fn within(mut self, timeout: impl Into<String>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Calls the webhook at a path.
    ///
    /// # Errors
    /// The call failed: `failurePolicy` would decide. The message is what an API server shows.
    ///
    /// # Cancel safety
    /// The webhook ends where it is when dropped.
    pub async fn call(&self, webhooks: &Webhooks, path: &str) -> Result<Answered, Error> {
        let review = json!({
            "kind": super::review::KIND,
            "apiVersion": super::review::VERSION,
            "request": self.request,
        });
        let uri = format!("{path}?timeout={}", self.timeout);
        let (code, body) = post(webhooks, &uri, review.to_string()).await?;
        if code != StatusCode::OK {
            let line = body["message"].as_str().unwrap_or_default();
            return Err(Error::new(format!("{}: {line}", code.as_u16())));
        }
        let broken = |error| Error::new("the reply is no review").with_cause(error);
        let response: Response =
            serde_json::from_value(body["response"].clone()).map_err(broken)?;
        let mut object = self.request["object"].clone();
        if let Some(ByteString(patch)) = &response.patch {
            let patch: json_patch::Patch = serde_json::from_slice(patch).map_err(broken)?;
            json_patch::patch(&mut object, &patch)
                .map_err(|error| Error::new("the patch does not apply").with_cause(error))?;
        }
        Ok(Answered { response, object })
    }
}

/// Converts objects to a version, as an API server asks for it.
///
/// # Errors
/// The call failed, or an object did; the message is what an API server shows.
///
/// # Cancel safety
/// The conversion ends where it is when dropped.
pub async fn convert(
    webhooks: &Webhooks,
    desired_api_version: &str,
    objects: &[Value],
) -> Result<Vec<Value>, Error> {
    let review = json!({
        "kind": super::convert::KIND,
        "apiVersion": super::convert::VERSION,
        "request": {
            "uid": "00000000-0000-4000-8000-000000000000",
            "desiredAPIVersion": desired_api_version,
            "objects": objects,
        },
    });
    let uri = format!("{}?timeout=30s", super::CONVERT_PATH);
    let (code, mut body) = post(webhooks, &uri, review.to_string()).await?;
    let message = |body: &Value| body["message"].as_str().unwrap_or_default().to_owned();
    if code != StatusCode::OK {
        return Err(Error::new(format!("{}: {}", code.as_u16(), message(&body))));
    }
    let response = &mut body["response"];
    if response["result"]["status"] != "Success" {
        return Err(Error::new(message(&response["result"])));
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Err(Error::new("the reply has no objects")),
    }
}

/// The body with its type, as a server sends it.
fn sent<K: Resource<DynamicType = ()> + Serialize>(object: Option<&K>) -> Value {
    let mut value = json!(object);
    if let Value::Object(members) = &mut value {
        members.insert("apiVersion".to_owned(), K::api_version(&()).into());
        members.insert("kind".to_owned(), K::kind(&()).into());
    }
    value
}

/// Sends a body to a path, as an API server does.
pub(super) async fn post(
    webhooks: &Webhooks,
    uri: &str,
    body: impl Into<Bytes>,
) -> Result<(StatusCode, Value), Error> {
    let request = Request::post(uri)
        .header(CONTENT_TYPE, "application/json")
        .body(body.into())
        .map_err(|error| Error::new("no path of a webhook").with_cause(error))?;
    let reply = webhooks.handler()(request).await;
    let code = reply.status();
    let body = serde_json::from_slice(reply.body().whole())
        .map_err(|error| Error::new("the reply is no JSON").with_cause(error))?;
    Ok((code, body))
}

/// The verdict on an admission request.
#[derive(Clone, Debug)]
pub struct Answered {
    response: Response,
    object: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    allowed: bool,
    #[serde(default)]
    status: Value,
    patch: Option<ByteString>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    audit_annotations: std::collections::BTreeMap<String, String>,
}

impl Answered {
    /// Returns whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        self.response.allowed
    }

    /// The message of a denial.
    pub fn message(&self) -> Option<&str> {
        self.response.status["message"].as_str()
    }

    /// The HTTP code of a denial.
    pub fn code(&self) -> Option<u16> {
        let code = self.response.status["code"].as_u64()?;
        code.try_into().ok()
    }

    /// The warnings.
    pub fn warnings(&self) -> &[String] {
        &self.response.warnings
    }

    /// An annotation for the audit event.
    pub fn audit_annotation(&self, key: &str) -> Option<&str> {
        self.response.audit_annotations.get(key).map(String::as_str)
    }

    /// Returns whether the webhook sent a patch.
    pub fn is_patched(&self) -> bool {
        self.response.patch.is_some()
    }

    /// The object after the patch, or as it was asked for.
    ///
    /// # Errors
    /// It does not decode, or the request was about a deletion.
    pub fn object<K: DeserializeOwned>(&self) -> Result<K, Error> {
        serde_json::from_value(self.object.clone())
            .map_err(|error| Error::new("the object cannot be decoded").with_cause(error))
    }
}
