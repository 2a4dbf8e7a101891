//! The parts of an operator: controllers, and tasks of the user.
//!
//! ```text
//! add → Parts → run as long as this replica leads (or always) → Part::remove, or the stop
//! ```
//!
//! A part that fails, or ends before it was asked to, ends the operator with an error that names it,
//! unless it is optional.
//!
//! Upstream counterpart: `controller-runtime:pkg/manager` (`Runnable`), which cannot be removed, and
//! whose early end is no error.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kinform::controller::{LastWrites, Reconciler};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind};
use crate::leader::is_not_leading;

/// The error of a user's function.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The time in which a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// While this replica leads; always without leader election.
    Leading,
    /// From the sync of the caches to the stop, in every replica.
    Always,
    /// As `Always`, and at the stop until all shards of this replica were given up.
    Sharded,
}

/// The consequence of the failure or early end of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
}

/// A handle on a part: dropping it leaves the part where it is.
#[derive(Clone)]
pub struct Part(Arc<Inner>);

pub(super) struct Inner {
    pub(super) name: String,
    pub(super) when: When,
    pub(super) need: Need,
    work: Work,
    removed: CancellationToken,
    runs: watch::Sender<bool>,
    parts: Parts,
}

pub(super) enum Work {
    Controller(Box<Reconciler>),
    Task(Task),
}

type Task =
    Box<dyn Fn(CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

/// All parts of an operator.
#[derive(Clone)]
pub(super) struct Parts(Arc<Shared>);

struct Shared {
    list: Mutex<List>,
    changed: watch::Sender<u64>,
    /// The time that a task has to end.
    grace: Duration,
    undrained: Arc<AtomicBool>,
}

#[derive(Default)]
struct List {
    parts: Vec<Arc<Inner>>,
    /// The operator has stopped: there is no use in another part.
    is_closed: bool,
    /// Of controllers that are no longer in the list.
    last_writes: LastWrites,
}

impl Parts {
    pub(super) fn new(grace: Duration, undrained: Arc<AtomicBool>) -> Self {
        Self(Arc::new(Shared {
            list: Mutex::default(),
            changed: watch::Sender::default(),
            grace,
            undrained,
        }))
    }

    /// The resources that only optional parts need.
    pub(super) fn needed_by_optional_only(&self) -> BTreeSet<String> {
        let parts = self.all();
        let needs = |need: Need| {
            let of = parts.iter().filter(move |part| part.need == need);
            of.filter_map(|part| part.controller())
                .flat_map(Reconciler::needs)
        };
        let required: BTreeSet<_> = needs(Need::Required).collect();
        let is_optional = |name: &String| !required.contains(name);
        needs(Need::Optional).filter(is_optional).collect()
    }

    /// Takes a part out of the list.
    pub(super) fn forget(&self, part: &Arc<Inner>) {
        let mut list = self.list();
        if let Some(controller) = part.controller() {
            list.last_writes.merge(&controller.last_writes());
        }
        list.parts.retain(|known| !Arc::ptr_eq(known, part));
        drop(list);
        self.0.changed.send_modify(|count| *count += 1);
    }

    /// The last writes of all controllers in their terms.
    pub(super) fn last_writes(&self) -> LastWrites {
        let list = self.list();
        let mut last = list.last_writes.clone();
        for controller in list.parts.iter().filter_map(|part| part.controller()) {
            last.merge(&controller.last_writes());
        }
        last
    }

    /// Adds a part. Its name is unique among the parts that exist.
    pub(super) fn add(
        &self,
        name: &str,
        (when, need): (When, Need),
        work: Work,
    ) -> Result<Part, Error> {
        let mut list = self.list();
        if list.is_closed {
            let message = format!("cannot add {name}: the operator has stopped");
            return Err(Error::new(ErrorKind::Usage, message));
        }
        if list.parts.iter().any(|part| part.name == name) {
            let message = format!("there is a part named {name} already: give it another name");
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let part = Arc::new(Inner {
            name: name.to_owned(),
            when,
            need,
            work,
            removed: CancellationToken::new(),
            runs: watch::Sender::new(false),
            parts: self.clone(),
        });
        list.parts.push(Arc::clone(&part));
        drop(list);
        self.0.changed.send_modify(|count| *count += 1);
        Ok(Part(part))
    }

    pub(super) fn all(&self) -> Vec<Arc<Inner>> {
        self.list().parts.clone()
    }

    /// The number of changes so far, to wait for the next.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// The end: refuses further parts, and lets those that there are go.
    pub(super) fn close(&self) {
        let mut list = self.list();
        list.is_closed = true;
        let parts = std::mem::take(&mut list.parts);
        drop(list);
        drop(parts);
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    /// The name of the part.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Removes the part: its running reconciles have the grace period to end. Its series vanish
    /// from the metrics, and its name can be used again. Its informers stay.
    ///
    /// # Cancel safety
    /// Once polled, the part ends even if the wait is dropped.
    pub async fn remove(self) {
        self.0.removed.cancel();
        let mut runs = self.0.runs.subscribe();
        // The sender is in `self`.
        let _ = runs.wait_for(|runs| !runs).await;
        self.0.parts.forget(&self.0);
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("name", &self.0.name).finish()
    }
}

impl Inner {
    pub(super) fn controller(&self) -> Option<&Reconciler> {
        match &self.work {
            Work::Controller(reconciler) => Some(reconciler),
            Work::Task(_) => None,
        }
    }

    pub(super) fn is_removed(&self) -> bool {
        self.removed.is_cancelled()
    }

    /// Marks the part as running; false if it was removed meanwhile.
    pub(super) fn begin(&self) -> bool {
        self.runs.send_replace(true);
        if self.is_removed() {
            self.runs.send_replace(false);
        }
        !self.is_removed()
    }

    /// Runs the part until it is stopped, removed, or its term is lost.
    pub(super) async fn run(
        self: &Arc<Self>,
        stop: CancellationToken,
        lost: CancellationToken,
    ) -> Result<(), Error> {
        let stop = stop.child_token();
        let _ended = Ended(self);
        let mut run = std::pin::pin!(AssertUnwindSafe(self.work(&stop, &lost)).catch_unwind());
        let ended = tokio::select! {
            biased;
            () = self.removed.cancelled() => {
                stop.cancel();
                run.await
            }
            ended = &mut run => ended,
        };
        let failed = |message: String| Error::new(ErrorKind::Part, message);
        match ended {
            Ok(Ok(())) if stop.is_cancelled() || lost.is_cancelled() => Ok(()),
            Ok(Ok(())) => Err(failed(format!(
                "{} ended before it was asked to",
                self.name
            ))),
            Ok(Err(error)) if error.is_drain() => Err(error),
            Ok(Err(error)) => {
                Err(failed(format!("{} failed: {error}", self.name)).with_cause(error))
            }
            Err(_) => Err(failed(format!("{} panicked", self.name))),
        }
    }

    async fn work(&self, stop: &CancellationToken, lost: &CancellationToken) -> Result<(), Error> {
        match &self.work {
            Work::Controller(reconciler) => match reconciler.lead(stop, lost).await {
                Ok(_) => Ok(()),
                Err(error) if error.is_timeout() && stop.is_cancelled() => {
                    self.parts.0.undrained.store(true, Ordering::Release);
                    let message = format!("{}: {error}", self.name);
                    Err(Error::new(ErrorKind::Drain, message).with_cause(error))
                }
                Err(error) => Err(error.into()),
            },
            Work::Task(task) => {
                let mut run = task(stop.clone());
                let ended = tokio::select! {
                    biased;
                    () = lost.cancelled() => return Ok(()),
                    () = stop.cancelled() => tokio::select! {
                        biased;
                        () = lost.cancelled() => return Ok(()),
                        ended = &mut run => ended,
                        () = tokio::time::sleep(self.parts.0.grace) => {
                            tracing::warn!("{} did not end in time, and was dropped", self.name);
                            return Ok(());
                        }
                    },
                    ended = &mut run => ended,
                };
                match ended {
                    // The loss is heard at once; the task heard of it first.
                    Err(error) if is_not_leading(&*error) => {
                        tokio::select! {
                            biased;
                            () = lost.cancelled() => {}
                            () = stop.cancelled() => {}
                        }
                        Ok(())
                    }
                    Err(error) => {
                        Err(Error::new(ErrorKind::Part, error.to_string()).with_cause(error))
                    }
                    Ok(()) => Ok(()),
                }
            }
        }
    }
}

/// Tells those who wait for the end of a part.
struct Ended<'a>(&'a Inner);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.runs.send_replace(false);
    }
}

/// A task of a user's function.
pub(super) fn task<F, R, E>(run: F) -> Work
where
    F: Fn(CancellationToken) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    Work::Task(Box::new(move |stop| {
        let run = run(stop);
        Box::pin(async move { run.await.map_err(Into::into) })
    }))
}
