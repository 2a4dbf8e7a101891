//! Scripts and properties of the queue.
//!
//! ```text
//! "+a@1 ~a@2" (words) → deltas → queue → batches → words
//! ```
//!
//! `+` added, `~` updated, `-` deleted, `=` an item of a list; `[` and `]9` and `!` begin, end and
//! abort a list; `<` says that its server went back; `&` is another scope, `.9` is a bookmark, `?` an object that cannot be read, `*` a resync.

use proptest::prelude::*;

use super::*;
use crate::delta::Quarantine;
use crate::object::Object;
use crate::object::projection::Projection;
use crate::scope::{Scope, ScopeField};
use crate::shards::Ranges;

/// `name@version`, or `name/uid@version`.
fn object(text: &str) -> Object {
    let (name, version) = text.split_once('@').unwrap_or((text, "1"));
    let (name, uid) = name.split_once('/').unwrap_or((name, "u"));
    let body = format!(
        r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    );
    Object::from_json(body.as_bytes(), &Projection::default()).unwrap()
}

fn delta(word: &str) -> Delta {
    let rest = &word[1..];
    match &word[..1] {
        "+" => Delta::Added(object(rest)),
        "~" => Delta::Updated(object(rest)),
        "-" => Delta::Deleted(object(rest)),
        "=" => Delta::Replaced(object(rest)),
        "[" => Delta::ListBegin,
        "<" => Delta::WentBack,
        "(" => Delta::Doubted,
        "$" => Delta::CaughtUp,
        "%" => Delta::Forget,
        "&" => Delta::Scope(Arc::new(Scope::new(ScopeField::Uid, Ranges::none()))),
        "]" => Delta::ListEnd {
            version: rest.to_owned(),
        },
        "!" => Delta::ListAbort,
        "." => Delta::Bookmark {
            version: rest.to_owned(),
        },
        "*" => Delta::Sync { due: [].into() },
        "?" => Delta::Quarantined(Quarantine {
            key: None,
            version: Some(rest.to_owned()),
            path: String::new(),
            reason: String::new(),
            origin: QuarantineOrigin::Watch,
        }),
        _ => panic!("no such delta: {word}"),
    }
}

fn word(delta: &Delta) -> String {
    let (sign, rest) = match delta {
        Delta::Added(_) => ("+", ""),
        Delta::Updated(_) => ("~", ""),
        Delta::Deleted(_) => ("-", ""),
        Delta::Replaced(_) => ("=", ""),
        Delta::ListBegin => ("[", ""),
        Delta::WentBack => ("<", ""),
        Delta::Doubted => ("(", ""),
        Delta::CaughtUp => ("$", ""),
        Delta::Forget => ("%", ""),
        Delta::Scope(_) => ("&", ""),
        Delta::ListEnd { version } => ("]", &**version),
        Delta::ListAbort => ("!", ""),
        Delta::Bookmark { version } => (".", &**version),
        Delta::Sync { .. } => ("*", ""),
        Delta::Quarantined(quarantine) => ("?", quarantine.version.as_deref().unwrap_or_default()),
    };
    let object = delta.object().map(|o| {
        let uid = if o.uid() == "u" {
            String::new()
        } else {
            format!("/{}", o.uid())
        };
        format!("{}{uid}@{}", o.name(), o.resource_version())
    });
    format!("{sign}{}", object.as_deref().unwrap_or(rest))
}

fn batch_words(batch: &Batch) -> String {
    let words: Vec<String> = batch.deltas.iter().map(word).collect();
    format!("{} ^{}", words.join(" "), batch.version)
}

/// Pushes all words, pops by `max`; each batch is its words and `^version`.
#[track_caller]
fn check(policy: FifoPolicy, max: usize, pushed: &str, expected: &[&str]) {
    let mut fifo = DeltaFifo::new(policy, 100);
    pushed
        .split_whitespace()
        .for_each(|word| fifo.push(delta(word)).unwrap());
    let popped: Vec<String> = std::iter::from_fn(|| {
        let batch = fifo.pop_batch(max);
        (!batch.deltas.is_empty()).then(|| batch_words(&batch))
    })
    .collect();
    assert_eq!(popped, expected, "{pushed}");
    assert_eq!((fifo.len(), fifo.bytes(), fifo.is_empty()), (0, 0, true));
}

const IN_ORDER: FifoPolicy = FifoPolicy::InOrder;
const COALESCING: FifoPolicy = FifoPolicy::Coalescing;

#[test]
fn in_order_every_delta_comes_out_as_it_went_in() {
    // client-go: TestRealFIFO_basic, TestRealFIFO_addUpdate, TestRealFIFO_detectLineJumpers,
    // TestRealFIFO_enqueueingNoLister
    check(
        IN_ORDER,
        2,
        "+a@1 ~a@2 +b@3 -a@4 -x@5",
        &["+a@1 ~a@2 ^2", "+b@3 -a@4 ^4", "-x@5 ^5"],
    );
    check(IN_ORDER, 100, "-a@4 -a@4 +a@5", &["-a@4 -a@4 +a@5 ^5"]);
}

#[test]
fn a_list_moves_the_version_at_its_end_only() {
    // client-go: TestRealFIFO_ReplaceAtomic, TestRealFIFO_addReplace
    let all = "[ =a@8 =b@3 ]10 +c@11";
    check(IN_ORDER, 3, all, &["[ =a@8 =b@3 ^", "]10 +c@11 ^11"]);
    check(COALESCING, 3, all, &["[ =a@8 =b@3 ^", "]10 +c@11 ^11"]);
    check(
        IN_ORDER,
        9,
        "+a@5 [ =a@8 ! +b@6",
        &["+a@5 [ =a@8 ! +b@6 ^6"],
    );
    check(IN_ORDER, 1, "+a@9 [ ]3", &["+a@9 ^9", "[ ^9", "]3 ^3"]);
}

#[test]
fn a_version_does_not_go_back_with_an_old_deletion() {
    check(
        IN_ORDER,
        1,
        "+a@9 -b@4 ?12 .15",
        &["+a@9 ^9", "-b@4 ^9", "?12 ^12", ".15 ^15"],
    );
}

#[test]
fn a_queue_goes_on_from_a_snapshots_version_and_is_synced_when_it_caught_up() {
    let mut fifo = DeltaFifo::new(COALESCING, 100);
    fifo.begin_at("100");
    assert_eq!(fifo.pop_batch(1).version.as_str(), "100");
    for word in ["+a@110", "+b@111", "$", "~a@120"] {
        fifo.push(delta(word)).unwrap();
    }
    let mut popped = Vec::new();
    while !fifo.is_empty() {
        assert!(!fifo.has_synced());
        popped.push(batch_words(&fifo.pop_batch(1)));
    }
    assert_eq!(popped, ["+a@110 ~a@120 ^110", "+b@111 ^111", "$ ^120"]);
    assert!(fifo.has_synced());
    check(IN_ORDER, 9, "+a@1 % [ ]3", &["+a@1 % [ ]3 ^3"]);
}

#[test]
fn adjacent_bookmarks_are_one() {
    check(IN_ORDER, 9, "+a@1 .5 .7 +b@8 .9", &["+a@1 .7 +b@8 .9 ^9"]);
}

#[test]
fn coalescing_hands_out_the_deltas_of_one_object_together() {
    // client-go: TestDeltaFIFO_basic, TestDeltaFIFO_addUpdate, TestDeltaFIFO_detectLineJumpers
    check(
        COALESCING,
        1,
        "+a@1 +b@2 ~a@3 +c@4 -a@5",
        &["+a@1 ~a@3 -a@5 ^1", "+b@2 ^3", "+c@4 ^5"],
    );
    check(
        COALESCING,
        4,
        "+a@1 +b@2 ~a@3 +c@4",
        &["+a@1 ~a@3 +b@2 +c@4 ^4"],
    );
}

#[test]
fn the_version_is_that_below_which_nothing_waits() {
    let mut fifo = DeltaFifo::new(COALESCING, 100);
    for word in ["+a@1", "+b@2", "~a@9"] {
        fifo.push(delta(word)).unwrap();
    }
    assert_eq!(batch_words(&fifo.pop_batch(1)), "+a@1 ~a@9 ^1");
    fifo.push(delta("~b@10")).unwrap();
    assert_eq!(batch_words(&fifo.pop_batch(1)), "+b@2 ~b@10 ^10");
}

#[test]
fn adjacent_deletions_of_one_uid_are_one() {
    // client-go: TestDeltaFIFOW_ReplaceMakesDeletionsForObjectsOnlyInQueue (never two deletes in a row)
    check(COALESCING, 9, "-a@4 -a@5 +b@6", &["-a@5 +b@6 ^6"]);
    check(COALESCING, 9, "-a/1@4 -a/2@5", &["-a/1@4 -a/2@5 ^5"]);
    check(
        COALESCING,
        9,
        "-a/1@4 +a/2@5 -a/2@6",
        &["-a/1@4 +a/2@5 -a/2@6 ^6"],
    );
}

#[test]
fn another_scope_is_a_barrier() {
    check(
        COALESCING,
        1,
        "+a@1 & ~a@2 ~a@3",
        &["+a@1 ^1", "& ^1", "~a@2 ~a@3 ^3"],
    );
}

#[test]
fn the_tokens_of_a_list_are_barriers() {
    // client-go: TestDeltaFIFO_replaceWithDeleteDeltaIn, TestDeltaFIFO_addReplace
    check(
        COALESCING,
        1,
        "+a@1 [ =a@3 =a@4 -a@5 ]6 ~a@7 ~a@8",
        &[
            "+a@1 ^1",
            "[ ^1",
            "=a@3 ^1",
            "=a@4 ^1",
            "-a@5 ^1",
            "]6 ^6",
            "~a@7 ~a@8 ^8",
        ],
    );
}

#[test]
fn has_synced_after_the_first_list_was_handed_out() {
    // client-go: TestRealFIFO_HasSynced, TestDeltaFIFO_HasSynced
    let table = [
        ("", 0, false),
        ("+a@1", 0, true),
        ("[ ]1", 0, false),
        ("[ ]1", 1, false),
        ("[ ]1", 2, true),
        ("[ =a@1 =b@1 ]1", 2, false),
        ("[ =a@1 =b@1 ]1", 3, false),
        ("[ =a@1 =b@1 ]1 +c@2", 4, true),
        ("[ =a@1 !", 3, false),
        ("[ =a@1 ! [ =a@1 ]2", 5, false),
        ("[ =a@1 ! [ =a@1 ]2", 6, true),
        ("[ =a@1 ]1 [ =a@1", 3, true),
        (".5", 1, false),
    ];
    for policy in [IN_ORDER, COALESCING] {
        for (pushed, pops, expected) in table {
            let mut fifo = DeltaFifo::new(policy, 100);
            pushed
                .split_whitespace()
                .for_each(|word| fifo.push(delta(word)).unwrap());
            (0..pops).for_each(|_| _ = fifo.pop_batch(1));
            assert_eq!(
                fifo.has_synced(),
                expected,
                "{policy:?} {pushed:?} after {pops}"
            );
        }
    }
}

#[test]
fn a_full_queue_gives_the_delta_back() {
    let mut fifo = DeltaFifo::new(IN_ORDER, 2);
    fifo.push(delta("+a@1")).unwrap();
    assert!(fifo.has_room());
    fifo.push(delta("+b@2")).unwrap();
    assert!(!fifo.has_room());
    let Err(Full(back)) = fifo.push(delta("+c@3")) else {
        panic!("it was full")
    };
    assert_eq!(word(&back), "+c@3");
    assert_eq!(batch_words(&fifo.pop_batch(1)), "+a@1 ^1");
    fifo.push(back).unwrap();
    assert_eq!(batch_words(&fifo.pop_batch(9)), "+b@2 +c@3 ^3");
}

#[test]
fn bytes_are_bounded_but_one_object_always_passes() {
    let mut fifo = DeltaFifo::new(IN_ORDER, 100).with_max_bytes(1);
    fifo.push(delta("+a@1")).unwrap();
    assert!(matches!(fifo.push(delta("+b@2")), Err(Full(_))));
    assert!(!fifo.has_room());
    fifo.pop_batch(1);
    fifo.push(delta("+b@2")).unwrap();
}

#[test]
fn an_object_that_waits_with_too_many_deltas_keeps_its_newest_state() {
    let mut fifo = DeltaFifo::new(COALESCING, 1);
    fifo.push(delta("+a@1")).unwrap();
    for version in 2..1_000 {
        fifo.push(delta(&format!("~a@{version}"))).unwrap();
    }
    let batch = fifo.pop_batch(1);
    assert_eq!(batch.deltas.len(), MAX_DELTAS_A_KEY);
    assert_eq!(batch.deltas.last().map(word).as_deref(), Some("~a@999"));
    assert_eq!(batch.version, "999");

    let mut fifo = DeltaFifo::new(COALESCING, 1);
    let full = (0..1_000).find(|version| {
        let word = ["+a", "-a"][version % 2].to_owned() + &format!("/{}@{version}", version / 2);
        fifo.push(delta(&word)).is_err()
    });
    assert_eq!(full, Some(MAX_DELTAS_A_KEY), "a delete is never lost");
}

#[test]
fn a_closed_queue_lets_out_what_waits() {
    // client-go: TestRealFIFO_PopShouldUnblockWhenClosed
    let mut fifo = DeltaFifo::new(IN_ORDER, 9);
    fifo.push(delta("+a@1")).unwrap();
    fifo.close();
    fifo.push(delta("+b@2")).unwrap();
    assert_eq!(fifo.len(), 1, "nobody would read it");
    assert!(!fifo.is_finished());
    fifo.pop_batch(1);
    assert!(fifo.is_finished());
    assert!(fifo.pop_batch(1).deltas.is_empty());
}

/// A history as a server would tell it: versions grow, objects come and go.
fn history() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec((0u8..5, 0u8..8, 0u8..4), 0..80).prop_map(|steps| {
        let (mut version, mut alive, mut uid) = (0, [0u32; 5], 0);
        let mut words = Vec::new();
        for (key, what, _) in steps {
            version += 1;
            let name = char::from(b'a' + key);
            let known = &mut alive[key as usize];
            let last = match what {
                0 => format!(".{version}"),
                1 => {
                    words.push("[".to_owned());
                    let listed = alive.iter().enumerate().filter(|(_, uid)| **uid > 0);
                    words
                        .extend(listed.map(|(k, u)| {
                            format!("={}/{u}@{version}", char::from(b'a' + k as u8))
                        }));
                    format!("]{version}")
                }
                2 | 3 if *known > 0 => format!("-{name}/{}@{version}", std::mem::take(known)),
                _ if *known > 0 => format!("~{name}/{known}@{version}"),
                _ => {
                    uid += 1;
                    *known = uid;
                    format!("+{name}/{uid}@{version}")
                }
            };
            words.push(last);
        }
        words
    })
}

/// Returns the words of the deltas that wait for a key, in order.
fn of_key(words: &[String], key: char) -> Vec<&String> {
    words
        .iter()
        .filter(|w| w[1..].starts_with(key) || "[]!".contains(&w[..1]))
        .collect()
}

proptest! {
    #[test]
    fn each_object_hears_its_deltas_in_order_and_no_version_runs_ahead(
        history in history(),
        pops in prop::collection::vec((0usize..6, 1usize..5), 1..60),
    ) {
        for policy in [IN_ORDER, COALESCING] {
            let mut fifo = DeltaFifo::new(policy, 7);
            let (mut waiting, mut popped) = (history.iter().peekable(), Vec::new());
            let mut turns = pops.iter().cycle();
            while waiting.peek().is_some() || !fifo.is_empty() {
                let (pushes, max) = *turns.next().unwrap();
                for _ in 0..=pushes {
                    let Some(word) = waiting.peek() else { break };
                    if fifo.push(delta(word)).is_err() {
                        break;
                    }
                    waiting.next();
                }
                let batch = fifo.pop_batch(max);
                popped.extend(batch.deltas.iter().map(word));
                // Whatever is still to come lies above the version, but for a list's items.
                let reached = batch.version.parsed().unwrap_or(0);
                let pending: Vec<&Delta> =
                    fifo.entries.iter().flat_map(|entry| &entry.deltas).collect();
                for delta in pending {
                    if let Delta::Added(o) | Delta::Updated(o) | Delta::Deleted(o) = delta {
                        prop_assert!(o.revision().unwrap() > reached, "{policy:?} {history:?}");
                    }
                }
            }
            for key in 'a'..='e' {
                prop_assert_eq!(of_key(&history, key), of_key(&popped, key), "{:?}", policy);
            }
            prop_assert_eq!(fifo.bytes(), 0);
        }
    }
}
