//! The inner loops, one at a time: `cargo bench -p kinform-core [NAME]`.
//!
//! ```text
//! recorded list, generated objects ──▶ scan │ messages │ strip │ project │ typed │ typed-messages │ known │ apply │ relist │ fan-out │ read │ changed │ queue
//!                                        └──▶ nanoseconds and instructions an element
//! ```
//!
//! Instructions are counted by valgrind, where it is installed: two runs of the same preparations and more
//! rounds, the difference by element. They are the same on a busy machine, so they show what a change costs.
//! Time is that of the fastest round, by the wall clock. Under `cargo test` each loop runs once on little
//! input, and what it did is checked, so that none rots.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that measures, or breaks"
)]

mod support;

use std::cell::Cell;
use std::hint::black_box;
use std::process::exit;
use std::time::{Duration, Instant as Wall};

use k8s_openapi::api::core::v1::Pod;
use kinform_api::TypeMeta;
use kinform_core::causes::{Cause, Event};
use kinform_core::delta::Delta;
use kinform_core::informer::delivery::{Delivery, Next};
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::Writer;
use kinform_core::object::changed::Changed;
use kinform_core::queue::{Fairness, Limiter, Priority, Queue, Verdict};
use kinform_core::store::baseline::RootBaseline;
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::Edit;
use kinform_core::store::index::Index;
use kinform_core::store::root::Root;
use kinform_core::time::Instant;
use kinform_core::{Encoding, Item, ListPart, ListReader, Object, Projection, TypedCache};
use serde_json::Value;

use self::support::{counted, recorded};

const CHUNK: usize = 64 << 10;
const BATCH: usize = 256;

/// One round of a loop; says how many elements it worked on.
type Round = Box<dyn FnMut(usize) -> usize>;

/// A loop: prepared once for a size and some rounds, then run.
struct Loop {
    name: &'static str,
    prepare: fn(Load) -> Round,
}

/// The load that a loop is prepared for.
#[derive(Clone, Copy)]
struct Load {
    size: usize,
    rounds: usize,
}

/// As a test: little work, all of it checked.
const SMALL: Load = Load {
    size: 2 * BATCH,
    rounds: 1,
};
/// Counted under valgrind, which is fifty times slower.
const COUNTED: Load = Load {
    size: 10_000,
    rounds: 6,
};
const TIMED: Load = Load {
    size: 100_000,
    rounds: 12,
};

const LOOPS: [Loop; 19] = [
    Loop {
        name: "scan",
        prepare: |_| scan(|item| assert!(!black_box(item.bytes()).is_empty())),
    },
    Loop {
        name: "messages",
        prepare: |_| messages(),
    },
    Loop {
        name: "strip",
        prepare: |_| scan(kept(Projection::new())),
    },
    Loop {
        name: "project",
        prepare: |_| {
            let path = "spec.nodeName".parse().unwrap();
            scan(kept(Projection::new().keep_only([path])))
        },
    },
    Loop {
        name: "typed",
        prepare: |_| typed(listed(Encoding::Json, &recorded("list/pods.json"))),
    },
    Loop {
        name: "typed-messages",
        prepare: |_| typed(listed(Encoding::Protobuf, &recorded("list/pods.pb"))),
    },
    Loop {
        name: "known",
        prepare: |_| known(),
    },
    Loop {
        name: "apply",
        prepare: |load| apply(load, 0),
    },
    Loop {
        name: "fan-out-10",
        prepare: |load| apply(load, 10),
    },
    Loop {
        name: "hear-10",
        prepare: hear_applied,
    },
    Loop {
        name: "relist",
        prepare: relist,
    },
    Loop {
        name: "get",
        prepare: get,
    },
    Loop {
        name: "list-index",
        prepare: list_index,
    },
    Loop {
        name: "queue-cycle",
        prepare: |_| queue_cycle(),
    },
    Loop {
        name: "queue-causes",
        prepare: |_| queue_causes(),
    },
    Loop {
        name: "changed",
        prepare: |_| changed(),
    },
    Loop {
        name: "queue-delay",
        prepare: |_| queue_delay(Fairness::none()),
    },
    Loop {
        name: "queue-turns-1",
        prepare: |_| queue_delay(Fairness::by(|key: &String| key.starts_with('t'))),
    },
    Loop {
        name: "queue-turns-40",
        prepare: |_| queue_delay(Fairness::by(|key: &String| tenant(key))),
    },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    if let Some(at) = words.iter().position(|word| word == "--rounds") {
        let rounds = words[at + 1].parse().unwrap();
        let this = LOOPS.iter().find(|this| has(this.name)).unwrap();
        run_some(this, rounds);
    }
    let names: Vec<_> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let is_asked =
        |this: &&Loop| names.is_empty() || names.iter().any(|name| this.name.contains(&**name));
    for this in LOOPS.iter().filter(is_asked) {
        match (has("--list"), has("--bench")) {
            (true, _) => println!("{}: test", this.name),
            (false, false) => {
                assert!((this.prepare)(SMALL)(0) > 0);
                println!("test {} ... ok", this.name);
            }
            (false, true) => measure(this),
        }
    }
}

/// The rounds that a counted run is asked for, and no more: what is left is not even dropped.
fn run_some(this: &Loop, rounds: usize) -> ! {
    let mut round = (this.prepare)(COUNTED);
    let elements: usize = (0..rounds).map(&mut round).sum();
    println!("{elements}");
    exit(0)
}

fn measure(this: &Loop) {
    let mut round = (this.prepare)(TIMED);
    let nanos = (0..TIMED.rounds).map(|at| {
        let began = Wall::now();
        let elements = round(at);
        began.elapsed().as_nanos() as f64 / elements as f64
    });
    let nanos = nanos.fold(f64::INFINITY, f64::min);
    let (few, many) = (counted(this.name, 2), counted(this.name, COUNTED.rounds));
    let instructions = few.zip(many).map(|(few, many)| {
        let instructions = many.0.saturating_sub(few.0);
        instructions / (many.1 - few.1).max(1)
    });
    let instructions = instructions.map_or("no valgrind".to_owned(), |n| n.to_string());
    println!(
        "{:<12} {nanos:>9.1} ns {instructions:>9} instructions an element",
        this.name
    );
}

/// A recorded list, item by item.
fn scan(mut each: impl FnMut(&Item<'_>) + 'static) -> Round {
    let body = recorded("list/pods.json");
    let list: Value = serde_json::from_slice(&body).unwrap();
    let pods = list["items"].as_array().unwrap().len();
    Box::new(move |_| {
        let mut found = 0;
        let mut reader = ListReader::new(Encoding::Json);
        for chunk in body.chunks(CHUNK) {
            let fed = reader.feed(chunk, &mut |part| match part {
                ListPart::Item(item) => {
                    found += 1;
                    each(&item);
                }
                ListPart::Unreadable(why) => panic!("{why}"),
            });
            fed.unwrap();
        }
        reader.finish().unwrap();
        assert_eq!(found, pods);
        found
    })
}

/// A recorded list of messages, each checked.
fn messages() -> Round {
    let body = recorded("list/pods.pb");
    Box::new(move |_| {
        let mut found = 0;
        let mut reader = ListReader::new(Encoding::Protobuf);
        for chunk in body.chunks(CHUNK) {
            let fed = reader.feed(chunk, &mut |part| match part {
                ListPart::Item(item) => {
                    found += 1;
                    let item = black_box(item.checked().unwrap());
                    assert!(item.managed_fields_bytes() > 0);
                }
                ListPart::Unreadable(why) => panic!("{why}"),
            });
            fed.unwrap();
        }
        reader.finish().unwrap();
        found
    })
}

/// A recorded list beside a store that has all of it already.
fn known() -> Round {
    let (body, projection) = (recorded("list/pods.json"), Projection::new());
    let read = move |root: &Root| {
        let mut objects = Vec::new();
        let mut reader = ListReader::new(Encoding::Json);
        let hint = Cell::default();
        let stored = RootBaseline::new(root, &hint);
        for chunk in body.chunks(CHUNK) {
            let fed = reader.feed_compared(chunk, &stored, &mut |part| match part {
                ListPart::Item(item) => {
                    objects.push(Object::from_item(&item, &projection).unwrap());
                }
                ListPart::Unreadable(why) => panic!("{why}"),
            });
            fed.unwrap();
        }
        reader.finish().unwrap();
        objects
    };
    let empty = Root::empty(Seed(1));
    let mut edit = Edit::new(&empty);
    for object in read(&empty) {
        edit.insert(object);
    }
    let root = edit.commit(1);
    Box::new(move |_| {
        let again = read(&root);
        let stored = |object: &Object| root.get(object.key_ref()).cloned();
        let is_stored = |object: &&Object| stored(object).unwrap().ptr_eq(object);
        assert_eq!(again.iter().filter(is_stored).count(), root.len());
        again.len()
    })
}

fn kept(projection: Projection) -> impl FnMut(&Item<'_>) {
    move |item| drop(black_box(Object::from_item(item, &projection).unwrap()))
}

/// The objects of a recorded list.
fn listed(encoding: Encoding, body: &[u8]) -> Vec<Object> {
    let mut objects = Vec::new();
    let mut reader = ListReader::new(encoding);
    let fed = reader.feed(body, &mut |part| match part {
        ListPart::Item(item) => {
            let item = item.checked().unwrap();
            objects.push(Object::from_item(&item, &Projection::new()).unwrap());
        }
        ListPart::Unreadable(why) => panic!("{why}"),
    });
    fed.unwrap();
    reader.finish().unwrap();
    objects
}

/// Pods as their type, each time anew.
fn typed(objects: Vec<Object>) -> Round {
    let meta = TypeMeta {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
    };
    Box::new(move |_| {
        for object in &objects {
            let pod = object.typed::<Pod>(&meta, TypedCache::Never).unwrap();
            assert!(black_box(pod).spec.is_some());
        }
        objects.len()
    })
}

fn pod(name: usize, version: usize) -> Object {
    let json = format!(
        r#"{{"metadata":{{"namespace":"team-{:02}","name":"web-7d4b9c6f5d-{name:08}","uid":"0a1b2c3d-0000-4000-8000-{name:012}","resourceVersion":"{version}","labels":{{"app":"web"}}}},"spec":{{"nodeName":"node-{:05}"}},"status":{{"phase":"Running"}}}}"#,
        name % 40,
        name % 5_000
    );
    Object::from_json(json.as_bytes(), &Projection::new()).unwrap()
}

fn filled(size: usize, handlers: usize) -> (Writer, Vec<Delivery>) {
    let index = Index::path("spec.nodeName".parse().unwrap());
    let mut writer = Writer::new([index], Seed(5), RingLimits::default()).unwrap();
    list(
        &mut writer,
        (0..size).map(|name| Delta::Replaced(pod(name, 1))),
    );
    let mut deliveries: Vec<_> = (0..handlers).map(|_| writer.reader().deliver()).collect();
    for delivery in &mut deliveries {
        assert_eq!(hear(delivery), size);
    }
    (writer, deliveries)
}

fn list(writer: &mut Writer, items: impl IntoIterator<Item = Delta>) {
    writer.apply([Delta::ListBegin]);
    writer.apply(items);
    let version = "9".to_owned();
    writer.apply([Delta::ListEnd { version }]);
}

fn hear(delivery: &mut Delivery) -> usize {
    let mut heard = 0;
    loop {
        match delivery.next() {
            Next::Idle => return heard,
            Next::Synced => {}
            Next::Changes(changes) => heard += black_box(&changes).len(),
        }
    }
}

/// Updates of different objects out of `size`, scattered.
fn updates(round: usize, size: usize) -> Vec<Delta> {
    let name = |at| (round * BATCH + at) * 7919 % size;
    let update = |at| Delta::Updated(pod(name(at), 2 + round));
    (0..BATCH).map(update).collect()
}

/// Batches of a watch into store and an index, each heard at once by some handlers.
fn apply(load: Load, handlers: usize) -> Round {
    let (mut writer, mut deliveries) = filled(load.size, handlers);
    let mut batches: Vec<_> = (0..load.rounds)
        .map(|round| updates(round, load.size))
        .collect();
    Box::new(move |round| {
        writer.apply(std::mem::take(&mut batches[round]));
        for delivery in &mut deliveries {
            assert_eq!(hear(delivery), BATCH);
        }
        BATCH
    })
}

/// Ten handlers hear the changes of ring and store, batch by batch. Applying comes first and is not
/// counted in time.
fn hear_applied(load: Load) -> Round {
    let mut informers: Vec<_> = (0..load.rounds)
        .map(|round| {
            let (mut writer, deliveries) = filled(2 * BATCH, 10);
            writer.apply(updates(round, 2 * BATCH));
            (writer, deliveries)
        })
        .collect();
    Box::new(move |round| {
        let heard = informers[round].1.iter_mut().map(hear).sum();
        assert_eq!(heard, 10 * BATCH);
        heard
    })
}

/// Lists of what is stored already, one in a hundred changed.
fn relist(load: Load) -> Round {
    let (mut writer, mut deliveries) = filled(load.size, 1);
    let size = load.size;
    let items = |round| {
        let version = move |name: usize| 1 + usize::from(name.is_multiple_of(100)) * round;
        let items = (0..size).map(move |name| Delta::Replaced(pod(name, version(name))));
        items.collect::<Vec<_>>()
    };
    let mut lists: Vec<_> = (1..=load.rounds).map(items).collect();
    Box::new(move |round| {
        list(&mut writer, std::mem::take(&mut lists[round]));
        assert_eq!(hear(&mut deliveries[0]), size.div_ceil(100));
        size
    })
}

/// Objects looked up by key in the newest root.
fn get(load: Load) -> Round {
    let reader = filled(load.size, 0).0.reader();
    let name = |at| at * 7919 % load.size;
    let keys: Vec<_> = (0..BATCH).map(|at| pod(name(at), 1).key()).collect();
    Box::new(move |_| {
        for key in &keys {
            let found = black_box(reader.get(key.key_ref()));
            assert!(found.unwrap().has_key(key.key_ref()));
        }
        keys.len()
    })
}

/// A handle of each object under one value of an index, in a store that was written to.
fn list_index(load: Load) -> Round {
    let (mut writer, _) = filled(load.size, 0);
    (0..load.rounds).for_each(|round| drop(writer.apply(updates(round, load.size))));
    let reader = writer.reader();
    Box::new(move |_| {
        let listed = reader.root().in_namespace("team-07");
        let handles = listed.iter().map(|object| drop(black_box(object.clone())));
        let handles = handles.count();
        assert_eq!(handles, (load.size - 7).div_ceil(40));
        handles
    })
}

fn keys() -> Vec<String> {
    let key = |at| format!("team-{}/web-{at:08}", at % 40);
    (0..1_000).map(key).collect()
}

fn limiter() -> Limiter {
    Limiter::exponential(Duration::from_millis(5), Duration::from_secs(1_000))
}

/// A key through the queue: added, handed out, given back.
fn queue_cycle() -> Round {
    let (keys, now, mut queue) = (keys(), Instant::from_millis(5), Queue::new(limiter()));
    Box::new(move |_| {
        for key in &keys {
            queue.add(key.clone(), Priority::Normal, now);
            let taken = queue.take(now).unwrap();
            queue.settle(taken.ticket, Verdict::Forget, now);
        }
        assert!(queue.is_empty());
        keys.len()
    })
}

/// The same, with the cause of each add.
fn queue_causes() -> Round {
    let (keys, now, mut queue) = (keys(), Instant::from_millis(5), Queue::new(limiter()));
    let object = pod(1, 7);
    Box::new(move |_| {
        for key in &keys {
            let cause = Cause::of_object(0, Event::Updated, &object);
            queue.add_caused(key.clone(), Priority::Normal, cause, now);
            let taken = queue.take(now).unwrap();
            assert!(taken.causes.is_some());
            queue.settle(taken.ticket, Verdict::Forget, now);
        }
        keys.len()
    })
}

/// Two states of a pod of 1 KiB, whose status differs.
fn changed() -> Round {
    let state = |version: usize| {
        let lines: Vec<_> = (0..14)
            .map(|line| format!(r#""line {line}: [of] a {{spec}}""#))
            .collect();
        let json = format!(
            r#"{{"metadata":{{"annotations":{{"a/b":"{{\"kind\":\"Pod\"}}"}},"generation":3,"labels":{{"app":"web"}},"name":"x","namespace":"a","ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d4b9c6f5d","uid":"0a1b2c3d-0000-4000-8000-1"}}],"resourceVersion":"{version}","uid":"u"}},"spec":{{"nodeName":"node-1","args":[{0}]}},"status":{{"conditions":[{0}],"phase":"Running","n":{version}}}}}"#,
            lines.join(",")
        );
        assert!((1_000..1_200).contains(&json.len()), "{}", json.len());
        Object::from_json(json.as_bytes(), &Projection::new()).unwrap()
    };
    let (old, new) = (state(10), state(11));
    Box::new(move |_| {
        for _ in 0..1_000 {
            assert_eq!(
                black_box(&new).changed_since(black_box(&old)),
                Changed::STATUS
            );
        }
        1_000
    })
}

/// The number before the slash.
fn tenant(key: &str) -> u32 {
    let number = &key["team-".len()..];
    number.split_once('/').unwrap().0.parse().unwrap()
}

/// Keys that wait until they are due, and then all for their turn.
fn queue_delay(fairness: Fairness<String>) -> Round {
    let (keys, mut queue) = (keys(), Queue::new(limiter()).with_fairness(fairness));
    Box::new(move |round| {
        let now = Instant::from_millis(10_000 * round as u64);
        for key in &keys {
            queue.add_after(key.clone(), Duration::from_millis(9), now);
        }
        let later = now + Duration::from_secs(5);
        queue.advance(later);
        let mut taken = 0;
        while let Some(next) = queue.take(later) {
            queue.settle(next.ticket, Verdict::Forget, later);
            taken += 1;
        }
        assert_eq!(taken, keys.len());
        taken
    })
}
