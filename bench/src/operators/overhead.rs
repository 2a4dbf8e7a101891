//! The CPU time that a controller takes for each reconcile, by the parts that are in use.
//!
//! ```text
//! source in this process ─events─▶ informer ─▶ By: hand | controller ─▶ reconciles ─▶ CPU ns a reconcile
//! ```
//!
//! The work is the same each time: an event is one reconcile of an object of 1 KB, which does nothing.
//! By hand is a handler, a work queue and a task, as a program without controllers has it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::predicate::{generation_changed, labels_changed};
use kinform::controller::{Action, Controller, Ctx};
use kinform::{Handlers, Limiter, ObjectKey, Verdict, WorkQueue};
use tokio_util::sync::CancellationToken;

use super::source::Fed;
use crate::meter::Moment;
use crate::subject::Failed;

/// Objects; each turn changes all of them.
const MAPS: usize = 10_000;

/// The parts that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// A handler, a queue and a task.
    Hand,
    /// A controller that knows no own writes. It tracks causes, as every controller does.
    Controller,
    /// One that knows its own writes.
    OwnWrites,
    /// One that also asks two predicates.
    Predicates,
    /// One whose reconcile also walks the causes.
    Causes,
}

impl By {
    /// All, each with more parts than the one before.
    pub const ALL: [Self; 5] = [
        Self::Hand,
        Self::Controller,
        Self::OwnWrites,
        Self::Predicates,
        Self::Causes,
    ];

    /// The name on a command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hand => "hand",
            Self::Controller => "controller",
            Self::OwnWrites => "own-writes",
            Self::Predicates => "predicates",
            Self::Causes => "causes",
        }
    }
}

/// Runs that number of reconciles; returns nanoseconds of CPU time of all threads for each.
///
/// # Errors
/// The informer does not start.
pub async fn ns_a_reconcile(by: By, reconciles: usize) -> Result<f64, Failed> {
    let mut fed = Fed::new(MAPS);
    let (count, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let running = match by {
        By::Hand => by_hand(&fed, &count, &stop)?,
        by => by_controller(by, &fed, &count, &stop),
    };
    fed.factory.start()?;
    until(&count, MAPS).await;
    // Allocator and branch predictor have seen the events, too.
    let mut expected = turn(&mut fed, &count, MAPS).await;
    let (before, first) = (Moment::now(None), expected);
    while expected - first < reconciles {
        expected = turn(&mut fed, &count, expected).await;
    }
    let usage = before.until_now();
    stop.cancel();
    running.await?;
    Ok(usage.cpu_seconds * 1e9 / (expected - first) as f64)
}

async fn turn(fed: &mut Fed, count: &AtomicUsize, before: usize) -> usize {
    fed.send("MODIFIED", "large", MAPS);
    until(count, before + MAPS).await;
    before + MAPS
}

async fn until(count: &AtomicUsize, wanted: usize) {
    while count.load(Ordering::Relaxed) < wanted {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn by_hand(
    fed: &Fed,
    count: &Arc<AtomicUsize>,
    stop: &CancellationToken,
) -> Result<tokio::task::JoinHandle<()>, Failed> {
    let queue = WorkQueue::<ObjectKey>::new(Limiter::default());
    let (added, count, stop) = (queue.clone(), Arc::clone(count), stop.clone());
    let updated = queue.clone();
    let handlers = Handlers::new().on_add(move |new| {
        added.add(new.key());
    });
    let handlers = handlers.on_update(move |_, new| {
        updated.add(new.key());
    });
    let registration = fed.maps.add_handler(handlers)?;
    let store = fed.maps.store();
    Ok(tokio::spawn(async move {
        let mut next = queue.get();
        while let Some(Some(item)) = stop.run_until_cancelled(next).await {
            // As a reconcile function gets its object.
            let map = store.get(item.key()).map(|map| map.typed());
            std::hint::black_box(map);
            count.fetch_add(1, Ordering::Relaxed);
            next = item.settle_and_get(Verdict::Forget);
        }
        drop(registration);
    }))
}

fn by_controller(
    by: By,
    fed: &Fed,
    count: &Arc<AtomicUsize>,
    stop: &CancellationToken,
) -> tokio::task::JoinHandle<()> {
    let count = Arc::clone(count);
    let mut controller = Controller::of(&fed.maps).shutdown_on(stop.clone());
    if by == By::Controller {
        controller = controller.without_own_writes();
    }
    if matches!(by, By::Predicates | By::Causes) {
        controller = controller.filter(generation_changed().or(labels_changed()));
    }
    let controller = controller.run(move |_: Arc<ConfigMap>, cx: Ctx<()>| {
        if by == By::Causes {
            let changed = cx.causes().iter().map(|cause| cause.changed());
            std::hint::black_box(changed.count());
        }
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, Infallible>(Action::await_change()) }
    });
    tokio::spawn(async move {
        if let Err(error) = controller.await {
            eprintln!("bench: the controller ended: {error}");
        }
    })
}
