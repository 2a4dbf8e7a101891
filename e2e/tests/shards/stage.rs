//! The stage of replicas in trouble: servers, plans, and what their figures must be.
//!
//! ```text
//! Host, Work, times ──▶ Plan ──▶ sharing::run ──▶ RESULT: a row of figures; no failure
//! ```
//!
//! The short runs of `it` and the long ones of `shards` are made here.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use kinform_apiserver::{FeatureGate, Server};
use kinform_e2e::servers::Host;
use kinform_e2e::sharing::{Plan, Work, run};

const SHARER: &str = env!("CARGO_BIN_EXE_sharer");
const SAMPLE: &str = env!("CARGO_BIN_EXE_sample-controller");

pub(crate) const LOOP: &str = "replicas in trouble";
pub(crate) const SAMPLES: &str = "the sample in trouble";

/// The duration of the troubles, and that of a lease.
pub(crate) type Times = (Duration, Duration);

/// Those of a short run.
pub(crate) const SHORT: Times = (Duration::from_secs(12), Duration::from_secs(4));

pub(crate) fn seed() -> u64 {
    let asked = std::env::var("KINFORM_SEED").ok();
    asked.map_or(7, |text| text.parse().unwrap())
}

pub(crate) fn block(story: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(story);
}

pub(crate) fn plan(work: Work, kubeconfig: &Path, (length, lease): Times) -> Plan<'static> {
    Plan {
        work,
        binary: match work {
            Work::Sharer | Work::Careless => SHARER,
            Work::Sample => SAMPLE,
        },
        kubeconfig: kubeconfig.to_owned(),
        fork: None,
        length,
        lease,
        seed: seed(),
    }
}

/// Runs a plan, prints its row, and checks it.
pub(crate) async fn judged(what: &str, server: &str, plan: Plan<'_>, host: &Host) {
    let seed = plan.seed;
    let told = run(&plan, host.client().unwrap()).await;
    let told = told.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    println!(
        "RESULT | shards: {what} | {server} | {}, seed {seed} |",
        told.row()
    );
    let failures = told.failures();
    assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
}

pub(crate) async fn gated() -> Host {
    let gated = Server::builder().feature_gates(FeatureGate::ShardedListAndWatch);
    Host::embedded(gated).await.unwrap()
}

/// A run on the embedded server.
pub(crate) async fn on_embedded(what: &str, work: Work, times: Times) {
    let host = gated().await;
    judged(
        what,
        "embedded",
        plan(work, host.kubeconfig(), times),
        &host,
    )
    .await;
}

/// Replicas without a guard, of which one is paused for longer than its lease: the judge must notice.
pub(crate) async fn noticed() {
    let host = gated().await;
    let plan = plan(Work::Careless, host.kubeconfig(), (Duration::ZERO, SHORT.1));
    let told = run(&plan, host.client().unwrap()).await.unwrap();
    let failures = told.failures().join("\n");
    let found = failures
        .lines()
        .find(|line| line.contains("writes were no owner's"));
    let found = found.unwrap_or_else(|| panic!("not noticed: {failures}"));
    println!("RESULT | shards: replicas without a guard | embedded | noticed: {found} |");
}
