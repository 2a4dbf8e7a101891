//! An informer's place in a share: what it is to read, and what it has read.
//!
//! ```text
//! Share ──wanted──▶ Reading ──▶ the informer's loop ──has──▶ Share
//! ```
//!
//! Upstream counterpart: none.

use std::fmt;

use kinform_core::shards::Ranges;
use tokio::sync::watch;

use super::Share;
use crate::sync::lock;

/// The registration of one informer; dropped with it.
pub(crate) struct Reading {
    share: Share,
    number: u64,
}

impl Reading {
    pub(super) fn new(share: Share, number: u64) -> Self {
        Self { share, number }
    }

    /// The ranges to read, now and as they change.
    pub(crate) fn wanted(&self) -> watch::Receiver<Ranges> {
        self.share.0.wanted.subscribe()
    }

    /// The ranges that this informer has read, as far as they were not shrunk since.
    pub(crate) fn read(&self) -> Ranges {
        let inner = lock(&self.share.0.inner);
        inner.read.get(&self.number).cloned().unwrap_or_default()
    }

    /// The store has all objects of these ranges, and hears their changes. What is no longer wanted
    /// does not count.
    pub(crate) fn has(&self, ranges: &Ranges) {
        let wanted = self.share.ranges();
        let surplus = ranges.difference(&wanted);
        let mut inner = lock(&self.share.0.inner);
        inner.read.insert(self.number, ranges.difference(&surplus));
        drop(inner);
        self.share.tell();
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        lock(&self.share.0.inner).read.remove(&self.number);
        self.share.tell();
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
