//! The embedded server behind a proxy, and the requests that it has answered.
//!
//! ```text
//! program ── TLS ──▶ Proxy (cut, refuse) ──▶ server ── each request that ended ─▶ counts
//! harness ── call ───────────────────────────▶ server   (not counted)
//! ```
//!
//! A watch counts when it ends: one that lasts as long as the measurement is not seen.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use kinform_testkit::{Proxy, ProxyMode, Service, TestServer};
use kube::CustomResourceExt;
use serde_json::Value;
use tempfile::TempDir;

use crate::StageError;

/// The field manager of the harness's own requests, which distinguishes them from others.
const MANAGER: &str = "ports-harness";

/// A server with the definition of a port's type.
#[derive(Debug)]
pub struct Cluster {
    server: TestServer,
    service: Service,
    proxy: Proxy,
    requests: Arc<Mutex<Requests>>,
    home: TempDir,
}

/// Requests by verb and resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests(BTreeMap<(&'static str, String), u64>);

/// The body of a request of the harness.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// Without a body.
    Empty,
    /// A whole object.
    Object(&'a Value),
    /// A merge patch.
    Merge(&'a Value),
    /// A server-side apply.
    Apply(&'a Value),
}

impl Requests {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Those that are not in `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let more = self.0.iter().map(|(key, count)| {
            let before = before.0.get(key).copied().unwrap_or_default();
            (key.clone(), count - before)
        });
        Self(more.filter(|(_, count)| *count > 0).collect())
    }

    /// The count of each, most first: `3 patch documents, 1 watch documents`.
    #[must_use]
    pub fn told(&self) -> String {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut text = String::new();
        for ((verb, resource), count) in all {
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{comma}{count} {verb} {resource}");
        }
        text
    }
}

impl Cluster {
    /// Starts a server with the definition of a type.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start<K: CustomResourceExt>() -> Result<Self, StageError> {
        Self::start_as(TestServer::start().crd::<K>()).await
    }

    /// The same for measurements: without the lag of watches by which a test's server is as late as a
    /// loaded one, also with each piece of a streaming list.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_without_lag<K: CustomResourceExt>() -> Result<Self, StageError> {
        Self::start_as(TestServer::start().crd::<K>().without_lag()).await
    }

    /// Starts a server without the definition.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_bare() -> Result<Self, StageError> {
        Self::start_as(TestServer::start()).await
    }

    async fn start_as(starting: kinform_testkit::Starting) -> Result<Self, StageError> {
        let requests = Arc::new(Mutex::new(Requests::default()));
        let counted = Arc::clone(&requests);
        let server = starting.with(move |builder| {
            let counted = Arc::clone(&counted);
            builder.tls().on_record(move |record| {
                if record.controller.is_none() && !record.query.contains(MANAGER) {
                    let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
                    let key = (record.verb, record.resource.clone());
                    *counted.0.entry(key).or_default() += 1;
                }
            })
        });
        let server = server.await?;
        let address = server.server().address().ok_or("the server has no port")?;
        let proxy = Proxy::start(address).await?;
        let home = tempfile::tempdir()?;
        let kubeconfig = server.server().kubeconfig();
        let through = kubeconfig.replace(&address.to_string(), &proxy.address().to_string());
        std::fs::write(home.path().join("kubeconfig"), through)?;
        let service = server.server().service();
        Ok(Self {
            server,
            service,
            proxy,
            requests,
            home,
        })
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &TestServer {
        &self.server
    }

    /// The file by which a program reaches the server through the proxy.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    /// The folder for files about this cluster; it goes with it.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The requests of others that have ended.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.proxy.cut();
    }

    /// Lets nobody connect for a time, and then nobody resume: the history is gone.
    pub async fn expire(&self, away: Duration) {
        self.proxy.set(ProxyMode::Refuse);
        self.proxy.cut();
        tokio::time::sleep(away).await;
        self.server.expire_history();
        self.proxy.set(ProxyMode::Pass);
    }

    /// The same where a new connection succeeds at once: for a time nothing passes, then the history is
    /// gone.
    pub async fn expire_unheard(&self, away: Duration) {
        self.proxy.set(ProxyMode::Stall);
        tokio::time::sleep(away).await;
        self.server.expire_history();
        // Before anything passes: what was held back is lost.
        self.proxy.cut();
        self.proxy.set(ProxyMode::Pass);
    }

    /// A request of the harness; the body of its reply.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Body<'_>,
    ) -> Result<Value, StageError> {
        let (kind, body) = match body {
            Body::Empty => ("application/json", Bytes::new()),
            Body::Object(body) => ("application/json", Bytes::from(body.to_string())),
            Body::Merge(body) => (
                "application/merge-patch+json",
                Bytes::from(body.to_string()),
            ),
            Body::Apply(body) => (
                "application/apply-patch+yaml",
                Bytes::from(body.to_string()),
            ),
        };
        let mark = if path.contains('?') { '&' } else { '?' };
        let uri = format!("{path}{mark}by={MANAGER}");
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", kind)
            .body(body)?;
        let reply = self.service.call(request).await;
        let status = reply.status();
        let bytes = reply.into_body().collect().await;
        let bytes = bytes.map_err(|_| format!("{path}: the reply was cut off"))?;
        let value: Value = serde_json::from_slice(&bytes)?;
        if status.is_success() {
            return Ok(value);
        }
        Err(format!("{path}: {status}: {}", value["message"]).into())
    }
}
