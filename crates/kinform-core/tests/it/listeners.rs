//! Applier, ring and deliveries against a naive store and listeners that check what they hear.

use std::collections::{BTreeMap, BTreeSet};

use kinform_api::ObjectKey;
use kinform_core::Object;
use kinform_core::delta::{Change, Delta, Quarantine, QuarantineOrigin};
use kinform_core::fifo::{DeltaFifo, FifoPolicy};
use kinform_core::informer::delivery::{Delivery, Next, Origin};
use kinform_core::informer::ring::{Found, RingLimits};
use kinform_core::informer::writer::{Reader, Writer};
use kinform_core::store::directory::Seed;
use kinform_core::store::index::Index;
use proptest::prelude::*;

use crate::objects::Pod;

/// The state of an object: uid and version.
pub(crate) type State = (String, u64);
pub(crate) type Model = BTreeMap<ObjectKey, State>;

fn state(object: &Object) -> State {
    (object.uid().to_owned(), object.revision().unwrap())
}

/// The version of objects that cannot be read.
const UNREADABLE: u64 = 3;

/// The rules of the applier, on maps.
#[derive(Default)]
struct NaiveStore {
    stored: Model,
    list: Option<(Model, BTreeSet<ObjectKey>, usize)>,
    /// Keys of which the running list had an unreadable item, and no readable one since.
    unread: BTreeSet<ObjectKey>,
    /// The same of the last list, and of events since.
    apart: BTreeSet<ObjectKey>,
    version: u64,
    synced: bool,
}

impl NaiveStore {
    /// Returns whether an older object is a state after one that could not be read.
    fn is_unread(apart: &BTreeSet<ObjectKey>, key: &ObjectKey, version: u64) -> bool {
        apart.contains(key) && version >= UNREADABLE
    }

    fn apply(&mut self, delta: &Delta) {
        match delta {
            Delta::ListBegin => {
                self.list = Some((self.stored.clone(), BTreeSet::new(), 0));
                self.unread.clear();
            }
            Delta::ListAbort => self.list = None,
            Delta::CaughtUp => self.synced = true,
            Delta::Forget => {
                self.stored.clear();
                self.apart.clear();
            }
            Delta::ListEnd { version } => {
                let Some((mut stored, seen, nameless)) = self.list.take() else {
                    return;
                };
                stored.retain(|key, _| nameless > 0 || seen.contains(key));
                self.stored = stored;
                self.apart = std::mem::take(&mut self.unread);
                self.version = version.parse().unwrap();
                self.synced = true;
            }
            Delta::Replaced(object) | Delta::Added(object) | Delta::Updated(object) => {
                let new = state(object);
                if let Some((stored, seen, _)) = &mut self.list {
                    let is_again = !seen.insert(object.key());
                    let before = stored.get(&object.key()).filter(|_| is_again);
                    let is_unread = self.unread.contains(&object.key());
                    let is_left_out = match (delta, before) {
                        (_, None) => false,
                        // A second item of this name.
                        (Delta::Replaced(_), Some(first)) => {
                            !(is_unread || first.0 == new.0 && first.1 < new.1)
                        }
                        (_, Some(before)) => {
                            before.1 > new.1 && !Self::is_unread(&self.unread, &object.key(), new.1)
                        }
                    };
                    // A change that is older than what is there says nothing of the item.
                    if !is_left_out || matches!(delta, Delta::Replaced(_)) {
                        self.unread.remove(&object.key());
                    }
                    if !is_left_out {
                        stored.insert(object.key(), new);
                    }
                } else if !matches!(delta, Delta::Replaced(_)) {
                    let is_unread = Self::is_unread(&self.apart, &object.key(), new.1);
                    let is_past = |s: &State| s.1 > new.1 && !is_unread || *s == new;
                    if self.stored.get(&object.key()).is_some_and(is_past) {
                        return;
                    }
                    self.apart.remove(&object.key());
                    self.version = self.version.max(new.1);
                    self.stored.insert(object.key(), new);
                }
            }
            Delta::Deleted(object) => {
                let (uid, version) = state(object);
                let (stored, apart) = match &mut self.list {
                    Some(list) => (&mut list.0, &mut self.unread),
                    None => (&mut self.stored, &mut self.apart),
                };
                let is_unread = Self::is_unread(apart, &object.key(), version);
                // A uid that was deleted does not live on.
                let is_past = |s: &State| s.0 != uid && s.1 > version && !is_unread;
                if !stored.get(&object.key()).is_some_and(is_past) {
                    stored.remove(&object.key());
                    apart.remove(&object.key());
                }
                if self.list.is_none() {
                    self.version = self.version.max(version);
                }
            }
            Delta::Bookmark { version } => {
                if self.list.is_none() {
                    self.version = self.version.max(version.parse().unwrap());
                }
            }
            Delta::Quarantined(quarantine) => {
                if let Some((stored, seen, nameless)) = &mut self.list {
                    match &quarantine.key {
                        Some(key) if stored.contains_key(key) => _ = seen.insert(key.clone()),
                        Some(_) => {}
                        None => *nameless += 1,
                    }
                } else if let Some(version) = &quarantine.version {
                    self.version = self.version.max(version.parse().unwrap());
                }
                let (stored, apart) = match &mut self.list {
                    Some(list) => (&mut list.0, &mut self.unread),
                    None => (&mut self.stored, &mut self.apart),
                };
                if let Some(key) = &quarantine.key {
                    if quarantine.origin == QuarantineOrigin::Deletion {
                        stored.remove(key);
                        apart.remove(key);
                    } else {
                        apart.insert(key.clone());
                    }
                }
            }
            Delta::Sync { .. } | Delta::WentBack | Delta::Doubted | Delta::Scope(_) => {}
        }
    }
}

/// A handler that believes what it hears, and checks that it can.
pub(crate) struct Listener {
    delivery: Delivery,
    pub(crate) heard: Model,
    is_synced: bool,
    syncs: usize,
    /// Uids of objects that may come back, since they left: such an add is of what is there.
    pub(crate) left: BTreeSet<String>,
    /// Uids that were heard as deleted since somebody looked.
    pub(crate) deleted: Vec<String>,
}

impl Listener {
    pub(crate) fn new(reader: &Reader) -> Self {
        Self {
            delivery: reader.deliver(),
            heard: Model::new(),
            is_synced: false,
            syncs: 0,
            left: BTreeSet::new(),
            deleted: Vec::new(),
        }
    }

    /// Hears one piece; returns whether there was one.
    pub(crate) fn hear(&mut self, reader: &Reader) -> bool {
        let changes = match self.delivery.next() {
            Next::Idle => return false,
            Next::Synced => {
                assert!(!self.is_synced && self.delivery.has_synced());
                self.is_synced = true;
                return true;
            }
            Next::Changes(changes) => changes,
        };
        assert_eq!(changes.origin() == Origin::Initial, !self.is_synced);
        assert_eq!(self.delivery.has_synced(), self.is_synced);
        for change in &*changes {
            self.believe(change, changes.origin());
        }
        if changes.origin() == Origin::Live {
            // The store is never behind what a handler may hear.
            let end = reader.ring().end();
            assert!(reader.root().position() >= end);
        }
        true
    }

    fn believe(&mut self, change: &Change, origin: Origin) {
        let key = change.key().to_key();
        let known = self.heard.get(&key).cloned();
        match change {
            Change::Added { object, initial } => {
                let may_be_there = |(uid, _): (String, u64)| self.left.contains(&uid);
                assert!(known.is_none_or(may_be_there), "add of what is there");
                assert_eq!(*initial, origin == Origin::Initial);
                self.heard.insert(key, state(object));
            }
            Change::Updated { old, new } => {
                assert_eq!(known, Some(state(old)), "old is not what was heard");
                assert_eq!(old.uid(), new.uid());
                assert_ne!(state(old), state(new));
                self.heard.insert(key, state(new));
            }
            Change::Deleted {
                object,
                final_state_unknown,
            } => {
                let (uid, _) = known.clone().expect("delete of what is not");
                assert_eq!(uid, object.uid());
                if *final_state_unknown {
                    assert_eq!(known, Some(state(object)), "not the last state told");
                }
                assert!(origin == Origin::Live || *final_state_unknown);
                self.deleted.push(uid);
                self.heard.remove(&key);
            }
            Change::Sync(object) => {
                assert_eq!(known, Some(state(object)), "sync of what was not told");
                assert_eq!(origin, Origin::Resync);
                self.syncs += 1;
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Apply(Vec<Said>),
    Listen,
    Hear(usize, usize),
    Leave(usize),
    Resync(Vec<usize>),
}

#[derive(Debug, Clone)]
enum Said {
    Put(Pod),
    Delete(Pod),
    List,
    Item(Pod),
    End(u64),
    Abort,
    Bookmark(u64),
    Unreadable(Option<(u8, u8)>, QuarantineOrigin),
}

fn pod() -> impl Strategy<Value = Pod> {
    (0..2u8, 0..7u8, 0..2u8, 1..30u64).prop_map(|(namespace, name, uid, version)| Pod {
        namespace,
        name,
        uid,
        version,
        node: 0,
        owners: vec![],
    })
}

fn said() -> impl Strategy<Value = Said> {
    let origin = prop_oneof![
        Just(QuarantineOrigin::List),
        Just(QuarantineOrigin::Watch),
        Just(QuarantineOrigin::Deletion)
    ];
    prop_oneof![
        6 => pod().prop_map(Said::Put),
        4 => pod().prop_map(Said::Delete),
        2 => Just(Said::List),
        8 => pod().prop_map(Said::Item),
        2 => (1..30u64).prop_map(Said::End),
        1 => Just(Said::Abort),
        1 => (1..30u64).prop_map(Said::Bookmark),
        1 => (prop::option::of((0..2u8, 0..7u8)), origin).prop_map(|(k, h)| Said::Unreadable(k, h)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => prop::collection::vec(said(), 1..8).prop_map(Op::Apply),
        1 => Just(Op::Listen),
        6 => (0..4usize, 1..4usize).prop_map(|(who, times)| Op::Hear(who, times)),
        1 => (0..4usize).prop_map(Op::Leave),
        1 => prop::collection::vec(0..4usize, 1..3).prop_map(Op::Resync),
    ]
}

fn delta(said: Said) -> Delta {
    match said {
        Said::Put(pod) if pod.version % 2 == 0 => Delta::Added(pod.object()),
        Said::Put(pod) => Delta::Updated(pod.object()),
        Said::Delete(pod) => Delta::Deleted(pod.object()),
        Said::List => Delta::ListBegin,
        Said::Item(pod) => Delta::Replaced(pod.object()),
        Said::End(version) => Delta::ListEnd {
            version: version.to_string(),
        },
        Said::Abort => Delta::ListAbort,
        Said::Bookmark(version) => Delta::Bookmark {
            version: version.to_string(),
        },
        Said::Unreadable(key, origin) => Delta::Quarantined(Quarantine {
            key: key.map(|(ns, n)| ObjectKey::new(Some(&format!("ns{ns}")), &format!("pod{n}"))),
            version: Some(UNREADABLE.to_string()),
            path: String::new(),
            reason: "not an object".into(),
            origin,
        }),
    }
}

pub(crate) fn stored(reader: &Reader) -> Model {
    reader
        .root()
        .list()
        .iter()
        .map(|object| (object.key(), state(object)))
        .collect()
}

fn limits() -> impl Strategy<Value = RingLimits> {
    (1..5usize, 1..12usize).prop_map(|(batches, changes)| RingLimits {
        batches,
        changes,
        ..RingLimits::default()
    })
}

/// A queue that is too small for what comes, between what is said and the store.
struct Queued {
    fifo: DeltaFifo,
    batch: usize,
}

impl Queued {
    fn new(policy: FifoPolicy, batch: usize) -> Self {
        let fifo = DeltaFifo::new(policy, 5);
        Self { fifo, batch }
    }

    fn say(&mut self, delta: Delta, writer: &mut Writer) {
        let mut delta = delta;
        while let Err(full) = self.fifo.push(delta) {
            self.pop(writer);
            delta = full.0;
        }
    }

    fn pop(&mut self, writer: &mut Writer) {
        writer.apply_batch(self.fifo.pop_batch(self.batch));
    }
}

fn policy() -> impl Strategy<Value = FifoPolicy> {
    prop_oneof![Just(FifoPolicy::InOrder), Just(FifoPolicy::Coalescing)]
}

pub(crate) fn writer(limits: RingLimits) -> Writer {
    Writer::new([Index::label("app")], Seed(3), limits).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn every_listener_can_believe_what_it_hears(
        limits in limits(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut writer = writer(limits);
        let reader = writer.reader();
        let mut naive = NaiveStore::default();
        let mut listeners = vec![Listener::new(&reader)];
        for op in ops {
            match op {
                Op::Apply(batch) => {
                    let batch: Vec<Delta> = batch.into_iter().map(delta).collect();
                    batch.iter().for_each(|delta| naive.apply(delta));
                    writer.apply(batch);
                    prop_assert_eq!(stored(&reader), naive.stored.clone());
                    prop_assert_eq!(reader.root().has_synced(), naive.synced);
                    let version = match naive.version { 0 => String::new(), v => v.to_string() };
                    prop_assert_eq!(reader.root().version().to_string(), version);
                    prop_assert!(reader.ring().kept_changes() <= limits.changes as u64);
                }
                Op::Listen if listeners.len() < 4 => listeners.push(Listener::new(&reader)),
                Op::Listen => {}
                Op::Hear(who, times) => {
                    if let Some(listener) = listeners.get_mut(who) {
                        (0..times).all(|_| listener.hear(&reader));
                    }
                }
                Op::Leave(who) if who < listeners.len() => drop(listeners.remove(who)),
                Op::Leave(_) => {}
                Op::Resync(who) => {
                    let due = who.iter().filter_map(|w| Some(listeners.get(*w)?.delivery.id()));
                    writer.apply([Delta::Sync { due: due.collect() }]);
                }
            }
        }
        for listener in &mut listeners {
            while listener.hear(&reader) {}
            prop_assert_eq!(listener.is_synced, naive.synced);
            if naive.synced {
                prop_assert_eq!(&listener.heard, &naive.stored);
                // A resync when all is quiet: every object, once, to this listener alone.
                listener.syncs = 0;
                writer.apply([Delta::Sync { due: [listener.delivery.id()].into() }]);
                while listener.hear(&reader) {}
                prop_assert_eq!(listener.syncs, naive.stored.len());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn every_listener_can_believe_what_comes_through_a_queue_of_either_policy(
        policy in policy(),
        batch in 1..5usize,
        limits in limits(),
        ops in prop::collection::vec((op(), 0..3usize), 1..60),
    ) {
        let (mut writer, mut queued) = (writer(limits), Queued::new(policy, batch));
        let reader = writer.reader();
        let mut naive = NaiveStore::default();
        let mut listeners = vec![Listener::new(&reader)];
        for (op, pops) in ops {
            match op {
                Op::Apply(batch) => {
                    for delta in batch.into_iter().map(delta) {
                        naive.apply(&delta);
                        queued.say(delta, &mut writer);
                    }
                }
                Op::Listen if listeners.len() < 4 => listeners.push(Listener::new(&reader)),
                Op::Listen => {}
                Op::Hear(who, times) => {
                    if let Some(listener) = listeners.get_mut(who) {
                        (0..times).all(|_| listener.hear(&reader));
                    }
                }
                Op::Leave(who) if who < listeners.len() => drop(listeners.remove(who)),
                Op::Leave(_) => {}
                Op::Resync(who) => {
                    let due = who.iter().filter_map(|w| Some(listeners.get(*w)?.delivery.id()));
                    queued.say(Delta::Sync { due: due.collect() }, &mut writer);
                }
            }
            (0..pops).for_each(|_| queued.pop(&mut writer));
        }
        while !queued.fifo.is_empty() {
            queued.pop(&mut writer);
        }
        prop_assert_eq!(stored(&reader), naive.stored.clone());
        prop_assert_eq!(reader.root().has_synced(), naive.synced);
        for listener in &mut listeners {
            while listener.hear(&reader) {}
            prop_assert_eq!(listener.is_synced, naive.synced);
            if naive.synced {
                prop_assert_eq!(&listener.heard, &naive.stored);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_ring_keeps_what_a_listener_has_not_heard_and_its_newest_batch(
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let mut writer = writer(RingLimits::default());
        let reader = writer.reader();
        writer.apply([Delta::ListBegin, Delta::ListEnd { version: "1".into() }]);
        // Each listener, and whether it was called yet: before that it needs no batch.
        let mut listeners = vec![(Listener::new(&reader), false)];
        for op in ops {
            match op {
                Op::Apply(batch) => {
                    let needed = listeners.iter().filter(|(_, is_called)| *is_called);
                    let needed = needed.map(|(listener, _)| listener.delivery.position()).min();
                    let before = reader.ring().end();
                    let is_change = |said: &Said| matches!(said, Said::Put(_) | Said::Delete(_));
                    writer.apply(batch.into_iter().filter(is_change).map(delta));
                    let end = reader.ring().end();
                    let is_kept = |at| matches!(reader.ring().at(at), Found::Batch(_));
                    let kept: Vec<u64> = (0..end).filter(|at| is_kept(*at)).collect();
                    let expected: Vec<u64> = (needed.unwrap_or(before)..end).collect();
                    prop_assert_eq!(kept, expected);
                }
                Op::Listen if listeners.len() < 4 => {
                    listeners.push((Listener::new(&reader), false));
                }
                Op::Hear(who, times) => {
                    if let Some((listener, is_called)) = listeners.get_mut(who) {
                        *is_called = true;
                        (0..times).all(|_| listener.hear(&reader));
                    }
                }
                Op::Leave(who) if who < listeners.len() => drop(listeners.remove(who)),
                Op::Listen | Op::Leave(_) | Op::Resync(_) => {}
            }
        }
        for (listener, _) in &mut listeners {
            while listener.hear(&reader) {}
            prop_assert_eq!(&listener.heard, &stored(&reader));
            prop_assert_eq!(listener.delivery.times_behind(), 0);
        }
    }
}
