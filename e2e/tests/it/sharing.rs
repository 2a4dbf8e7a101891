//! Replicas of sharded operators that are killed, paused, added and removed in a loop: on both servers,
//! behind two servers of which one knows no shards, and the sample controller as it is.
//!
//! ```text
//! Plan ──▶ sharing::run ──▶ RESULT: a row of figures
//! ```
//!
//! The short form, of quick leases on the embedded server, always runs, and with it the replicas
//! without a guard, which show that the judge can fail. The long ones have leases of 15 s: `cargo xtask e2e shards` sets their duration in `KINFORM_SHARDS_SECONDS`.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kinform_apiserver::{FeatureGate, Server};
use kinform_e2e::servers::Host;
use kinform_e2e::sharing::{Fork, Plan, Work, run};

const SHARER: &str = env!("CARGO_BIN_EXE_sharer");
const SAMPLE: &str = env!("CARGO_BIN_EXE_sample-controller");
const GATE: &str = "--feature-gates=ShardedListAndWatch=true";
const NO_GATE: &str = "--feature-gates=ShardedListAndWatch=false";

const SHORT: (Duration, Duration) = (Duration::from_secs(12), Duration::from_secs(4));
const LEASE: Duration = Duration::from_secs(15);

fn seed() -> u64 {
    let asked = std::env::var("KINFORM_SEED").ok();
    asked.map_or(7, |text| text.parse().unwrap())
}

/// The duration of the long form; `None` if it was not asked for.
fn long() -> Option<Duration> {
    let asked = std::env::var("KINFORM_SHARDS_SECONDS").ok()?;
    Some(Duration::from_secs(asked.parse().unwrap()))
}

fn block(story: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(story);
}

fn plan(work: Work, kubeconfig: &Path, (length, lease): (Duration, Duration)) -> Plan<'static> {
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
async fn judged(what: &str, server: &str, plan: Plan<'_>, host: &Host) {
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

async fn gated() -> Host {
    let gated = Server::builder().feature_gates(FeatureGate::ShardedListAndWatch);
    Host::embedded(gated).await.unwrap()
}

/// A real server with these flags; `None`, with a row that says so, where it cannot be built.
async fn real_host(what: &str) -> Option<Host> {
    let missing = kinform_e2e::missing();
    if missing.is_empty() {
        return Some(Host::real_with(GATE).await.unwrap());
    }
    let missing = missing.join(", ");
    println!("RESULT | shards: {what} | real | skipped: no {missing} |");
    None
}

const LOOP: &str = "replicas in trouble";
const SAMPLES: &str = "the sample in trouble";
const MIXED: &str = "one of two servers lacks the gate";

/// A run on the embedded server: short, unless the long form was asked for.
async fn on_embedded(what: &str, work: Work) {
    let host = gated().await;
    let times = long().map_or(SHORT, |length| (length, LEASE));
    let plan = plan(work, host.kubeconfig(), times);
    judged(what, "embedded", plan, &host).await;
}

/// A run on a real server, if the long form was asked for.
async fn on_real(what: &str, work: Work) {
    let Some(length) = long() else { return };
    let Some(host) = real_host(what).await else {
        return;
    };
    let plan = plan(work, host.kubeconfig(), (length, LEASE));
    judged(what, "real", plan, &host).await;
}

/// A run behind two servers, of which now the one answers and now the other.
async fn mixed(server: &str, first: &Host, second: &Host, length: Duration) {
    let addresses = [first, second].map(|host| host.address().unwrap());
    let fork = Fork::start(addresses, seed()).await.unwrap();
    let kubeconfig = at(first, fork.address());
    let mut plan = plan(Work::Sharer, &kubeconfig, (length, LEASE));
    plan.fork = Some(&fork);
    judged(MIXED, server, plan, first).await;
}

/// The kubeconfig of a server at another address.
fn at(host: &Host, address: SocketAddr) -> PathBuf {
    let path = host.home().join("forked");
    let text = std::fs::read_to_string(host.kubeconfig()).unwrap();
    let own = host.address().unwrap().to_string();
    assert!(text.contains(&own), "{text}");
    std::fs::write(&path, text.replace(&own, &address.to_string())).unwrap();
    path
}

// A module each: `cargo xtask e2e shards` runs one by its path.

mod embedded {
    use super::*;

    #[test]
    fn each_key_is_written_by_the_owner_of_its_shard_though_replicas_come_and_go() {
        block(on_embedded(LOOP, Work::Sharer));
    }
}

mod real {
    use super::*;

    #[test]
    fn each_key_is_written_by_the_owner_of_its_shard_though_replicas_come_and_go() {
        block(on_real(LOOP, Work::Sharer));
    }
}

mod sample_embedded {
    use super::*;

    #[test]
    fn every_change_is_answered_and_only_what_was_deleted_is_cleaned_up() {
        block(on_embedded(SAMPLES, Work::Sample));
    }
}

mod sample_real {
    use super::*;

    #[test]
    fn every_change_is_answered_and_only_what_was_deleted_is_cleaned_up() {
        block(on_real(SAMPLES, Work::Sample));
    }
}

mod mixed_embedded {
    use super::*;

    #[test]
    fn each_key_is_written_by_the_owner_of_its_shard_though_one_of_two_servers_lacks_the_gate() {
        let Some(length) = long() else { return };
        block(async {
            let first = gated().await;
            let state = first.server().unwrap().shared_state();
            let second = Server::builder().state(state).without_garbage_collection();
            let second = Host::embedded(second).await.unwrap();
            mixed("embedded", &first, &second, length).await;
        });
    }
}

mod careless {
    use super::*;

    #[test]
    fn a_replica_without_a_guard_that_was_paused_is_noticed() {
        block(async {
            let host = gated().await;
            let times = (Duration::ZERO, SHORT.1);
            let plan = plan(Work::Careless, host.kubeconfig(), times);
            let told = run(&plan, host.client().unwrap()).await.unwrap();
            let failures = told.failures().join("\n");
            let found = failures
                .lines()
                .find(|line| line.contains("writes were no owner's"));
            let found = found.unwrap_or_else(|| panic!("not noticed: {failures}"));
            println!("RESULT | shards: replicas without a guard | embedded | noticed: {found} |");
        });
    }
}

mod wire {
    use super::*;

    /// Bytes a second that a replica of four reads.
    async fn read(server: kinform_apiserver::Builder) -> f64 {
        let host = Host::embedded(server).await.unwrap();
        let plan = plan(Work::Sharer, host.kubeconfig(), (Duration::ZERO, LEASE));
        let told = run(&plan, host.client().unwrap()).await.unwrap();
        assert!(told.failures().is_empty(), "{:?}", told.failures());
        told.read_a_second()
    }

    #[test]
    fn a_replica_of_four_reads_little_more_than_its_share_where_the_server_knows_shards() {
        if long().is_none() {
            return;
        }
        block(async {
            let whole = read(Server::builder()).await;
            let gate = FeatureGate::ShardedListAndWatch;
            let share = read(Server::builder().feature_gates(gate)).await / whole;
            println!(
                "RESULT | shards: wire of one replica of four | embedded | {share:.2}x of what it reads without the gate, {whole:.0} bytes/s |"
            );
            // Less would mean that the bytes are not counted.
            assert!((0.15..=0.3).contains(&share), "{share}");
        });
    }
}

mod mixed_real {
    use super::*;

    #[test]
    fn each_key_is_written_by_the_owner_of_its_shard_though_one_of_two_servers_lacks_the_gate() {
        let Some(length) = long() else { return };
        block(async {
            let Some(first) = real_host(MIXED).await else {
                return;
            };
            let second = first.beside(NO_GATE).await.unwrap();
            mixed("real", &first, &second, length).await;
        });
    }
}
