//! The server that replicas talk to: an embedded one of this process, or any other by its kubeconfig.
//!
//! ```text
//! Cluster::embedded | Cluster::of(kubeconfig) ─▶ fill(objects) ─▶ kubeconfig for replicas, client
//! ```

use std::path::{Path, PathBuf};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kinform::source::{ClientOptions, client_for};
use kinform_apiserver::Server;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::subject::Failed;

/// The namespace of the objects and of the lease.
pub const NAMESPACE: &str = "bench-operators";

/// BOUND: creations under way at a server that is not ours.
const AT_ONCE: usize = 32;

/// A server, and a file that tells replicas the way to it.
pub struct Cluster {
    /// `None` if the server is another program's.
    pub server: Option<Server>,
    /// The kubeconfig.
    pub kubeconfig: PathBuf,
    /// A client without a limit of requests a second.
    pub client: Client,
}

impl Cluster {
    /// Starts an embedded server over HTTP and writes its kubeconfig to `directory`.
    ///
    /// # Errors
    /// No port is free, or the file cannot be written.
    pub async fn embedded(directory: &Path) -> Result<Self, Failed> {
        let server = Server::builder().plain().start().await?;
        let kubeconfig = directory.join("kubeconfig");
        server.write_kubeconfig(&kubeconfig)?;
        let mut cluster = Self::of(&kubeconfig).await?;
        cluster.server = Some(server);
        Ok(cluster)
    }

    /// A server that runs already.
    ///
    /// # Errors
    /// The kubeconfig cannot be read.
    pub async fn of(kubeconfig: &Path) -> Result<Self, Failed> {
        let read = Kubeconfig::read_from(kubeconfig)?;
        let config =
            kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        let options = ClientOptions::default().with_rate_limit(0, 0);
        Ok(Self {
            server: None,
            kubeconfig: kubeconfig.to_owned(),
            client: client_for(config, &options)?,
        })
    }

    /// Makes the namespace, and that number of objects of 1 KB in it. Objects that exist stay.
    ///
    /// # Errors
    /// The server refuses one.
    pub async fn fill(&self, objects: usize) -> Result<(), Failed> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
        tolerant(namespaces.create(&PostParams::default(), &namespace).await)?;
        if let Some(server) = &self.server {
            for number in 0..objects {
                let restored = server.restore(object(number));
                restored.map_err(|status| format!("the embedded server says {status:?}"))?;
            }
            return Ok(());
        }
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let creations = stream::iter(0..objects).map(|number| {
            let maps = maps.clone();
            async move {
                let map: ConfigMap = serde_json::from_value(object(number))?;
                tolerant(maps.create(&PostParams::default(), &map).await)
            }
        });
        creations
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await
    }
}

/// A config map of 1 KB.
#[must_use]
pub fn object(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("map-{number:06}"), "namespace": NAMESPACE,
            "uid": format!("00000000-0000-4000-8000-{number:012}"),
            "labels": {"app": "bench"},
        },
        "data": {"text": "x".repeat(800)},
    })
}

fn tolerant<K>(created: Result<K, kube::Error>) -> Result<(), Failed> {
    match created {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        created => Ok(created.map(drop)?),
    }
}
