//! The controller of host configurations on kube-runtime.
//!
//! ```text
//! watches of HostConfig, ConfigMap, Deployment, Secret, Service, Pod ─▶ Controller ─▶ reconcile
//!    reconcile ─▶ finalizer ─▶ apply (six objects, the status) │ cleanup
//! ```
//!
//! Upstream counterpart: `wasmcloud-operator:src/controller.rs`, `wasmcloud-operator:src/main.rs`.

use std::fmt::Debug;
use std::process::ExitCode;
use std::sync::Arc;

use futures::StreamExt as _;
use hosts::{CONTROLLER, CREDENTIALS, FINALIZER, HostConfig, HostConfigStatus, RETRY, desired};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt as _};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing_subscriber::EnvFilter;
use unchanged::Observed;
use unchanged::web::{self, Page};

/// The context of each run.
struct State {
    client: Client,
    observed: Observed,
}

/// The reason why a configuration could not be reconciled.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the configuration cannot be read")]
    Config(#[source] kube::Error),
    #[error("the Secret with credentials cannot be read")]
    Secret(#[source] kube::Error),
    #[error("cannot apply the {0}")]
    Apply(String, #[source] kube::Error),
    #[error("cannot write the status")]
    Status(#[source] kube::Error),
    // Boxed: it holds an error of this type.
    #[error("cannot keep the finalizer")]
    Finalizer(#[source] Box<finalizer::Error<Error>>),
}

async fn reconcile(config: Arc<HostConfig>, state: Arc<State>) -> Result<Action, Error> {
    let run = state.observed.run(&*config);
    let namespace = config.namespace().unwrap_or_default();
    let configs: Api<HostConfig> = Api::namespaced(state.client.clone(), &namespace);
    let done = finalizer(&configs, FINALIZER, config, |event| async {
        match event {
            finalizer::Event::Apply(config) => apply_all(&configs, &config, &state).await,
            finalizer::Event::Cleanup(config) => {
                tracing::info!(config = config.name_any(), "the hosts go");
                Ok(Action::await_change())
            }
        }
    })
    .await;
    run.finish(done.map_err(|error| Error::Finalizer(Box::new(error))))
}

async fn apply_all(
    configs: &Api<HostConfig>,
    config: &HostConfig,
    state: &State,
) -> Result<Action, Error> {
    let name = config.name_any();
    // The cache may be behind.
    let config = configs.get(&name).await.map_err(Error::Config)?;
    let has_credentials = has_credentials(&config, state).await?;
    apply(
        state,
        &config,
        desired::config_map(&config, has_credentials),
    )
    .await?;
    apply(state, &config, desired::service_account(&config)).await?;
    apply(state, &config, desired::role(&config)).await?;
    apply(state, &config, desired::role_binding(&config)).await?;
    let hosts = if config.spec.daemonset {
        let applied = apply(
            state,
            &config,
            desired::daemon_set(&config, has_credentials),
        )
        .await?;
        applied.status.map(|status| status.number_ready)
    } else {
        let applied = apply(
            state,
            &config,
            desired::deployment(&config, has_credentials),
        )
        .await?;
        applied.status.and_then(|status| status.ready_replicas)
    };
    apply(state, &config, desired::service(&config)).await?;
    let hosts = hosts.unwrap_or_default();
    let status = HostConfigStatus {
        hosts,
        has_credentials,
    };
    let patch = Patch::Merge(json!({ "status": status }));
    let written = configs
        .patch_status(&name, &PatchParams::default(), &patch)
        .await;
    written.map_err(Error::Status)?;
    Ok(Action::requeue(hosts::check_back()))
}

/// Returns whether the Secret that the configuration names has credentials.
async fn has_credentials(config: &HostConfig, state: &State) -> Result<bool, Error> {
    let Some(name) = &config.spec.secret_name else {
        return Ok(false);
    };
    let namespace = config.namespace().unwrap_or_default();
    let secrets: Api<Secret> = Api::namespaced(state.client.clone(), &namespace);
    let secret = secrets.get(name).await.map_err(Error::Secret)?;
    Ok(secret
        .data
        .is_some_and(|data| data.contains_key(CREDENTIALS)))
}

/// Applies an object that the configuration owns.
async fn apply<K>(state: &State, config: &HostConfig, mut object: K) -> Result<K, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    object
        .owner_references_mut()
        .extend(config.controller_owner_ref(&()));
    let namespace = config.namespace().unwrap_or_default();
    let objects: Api<K> = Api::namespaced(state.client.clone(), &namespace);
    let (name, params) = (object.name_any(), PatchParams::apply(CONTROLLER).force());
    let applied = objects.patch(&name, &params, &Patch::Apply(&object)).await;
    applied.map_err(|error| Error::Apply(K::kind(&()).into_owned(), error))
}

fn error_policy(config: Arc<HostConfig>, error: &Error, _: Arc<State>) -> Action {
    tracing::warn!(config = config.name_any(), ?error, "a run failed");
    Action::requeue(RETRY)
}

/// The pages of the port.
fn page(path: &str, observed: &Observed, metrics: &Registry) -> Option<Page> {
    match path {
        "/" => Some(("application/json", observed.diagnostics().to_string())),
        "/health" => Some(("application/json", json!("healthy").to_string())),
        "/metrics" => {
            let mut body = String::new();
            text::encode(&mut body, metrics).ok()?;
            Some(("application/openmetrics-text; version=1.0.0", body))
        }
        _ => None,
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    unchanged::listable::<HostConfig>(client.clone()).await?;
    let observed = Observed::new(CONTROLLER);
    let mut registry = Registry::default();
    observed.register(&mut registry);
    let (shown, registry) = (observed.clone(), Arc::new(registry));
    let pages = web::serve(move |path| page(path, &shown, &registry));
    let all = watcher::Config::default();
    let managed = watcher::Config::default().labels(&desired::managed());
    let state = State {
        client: client.clone(),
        observed,
    };
    let controller = Controller::new(Api::<HostConfig>::all(client.clone()), all.clone())
        .owns(Api::<ConfigMap>::all(client.clone()), all.clone())
        .owns(Api::<Deployment>::all(client.clone()), managed.clone())
        .owns(Api::<Secret>::all(client.clone()), all)
        .owns(Api::<Service>::all(client.clone()), managed.clone())
        .owns(Api::<Pod>::all(client), managed)
        .with_config(Config::default().concurrency(unchanged::concurrency()))
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::new(state))
        .for_each(|_| std::future::ready(()));
    tokio::select! {
        biased;
        () = controller => Ok(()),
        failed = pages => Ok(failed?),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    log.with_ansi(false).with_writer(std::io::stderr).init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
