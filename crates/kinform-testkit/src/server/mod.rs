//! A server of a test's own: in this process, with its own history, on its own port or on no port at all.
//!
//! ```text
//! TestServer::start() → create, until … ─┐
//! spawn(operator) → its own runtime ─────┴─▶ embedded API server;  stop() → no task left?
//!
//! TestServer::start().in_process() → the same without sockets, for paused time: run(operator)
//! ```
//!
//! Holds everything that a test of a controller needs: a server, a client, the operator under test,
//! faults, and queries that wait. Reads are plain GETs: the test never sees the server through the
//! caches that it tests. Watches are up to 5 ms late, by a seed, so that the test exposes an
//! operator that takes its cache for the present; see [`Starting::without_lag`].
//!
//! A controller, and its test:
//!
//! ```
//! use std::sync::Arc;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kinform::InformerFactory;
//! use kinform::controller::{Action, Controller, Ctx};
//! use kinform_testkit::server::TestServer;
//! use kube_client::{Api, Client, api::{Patch, PatchParams}};
//!
//! async fn greet(map: Arc<ConfigMap>, client: Ctx<Client>) -> Result<Action, kube_client::Error> {
//!     let maps: Api<ConfigMap> = Api::default_namespaced((*client).clone());
//!     let patch = serde_json::json!({ "data": { "greeting": "hello" } });
//!     let name = map.metadata.name.as_deref().unwrap_or_default();
//!     maps.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
//!     Ok(Action::await_change())
//! }
//!
//! # fn map() -> ConfigMap { serde_json::from_value(serde_json::json!({ "metadata": { "name": "a" } })).unwrap() }
//! #[tokio::main(flavor = "current_thread", start_paused = true)] // or #[tokio::test(start_paused = true)]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let api = TestServer::start().in_process().await?;
//!     let operator = api.run(|client| async move {
//!         let factory = InformerFactory::new(client.clone());
//!         let maps = factory.informer::<ConfigMap>();
//!         factory.start()?;
//!         Controller::of(&maps).context(client).run(greet).await
//!     });
//!     api.create(&map()).await?;
//!     let greeted = |m: &ConfigMap| m.data.as_ref().is_some_and(|data| data["greeting"] == "hello");
//!     api.until("default/a", greeted).await?;
//!     operator.stop().await?;
//!     Ok(())
//! }
//! ```
//!
//! Upstream counterpart: `kubernetes-sigs/controller-runtime:pkg/envtest`, which starts binaries.

#[cfg(feature = "controllers")]
mod controllers;
mod manifests;
mod operator;
mod starting;

use std::any::{TypeId, type_name};
use std::fmt::{self, Debug};
use std::time::Duration;

use kinform_api::{ObjectKey, Status};
use kinform_apiserver::{Fault, FaultRule, Server};
use kube_client::config::Config;
use kube_client::{Client, Error as ClientError};
use kube_core::{ClusterResourceScope, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "controllers")]
pub(crate) use self::controllers::{furnish, start as start_controllers};
pub use self::operator::Operator;
pub use self::starting::Starting;
use crate::control::Network;
use crate::link::Link;

/// The time limit of a waiting query.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval at which a query is repeated.
const ASK_EACH: Duration = Duration::from_millis(10);

/// The state that a server loses in a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No state: objects and history are as before.
    Nothing,
    /// Its history: the versions that clients saw last are too old to continue from.
    History,
    /// Everything: it is empty and counts its versions from the beginning.
    Everything,
}

/// The error of a test's server or operator: one line for the test's output.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TestError(String);

/// An API server for one test. Dropping it ends the server.
#[derive(Debug)]
pub struct TestServer {
    /// Before the server: they end first.
    #[cfg(feature = "controllers")]
    controllers: Option<kinform_controlplane::Running>,
    server: Server,
    reach: Reach,
    client: ClientHolder,
    setup: Starting,
}

/// The way to the server.
#[derive(Debug)]
enum Reach {
    Sockets(Box<Config>),
    InProcess(Link),
}

struct ClientHolder(Client);

impl Debug for ClientHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl TestServer {
    /// Starts a server on a free port of loopback, over plain HTTP.
    pub fn start() -> Starting {
        Starting::default()
    }

    /// The server itself: its storage, faults and journal.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The configuration of a client. In process there is no listener at its address: use
    /// [`client`](Self::client).
    pub fn config(&self) -> Config {
        match &self.reach {
            Reach::Sockets(config) => (**config).clone(),
            Reach::InProcess(_) => Config::new(http::Uri::from_static("http://in-process.invalid")),
        }
    }

    /// A client for the test's own use.
    pub fn client(&self) -> Client {
        self.client.0.clone()
    }

    /// Creates an object, in the namespace `default` if the object needs a namespace and states
    /// none.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn create<K: TestObject>(&self, object: &K) -> Result<K, TestError>
    where
        K::DynamicType: Default,
    {
        let what = format!("create {}", object.name_any());
        let body = serde_json::to_vec(object).map_err(|error| failed(&what, &error))?;
        let namespace = object.meta().namespace.as_deref();
        let request = http::Request::post(path::<K>(namespace, None));
        self.ask(&what, request, body).await
    }

    /// Reads an object by its key: `namespace/name`, or a name.
    ///
    /// # Errors
    /// The server refuses. An absent object is `None`, not an error.
    pub async fn get<K: TestObject>(&self, key: &str) -> Result<Option<K>, TestError>
    where
        K::DynamicType: Default,
    {
        let request = http::Request::get(path_of::<K>(key)?);
        let request = request
            .body(Vec::new())
            .map_err(|error| failed(key, &error))?;
        match self.client.0.request(request).await {
            Ok(object) => Ok(Some(object)),
            Err(ClientError::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(failed(&format!("get {key}"), &error)),
        }
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// The server refuses, or the object does not exist.
    pub async fn delete<K: TestObject>(&self, key: &str) -> Result<(), TestError>
    where
        K::DynamicType: Default,
    {
        let request = http::Request::delete(path_of::<K>(key)?);
        let gone: serde_json::Value = self
            .ask(&format!("delete {key}"), request, Vec::new())
            .await?;
        drop(gone);
        Ok(())
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        what: &str,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<T, TestError> {
        let request = request
            .header("content-type", "application/json")
            .body(body);
        let request = request.map_err(|error| failed(what, &error))?;
        let reply = self.client.0.request(request).await;
        reply.map_err(|error| failed(what, &error))
    }

    /// Waits until the object of this key exists and `holds` of it, and returns it.
    ///
    /// # Errors
    /// The condition does not hold within 10 s; the error shows the last state.
    pub async fn until<K: TestObject>(
        &self,
        key: &str,
        mut holds: impl FnMut(&K) -> bool,
    ) -> Result<K, TestError>
    where
        K::DynamicType: Default,
    {
        let mut last = None;
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(object) = self.get::<K>(key).await? {
                    if holds(&object) {
                        return Ok(object);
                    }
                    last = Some(object);
                }
                tokio::time::sleep(ASK_EACH).await;
            }
        });
        match waited.await {
            Ok(found) => found,
            Err(_) => Err(TestError(format!(
                "{} {key} did not become what was waited for within {PATIENCE:?}; it is {last:?}",
                type_name::<K>()
            ))),
        }
    }

    /// Waits until no object has this key.
    ///
    /// # Errors
    /// The object still exists after 10 s.
    pub async fn until_gone<K: TestObject>(&self, key: &str) -> Result<(), TestError>
    where
        K::DynamicType: Default,
    {
        let waited = tokio::time::timeout(PATIENCE, async {
            while self.get::<K>(key).await?.is_some() {
                tokio::time::sleep(ASK_EACH).await;
            }
            Ok(())
        });
        waited.await.unwrap_or_else(|_| {
            Err(TestError(format!(
                "{key} is still there after {PATIENCE:?}"
            )))
        })
    }

    /// Forgets all history: watches of older versions receive 410.
    pub fn expire_history(&self) {
        self.server.expire_history();
    }

    /// Ends every open watch.
    pub fn cut_watches(&self) {
        self.server.cut_watches();
    }

    /// Stalls watches: they send nothing, on open connections, until
    /// [`resume_watches`](Self::resume_watches).
    pub fn stall_watches(&self) {
        self.server.faults().stall_watches();
    }

    /// Resumes stalled watches.
    pub fn resume_watches(&self) {
        self.server.faults().resume_watches();
    }

    /// Answers the next `requests` requests with 429 and `Retry-After: 1`.
    pub fn throttle(&self, requests: usize) {
        let busy = Status::too_many_requests("too many requests, please try again later", 1);
        let rule = FaultRule::new(Fault::Reply(busy)).times(requests);
        self.server.faults().inject(rule);
    }

    /// From now on, watches and lists that may be stale see nothing newer than this moment, until
    /// [`catch_up`](Self::catch_up).
    pub fn lag(&self) {
        self.server.lag();
    }

    /// Ends a [`lag`](Self::lag): watches and stale lists catch up with the storage.
    pub fn catch_up(&self) {
        self.server.catch_up();
    }

    /// Stops the server and starts it again at the same place, with the same credentials. Faults
    /// and the journal begin anew. After a loss of everything, watches of versions still to come
    /// are silent, as a real server's are: informers notice at their next request, after a minute
    /// or so.
    ///
    /// # Errors
    /// Another process took its port meanwhile.
    ///
    /// # Cancel safety
    /// The server is gone, with its state.
    pub async fn restart(mut self, loss: Loss) -> Result<Self, TestError> {
        if let Reach::InProcess(link) = &self.reach {
            link.disconnect();
        }
        #[cfg(feature = "controllers")]
        if let Some(running) = self.controllers.take() {
            // They were asked to end: how is no matter of the test's.
            drop(running.stop().await);
        }
        let state = self.server.stop().await;
        let state = match loss {
            Loss::Nothing => state,
            Loss::History => state.without_history(),
            Loss::Everything => state.without_objects(),
        };
        self.server = self.setup.server(Some(state)).await?;
        if let Reach::InProcess(link) = &self.reach {
            link.connect(self.server.service());
        }
        #[cfg(feature = "controllers")]
        {
            self.controllers = self.setup.controllers(&self.server).await?;
        }
        Ok(self)
    }

    /// The network before a server in process, for a test to cut, refuse or stall; `None` over
    /// sockets.
    pub fn network(&self) -> Option<&dyn Network> {
        match &self.reach {
            Reach::Sockets(_) => None,
            Reach::InProcess(link) => Some(link),
        }
    }

    /// Runs an operator on a thread and runtime of its own, so that the tasks it leaves behind can
    /// be counted. It reaches the server over sockets. If it ends by itself, the output of the test
    /// has its result.
    ///
    /// # Panics
    /// The server is in process, and has no address: see [`run`](Self::run).
    pub fn spawn<F, O>(&self, operator: impl FnOnce(Config) -> F + Send + 'static) -> Operator
    where
        F: Future<Output = O>,
        O: Debug + Send + 'static,
    {
        let Reach::Sockets(config) = &self.reach else {
            panic!("a server in process has no address to give to an operator: use `run`");
        };
        let config = (**config).clone();
        Operator::thread(move || operator(config))
    }

    /// Runs an operator as a task of this runtime, with a client of its own: in process, under the
    /// same paused time as the test. If it ends by itself, the output of the test has its result.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn run<F>(&self, operator: impl FnOnce(Client) -> F + Send + 'static) -> Operator
    where
        F: Future<Output: Debug + Send> + Send + 'static,
    {
        let client = match &self.reach {
            Reach::Sockets(_) => self.client(),
            Reach::InProcess(link) => link.client(),
        };
        Operator::task(move || operator(client))
    }

    /// Stops the server.
    pub async fn stop(self) {
        #[cfg(feature = "controllers")]
        if let Some(running) = self.controllers {
            // They were asked to end: how is no matter of the test's.
            drop(running.stop().await);
        }
        self.server.stop().await;
    }

    async fn install(&self, definition: &serde_json::Value) -> Result<(), TestError> {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let body = definition.to_string().into_bytes();
        let request = http::Request::post(path);
        let _: serde_json::Value = self.ask("install a definition", request, body).await?;
        Ok(())
    }
}

/// The bounds of an object that a test creates and reads.
pub trait TestObject:
    Resource + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
}

impl<K> TestObject for K where
    K: Resource + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
}

fn failed(what: &str, error: &dyn fmt::Display) -> TestError {
    TestError(format!("{what}: {error}"))
}

pub(crate) fn path_of<K: TestObject>(key: &str) -> Result<String, TestError>
where
    K::DynamicType: Default,
{
    let key: ObjectKey = key.parse().map_err(|error| failed(key, &error))?;
    Ok(path::<K>(key.namespace(), Some(key.name())))
}

pub(crate) fn path<K: TestObject>(namespace: Option<&str>, name: Option<&str>) -> String
where
    K::DynamicType: Default,
{
    let is_of_cluster = TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>();
    let namespace = (!is_of_cluster).then_some(namespace.unwrap_or("default"));
    let path = K::url_path(&K::DynamicType::default(), namespace);
    match name {
        Some(name) => format!("{path}/{name}"),
        None => path,
    }
}
