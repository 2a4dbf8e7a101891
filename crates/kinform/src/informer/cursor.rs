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
use kinform_core::time::Instant;

use super::{Command, Core};
use crate::sync::watch;

/// Wakes the tasks that wait for changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    turns: u64,
    /// The loop has ended: it publishes no more.
    pub(crate) ended: bool,
    /// The last publication.
    pub(super) stamp: Stamp,
}

/// A publication with its time: listeners measure by it how long changes take to be handled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    /// The position after it.
    end: u64,
    at: Instant,
}

/// A stopwatch of one listener in the stream of one core: one publication at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stopwatch {
    /// The publication that is waited for.
    awaited: Option<Stamp>,
    measured: u64,
}

impl Stopwatch {
    /// A stopwatch that leaves this publication out, and those before it.
    pub(super) fn after(publication: Stamp) -> Self {
        Self {
            awaited: None,
            measured: publication.end,
        }
    }

    /// The listener has handled everything before `position`. Returns the time of the publication
    /// that was waited for, if it is among that.
    pub(super) fn handled(&mut self, position: u64, last: Stamp) -> Option<Instant> {
        let is_new = last.end > self.measured;
        let awaited = self.awaited.or_else(|| is_new.then_some(last))?;
        if awaited.end > position {
            self.awaited = Some(awaited);
            return None;
        }
        *self = Self::after(awaited);
        Some(awaited.at)
    }
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
        let (end, at) = (self.reader.ring().end(), self.env.now());
        self.progress.send_modify(|progress| {
            progress.turns += 1;
            progress.stamp = Stamp { end, at };
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(end: u64) -> Stamp {
        let at = Instant::from_millis(end * 10);
        Stamp { end, at }
    }

    #[test]
    fn a_publication_is_measured_once_when_it_is_handled() {
        let mut watch = Stopwatch::after(stamp(2));
        let ten = |end: u64| Some(Instant::from_millis(end * 10));
        assert_eq!(watch.handled(2, stamp(2)), None, "it was there before");
        assert_eq!(watch.handled(3, stamp(3)), ten(3));
        assert_eq!(watch.handled(3, stamp(3)), None, "it was measured");
        // A slow listener waits for the one that it saw first, whatever comes meanwhile.
        assert_eq!(watch.handled(4, stamp(5)), None);
        assert_eq!(watch.handled(4, stamp(9)), None);
        assert_eq!(watch.handled(6, stamp(9)), ten(5));
        assert_eq!(watch.handled(9, stamp(9)), ten(9));
    }
}
