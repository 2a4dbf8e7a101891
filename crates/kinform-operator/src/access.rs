//! Access to metrics and inspector: the API server decides.
//!
//! ```text
//! Authorization: Bearer .. → TokenReview → user → SubjectAccessReview (verb, path) → 200 | 401 | 403
//!                                          user → SubjectAccessReview (list, resource) → names
//! ```
//!
//! Verdicts are cached for a short time, keyed by a digest of the token: the token itself is neither
//! kept nor logged. Reviews that fail are 500; a scraper asks again.
//!
//! Upstream counterpart: `controller-runtime:pkg/metrics/filters`.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{Request, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
#[cfg(feature = "inspect")]
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
#[cfg(feature = "inspect")]
use kinform::GroupVersionResource;
use kube_client::Client;
use kube_client::api::{Api, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// The time for which a verdict holds: upstream's for a token, and for a refusal.
const ALLOWED_FOR: Duration = Duration::from_secs(60);
const DENIED_FOR: Duration = Duration::from_secs(30);
/// Time for one review, all its tries included.
const REVIEW_TIME: Duration = Duration::from_secs(10);
/// BOUND: tries of a review, and the pause before the second.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);
/// BOUND: verdicts kept. Beyond it all are forgotten: a scraper's is found out again.
const MAX_VERDICTS: usize = 1_024;
/// BOUND: bytes of a token that is reviewed; the API server's own limit of a head is 1 MiB.
const MAX_TOKEN: usize = 64 << 10;

/// Asks the API server for each caller.
pub(crate) struct Access {
    client: Client,
    verdicts: Mutex<HashMap<Question, Verdict>>,
    /// Keys of the digests: two, as one alone could be made to collide.
    keys: [RandomState; 2],
}

/// A token's digest, verb and path.
type Question = ([u64; 2], String, String);

#[derive(Clone, Debug)]
struct Verdict {
    outcome: Result<Arc<UserInfo>, Refusal>,
    until: Instant,
}

/// The reply to a caller that may not read this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl Refusal {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, message }
    }
}

impl Access {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            verdicts: Mutex::default(),
            keys: [RandomState::new(), RandomState::new()],
        }
    }

    /// Decides about a request.
    ///
    /// # Errors
    /// The reply to the caller.
    #[cfg(feature = "metrics")]
    pub(crate) async fn check<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        self.caller(request).await.map(drop)
    }

    /// The same; returns the caller.
    ///
    /// # Errors
    /// The reply to the caller.
    pub(crate) async fn caller<B>(&self, request: &Request<B>) -> Result<Arc<UserInfo>, Refusal> {
        let unauthorized = || Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized\n");
        let token = bearer(request).ok_or_else(unauthorized)?;
        if token.len() > MAX_TOKEN {
            return Err(unauthorized());
        }
        let verb = request.method().as_str().to_ascii_lowercase();
        let path = request.uri().path().to_owned();
        let digest = [0, 1].map(|at| self.keys[at].hash_one(token));
        let question = (digest, verb, path);
        if let Some(known) = self.known(&question) {
            return known;
        }
        let (_, verb, path) = &question;
        let outcome = match self.authenticate(token).await? {
            None => Err(unauthorized()),
            Some(user) => {
                let user = Arc::new(user);
                let allowed = self.authorize(&user, verb, path).await?;
                allowed.map(|()| user)
            }
        };
        let holds = match outcome {
            Ok(_) => ALLOWED_FOR,
            Err(_) => DENIED_FOR,
        };
        let verdict = Verdict {
            outcome: outcome.clone(),
            until: Instant::now() + holds,
        };
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if verdicts.len() >= MAX_VERDICTS {
            verdicts.clear();
        }
        verdicts.insert(question, verdict);
        outcome
    }

    fn known(&self, question: &Question) -> Option<Result<Arc<UserInfo>, Refusal>> {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = verdicts.get(question)?;
        if verdict.until <= Instant::now() {
            verdicts.remove(question);
            return None;
        }
        Some(verdict.outcome.clone())
    }

    async fn authenticate(&self, token: &str) -> Result<Option<UserInfo>, Refusal> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let status = self.review(&review).await?.status.unwrap_or_default();
        let is_known = status.authenticated == Some(true);
        Ok(status.user.filter(|_| is_known))
    }

    async fn authorize(
        &self,
        user: &UserInfo,
        verb: &str,
        path: &str,
    ) -> Result<Result<(), Refusal>, Refusal> {
        let name = user.username.clone().unwrap_or_default();
        let spec = SubjectAccessReviewSpec {
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(verb.to_owned()),
            }),
            ..of(user)
        };
        if self.allows(spec).await? {
            return Ok(Ok(()));
        }
        let message = format!("Authorization denied for user {name}\n");
        Ok(Err(Refusal::new(StatusCode::FORBIDDEN, message)))
    }

    /// Returns whether a user may list a resource: in a namespace, or everywhere. Not cached here.
    ///
    /// # Errors
    /// The review failed.
    #[cfg(feature = "inspect")]
    pub(crate) async fn may_list(
        &self,
        user: &UserInfo,
        resource: &GroupVersionResource,
        namespace: Option<&str>,
    ) -> Result<bool, Refusal> {
        let spec = SubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some("list".to_owned()),
                group: Some(resource.group.clone()),
                version: Some(resource.version.clone()),
                resource: Some(resource.resource.clone()),
                namespace: namespace.map(str::to_owned),
                ..ResourceAttributes::default()
            }),
            ..of(user)
        };
        self.allows(spec).await
    }

    async fn allows(&self, spec: SubjectAccessReviewSpec) -> Result<bool, Refusal> {
        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        let status = self.review(&review).await?.status;
        Ok(status.is_some_and(|status| status.allowed))
    }

    /// Creates a review, with retries.
    async fn review<K>(&self, review: &K) -> Result<K, Refusal>
    where
        K: kube_core::Resource<DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let params = PostParams::default();
        let tries = async {
            let mut pause = PAUSE;
            for _ in 1..TRIES {
                match api.create(&params, review).await {
                    Ok(review) => return Ok(review),
                    Err(error @ kube_client::Error::Api(_)) => return Err(error),
                    Err(_) => {}
                }
                tokio::time::sleep(pause).await;
                pause = pause * 3 / 2;
            }
            api.create(&params, review).await
        };
        let failed = |cause: &str| {
            tracing::warn!("cannot review a caller: {cause}");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the review failed\n")
        };
        match tokio::time::timeout(REVIEW_TIME, tries).await {
            Ok(Ok(review)) => Ok(review),
            Ok(Err(error)) => Err(failed(&error.to_string())),
            Err(_) => Err(failed("no reply in time")),
        }
    }
}

/// A review's subject.
fn of(user: &UserInfo) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: user.username.clone(),
        groups: user.groups.clone(),
        uid: user.uid.clone(),
        extra: user.extra.clone(),
        ..SubjectAccessReviewSpec::default()
    }
}

/// The token of a request.
pub(crate) fn bearer<B>(request: &Request<B>) -> Option<&str> {
    let header = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    Some(token).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}
