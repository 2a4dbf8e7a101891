//! The demo's cluster: a seeded embedded server, and a client for it.
//!
//! ```text
//! Server (HTTPS, loopback) + nodes, pods, deployments, Foo definition, foos → client, targets
//! ```
//!
//! Seeding goes straight into the server's storage; foos are created over HTTP as by any client.

use std::fmt::{Debug, Display};
use std::path::PathBuf;

use bytes::Bytes;
use kinform::source::{ClientOptions, ConfigOverrides, client_for, config_from};
use kinform_apiserver::{Seed, Server, shelf_name};
use kube_client::api::PostParams;
use kube_client::config::Kubeconfig;
use kube_client::{Api, Client};
use sample_controller::{Foo, FooSpec, install_definition};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::churn::Targets;
use crate::exit::Failure;

/// The cluster around the pods.
const NODES: usize = 100;
const DEPLOYMENTS: usize = 600;
/// Foos at the start: each becomes a Deployment.
const FOOS: usize = 20;

/// The server and its contents.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) client: ClientHandle,
    pub(crate) targets: Targets,
    kubeconfig: KubeconfigFile,
}

/// Without the client, which has no `Debug`.
#[derive(Clone)]
pub(crate) struct ClientHandle(Client);

impl std::ops::Deref for ClientHandle {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

impl std::fmt::Debug for ClientHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Stage {
    /// Starts the server and fills it.
    pub(crate) async fn set(pods: usize) -> Result<Self, Failure> {
        let server = Server::builder()
            .start()
            .await
            .map_err(|error| Failure::new(error.to_string()))?;
        server.seed(Seed {
            seed: 1,
            nodes: NODES,
            deployments: DEPLOYMENTS,
            pods,
        });
        let client = client_of(&server).await?;
        install_definition(client.clone())
            .await
            .map_err(Self::refused)?;
        let api = Api::<Foo>::namespaced(client.clone(), "default");
        let mut foos = Vec::new();
        for number in 0..FOOS {
            let name = format!("foo-{number}");
            let spec = FooSpec {
                deployment_name: format!("from-foo-{number}"),
                replicas: Some(1),
            };
            api.create(&PostParams::default(), &Foo::new(&name, spec))
                .await
                .map_err(Self::refused)?;
            foos.push(("default".to_owned(), name));
        }
        let kubeconfig = KubeconfigFile::write(&server)?;
        let targets = Targets {
            pods: names(&server, "", "pods"),
            deployments: names(&server, "apps", "deployments"),
            foos,
        };
        Ok(Self {
            server,
            client: ClientHandle(client),
            targets,
            kubeconfig,
        })
    }

    /// Another client, with connections of its own.
    pub(crate) async fn another_client(&self) -> Result<Client, Failure> {
        client_of(&self.server).await
    }

    /// Prints the address of the server.
    pub(crate) fn announce(&self) {
        crate::progress!(
            "embedded API server on {} with {} pods; any client can look:\n  kubectl --kubeconfig {} get pods -A",
            self.server.url(),
            self.targets.pods.len(),
            self.kubeconfig.0.display()
        );
    }

    /// Ends every watch, even in the middle of a message.
    pub(crate) fn cut(&self) {
        self.server.cut_watches();
    }

    /// Changes an object that no informer of the demo watches, forgets all history, and ends every
    /// watch: idle watches resume with a version that has expired.
    pub(crate) async fn expire(&self) -> Result<(), Failure> {
        let change = http::Request::patch("/api/v1/namespaces/default")
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
            .body(Bytes::from_static(
                br#"{"metadata":{"annotations":{"kinform.dev/expired":"true"}}}"#,
            ))
            .map_err(|error| Failure::new(error.to_string()))?;
        let reply = self.server.service().call(change).await;
        if !reply.status().is_success() {
            let body = reply.into_body().collect().await.unwrap_or_default();
            return Err(Self::refused(String::from_utf8_lossy(&body)));
        }
        self.server.expire_history();
        self.server.cut_watches();
        Ok(())
    }

    /// The failure of a request that the demo's own server refused.
    pub(crate) fn refused(reason: impl Display) -> Failure {
        Failure::new(format!("the demo's own server refused: {reason}"))
    }
}

/// Creates an object, unless it is there.
///
/// # Errors
/// The server refused it for another reason.
///
/// # Cancel safety
/// The object may be there or not.
pub(crate) async fn ensure<K>(api: &Api<K>, object: &K) -> Result<(), Failure>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    match api.create(&PostParams::default(), object).await {
        Err(kube_client::Error::Api(status)) if status.code == 409 => Ok(()),
        created => created.map(drop).map_err(Stage::refused),
    }
}

/// Namespaces and names of the stored objects.
fn names(server: &Server, group: &str, plural: &str) -> Vec<(String, String)> {
    let stored = server.objects(&shelf_name(group, plural));
    stored
        .iter()
        .filter_map(|object| object.key().split_once('/'))
        .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
        .collect()
}

async fn client_of(server: &Server) -> Result<Client, Failure> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::new(format!("the demo's own kubeconfig: {error}"));
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).map_err(|error| wrong(&error))?;
    let config = config_from(&kubeconfig, &ConfigOverrides::default())
        .await
        .map_err(|error| wrong(&error))?;
    let options = ClientOptions::default().with_rate_limit(0, 0);
    client_for(config, &options).map_err(|error| wrong(&error))
}

/// A kubeconfig in the temporary folder, removed with the demo.
#[derive(Debug)]
struct KubeconfigFile(PathBuf);

impl KubeconfigFile {
    fn write(server: &Server) -> Result<Self, Failure> {
        // A process can have several servers, and a host several processes.
        let port = server.address().map_or(0, |address| address.port());
        let name = format!("kinform-demo-{}-{port}.kubeconfig", std::process::id());
        let file = Self(std::env::temp_dir().join(name));
        server
            .write_kubeconfig(&file.0)
            .map_err(|error| Failure::new(format!("{}: {error}", file.0.display())))?;
        Ok(file)
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
