//! The handle on a running server: its address, its content, and fault injection.
//!
//! ```text
//! Builder ──start──▶ Server { url, token, kubeconfig, service, faults, journal } ──stop──▶ Stopped ──▶ Builder
//! ```
//!
//! The server lives as long as its handle: dropping it ends every watch and closes the port.
//! Stopping waits for that, and returns the stored state, for the next server.

mod activity;
mod builder;
mod connections;
#[cfg(feature = "disk")]
pub(crate) mod data_dir;
mod error;
mod identity;
mod listen;
mod origin;
mod speak;
mod subject;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::header::{AUTHORIZATION, UPGRADE};
use http::{Request, Response};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::{Caller, User};
use crate::api;
use crate::controllers::definitions::stored_resources;
use crate::controllers::event_ttl;
use crate::controllers::garbage;
use crate::controllers::restore;
use crate::fault::Faults;
use crate::http::body::Body;
use crate::journal::Journal;
use crate::resource::Registry;
use crate::seed::{self, Seed};
use crate::state::State;
use crate::state::pod_logs::PodLogs;
use crate::storage::committer::{Begun, Lost};
use crate::storage::{Store, Stored};
pub use builder::Builder;
pub use error::Error;
pub use identity::ClientCertificate;
use identity::Identity;

/// Time that open replies have to end when the server stops.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// A running server.
#[derive(Debug)]
pub struct Server {
    state: Arc<State>,
    identity: Identity,
    address: Option<SocketAddr>,
    tasks: TaskTracker,
    /// Ends the task that takes writes to the disk.
    closing: CancellationToken,
    committing: TaskTracker,
    /// The moment since which a loss of writes is to be reported.
    reported: Mutex<Begun>,
}

/// State that a stopped server leaves behind: objects, history, definitions and credentials.
#[derive(Debug)]
pub struct Stopped {
    store: Arc<Store>,
    registry: Arc<Registry>,
    identity: Identity,
}

impl Stopped {
    /// Forgets the history, as a restart of a real server does: older versions are too old to
    /// watch.
    #[must_use]
    pub fn without_history(self) -> Self {
        self.store.compact(u64::MAX);
        self
    }

    /// Forgets every object and starts the versions over, as a lost disk does. Credentials stay; a
    /// server that continues keeps its state in memory.
    #[must_use]
    pub fn without_objects(self) -> Self {
        let store = Arc::new(Store::new(self.store.limits()));
        let registry = Arc::new(Registry::built_in(&store));
        Self {
            store,
            registry,
            identity: self.identity,
        }
    }
}

impl Server {
    /// Returns a builder; its default is HTTPS on a free port of loopback.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Internal state, for tests of the modules.
    #[cfg(test)]
    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Address on which the server listens; `None` in process.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Its URL. A server that listens on all addresses is named by the one of loopback.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.identity.tls.is_some() {
            "https"
        } else {
            "http"
        };
        self.address.map_or_else(
            || "http://in-process.invalid".to_owned(),
            |address| format!("{scheme}://{}", reachable(address)),
        )
    }

    /// Bearer token of the administrator.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.identity.token
    }

    /// Certificate of the authority that signed the server's own, as PEM; `None` for plain HTTP.
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        self.identity.tls.as_ref().map(|tls| &*tls.authority.pem)
    }

    /// A kubeconfig with its address, authority and token.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        self.identity.kubeconfig(&self.url())
    }

    /// Issues a certificate that authenticates an HTTPS client as a user in a group; `None` for
    /// plain HTTP.
    ///
    /// # Errors
    /// No certificate could be made.
    pub fn client_certificate(
        &self,
        user: &str,
        group: Option<&str>,
    ) -> Result<Option<ClientCertificate>, Error> {
        let made = |tls: &identity::Tls| tls.client_certificate(user, group);
        self.identity.tls.as_ref().map(made).transpose()
    }

    /// Writes the kubeconfig atomically, with mode 0600.
    ///
    /// # Errors
    /// The file cannot be written, or something else than a regular file is there, such as a link
    /// or a device.
    pub fn write_kubeconfig(&self, path: &Path) -> std::io::Result<()> {
        identity::write_private(path, &self.kubeconfig())
    }

    /// Access without sockets, as the administrator.
    #[must_use]
    pub fn service(&self) -> Service {
        Service {
            state: self.state.clone(),
            user: Arc::new(User::admin()),
        }
    }

    /// Access without sockets, as another user.
    #[must_use]
    pub fn service_as(&self, user: User) -> Service {
        Service {
            state: self.state.clone(),
            user: Arc::new(user.authenticated()),
        }
    }

    /// Logs of containers, for requests that read them.
    #[must_use]
    pub fn pod_logs(&self) -> &PodLogs {
        &self.state.logs
    }

    /// The faults to inject.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.state.faults
    }

    /// The time of its clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.state.clock.now()
    }

    /// Journal of the requests received.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.state.journal
    }

    /// The storage: the truth to compare caches with.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.state.store
    }

    /// The resources that it serves.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.state.registry
    }

    /// All objects of a shelf (`pods`, `deployments.apps`), in the order of their keys.
    #[must_use]
    pub fn objects(&self, shelf: &str) -> Vec<Arc<Stored>> {
        let shelf = self.state.store.shelf(shelf);
        self.state
            .store
            .view(shelf)
            .snapshot
            .iter()
            .cloned()
            .collect()
    }

    /// Adds a generated cluster. Existing objects are kept.
    pub fn seed(&self, seed: Seed) {
        seed::plant(&self.state.store, &self.state.registry, seed);
        garbage::adopt(&self.state);
        event_ttl::adopt(&self.state);
    }

    /// Stores an object of a dump unchanged, with its uid, times and status, under a new version.
    /// An existing object of its name is replaced.
    ///
    /// # Errors
    /// 404 for a kind that is not served, 400 for an object that is malformed or has no name, 501
    /// for one that this server would not act on.
    pub fn restore(&self, object: serde_json::Value) -> Result<(), Box<kinform_api::Status>> {
        restore::restore(&self.state, object)
    }

    /// Answers the webhook calls of a service (`namespace`, `name`) by a function of this process,
    /// without sockets and TLS. The function gets the whole request: a POST of a review in JSON, with
    /// the path of the service reference.
    ///
    /// Under paused time this is the only way: a socket would meet its timeout at once.
    pub fn webhook<F, R>(&self, namespace: &str, name: &str, function: F)
    where
        F: Fn(http::Request<Bytes>) -> R + Send + Sync + 'static,
        R: Future<Output = http::Response<Bytes>> + Send + 'static,
    {
        let service = format!("{namespace}/{name}");
        let boxed = move |request| -> Pin<Box<dyn Future<Output = _> + Send>> {
            Box::pin(function(request))
        };
        self.state.hooks.serve(service, Arc::new(boxed));
    }

    /// Waits until all writes so far are on disk; at once, if the server has no folder.
    ///
    /// # Errors
    /// 500: since the last call, or since the start, writes were lost, because the disk failed.
    ///
    /// # Cancel safety
    /// The writes go on to the disk.
    pub async fn settled(&self) -> Result<(), Box<kinform_api::Status>> {
        let done = self.written().await;
        done.map_err(|lost| Box::new(lost.into()))
    }

    async fn written(&self) -> Result<(), Lost> {
        let store = &self.state.store;
        let reported = || self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *reported();
        let done = store.settled(since).await;
        *reported() = store.begin();
        done
    }

    /// The storage of this server, for another one over it ([`Builder::state`]): two replicas of an
    /// API server. Each has watches, faults, a lag and a journal of its own. Only one of them should
    /// collect garbage.
    #[must_use]
    pub fn shared_state(&self) -> Stopped {
        Stopped {
            store: Arc::clone(&self.state.store),
            registry: Arc::clone(&self.state.registry),
            identity: self.identity.clone(),
        }
    }

    /// A copy of the objects as they are now, at the present revision and without history: what a
    /// server has that was restored from a backup of this moment. Custom resources are served as
    /// their definitions say.
    #[must_use]
    pub fn backup(&self) -> Stopped {
        let store = Arc::new(self.state.store.copy());
        let registry = Registry::built_in(&store);
        // No watch of a changed resource is open yet.
        drop(registry.set_custom(stored_resources(&store)));
        Stopped {
            store,
            registry: Arc::new(registry),
            identity: self.identity.clone(),
        }
    }

    /// Forgets the history up to a revision; returns the lowest version that can still be resumed.
    pub fn compact(&self, revision: u64) -> u64 {
        self.state.store.compact(revision)
    }

    /// Forgets all history: every version but the current one is too old. Open watches go on.
    pub fn expire_history(&self) -> u64 {
        self.state.store.compact(u64::MAX)
    }

    /// Ends every open watch cleanly, without an event, as upstream's servers often do.
    pub fn cut_watches(&self) {
        self.state.store.end_all_watches();
    }

    /// Freezes the state that watches and possibly stale reads see.
    pub fn lag(&self) {
        self.lag_at(self.state.store.revision());
    }

    /// Freezes the state that watches and possibly stale reads see at a past revision: clients that
    /// connect now reach a replica that is behind what they have seen. A revision below the history
    /// is as the present to lists.
    pub fn lag_at(&self, revision: u64) {
        self.state.faults.set_replica(Some(revision));
    }

    /// The lagging replica reaches the present.
    pub fn catch_up(&self) {
        self.state.faults.set_replica(None);
        self.state.store.wake_all();
    }

    /// Ends every watch, lets other replies finish for up to 2 s, and closes the port. Large writes
    /// are cut off: those that wait are refused, and those under way stop at their next look at the
    /// meter. No large write is committed after this returns.
    ///
    /// # Cancel safety
    /// The server stops all the same; its state is lost.
    pub async fn stop(self) -> Stopped {
        self.state.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        // A request that a client left may still be computed, and must not write later.
        self.state.shares.idle().await;
        self.closing.cancel();
        self.committing.close();
        self.committing.wait().await;
        Stopped {
            store: self.state.store.clone(),
            registry: self.state.registry.clone(),
            identity: self.identity.clone(),
        }
    }
}

/// Returns an address that reaches a listener.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stopping.cancel();
        self.closing.cancel();
    }
}

/// The server as a function, for callers in the same process. Clones are the same server.
#[derive(Clone, Debug)]
pub struct Service {
    state: Arc<State>,
    user: Arc<User>,
}

impl Service {
    /// The code and the JSON of the answer to a request of a test, without a body if it is null.
    #[cfg(test)]
    pub(crate) async fn ask(
        &self,
        method: http::Method,
        path: &str,
        body: serde_json::Value,
    ) -> (u16, serde_json::Value) {
        let body = match body {
            serde_json::Value::Null => Bytes::new(),
            body => Bytes::from(body.to_string()),
        };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let reply = self.call(request.body(body).unwrap()).await;
        let code = reply.status().as_u16();
        let bytes = reply.into_body().collect().await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Answers a request; the body of the reply is made while it is read. A bearer token in the
    /// request authenticates its holder.
    ///
    /// # Cancel safety
    /// A write that was not answered may have been done, as over a network.
    pub async fn call(&self, request: Request<Bytes>) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        // A call in process has no connection to hand over.
        head.headers.remove(UPGRADE);
        let body = listen::ready(body, self.state.limits.body);
        let caller = if head.headers.contains_key(AUTHORIZATION) {
            let access = &self.state.access;
            access.authenticate(&self.state.store, &head.headers, None)
        } else {
            Caller::User(self.user.clone())
        };
        api::answer(&self.state, head, std::future::ready(body).boxed(), caller).await
    }
}
