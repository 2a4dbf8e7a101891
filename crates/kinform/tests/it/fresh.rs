//! Views that are fresh, or are refused: against the embedded server, under paused time.
//!
//! ```text
//! server (lag, no bookmarks, restored) → caches → cx.require_fresh → the time it took, or stale
//! ```

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::{
    Action, Controller, ControllerMetrics, Ctx, Error, Informer, InformerFactory, ObjectKey,
    WorkQueue,
};
use kinform_apiserver::{Fault, FaultRule};
use kinform_testkit::TestServer;
use kinform_testkit::server::Loss;
use kube_client::api::{Api, DeleteParams, ListParams};
use kube_core::ObjectMeta;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("default"), name)
}

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        ..ObjectMeta::default()
    }
}

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: meta(name),
        ..ConfigMap::default()
    }
}

fn secret(name: &str) -> Secret {
    Secret {
        metadata: meta(name),
        ..Secret::default()
    }
}

/// A run's demand for a fresh view: its key, its time, its error, the maps that it saw then.
#[derive(Clone, Debug)]
struct Asked {
    name: String,
    took: Duration,
    error: Option<String>,
    saw: usize,
}

/// A controller of config maps whose runs need a fresh view.
struct Running {
    maps: Informer<ConfigMap>,
    factory: InformerFactory,
    queue: WorkQueue<ObjectKey>,
    metrics: ControllerMetrics,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    async fn start(api: &TestServer, workers: usize, limit: Duration) -> Self {
        let factory = InformerFactory::new(api.client());
        let maps = factory.informer::<ConfigMap>();
        factory.start().unwrap();
        maps.synced().await.unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let controller = Controller::of(&maps).workers(workers);
        let (queue, metrics) = (controller.queue(), controller.metrics());
        let (log, seen) = (Arc::clone(&asked), maps.clone());
        let task = tokio::spawn(controller.run(move |map: Arc<ConfigMap>, cx: Ctx<()>| {
            let (log, seen) = (Arc::clone(&log), seen.clone());
            async move {
                let begun = Instant::now();
                let fresh = cx.require_fresh(limit).await;
                let error = fresh.as_ref().err();
                assert!(error.is_none_or(Error::is_stale), "{error:?}");
                log.lock().unwrap().push(Asked {
                    name: map.metadata.name.clone().unwrap(),
                    took: begun.elapsed(),
                    error: error.map(ToString::to_string),
                    saw: seen.list().len(),
                });
                fresh.map(|()| Action::await_change())
            }
        }));
        Self {
            maps,
            factory,
            queue,
            metrics,
            asked,
            task,
        }
    }

    /// Runs a key, and waits for the end of its demand.
    async fn ask(&self, name: &str) -> Asked {
        self.asked.lock().unwrap().clear();
        self.queue.add(key(name));
        self.next(name, |_| true).await
    }

    async fn next(&self, name: &str, is_it: impl Fn(&Asked) -> bool) -> Asked {
        let waits = async {
            loop {
                let asked = self.asked.lock().unwrap().clone();
                let mut asked = asked.into_iter();
                if let Some(found) = asked.find(|asked| asked.name == name && is_it(asked)) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(300 * SECOND, waits).await;
        waited.expect("it waits in vain")
    }

    async fn stop(self) {
        self.task.abort();
        self.factory.shutdown().await;
    }
}

fn lists(api: &TestServer) -> usize {
    api.server().journal().count("list", "configmaps")
}

#[tokio::test(start_paused = true)]
async fn r2_a_view_that_lags_is_stale_until_it_has_caught_up() {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&map("a")).await.unwrap();
    let running = Running::start(&api, 1, SECOND).await;
    running.next("a", |asked| asked.error.is_none()).await;
    api.lag();
    api.create(&map("b")).await.unwrap();
    // Older than the limit: the last proof does not count any more.
    tokio::time::sleep(2 * SECOND).await;
    let before = running.metrics.snapshot();
    let refused = running.ask("a").await;
    let error = refused.error.expect("the view lacks a map");
    assert!(
        error.contains("configmaps may be stale: it did not get to the server's version"),
        "{error}"
    );
    assert_eq!(refused.took, 5 * SECOND);
    api.catch_up();
    let fresh = running.next("a", |asked| asked.error.is_none()).await;
    assert_eq!(fresh.saw, running.maps.list().len());
    assert!(running.maps.get(&key("b")).is_some());
    let after = running.metrics.snapshot();
    assert!(after.stale > before.stale && after.failed == 0, "{after:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r3_a_stale_view_is_retried_each_second_without_failures() {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&map("a")).await.unwrap();
    let running = Running::start(&api, 1, Duration::ZERO).await;
    running.next("a", |asked| asked.error.is_none()).await;
    api.lag();
    api.create(&map("b")).await.unwrap();
    running.ask("a").await;
    tokio::time::sleep(59 * SECOND).await;
    // A question of 5 s, a pause of 1 s.
    let stale = running.metrics.snapshot().stale;
    assert!((9..=11).contains(&stale), "{stale}");
    assert_eq!(running.metrics.snapshot().failed, 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_resource_gets_to_the_servers_version_in_a_second() {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&map("a")).await.unwrap();
    let running = Running::start(&api, 1, Duration::ZERO).await;
    running.next("a", |asked| asked.error.is_none()).await;
    for number in 0..20 {
        api.create(&secret(&format!("s{number}"))).await.unwrap();
    }
    let (listed, watched) = (
        lists(&api),
        api.server().journal().count("watch", "configmaps"),
    );
    let asked = running.ask("a").await;
    assert_eq!(asked.error, None);
    assert!(asked.took < SECOND + SECOND / 4, "{:?}", asked.took);
    assert_eq!(lists(&api) - listed, 1);
    let journal = api.server().journal();
    assert_eq!(journal.count("watch", "configmaps") - watched, 1);
    assert_eq!(journal.open_watches("configmaps"), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_view_whose_bookmarks_are_lost_is_stale_and_does_not_hang() {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&map("a")).await.unwrap();
    let running = Running::start(&api, 1, Duration::ZERO).await;
    running.next("a", |asked| asked.error.is_none()).await;
    api.server().faults().without_bookmarks();
    api.create(&secret("s")).await.unwrap();
    let asked = running.ask("a").await;
    assert_eq!(asked.took, 5 * SECOND);
    assert!(asked.error.is_some());
    api.server().faults().clear();
    let asked = running.next("a", |asked| asked.error.is_none()).await;
    assert!(asked.took < 2 * SECOND);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r1_all_who_ask_at_the_same_time_share_one_question() {
    const KEYS: usize = 50;
    let api = TestServer::start().in_process().await.unwrap();
    for number in 0..KEYS {
        api.create(&map(&format!("m{number}"))).await.unwrap();
    }
    let before = lists(&api);
    let running = Running::start(&api, KEYS, Duration::ZERO).await;
    let all = |running: &Running| running.asked.lock().unwrap().len();
    while all(&running) < KEYS {
        tokio::time::sleep(SECOND / 10).await;
    }
    let asked = running.asked.lock().unwrap().clone();
    assert!(asked.iter().all(|asked| asked.error.is_none()), "{asked:?}");
    assert_eq!(lists(&api) - before, 1);
    running.stop().await;
    // A proof that is young enough answers without a question.
    let before = lists(&api);
    let running = Running::start(&api, 1, 60 * SECOND).await;
    while all(&running) < KEYS {
        tokio::time::sleep(SECOND / 10).await;
    }
    assert_eq!(lists(&api) - before, 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_restored_to_an_older_version_is_believed_and_not_waited_for() {
    let api = TestServer::start().in_process().await.unwrap();
    for number in 0..30 {
        api.create(&map(&format!("m{number}"))).await.unwrap();
    }
    let running = Running::start(&api, 1, Duration::ZERO).await;
    running.next("m0", |asked| asked.error.is_none()).await;
    let api = api.restart(Loss::Everything).await.unwrap();
    api.create(&map("m0")).await.unwrap();
    let begun = Instant::now();
    running.asked.lock().unwrap().clear();
    running.queue.add(key("m0"));
    let fresh = running.next("m0", |asked| asked.error.is_none() && asked.saw < 30);
    let fresh = fresh.await;
    let server: Vec<_> = api.server().objects("configmaps");
    assert_eq!(fresh.saw, server.len());
    assert!(begun.elapsed() < 30 * SECOND, "{:?}", begun.elapsed());
    running.stop().await;
}

// fault: F16
#[tokio::test(start_paused = true)]
async fn k26_a_cache_that_was_away_while_its_server_went_back_and_wrote_on_hears_it_from_another() {
    let api = TestServer::start().in_process().await.unwrap();
    for number in 0..30 {
        api.create(&secret(&format!("lost-{number}")))
            .await
            .unwrap();
    }
    let factory = InformerFactory::new(api.client());
    let (maps, secrets) = (
        factory.informer::<ConfigMap>(),
        factory.informer::<Secret>(),
    );
    factory.start().unwrap();
    maps.synced().await.unwrap();
    secrets.synced().await.unwrap();
    assert_eq!(secrets.list().len(), 30);
    let api = api.restart(Loss::Everything).await.unwrap();
    // The config maps come back first.
    for verb in ["list", "watch"] {
        let away = kinform::Status::failure(503, "ServiceUnavailable", "starting");
        let rule = FaultRule::new(Fault::Reply(away)).on_resource("secrets");
        api.server()
            .faults()
            .inject(rule.on_verb(verb).times(1_000));
    }
    api.create(&secret("new")).await.unwrap();
    tokio::time::sleep(20 * SECOND).await;
    // The new history gets beyond the version at which the watch of secrets stopped.
    for number in 0..100 {
        api.create(&map(&format!("m{number}"))).await.unwrap();
    }
    api.server().faults().clear();
    tokio::time::sleep(120 * SECOND).await;
    let cached = secrets.list();
    let names: Vec<_> = cached.iter().map(|secret| secret.name()).collect();
    assert_eq!(names, ["new"]);
    assert_eq!(maps.list().len(), api.server().objects("configmaps").len());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn more_who_ask_than_the_bound_are_refused_at_once() {
    const KEYS: usize = 1100;
    let api = TestServer::start().in_process().await.unwrap();
    for number in 0..KEYS {
        api.create(&map(&format!("m{number}"))).await.unwrap();
    }
    api.lag();
    api.create(&map("later")).await.unwrap();
    let running = Running::start(&api, KEYS, Duration::ZERO).await;
    let waits = |name: &str| name.contains("too many");
    let is_full = |asked: &Asked| asked.error.as_deref().is_some_and(waits);
    while running.asked.lock().unwrap().len() < KEYS {
        tokio::time::sleep(SECOND / 10).await;
    }
    let asked = running.asked.lock().unwrap().clone();
    let first: Vec<_> = asked.iter().take(KEYS).collect();
    let refused = first.iter().filter(|asked| is_full(asked)).count();
    assert!(refused >= KEYS - 1024 - 1, "{refused}");
    assert!(first.iter().all(|asked| asked.error.is_some()));
    running.stop().await;
}

/// The errors of a delete, and of the delete of a collection, by one run for each token.
#[tokio::test(start_paused = true)]
async fn r4_deletes_on_a_view_that_may_be_stale_are_not_sent() {
    let api = TestServer::start().in_process().await.unwrap();
    for name in ["a", "b", "unread"] {
        api.create(&secret(name)).await.unwrap();
    }
    api.create(&map("a")).await.unwrap();
    let factory = InformerFactory::new(api.client());
    let maps = factory.informer::<ConfigMap>();
    let secrets = factory.informer::<Secret>();
    factory.start().unwrap();
    secrets.synced().await.unwrap();
    let log = Arc::<Mutex<Vec<String>>>::default();
    let controller = Controller::of(&maps)
        .watches(&secrets, |_| None::<ObjectKey>)
        .destructive_needs_fresh(SECOND);
    let (queue, metrics) = (controller.queue(), controller.metrics());
    api.lag();
    api.create(&secret("later")).await.unwrap();
    let told = Arc::clone(&log);
    let reconcile = move |_: Arc<ConfigMap>, cx: Ctx<()>| {
        let (told, secrets) = (Arc::clone(&told), secrets.clone());
        async move {
            let nameless = cx.delete(&secret("unread")).await.unwrap_err();
            assert!(nameless.is_invalid(), "{nameless}");
            let a = secrets.get(&key("a")).unwrap().typed()?;
            let deleted = cx.delete(&*a).await;
            let error = |error: &dyn std::fmt::Display| error.to_string();
            told.lock().unwrap().push(match &deleted {
                Ok(deleted) => format!("deleted {deleted}"),
                Err(stale) => {
                    assert!(stale.is_stale());
                    error(stale)
                }
            });
            let api: Api<Secret> = Api::namespaced(cx.client()?, "default");
            let all = ListParams::default().fields("metadata.name=b");
            let gone = api.delete_collection(&DeleteParams::default(), &all).await;
            told.lock().unwrap().push(match &gone {
                Ok(_) => "deleted the collection".to_owned(),
                Err(stale) => error(stale),
            });
            gone.map(|_| Action::await_change()).map_err(Error::from)
        }
    };
    let running = tokio::spawn(controller.run(reconcile));
    let journal = api.server().journal();
    let deletes =
        || journal.count("delete", "secrets") + journal.count("deletecollection", "secrets");
    while log.lock().unwrap().len() < 2 {
        tokio::time::sleep(SECOND / 10).await;
    }
    let stale = "may be stale: it did not get to the server's version within 5s";
    let lines = log.lock().unwrap().clone();
    assert!(lines.iter().all(|line| line.contains(stale)), "{lines:?}");
    assert!(
        lines[0].starts_with("cannot delete secrets default/a: "),
        "{lines:?}"
    );
    assert_eq!(deletes(), 0);
    api.catch_up();
    log.lock().unwrap().clear();
    queue.add(key("a"));
    while deletes() < 2 {
        tokio::time::sleep(SECOND / 10).await;
    }
    api.until_gone::<Secret>("default/a").await.unwrap();
    api.until_gone::<Secret>("default/b").await.unwrap();
    let stats = metrics.snapshot();
    assert!(stats.stale > 0 && stats.failed == 0, "{stats:?}");
    running.abort();
    factory.shutdown().await;
}
