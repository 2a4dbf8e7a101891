//! The promises of the wire's readers for every input, however hostile.
//!
//! ```text
//! bytes ──▶ target ──▶ panic (a broken promise) | Shape (what kind of reading it was)
//!             ▲
//!   cargo-fuzz (fuzz_targets/) │ the driver (bin/drive.rs) │ tests over the corpus
//! ```
//!
//! Each target asserts four promises. A body reads the same however it is cut and whatever is
//! stored of it already. An object reads the same next to another one as alone. Accepted input is
//! what serde_json or the table of types reads. No memory is held for lengths that are only
//! announced. The shape of a reading is for the driver: an input whose shape is new is worth
//! mutating further.
//! Upstream: `kubernetes:test/fuzz` fuzzes the decoders there.

use std::alloc::System;

use cap::Cap;

pub mod baseline;
pub mod cuts;
pub mod head;
pub mod heap;
pub mod json;
pub mod list;
pub mod mutator;
pub mod neighbours;
pub mod protobuf;
pub mod shape;
pub mod twin;
pub mod watch;

use shape::Shape;

/// Counts the allocated bytes, for [`heap`].
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// One reader and its promises.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Reads the bytes and asserts the promises.
    pub run: fn(&[u8]) -> Shape,
    /// Pieces of which inputs are made.
    pub words: &'static [&'static [u8]],
}

/// All of them.
pub const TARGETS: [Target; 4] = [
    Target {
        name: "list",
        run: list::run,
        words: json::WORDS,
    },
    Target {
        name: "watch",
        run: watch::run,
        words: json::WORDS,
    },
    Target {
        name: "head",
        run: head::run,
        words: json::WORDS,
    },
    Target {
        name: "protobuf",
        run: protobuf::run,
        words: protobuf::WORDS,
    },
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
