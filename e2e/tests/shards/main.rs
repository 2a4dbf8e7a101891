//! Replicas of sharded operators that are killed, paused, added and removed in a loop: on both servers,
//! behind two servers of which one knows no shards, and the sample controller as it is.
//!
//! ```text
//! Plan ──▶ sharing::run ──▶ RESULT: a row of figures
//! ```
//!
//! Opt-in: `cargo xtask e2e shards`, which sets the duration of each run in
//! `KINFORM_SHARDS_SECONDS`. Leases are those of the defaults, 15 s.

mod stage;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kinform_apiserver::{FeatureGate, Server};
use kinform_e2e::servers::Host;
use kinform_e2e::sharing::{Fork, Work, run};

use crate::stage::{LOOP, SAMPLES, Times, block, gated, judged, noticed, on_embedded, plan, seed};

const GATE: &str = "--feature-gates=ShardedListAndWatch=true";
const NO_GATE: &str = "--feature-gates=ShardedListAndWatch=false";
const LEASE: Duration = Duration::from_secs(15);
const MIXED: &str = "one of two servers lacks the gate";

/// The times that were asked for; a minute of troubles if none were.
fn times() -> Times {
    let asked = std::env::var("KINFORM_SHARDS_SECONDS").ok();
    let seconds = asked.map_or(60, |text| text.parse().unwrap());
    (Duration::from_secs(seconds), LEASE)
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

/// A run on a real server.
async fn on_real(what: &str, work: Work) {
    let Some(host) = real_host(what).await else {
        return;
    };
    let plan = plan(work, host.kubeconfig(), times());
    judged(what, "real", plan, &host).await;
}

/// A run behind two servers, of which now the one answers and now the other.
async fn mixed(server: &str, first: &Host, second: &Host) {
    let addresses = [first, second].map(|host| host.address().unwrap());
    let fork = Fork::start(addresses, seed()).await.unwrap();
    let kubeconfig = at(first, fork.address());
    let mut plan = plan(Work::Sharer, &kubeconfig, times());
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

#[test]
fn embedded() {
    block(on_embedded(LOOP, Work::Sharer, times()));
}

#[test]
fn real() {
    block(on_real(LOOP, Work::Sharer));
}

#[test]
fn sample_embedded() {
    block(on_embedded(SAMPLES, Work::Sample, times()));
}

#[test]
fn sample_real() {
    block(on_real(SAMPLES, Work::Sample));
}

#[test]
fn mixed_embedded() {
    block(async {
        let first = gated().await;
        let state = first.server().unwrap().shared_state();
        let second = Server::builder().state(state).without_garbage_collection();
        let second = Host::embedded(second).await.unwrap();
        mixed("embedded", &first, &second).await;
    });
}

#[test]
fn mixed_real() {
    block(async {
        let Some(first) = real_host(MIXED).await else {
            return;
        };
        let second = first.beside(NO_GATE).await.unwrap();
        mixed("real", &first, &second).await;
    });
}

#[test]
fn careless() {
    block(noticed());
}

/// Bytes a second that a replica of four reads.
async fn read(server: kinform_apiserver::Builder) -> f64 {
    let host = Host::embedded(server).await.unwrap();
    let plan = plan(Work::Sharer, host.kubeconfig(), (Duration::ZERO, LEASE));
    let told = run(&plan, host.client().unwrap()).await.unwrap();
    assert!(told.failures().is_empty(), "{:?}", told.failures());
    told.read_a_second()
}

/// A replica of four reads little more than its share where the server knows shards.
#[test]
fn wire() {
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
