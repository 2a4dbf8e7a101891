//! Credentials of a request, loaded anew from the configuration when a server rejects them.
//!
//! ```text
//! request → + Authorization → inner → 401? ──▶ read token file, ask provider again (once in 10 s)
//!                                     the caller receives the 401; its next try has the new ones
//! ```
//!
//! kube's layer reads a token again when it expires by the clock: a token that was revoked or
//! replaced before is still sent for a minute. No request is retried here. Exec plugins are not
//! here but in `exec`: they may print certificates, too.
//! BOUND: one renewal in 10 s, however many requests are refused.
//!
//! Upstream counterpart: `client-go:transport/token_source.go` (`ResetTokenOlderThan`).

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode};
use kinform_core::time::Instant;
use kube_client::Config;
use kube_client::client::middleware::AuthLayer;
use kube_client::client::{Body, ConfigExt};
use kube_client::config::AuthInfo;
use tower::{BoxError, Layer, Service, ServiceExt};

use super::token_file::TokenFile;
use crate::env::Env;
use crate::error::{Error, ErrorKind};

/// The time in which credentials are renewed once, however many requests are refused.
pub(super) const RENEWALS_APART: Duration = Duration::from_secs(10);

/// Adds the credentials of a configuration to each request.
#[derive(Clone)]
pub(super) struct CredentialsLayer(Arc<Shared>);

/// The service of [`CredentialsLayer`].
#[derive(Clone)]
pub(super) struct Credentials<S> {
    inner: S,
    shared: Arc<Shared>,
}

struct Shared {
    config: Config,
    env: Env,
    current: Mutex<Current>,
}

struct Current {
    layer: Source,
    // The time of the last renewal; soon after it, a further refusal is no news.
    renewed_at: Option<Instant>,
}

/// The source of a request's credentials.
#[derive(Clone)]
enum Source {
    /// kube-client's: fixed ones, or those of an authentication provider.
    Kube(Arc<AuthLayer>),
    File(Arc<TokenFile>),
}

impl Source {
    /// `None` if the configuration has no credentials that go into a header.
    fn of(config: &Config, env: &Env) -> Result<Option<Self>, Error> {
        let user = &config.auth_info;
        // In kube-client's order: a provider, a user name and a token come before a file.
        let is_other = user.auth_provider.is_some()
            || (user.username.is_some() && user.password.is_some())
            || user.token.is_some();
        if let Some(path) = user.token_file.as_ref().filter(|_| !is_other) {
            return Ok(Some(Self::File(Arc::new(TokenFile::new(path, env)?))));
        }
        check_tokens(user)?;
        let layer = config.auth_layer().map_err(Error::unusable_config)?;
        Ok(layer.map(|layer| Self::Kube(Arc::new(layer))))
    }

    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Kube(one), Self::Kube(two)) => Arc::ptr_eq(one, two),
            (Self::File(one), Self::File(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}

/// Refuses a token that no header can have, on which kube-client panics.
fn check_tokens(user: &AuthInfo) -> Result<(), Error> {
    // The field's type is a secret of another crate; its kubeconfig form is the way in.
    let form = serde_json::to_value(user).unwrap_or_default();
    let provider = user.auth_provider.iter().flat_map(|it| &it.config);
    let provided = provider.filter(|(name, _)| name.ends_with("token"));
    let tokens = form["token"].as_str().into_iter();
    let mut tokens = tokens.chain(provided.map(|(_, token)| token.as_str()));
    match tokens.all(|token| HeaderValue::from_str(token).is_ok()) {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Config,
            "the token has characters that no header can have",
        )),
    }
}

impl CredentialsLayer {
    /// `None` if the configuration has no credentials that go into a header.
    ///
    /// # Errors
    /// A provider fails, or a token cannot be read or sent.
    pub(super) fn new(config: &Config) -> Result<Option<Self>, Error> {
        let env = Env::system();
        let Some(layer) = Source::of(config, &env)? else {
            return Ok(None);
        };
        Ok(Some(Self(Arc::new(Shared {
            config: config.clone(),
            env,
            current: Mutex::new(Current {
                layer,
                renewed_at: None,
            }),
        }))))
    }
}

impl<S> Layer<S> for CredentialsLayer {
    type Service = Credentials<S>;

    fn layer(&self, inner: S) -> Credentials<S> {
        Credentials {
            inner,
            shared: Arc::clone(&self.0),
        }
    }
}

impl<S, B> Service<Request<Body>> for Credentials<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each call has a service of its own, and waits for it.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        let layer = shared.lock().layer.clone();
        let inner = self.inner.clone();
        Box::pin(async move {
            let response = match &layer {
                Source::Kube(kube) => kube.layer(inner).oneshot(request).await?,
                Source::File(file) => {
                    let headers = request.headers_mut();
                    headers.insert(http::header::AUTHORIZATION, file.header());
                    inner.oneshot(request).await?
                }
            };
            if response.status() == StatusCode::UNAUTHORIZED {
                shared.renew(&layer).await;
            }
            Ok(response)
        })
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the caller is to renew the credentials that were `refused`.
    fn claim(&self, refused: &Source) -> bool {
        let now = self.env.now();
        let mut current = self.lock();
        let is_newest = current.layer.is(refused);
        let is_early = current
            .renewed_at
            .is_some_and(|at| now.since(at) < RENEWALS_APART);
        if !is_newest || is_early {
            return false;
        }
        current.renewed_at = Some(now);
        true
    }

    async fn renew(self: Arc<Self>, refused: &Source) {
        if !self.claim(refused) {
            return;
        }
        // A provider may take its time.
        let shared = Arc::clone(&self);
        let made = tokio::task::spawn_blocking(move || Source::of(&shared.config, &shared.env));
        match made.await {
            Ok(Ok(Some(layer))) => self.lock().layer = layer,
            // The present layer stays; the error is not logged, since it may quote what the
            // provider printed.
            Ok(Ok(None) | Err(_)) | Err(_) => {
                tracing::warn!("the credentials were refused, and there are no new ones");
            }
        }
    }
}
