//! A replica of client-go and one of ours stand for one lease, round after round, on both servers.
//!
//! ```text
//! client-go candidate (process) ─┐                          ┌─ watch: each version of the lease
//! our candidate (this process) ──┴─▶ Lease, ConfigMap duel ─┴─ watch: each write, by whom
//! ```
//!
//! Both histories have versions of one counter, so a write has a holder: the one whose version of the
//! lease was the last before it. `KINFORM_DUEL_ROUNDS` is the number of rounds, 10 if it is not set; in a
//! round each of the two leads once.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::source::{ClientOptions, client_for};
use kinform_e2e::program::Program;
use kinform_e2e::servers::{Host, Servers};
use kinform_operator::leader::{LeaderElection, LeaseOptions};
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(60);
const NAME: &str = "duel";
const OURS: &str = "ours";
const THEIRS: &str = "client-go";

/// Versions with a text: the holder of the lease, or the author of a write.
type History = Arc<Mutex<Vec<(u64, String)>>>;

async fn follow<K>(api: Api<K>, from: String, history: History, text: fn(&K) -> String)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let params = WatchParams::default()
        .fields("metadata.name=duel")
        .timeout(290);
    let mut from = from;
    loop {
        let watch = api.watch(&params, &from).await.unwrap();
        let mut watch = std::pin::pin!(watch);
        while let Some(event) = watch.next().await {
            let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event.unwrap() else {
                continue;
            };
            from = object.resource_version().unwrap();
            let entry = (from.parse().unwrap(), text(&object));
            history.lock().unwrap().push(entry);
        }
    }
}

fn holder(lease: &Lease) -> String {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.clone())
        .unwrap_or_default()
}

fn author(map: &ConfigMap) -> String {
    map.annotations().get("by").cloned().unwrap_or_default()
}

/// Leads for a moment, writes meanwhile, and releases.
async fn reign(host: &Host) {
    let election = LeaderElection::new("default", NAME)
        .identity(OURS)
        .options(LeaseOptions::quick());
    let leadership = election.start(host.config()).unwrap();
    let client = leadership
        .guard()
        .client(host.config(), &unlimited())
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let term = tokio::time::timeout(PATIENCE, leadership.won())
        .await
        .expect("a term")
        .unwrap();
    let end = Instant::now() + Duration::from_millis(150);
    let mut count = 0;
    while Instant::now() < end {
        count += 1;
        let at = format!("{} {count}", term.version);
        let patch = json!({ "metadata": { "annotations": { "by": OURS, "at": at } } });
        let _ = maps
            .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    leadership.stop().await;
}

fn unlimited() -> ClientOptions {
    ClientOptions::default().with_rate_limit(0, 0)
}

async fn wait_for(history: &History, holder: &str, after: usize) {
    let began = Instant::now();
    while !history.lock().unwrap()[after..]
        .iter()
        .any(|(_, name)| name == holder)
    {
        assert!(
            began.elapsed() < PATIENCE,
            "{holder} does not lead: {:?}",
            history.lock().unwrap().last()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Writes by the holder of their time, and others, of one author.
fn attributed(leases: &[(u64, String)], writes: &[(u64, String)], by: &str) -> (usize, usize) {
    let of = |version: u64| {
        let before = leases.iter().rev().find(|(at, _)| *at < version);
        before
            .map(|(_, holder)| holder.as_str())
            .unwrap_or_default()
    };
    let own = writes.iter().filter(|(_, author)| author == by);
    let (inside, outside): (Vec<_>, Vec<_>) = own.partition(|(version, _)| of(*version) == by);
    (inside.len(), outside.len())
}

async fn duel(host: &Host, program: &Program, rounds: usize) {
    let client: Client = client_for(host.config(), &unlimited()).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map = serde_json::from_value(json!({ "metadata": { "name": NAME } })).unwrap();
    let made = maps.create(&PostParams::default(), &map).await.unwrap();
    let from = made.resource_version().unwrap();
    let (leases, writes) = (History::default(), History::default());
    let api: Api<Lease> = Api::namespaced(client, "default");
    let watching = [
        tokio::spawn(follow(api, from.clone(), Arc::clone(&leases), holder)),
        tokio::spawn(follow(maps, from, Arc::clone(&writes), author)),
    ];
    let mut theirs = program.command();
    theirs
        .arg(host.kubeconfig())
        .args([NAME, THEIRS])
        .stdin(Stdio::piped());
    let mut theirs = theirs.kill_on_drop(true).spawn().unwrap();
    let began = Instant::now();
    for _ in 0..rounds {
        let seen = leases.lock().unwrap().len();
        wait_for(&leases, THEIRS, seen.saturating_sub(1)).await;
        reign(host).await;
    }
    let took = began.elapsed();
    drop(theirs.stdin.take());
    let _ = tokio::time::timeout(PATIENCE, theirs.wait())
        .await
        .expect("it ends");
    watching.iter().for_each(tokio::task::JoinHandle::abort);
    let (leases, writes) = (
        leases.lock().unwrap().clone(),
        writes.lock().unwrap().clone(),
    );
    let mut changes = leases.clone();
    changes.dedup_by(|a, b| a.1 == b.1);
    // A lease in use is never taken: between two holders it is free.
    for pair in changes.windows(2) {
        assert!(
            pair[0].1.is_empty() || pair[1].1.is_empty(),
            "taken from a holder: {pair:?}"
        );
    }
    let reigns = |name: &str| changes.iter().filter(|(_, holder)| holder == name).count();
    let (inside, outside) = attributed(&leases, &writes, OURS);
    let (theirs_inside, theirs_outside) = attributed(&leases, &writes, THEIRS);
    println!(
        "RESULT | lease in common with client-go | {} | {rounds} rounds in {:.0} s: we led {} times, it {}; our writes {inside} in our terms, {outside} outside; its {theirs_inside} and {theirs_outside} |",
        host.kind(),
        took.as_secs_f64(),
        reigns(OURS),
        reigns(THEIRS),
    );
    assert!(reigns(OURS) >= rounds && reigns(THEIRS) >= rounds);
    assert!(
        inside >= rounds && outside == 0,
        "{outside} writes outside of our terms"
    );
}

#[test]
fn our_replica_and_one_of_client_go_take_turns_on_one_lease() {
    let asked = std::env::var("KINFORM_DUEL_ROUNDS").ok();
    let rounds = asked.map_or(10, |text| text.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let Some(program) = Program::go("client-go", "./candidate").await.unwrap() else {
            return;
        };
        let servers = Servers::start("lease in common with client-go")
            .await
            .unwrap();
        for host in servers.hosts() {
            duel(host, &program, rounds).await;
        }
    });
}
