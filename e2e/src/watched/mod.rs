//! A program to be looked at: informers, handlers and controllers that do, on command, what each
//! view of the inspector has to show.
//!
//! ```text
//! embedded server ─▶ pods, config maps, secrets, deployments ─┐
//! Feed (a script) ─▶ widgets ─────────────────────────────────┴▶ handlers, controllers ◀── Inspector
//!       └──────────────────────── obey("poison") ────────────────────────────────────────┘
//! ```
//!
//! Everything is done by kinform's public API. A command is obeyed once its effect is in the program,
//! so that a page that is read later has to show it.

mod controllers;
mod feed;
mod hostile;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kinform::source::{HttpSource, ResourceInfo};
use kinform::{
    CancellationToken, GroupVersionResource, Handlers, Informer, InformerFactory, Notification,
    Scope,
};
use kinform_apiserver::Seed;
use kinform_operator::Inspector;
use kinform_testkit::checks::stage::StageError;
use kinform_testkit::{TestServer, scripted};
use kube::core::DynamicObject;
use kube_client::Client;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

use self::feed::Feed;

/// BOUND: the time for a command to have its effect.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// The time after which a watch that ends is no failure.
const SETTLED: Duration = Duration::from_secs(2);
/// The time that the slow handler needs for a change, once it was asked to be slow.
const SLOW: Duration = Duration::from_millis(1_300);
/// The interval of changes that it hears from then on.
const STEADY: Duration = Duration::from_secs(1);
/// The value that must appear nowhere outside of the server and the cache.
const CANARY: &str = "c4nary-value-of-a-secret";

/// The size and speed of a program.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Widgets at the start.
    pub widgets: usize,
    /// Changes of widgets a second.
    pub rate: u64,
    /// The inspector's port; 0 is a free one.
    pub port: u16,
}

/// A program that runs.
#[derive(Debug)]
pub struct Watched {
    server: TestServer,
    factory: InformerFactory,
    maps: Informer<ConfigMap>,
    secrets: Informer<Secret>,
    widgets: Informer<DynamicObject>,
    feed: Feed,
    habits: Vec<kinform::ControllerMetrics>,
    is_slow: Arc<AtomicBool>,
    counter: AtomicUsize,
    inspector: Inspector,
    tasks: Vec<JoinHandle<()>>,
    /// Changes that a command began.
    changing: Mutex<JoinSet<()>>,
    stop: CancellationToken,
}

/// The resource whose server is a script.
fn widgets() -> ResourceInfo {
    let resource = GroupVersionResource::new("example.com", "v1", "widgets");
    ResourceInfo::new(resource, "Widget", Scope::Namespaced)
}

impl Watched {
    /// Starts everything, and waits for the first lists.
    ///
    /// # Errors
    /// A part cannot be started, or is not ready in time.
    pub async fn start(size: Size) -> Result<Self, StageError> {
        let server = TestServer::start().without_lag().await?;
        server.server().seed(Seed {
            seed: 1,
            nodes: 5,
            deployments: 6,
            pods: 60,
        });
        for name in controllers::MAPS {
            server.create(&map(name, "default", "0")).await?;
        }
        let (source, script) = scripted(widgets());
        let client = server.client();
        let factory = InformerFactory::with_sources(move |info, representation| {
            if info.resource.resource == "widgets" {
                return Arc::clone(&source) as _;
            }
            let source = HttpSource::new(client.clone(), info);
            Arc::new(source.with_representation(representation)) as _
        });
        let factory = factory.build();
        let maps = factory.informer::<ConfigMap>();
        let secrets = factory.informer::<Secret>();
        let widgets = factory.select::<DynamicObject>(widgets()).build();
        let is_slow = Arc::<AtomicBool>::default();
        add_handlers(&factory, &maps, &widgets, &is_slow)?;
        let stop = CancellationToken::new();
        let read = widgets.clone();
        let heard = move || read.stats().events + read.stats().items;
        let (feed, running) = Feed::start(script, size.widgets, size.rate, heard, stop.clone());
        let mut tasks = vec![running];
        let controllers = controllers::all(&maps, &widgets, &server.client(), &stop);
        let mut inspector = Inspector::builder().name("watched").quiet();
        if size.port != 0 {
            inspector = inspector.port(size.port);
        }
        for controller in &controllers {
            inspector = inspector.controller(controller);
        }
        let habits = controllers.iter().map(|one| one.metrics()).collect();
        factory.start()?;
        for controller in controllers {
            tasks.push(tokio::spawn(async move {
                if let Err(error) = controller.run().await {
                    eprintln!("a controller ended: {error}");
                }
            }));
        }
        factory.synced_within(PATIENCE).await?;
        let inspector = inspector.serve(&factory).await?;
        Ok(Self {
            server,
            factory,
            maps,
            secrets,
            widgets,
            feed,
            habits,
            is_slow,
            counter: AtomicUsize::new(1),
            inspector,
            tasks,
            changing: Mutex::default(),
            stop,
        })
    }

    /// The address of the page, with its token.
    pub fn url(&self) -> &str {
        self.inspector.url()
    }

    /// Does what a word says, and returns when its effect is in the program.
    ///
    /// # Errors
    /// The word is not known, or there is no effect in time.
    pub async fn obey(&self, word: &str) -> Result<(), StageError> {
        match word {
            "relist" => self.relist().await,
            "poison" => {
                self.feed.send_raw(hostile::POISON);
                let is_there = || self.widgets.stats().quarantined_now > 0;
                until("a quarantined widget", is_there).await
            }
            "hot-loop" => {
                self.touch(&["hot", "restless"]).await?;
                self.warned("HotLoop").await?;
                self.warned("ReconcileLoop").await
            }
            "fight" => {
                self.touch(&["fought"]).await?;
                self.warned("FieldFight").await
            }
            "slow" => self.slow().await,
            "names" => self.names().await,
            "secret" => self.secret().await,
            "touch" => self.again("configmaps/fought", "round").await,
            word => Err(format!("{word:?} is no command").into()),
        }
    }

    /// Ends everything in order.
    pub async fn end(self) {
        self.is_slow.store(false, Ordering::Relaxed);
        self.inspector.stop().await;
        self.stop.cancel();
        for task in self.tasks {
            // A panic of a task is on stderr.
            let _ = task.await;
        }
        let mut changing = self
            .changing
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        while changing.join_next().await.is_some() {}
        self.factory.shutdown_within(Duration::from_secs(2)).await;
        self.server.stop().await;
    }

    /// Makes every version that an idle watch has seen too old, and ends all watches.
    async fn relist(&self) -> Result<(), StageError> {
        // A watch that ends at once is a failure of another kind.
        let is_settled = || self.maps.stats().watch_age.is_some_and(|age| age > SETTLED);
        until("a watch of some seconds", is_settled).await?;
        // An object that no informer here watches: their versions are older than this write.
        let change = json!({"metadata": {"annotations": {"example.com/relist": "1"}}});
        self.patch("/api/v1/namespaces/default", &change).await?;
        self.server.expire_history();
        self.server.cut_watches();
        until("a relist", || self.maps.stats().relists > 0).await
    }

    /// Slows the handler `slow` down, and changes a config map each second, so that its lag grows.
    async fn slow(&self) -> Result<(), StageError> {
        self.is_slow.store(true, Ordering::Relaxed);
        let (client, stop) = (self.server.client(), self.stop.clone());
        let steady = async move {
            for round in 0_u64.. {
                let change = json!({"data": {"round": round.to_string()}});
                if let Err(error) = patch(
                    &client,
                    "/api/v1/namespaces/default/configmaps/plain",
                    &change,
                )
                .await
                {
                    eprintln!("a change failed: {error}");
                }
                tokio::time::sleep(STEADY).await;
            }
        };
        let steady = async move { _ = stop.run_until_cancelled(steady).await };
        self.begin_once(steady);
        until("a lag", || self.maps.stats().handler_lag > 1).await
    }

    /// Begins changes that go on to the end, unless some were begun.
    fn begin_once(&self, changes: impl Future<Output = ()> + Send + 'static) {
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if changing.is_empty() {
            changing.spawn(changes);
        }
    }

    async fn names(&self) -> Result<(), StageError> {
        let objects = hostile::objects();
        let wanted = objects.len();
        for object in objects {
            self.feed.put(object);
        }
        let stored = || {
            let listing = self.widgets.list();
            let all = listing.iter();
            all.filter(|one| one.key().namespace() == Some(hostile::NAMESPACE))
                .count()
        };
        until("the hostile names", || stored() >= wanted).await
    }

    /// Makes a Secret, the first time, and changes it.
    async fn secret(&self) -> Result<(), StageError> {
        let key: kinform::ObjectKey = "default/guarded".parse()?;
        if self.secrets.get(&key).is_none() {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": {"name": "guarded", "namespace": "default"},
                "stringData": {"password": CANARY},
            });
            let secret: Secret = serde_json::from_value(secret)?;
            self.server.create(&secret).await?;
            until("the Secret", || self.secrets.get(&key).is_some()).await?;
        }
        let (first, value) = (
            self.secrets.stats().events,
            format!("{CANARY}-{}", self.count()),
        );
        let change = json!({
            "metadata": {"annotations": {"example.com/copy": value}},
            "stringData": {"password": value, "other": CANARY},
        });
        let path = "/api/v1/namespaces/default/secrets/guarded";
        self.patch(path, &change).await?;
        until("its change", || self.secrets.stats().events > first).await
    }

    /// Gives a key of a config map another value.
    async fn again(&self, object: &str, key: &str) -> Result<(), StageError> {
        let change = json!({"data": {key: format!("value {}", self.count())}});
        let path = format!("/api/v1/namespaces/default/{object}");
        self.patch(&path, &change).await
    }

    /// A number that was not there before.
    fn count(&self) -> usize {
        self.counter.fetch_add(1, Ordering::Relaxed)
    }

    /// Changes config maps, so that the controllers that have a habit with them run.
    async fn touch(&self, names: &[&str]) -> Result<(), StageError> {
        for name in names {
            let path = format!("/api/v1/namespaces/default/configmaps/{name}");
            let change = json!({"data": {"go": "1"}});
            self.patch(&path, &change).await?;
        }
        Ok(())
    }

    /// Waits until a controller reported this.
    async fn warned(&self, reason: &str) -> Result<(), StageError> {
        let is_there = || {
            let mut all = self.habits.iter().flat_map(|one| one.warnings());
            all.any(|warning| warning.reason == reason)
        };
        until(reason, is_there).await
    }

    async fn patch(&self, path: &str, change: &Value) -> Result<(), StageError> {
        patch(&self.server.client(), path, change).await
    }
}

/// Sends a JSON merge patch.
async fn patch(client: &Client, path: &str, change: &Value) -> Result<(), StageError> {
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(serde_json::to_vec(change)?)?;
    let _: Value = client.request(request).await?;
    Ok(())
}

/// Handlers as programs have them; one of them can be slow.
fn add_handlers(
    factory: &InformerFactory,
    maps: &Informer<ConfigMap>,
    widgets: &Informer<DynamicObject>,
    is_slow: &Arc<AtomicBool>,
) -> Result<(), StageError> {
    let is_slow = Arc::clone(is_slow);
    let slow = Handlers::new().named("slow");
    maps.add_handler(slow.on_event_async(move |_: Notification<ConfigMap>| {
        let is_slow = is_slow.load(Ordering::Relaxed);
        async move {
            if is_slow {
                tokio::time::sleep(SLOW).await;
            }
        }
    }))?;
    let quick = Handlers::new().named("quick").on_add(|_| {});
    maps.add_handler(quick.on_update(|_, _| {}))?;
    let counting = Handlers::new().named("counting").on_add(|_| {});
    widgets.add_handler(counting.on_update(|_, _| {}))?;
    let pods = factory.informer::<Pod>();
    pods.add_handler(Handlers::new().named("pods").on_add(|_| {}))?;
    let deployments = factory.informer::<Deployment>();
    deployments.add_handler(Handlers::new().named("deployments").on_add(|_| {}))?;
    Ok(())
}

/// A config map with a value.
fn map(name: &str, namespace: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = Some(namespace.to_owned());
    map.data = Some([("round".to_owned(), value.to_owned())].into());
    map
}

/// Waits until something holds.
async fn until(what: &str, holds: impl Fn() -> bool) -> Result<(), StageError> {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.map_err(|_| format!("there is not {what} within {PATIENCE:?}").into())
}
