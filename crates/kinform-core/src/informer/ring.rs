//! The ring: the newest batches of changes, each with the root after it.
//!
//! ```text
//! RingWriter::write ──▶ cells [position mod capacity] ──at(position)──▶ any number of cursors
//!         release(needed) ◀── the oldest position that a cursor may ask for ──┘
//! ```
//!
//! A batch is written once and borrowed by every cursor; a cursor is a number. Batches that every
//! cursor has passed are dropped at the next write. The rest is bounded in batches, changes and
//! bytes: the oldest batches give way, and a handler that has not heard them takes the difference of
//! two roots instead. So a slow handler costs the writer nothing, and pins two roots.
//!
//! Writing and reading wait for nobody: a cell is an arc-swap.
//!
//! INVARIANT: a cell is written before the root after it is published, and the end moves last: whoever
//! hears a change finds it in the store.
//!
//! Upstream counterpart: the unbounded buffer of each listener in
//! `client-go:tools/cache/shared_informer.go` (`processorListener.pop`).
//! Complexity: write and read are O(1), whatever the number of cursors.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kinform_api::mutant;

use crate::delta::Change;
use crate::store::root::Root;
use crate::sync::{ArcSwapOption, AtomicU64};

// What a batch and a change pin besides objects: copied blocks of the root after, an estimate.
const BATCH_BYTES: usize = 4 * 1024;
const CHANGE_BYTES: usize = 1024;

/// The limits of a ring's content, which is what some handler has not received yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingLimits {
    /// Batches; rounded up to a power of two. Default: 4,096.
    pub batches: usize,
    /// Changes over all batches. Default: 16,384.
    pub changes: usize,
    /// Bytes that nothing but the ring may keep alive. Default: 32 MiB.
    pub bytes: usize,
}

/// Changes that were published together.
#[derive(Debug)]
pub struct Batch {
    position: u64,
    changes: Vec<Change>,
    root: Root,
}

/// The content that a cursor finds at a position.
#[derive(Debug)]
pub enum Found {
    /// The batch.
    Batch(Arc<Batch>),
    /// Not written yet.
    Nothing,
    /// Written once, and given way since.
    Evicted,
}

/// The newest batches.
#[derive(Debug)]
pub struct Ring {
    cells: Box<[ArcSwapOption<Batch>]>,
    first: AtomicU64,
    end: AtomicU64,
    changes: AtomicU64,
    bytes: AtomicU64,
}

/// The one who writes a ring: write, publish the root, reveal.
#[derive(Debug)]
pub struct RingWriter {
    ring: Arc<Ring>,
    limits: RingLimits,
    // INVARIANT: one for each batch from `first` to the newest one written.
    kept: VecDeque<Size>,
    total: Size,
}

#[derive(Debug, Clone, Copy, Default)]
struct Size {
    changes: usize,
    bytes: usize,
}

impl Default for RingLimits {
    fn default() -> Self {
        Self {
            batches: 4096,
            changes: 16_384,
            bytes: 32 << 20,
        }
    }
}

impl Batch {
    /// The changes, in order.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The root after the changes.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }
}

impl Ring {
    /// Returns the content at a position.
    #[must_use]
    pub fn at(&self, position: u64) -> Found {
        if position < self.first.load(Ordering::Acquire) {
            return Found::Evicted;
        }
        if position >= self.end.load(Ordering::Acquire) {
            return Found::Nothing;
        }
        match self.cells[position as usize & (self.cells.len() - 1)].load_full() {
            Some(batch) if batch.position == position => Found::Batch(batch),
            _ => Found::Evicted,
        }
    }

    /// The position after the newest batch.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Changes kept now.
    #[must_use]
    pub fn kept_changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Bytes that nothing but the ring may keep alive now.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl RingWriter {
    /// An empty ring.
    #[must_use]
    pub fn new(limits: RingLimits) -> Self {
        let cells = limits.batches.clamp(1, 1 << 20).next_power_of_two();
        let ring = Ring {
            cells: (0..cells).map(|_| ArcSwapOption::empty()).collect(),
            first: AtomicU64::new(0),
            end: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        };
        Self {
            ring: Arc::new(ring),
            limits,
            kept: VecDeque::new(),
            total: Size::default(),
        }
    }

    /// The ring, to be read.
    #[must_use]
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Writes a batch; readers see it only when it is revealed. Its root is positioned after it: one
    /// further than that of the batch before. A batch larger than the whole ring is not kept.
    pub fn write(&mut self, changes: Vec<Change>, root: Root) {
        let bytes = changes
            .iter()
            .map(|change| change.heap_size() + CHANGE_BYTES)
            .sum::<usize>();
        let size = Size {
            changes: changes.len(),
            bytes: bytes + BATCH_BYTES,
        };
        if size.changes > self.limits.changes || size.bytes > self.limits.bytes {
            return self.clear();
        }
        while self.kept.len() >= self.ring.cells.len()
            || self.total.changes + size.changes > self.limits.changes
            || self.total.bytes + size.bytes > self.limits.bytes
        {
            if mutant!("B33") {
                break;
            }
            self.evict();
        }
        self.kept.push_back(size);
        self.total.changes += size.changes;
        self.total.bytes += size.bytes;
        let position = root.position() - 1;
        let batch = Batch {
            position,
            changes,
            root,
        };
        self.cell(position).store(Some(Arc::new(batch)));
        self.gauge();
    }

    /// Drops the batches before a position, which no cursor asks for any more.
    pub fn release(&mut self, needed: u64) {
        while !self.kept.is_empty() && self.ring.first.load(Ordering::Relaxed) < needed {
            self.evict();
        }
        self.gauge();
    }

    /// Gives up everything kept: whoever is behind takes a difference.
    pub fn clear(&mut self) {
        while !self.kept.is_empty() {
            self.evict();
        }
        self.gauge();
    }

    /// Lets readers see what was written, up to the position of the published root.
    pub fn reveal(&self, end: u64) {
        if self.kept.is_empty() {
            self.ring.first.store(end, Ordering::Release);
        }
        self.ring.end.store(end, Ordering::Release);
    }

    fn evict(&mut self) {
        let Some(size) = self.kept.pop_front() else {
            return;
        };
        self.total.changes -= size.changes;
        self.total.bytes -= size.bytes;
        let first = self.ring.first.fetch_add(1, Ordering::AcqRel);
        self.cell(first).store(None);
    }

    fn cell(&self, position: u64) -> &ArcSwapOption<Batch> {
        &self.ring.cells[position as usize & (self.ring.cells.len() - 1)]
    }

    fn gauge(&self) {
        self.ring
            .changes
            .store(self.total.changes as u64, Ordering::Relaxed);
        self.ring
            .bytes
            .store(self.total.bytes as u64, Ordering::Relaxed);
    }
}
