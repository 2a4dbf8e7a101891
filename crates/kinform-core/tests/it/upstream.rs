//! Ports of client-go's tests of its queues, controller and stores, from a delta to a handler's
//! line.
//!
//! ```text
//! "[ =a@1 ]1 | ~a@2" (words) → fifo (both policies, batches of 1, 3, 100) → writer → one handler's lines
//! ```
//!
//! `+` added, `~` updated, `-` deleted, `=` an item of a list, `?` one that cannot be read, as
//! `name/uid@version#content`; `[` and `]9` and `!` begin, end and abort a list; `.9` is a bookmark,
//! `*` a resync; at `|` the handler hears what there is.

use kinform_api::ObjectKey;
use kinform_core::delta::{Delta, HandlerId, Quarantine, QuarantineOrigin};
use kinform_core::fifo::{DeltaFifo, FifoPolicy};
use kinform_core::informer::delivery::Delivery;
use kinform_core::informer::report::ApplyEvent;
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::Writer;
use kinform_core::{Object, Projection};

use crate::informer::lines;
use crate::listeners::writer;

/// `name/uid@version#content`; uid `u`, no version and no content if they are left out.
fn object(text: &str) -> Object {
    let (text, content) = text.split_once('#').unwrap_or((text, ""));
    let (name, version) = text.split_once('@').unwrap_or((text, ""));
    let (name, uid) = name.split_once('/').unwrap_or((name, "u"));
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}","labels":{{"app":"{content}"}}}}}}"#
    );
    Object::from_json(json.as_bytes(), &Projection::default()).unwrap()
}

fn delta(word: &str, due: HandlerId) -> Delta {
    let rest = &word[1..];
    match &word[..1] {
        "+" => Delta::Added(object(rest)),
        "~" => Delta::Updated(object(rest)),
        "-" => Delta::Deleted(object(rest)),
        "=" => Delta::Replaced(object(rest)),
        "[" => Delta::ListBegin,
        "]" => Delta::ListEnd {
            version: rest.to_owned(),
        },
        "!" => Delta::ListAbort,
        "." => Delta::Bookmark {
            version: rest.to_owned(),
        },
        "*" => Delta::Sync { due: [due].into() },
        "?" => Delta::Quarantined(Quarantine {
            key: Some(object(rest).key()),
            version: Some(object(rest).resource_version().to_owned()),
            path: String::new(),
            reason: "cut".to_owned(),
            origin: QuarantineOrigin::Watch,
        }),
        _ => panic!("no such word: {word}"),
    }
}

/// A queue, a store and one handler.
struct Rooms {
    fifo: DeltaFifo,
    batch: usize,
    writer: Writer,
    delivery: Delivery,
    heard: Vec<String>,
    events: Vec<ApplyEvent>,
}

impl Rooms {
    fn new(policy: FifoPolicy, batch: usize) -> Self {
        let writer = writer(RingLimits::default());
        Self {
            fifo: DeltaFifo::new(policy, 100),
            batch,
            delivery: writer.reader().deliver(),
            writer,
            heard: Vec::new(),
            events: Vec::new(),
        }
    }

    fn run(mut self, script: &str) -> Self {
        for word in script.split_whitespace() {
            match word {
                "|" => self.hear(),
                word => self.fifo.push(delta(word, self.delivery.id())).unwrap(),
            }
        }
        self.hear();
        self
    }

    fn hear(&mut self) {
        while !self.fifo.is_empty() {
            let published = self.writer.apply_batch(self.fifo.pop_batch(self.batch));
            self.events.extend(published.events);
        }
        self.heard.extend(lines(&mut self.delivery));
    }

    fn version(&self) -> String {
        self.writer.reader().root().version().to_string()
    }

    fn keys(&self) -> Vec<String> {
        let root = self.writer.reader().root();
        let mut keys: Vec<_> = root.list().iter().map(|o| o.key().to_string()).collect();
        keys.sort_unstable();
        keys
    }
}

const POLICIES: [FifoPolicy; 2] = [FifoPolicy::InOrder, FifoPolicy::Coalescing];

/// The handler hears these lines under both policies, however the deltas are cut into batches. The
/// coalescing queue keeps the order of each object only: `name` is the second word of a line.
#[track_caller]
fn check(script: &str, expected: &[&str]) {
    for (policy, batch) in POLICIES
        .into_iter()
        .flat_map(|p| [1, 3, 100].map(|n| (p, n)))
    {
        let mut heard = Rooms::new(policy, batch).run(script).heard;
        let mut expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        if policy == FifoPolicy::Coalescing {
            let name = |line: &String| line.split(' ').nth(1).map(str::to_owned);
            heard.sort_by_key(name);
            expected.sort_by_key(name);
        }
        assert_eq!(heard, expected, "{policy:?}, batches of {batch}: {script}");
    }
}

#[test]
fn a_delete_of_what_was_never_stored_is_not_heard() {
    // client-go: TestRealFIFO_enqueueingNoLister, TestDeltaFIFO_enqueueingNoLister; there, the
    // in-order queue lets handlers hear of it.
    check("[ ]1 | -x@2 +a@3", &["synced", "add a u@3"]);
    let rooms = Rooms::new(FifoPolicy::InOrder, 100).run("[ ]1 | -x@2");
    assert_eq!(rooms.writer.counts().unknown_deletes, 1);
    assert_eq!(rooms.version(), "2", "it counts as applied");
}

#[test]
fn a_delete_is_heard_whether_its_object_is_stored_or_still_waits() {
    // client-go: TestRealFIFO_enqueueingWithLister, TestDeltaFIFO_enqueueingWithLister,
    // TestRealFIFO_DeleteExistingNonPropagated, TestDeltaFIFO_DeleteExistingNonPropagated
    check(
        "[ =a@1 ]1 | -a@2",
        &["initial a u@1", "synced", "delete a u@2"],
    );
    check("[ ]1 | +a@2 -a@3", &["synced", "add a u@2", "delete a u@3"]);
}

#[test]
fn an_object_recreated_behind_a_waiting_delete_is_a_delete_and_an_add() {
    // client-go: TestRealFIFO_replaceWithDeleteDeltaIn, TestDeltaFIFO_replaceWithDeleteDeltaIn
    check(
        "[ =a@1 ]1 | -a@2 [ =a/v@3 ]4",
        &["initial a u@1", "synced", "delete a u@2", "add a v@3"],
    );
    check(
        "[ =a@1 ]1 | -a@2 +a/v@3 ~a/v@4",
        &[
            "initial a u@1",
            "synced",
            "delete a u@2",
            "add a v@3",
            "update a v@4 from 3",
        ],
    );
    // Also if the delete itself is never heard.
    check(
        "[ =a@1 ]1 | +a/v@3",
        &["initial a u@1", "synced", "gone a u@1", "add a v@3"],
    );
}

#[test]
fn what_is_said_late_of_an_object_that_was_recreated_since_leaves_the_new_one() {
    let stored = ["initial a v@8", "synced"];
    check("[ =a/v@8 ]8 | -a/u@4", &stored);
    check("[ =a/v@8 ]8 | ~a/u@3 -a/u@4", &stored);
    check(
        "[ =a/v@8 ]8 | -a/u@4 -a/u@9",
        &["initial a v@8", "synced", "gone a v@8"],
    );
    // A delete that cannot be told to be older is believed, and so is what a list says.
    check(
        "[ =a/v@8 ]8 | -a/u@9",
        &["initial a v@8", "synced", "gone a v@8"],
    );
    check(
        "[ =a/v@8 ]8 | [ =a/u@4 ]9",
        &["initial a v@8", "synced", "gone a v@8", "add a u@4"],
    );
}

#[test]
fn what_a_list_does_not_name_is_deleted_once_in_its_newest_state() {
    // client-go: TestRealFIFOW_ReplaceMakesDeletionsForObjectsOnlyInQueue,
    // TestDeltaFIFOW_ReplaceMakesDeletionsForObjectsOnlyInQueue
    check("[ ]1 | +a@2 [ ]3", &["synced", "add a u@2", "gone a u@2"]);
    check(
        "[ ]1 | +a@2 ~a@3 [ ]4",
        &["synced", "add a u@2", "update a u@3 from 2", "gone a u@3"],
    );
    check(
        "[ ]1 | +a@2 -a@3 [ ]4",
        &["synced", "add a u@2", "delete a u@3"],
    );
    check(
        "[ =a@1 ]1 | ~a@2 [ ]3",
        &[
            "initial a u@1",
            "synced",
            "update a u@2 from 1",
            "gone a u@2",
        ],
    );
    check(
        "[ =a@1 ]1 | -a@2 .3 [ ]4 -a@2",
        &["initial a u@1", "synced", "delete a u@2"],
    );
}

#[test]
fn a_list_tells_its_deletes_before_its_adds() {
    // client-go: TestRealFIFO_ReplaceMakesDeletions, TestDeltaFIFO_ReplaceMakesDeletions (adds first),
    // TestRealFIFO_ReplaceMakesDeletionsReplaced, TestDeltaFIFO_ReplaceMakesDeletionsReplaced,
    // TestRealFIFO_ReplaceAtomic, TestRealFIFO_ReplaceAtomicPop, TestReplaceEvents
    check(
        "[ =a@1 ]2 | +b@3 [ =b@3 =c@5 =d@6 ]6 ~d@7",
        &[
            "initial a u@1",
            "synced",
            "add b u@3",
            "gone a u@1",
            "add c u@5",
            "add d u@6",
            "update d u@7 from 6",
        ],
    );
    // What a handler hears of a list, it finds in the store together with all the rest of it.
    let rooms = Rooms::new(FifoPolicy::InOrder, 1).run("[ =a@1 =b@1 ]2 | [ =b@3 =c@4");
    assert_eq!(rooms.keys(), ["a", "b"], "not before its end");
    let rooms = rooms.run("]4");
    assert_eq!(rooms.keys(), ["b", "c"]);
}

#[test]
fn a_relist_after_a_lost_watch_is_updates_and_adds_that_are_not_initial() {
    // client-go: TestResetWatch, TestRealFIFO_addReplace, TestDeltaFIFO_addReplace
    check(
        "[ =a@1 ]1 | [ =a@3 =b@4 ]4",
        &[
            "initial a u@1",
            "synced",
            "update a u@3 from 1",
            "add b u@4",
        ],
    );
}

#[test]
fn a_resync_tells_each_stored_object_once_and_nothing_that_is_gone() {
    // client-go: TestRealFIFO_Resync, TestDeltaFIFO_Resync, TestRealFIFO_ResyncNonExisting,
    // TestDeltaFIFO_ResyncNonExisting, TestRealFIFO_ResyncAtomic
    check("[ =a@1 ]1 | *", &["initial a u@1", "synced", "sync a u@1"]);
    check(
        "[ =a@1 =b@1 ]1 | -a@2 *",
        &[
            "initial a u@1",
            "initial b u@1",
            "synced",
            "delete a u@2",
            "sync b u@1",
        ],
    );
}

#[test]
fn an_update_that_waits_comes_before_the_resync_that_repeats_it() {
    // client-go: TestRealFIFO_UpdateResyncRace, TestDeltaFIFO_UpdateResyncRace
    check(
        "[ =a@1 ]1 | ~a@2 *",
        &[
            "initial a u@1",
            "synced",
            "update a u@2 from 1",
            "sync a u@2",
        ],
    );
}

#[test]
fn one_batch_may_change_one_object_many_times() {
    // client-go: TestRealFIFO_PopMultipleDeltaInBatch, where a repeated key ends the batch.
    check(
        "[ ]1 | +a@2 ~a@3 -a@4 +a/v@5 ~a/v@6 -a/v@7 +a/w@8",
        &[
            "synced",
            "add a u@2",
            "update a u@3 from 2",
            "delete a u@4",
            "add a v@5",
            "update a v@6 from 5",
            "delete a v@7",
            "add a w@8",
        ],
    );
    // A first list and what follows it in one batch: initial is what was stored when it was heard.
    check(
        "[ =a@1 ]1 +b@2 | +c@3",
        &["initial a u@1", "initial b u@2", "synced", "add c u@3"],
    );
}

#[test]
fn an_unreadable_object_in_a_batch_costs_only_itself() {
    // client-go: TestRealFIFO_PopBrokenItemsInBatch, TestProcessDeltasInBatch,
    // TestCacheTransactionShouldIndexErrors
    check(
        "[ ]1 | +a@2 ?b@3 +c@4",
        &["synced", "add a u@2", "add c u@4"],
    );
    for policy in POLICIES {
        let rooms = Rooms::new(policy, 100).run("[ ]1 | +a@2 ?b@3 +c@4");
        let root = rooms.writer.reader().root();
        let apart: Vec<&str> = root.quarantined().keys().map(ObjectKey::as_str).collect();
        assert_eq!((apart, rooms.version()), (vec!["b"], "4".to_owned()));
        assert_eq!(rooms.writer.counts().quarantined, 1);
    }
}

#[test]
fn what_cannot_be_read_during_a_relist_keeps_its_place_until_it_heals_or_goes() {
    let kept = "[ =a@1 =b@1 ]1 | [ =a@1 ?b@3 ]4";
    check(kept, &["initial a u@1", "initial b u@1", "synced"]);
    check(
        &format!("{kept} ~b@5"),
        &[
            "initial a u@1",
            "initial b u@1",
            "synced",
            "update b u@5 from 1",
        ],
    );
    check(
        &format!("{kept} | [ =a@1 ]6"),
        &["initial a u@1", "initial b u@1", "synced", "gone b u@1"],
    );
}

#[test]
fn the_version_of_a_store_follows_what_was_applied() {
    // client-go: TestStoreResourceVersion, TestThreadSafeStoreRV,
    // TestStoreResourceVersionWithNonMetaTransform, TestReflectorResourceVersionUpdate
    let table = [
        ("+a@7", "7"),
        ("[ =a@7 ]9", "9"),
        ("[ ]9 +a@10 ~a@12", "12"),
        ("[ ]9 +a@10 -a@11", "11"),
        ("[ ]9 .20", "20"),
        // What has no version leaves it, and so does an older one.
        ("[ ]9 +a", "9"),
        ("[ ]9 -a", "9"),
        ("[ ]9 +a@8", "9"),
        ("[ ]9 .8", "9"),
        // A list that runs, or breaks off, says nothing of the store.
        ("[ ]9 [ =a@30", "9"),
        ("[ ]9 [ =a@30 !", "9"),
        ("[ ]9 [ =a@30 ]31", "31"),
        // Versions need not be numbers, or may not fit one.
        ("[ ]x ~a@y", "y"),
        (
            "[ ]18446744073709551616 .18446744073709551617",
            "18446744073709551617",
        ),
    ];
    for (policy, batch) in POLICIES.into_iter().flat_map(|p| [1, 100].map(|n| (p, n))) {
        for (script, expected) in table {
            let version = Rooms::new(policy, batch).run(script).version();
            assert_eq!(
                version, expected,
                "{policy:?}, batches of {batch}: {script}"
            );
        }
    }
}

#[test]
fn each_batch_that_changes_something_is_published_once_and_whole() {
    // client-go: TestUpdateCallsPush, TestDeleteCallsPush, TestReplaceCallsPush, TestReadsDoNotCallPush,
    // TestUndeltaStore
    let mut writer = writer(RingLimits::default());
    let reader = writer.reader();
    let due = reader.deliver().id();
    let mut seen = Vec::new();
    for batch in ["[ =a@1 =b@1 ]1", "~a@2", "-b@3 +c@4", "[ =c@4 ]5"] {
        let before = reader.root();
        let published = writer.apply(batch.split(' ').map(|word| delta(word, due)));
        let after = reader.root();
        assert!(published.is_news && !after.ptr_eq(&before), "{batch}");
        let read = (after.len(), after.list().iter().count());
        assert_eq!(read.0, read.1);
        assert!(reader.root().ptr_eq(&after), "reading publishes nothing");
        seen.push((before.len(), after.len()));
    }
    assert_eq!(seen, [(0, 2), (2, 2), (2, 2), (2, 1)]);
    assert!(
        !writer.apply([delta("~c@4", due)]).is_news,
        "the same again is nothing"
    );
}

#[test]
fn a_value_of_an_index_is_there_as_long_as_an_object_has_it() {
    // client-go: TestThreadSafeStoreDeleteRemovesEmptySetsFromIndex, TestIndex, TestGetIndexFuncValues,
    // TestThreadSafeStoreAddKeepsNonEmptySetPostDeleteFromIndex
    let table = [
        ("[ =a@1#x =b@2#x ]2", "x:2"),
        ("[ =a@1#x =b@2#x ]2 -a@3", "x:1"),
        ("[ =a@1#x =b@2#x ]2 -a@3 +c@4#x", "x:2"),
        ("[ =a@1#x =b@2#x ]2 ~b@3#y", "x:1 y:1"),
        ("[ =a@1#x ]2 -a@3 +a/v@4#y", "y:1"),
        ("[ =a@1#x =b@2#x ]2 [ =b@2#x =c@3#z ]3", "x:1 z:1"),
        ("[ =a@1#x ]2 -a@3", ""),
        ("[ =a@1#x ]2 [ ]3", ""),
    ];
    for policy in POLICIES {
        for (script, expected) in table {
            let root = Rooms::new(policy, 100).run(script).writer.reader().root();
            let index = root.index("label:app").unwrap();
            let values = root
                .index_values(index)
                .map(|(value, n)| format!("{}:{n}", String::from_utf8_lossy(value)));
            let mut values: Vec<_> = values.collect();
            values.sort_unstable();
            assert_eq!(values.join(" "), expected, "{script}");
            for value in root.index_values(index).map(|(value, _)| value) {
                let found = root.by(index, value);
                assert!(found.iter().all(|o| {
                    o.label("app")
                        .map(|app| app.into_owned().into_bytes())
                        .as_deref()
                        == Some(&**value)
                }));
            }
        }
    }
}

#[test]
fn a_version_that_a_restored_server_uses_again_is_another_state_in_its_list() {
    let read = |rooms: &Rooms, name: &str| {
        let root = rooms.writer.reader().root();
        let key = ObjectKey::new(None, name);
        let label = root
            .get(key.key_ref())
            .unwrap()
            .label("app")
            .unwrap_or_default();
        label.into_owned()
    };
    for (policy, batch) in POLICIES.into_iter().flat_map(|p| [1, 100].map(|n| (p, n))) {
        // At 50 again, and what it wrote since is other than what it had written before.
        let rooms = Rooms::new(policy, batch);
        let rooms = rooms.run("[ =a@40#x =b@45#x ]60 | [ =a@40#x =b@45#y ]50");
        assert_eq!(read(&rooms, "b"), "y", "{policy:?}");
        assert_eq!(rooms.writer.reader().root().epoch(), 1);
        assert_eq!(
            rooms.heard[2..],
            ["synced", "update b u@45 from 45"],
            "what is the same byte by byte is not heard"
        );
        assert!(
            rooms
                .events
                .iter()
                .any(|e| matches!(e, ApplyEvent::WentBack { .. }))
        );
    }
    // A handler that is behind hears of it as a difference.
    let mut writer = writer(RingLimits {
        changes: 1,
        ..RingLimits::default()
    });
    let mut behind = writer.reader().deliver();
    for (list, expected) in [
        (
            "[ =a@40#x =b@45#x ]60",
            ["initial a u@40", "initial b u@45", "synced"].to_vec(),
        ),
        (
            "[ =a@40#y =b@45#y ]50",
            ["update a u@40 from 40", "update b u@45 from 45"].to_vec(),
        ),
    ] {
        writer.apply(list.split(' ').map(|word| delta(word, HandlerId(0))));
        assert_eq!(lines(&mut behind), expected);
    }
    // A server that stays in its time means the same state, however its bytes are written.
    let rooms = Rooms::new(FifoPolicy::InOrder, 1).run("[ =b@45#x ]60 | [ =b@45#y ]60 ~b@45#z");
    assert_eq!(read(&rooms, "b"), "x");
    assert_eq!(rooms.writer.reader().root().epoch(), 0);
    assert_eq!(rooms.heard, ["initial b u@45", "synced"]);
}

#[test]
fn a_server_known_to_have_gone_back_is_believed_although_its_version_is_ahead_again() {
    let mut rooms = Rooms::new(FifoPolicy::InOrder, 100).run("[ =a@40#x =b@45#x ]60");
    let list = ["[", "=b@45#y", "=b@44#z", "=a@40#x"].map(|word| delta(word, HandlerId(0)));
    let end = Delta::ListEnd {
        version: "70".to_owned(),
    };
    rooms
        .writer
        .apply(list.into_iter().chain([Delta::WentBack, end]));
    assert_eq!(lines(&mut rooms.delivery), ["update b u@45 from 45"]);
    assert_eq!(rooms.version(), "70");
}

#[test]
fn a_key_is_that_of_the_object_and_of_its_tombstone() {
    // client-go: TestRealFIFO_KeyOf, TestDeltaFIFO_KeyOf, TestDeletionHandlingObjectToName,
    // TestDeletedObjectGetObjectName, TestDeletedObjectGetKey
    let mut rooms = Rooms::new(FifoPolicy::InOrder, 100).run("[ =a@1 =b@2 ]2 | -b@3");
    rooms
        .writer
        .apply(["[", "]4"].map(|word| delta(word, HandlerId(0))));
    let kinform_core::informer::delivery::Next::Changes(changes) = rooms.delivery.next() else {
        panic!("the list deleted something");
    };
    assert_eq!(changes[0].key().to_string(), "a");
    assert_eq!(changes[0].key(), changes[0].object().key_ref());
    assert_eq!(
        changes[0].object().uid(),
        "u",
        "the last state comes with it"
    );
}
