//! A position in the stream of one core, and the signal that wakes its owner.
//!
//! ```text
//! loop ─publish, then Core::wake─▶ Progress ─▶ each Cursor ─▶ its task looks at the ring again
//! ```
//!
//! INVARIANT: the signal comes after the publication, and a task marks it as seen before it looks:
//! so what is published after a look wakes it.
//!
//! Upstream counterpart: the channels of `client-go:tools/cache/shared_informer.go`
//! (`processorListener`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kinform_core::informer::delivery::Delivery;

use super::{Command, Core};
use crate::sync::watch;

/// Wakes the tasks that wait for changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    turns: u64,
    /// The loop has ended: it publishes no more.
    pub(crate) ended: bool,
}

/// A position in a core's stream: of a handler, or of a stream of changes.
pub(crate) struct Cursor {
    pub(crate) delivery: Delivery,
    pub(crate) progress: watch::Receiver<Progress>,
    pub(crate) core: Arc<Core>,
}

impl Core {
    /// A new position in the stream.
    pub(crate) fn cursor(self: &Arc<Self>) -> Cursor {
        self.cursors.fetch_add(1, Ordering::Relaxed);
        Cursor {
            delivery: self.reader.deliver(),
            progress: self.progress.subscribe(),
            core: Arc::clone(self),
        }
    }

    /// Wakes handlers and streams for another look, after a publication.
    pub(super) fn wake(&self) {
        self.progress.send_modify(|progress| progress.turns += 1);
    }

    /// Wakes them for the last time: no more is published.
    pub(super) fn end_progress(&self) {
        self.progress.send_modify(|progress| progress.ended = true);
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let _ = self.core.commands.send(Command::Forget(self.delivery.id()));
        let was_last = self.core.cursors.fetch_sub(1, Ordering::AcqRel) == 1;
        if was_last && self.core.stops_when_unused.load(Ordering::Relaxed) {
            self.core.stop();
        }
    }
}
