//! Small programs on the store, in every order that the memory model allows.
//!
//! ```text
//! a writer and a reader, a few steps each ──loom──▶ every interleaving, every value of a load
//! ```

use std::time::Instant;

use kinform_core::Object;
use kinform_core::delta::{Change, Delta};
use kinform_core::informer::delivery::{Delivery, Next};
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::Writer;
use kinform_core::object::projection::Projection;
use kinform_core::store::directory::Seed;
use loom::thread;

/// BOUND: preemptions in one order, for programs with too many orders.
const PREEMPTIONS: usize = 2;

fn check(name: &str, preemptions: Option<usize>, program: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 100_000;
    let orders = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let start = Instant::now();
    let count = std::sync::Arc::clone(&orders);
    builder.check(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        program();
    });
    let seconds = start.elapsed().as_secs_f64();
    let bound = preemptions.map_or("all".to_owned(), |bound| format!("{bound} preemptions"));
    eprintln!("RESULT {name}: {orders:?} orders ({bound}), {seconds:.1} s");
}

fn a(version: u64) -> Object {
    let body = format!(
        r#"{{"metadata":{{"namespace":"n","name":"a","uid":"u","resourceVersion":"{version}"}}}}"#
    );
    Object::from_json(body.as_bytes(), &Projection::default()).unwrap()
}

/// A writer whose store has `a` at version 1.
fn listed() -> Writer {
    let mut writer = Writer::new(
        [],
        Seed(7),
        RingLimits {
            batches: 4,
            ..RingLimits::default()
        },
    )
    .unwrap();
    writer.apply([
        Delta::ListBegin,
        Delta::Replaced(a(1)),
        Delta::ListEnd {
            version: "1".to_owned(),
        },
    ]);
    writer
}

// INVARIANT of `informer/ring.rs`: the root is published before the end of the ring moves.
#[test]
fn a_root_has_whatever_the_ring_shows() {
    check("root_and_ring", None, || {
        let mut writer = listed();
        let reader = writer.reader();
        let writes = thread::spawn(move || {
            for version in 2..4 {
                writer.apply([Delta::Updated(a(version))]);
            }
        });
        let mut last = 0;
        for _ in 0..2 {
            let end = reader.ring().end();
            let position = reader.root().position();
            assert!(position >= end, "a change of the ring is not stored");
            assert!(position >= last, "the root went back");
            last = position;
        }
        writes.join().unwrap();
    });
}

// The fences of `Mark::pin` and `Hub::needed`.
#[test]
fn c9_a_place_that_is_taken_keeps_the_batches_after_its_root() {
    check("place_and_writer", None, || {
        let mut writer = listed();
        let mut place = writer.reader().deliver();
        let writes = thread::spawn(move || {
            for version in 2..4 {
                writer.apply([Delta::Updated(a(version))]);
            }
        });
        let mut last = None;
        hear(&mut place, &mut last);
        writes.join().unwrap();
        hear(&mut place, &mut last);
        assert_eq!(last, Some(3));
        assert_eq!(place.times_behind(), 0, "a batch was dropped too early");
    });
}

#[test]
fn two_places_that_are_taken_keep_their_batches() {
    check("places_and_writer", Some(PREEMPTIONS), || {
        let mut writer = listed();
        let reader = writer.reader();
        let other = thread::spawn(move || {
            let mut place = reader.deliver();
            let mut last = None;
            hear(&mut place, &mut last);
            (place, last)
        });
        let mut place = writer.reader().deliver();
        let writes = thread::spawn(move || {
            for version in 2..4 {
                writer.apply([Delta::Updated(a(version))]);
            }
        });
        let mut last = None;
        hear(&mut place, &mut last);
        writes.join().unwrap();
        for (mut place, mut last) in [(place, last), other.join().unwrap()] {
            hear(&mut place, &mut last);
            assert_eq!(last, Some(3));
            assert_eq!(place.times_behind(), 0, "a batch was dropped too early");
        }
    });
}

/// Hears all there is, in order.
fn hear(place: &mut Delivery, last: &mut Option<u64>) {
    loop {
        let changes = match place.next() {
            Next::Idle => return,
            Next::Synced => continue,
            Next::Changes(changes) => changes,
        };
        for change in changes.iter() {
            let version: u64 = change.object().resource_version().parse().unwrap();
            match (*last, change) {
                (None, Change::Added { .. }) => {}
                (Some(known), Change::Updated { .. }) => assert_eq!(version, known + 1),
                (known, change) => panic!("{change:?} after {known:?}"),
            }
            *last = Some(version);
        }
    }
}
