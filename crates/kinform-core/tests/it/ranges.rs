//! Ranges of hashes that come and go: what leaves is heard by nobody.
//!
//! ```text
//! Delta::Scope → Writer → roots and batches → listeners: slow, late, behind, due for a resync
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use kinform_api::{KeyRef, ObjectKey, WatchEventKind};
use kinform_core::delta::{Change, Delta, HandlerId, Quarantine, QuarantineOrigin};
use kinform_core::informer::delivery::{Delivery, Next};
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::Writer;
use kinform_core::reflector::input::{Event, Input, Outside};
use kinform_core::scope::{Scope, ScopeField};
use kinform_core::shards::{Ranges, ShardId, Shards, key_hash};

use crate::cluster::{Chance, object};
use crate::listeners::writer;

const SHARDS: u32 = 8;

fn scope(shards: impl IntoIterator<Item = u32>) -> Arc<Scope> {
    let all = Shards::by_uid(SHARDS).unwrap();
    let ranges = shards.into_iter().map(|id| all.range(ShardId(id)).unwrap());
    Arc::new(Scope::new(ScopeField::Uid, ranges.collect()))
}

/// The ranges that a world wants now.
pub(crate) struct Wanted {
    scope: Arc<Scope>,
    pub(crate) changes: u32,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            scope: scope([]),
            changes: 0,
        }
    }
}

impl Wanted {
    /// Draws other ranges. Returns what is said to the reflector, if anything, and then to the store.
    pub(crate) fn change(&mut self, chance: &mut Chance) -> (Option<Input>, Vec<Delta>) {
        let before = self.scope.ranges().clone();
        let bits = match chance.below(8) {
            0 => 0,
            _ => chance.below(1 << SHARDS),
        };
        self.scope = scope((0..SHARDS).filter(|id| bits >> id & 1 == 1));
        self.changes += 1;
        let after = self.scope.ranges();
        let selector = self.scope.selector();
        let input = if after.is_empty() {
            Some(Input::Rest)
        } else if !after.difference(&before).is_empty() {
            Some(Input::Extend { selector })
        } else {
            (*after != before).then_some(Input::Narrow { selector })
        };
        let mut deltas = vec![Delta::Scope(Arc::clone(&self.scope))];
        if after.is_empty() {
            deltas.push(Delta::CaughtUp);
        }
        (input, deltas)
    }

    pub(crate) fn has_uid(&self, uid: &str) -> bool {
        self.scope.ranges().contains(key_hash(uid))
    }

    /// The input without an object that is not wanted.
    pub(crate) fn seen(&self, input: Input) -> Input {
        let outside = |kind, object: &kinform_core::Object| {
            Input::Event(Event::Outside(Outside {
                kind,
                version: object.resource_version().into(),
                object: None,
            }))
        };
        match &input {
            Input::Item(Ok(object)) if !self.scope.has(object) => Input::ItemOutside,
            Input::Event(Event::Added(object)) if !self.scope.has(object) => {
                outside(WatchEventKind::Added, object)
            }
            Input::Event(Event::Modified(object)) if !self.scope.has(object) => {
                outside(WatchEventKind::Modified, object)
            }
            Input::Event(Event::Deleted(object)) if !self.scope.has(object) => {
                outside(WatchEventKind::Deleted, object)
            }
            _ => input,
        }
    }
}

fn list(writer: &mut Writer, version: u64, uids: &[u64]) {
    let items = uids.iter().map(|uid| item(*uid, version));
    let end = Delta::ListEnd {
        version: version.to_string(),
    };
    let all = std::iter::once(Delta::ListBegin).chain(items).chain([end]);
    writer.apply(all.collect::<Vec<_>>());
}

fn item(uid: u64, version: u64) -> Delta {
    Delta::Replaced(object(&format!("o{uid}"), uid, version))
}

/// The words of a delivery until it is idle: `+o1@5 ~o1@6 -o1@6 *o1@6 synced`.
fn heard(delivery: &mut Delivery) -> String {
    let mut words = Vec::new();
    loop {
        match delivery.next() {
            Next::Idle => return words.join(" "),
            Next::Synced => words.push("synced".to_owned()),
            Next::Changes(changes) => {
                assert!(!changes.is_empty(), "nobody is called for nothing");
                for change in &*changes {
                    let sign = match change {
                        Change::Added { .. } => '+',
                        Change::Updated { .. } => '~',
                        Change::Deleted { .. } => '-',
                        Change::Sync(_) => '*',
                    };
                    let object = change.object();
                    words.push(format!(
                        "{sign}{}@{}",
                        object.name(),
                        object.resource_version()
                    ));
                }
            }
        }
    }
}

fn limits(batches: usize) -> RingLimits {
    RingLimits {
        batches,
        ..RingLimits::default()
    }
}

/// The shard of an object of this world.
fn shard(uid: u64) -> u32 {
    let shards = Shards::by_uid(SHARDS).unwrap();
    shards.shard_of(&format!("u{uid}")).0
}

/// Two objects of different shards.
fn pair() -> (u64, u64) {
    let other = (2..).find(|uid| shard(*uid) != shard(1)).unwrap();
    (1, other)
}

/// A store that has both objects of `pair`, and has told them.
fn world(batches: usize) -> (Writer, Delivery) {
    let (a, b) = pair();
    let mut writer = writer(limits(batches));
    let mut delivery = writer.reader().deliver();
    assert_eq!(heard(&mut delivery), "");
    writer.apply([Delta::Scope(scope([shard(a), shard(b)]))]);
    list(&mut writer, 10, &[a, b]);
    assert_eq!(heard(&mut delivery), format!("+o{a}@10 +o{b}@10 synced"));
    (writer, delivery)
}

#[test]
fn what_leaves_is_heard_by_nobody() {
    let (a, b) = pair();
    let put = |uid, version| Delta::Updated(object(&format!("o{uid}"), uid, version));
    let (mut writer, mut live) = world(4);
    let (_, slow_of_another) = world(4);
    drop(slow_of_another);
    let mut slow = writer.reader().deliver();
    assert_eq!(heard(&mut slow), format!("+o{a}@10 +o{b}@10 synced"));
    writer.apply([Delta::Scope(scope([shard(a)]))]);
    let root = writer.reader().root();
    assert_eq!((root.len(), heard(&mut live)), (1, String::new()));
    // An event that was read before is not: the shell drops it. What stays goes on.
    writer.apply([put(a, 11)]);
    assert_eq!(heard(&mut live), format!("~o{a}@11"));
    // One that comes now, and one that falls behind.
    let mut late = writer.reader().deliver();
    assert_eq!(heard(&mut late), format!("+o{a}@11 synced"));
    for version in 12..30 {
        writer.apply([put(a, version)]);
    }
    assert_eq!(heard(&mut slow), format!("~o{a}@29"));
    assert!(slow.times_behind() > 0);
    // What was deleted in the meantime is not heard either, and what comes back is new.
    list(&mut writer, 40, &[a]);
    assert_eq!(
        heard(&mut live).rsplit(' ').next(),
        Some(&*format!("~o{a}@40"))
    );
    writer.apply([Delta::Scope(scope([shard(a), shard(b)]))]);
    assert_eq!(heard(&mut live), "");
    list(&mut writer, 41, &[a, b]);
    assert_eq!(heard(&mut live), format!("~o{a}@41 +o{b}@41"));
    // While it is here, its deletion is one.
    list(&mut writer, 42, &[a]);
    assert_eq!(heard(&mut live), format!("-o{b}@41 ~o{a}@42"));
}

#[test]
fn a_range_that_was_given_up_and_is_wanted_again_is_not_claimed_before_its_list() {
    let (a, b) = pair();
    let (mut writer, mut slow) = world(1);
    writer.apply([Delta::Scope(scope([shard(a)]))]);
    writer.apply([Delta::Scope(scope([shard(a), shard(b)]))]);
    for version in 11..20 {
        writer.apply([Delta::Updated(object(&format!("o{a}"), a, version))]);
    }
    // It fell behind, and knows both; the store has one, and wants both.
    assert_eq!(heard(&mut slow), format!("~o{a}@19"));
    let root = writer.reader().root();
    let ranges = root.scope().unwrap().ranges().clone();
    assert_eq!(ranges, *scope([shard(a)]).ranges());
    list(&mut writer, 20, &[a, b]);
    let ranges = writer.reader().root().scope().unwrap().ranges().clone();
    assert_eq!(ranges, *scope([shard(a), shard(b)]).ranges());
    assert_eq!(heard(&mut slow), format!("~o{a}@20 +o{b}@20"));
}

#[test]
fn a_list_that_runs_loses_what_leaves() {
    let (a, b) = pair();
    let (mut writer, mut live) = world(8);
    writer.apply([Delta::ListBegin, item(a, 11), item(b, 11)]);
    writer.apply([Delta::Scope(scope([shard(a)]))]);
    writer.apply([Delta::ListEnd {
        version: "12".into(),
    }]);
    assert_eq!(heard(&mut live), format!("~o{a}@11"));
    assert_eq!(writer.reader().root().len(), 1);
}

#[test]
fn a_resync_never_tells_what_left() {
    let (a, b) = pair();
    let (mut writer, mut live) = world(8);
    let due: Arc<[HandlerId]> = [live.id()].into();
    writer.apply([Delta::Sync { due: due.clone() }]);
    writer.apply([Delta::Scope(scope([shard(a)]))]);
    assert_eq!(heard(&mut live), format!("*o{a}@10"));
    writer.apply([Delta::Sync { due }]);
    assert_eq!(heard(&mut live), format!("*o{a}@10"));
    // A handler of a namespace that is given up.
    writer.apply([Delta::Scope(scope([]))]);
    let mut late = writer.reader().deliver();
    assert_eq!(heard(&mut late), "synced");
    live.leave();
    assert_eq!(heard(&mut live), "", "{b} left before");
}

#[test]
fn nothing_wanted_is_synced_and_empty() {
    let (a, _) = pair();
    let mut writer = writer(limits(8));
    let mut live = writer.reader().deliver();
    let published = writer.apply([Delta::Scope(scope([])), Delta::CaughtUp]);
    assert!(published.is_news);
    assert_eq!(heard(&mut live), "synced");
    writer.apply([Delta::Scope(scope([shard(a)]))]);
    list(&mut writer, 10, &[a]);
    assert_eq!(heard(&mut live), format!("+o{a}@10"));
}

#[test]
fn nothing_is_left_of_what_left() {
    let (a, b) = pair();
    let (mut writer, _) = world(8);
    let of = |uid: u64| Some(ObjectKey::new(Some("n"), &format!("o{uid}")));
    let quarantine = |key| {
        Delta::Quarantined(Quarantine {
            key,
            version: Some("11".into()),
            path: String::new(),
            reason: "not an object".into(),
            origin: QuarantineOrigin::Watch,
        })
    };
    writer.apply([quarantine(of(a)), quarantine(of(b))]);
    writer.apply([Delta::Scope(scope([shard(a)]))]);
    let root = writer.reader().root();
    let keys: BTreeSet<_> = root.quarantined().keys().cloned().collect();
    assert_eq!(keys, of(a).into_iter().collect());
    let name = format!("o{a}");
    let key = KeyRef {
        namespace: "n",
        name: &name,
    };
    assert_eq!(root.heap_size(), root.get(key).unwrap().heap_size());
    let index = root.index("namespace").unwrap();
    let counts: Vec<usize> = root.index_values(index).map(|(_, count)| count).collect();
    assert_eq!(counts, [1]);
    writer.apply([Delta::Scope(scope([]))]);
    let root = writer.reader().root();
    assert_eq!(
        (root.len(), root.heap_size(), root.quarantined().len()),
        (0, 0, 0)
    );
    assert_eq!(root.index_len(index), 0);
    assert_eq!(*root.scope().unwrap().ranges(), Ranges::none());
}

#[test]
fn h13_what_left_is_no_deletion_for_a_handler_that_is_behind() {
    let (a, b) = pair();
    let (mut writer, mut slow) = world(1);
    writer.apply([Delta::Scope(scope([shard(a)]))]);
    for version in 11..20 {
        writer.apply([Delta::Updated(object(&format!("o{a}"), a, version))]);
    }
    assert_eq!(heard(&mut slow), format!("~o{a}@19"), "{b} lives elsewhere");
}

#[test]
fn h14_what_is_not_listed_yet_is_no_deletion_for_a_handler_that_is_behind() {
    let (a, b) = pair();
    let (mut writer, mut slow) = world(1);
    writer.apply([Delta::Scope(scope([shard(a)]))]);
    writer.apply([Delta::Scope(scope([shard(a), shard(b)]))]);
    for version in 11..20 {
        writer.apply([Delta::Updated(object(&format!("o{a}"), a, version))]);
    }
    assert_eq!(heard(&mut slow), format!("~o{a}@19"), "{b} is to come");
}
