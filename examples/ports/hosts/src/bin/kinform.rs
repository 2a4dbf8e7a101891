//! The controller of host configurations on kinform.
//!
//! ```text
//! informers of HostConfig, ConfigMap, Deployment, Secret, Service, Pod ─▶ Controller ─▶ reconcile
//!    reconcile ─▶ cx.apply (six objects), cx.status       the finalizer is the controller's
//! ```
//!
//! Upstream counterpart: `wasmcloud-operator:src/controller.rs`, `wasmcloud-operator:src/main.rs`.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use hosts::{CONTROLLER, CREDENTIALS, FINALIZER, HostConfig, RETRY, desired};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kinform::{Action, Controller, Ctx, Informer, Limiter, ObjectKey, Target};
use kinform_operator::{Flags, Operator, When};
use kube::ResourceExt as _;
use unchanged::{Observed, web};

/// Configurations that are reconciled at one time; the other column has as many when it is measured.
const WORKERS: usize = 64;

/// Keeps groups of hosts.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    operator: Flags,
}

/// The context of each run.
struct State {
    secrets: Informer<Secret>,
    observed: Observed,
}

/// The reason why a configuration could not be reconciled.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("there is no Secret {0}")]
    NoSecret(String),
    #[error("the Secret with credentials cannot be read")]
    Secret(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("cannot write")]
    Write(#[from] kinform::Error),
}

async fn reconcile(config: Arc<HostConfig>, cx: Ctx<State>) -> Result<Action, Error> {
    let run = cx.observed.run(&*config);
    run.finish(apply_all(&config, &cx).await)
}

async fn apply_all(config: &Arc<HostConfig>, cx: &Ctx<State>) -> Result<Action, Error> {
    let has_credentials = has_credentials(config, cx)?;
    cx.apply(&desired::config_map(config, has_credentials))
        .await?;
    cx.apply(&desired::service_account(config)).await?;
    cx.apply(&desired::role(config)).await?;
    cx.apply(&desired::role_binding(config)).await?;
    let hosts = if config.spec.daemonset {
        let applied = cx
            .apply(&desired::daemon_set(config, has_credentials))
            .await?;
        applied.status.as_ref().map(|status| status.number_ready)
    } else {
        let applied = cx
            .apply(&desired::deployment(config, has_credentials))
            .await?;
        applied
            .status
            .as_ref()
            .and_then(|status| status.ready_replicas)
    };
    cx.apply(&desired::service(config)).await?;
    cx.status(config, |status| {
        status.hosts = hosts.unwrap_or_default();
        status.has_credentials = has_credentials;
    })
    .await?;
    Ok(Action::requeue(hosts::check_back()))
}

/// Returns whether the Secret that the configuration names has credentials.
fn has_credentials(config: &HostConfig, cx: &Ctx<State>) -> Result<bool, Error> {
    let Some(name) = &config.spec.secret_name else {
        return Ok(false);
    };
    let secret = cx.secrets.get(&ObjectKey::new(cx.key().namespace(), name));
    let secret = secret.ok_or_else(|| Error::NoSecret(name.clone()))?;
    let secret = secret
        .typed()
        .map_err(|error| Error::Secret(error.into()))?;
    Ok(secret
        .data
        .as_ref()
        .is_some_and(|data| data.contains_key(CREDENTIALS)))
}

async fn cleanup(config: Arc<HostConfig>, cx: Ctx<State>) -> Result<(), Error> {
    let run = cx.observed.run(&*config);
    tracing::info!(config = config.name_any(), "the hosts go");
    run.finish(Ok(()))
}

async fn run(args: Args) -> Result<(), kinform_operator::Error> {
    let operator = Operator::builder(CONTROLLER).flags(&args.operator);
    let operator = operator.try_default().await?;
    let failed = |error| kinform_operator::Error::of("cannot list host configurations", error);
    unchanged::listable::<HostConfig>(operator.unguarded())
        .await
        .map_err(failed)?;
    let observed = Observed::new(CONTROLLER);
    let shown = observed.clone();
    operator.register_metrics(|registry| observed.register(registry));
    let (factory, managed) = (operator.factory(), desired::managed());
    let secrets = factory.informer::<Secret>();
    let deployments = factory.select(Target::<Deployment>::new()).labels(&managed);
    let services = factory.select(Target::<Service>::new()).labels(&managed);
    // Of pods only the owner is of interest.
    let pods = factory.select(Target::<Pod>::new()).labels(&managed);
    let controller = Controller::of(&factory.informer::<HostConfig>())
        .owns(&factory.informer::<ConfigMap>())
        .owns(&deployments.build())
        .owns(&secrets)
        .owns(&services.build())
        .owns(&pods.metadata_only().build())
        .named(CONTROLLER)
        .context(State { secrets, observed })
        .workers(WORKERS)
        .limiter(Limiter::exponential(RETRY, RETRY))
        .ignore_own_echo()
        .finalizer(FINALIZER, cleanup);
    operator.add(controller.reconciling(reconcile))?;
    operator.task("pages", When::Always, move |stop| {
        let shown = shown.clone();
        let page = move |path: &str| {
            (path == "/").then(|| ("application/json", shown.diagnostics().to_string()))
        };
        async move {
            stop.run_until_cancelled(web::serve(page))
                .await
                .unwrap_or(Ok(()))
        }
    })?;
    operator.run().await
}

#[tokio::main]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    kinform_operator::main(run).await
}
