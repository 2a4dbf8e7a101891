//! Replicas that share the keys of a controller, under paused time.
//!
//! ```text
//! replicas: join, stop, are killed ─▶ who works on which key, and when ─▶ Ledger: never two at once
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kinform::{Action, Controller, Ctx, Shards, Target};
use kinform_operator::leader::is_not_leading;
use kinform_operator::{Error, Operator, Settings, ShardSettings};
use kinform_testkit::TestServer;
use kube_client::api::{Api, ListParams};
use kube_core::ObjectMeta;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const NAMESPACES: usize = 24;
const SHARDS: u32 = 8;
const SECOND: Duration = Duration::from_secs(1);
/// The time that a reconcile takes.
const WORK: Duration = Duration::from_millis(20);

/// Everything that replicas did.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Runs>>);

#[derive(Default)]
struct Runs {
    /// Keys that are worked on, and by whom.
    running: BTreeMap<String, usize>,
    /// The last worker on each key, and when it began.
    last: BTreeMap<String, (usize, Instant)>,
    clashes: Vec<String>,
}

/// A run of a reconcile function; it ends when this is dropped.
struct Run<'a> {
    ledger: &'a Ledger,
    key: String,
}

impl Ledger {
    fn begin(&self, key: &str, replica: usize) -> Run<'_> {
        let mut runs = self.0.lock().unwrap();
        if let Some(other) = runs.running.insert(key.to_owned(), replica) {
            runs.clashes.push(format!("{key}: {other} and {replica}"));
        }
        runs.last.insert(key.to_owned(), (replica, Instant::now()));
        let (ledger, key) = (self, key.to_owned());
        Run { ledger, key }
    }

    /// The keys whose last run began since then, and was by one of these replicas.
    fn done_since(&self, since: Instant, replicas: &[usize]) -> usize {
        let runs = self.0.lock().unwrap();
        let done = runs.last.values();
        done.filter(|(replica, at)| *at >= since && replicas.contains(replica))
            .count()
    }

    fn clashes(&self) -> Vec<String> {
        self.0.lock().unwrap().clashes.clone()
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.ledger.0.lock().unwrap().running.remove(&self.key);
    }
}

fn namespace(number: usize) -> String {
    // Names that differ at the beginning: hashes of texts that differ in their last letters are close.
    format!("{number}-team")
}

fn settings(shards: Shards) -> Settings {
    let mut settings = Settings::default();
    (settings.probe_address, settings.metrics_address) = (None, None);
    let mut sharding = ShardSettings::new(shards);
    sharding.namespace = Some("default".to_owned());
    settings.sharding = Some(sharding);
    settings
}

struct Replica {
    operator: Operator,
    stop: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
}

impl Replica {
    fn start(api: &TestServer, number: usize, ledger: &Ledger) -> Self {
        let shards = Shards::by_namespace(SHARDS).unwrap();
        Self::dividing(api, number, ledger, shards)
    }

    fn dividing(api: &TestServer, number: usize, ledger: &Ledger, shards: Shards) -> Self {
        let builder = Operator::builder("test-operator").settings(settings(shards));
        let operator = builder.with_client(api.client()).unwrap();
        let share = operator.share().unwrap();
        let maps = operator.factory().select(Target::<ConfigMap>::new());
        let maps = maps.share(&share).build();
        let ledger = ledger.clone();
        let controller = Controller::of(&maps).sharded(&share).workers(4);
        let controller = controller.reconciling(move |_: Arc<ConfigMap>, cx: Ctx<()>| {
            let ledger = ledger.clone();
            async move {
                let _run = ledger.begin(&cx.key().to_string(), number);
                tokio::time::sleep(WORK).await;
                Ok::<_, kinform::Error>(Action::requeue(SECOND))
            }
        });
        operator.add(controller).unwrap();
        let stop = CancellationToken::new();
        let (run, token) = (operator.clone(), stop.clone());
        let running = tokio::spawn(async move { run.run_until(token).await });
        Self {
            operator,
            stop,
            running,
        }
    }

    fn open(&self) -> BTreeSet<u32> {
        let share = self.operator.share().unwrap();
        share.open_shards().iter().map(|shard| shard.0).collect()
    }

    async fn stopped(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }
}

async fn cluster() -> TestServer {
    let api = TestServer::start()
        .in_process()
        .without_lag()
        .await
        .unwrap();
    for number in 0..NAMESPACES {
        let mut space = Namespace::default();
        space.metadata.name = Some(namespace(number));
        api.create(&space).await.unwrap();
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some("a".to_owned()),
                namespace: Some(namespace(number)),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        api.create(&map).await.unwrap();
    }
    api
}

/// Waits until each shard is open in one replica, and each replica has its part.
async fn balanced(replicas: &[&Replica]) {
    let least = SHARDS as usize / replicas.len();
    let is_balanced = || {
        let open: Vec<_> = replicas.iter().map(|replica| replica.open()).collect();
        let all: BTreeSet<_> = open.iter().flatten().collect();
        all.len() == SHARDS as usize && open.iter().all(|open| open.len() >= least)
    };
    within(60 * SECOND, is_balanced).await;
    let open = replicas.iter().map(|replica| replica.open().len());
    assert_eq!(
        open.sum::<usize>(),
        SHARDS as usize,
        "no shard is open twice"
    );
}

/// Waits for a condition; returns the time that it took.
async fn within(limit: Duration, holds: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "not within {limit:?}");
        // Time is paused: it passes when everything else is at rest.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn replicas_share_the_keys_and_one_that_joins_or_stops_moves_its_part() {
    let (api, ledger) = (cluster().await, Ledger::default());
    let first = Replica::start(&api, 1, &ledger);
    balanced(&[&first]).await;
    let since = Instant::now();
    within(5 * SECOND, || ledger.done_since(since, &[1]) == NAMESPACES).await;

    let second = Replica::start(&api, 2, &ledger);
    let third = Replica::start(&api, 3, &ledger);
    let joined = Instant::now();
    balanced(&[&first, &second, &third]).await;
    assert!(joined.elapsed() < 10 * SECOND, "{:?}", joined.elapsed());
    let since = Instant::now();
    within(5 * SECOND, || {
        ledger.done_since(since, &[1, 2, 3]) == NAMESPACES
    })
    .await;
    assert!(
        ledger.done_since(since, &[1]) < NAMESPACES,
        "the others work, too"
    );

    let since = Instant::now();
    second.stopped().await;
    balanced(&[&first, &third]).await;
    assert!(since.elapsed() < 2 * SECOND, "{:?}", since.elapsed());
    within(5 * SECOND, || {
        ledger.done_since(since, &[1, 3]) == NAMESPACES
    })
    .await;

    let leases: Api<Lease> = Api::namespaced(api.client(), "default");
    let all = leases.list(&ListParams::default()).await.unwrap();
    let names = all
        .items
        .iter()
        .filter_map(|lease| lease.metadata.name.as_deref());
    let members = names.filter(|name| name.contains("-member-")).count();
    assert_eq!(members, 2, "the lease of the one that stopped is deleted");
    first.stopped().await;
    third.stopped().await;
    assert_eq!(ledger.clashes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_a_replica_that_was_killed_are_worked_on_again_and_it_is_not_waited_for() {
    let (api, ledger) = (cluster().await, Ledger::default());
    let first = Replica::start(&api, 1, &ledger);
    let second = Replica::start(&api, 2, &ledger);
    balanced(&[&first, &second]).await;
    let client = second.operator.shard_client().unwrap();
    let since = Instant::now();
    second.running.abort();
    let _ = second.running.await;
    drop(second.operator);
    within(20 * SECOND, || ledger.done_since(since, &[1]) == NAMESPACES).await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let refused = maps.delete("a", &Default::default()).await.unwrap_err();
    assert!(
        is_not_leading(&refused),
        "its writes are refused: {refused}"
    );
    balanced(&[&first]).await;
    first.stopped().await;
    assert_eq!(ledger.clashes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_term_of_a_member_is_the_one_that_its_shards_name() {
    let (api, ledger) = (cluster().await, Ledger::default());
    let first = Replica::start(&api, 1, &ledger);
    assert!(first.operator.shard_term().is_none(), "it is no member yet");
    balanced(&[&first]).await;
    let term = first.operator.shard_term().unwrap();
    let leases: Api<Lease> = Api::namespaced(api.client(), "default");
    let all = leases.list(&ListParams::default()).await.unwrap();
    let named = all.items.iter().filter_map(|lease| {
        let annotations = lease.metadata.annotations.as_ref()?;
        annotations.get("kinform.dev/term").cloned()
    });
    let own = format!("{} {}", term.uid, term.transitions);
    assert_eq!(named.collect::<Vec<_>>(), vec![own; SHARDS as usize]);
    let operator = first.operator.clone();
    first.stopped().await;
    assert!(operator.shard_term().is_none(), "it is no member any more");
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_lease_is_lost_ends_its_work_and_stands_again() {
    let (api, ledger) = (cluster().await, Ledger::default());
    let first = Replica::start(&api, 1, &ledger);
    let second = Replica::start(&api, 2, &ledger);
    balanced(&[&first, &second]).await;
    let leases: Api<Lease> = Api::namespaced(api.client(), "default");
    let all = leases.list(&ListParams::default()).await.unwrap();
    let mut names = all
        .items
        .iter()
        .filter_map(|lease| lease.metadata.name.as_deref());
    let member = names.find(|name| name.contains("-member-")).unwrap();
    leases.delete(member, &Default::default()).await.unwrap();
    let is_whole = || first.open().len() + second.open().len() == SHARDS as usize;
    within(5 * SECOND, || !is_whole()).await;
    balanced(&[&first, &second]).await;
    let since = Instant::now();
    within(5 * SECOND, || {
        ledger.done_since(since, &[1, 2]) == NAMESPACES
    })
    .await;
    first.stopped().await;
    second.stopped().await;
    assert_eq!(ledger.clashes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn replicas_with_another_number_of_shards_wait_for_those_that_work() {
    let (api, ledger) = (cluster().await, Ledger::default());
    let first = Replica::start(&api, 1, &ledger);
    balanced(&[&first]).await;
    let more = Shards::by_namespace(2 * SHARDS).unwrap();
    let [second, third] = [2, 3].map(|number| Replica::dividing(&api, number, &ledger, more));
    let since = Instant::now();
    tokio::time::sleep(120 * SECOND).await;
    assert_eq!(ledger.done_since(since, &[1]), NAMESPACES);
    assert!(second.open().is_empty() && third.open().is_empty());
    balanced(&[&first]).await;

    let since = Instant::now();
    first.stopped().await;
    within(10 * SECOND, || {
        ledger.done_since(since, &[2, 3]) == NAMESPACES
    })
    .await;
    within(10 * SECOND, || {
        second.open().len() == 8 && third.open().len() == 8
    })
    .await;
    // One that comes back as it was waits for these.
    let old = Replica::start(&api, 4, &ledger);
    tokio::time::sleep(120 * SECOND).await;
    assert!(old.open().is_empty());
    for replica in [second, third, old] {
        replica.stopped().await;
    }
    assert_eq!(ledger.clashes(), [""; 0]);
}

#[tokio::test]
async fn a_controller_that_would_work_in_every_replica_is_refused() {
    let api = TestServer::start().await.unwrap();
    let shards = Shards::by_namespace(SHARDS).unwrap();
    let operator = |settings| {
        let builder = Operator::builder("test-operator").settings(settings);
        builder.with_client(api.client()).unwrap()
    };
    let reconcile = |_: Arc<ConfigMap>, _: Ctx<()>| {
        std::future::ready(Ok::<_, kinform::Error>(Action::await_change()))
    };
    let (a, b) = (operator(settings(shards)), operator(settings(shards)));
    let whole = Controller::of(&a.informer::<ConfigMap>()).reconciling(reconcile);
    let refused = a.add(whole).unwrap_err().to_string();
    assert!(refused.contains("--leader-elect"), "{refused}");
    let foreign = Controller::of(&a.informer::<ConfigMap>()).sharded(&b.share().unwrap());
    let refused = a
        .add(foreign.reconciling(reconcile))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("Operator::share"), "{refused}");
    api.stop().await;
}
