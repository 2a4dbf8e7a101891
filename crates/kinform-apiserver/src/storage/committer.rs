//! The way of staged writes to the disk, many at once, and those who wait for it.
//!
//! ```text
//! staged ──notify──▶ task ──cut──▶ Batch ──Backing::commit──▶ settle ──▶ readers, watches, waiters
//!                                              └─failed──▶ undo ──▶ waiters: lost; opened again later
//! ```
//!
//! While one batch is written, the next one is staged. A request waits once, before its reply, for
//! everything that it saw: its own writes, their effects, and the writes of others that it was
//! decided on. If any staged write was lost meanwhile, the request is refused, although its own
//! write may be on disk.
//!
//! After a failure the backing accepts no batch until it was opened again. The failed batch may be
//! on disk all the same: then it is shown, although its writers were refused.
//!
//! Upstream: `etcd:server/etcdserver/apply` (batches of one transaction).

use std::error::Error;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kinform_api::{Status, mutant};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::shelves::{Batch, Shelves, Version};
use super::{HistoryLimits, Store};
use crate::clock;

/// Time between two attempts to open a failed disk again.
const RETRY_PERIOD: Duration = Duration::from_millis(500);
/// Commits that take less than this are not worth waiting for.
const QUICK: Duration = Duration::from_millis(1);
/// The part of a commit's time for which the next one waits for more writes.
const GATHERING: u32 = 8;
/// BOUND: the time for which a commit waits for more writers.
const LONGEST_GATHERING: Duration = Duration::from_millis(5);

/// The error of a disk.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// A disk: it writes batches one after the other.
pub(crate) trait Backing: std::fmt::Debug + Send {
    /// Writes a batch completely or not at all, and returns when it is safe.
    ///
    /// # Errors
    /// The batch may be on disk or not. No other batch is accepted before [`Self::reopen`].
    fn commit(&mut self, batch: &Batch) -> Result<(), Failure>;

    /// Opens the disk again after a failure, and returns the revision that it has reached.
    ///
    /// # Errors
    /// It still fails.
    fn reopen(&mut self) -> Result<u64, Failure>;
}

/// The marks of a store that readers and writers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The revision that readers see.
    pub(crate) durable: u64,
    /// The number of times that staged writes were lost.
    losses: u64,
}

impl Marks {
    pub(super) fn of(shelves: &Shelves) -> Self {
        Self {
            durable: shelves.durable,
            losses: shelves.losses,
        }
    }
}

/// The beginning of a request that may write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(u64);

/// A refusal of a request whose writes, or those that it was decided on, are not on disk.
#[derive(Clone, Debug)]
pub(crate) struct Lost(pub(crate) Arc<str>);

impl From<Lost> for Status {
    fn from(lost: Lost) -> Self {
        Self::internal_error(&format!("the write is not on disk: {}", lost.0))
    }
}

/// The part of a store that writes to its disk.
#[derive(Debug)]
pub(super) struct Committer {
    /// Wakes the committing task.
    staged: Notify,
    /// Wakes the committing task while it waits for more writes.
    more: Condvar,
    disk: Mutex<Disk>,
    /// The last failure.
    why: Mutex<Arc<str>>,
}

#[derive(Debug)]
struct Disk {
    backing: Box<dyn Backing>,
    failed: Option<Failed>,
    pace: Pace,
}

/// The last commit, as a measure for the next one.
#[derive(Debug, Default)]
struct Pace {
    took: Duration,
    /// Writes that were committed, and those that were staged meanwhile: their writers may all be
    /// back at once.
    writes: usize,
}

/// A disk that accepts no batch.
#[derive(Debug)]
struct Failed {
    /// The batch that may be on disk.
    doubtful: Batch,
    why: Arc<str>,
    retry_at: Instant,
}

impl Committer {
    fn new(backing: Box<dyn Backing>) -> Self {
        let disk = Disk {
            backing,
            failed: None,
            pace: Pace::default(),
        };
        Self {
            staged: Notify::new(),
            more: Condvar::new(),
            disk: Mutex::new(disk),
            why: Mutex::new("".into()),
        }
    }

    pub(super) fn notify(&self) {
        self.staged.notify_one();
        self.more.notify_one();
    }

    fn why(&self) -> MutexGuard<'_, Arc<str>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    /// Makes a failed disk accept batches again. Returns the doubtful batch if it is on disk.
    fn recover(&mut self, durable: u64) -> Result<Option<Batch>, Arc<str>> {
        let Some(failed) = &mut self.failed else {
            return Ok(None);
        };
        let now = clock::instant();
        if now < failed.retry_at {
            return Err(failed.why.clone());
        }
        failed.retry_at = now + RETRY_PERIOD;
        let reached = match self.backing.reopen() {
            Ok(reached) => reached,
            Err(failure) => {
                failed.why = chain(&*failure).into();
                return Err(failed.why.clone());
            }
        };
        if reached != durable && reached != failed.doubtful.upto {
            let why = format!("the disk is at version {reached}, and {durable} was acknowledged");
            failed.why = why.into();
            return Err(failed.why.clone());
        }
        let doubtful = self.failed.take().map(|failed| failed.doubtful);
        Ok(doubtful.filter(|_| reached > durable))
    }

    /// Writes a batch.
    fn commit(&mut self, batch: Batch) -> Result<Batch, Arc<str>> {
        match self.backing.commit(&batch) {
            Ok(()) => Ok(batch),
            Err(failure) => {
                let why: Arc<str> = chain(&*failure).into();
                self.failed = Some(Failed {
                    doubtful: batch,
                    why: why.clone(),
                    retry_at: clock::instant(),
                });
                Err(why)
            }
        }
    }
}

impl Store {
    /// Takes the versions of a disk, with its revision and its floor, and writes to it from now on.
    #[cfg_attr(
        not(any(test, feature = "disk")),
        expect(dead_code, reason = "a store without a disk is never filled")
    )]
    pub(crate) fn fill(
        &mut self,
        (revision, floor): (u64, u64),
        versions: Vec<Version>,
        backing: Box<dyn Backing>,
    ) {
        self.committer = Some(Committer::new(backing));
        self.change(|inner| inner.fill(revision, floor, versions));
    }

    /// Changes the bounds of the history; the next write evicts what is too much.
    pub(crate) fn set_limits(&self, limits: HistoryLimits) {
        self.lock().order.set_limits(limits);
    }

    /// Returns whether the store has a disk.
    pub(crate) fn has_disk(&self) -> bool {
        self.committer.is_some()
    }

    /// Notes the beginning of a request that may write.
    pub(crate) fn begin(&self) -> Begun {
        Begun(match &self.committer {
            Some(_) => self.marks.borrow().losses,
            None => 0,
        })
    }

    /// Waits until everything that a request saw is on disk.
    ///
    /// # Errors
    /// A staged write was lost since the request began.
    ///
    /// # Cancel safety
    /// Staged writes go on to the disk.
    pub(crate) async fn settled(&self, begun: Begun) -> Result<(), Lost> {
        let Some(committer) = &self.committer else {
            return Ok(());
        };
        if mutant!("S11") {
            return Ok(());
        }
        let (head, losses) = {
            let inner = self.lock();
            (inner.head, inner.losses)
        };
        let mut marks = self.marks.subscribe();
        let is_over = |now: &Marks| now.losses != begun.0 || now.durable >= head;
        let reached = match losses == begun.0 {
            true => marks.wait_for(is_over).await.map(|now| now.losses),
            false => Ok(losses),
        };
        match reached {
            Ok(losses) if losses == begun.0 => Ok(()),
            _ => Err(Lost(committer.why().clone())),
        }
    }

    /// Writes all staged writes to the disk; blocks.
    ///
    /// # Errors
    /// A batch was lost, with everything that was staged after it.
    pub(crate) fn commit_staged(&self) -> Result<(), Lost> {
        let Some(committer) = &self.committer else {
            return Ok(());
        };
        let disk = committer.disk.lock();
        let mut disk = disk.unwrap_or_else(PoisonError::into_inner);
        while self.lock().is_staged() {
            if let Err(why) = self.commit_batch(&mut disk, &committer.more) {
                committer.why().clone_from(&why);
                self.change(Shelves::undo);
                return Err(Lost(why));
            }
        }
        Ok(())
    }

    fn commit_batch(&self, disk: &mut Disk, more: &Condvar) -> Result<(), Arc<str>> {
        let durable = self.lock().durable;
        if let Some(batch) = disk.recover(durable)? {
            self.change(|inner| inner.redo(&batch));
            return Ok(());
        }
        self.gather(&disk.pace, more);
        let Some(batch) = self.lock().cut() else {
            return Ok(());
        };
        let begun = clock::instant();
        let batch = disk.commit(batch)?;
        let took = begun.elapsed();
        self.change(|inner| inner.settle(&batch));
        let writes = batch.events.len() + self.lock().staged();
        disk.pace = Pace { took, writes };
        Ok(())
    }

    /// Waits a little for the writers of the last commit, whose next writes can share this one.
    /// Otherwise writers fall into two groups, each of which waits for the commit of the other.
    fn gather(&self, pace: &Pace, more: &Condvar) {
        if pace.took < QUICK {
            return;
        }
        let is_waiting = |inner: &mut Shelves| inner.staged() < pace.writes;
        let time = (pace.took / GATHERING).min(LONGEST_GATHERING);
        drop(more.wait_timeout_while(self.lock(), time, is_waiting));
    }

    /// Changes the marks, and wakes those who wait for them.
    fn change(&self, change: impl FnOnce(&mut Shelves)) {
        let mut inner = self.lock();
        change(&mut inner);
        self.marks.send_replace(Marks::of(&inner));
    }
}

/// Writes a store's staged writes to its disk until the server has stopped.
pub(crate) async fn run(store: Arc<Store>, closing: CancellationToken) {
    let Some(committer) = &store.committer else {
        return;
    };
    let mut is_closing = false;
    while !is_closing {
        tokio::select! {
            biased;
            () = committer.staged.notified() => {}
            () = closing.cancelled() => is_closing = true,
        }
        let commit = {
            let store = store.clone();
            // The waiters of a batch hear of its loss.
            move || drop(store.commit_staged())
        };
        if tokio::task::spawn_blocking(commit).await.is_err() {
            // The disk panicked, or the runtime is going.
            store.change(Shelves::undo);
        }
    }
}

/// The messages of an error and its causes.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
