//! A successor does not repeat its predecessor's writes, though its caches lag behind them.
//!
//! ```text
//! first: creates a child ──release | crash──▶ second: caches without the child → waits → sees it
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::{Action, Controller, Ctx, ObjectKey};
use kinform_operator::{Error, Operator};
use kinform_testkit::TestServer;
use kube_client::api::{Api, PostParams};
use kube_core::ObjectMeta;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{config_map, electing};

const SECOND: Duration = Duration::from_secs(1);
const ANNOTATION: &str = "kinform.dev/last-writes";

/// A replica whose reconcile function makes one child, under a name of the server's choice.
struct Replica {
    operator: Operator,
    stop: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
    /// Runs that have looked for a child.
    looks: Arc<AtomicUsize>,
    /// Runs that found none may go on.
    go: Arc<Semaphore>,
}

async fn reconcile(cx: Ctx<()>, go: &Semaphore, has_child: bool) -> Result<Action, kinform::Error> {
    if !has_child {
        let _permit = go.acquire().await;
        let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
        let child = Secret {
            metadata: ObjectMeta {
                generate_name: Some("child-".to_owned()),
                ..ObjectMeta::default()
            },
            ..Secret::default()
        };
        secrets.create(&PostParams::default(), &child).await?;
    }
    Ok(Action::await_change())
}

impl Replica {
    fn start(api: &TestServer) -> Self {
        let mut settings = electing();
        (settings.probe_address, settings.metrics_address) = (None, None);
        let builder = Operator::builder("test-operator").settings(settings);
        let operator = builder.with_client(api.client()).unwrap();
        let maps = operator.informer::<ConfigMap>();
        let secrets = operator.informer::<Secret>();
        let (looks, go) = (Arc::<AtomicUsize>::default(), Arc::new(Semaphore::new(0)));
        let (looked, gate) = (Arc::clone(&looks), Arc::clone(&go));
        let controller =
            Controller::of(&maps).watches(&secrets, |_| Some(ObjectKey::new(Some("default"), "a")));
        let controller = controller.reconciling(move |map: Arc<ConfigMap>, cx: Ctx<()>| {
            let (secrets, gate) = (secrets.clone(), Arc::clone(&gate));
            let is_parent = map.metadata.name.as_deref() == Some("a");
            let has_child = !is_parent || !secrets.list().is_empty();
            looked.fetch_add(usize::from(is_parent), Ordering::Relaxed);
            async move { reconcile(cx, &gate, has_child).await }
        });
        operator.add(controller).unwrap();
        let stop = CancellationToken::new();
        let (run, token) = (operator.clone(), stop.clone());
        let running = tokio::spawn(async move { run.run_until(token).await });
        Self {
            operator,
            stop,
            running,
            looks,
            go,
        }
    }

    async fn looked(&self) {
        until(|| self.looks.load(Ordering::Relaxed) > 0).await;
    }

    async fn leads(&self) {
        until(|| self.operator.term().is_some()).await;
    }

    async fn stopped(self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(60 * SECOND, self.running).await;
        ended.expect("it ends in time").unwrap().unwrap();
    }
}

async fn until(mut holds: impl FnMut() -> bool) {
    let waits = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(120 * SECOND, waits).await;
    waited.expect("it waits in vain");
}

fn children(api: &TestServer) -> usize {
    api.server().objects("secrets").len()
}

/// A leader that has made a child, and a warm standby whose caches lack it.
async fn child_unseen_by_the_standby() -> (TestServer, Replica, Replica) {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&config_map("a")).await.unwrap();
    let first = Replica::start(&api);
    first.looked().await;
    let second = Replica::start(&api);
    let synced = second.operator.factory().synced_within(60 * SECOND);
    synced.await.unwrap();
    second.go.add_permits(100);
    // The lease's watches are open, too.
    tokio::time::sleep(SECOND).await;
    api.lag();
    first.go.add_permits(1);
    until(|| children(&api) == 1).await;
    (api, first, second)
}

async fn annotation(api: &TestServer) -> Option<String> {
    let lease: Lease = api.get("default/test-operator").await.unwrap().unwrap();
    lease.metadata.annotations?.remove(ANNOTATION)
}

#[tokio::test(start_paused = true)]
async fn r6_a_released_lease_tells_the_last_writes_and_the_successor_waits_for_them() {
    let (api, first, second) = child_unseen_by_the_standby().await;
    let version = api.server().objects("secrets")[0].revision().to_string();
    first.stopped().await;
    let told = annotation(&api).await.expect("the release tells something");
    assert!(
        told.contains(&format!(r#""writes":{{"secrets":"{version}"}}"#)),
        "{told}"
    );
    second.leads().await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(
        second.looks.load(Ordering::Relaxed),
        0,
        "it does not work on an old view"
    );
    assert_eq!(
        annotation(&api).await,
        None,
        "the next record does not keep it"
    );
    api.catch_up();
    second.looked().await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(children(&api), 1);
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_successor_asks_and_waits_for_the_answer() {
    let (api, first, second) = child_unseen_by_the_standby().await;
    first.running.abort();
    drop(first);
    let listed = api.server().journal().count("list", "secrets");
    second.leads().await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(second.looks.load(Ordering::Relaxed), 0);
    assert_eq!(api.server().journal().count("list", "secrets") - listed, 1);
    api.catch_up();
    second.looked().await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(children(&api), 1);
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn caches_that_do_not_catch_up_keep_a_successor_no_longer_than_two_seconds() {
    let (api, first, second) = child_unseen_by_the_standby().await;
    first.running.abort();
    drop(first);
    second.leads().await;
    let begun = Instant::now();
    second.looked().await;
    let took = begun.elapsed();
    assert!(
        took >= SECOND && took <= 2 * SECOND + SECOND / 10,
        "{took:?}"
    );
    api.catch_up();
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_of_a_term_without_writes_works_at_once() {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&config_map("a")).await.unwrap();
    let child = Secret {
        metadata: config_map("child").metadata,
        ..Secret::default()
    };
    api.create(&child).await.unwrap();
    let first = Replica::start(&api);
    first.looked().await;
    let second = Replica::start(&api);
    let synced = second.operator.factory().synced_within(60 * SECOND);
    synced.await.unwrap();
    first.stopped().await;
    second.leads().await;
    let begun = Instant::now();
    second.looked().await;
    assert!(begun.elapsed() <= SECOND / 20, "{:?}", begun.elapsed());
    second.stopped().await;
    assert_eq!(children(&api), 1);
}
