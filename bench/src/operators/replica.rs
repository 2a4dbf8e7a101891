//! A replica of an operator: it caches config maps and, while it leads, reconciles each.
//!
//! ```text
//! KUBECONFIG ─▶ Operator ─▶ synced 1 ─▶ reconciled MICROS (the first one) ─▶ idle COUNT
//! ```

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::{Action, Controller};
use kinform_operator::{LeaseSettings, Operator, Settings};

use super::Timings;
use super::cluster::NAMESPACE;
use super::process::tell;
use crate::subject::Failed;
use crate::subject::latency::now_micros;

/// BOUND: the longest first list.
const PATIENCE: Duration = Duration::from_secs(600);

/// An operator with a lease and without ports, by `KUBECONFIG`, whose controller does no work.
///
/// # Errors
/// There is no such kubeconfig.
pub async fn operator(timings: Timings, objects: usize) -> Result<Operator, Failed> {
    let mut lease = LeaseSettings::default();
    lease.namespace = Some(NAMESPACE.to_owned());
    lease.options = timings.options();
    let mut settings = Settings::default();
    (settings.metrics_address, settings.probe_address) = (None, None);
    settings.leader_election = Some(lease);
    settings.namespaces = vec![NAMESPACE.to_owned()];
    let builder = Operator::builder("bench-operator").settings(settings);
    let operator = builder.try_default().await?;
    let count = AtomicUsize::new(0);
    let maps = operator.informer::<ConfigMap>();
    let controller = Controller::of(&maps).reconciling(move |_: Arc<ConfigMap>, _| {
        let before = count.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            tell("reconciled", now_micros());
        }
        if before + 1 == objects {
            tell("idle", objects);
        }
        async { Ok::<_, Infallible>(Action::await_change()) }
    });
    operator.add(controller)?;
    Ok(operator)
}

/// Runs until a signal.
///
/// # Errors
/// The operator fails.
pub async fn run(timings: Timings, objects: usize) -> Result<(), Failed> {
    let operator = operator(timings, objects).await?;
    let factory = operator.factory().clone();
    tokio::spawn(async move {
        if factory.synced_within(PATIENCE).await.is_ok() {
            tell("synced", 1);
        }
    });
    Ok(operator.run().await?)
}
