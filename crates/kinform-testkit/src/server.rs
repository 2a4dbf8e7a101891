//! A server of a test's own: in this process, on its own port, with its own history.
//!
//! ```text
//! TestServer::start() → create, until … ─┐
//! spawn(operator) → its own runtime ─────┴─▶ embedded API server;  stop() → no task left?
//! ```
//!
//! Holds everything that a test of a controller needs: a server, a client, the operator under test on
//! a runtime of its own (so that what it leaves behind can be counted), and questions that wait.
//! Reads are plain GETs: the test never sees the server through the caches that it tests.
//!
//! Upstream counterpart: `kubernetes-sigs/controller-runtime:pkg/envtest`, which starts binaries.

use std::any::{TypeId, type_name};
use std::fmt::{self, Debug};
use std::future::IntoFuture;
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::BoxFuture;
use kinform::source::{ClientOptions, client_for};
use kinform_api::ObjectKey;
use kinform_apiserver::{Builder, Server};
use kube_client::config::{AuthInfo, Config};
use kube_client::{Client, Error as ClientError};
use kube_core::{ClusterResourceScope, CustomResourceExt, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// How long a question waits for its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is asked.
const ASK_EACH: Duration = Duration::from_millis(10);
/// How long an operator's tasks may take to end.
const END_WITHIN: Duration = Duration::from_secs(5);

/// What a test's server or operator fails with: one line for the test's output.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TestError(String);

/// An API server for one test. Dropping it ends it.
#[derive(Debug)]
pub struct TestServer {
    server: Server,
    config: Config,
    client: ClientHolder,
}

struct ClientHolder(Client);

impl Debug for ClientHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

/// A server that starts when it is awaited.
#[must_use = "a server starts when it is awaited"]
#[derive(Debug)]
pub struct Starting {
    builder: Builder,
    definitions: Vec<serde_json::Value>,
}

impl Starting {
    /// The server knows the custom resource `K`.
    pub fn crd<K: CustomResourceExt>(mut self) -> Self {
        let definition = serde_json::to_value(K::crd());
        self.definitions
            .push(definition.expect("a definition is plain data"));
        self
    }

    /// Changes how the server is set up: limits, history, TLS.
    pub fn with(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.builder = change(self.builder);
        self
    }
}

impl IntoFuture for Starting {
    type Output = Result<TestServer, TestError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let failed = |error: &dyn fmt::Display| failed("start a server", error);
            let server = self.builder.start().await.map_err(|e| failed(&e))?;
            let url = server.url().parse();
            let mut config = Config::new(url.map_err(|e| failed(&e))?);
            config.auth_info = AuthInfo {
                token: Some(server.token().to_owned().into()),
                ..AuthInfo::default()
            };
            let client = client_for(config.clone(), &ClientOptions::default());
            let client = client.map_err(|e| failed(&e))?;
            let started = TestServer {
                server,
                config,
                client: ClientHolder(client),
            };
            for definition in &self.definitions {
                started.install(definition).await?;
            }
            Ok(started)
        })
    }
}

impl TestServer {
    /// Begins a server on a free port of loopback, over plain HTTP.
    pub fn start() -> Starting {
        Starting {
            builder: Server::builder().plain(),
            definitions: Vec::new(),
        }
    }

    /// The server itself: its storage, faults and journal.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// How to reach it.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// A client of the test's own.
    pub fn client(&self) -> Client {
        self.client.0.clone()
    }

    /// Creates an object, in the namespace `default` if it needs one and names none.
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
    /// The server refuses; an object that is not there is none.
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
    /// The server refuses, or it is not there.
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

    /// Waits until the object of this key is there and `holds` of it; gives it.
    ///
    /// # Errors
    /// It does not come to that within 10 s; the error shows the last state.
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

    /// Waits until no object of this key is there.
    ///
    /// # Errors
    /// It is still there after 10 s.
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

    /// Forgets all history: watches of older versions are told 410.
    pub fn expire_history(&self) {
        self.server.expire_history();
    }

    /// Ends every open watch.
    pub fn cut_watches(&self) {
        self.server.cut_watches();
    }

    /// Runs what is tested, on a thread and runtime of its own.
    pub fn spawn<F, O>(&self, operator: impl FnOnce(Config) -> F + Send + 'static) -> Operator
    where
        F: Future<Output = O>,
        O: Send + 'static,
    {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let config = self.config();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| TestError(format!("no runtime: {error}")))?;
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = stopped.cancelled() => {}
                    _ = operator(config) => stopped.cancelled().await,
                }
            });
            left_behind(&runtime)
        });
        Operator {
            stop,
            thread: Some(thread),
        }
    }

    /// Stops the server.
    pub async fn stop(self) {
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

/// What a test creates and reads.
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

fn path_of<K: TestObject>(key: &str) -> Result<String, TestError>
where
    K::DynamicType: Default,
{
    let key: ObjectKey = key.parse().map_err(|error| failed(key, &error))?;
    Ok(path::<K>(key.namespace(), Some(key.name())))
}

fn path<K: TestObject>(namespace: Option<&str>, name: Option<&str>) -> String
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

/// Waits for what an operator spawned; what does not end is an error.
fn left_behind(runtime: &tokio::runtime::Runtime) -> Result<(), TestError> {
    let alive = || runtime.metrics().num_alive_tasks();
    runtime.block_on(async {
        let ended = tokio::time::timeout(END_WITHIN, async {
            while alive() > 0 {
                tokio::time::sleep(ASK_EACH).await;
            }
        });
        ended.await.map_err(|_| {
            TestError(format!(
                "{} tasks are left {END_WITHIN:?} after the operator was dropped",
                alive()
            ))
        })
    })
}

/// What is tested, while it runs.
#[derive(Debug)]
pub struct Operator {
    stop: CancellationToken,
    thread: Option<JoinHandle<Result<(), TestError>>>,
}

impl Operator {
    /// Drops the operator and waits for what it spawned.
    ///
    /// # Errors
    /// A task is left behind, or the operator panicked.
    pub async fn stop(mut self) -> Result<(), TestError> {
        self.stop.cancel();
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        match joined {
            Ok(Ok(ended)) => ended,
            _ => Err(TestError("the operator panicked".to_owned())),
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
