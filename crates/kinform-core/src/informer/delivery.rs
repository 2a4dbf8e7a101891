//! One handler's place in the stream.
//!
//! ```text
//! waiting ──first list stored──▶ initial adds ──▶ synced ──▶ batches of the ring, one after another
//!                                                   evicted: difference of roots ──▶ batches again
//! waiting ──snapshot restored──▶ initial adds ──▶ batches ──▶ synced ──▶ batches
//! ```
//!
//! A delivery remembers a position and the root that it was last told. That is all it takes: a late
//! handler takes the difference from nothing, one that fell behind the difference from what it was
//! told, a resync walks what it was told. `old` is always exactly what this handler heard last.
//!
//! What is handed out counts as heard when [`Delivery::next`] is called again: so a handler is synced
//! only after it returned from its last initial add, or panicked in it.
//!
//! A resync hands out pieces in turn with fresh batches: neither starves the other, and each object
//! is delivered in the state that this handler knows at that moment. It pins at most two roots: the
//! delivered one and, while it catches up, the target.
//!
//! An object that leaves the scope of a store is heard by nobody, neither as a difference nor in a resync:
//! a batch without a change takes the handler to the root without it.
//!
//! A handler that leaves a store (its namespace is no longer watched) forgets it: the difference from
//! what it was told to nothing.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go` (`processorListener`),
//! `client-go:tools/cache/synctrack`.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kinform_api::mutant;

use super::ring::{Batch, Found};
use super::writer::{Mark, Reader};
use crate::delta::{Change, HandlerId};
use crate::scope::covers;
use crate::store::diff::Diff;
use crate::store::root::Root;

// BOUND: changes handed out at once from a difference or a resync, but for the rest of a block.
const PIECE: usize = 256;

/// One handler's place in the stream; the handler's task owns it.
#[derive(Debug)]
pub struct Delivery {
    reader: Reader,
    id: HandlerId,
    mark: Arc<Mark>,
    phase: Phase,
    // INVARIANT: what the handler heard, when everything handed out was heard: all of `told`, and,
    // while there is a difference, that part of it which was taken.
    told: Root,
    cursor: u64,
    diff: Option<Diff>,
    resync: Resync,
    times_behind: u64,
    is_leaving: bool,
}

/// The next delivery for a handler.
#[derive(Debug)]
pub enum Next {
    /// Changes to hear, in order.
    Changes(Changes),
    /// The handler has heard everything that was stored when it came. Once only.
    Synced,
    /// Nothing now: ask again when the writer published.
    Idle,
}

/// Changes handed out together, borrowed from the ring where they come from it.
#[derive(Debug)]
pub struct Changes {
    origin: Origin,
    held: Held,
}

/// The origin of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The objects stored when the handler came.
    Initial,
    /// As the server said it.
    Live,
    /// The difference from what was told, since the handler fell behind or a list changed much.
    CaughtUp,
    /// A resync.
    Resync,
}

#[derive(Debug)]
enum Held {
    Ring(Arc<Batch>),
    Own(Vec<Change>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Initial,
    /// Everything that a snapshot held was heard; changes are, too, but the store is not synced.
    Restored,
    Live,
}

#[derive(Debug, Default)]
struct Resync {
    // How many times due have been taken up.
    times: u64,
    // Where the walk goes on, if one runs.
    walk: Option<usize>,
    // Whether the walk has the next turn.
    is_next: bool,
}

impl Reader {
    /// A new place in the stream for one handler: it will hear everything stored, a synced marker,
    /// then every change. Dropping it ends it.
    #[must_use]
    pub fn deliver(&self) -> Delivery {
        let (id, mark) = self.hub.admit();
        Delivery::new(self.clone(), id, mark)
    }
}

impl Delivery {
    fn new(reader: Reader, id: HandlerId, mark: Arc<Mark>) -> Self {
        let told = Root::empty(reader.root().seed());
        Self {
            cursor: reader.ring().end(),
            reader,
            id,
            mark,
            phase: Phase::Waiting,
            told,
            diff: None,
            resync: Resync::default(),
            times_behind: 0,
            is_leaving: false,
        }
    }

    /// Returns the next delivery for the handler. A call acknowledges everything handed out before.
    ///
    /// # Order guarantees
    /// For one key, that of the server. Over keys, too, but for what a difference tells.
    #[expect(
        clippy::should_implement_trait,
        reason = "it goes on after nothing came"
    )]
    pub fn next(&mut self) -> Next {
        let next = self.step();
        self.mark.needs(self.needed());
        next
    }

    fn step(&mut self) -> Next {
        if self.phase == Phase::Waiting {
            let early = mutant!("C2").then(|| self.reader.root());
            self.mark.pin(self.reader.ring().end());
            let root = early.unwrap_or_else(|| self.reader.root());
            if self.is_leaving || !(root.has_synced() || root.is_restored()) {
                return Next::Idle;
            }
            self.phase = Phase::Initial;
            self.diff = Some(Diff::initial(root));
        }
        if let Some(changes) = self.next_difference() {
            return Next::Changes(changes);
        }
        if self.phase == Phase::Initial {
            // A resync that was due before is answered by the initial adds.
            self.resync.times = self.mark.resync_times.load(Ordering::Acquire);
            self.phase = Phase::Restored;
        }
        if let Some(synced) = self.become_live() {
            return synced;
        }
        if self.is_leaving {
            return self.next_of_leaving();
        }
        match self.next_live() {
            // A difference without a change may have led to a synced state.
            Next::Idle => self.become_live().unwrap_or(Next::Idle),
            next => next,
        }
    }

    /// Tells the handler that it is synced, once it has heard a synced state.
    fn become_live(&mut self) -> Option<Next> {
        let is_due = self.phase == Phase::Restored && self.has_heard_a_synced_state();
        is_due.then(|| {
            self.phase = Phase::Live;
            Next::Synced
        })
    }

    /// Returns whether everything that made the store synced was heard: of a restored store, changes
    /// since its snapshot, too.
    fn has_heard_a_synced_state(&self) -> bool {
        if self.told.has_synced() || mutant!("W4") {
            return true;
        }
        let root = self.reader.root();
        root.has_synced() && self.cursor >= root.position()
    }

    /// From now on, after a difference under way, the handler hears every object that it was told as
    /// deleted, final state unknown; then nothing comes any more.
    pub fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Returns the handler's id, for resync.
    #[must_use]
    pub fn id(&self) -> HandlerId {
        self.id
    }

    /// Returns whether the handler has heard everything that was stored when it came.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.phase == Phase::Live
    }

    /// Returns the number of times that the handler fell behind the ring.
    #[must_use]
    pub fn times_behind(&self) -> u64 {
        self.times_behind
    }

    /// Returns the position after the batches that were handed out, or are part of a difference that
    /// is handed out now. A handler that leaves waits for no batch.
    #[must_use]
    pub fn position(&self) -> u64 {
        match &self.diff {
            _ if self.is_leaving => self.reader.ring().end(),
            Some(diff) => diff.target().position(),
            None => self.cursor,
        }
    }

    /// Returns the number of batches that wait for this handler.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.reader.ring().end().saturating_sub(self.position())
    }

    /// Bytes of old versions that this place keeps alive besides the newest root.
    ///
    /// # Complexity
    /// O(what changed since): for a gauge that somebody reads, not for each batch.
    #[must_use]
    pub fn pinned_bytes(&self) -> usize {
        let diff = Diff::between(self.told.clone(), self.reader.root());
        let mut diff = diff.with_what_left();
        let (mut piece, mut bytes) = (Vec::new(), 0);
        while !diff.is_done() {
            diff.take_into(&mut piece, PIECE);
            bytes += piece
                .drain(..)
                .map(|change| change.heap_size())
                .sum::<usize>();
        }
        bytes
    }

    /// The oldest batch that this place may ask the ring for.
    fn needed(&self) -> u64 {
        match &self.diff {
            _ if self.is_leaving || self.phase == Phase::Waiting => u64::MAX,
            Some(diff) => diff.target().position(),
            None => self.cursor,
        }
    }

    fn next_live(&mut self) -> Next {
        loop {
            self.take_up_resync();
            if (std::mem::take(&mut self.resync.is_next) || mutant!("B30"))
                && let Some(changes) = self.next_of_resync()
            {
                return Next::Changes(changes);
            }
            match self.reader.ring().at(self.cursor) {
                Found::Batch(batch) => {
                    self.cursor += 1;
                    self.told = batch.root().clone();
                    self.resync.is_next = true;
                    if batch.changes().is_empty() {
                        continue;
                    }
                    return Next::Changes(Changes {
                        origin: Origin::Live,
                        held: Held::Ring(batch),
                    });
                }
                Found::Evicted => {
                    self.times_behind += 1;
                    self.diff = Some(Diff::between(self.told.clone(), self.reader.root()));
                    if let Some(changes) = self.next_difference() {
                        return Next::Changes(changes);
                    }
                    // What changed was changed back: go on from the newest root.
                }
                Found::Nothing => return self.next_of_resync().map_or(Next::Idle, Next::Changes),
            }
        }
    }

    fn next_of_leaving(&mut self) -> Next {
        if self.told.is_empty() {
            return Next::Idle;
        }
        // What left the scope before is not deleted now.
        let nothing = self.reader.root().emptied();
        self.diff = Some(Diff::between(self.told.clone(), nothing));
        self.next_difference().map_or(Next::Idle, Next::Changes)
    }

    fn next_difference(&mut self) -> Option<Changes> {
        let diff = self.diff.as_mut()?;
        let mut piece = Vec::new();
        diff.take_into(&mut piece, PIECE);
        if !piece.is_empty() {
            let origin = if self.phase == Phase::Initial {
                Origin::Initial
            } else {
                Origin::CaughtUp
            };
            return Some(Changes {
                origin,
                held: Held::Own(piece),
            });
        }
        debug_assert!(diff.is_done(), "a piece is empty only at the end");
        self.told = diff.target().clone();
        self.cursor = self.told.position();
        if mutant!("B43") {
            self.cursor = self.reader.ring().end();
        }
        self.resync.is_next = true;
        self.diff = None;
        None
    }

    fn take_up_resync(&mut self) {
        let times = self.mark.resync_times.load(Ordering::Acquire);
        // Not before what was said before it.
        if times != self.resync.times
            && self.cursor >= self.mark.resync_position.load(Ordering::Acquire)
        {
            self.resync.times = times;
            self.resync.walk.get_or_insert(0);
        }
    }

    fn next_of_resync(&mut self) -> Option<Changes> {
        let scope = self.reader.root().scope().cloned();
        let mut objects = Vec::new();
        while objects.is_empty() {
            let from = self.resync.walk?;
            self.resync.walk = self.told.walk_into(from, &mut objects, PIECE);
            objects.retain(|object| covers(scope.as_ref(), object));
        }
        let piece = objects.into_iter().map(Change::Sync).collect();
        Some(Changes {
            origin: Origin::Resync,
            held: Held::Own(piece),
        })
    }
}

impl Changes {
    /// Returns the origin of the changes.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }
}

impl Deref for Changes {
    type Target = [Change];

    fn deref(&self) -> &[Change] {
        match &self.held {
            Held::Ring(batch) => batch.changes(),
            Held::Own(changes) => changes,
        }
    }
}
