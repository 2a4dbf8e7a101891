//! Memory kept alive, measured at the allocator: in a binary of its own, one test at a time.
//!
//! ```text
//! deltas → fifo → writer → handlers that hear, stall or leave → bytes allocated
//! ```
//!
//! An allocator that counts is the judge: what is not freed is alive, whoever holds it.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

#[path = "it/messages.rs"]
mod messages;

use std::alloc::System;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cap::Cap;
use k8s_openapi::api::core::v1::Pod;
use kinform_api::TypeMeta;
use kinform_core::delta::{Change, Delta};
use kinform_core::fifo::{DeltaFifo, FifoPolicy};
use kinform_core::informer::delivery::{Delivery, Next, Origin};
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::Writer;
use kinform_core::queue::{Limiter, Priority, Queue, Verdict};
use kinform_core::store::directory::Seed;
use kinform_core::store::index::Index;
use kinform_core::time::Instant;
use kinform_core::wire::DEFAULT_MAX_ITEM_BYTES;
use kinform_core::{Encoding, ListPart, ListReader, Object, Projection, TypedBudget};
use serde_json::Value;

use self::messages::{envelope, field, list_message};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// One test at a time: the allocator counts for all.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn allocated() -> usize {
    ALLOCATOR.allocated()
}

fn object(name: u32, uid: u32, version: u64, payload: usize) -> Object {
    let json = format!(
        r#"{{"metadata":{{"namespace":"n{}","name":"o{name}","uid":"u{uid}","resourceVersion":"{version}","labels":{{"app":"a{}"}}}},"data":"{:payload$}"}}"#,
        name % 10,
        name % 100,
        "",
    );
    Object::from_json(json.as_bytes(), &Projection::default()).unwrap()
}

/// As little as there can be of an object: a million are read.
fn small(name: u32, version: u64) -> Object {
    let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
    Object::from_json(json.as_bytes(), &Projection::default()).unwrap()
}

fn writer(limits: RingLimits) -> Writer {
    Writer::new([Index::label("app")], Seed(3), limits).unwrap()
}

fn list(objects: impl IntoIterator<Item = Object>, version: u64) -> impl Iterator<Item = Delta> {
    let end = Delta::ListEnd {
        version: version.to_string(),
    };
    let items: Vec<_> = objects.into_iter().map(Delta::Replaced).collect();
    [Delta::ListBegin].into_iter().chain(items).chain([end])
}

/// Hears all that there is; how many changes, and whether all came as the server said them.
fn hear(delivery: &mut Delivery) -> (usize, bool) {
    let (mut count, mut is_live) = (0, true);
    loop {
        match delivery.next() {
            Next::Idle => return (count, is_live),
            Next::Synced => {}
            Next::Changes(changes) => {
                count += changes.len();
                is_live &= changes.origin() == Origin::Live;
            }
        }
    }
}

const KEYS: u32 = 1_000;

/// A million updates of a thousand objects, of which one handler hears nothing: it keeps the states
/// alive that it was told, the ring those of its newest changes, and no other handler notices.
#[test]
fn a_stalled_handler_keeps_no_more_than_two_states_an_object_alive() {
    let _alone = alone();
    const UPDATES: u64 = 1_000_000;
    const BATCH: u64 = 500;
    let limits = RingLimits {
        changes: KEYS as usize,
        ..RingLimits::default()
    };
    let mut writer = Writer::new([], Seed(3), limits).unwrap();
    writer.apply(list((0..KEYS).map(|name| small(name, 1)), 1));
    let (mut stalled, mut lively) = (writer.reader().deliver(), writer.reader().deliver());
    assert_eq!((hear(&mut stalled).0, hear(&mut lively).0), (1_000, 1_000));
    let before = allocated();
    let slot = small(0, UPDATES).heap_size();
    let (mut most, mut heard) = (0, 0);
    for batch in 0..UPDATES / BATCH {
        let updates = (batch * BATCH..(batch + 1) * BATCH).map(|n| {
            let name = (n % u64::from(KEYS)) as u32;
            Delta::Updated(small(name, n + 2))
        });
        writer.apply(updates);
        let (changes, is_live) = hear(&mut lively);
        assert!(is_live, "it never fell behind");
        heard += changes as u64;
        most = most.max(allocated() - before);
    }
    assert_eq!(
        (heard, lively.times_behind(), lively.waiting()),
        (UPDATES, 0, 0)
    );
    assert!(writer.reader().ring().kept_changes() <= u64::from(KEYS));
    // What the stalled one was told, and what the ring holds: two slots an object.
    let slots = most as f64 / slot as f64;
    let objects = stalled.pinned_bytes() / slot;
    assert!(
        objects <= KEYS as usize,
        "{objects} old states for one handler"
    );
    assert!(
        slots < f64::from(2 * KEYS) * 1.5,
        "{slots:.0} slots of {slot} bytes for {KEYS} objects, block copies included"
    );
    // When it goes on, it hears each object once, and lets go of everything.
    let Next::Changes(changes) = stalled.next() else {
        panic!("it has a million updates to hear of");
    };
    assert!(matches!(&changes[0], Change::Updated { old, .. } if old.revision() == Some(1)));
    let rest = hear(&mut stalled);
    assert_eq!((changes.len() + rest.0, stalled.times_behind()), (1_000, 1));
    drop(changes);
    assert_eq!(stalled.pinned_bytes(), 0);
}

/// A hundred thousand updates of ten objects, heard as they come: the ring keeps no history of them.
#[test]
fn a_ring_that_is_heard_at_once_costs_one_batch() {
    let _alone = alone();
    const BATCH: u64 = 100;
    let mut writer = Writer::new([], Seed(3), RingLimits::default()).unwrap();
    writer.apply(list((0..10).map(|name| object(name, 0, 1, 1_000)), 1));
    let mut lively = [writer.reader().deliver(), writer.reader().deliver()];
    assert_eq!(lively.each_mut().map(|delivery| hear(delivery).0), [10, 10]);
    let (before, mut most) = (allocated(), 0);
    for batch in 0..1_000 {
        let versions = batch * BATCH + 2..(batch + 1) * BATCH + 2;
        writer.apply(versions.map(|n| Delta::Updated(object((n % 10) as u32, 0, n, 1_000))));
        for delivery in &mut lively {
            assert_eq!(hear(delivery), (BATCH as usize, true));
        }
        assert_eq!(writer.reader().ring().kept_changes(), BATCH);
        most = most.max(allocated().saturating_sub(before));
    }
    let batch = BATCH as usize * object(0, 0, 1, 1_000).heap_size();
    assert!(most < 3 * batch, "{most} bytes, {batch} a batch");
    // A bookmark a minute drops that, too.
    let version = (1_000 * BATCH + 3).to_string();
    writer.apply([Delta::Bookmark { version }]);
    let ring = writer.reader();
    assert_eq!(
        (ring.ring().kept_changes(), ring.ring().kept_bytes()),
        (0, 0)
    );
}

/// Every object deleted and made anew ten times over, by events and by relists.
#[test]
fn ten_turnovers_of_all_objects_leave_the_memory_of_the_first() {
    let _alone = alone();
    const OBJECTS: u32 = 2_000;
    for policy in [FifoPolicy::InOrder, FifoPolicy::Coalescing] {
        let before = allocated();
        let mut writer = writer(RingLimits {
            changes: 500,
            ..RingLimits::default()
        });
        let mut fifo = DeltaFifo::new(policy, 1_000);
        let mut delivery = writer.reader().deliver();
        writer.apply(list((0..OBJECTS).map(|name| object(name, 0, 1, 500)), 1));
        hear(&mut delivery);
        let mut version = 1;
        let mut sizes = Vec::new();
        for turnover in 1..=10 {
            for name in 0..OBJECTS {
                let mut push = |delta| {
                    if let Err(full) = fifo.push(delta) {
                        writer.apply_batch(fifo.pop_batch(256));
                        fifo.push(full.0).unwrap();
                    }
                };
                push(Delta::Deleted(object(name, turnover - 1, version + 1, 500)));
                push(Delta::Added(object(name, turnover, version + 2, 500)));
                version += 2;
            }
            while !fifo.is_empty() {
                writer.apply_batch(fifo.pop_batch(256));
            }
            let all = writer.reader().root().list();
            let again: Vec<Object> = all.iter().cloned().collect();
            drop(all);
            writer.apply(list(again, version));
            hear(&mut delivery);
            assert_eq!(writer.reader().root().len(), OBJECTS as usize);
            sizes.push(allocated() - before);
        }
        let (first, last) = (sizes[0] as f64, sizes[9] as f64);
        assert!(last <= first * 1.1, "{policy:?}: {sizes:?}");
    }
}

/// A hundred thousand objects that come and go leave an empty store, and so do indexes and handlers.
#[test]
fn what_was_removed_leaves_nothing_behind() {
    let _alone = alone();
    const OBJECTS: u32 = 100_000;
    let before = allocated();
    let mut writer = writer(RingLimits {
        changes: 100,
        ..RingLimits::default()
    });
    writer.apply(list([], 1));
    let mut delivery = writer.reader().deliver();
    hear(&mut delivery);
    let empty = allocated() - before;
    let mut full = 0;
    for first in (0..OBJECTS).step_by(500) {
        let names = first..first + 500;
        writer.apply(names.map(|name| Delta::Added(object(name, name, u64::from(name) + 2, 0))));
        hear(&mut delivery);
        full = allocated() - before;
    }
    for first in (0..OBJECTS).step_by(500) {
        let names = first..first + 500;
        writer
            .apply(names.map(|name| Delta::Deleted(object(name, name, u64::from(OBJECTS) * 2, 0))));
        hear(&mut delivery);
    }
    let root = writer.reader().root();
    assert_eq!((root.len(), root.heap_size()), (0, 0));
    let index = root.index("label:app").unwrap();
    assert_eq!((root.index_len(index), root.quarantined().len()), (0, 0));
    drop(root);
    // The ring holds its newest hundred changes still: another batch takes their place.
    writer.apply((0..200).map(|n| Delta::Bookmark {
        version: (u64::from(OBJECTS) * 3 + n).to_string(),
    }));
    let left = allocated() - before;
    assert!(
        left < empty + full / 100,
        "{left} bytes, empty {empty}, full {full}"
    );
}

/// A hundred thousand keys through a work queue, with failures and delays.
#[test]
fn keys_that_were_worked_off_leave_nothing_behind() {
    let _alone = alone();
    let limiter = Limiter::exponential(Duration::from_millis(5), Duration::from_secs(1_000));
    let mut queue = Queue::new(limiter);
    let before = allocated();
    let mut now = Instant::from_millis(1);
    for round in 0..100u32 {
        for key in 0..1_000u32 {
            queue.add(
                format!("key-{}", round * 1_000 + key),
                Priority::Normal,
                now,
            );
            queue.add_after(format!("late-{key}"), Duration::from_secs(3), now);
        }
        let verdicts = [
            Verdict::Retry,
            Verdict::Done,
            Verdict::Again(Duration::from_secs(9)),
        ];
        for turn in 0.. {
            let Some(taken) = queue.take(now) else { break };
            queue.settle(taken.ticket, verdicts[turn % 3], now);
        }
        now += Duration::from_secs(10);
        while let Some(taken) = queue.take(now) {
            queue.settle(taken.ticket, Verdict::Forget, now);
        }
    }
    // Memory follows what was needed since the queue was empty last.
    queue.add("last".to_owned(), Priority::Normal, now);
    let last = queue.take(now).expect("it was added");
    queue.settle(last.ticket, Verdict::Forget, now);
    let stats = queue.stats(now);
    assert_eq!((stats.depth, stats.delayed, stats.processing), (0, 0, 0));
    // Keys that ended with failures are remembered until they are forgotten: upstream's rule.
    assert_eq!(stats.known, 0, "{stats:?}");
    // The threads of tests that ended free what they had.
    let left = allocated().saturating_sub(before);
    assert!(left < 64 << 10, "{left} bytes");
}

/// The recorded pods, as they came in this encoding.
fn recorded(encoding: Encoding) -> Vec<Object> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden/list.jsonl.gz");
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    let mut unpacked = flate2::read::GzDecoder::new(file);
    unpacked.read_to_string(&mut text).unwrap();
    let name = match encoding {
        Encoding::Json => "\"list/pods.json\"",
        _ => "\"list/pods.pb\"",
    };
    let line = text.lines().find(|line| line.contains(name)).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    let body = match line["bodyBase64"].as_str() {
        Some(base64) => STANDARD.decode(base64).unwrap(),
        None => line["body"].as_str().unwrap().as_bytes().to_vec(),
    };
    let mut objects = Vec::new();
    let mut reader = ListReader::new(encoding);
    let fed = reader.feed(&body, &mut |part| {
        if let ListPart::Item(item) = part {
            objects.push(Object::from_item(&item, &Projection::new()).unwrap());
        }
    });
    fed.unwrap();
    objects
}

/// The estimated size of a decoded value is never too small, and not many times too large.
#[test]
fn typed_values_take_no_more_than_their_budget() {
    let _alone = alone();
    let meta = TypeMeta {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
    };
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let objects = recorded(encoding);
        for bytes in [256 << 10, 1 << 20] {
            let before = allocated();
            let budget = TypedBudget::new(bytes);
            for _ in 0..2 {
                for object in &objects {
                    budget.typed::<Pod>(object, &meta).unwrap();
                }
            }
            let grown = allocated() - before;
            let kept = objects.iter().filter(|object| object.has_typed()).count();
            assert!(kept > 5 && kept < objects.len(), "{kept}");
            assert!(
                grown <= bytes && grown * 4 > bytes,
                "{encoding:?}: {grown} of {bytes}"
            );
            drop(budget);
            for object in &objects {
                object.forget_typed();
            }
        }
    }
}

const CHUNK: usize = 64 << 10;

/// Reads `before`, a number of `chunks` of the same text, and `after`. Returns the keys of the
/// items or their errors, the error that ends the list, and the most memory kept after a chunk.
fn fed(
    encoding: Encoding,
    [before, after]: [&[u8]; 2],
    chunks: usize,
) -> (Vec<String>, Option<String>, usize) {
    let text = vec![b'x'; CHUNK];
    let mut keys = Vec::new();
    let (at_first, mut most) = (allocated(), 0);
    let mut reader = ListReader::new(encoding);
    let pieces = std::iter::repeat_n(&text[..], chunks);
    for piece in [before].into_iter().chain(pieces).chain([after]) {
        let fed = reader.feed(piece, &mut |part| {
            let found = match part {
                ListPart::Item(item) => Object::from_item(&item, &Projection::new()),
                ListPart::Unreadable(why) => Err(why),
            };
            keys.push(match found {
                Ok(object) => object.key().to_string(),
                Err(why) => why.to_string(),
            });
        });
        fed.unwrap();
        most = most.max(allocated().saturating_sub(at_first));
    }
    let end = reader.finish().err().map(|error| error.to_string());
    (keys, end, most)
}

/// The allowance for a reader's own memory, without an item.
const BESIDE: usize = 1 << 20;

#[test]
fn an_item_beyond_the_limit_costs_itself_only_and_no_more_memory_than_the_limit() {
    let _alone = alone();
    let within = DEFAULT_MAX_ITEM_BYTES / CHUNK - 1;
    let beyond = within + 100;
    let large = "large cannot be read: is too large";
    let named = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}"#);
    let before = format!(r#"{{"items":[{}}},{},"data":""#, named("a"), named("large"));
    let after = format!("\"}},{}}}]}}", named("b"));
    let json = [before.as_bytes(), after.as_bytes()];
    let message = |name: &[u8]| field(1, &field(1, name));
    // Lengths stand before what they count: the body of a list without the chunks, and what is added to each of them.
    let protobuf = |chunks: usize| {
        let text = vec![b'x'; chunks * CHUNK];
        let data = field(2, &[field(1, b"k"), field(2, &text)].concat());
        let large = [message(b"large"), data].concat();
        let body = envelope(
            "ConfigMapList",
            &list_message(&[message(b"a"), large, message(b"b")]),
        );
        let start = body
            .windows(8)
            .position(|window| window == b"xxxxxxxx")
            .unwrap();
        [body[..start].to_vec(), body[start + text.len()..].to_vec()]
    };
    for (chunks, second) in [(within, "large"), (beyond, large)] {
        let message = protobuf(chunks);
        let message = [&message[0][..], &message[1]];
        for (encoding, around) in [(Encoding::Json, json), (Encoding::Protobuf, message)] {
            let (keys, end, most) = fed(encoding, around, chunks);
            assert_eq!(keys, ["a", second, "b"], "{encoding:?}");
            assert_eq!(end, None, "{encoding:?}");
            assert!(
                most <= DEFAULT_MAX_ITEM_BYTES + BESIDE,
                "{encoding:?}: {most}"
            );
        }
    }
}

#[test]
fn a_string_without_an_end_is_held_once_at_most() {
    let _alone = alone();
    let chunks = (16 << 20) / CHUNK;
    let cut = Some("the reply ended in the middle".to_owned());
    // In an object it may still end; alone it can be none.
    let object = br#"{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":""#;
    let alone = br#"{"items":[{"metadata":{"name":"a"}},""#;
    for (before, held) in [(&object[..], 2 * chunks * CHUNK), (alone, 0)] {
        for after in [&b""[..], b"]}", b"\\\"]}", b"}]}"] {
            let (keys, end, most) = fed(Encoding::Json, [before, after], chunks);
            assert_eq!((&keys[..], &end), (&["a".to_owned()][..], &cut));
            assert!(most <= held + BESIDE, "{most}");
        }
    }
    // In the envelope it is no list.
    let (mut reader, mut part) = (ListReader::new(Encoding::Json), |_: ListPart<'_>| {});
    reader
        .feed(br#"{"metadata":{"continue":""#, &mut part)
        .unwrap();
    let text = vec![b'x'; CHUNK];
    let refused = (0..chunks).find_map(|_| reader.feed(&text, &mut part).err());
    let told = "the reply is too large outside its items";
    assert_eq!(refused.unwrap().to_string(), told);
}
