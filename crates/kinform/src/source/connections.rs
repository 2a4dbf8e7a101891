//! The connections of a client, replaced as its certificate changes.
//!
//! ```text
//! request ──▶ credential of the plugin, files of the certificate ──changed?──▶ new lanes
//!        └──▶ newest lanes ──▶ 401, or the certificate is refused ──▶ the plugin is run again (once in 10 s)
//! ```
//!
//! A connection keeps the certificate of its handshake. So a new one needs new connections;
//! requests under way, as watches, end on the old ones. No request is repeated here.
//!
//! BOUND: the files are read once in ten seconds at most, and are of a megabyte at most.
//! Upstream counterpart: `client-go:transport/cert_rotation.go`, which closes all connections, and
//! `client-go:plugin/pkg/client/auth/exec`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use kinform_core::time::Instant;
use kube_client::Config;
use kube_client::client::Body;
use kube_client::config::ExecConfig;
use tower::timeout::TimeoutLayer;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, ServiceExt};

use super::client_options::ClientOptions;
use super::exec::{Credential, ExecPlugin};
use super::kubeconfig::read_regular;
use super::multiplex::{self, Counted, Multiplexed};
use super::pool;
use super::refusal;
use crate::env::Env;
use crate::error::{Error, ErrorKind};

/// The time between two looks at the files.
const LOOKS_APART: Duration = Duration::from_secs(10);
/// BOUND: a certificate with its chain, or a key.
const MAX_PEM_BYTES: u64 = 1 << 20;

/// A client's certificate and its key, as PEM.
type Identity = (String, String);

/// Sends requests over the newest connections.
#[derive(Clone)]
pub(super) struct Connections(Arc<Shared>);

struct Shared {
    config: Config,
    options: ClientOptions,
    env: Env,
    plugin: Option<ExecPlugin>,
    /// The files of the client's certificate and of its key.
    files: Option<(PathBuf, PathBuf)>,
    current: Mutex<Current>,
}

struct Current {
    /// `None` until the plugin has printed the first credential.
    pool: Option<Multiplexed>,
    identity: Option<Identity>,
    looked_at: Instant,
}

impl Connections {
    /// Connections for a configuration from which the plugin was taken. Connects, and runs the
    /// plugin, with the first request.
    ///
    /// # Errors
    /// A certificate cannot be read or used.
    pub(super) fn new(
        config: &Config,
        options: &ClientOptions,
        plugin: Option<ExecConfig>,
    ) -> Result<Self, Error> {
        let user = &config.auth_info;
        let path = |file: &Option<String>| file.as_ref().map(PathBuf::from);
        let has_data = user.client_certificate_data.is_some() || user.client_key_data.is_some();
        let files = path(&user.client_certificate).zip(path(&user.client_key));
        let files = files.filter(|_| !has_data);
        let env = Env::system();
        let mut current = Current {
            pool: None,
            identity: None,
            looked_at: env.now(),
        };
        if let Some(files) = &files {
            let identity = read(files).map_err(|why| Error::new(ErrorKind::Config, why))?;
            current.identity = Some(identity);
        }
        let shared = Shared {
            config: config.clone(),
            options: options.clone(),
            plugin: plugin.map(|plugin| ExecPlugin::new(plugin, env.clone())),
            env,
            files,
            current: Mutex::new(current),
        };
        if shared.plugin.is_none() {
            let pool = shared.open(shared.lock().identity.as_ref())?;
            shared.lock().pool = Some(pool);
        }
        Ok(Self(Arc::new(shared)))
    }
}

impl Service<Request<Body>> for Connections {
    type Response = Response<Counted>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Counted>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each call has a pool's service of its own, and waits for it.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(Arc::clone(&self.0).send(request))
    }
}

impl Shared {
    async fn send(
        self: Arc<Self>,
        mut request: Request<Body>,
    ) -> Result<Response<Counted>, BoxError> {
        let Some(plugin) = &self.plugin else {
            let pool = self.newest(None)?;
            return pool.oneshot(request).await;
        };
        let credential = plugin.credential().await?;
        if let Some(header) = &credential.header {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
        }
        let pool = self.newest(Some(&credential))?;
        let result = pool.oneshot(request).await;
        let is_refused = match &result {
            Ok(response) => response.status() == StatusCode::UNAUTHORIZED,
            Err(error) => refusal::is_about_a_certificate(error.as_ref()),
        };
        if is_refused {
            plugin.refuse(&credential);
        }
        result
    }

    /// The pool for the certificate as it is now.
    fn newest(&self, credential: Option<&Arc<Credential>>) -> Result<Multiplexed, Error> {
        let mut current = self.lock();
        let identity = match credential {
            Some(credential) => credential.identity.clone(),
            None => self.changed(&mut current),
        };
        if let Some(pool) = &current.pool
            && current.identity == identity
        {
            return Ok(pool.clone());
        }
        let pool = self.open(identity.as_ref())?;
        current.pool = Some(pool.clone());
        current.identity = identity;
        Ok(pool)
    }

    /// The certificate in the files, which are looked at now and then. An unreadable one is not
    /// used: the last stays.
    fn changed(&self, current: &mut Current) -> Option<Identity> {
        let now = self.env.now();
        if let Some(files) = &self.files
            && now.since(current.looked_at) >= LOOKS_APART
        {
            current.looked_at = now;
            match read(files) {
                Ok(identity) => return Some(identity),
                Err(why) => tracing::warn!(why, "the last client certificate is used"),
            }
        }
        current.identity.clone()
    }

    fn open(&self, identity: Option<&Identity>) -> Result<Multiplexed, Error> {
        let mut config = self.config.clone();
        if let Some((certificate, key)) = identity {
            // The field's type is a secret of another crate; its kubeconfig form is the way in.
            let data = serde_json::json!({
                "client-certificate-data": BASE64_STANDARD.encode(certificate),
                "client-key-data": BASE64_STANDARD.encode(key),
            });
            config.auth_info = serde_json::from_value(data).map_err(|error| {
                Error::new(ErrorKind::Config, "the certificate is no text").with_cause(error)
            })?;
        }
        let connector = self.options.connector();
        let open = move |protocols| pool::open(&config, connector.clone(), protocols);
        let pool = multiplex::over(Box::new(open), self.options.protocol)?;
        Ok(match self.options.request_timeout {
            Some(timeout) => BoxCloneSyncService::new(TimeoutLayer::new(timeout).layer(pool)),
            None => pool,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a certificate and its key.
fn read((certificate, key): &(PathBuf, PathBuf)) -> Result<Identity, String> {
    let read = |path: &PathBuf| {
        let bytes = read_regular(path, MAX_PEM_BYTES).map_err(|error| error.to_string());
        let text = bytes
            .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not PEM".to_owned()));
        text.map_err(|why| format!("client certificate {}: {why}", path.display()))
    };
    Ok((read(certificate)?, read(key)?))
}
