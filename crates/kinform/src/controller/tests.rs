//! The controller over a scripted feed, under paused time.
//!
//! ```text
//! Script (objects that the test sets) → Feed → Controller → what the reconcile function saw
//! ```

mod causes;
mod sharded;
mod terms;
mod turns;
mod watched;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform_api::{GroupVersionResource, ListOptions, Scope, WatchOptions};
use kinform_core::object::Object;
use kinform_core::object::projection::Projection;
use kinform_core::queue::{Priority, Verdict};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::feed::{Hear, Heard, Listening};
use super::*;
use crate::error::ErrorKind;
use crate::factory::{DecodedValues, InformerFactory};
use crate::object::Lens;
use crate::source::{Body, ListerWatcher, ResourceInfo, SourceError};

pub(super) const MS: Duration = Duration::from_millis(1);

pub(super) struct Script<K> {
    info: ResourceInfo,
    lens: Arc<Lens>,
    objects: Mutex<BTreeMap<ObjectKey, Obj<K>>>,
    hears: Arc<Mutex<Vec<Hear<K>>>>,
    synced: watch::Sender<bool>,
    /// Its handlers have received the first list.
    heard: watch::Sender<bool>,
    stopped: CancellationToken,
}

/// A source that is never asked.
struct Silent(ResourceInfo);

impl ListerWatcher for Silent {
    fn list<'a>(&'a self, _: &'a ListOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        Box::pin(std::future::pending())
    }

    fn watch<'a>(&'a self, _: &'a WatchOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        Box::pin(std::future::pending())
    }

    fn resource(&self) -> &ResourceInfo {
        &self.0
    }
}

struct Ear<K>(Arc<Mutex<Vec<Hear<K>>>>, Hear<K>, watch::Receiver<bool>);

impl<K: 'static> Listening for Ear<K> {
    fn heard_first(&self) -> BoxFuture<'_, ()> {
        let mut heard = self.2.clone();
        Box::pin(async move { drop(heard.wait_for(|&heard| heard).await) })
    }

    fn remove(self: Box<Self>) {
        self.0
            .lock()
            .unwrap()
            .retain(|hear| !Arc::ptr_eq(hear, &self.1));
    }
}

impl<K: Send + Sync + 'static> Feed<K> for Script<K> {
    fn resource(&self) -> &ResourceInfo {
        &self.info
    }

    fn get(&self, key: &ObjectKey) -> Option<Obj<K>> {
        self.objects.lock().unwrap().get(key).cloned()
    }

    fn all(&self) -> Vec<Obj<K>> {
        self.objects.lock().unwrap().values().cloned().collect()
    }

    fn listen(&self, hear: Hear<K>, _: Option<Duration>) -> Result<Box<dyn Listening>, Error> {
        for object in self.objects.lock().unwrap().values() {
            hear(Heard::Added {
                object,
                initial: true,
            });
        }
        hear(Heard::BatchEnd);
        self.hears.lock().unwrap().push(Arc::clone(&hear));
        let heard = self.heard.subscribe();
        Ok(Box::new(Ear(Arc::clone(&self.hears), hear, heard)))
    }

    fn synced(&self) -> BoxFuture<'static, Result<(), Error>> {
        let mut synced = self.synced.subscribe();
        Box::pin(async move {
            let stopped = |_| Error::new(ErrorKind::Stopped, "the informer was stopped");
            synced
                .wait_for(|&synced| synced)
                .await
                .map(drop)
                .map_err(stopped)
        })
    }

    fn stopped(&self) -> BoxFuture<'static, ()> {
        let stopped = self.stopped.clone();
        Box::pin(async move { stopped.cancelled().await })
    }
}

impl<K: Send + Sync + 'static> Script<K> {
    fn scoped(group: &str, plural: &str, kind: &str, scope: Scope) -> Arc<Self> {
        let gvr = GroupVersionResource {
            group: group.into(),
            version: "v1".into(),
            resource: plural.into(),
        };
        let info = ResourceInfo::new(gvr, kind, scope);
        let factory = InformerFactory::with_sources(|info, _| Arc::new(Silent(info))).build();
        let informer = factory
            .select::<K>(info.clone())
            .decoded_values(DecodedValues::All)
            .build();
        Arc::new(Self {
            info,
            lens: Arc::clone(informer.lens()),
            objects: Mutex::default(),
            hears: Arc::default(),
            synced: watch::Sender::new(true),
            heard: watch::Sender::new(true),
            stopped: CancellationToken::new(),
        })
    }

    fn object(&self, json: &serde_json::Value) -> Obj<K> {
        let object = Object::from_json(json.to_string().as_bytes(), &Projection::default());
        Obj::new(object.unwrap(), &self.lens)
    }

    /// Stores an object and tells it.
    pub(super) fn put(&self, json: &serde_json::Value) {
        let new = self.object(json);
        let old = self.objects.lock().unwrap().insert(new.key(), new.clone());
        for hear in self.hears.lock().unwrap().clone() {
            hear(match &old {
                None => Heard::Added {
                    object: &new,
                    initial: false,
                },
                Some(old) => Heard::Updated { old, new: &new },
            });
            hear(Heard::BatchEnd);
        }
    }

    pub(super) fn remove(&self, key: &str) {
        let key: ObjectKey = key.parse().unwrap();
        let old = self.objects.lock().unwrap().remove(&key).unwrap();
        for hear in self.hears.lock().unwrap().clone() {
            hear(Heard::Deleted(&old));
            hear(Heard::BatchEnd);
        }
    }

    fn resync(&self) {
        for object in self.objects.lock().unwrap().values() {
            for hear in self.hears.lock().unwrap().iter() {
                hear(Heard::Resynced(object));
                hear(Heard::BatchEnd);
            }
        }
    }
}

pub(super) fn map(name: &str, version: u32) -> serde_json::Value {
    let version = version.to_string();
    json!({"metadata": {"namespace": "a", "name": name, "uid": name, "resourceVersion": version}})
}

fn owned_by(owner: &str, name: &str, version: u32) -> serde_json::Value {
    let mut object = map(name, version);
    object["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "not the controller", "uid": "x"},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": "y", "controller": true},
    ]);
    object
}

pub(super) type Maps = Arc<Script<ConfigMap>>;

pub(super) fn maps() -> Maps {
    Script::scoped("", "configmaps", "ConfigMap", Scope::Namespaced)
}

fn deployments() -> Arc<Script<Deployment>> {
    Script::scoped("apps", "deployments", "Deployment", Scope::Namespaced)
}

/// The observations of a reconcile function, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn add(&self, saw: impl Into<String>) {
        self.0.lock().unwrap().push(saw.into());
    }

    async fn take(&self) -> Vec<String> {
        // Time is paused: it passes when everything else is at rest.
        tokio::time::sleep(MS).await;
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn see(seen: &Seen) -> impl Fn(Arc<ConfigMap>, Ctx<()>) -> Seeing + use<> {
    let seen = seen.clone();
    move |object, ctx| {
        let version = object.metadata.resource_version.clone().unwrap_or_default();
        seen.add(format!("{} {version}", ctx.key()));
        std::future::ready(Ok(Action::await_change()))
    }
}

type Seeing = std::future::Ready<Result<Action, std::convert::Infallible>>;

pub(super) fn controller(maps: &Maps) -> Controller<ConfigMap> {
    Controller::over(Arc::clone(maps) as Arc<dyn Feed<ConfigMap>>)
}

#[tokio::test(start_paused = true)]
async fn objects_are_reconciled_when_they_are_there_and_when_they_change() {
    let (maps, seen) = (maps(), Seen::default());
    maps.put(&map("x", 1));
    let controller = controller(&maps);
    let metrics = controller.metrics();
    let running = tokio::spawn(controller.run(see(&seen)));
    assert_eq!(seen.take().await, ["a/x 1"]);
    maps.put(&map("x", 2));
    maps.put(&map("x", 3));
    maps.put(&map("y", 4));
    assert_eq!(
        seen.take().await,
        ["a/x 3", "a/y 4"],
        "only the newest version counts"
    );
    maps.remove("a/y");
    assert!(
        seen.take().await.is_empty(),
        "what is gone is not reconciled"
    );
    maps.resync();
    assert_eq!(seen.take().await, ["a/x 3"]);
    let stats = metrics.snapshot();
    assert_eq!((stats.succeeded, stats.failed, stats.gone), (4, 0, 1));
    assert_eq!(stats.queue.known, 0);
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert!(
        maps.hears.lock().unwrap().is_empty(),
        "dropping it removes the handlers"
    );
}

fn inlet(queue: &WorkQueue<ObjectKey>) -> Arc<inlet::Inlet> {
    Arc::new(inlet::Inlet {
        queue: queue.clone(),
        writes: Arc::new(Writes::new(&[], OwnWrites::Ignored, Arc::default())),
        echoes: Echoes::Heard,
        sharded: None,
        urgent: tokio::sync::Notify::new(),
    })
}

#[tokio::test]
async fn keys_of_a_batch_are_added_at_its_end_or_when_they_are_many() {
    let (maps, queue) = (maps(), WorkQueue::default());
    let feed = Arc::clone(&maps) as Arc<dyn Feed<ConfigMap>>;
    let sieve = Arc::default();
    let primary = Primary { feed, sieve };
    let _listening = primary.listen(inlet(&queue), 0, None).unwrap();
    let hear = Arc::clone(&maps.hears.lock().unwrap()[0]);
    let tell = |number: usize| {
        let object = &maps.object(&map(&format!("x{number}"), 1));
        hear(match number % 2 {
            0 => Heard::Deleted(object),
            _ => Heard::Resynced(object),
        });
    };
    (0..2).for_each(tell);
    assert_eq!(queue.len(), 0);
    hear(Heard::BatchEnd);
    assert_eq!(queue.len(), 2);
    (2..1000).for_each(tell);
    assert!((400..1000).contains(&queue.len()), "{}", queue.len());
    hear(Heard::BatchEnd);
    assert_eq!(queue.len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn owned_and_watched_objects_lead_to_the_objects_they_concern() {
    let (maps, owned, watched, seen) = (maps(), deployments(), deployments(), Seen::default());
    ["x", "y", "z"]
        .iter()
        .for_each(|name| maps.put(&map(name, 1)));
    let controller = controller(&maps)
        .owns_feed(owned.clone())
        .watches_feed(watched.clone(), |object| {
            [ObjectKey::new(Some("a"), object.name())]
        });
    let running = tokio::spawn(controller.run(see(&seen)));
    assert_eq!(seen.take().await.len(), 3);
    owned.put(&owned_by("x", "web", 5));
    assert_eq!(seen.take().await, ["a/x 1"]);
    owned.put(&owned_by("y", "web", 6));
    assert_eq!(
        seen.take().await,
        ["a/x 1", "a/y 1"],
        "who lost it hears of it, too"
    );
    owned.remove("a/web");
    assert_eq!(seen.take().await, ["a/y 1"]);
    owned.put(&map("orphan", 7));
    owned.put(&owned_by("nobody", "strange", 8));
    owned.resync();
    assert!(seen.take().await.is_empty());
    watched.put(&map("z", 9));
    assert_eq!(seen.take().await, ["a/z 1"]);
    running.abort();
}

#[tokio::test]
async fn a_watched_object_chooses_the_priority_of_the_keys_that_it_concerns() {
    let (watched, queue) = (maps(), WorkQueue::default());
    watched.put(&map("initial", 1));
    let keys_of = |object: &Obj<ConfigMap>| {
        let name = object.name();
        let key = |suffix| ObjectKey::new(Some("a"), &format!("{name}-{suffix}"));
        let (plain, high) = (key("plain").into(), (key("high"), Priority::High).into());
        vec![plain, high, (key("low"), Priority::Low).into()]
    };
    let feed = Arc::clone(&watched) as Arc<dyn Feed<ConfigMap>>;
    let keys_of = Arc::new(keys_of);
    let _listening = Mapped { feed, keys_of }
        .listen(inlet(&queue), 0, None)
        .unwrap();
    watched.put(&map("later", 2));
    let mut order = Vec::new();
    while !queue.is_empty() {
        let item = queue.get().await.unwrap();
        order.push(format!("{} {:?}", item.key().name(), item.priority()));
        item.settle(Verdict::Forget);
    }
    let high = ["initial-high High", "later-high High", "later-plain Normal"];
    let low = ["initial-plain Low", "initial-low Low", "later-low Low"];
    assert_eq!(order, [high, low].concat());
}

#[tokio::test(start_paused = true)]
async fn a_small_tenant_of_a_controller_waits_for_two_reconciles_at_most() {
    let by_cluster = || Fairness::by(|_: &ObjectKey| ());
    for (fairness, waits) in [(Fairness::by_namespace(), 2), (by_cluster(), 301)] {
        let (maps, seen) = (maps(), Seen::default());
        for number in 0..300 {
            maps.put(&map(&format!("many-{number:03}"), 1));
        }
        let mut small = map("one", 1);
        small["metadata"]["namespace"] = json!("b");
        maps.put(&small);
        // A new limiter is a new queue, with the same groups.
        let controller = controller(&maps)
            .fair_by(fairness)
            .limiter(Limiter::default());
        let running = tokio::spawn(controller.run(see(&seen)));
        let seen = seen.take().await;
        let place = seen.iter().position(|saw| saw == "b/one 1").unwrap();
        assert_eq!((seen.len(), place + 1), (301, waits));
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_or_panic_is_retried_slower_each_time_and_a_success_forgets_it() {
    let (maps, seen) = (maps(), Seen::default());
    let start = Instant::now();
    let controller = controller(&maps)
        .limiter(Limiter::exponential(100 * MS, 10_000 * MS))
        .context((seen.clone(), start));
    let metrics = controller.metrics();
    let running = tokio::spawn(controller.run(|_, cx: Ctx<(Seen, Instant)>| async move {
        let (seen, start) = &*cx;
        seen.add(format!(
            "{} after {} ms",
            cx.failures(),
            start.elapsed().as_millis()
        ));
        match cx.failures() {
            0 => Err("no"),
            1 => panic!("not at all"),
            2 => Err("still no"),
            _ => Ok(Action::requeue(60_000 * MS)),
        }
    }));
    maps.put(&map("x", 1));
    tokio::time::sleep(100_000 * MS).await;
    let expected = [
        "0 after 0 ms",
        "1 after 100 ms",
        "2 after 300 ms",
        "3 after 700 ms",
        "0 after 60700 ms",
        "1 after 60800 ms",
        "2 after 61000 ms",
        "3 after 61400 ms",
    ];
    assert_eq!(seen.take().await, expected);
    let stats = metrics.snapshot();
    assert_eq!((stats.succeeded, stats.failed, stats.panics), (2, 6, 2));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_takes_too_long_is_an_error() {
    let maps = maps();
    maps.put(&map("x", 1));
    let controller = controller(&maps).reconcile_timeout(2_000 * MS);
    let metrics = controller.metrics();
    let running = tokio::spawn(controller.run(|_, cx| async move {
        if cx.failures() == 0 {
            std::future::pending::<()>().await;
        }
        Ok::<_, Error>(Action::await_change())
    }));
    tokio::time::sleep(3_000 * MS).await;
    let stats = metrics.snapshot();
    assert_eq!((stats.timeouts, stats.failed, stats.succeeded), (1, 1, 1));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_waits_for_its_next_version() {
    let (maps, seen) = (maps(), Seen::default());
    let mut broken = map("x", 1);
    broken["data"] = json!(["not", "a", "map"]);
    maps.put(&broken);
    maps.put(&map("y", 2));
    let controller = controller(&maps);
    let metrics = controller.metrics();
    let running = tokio::spawn(controller.run(see(&seen)));
    assert_eq!(seen.take().await, ["a/y 2"]);
    assert_eq!(metrics.snapshot().undecodable, 1);
    maps.put(&map("x", 3));
    assert_eq!(seen.take().await, ["a/x 3"]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_asks_hears_of_objects_that_are_gone() {
    let (maps, seen, gone) = (maps(), Seen::default(), Seen::default());
    maps.put(&map("x", 1));
    let told = gone.clone();
    let controller = controller(&maps).on_gone(move |key, _| {
        told.add(key.to_string());
        std::future::ready(Ok::<_, Error>(Action::await_change()))
    });
    let running = tokio::spawn(controller.context(()).run(see(&seen)));
    assert_eq!(seen.take().await, ["a/x 1"]);
    maps.remove("a/x");
    assert_eq!(gone.take().await, ["a/x"]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn the_form_with_the_bare_key_is_called_for_every_key() {
    let (maps, seen) = (maps(), Seen::default());
    maps.put(&map("x", 1));
    let saw = seen.clone();
    let controller = controller(&maps);
    let queue = controller.queue();
    let running = tokio::spawn(controller.run_keys(move |key, _| {
        saw.add(key.to_string());
        std::future::ready(Ok::<_, Error>(Action::await_change()))
    }));
    assert_eq!(seen.take().await, ["a/x"]);
    maps.remove("a/x");
    queue.add(ObjectKey::new(None, "from-elsewhere"));
    assert_eq!(seen.take().await, ["a/x", "from-elsewhere"]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn n_workers_work_on_n_keys_and_never_two_on_one() {
    let maps = maps();
    for object in 0..50 {
        maps.put(&map(&format!("m{object}"), 1));
    }
    let busy = Arc::new((
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        Mutex::new(Vec::new()),
    ));
    let controller = controller(&maps).workers(7).context(Arc::clone(&busy));
    let running = tokio::spawn(controller.run(|_, cx| async move {
        let (now, most, keys) = &**cx;
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        assert!(!keys.lock().unwrap().contains(cx.key()));
        keys.lock().unwrap().push(cx.key().clone());
        tokio::time::sleep(10 * MS).await;
        keys.lock().unwrap().retain(|key| key != cx.key());
        now.fetch_sub(1, Ordering::SeqCst);
        Ok::<_, Error>(Action::await_change())
    }));
    for round in 2..20 {
        tokio::time::sleep(3 * MS).await;
        maps.put(&map("m1", round));
    }
    tokio::time::sleep(1_000 * MS).await;
    assert_eq!(busy.1.load(Ordering::SeqCst), 7);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_running_reconciles_end_and_starts_no_more() {
    let (maps, seen, token) = (maps(), Seen::default(), CancellationToken::new());
    ["x", "y"].iter().for_each(|name| maps.put(&map(name, 1)));
    let controller = controller(&maps)
        .context(seen.clone())
        .shutdown_on(token.clone());
    let running = tokio::spawn(controller.run(|_, cx: Ctx<Seen>| async move {
        tokio::time::sleep(500 * MS).await;
        cx.add(format!(
            "{} stopping: {}",
            cx.key(),
            cx.stopping().is_cancelled()
        ));
        Ok::<_, Error>(Action::requeue(MS))
    }));
    tokio::time::sleep(100 * MS).await;
    token.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(seen.take().await, ["a/x stopping: true"]);
    assert!(maps.hears.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_meets_its_deadline_names_the_keys() {
    let (maps, token) = (maps(), CancellationToken::new());
    maps.put(&map("x", 1));
    let controller = controller(&maps)
        .shutdown_on(token.clone())
        .grace_period(2_000 * MS);
    let running = tokio::spawn(controller.run(|_, _| async {
        std::future::pending::<()>().await;
        Ok::<_, Error>(Action::await_change())
    }));
    tokio::time::sleep(100 * MS).await;
    token.cancel();
    let error = running.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(error.to_string().contains("a/x"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_before_the_first_list_ends_at_once() {
    let (maps, token) = (maps(), CancellationToken::new());
    maps.synced.send_replace(false);
    let controller = controller(&maps).shutdown_on(token.clone());
    let running = tokio::spawn(controller.run(see(&Seen::default())));
    tokio::time::sleep(100 * MS).await;
    token.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_ends_with_its_informers() {
    let (maps, deployments, seen) = (maps(), deployments(), Seen::default());
    let controller = controller(&maps).owns_feed(deployments.clone());
    let running = tokio::spawn(controller.run(see(&seen)));
    tokio::time::sleep(100 * MS).await;
    deployments.stopped.cancel();
    running.await.unwrap().unwrap();
}
