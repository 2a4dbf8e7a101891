//! The scenarios, by name.
//!
//! ```text
//! SCENARIOS ──name──▶ fn() ──run::check──▶ thousands of schedules
//! ```

mod queue;
mod ring;
mod root;

pub use queue::{cancelled_waits, drained, queue_of_workers};
pub use ring::late_place;
pub use root::readers_of_a_root;

pub use crate::informer::scenario::{
    handlers_behind, handlers_in_step, late_handler, removed_handler,
};
pub use crate::leader::scenario::{requests_by_messages, requests_by_the_clock};

use kinform_core::Object;
use kinform_core::object::projection::Projection;

/// An object with a label `of`, by whose value it is indexed.
pub(crate) fn object(name: &str, version: u64, label: u64) -> Object {
    let body = format!(
        r#"{{"metadata":{{"namespace":"n","name":"{name}","uid":"u-{name}","resourceVersion":"{version}","labels":{{"of":"{label}"}}}}}}"#
    );
    let object = Object::from_json(body.as_bytes(), &Projection::default());
    object.expect("the body is an object")
}

/// Points at which other tasks may run.
pub(crate) fn linger(times: usize) {
    for _ in 0..times {
        shuttle::thread::yield_now();
    }
}

/// A number below `end`, which the schedule decides.
pub(crate) fn draw(end: usize) -> usize {
    use shuttle::rand::Rng;
    shuttle::rand::thread_rng().gen_range(0..end)
}
