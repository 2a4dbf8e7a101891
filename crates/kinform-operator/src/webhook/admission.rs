//! The webhooks of a program by their paths, and the dispatch of a call.
//!
//! ```text
//! request ─path─▶ hook ─▶ review ─▶ the user's function, until the deadline ─▶ verdict ─▶ reply
//!   404, 405, 415          400       500: error, panic   504: too late
//! ```
//!
//! Functions get a typed request and run as part of the call: they end when it is given up.
//!
//! Invariant: a reply of code 200 is a verdict that the user's code has given.
//!
//! Upstream counterpart: `controller-runtime:pkg/webhook/{server,admission/webhook}.go`.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use kinform::CancellationToken;
use kinform::env::Env;
use kube_core::{GroupVersionKind, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::certificates::Certificates;
use super::conversion::Conversion;
use super::convert::{self, Chains};
use super::deadline;
use super::error::{Error, UserError};
use super::patch;
use super::refusal::{Refusal, json_reply};
use super::review::{AdmissionRequest, Operation, Review};
use super::stats::{Counters, WebhookStats};
use super::verdict::{Decision, Verdict};
use crate::serve;

/// The path of the conversion webhook.
pub const CONVERT_PATH: &str = "/convert";

/// Answers the body of a call with the body of a reply.
type Call = Arc<dyn Fn(Bytes) -> BoxFuture<'static, Result<Bytes, Refusal>> + Send + Sync>;

#[derive(Clone)]
struct Hook {
    call: Call,
    counters: Arc<Counters>,
    is_conversion: bool,
}

/// The webhooks of a program by their paths.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kinform_operator::webhook::{AdmissionRequest, Error, Verdict, Webhooks};
///
/// async fn validate(request: AdmissionRequest<ConfigMap>) -> Result<Verdict, Error> {
///     let data = request.object.and_then(|object| object.data);
///     if data.is_some_and(|data| data.contains_key("forbidden")) {
///         return Ok(Verdict::deny("this key is forbidden"));
///     }
///     Ok(Verdict::allow())
/// }
///
/// let webhooks = Webhooks::new().validate(validate)?;
/// assert_eq!(webhooks.paths().collect::<Vec<_>>(), ["/validate--v1-configmap"]);
/// # Ok::<_, Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Webhooks {
    hooks: BTreeMap<String, Hook>,
    chains: Chains,
}

impl Webhooks {
    /// No webhooks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function that validates objects of type `K`, at [`validate_path`].
    ///
    /// An object of another kind is a failure of the call.
    ///
    /// # Errors
    /// The path is taken.
    pub fn validate<K, F, Fut, E>(self, function: F) -> Result<Self, Error>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + 'static,
        F: Fn(AdmissionRequest<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
        E: Into<UserError>,
    {
        let call = validating(Some(kind_of::<K>()), function);
        self.add(validate_path::<K>(), call)
    }

    /// Adds a function that validates objects of any kind that decodes as `K`, at a path.
    ///
    /// # Errors
    /// The path is taken, or malformed.
    pub fn validate_at<K, F, Fut, E>(
        self,
        path: impl Into<String>,
        function: F,
    ) -> Result<Self, Error>
    where
        K: DeserializeOwned + Send + 'static,
        F: Fn(AdmissionRequest<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
        E: Into<UserError>,
    {
        self.add(path.into(), validating(None, function))
    }

    /// Adds a function that changes objects of type `K`, at [`mutate_path`].
    ///
    /// It returns [`Verdict::change`] with the object as it should be. It is not called for
    /// deletions, which cannot be changed. API servers call it again after other webhooks: a second
    /// run must change nothing.
    ///
    /// # Errors
    /// The path is taken.
    pub fn mutate<K, F, Fut, E>(self, function: F) -> Result<Self, Error>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Send + 'static,
        F: Fn(AdmissionRequest<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
        E: Into<UserError>,
    {
        let call = mutating(Some(kind_of::<K>()), function);
        self.add(mutate_path::<K>(), call)
    }

    /// Adds a function that changes objects of any kind that decodes as `K`, at a path.
    ///
    /// # Errors
    /// The path is taken, or malformed.
    pub fn mutate_at<K, F, Fut, E>(
        self,
        path: impl Into<String>,
        function: F,
    ) -> Result<Self, Error>
    where
        K: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(AdmissionRequest<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
        E: Into<UserError>,
    {
        self.add(path.into(), mutating(None, function))
    }

    /// Adds the conversion of a kind, at [`CONVERT_PATH`]; all kinds share the path.
    ///
    /// # Errors
    /// The kind has a conversion already, its chain is not of one kind, or the path is taken.
    pub fn convert<K: Send + 'static>(mut self, conversion: Conversion<K>) -> Result<Self, Error> {
        let chain = conversion.into_chain()?;
        let (kind, group) = (chain.kind.clone(), chain.group.clone());
        if self
            .chains
            .insert((group.clone(), kind.clone()), chain)
            .is_some()
        {
            return Err(Error::new(format!("{kind}.{group} has two conversions")));
        }
        if self.chains.len() > 1 {
            self.hooks.remove(CONVERT_PATH);
        }
        let chains = Arc::new(self.chains.clone());
        let call: Call = Arc::new(move |body| {
            let chains = chains.clone();
            async move { convert::answer(&chains, &body).await }.boxed()
        });
        let hook = Hook {
            call,
            counters: Counters::new(),
            is_conversion: true,
        };
        self.add_hook(CONVERT_PATH.to_owned(), hook)
    }

    /// The paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.hooks.keys().map(String::as_str)
    }

    /// The counters of all calls until now.
    pub fn stats(&self) -> WebhookStats {
        let mut stats = WebhookStats::default();
        for (path, hook) in &self.hooks {
            let of_path = hook.counters.snapshot();
            match hook.is_conversion {
                true => stats.conversion_panics += of_path.panics,
                false => stats.admission_panics += of_path.panics,
            }
            stats.paths.insert(path.clone(), of_path);
        }
        stats
    }

    /// Serves them at an address until `stop`, without an operator. It follows the certificates.
    ///
    /// # Errors
    /// The address cannot be bound, or there is no certificate to begin with.
    ///
    /// # Cancel safety
    /// Dropping it cuts all connections.
    pub async fn serve(
        &self,
        address: &str,
        certificates: &Certificates,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let bound = serve::Bound::bind(address)
            .await
            .map_err(Error::from_bind)?;
        self.serve_at(bound, certificates, stop).await
    }

    pub(super) async fn serve_at(
        &self,
        bound: serve::Bound,
        certificates: &Certificates,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let tls = certificates.server_config()?;
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            synced = certificates.sync() => synced?,
        }
        tracing::info!(address = %bound.address(), "webhooks are served");
        let limits = serve::Limits::webhooks();
        let served = bound.serve(Some(tls), limits, self.handler(), stop.clone());
        futures::join!(served, certificates.run(stop));
        Ok(())
    }

    /// Code that answers requests to these paths; 404 for others.
    pub(crate) fn handler(&self) -> serve::Handler {
        let (hooks, env) = (Arc::new(self.hooks.clone()), Env::system());
        Arc::new(move |request| {
            let (hooks, env) = (hooks.clone(), env.clone());
            async move {
                let reply = match hooks.get(request.uri().path()) {
                    Some(hook) => hook.answer(&env, request).await,
                    None => {
                        let line = "no webhook has this path";
                        Refusal::new(StatusCode::NOT_FOUND, line).into_response()
                    }
                };
                reply.map(serve::Body::from)
            }
            .boxed()
        })
    }

    fn add(self, path: String, call: Call) -> Result<Self, Error> {
        let hook = Hook {
            call,
            counters: Counters::new(),
            is_conversion: false,
        };
        self.add_hook(path, hook)
    }

    fn add_hook(mut self, path: String, hook: Hook) -> Result<Self, Error> {
        let is_path = path.starts_with('/')
            && path.parse::<http::uri::PathAndQuery>().is_ok()
            && !path.contains(['?', '#']);
        if !is_path {
            let line = format!("{path:?} is no path of a webhook: it begins with \"/\"");
            return Err(Error::new(line));
        }
        if self.hooks.contains_key(&path) {
            return Err(Error::new(format!("two webhooks have the path {path}")));
        }
        self.hooks.insert(path, hook);
        Ok(self)
    }
}

impl Hook {
    /// Answers a call within its time, and counts it.
    async fn answer(&self, env: &Env, request: Request<Bytes>) -> Response<Bytes> {
        let (began, in_flight) = (env.now(), self.counters.begin());
        let time = deadline::time_for(request.uri().query());
        let path = request.uri().path().to_owned();
        let called =
            tokio::time::timeout(time, AssertUnwindSafe(self.call(request)).catch_unwind());
        let answer = match called.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                in_flight.panicked();
                Err(Refusal::failed("the webhook panicked"))
            }
            Err(_) => {
                let line = format!("the webhook gave no answer within {time:?}");
                Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, line))
            }
        };
        let reply = match answer {
            Ok(body) => json_reply(body),
            Err(refusal) => {
                tracing::warn!(path, fault = refusal.line(), "a webhook gave no verdict");
                refusal.into_response()
            }
        };
        in_flight.answered(reply.status().as_u16(), env.now().since(began));
        reply
    }

    async fn call(&self, request: Request<Bytes>) -> Result<Bytes, Refusal> {
        let (head, body) = request.into_parts();
        if head.method != Method::POST {
            let line = "a webhook is called by POST";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, line));
        }
        if !is_json(&head.headers) {
            let line = "a webhook is called with content type application/json";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, line));
        }
        (self.call)(body).await
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.hooks.keys()).finish()
    }
}

/// The path of a validating webhook of a type, as kubebuilder has it.
///
/// ```
/// use k8s_openapi::api::batch::v1::Job;
/// let path = kinform_operator::webhook::validate_path::<Job>();
/// assert_eq!(path, "/validate-batch-v1-job");
/// ```
pub fn validate_path<K: Resource<DynamicType = ()>>() -> String {
    path("validate", &kind_of::<K>())
}

/// The path of a mutating webhook of a type, as kubebuilder has it.
pub fn mutate_path<K: Resource<DynamicType = ()>>() -> String {
    path("mutate", &kind_of::<K>())
}

fn path(verb: &str, kind: &GroupVersionKind) -> String {
    let group = kind.group.replace('.', "-");
    let name = kind.kind.to_lowercase();
    format!("/{verb}-{group}-{}-{name}", kind.version)
}

fn kind_of<K: Resource<DynamicType = ()>>() -> GroupVersionKind {
    GroupVersionKind::gvk(&K::group(&()), &K::version(&()), &K::kind(&()))
}

/// Returns whether a body is JSON; a parameter of the type changes nothing.
fn is_json(headers: &HeaderMap) -> bool {
    let given = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let kind = given.and_then(|given| given.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

fn validating<K, F, Fut, E>(kind: Option<GroupVersionKind>, function: F) -> Call
where
    K: DeserializeOwned + Send + 'static,
    F: Fn(AdmissionRequest<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
    E: Into<UserError>,
{
    let (function, kind) = (Arc::new(function), Arc::new(kind));
    Arc::new(move |body| {
        let (function, kind) = (function.clone(), kind.clone());
        async move {
            let request = read(&body, kind.as_ref().as_ref())?.typed::<K>()?;
            let uid = request.uid.clone();
            let verdict = run(function(request), &uid).await?;
            if verdict.changed.is_some() {
                let line = "a validating webhook cannot change the object";
                return Err(Refusal::failed(line).with_uid(Some(&uid)));
            }
            Ok(verdict.into_review(&uid, None))
        }
        .boxed()
    })
}

fn mutating<K, F, Fut, E>(kind: Option<GroupVersionKind>, function: F) -> Call
where
    K: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(AdmissionRequest<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
    E: Into<UserError>,
{
    let (function, kind) = (Arc::new(function), Arc::new(kind));
    Arc::new(move |body| {
        let (function, kind) = (function.clone(), kind.clone());
        async move {
            let review = read(&body, kind.as_ref().as_ref())?;
            let request = review.typed::<K>()?;
            let uid = request.uid.clone();
            if request.operation == Operation::Delete {
                return Ok(Verdict::allow().into_review(&uid, None));
            }
            let before = encoded(request.object.as_ref())
                .map_err(|line| Refusal::failed(line).with_uid(Some(&uid)))?;
            let mut verdict = run(function(request), &uid).await?;
            let changed = verdict.changed.take();
            let patch = match (before, changed) {
                (_, None) => None,
                (Some(before), Some(after)) => {
                    let original = review.original()?.unwrap_or_default();
                    patch::patch(&original, &before, &after)
                        .map_err(|refusal| refusal.with_uid(Some(&uid)))?
                }
                (None, Some(_)) => {
                    let line = "the request has no object that could be changed";
                    return Err(Refusal::failed(line).with_uid(Some(&uid)));
                }
            };
            Ok(verdict.into_review(&uid, patch))
        }
        .boxed()
    })
}

fn read<'a>(body: &'a [u8], kind: Option<&GroupVersionKind>) -> Result<Review<'a>, Refusal> {
    let review = Review::read(body)?;
    if let Some(kind) = kind {
        review.expect(kind)?;
    }
    Ok(review)
}

fn encoded<K: Serialize>(object: Option<&K>) -> Result<Option<Value>, String> {
    let encoded = object.map(serde_json::to_value).transpose();
    encoded.map_err(|error| format!("the object cannot be serialized: {error}"))
}

/// Awaits the user's code. An error of it is a failure, never a denial.
async fn run<E: Into<UserError>>(
    answer: impl Future<Output = Result<Verdict, E>>,
    uid: &str,
) -> Result<Verdict, Refusal> {
    let failed = |line: String| Refusal::failed(line).with_uid(Some(uid));
    let verdict = answer
        .await
        .map_err(|error| failed(error.into().to_string()))?;
    match verdict.decision {
        Decision::Fail(message) => Err(failed(message)),
        Decision::Allow | Decision::Deny { .. } => Ok(verdict),
    }
}
