//! One place in the stream, taken while batches are published; no task but the writer's is near.
//!
//! ```text
//! writer: list, batches ──▶ ring, root ──▶ Delivery::next: a root's objects, then each batch after it
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use kinform_core::delta::{Change, Delta};
use kinform_core::informer::delivery::{Delivery, Next};
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::Writer;
use kinform_core::store::directory::Seed;
use shuttle::thread;

use super::object;

/// Batches after the list.
const BATCHES: u64 = 4;

/// A place that is taken at any moment.
///
/// # Panics
/// It heard a batch twice, missed one, or fell behind a ring that has room for all.
pub fn late_place() {
    let writer = Writer::new([], Seed(7), RingLimits::default());
    let mut writer = writer.expect("there is no index");
    let reader = writer.reader();
    let is_over = Arc::new(AtomicBool::new(false));
    writer.apply([
        Delta::ListBegin,
        Delta::Replaced(object("a", 1, 0)),
        Delta::ListEnd {
            version: "1".to_owned(),
        },
    ]);
    let writes = {
        let is_over = Arc::clone(&is_over);
        thread::spawn(move || {
            for version in 2..2 + BATCHES {
                writer.apply([Delta::Updated(object("a", version, 0))]);
            }
            is_over.store(true, SeqCst);
        })
    };
    let mut place = reader.deliver();
    let mut last = None;
    loop {
        // Before the look: what is published after it is heard in the next turn.
        let was_over = is_over.load(SeqCst);
        if !hear(&mut place, &mut last) && was_over {
            break;
        }
        thread::yield_now();
    }
    writes.join().expect("the task ended well");
    assert_eq!(last, Some(1 + BATCHES), "the last batch was not heard");
    assert_eq!(place.times_behind(), 0, "a batch was dropped too early");
}

/// Hears all there is; returns whether there was something.
fn hear(place: &mut Delivery, last: &mut Option<u64>) -> bool {
    let mut has_heard = false;
    loop {
        let changes = match place.next() {
            Next::Idle => return has_heard,
            Next::Synced => continue,
            Next::Changes(changes) => changes,
        };
        has_heard = true;
        for change in changes.iter() {
            let version = change.object().resource_version().parse();
            let version: u64 = version.expect("versions are numbers");
            match (*last, change) {
                (None, Change::Added { .. }) => {}
                (Some(known), Change::Updated { .. }) => {
                    assert_eq!(version, known + 1, "a batch was left out, or came twice");
                }
                (known, change) => panic!("{change:?} after {known:?}"),
            }
            *last = Some(version);
        }
    }
}
