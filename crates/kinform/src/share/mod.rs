//! One replica's share of the keys: the ranges that its informers read, and the shards that its
//! controllers work on.
//!
//! ```text
//! who decides ──extend, shrink──▶ Share ──wanted ranges──▶ informers ──reads──▶ Share ──▶ synced
//!             ──open, close, abort─▶  ──open shards, passes──▶ controllers ──▶ drained
//! ```
//!
//! The machine of [`Sharding`](kinform_core::shards::Sharding) decides, and its shell says so here;
//! a program with another source of decisions calls the same methods. Decides nothing itself.
//!
//! INVARIANT: work of a shard begins only while it is open, and has ended when it is drained.
//! INVARIANT: a range that was shrunk is synced again only after it was read again.
//! BOUND: a set of ranges an informer; a slot for each shard that is open or has work.
//!
//! Upstream counterpart: none.

mod gate;
mod reading;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use kinform_core::shards::{Ranges, ShardId, Shards};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::gate::{Gate, Pass};
pub(crate) use self::reading::Reading;
use crate::sync::lock;

/// The share of one replica. Clones are the same share.
///
/// A new one has nothing: informers that use it keep no object, and controllers do no work, until it
/// is extended and opened.
///
/// ```
/// use kinform::{Share, Shards, ShardId};
///
/// let share = Share::new(Shards::by_namespace(16).unwrap());
/// share.extend(ShardId(3));
/// share.open(ShardId(3));
/// assert!(share.is_open(ShardId(3)));
/// ```
///
/// Upstream counterpart: none.
#[derive(Clone)]
pub struct Share(Arc<State>);

struct State {
    shards: Shards,
    inner: Mutex<Inner>,
    /// Counts changes of any kind, for those who wait.
    changed: watch::Sender<u64>,
    wanted: watch::Sender<Ranges>,
}

#[derive(Default)]
struct Inner {
    /// The ranges that each informer has read, by its number.
    read: BTreeMap<u64, Ranges>,
    slots: BTreeMap<ShardId, Slot>,
    /// Numbers given to informers and to openings.
    next: u64,
}

/// A shard that is open, or has work.
#[derive(Default)]
struct Slot {
    /// The number of its opening; `None` if it is closed.
    opened: Option<u64>,
    running: usize,
    /// Ends its running work.
    end: CancellationToken,
}

/// One shard of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardState {
    /// Its number.
    pub shard: ShardId,
    /// Every informer has read its range.
    pub has_synced: bool,
    /// Controllers may begin work on it.
    pub is_open: bool,
    /// The number of reconciles that run.
    pub running: usize,
}

impl Share {
    /// A share of nothing yet.
    #[must_use]
    pub fn new(shards: Shards) -> Self {
        Self(Arc::new(State {
            shards,
            inner: Mutex::default(),
            changed: watch::Sender::new(0),
            wanted: watch::Sender::new(Ranges::none()),
        }))
    }

    /// The division of all keys.
    #[must_use]
    pub fn shards(&self) -> Shards {
        self.0.shards
    }

    /// Has the informers read the range of this shard. Without effect if they do already, or if there
    /// is no such shard.
    pub fn extend(&self, shard: ShardId) {
        let Some(range) = self.0.shards.range(shard) else {
            return;
        };
        self.want(|ranges| ranges.union(&range.into()));
    }

    /// Has the informers give up the range of this shard. No object that leaves is heard as deleted.
    pub fn shrink(&self, shard: ShardId) {
        let Some(range) = self.0.shards.range(shard) else {
            return;
        };
        let range = Ranges::from(range);
        let mut inner = lock(&self.0.inner);
        for read in inner.read.values_mut() {
            *read = read.difference(&range);
        }
        drop(inner);
        self.want(|ranges| ranges.difference(&range));
    }

    fn want(&self, change: impl FnOnce(&Ranges) -> Ranges) {
        self.0.wanted.send_if_modified(|ranges| {
            let changed = change(ranges);
            let is_new = changed != *ranges;
            *ranges = changed;
            is_new
        });
        self.tell();
    }

    /// The ranges that informers are to read.
    #[must_use]
    pub fn ranges(&self) -> Ranges {
        self.0.wanted.borrow().clone()
    }

    /// Returns whether every informer that uses this share has read the range of a shard since it was
    /// last extended by it.
    #[must_use]
    pub fn has_synced(&self, shard: ShardId) -> bool {
        let range = self.0.shards.range(shard).map(Ranges::from);
        let inner = lock(&self.0.inner);
        let covers = |all: &Ranges, range: &Ranges| range.difference(all).is_empty();
        range.is_some_and(|range| {
            let mut read = inner.read.values();
            covers(&self.0.wanted.borrow(), &range) && read.all(|read| covers(read, &range))
        })
    }

    /// Waits until [`has_synced`](Self::has_synced); for ever, if the shard is shrunk before.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn synced(&self, shard: ShardId) {
        self.until(|| self.has_synced(shard)).await;
    }

    /// Lets controllers work on this shard. They begin with all of its objects.
    pub fn open(&self, shard: ShardId) {
        if shard.0 >= self.0.shards.count() {
            return;
        }
        let mut inner = lock(&self.0.inner);
        let number = inner.number();
        let slot = inner.slots.entry(shard).or_default();
        if slot.opened.is_none() {
            slot.opened = Some(number);
            slot.end = CancellationToken::new();
        }
        drop(inner);
        self.tell();
    }

    /// Gives out no more keys of this shard. Its running reconciles go on.
    pub fn close(&self, shard: ShardId) {
        let mut inner = lock(&self.0.inner);
        if let Some(slot) = inner.slots.get_mut(&shard) {
            slot.opened = None;
            inner.tidy(shard);
        }
        drop(inner);
        self.tell();
    }

    /// Closes the shard, and drops its running reconciles at their next await.
    pub fn abort(&self, shard: ShardId) {
        if let Some(slot) = lock(&self.0.inner).slots.get(&shard) {
            slot.end.cancel();
        }
        self.close(shard);
    }

    /// Returns whether controllers may work on this shard.
    #[must_use]
    pub fn is_open(&self, shard: ShardId) -> bool {
        let inner = lock(&self.0.inner);
        let slot = inner.slots.get(&shard);
        slot.is_some_and(|slot| slot.opened.is_some())
    }

    /// The shards that are open, in order.
    #[must_use]
    pub fn open_shards(&self) -> Vec<ShardId> {
        self.opened_after(None)
    }

    /// The shards that this replica has or is about to have, in order.
    #[must_use]
    pub fn states(&self) -> Vec<ShardState> {
        let wanted = self.ranges();
        let is_wanted = |shard: &ShardId| {
            let range = self.0.shards.range(*shard);
            // Shards are wanted as a whole.
            range.is_some_and(|range| wanted.contains(range.start()))
        };
        let shards =
            self.0.shards.ids().filter(|shard| {
                is_wanted(shard) || self.is_open(*shard) || self.running(*shard) > 0
            });
        let state = |shard| ShardState {
            shard,
            has_synced: self.has_synced(shard),
            is_open: self.is_open(shard),
            running: self.running(shard),
        };
        shards.map(state).collect()
    }

    /// The number of reconciles of a shard that run.
    #[must_use]
    pub fn running(&self, shard: ShardId) -> usize {
        let inner = lock(&self.0.inner);
        inner.slots.get(&shard).map_or(0, |slot| slot.running)
    }

    /// Waits until no reconcile of this shard runs.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn drained(&self, shard: ShardId) {
        self.until(|| self.running(shard) == 0).await;
    }

    /// A registration of an informer, which is waited for from now on.
    pub(crate) fn reading(&self) -> Reading {
        let mut inner = lock(&self.0.inner);
        let number = inner.number();
        inner.read.insert(number, Ranges::none());
        drop(inner);
        self.tell();
        Reading::new(self.clone(), number)
    }

    /// The open shards with an opening after this one.
    fn opened_after(&self, number: Option<u64>) -> Vec<ShardId> {
        let inner = lock(&self.0.inner);
        let slots = inner.slots.iter();
        // A closed shard has none, which is less than every number.
        let opened = slots.filter(|(_, slot)| slot.opened > number);
        opened.map(|(shard, _)| *shard).collect()
    }

    /// Waits for a condition that only changes of the share make true.
    async fn until(&self, holds: impl Fn() -> bool) {
        let mut changes = self.0.changed.subscribe();
        loop {
            changes.mark_unchanged();
            if holds() {
                return;
            }
            // Its sender is here.
            let _ = changes.changed().await;
        }
    }

    fn tell(&self) {
        self.0.changed.send_modify(|count| *count += 1);
    }
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Forgets the shard if nothing is to be remembered.
    fn tidy(&mut self, shard: ShardId) {
        let idle = |slot: &Slot| slot.opened.is_none() && slot.running == 0;
        if self.slots.get(&shard).is_some_and(idle) {
            self.slots.remove(&shard);
        }
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Share {}

impl Hash for Share {
    /// All alike: an address would differ from run to run, and with it the order of informers that
    /// start together.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share")
            .field("shards", &self.0.shards)
            .field("open", &self.open_shards())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn share() -> Share {
        Share::new(Shards::by_namespace(4).unwrap())
    }

    fn range(share: &Share, shard: u32) -> Ranges {
        share.shards().range(ShardId(shard)).unwrap().into()
    }

    #[test]
    fn a_range_is_synced_once_every_informer_has_read_it_since_it_came() {
        let (share, shard) = (share(), ShardId(2));
        assert!(!share.has_synced(shard), "nobody wants it");
        let (a, b) = (share.reading(), share.reading());
        share.extend(shard);
        assert_eq!(share.ranges(), range(&share, 2));
        a.has(&range(&share, 2));
        assert!(!share.has_synced(shard));
        b.has(&Ranges::all());
        assert!(share.has_synced(shard) && share.synced(shard).now_or_never().is_some());
        share.shrink(shard);
        assert_eq!(share.ranges(), Ranges::none());
        share.extend(shard);
        assert!(!share.has_synced(shard), "what was shrunk is read again");
        a.has(&Ranges::all());
        drop(b);
        assert!(
            share.has_synced(shard),
            "nobody waits for an informer that is gone"
        );
        assert!(!share.has_synced(ShardId(4)), "there is no such shard");
    }

    #[test]
    fn work_begins_in_open_shards_only_and_is_waited_for() {
        let (share, shard) = (share(), ShardId(1));
        let gate = Gate::new(share.clone());
        assert!(gate.enter(shard).is_none());
        share.open(shard);
        let pass = gate.enter(shard).unwrap();
        assert!(gate.enter(ShardId(2)).is_none());
        share.close(shard);
        assert!(gate.enter(shard).is_none());
        assert!(share.drained(shard).now_or_never().is_none());
        assert!(pass.ended().now_or_never().is_none(), "it may end in peace");
        drop(pass);
        assert!(share.drained(shard).now_or_never().is_some());
    }

    #[test]
    fn an_abort_ends_work_that_runs_and_the_next_opening_is_not_touched_by_it() {
        let (share, shard) = (share(), ShardId(1));
        let gate = Gate::new(share.clone());
        share.open(shard);
        let old = gate.enter(shard).unwrap();
        share.abort(shard);
        assert!(old.ended().now_or_never().is_some());
        share.open(shard);
        let new = gate.enter(shard).unwrap();
        assert!(new.ended().now_or_never().is_none());
        assert_eq!(share.running(shard), 2);
    }

    #[test]
    fn each_opening_is_told_once() {
        let share = share();
        let mut gate = Gate::new(share.clone());
        assert!(gate.opened().now_or_never().is_none());
        share.open(ShardId(3));
        share.open(ShardId(1));
        assert_eq!(
            gate.opened().now_or_never(),
            Some(vec![ShardId(1), ShardId(3)])
        );
        share.open(ShardId(3));
        assert!(gate.opened().now_or_never().is_none(), "it was open");
        share.close(ShardId(3));
        share.open(ShardId(3));
        assert_eq!(gate.opened().now_or_never(), Some(vec![ShardId(3)]));
        share.open(ShardId(9));
        assert!(gate.opened().now_or_never().is_none(), "there is none");
    }
}
