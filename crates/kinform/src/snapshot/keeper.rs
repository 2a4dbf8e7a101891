//! One informer's snapshot: read before its loop begins, written while it runs and when it ends.
//!
//! ```text
//! Shelf ─restore─▶ Writer with its objects, Resumption for the reflector
//! loop: time to write, root at another version ─▶ Keeper ─▶ a thread that may block ─▶ file
//! ```
//!
//! INVARIANT: one write at a time. A root is written only if it is a point of the
//! server's history from which a watch can go on.
//! A failure costs a report, never the informer.
//!
//! Upstream counterpart: none.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use kinform_core::informer::writer::Writer;
use kinform_core::reflector::Resumption;
use kinform_core::reflector::limits::CacheLimits;
use kinform_core::store::root::Root;
use kinform_core::time::Instant;
use kube_client::Client;
use tokio::task::JoinSet;

use super::{Shelf, file};
use crate::env::{self, Env};

/// Objects that the server is asked for, to show that it has the same history.
const WITNESSES: usize = 3;

/// The outcome of reading a snapshot.
pub(crate) struct Restored {
    /// The point to go on from.
    pub(crate) from: Resumption,
    pub(crate) objects: usize,
    /// The time at which it was written.
    pub(crate) written: Timestamp,
}

/// Reads the snapshot of an informer into its store. The error is the reason why there is none to be
/// used; no file is no error.
pub(crate) async fn restore(
    shelf: &Shelf,
    identity: String,
    mut writer: Writer,
    limits: CacheLimits,
) -> (Writer, Result<Option<Restored>, String>) {
    let path = shelf.path();
    let reading = env::blocking(move || file::read(&path, &identity, limits));
    let read = reading.await;
    let read = read.unwrap_or_else(|_| Err("reading it panicked".to_owned()));
    let (snapshot, written) = match read {
        Ok(Some(read)) => read,
        Ok(None) => return (writer, Ok(None)),
        Err(reason) => return (writer, Err(reason)),
    };
    let restored = Restored {
        from: Resumption {
            version: snapshot.version.as_str().into(),
            objects: snapshot
                .quarantined
                .is_empty()
                .then_some(snapshot.objects.len()),
            witnesses: snapshot.newest(WITNESSES),
        },
        objects: snapshot.objects.len(),
        written: timestamp(written),
    };
    // An empty cache is listed: there is nothing to go on from.
    if restored.from.witnesses.is_empty() {
        return (writer, Ok(None));
    }
    // Off the threads that serve others: it is a walk over all objects.
    let storing = env::blocking(move || {
        writer.restore(snapshot);
        writer
    });
    match storing.await {
        Ok(writer) => (writer, Ok(Some(restored))),
        // Without a writer there is no informer: the panic goes on, as it would have here.
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Writes the snapshots of one informer.
pub(crate) struct Keeper {
    shelf: Option<Shelf>,
    client: Option<Client>,
    next: Option<Instant>,
    /// The state that is on disk, or is written now: epoch, position and version of its root.
    written: Option<(u64, u64, Arc<str>)>,
    // INVARIANT: at most one.
    running: JoinSet<Result<(), String>>,
}

impl Keeper {
    /// A keeper of this shelf. Without one it does nothing.
    pub(crate) fn new(shelf: Option<Shelf>, client: Option<Client>) -> Self {
        Self {
            client: client.filter(|_| shelf.is_some()),
            shelf,
            next: None,
            written: None,
            running: JoinSet::new(),
        }
    }

    /// The time of the next call of [`Keeper::on_time`].
    pub(crate) fn next_wake(&mut self, now: Instant) -> Option<Instant> {
        let period = self.shelf.as_ref()?.period();
        Some(*self.next.get_or_insert(now + period))
    }

    /// Begins to write, if it is time and there is news. `may_resume` says whether a watch can go on
    /// from the root's version.
    pub(crate) fn on_time(&mut self, root: &Root, may_resume: bool, env: &Env) {
        let now = env.now();
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        self.next = self.shelf.as_ref().map(|shelf| now + shelf.period());
        self.write(root, may_resume, env);
    }

    /// The result of the write under way; pending for ever if none runs.
    ///
    /// Cancel safety: nothing is lost.
    pub(crate) async fn next(&mut self) -> Result<(), String> {
        match self.running.join_next().await {
            Some(Ok(written)) => {
                if written.is_err() {
                    self.written = None;
                }
                written
            }
            Some(Err(_)) => Err("writing it panicked".to_owned()),
            None => std::future::pending().await,
        }
    }

    /// Writes the last state, and waits until it is on disk.
    pub(crate) async fn finish(
        mut self,
        root: &Root,
        may_resume: bool,
        env: &Env,
    ) -> Result<(), String> {
        if !self.running.is_empty() {
            // Its error is that of the write that follows, too.
            let _ = self.next().await;
        }
        self.write(root, may_resume, env);
        match self.running.is_empty() {
            true => Ok(()),
            false => self.next().await,
        }
    }

    fn write(&mut self, root: &Root, may_resume: bool, env: &Env) {
        let Some(shelf) = &self.shelf else {
            return;
        };
        let state = (root.epoch(), root.position(), Arc::clone(root.version()));
        let is_known = self.written.as_ref() == Some(&state);
        // Of reduced objects, the next start would not know the rest.
        let is_whole = root.has_synced() && may_resume && root.reduced().objects == 0;
        if !is_whole || is_known || !self.running.is_empty() {
            return;
        }
        self.written = Some(state);
        let (shelf, client, root) = (shelf.clone(), self.client.clone(), root.clone());
        let unique = env.seed();
        self.running.spawn(async move {
            let identity = shelf.identity_now(client).await?;
            let path = shelf.path();
            let writing = env::blocking(move || {
                let written = file::write(&path, &identity, root, unique);
                written.map_err(|error| format!("{}: {error}", path.display()))
            });
            let written = writing.await;
            written.unwrap_or_else(|_| Err("writing it panicked".to_owned()))
        });
    }
}
