//! Visitors: handlers, streams, and informers that live as long as they are used.
//!
//! ```text
//! come ──▶ one visit after the other: add, hear, remove ──rest──▶ nobody is left
//! ```
//!
//! Each visit leaves everything as it was; a task or descriptor that stays is a leak.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Informer, InformerFactory, Lifetime, Target};
use kinform_testkit::checks::event_checker::EventChecker;
use kube_core::DynamicObject;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::views::View;
use super::witness::Witness;
use crate::Failure;

/// The time that a visitor stays.
const STAY: Duration = Duration::from_millis(700);
/// BOUND: the time that a visitor waits for the first list; the server may be away.
const PATIENCE: Duration = Duration::from_secs(10);
/// BOUND: notifications that a stream hears.
const HEARD: usize = 2_000;
/// The groups of config maps, by a label that the driver writes.
const GROUPS: u64 = 8;

/// The task of the visits.
pub(super) struct Visitors {
    wanted: watch::Sender<bool>,
    present: watch::Receiver<bool>,
    _task: AbortOnDropHandle<()>,
}

/// The places to visit.
struct Places {
    factory: InformerFactory,
    informers: Vec<Informer<DynamicObject>>,
    witness: Arc<Witness>,
}

impl Visitors {
    /// Starts the task; nobody comes yet.
    pub(super) fn start(factory: InformerFactory, views: &[View], witness: Arc<Witness>) -> Self {
        let (wanted, mut wishes) = watch::channel(false);
        let (presence, present) = watch::channel(false);
        let places = Places {
            factory,
            informers: views.iter().map(|view| view.informer.clone()).collect(),
            witness,
        };
        let task = tokio::spawn(async move {
            for round in 0.. {
                presence.send_replace(false);
                if wishes.wait_for(|wanted| *wanted).await.is_err() {
                    return;
                }
                presence.send_replace(true);
                // A visit in an outage fails; what it leaves behind counts, not the visit.
                let _ = places.visit(round).await;
                places.witness.visits.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            wanted,
            present,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Lets visitors come.
    pub(super) fn come(&self) {
        self.wanted.send_replace(true);
    }

    /// Lets no more come, and waits until the last has left.
    pub(super) async fn rest(&self) {
        self.wanted.send_replace(false);
        let mut present = self.present.clone();
        // The task ends only with this.
        let _ = present.wait_for(|present| !present).await;
    }
}

impl Places {
    async fn visit(&self, round: u64) -> Result<(), Failure> {
        let place = usize::try_from(round / 3)? % self.informers.len();
        match round % 3 {
            0 => self.listen(&self.informers[place]).await,
            1 => self.follow(&self.informers[place]).await,
            _ => self.select(round / 3 % GROUPS).await,
        }
    }

    /// A handler comes, hears the cache and some changes, and is removed.
    async fn listen(&self, informer: &Informer<DynamicObject>) -> Result<(), Failure> {
        let checker = EventChecker::new(&format!("visitor of {}", informer.resource()));
        let registration = informer.add_handler(checker.handlers())?;
        let _ = timeout(PATIENCE, registration.synced()).await;
        tokio::time::sleep(STAY).await;
        registration.remove().await;
        checker.stop();
        tokio::time::sleep(STAY).await;
        self.witness.leave(&checker);
        Ok(())
    }

    /// A stream is read for a while, and dropped.
    async fn follow(&self, informer: &Informer<DynamicObject>) -> Result<(), Failure> {
        let checker = EventChecker::new(&format!("stream of {}", informer.resource()));
        let read = informer.changes()?.take(HEARD).for_each(|heard| {
            checker.hear(&heard);
            std::future::ready(())
        });
        let _ = timeout(STAY, read).await;
        self.witness.leave(&checker);
        Ok(())
    }

    /// An informer of a group is started for a handler, and ends with it.
    async fn select(&self, group: u64) -> Result<(), Failure> {
        let informer = self
            .factory
            .select(Target::<ConfigMap>::new())
            .labels(format!("soak.kinform/group=g{group}"))
            .lifetime(Lifetime::WhileUsed)
            .build();
        let checker = EventChecker::new(&format!("informer of group {group}"));
        let registration = informer.add_handler(checker.handlers())?;
        self.factory.start()?;
        let _ = timeout(PATIENCE, registration.synced()).await;
        tokio::time::sleep(STAY).await;
        registration.remove().await;
        self.witness.leave(&checker);
        Ok(())
    }
}
