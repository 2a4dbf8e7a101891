//! The stage of a test: a cluster, one column as a process, and questions to both.
//!
//! ```text
//! Stage::start(column) ─▶ create, patch, delete ─▶ until(..), owned(..)
//! ```

use std::fmt::Debug;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use harness::{Cluster, Column, Page, Program, StageError, wait};
use hosts::HostConfig;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The error of a test.
pub(crate) type Failed = StageError;

/// A pause between runs that no test lives to see.
const CHECK_BACK: Duration = Duration::from_secs(300);

/// A type of objects in a namespace.
pub(crate) trait Kept:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned
{
}

impl<K> Kept for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
{
}

/// A cluster and a program.
pub(crate) struct Stage {
    // Before the cluster: it ends first.
    program: Program,
    cluster: Cluster,
}

impl Stage {
    pub(crate) async fn start(column: Column) -> Result<Self, Failed> {
        Self::with(column, Cluster::start::<HostConfig>().await?)
    }

    /// A cluster without the definition of host configurations.
    pub(crate) async fn bare(column: Column) -> Result<Self, Failed> {
        Self::with(column, Cluster::start_bare().await?)
    }

    fn with(column: Column, cluster: Cluster) -> Result<Self, Failed> {
        let binary = Path::new(match column {
            Column::KubeRuntime => env!("CARGO_BIN_EXE_hosts-kube-runtime"),
            Column::Kinform => env!("CARGO_BIN_EXE_hosts-kinform"),
        });
        let (kubeconfig, home) = (cluster.kubeconfig(), cluster.home());
        let program = Program::start(column, binary, &kubeconfig, home, CHECK_BACK, 0)?;
        Ok(Self { program, cluster })
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Creates a configuration with these members besides the required ones.
    pub(crate) async fn create(&self, name: &str, mut spec: Value) -> Result<(), Failed> {
        spec["lattice"] = json!("default");
        spec["version"] = json!("1.4.0");
        let config = HostConfig::new(name, serde_json::from_value(spec)?);
        self.cluster.server().create(&config).await?;
        Ok(())
    }

    /// Creates a Secret with credentials.
    pub(crate) async fn create_secret(&self, name: &str) -> Result<(), Failed> {
        let secret = json!({"metadata": {"name": name}, "stringData": {"nats.creds": "secret"}});
        let secret: Secret = serde_json::from_value(secret)?;
        self.api().create(&PostParams::default(), &secret).await?;
        Ok(())
    }

    pub(crate) async fn patch<K: Kept>(&self, name: &str, patch: Value) -> Result<(), Failed> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        self.api::<K>().patch(name, &params, &patch).await?;
        Ok(())
    }

    pub(crate) async fn patch_status<K: Kept>(
        &self,
        name: &str,
        status: Value,
    ) -> Result<(), Failed> {
        let patch = json!({ "status": status });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        self.api::<K>().patch_status(name, &params, &patch).await?;
        Ok(())
    }

    pub(crate) async fn delete<K: Kept>(&self, name: &str) -> Result<(), Failed> {
        self.api::<K>()
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    pub(crate) async fn find<K: Kept>(&self, name: &str) -> Result<Option<K>, Failed> {
        Ok(self.api::<K>().get_opt(name).await?)
    }

    /// The object of the name of a configuration, whose controlling owner it must be.
    pub(crate) async fn owned<K: Kept>(&self, config: &HostConfig) -> Result<K, Failed> {
        let name = config.name_any();
        let object: K = self
            .find(&name)
            .await?
            .ok_or_else(|| format!("no {}", K::kind(&())))?;
        let owners = object.owner_references();
        assert_eq!(owners.len(), 1, "{owners:?}");
        assert_eq!(Some(&owners[0].uid), config.metadata.uid.as_ref());
        assert_eq!(owners[0].controller, Some(true));
        Ok(object)
    }

    /// Waits until an object is in a state.
    pub(crate) async fn until<K: Kept>(
        &self,
        name: &str,
        is_so: impl Fn(&K) -> bool,
    ) -> Result<K, Failed> {
        let look = || async {
            let found = self.find::<K>(name).await?;
            Ok(found.filter(|object| is_so(object)))
        };
        self.wait(&format!("{} {name}", K::kind(&())), look).await
    }

    pub(crate) async fn until_gone<K: Kept>(&self, name: &str) -> Result<(), Failed> {
        let look = || async { Ok(self.find::<K>(name).await?.is_none().then_some(())) };
        self.wait(&format!("{} {name} to go", K::kind(&())), look)
            .await
    }

    pub(crate) async fn page(&mut self, page: Page) -> Result<(u16, String), Failed> {
        self.program.get(page).await
    }

    /// Waits until a page has a line that begins so.
    pub(crate) async fn until_page(&mut self, page: Page, line: &str) -> Result<(), Failed> {
        self.program.until_page(page, line).await
    }

    pub(crate) fn log(&self) -> String {
        self.program.log()
    }

    pub(crate) async fn stop(&mut self) -> Result<ExitStatus, Failed> {
        self.program.stop().await
    }

    pub(crate) async fn ended(&mut self) -> Result<ExitStatus, Failed> {
        self.program.ended().await
    }

    fn api<K: Kept>(&self) -> Api<K> {
        Api::namespaced(self.cluster.server().client(), "default")
    }

    /// Looks until there is something; fails with the log of the program.
    async fn wait<T, F: Future<Output = Result<Option<T>, Failed>>>(
        &self,
        what: &str,
        look: impl FnMut() -> F,
    ) -> Result<T, Failed> {
        wait::until(what, || self.log(), look).await
    }
}
