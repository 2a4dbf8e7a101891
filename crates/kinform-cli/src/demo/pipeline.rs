//! The demo's informers, handlers and controller, as in a user's program.
//!
//! ```text
//! factory → nodes, pods (by node), deployments, foos → handlers (count, latency)
//!                                    └──────────┴────→ two replicas of the sample controller
//! ```
//!
//! One watch for each type, although the controllers and the demo all use deployments and foos.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinform::{
    Handlers, Index, IndexReader, Informer, InformerFactory, InformerStats, Obj, RingLimits,
};
use kinform_core::stats::Histogram;
use kube_core::DynamicObject;
use sample_controller::Foo;

use super::churn::{SendClock, WRITTEN};
use super::compare::{Difference, Picture, State, differences, served};
use super::mistakes::Mistakes;
use super::replicas::{Replicas, WorkNumbers};
use super::stage::Stage;
use crate::exit::Failure;

/// The time limit of the first sync.
const SYNC: Duration = Duration::from_secs(60);
/// BOUND: batches that a slow handler can be behind before it gets a difference instead. A
/// sixteenth of the default, so that a handler falls behind in seconds.
const RING: usize = 256;
/// The pause between two comparisons with the server.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// The totals of all handlers.
#[derive(Debug, Default)]
pub(crate) struct HandlerCounters {
    pub(crate) notifications: AtomicU64,
    pub(crate) latencies: Mutex<Histogram>,
}

/// All tasks that use the server.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// The factory of all informers.
    pub(crate) factory: InformerFactory,
    /// Title and informer.
    pub(crate) types: Vec<(&'static str, Informer<DynamicObject>)>,
    pub(crate) by_node: IndexReader<Pod>,
    pub(crate) heard: Arc<HandlerCounters>,
    pub(crate) replicas: Replicas,
    pub(crate) mistakes: Mistakes,
    pub(crate) sync_seconds: f64,
}

impl Pipeline {
    /// Starts everything and waits for the first sync.
    pub(crate) async fn start(stage: &Stage, clock: SendClock) -> Result<Self, Failure> {
        let failed = |error: kinform::Error| Failure::new(error.to_string());
        let ring = RingLimits {
            batches: RING,
            ..RingLimits::default()
        };
        let factory = InformerFactory::builder((*stage.client).clone())
            .ring_limits(ring)
            .build();
        let heard = Arc::new(HandlerCounters::default());
        let pods = factory.informer::<Pod>();
        let by_node = pods
            .add_index(Index::path("spec.nodeName"))
            .map_err(failed)?;
        let types = vec![
            ("nodes", factory.informer::<Node>().cast()),
            ("pods", pods.cast()),
            ("deployments", factory.informer::<Deployment>().cast()),
            ("foos", factory.informer::<Foo>().cast()),
        ];
        for (title, informer) in &types {
            informer
                .add_handler(handlers(title, clock, &heard))
                .map_err(failed)?;
        }
        let clients = [stage.another_client().await?, stage.another_client().await?];
        let mistakes = Mistakes::new(&factory, &stage.client);
        let started = Instant::now();
        factory.start().map_err(failed)?;
        let replicas = Replicas::start(&factory, clients)?;
        factory.synced_within(SYNC).await.map_err(failed)?;
        Ok(Self {
            factory,
            types,
            by_node,
            heard,
            replicas,
            mistakes,
            sync_seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// Objects in all caches.
    pub(crate) fn objects(&self) -> u64 {
        self.types
            .iter()
            .map(|(_, informer)| informer.stats().objects)
            .sum()
    }

    /// The numbers of each type.
    pub(crate) fn stats(&self) -> Vec<(&'static str, InformerStats)> {
        self.types
            .iter()
            .map(|(title, informer)| (*title, informer.stats()))
            .collect()
    }

    /// The informer of this title.
    ///
    /// # Panics
    /// If no informer has this title.
    pub(crate) fn informer(&self, title: &str) -> &Informer<DynamicObject> {
        let found = self.types.iter().find(|(of, _)| *of == title);
        &found.expect("titles are those of `start`").1
    }

    /// Waits until caches and server agree; returns the differences left after `limit`.
    pub(crate) async fn settle(
        &self,
        stage: &Stage,
        limit: Duration,
    ) -> Result<Vec<Difference>, Failure> {
        let deadline = Instant::now() + limit;
        loop {
            let mut found = Vec::new();
            for (_, informer) in &self.types {
                let path = informer.resource().resource.path(None);
                let served = served(&stage.client, &path)
                    .await
                    .map_err(|error| Failure::new(format!("GET {path}: {error}")))?;
                found.extend(differences(&picture(informer), &served));
            }
            if found.is_empty() || Instant::now() >= deadline {
                return Ok(found);
            }
            tokio::time::sleep(SETTLE_PAUSE).await;
        }
    }

    /// Notifications that handlers received.
    pub(crate) fn notifications(&self) -> u64 {
        self.heard.notifications.load(Ordering::Relaxed)
    }

    /// The numbers of both replicas of the controller.
    pub(crate) fn work(&self) -> WorkNumbers {
        self.replicas.numbers()
    }

    /// Median and 99th percentile from write to handler, in milliseconds.
    pub(crate) fn latencies(&self) -> (f64, f64) {
        let latencies = self
            .heard
            .latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let millis = |percent| latencies.percentile(percent).as_secs_f64() * 1e3;
        (millis(50.0), millis(99.0))
    }

    /// Ends the informers.
    pub(crate) async fn shut_down(&self) {
        self.factory.shutdown_within(Duration::from_secs(2)).await;
    }
}

/// Handlers that count notifications and their latency.
fn handlers(
    title: &str,
    clock: SendClock,
    heard: &Arc<HandlerCounters>,
) -> Handlers<DynamicObject> {
    let (added, updated, deleted) = (Arc::clone(heard), Arc::clone(heard), Arc::clone(heard));
    Handlers::new()
        .named(format!("demo-{title}"))
        .on_add(move |object| {
            added.notifications.fetch_add(1, Ordering::Relaxed);
            if !object.is_initial() {
                added.took(clock, object);
            }
        })
        .on_update(move |old, new| {
            updated.notifications.fetch_add(1, Ordering::Relaxed);
            // Another client's change keeps the stamp of the change before it.
            if old.annotation(WRITTEN) != new.annotation(WRITTEN) {
                updated.took(clock, new);
            }
        })
        .on_delete(move |_| {
            deleted.notifications.fetch_add(1, Ordering::Relaxed);
        })
}

impl HandlerCounters {
    fn took(&self, clock: SendClock, object: &Obj<DynamicObject>) {
        let Some(took) = object
            .annotation(WRITTEN)
            .and_then(|stamp| clock.since(&stamp))
        else {
            return;
        };
        self.latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .record(took);
    }
}

fn picture(informer: &Informer<DynamicObject>) -> Picture {
    informer
        .list()
        .iter()
        .map(|object| {
            let state = State {
                uid: object.uid().to_owned(),
                resource_version: object.resource_version().to_owned(),
            };
            (object.key().to_string(), state)
        })
        .collect()
}
