//! Promises that hold for every input of a reader, however hostile the input is.
//!
//! ```text
//! bytes ──▶ target ──▶ panic (a broken promise) | Shape (what kind of reading it was)
//!             ▲
//!   cargo-fuzz (fuzz_targets/) │ the driver (bin/drive.rs) │ tests over the corpus
//! ```
//!
//! The targets of the wire assert four promises. A body reads the same however it is cut and
//! whatever is stored of it already. An object reads the same next to another one as alone.
//! Accepted input is what serde_json or the table of types reads. No memory is held for lengths
//! that are only announced. The other targets compare with a second reader or evaluator; those of
//! the server ask it in this process ([`in_process`]). The header of each module says what holds.
//!
//! The shape of a reading is for the driver: an input whose shape is new is worth mutating further.
//! Upstream: `kubernetes:test/fuzz` fuzzes the decoders there.

use std::alloc::System;
use std::time::Duration;

use cap::Cap;

pub mod admission_reply;
pub mod apply;
pub mod baseline;
pub mod cel;
pub mod continue_token;
pub mod cuts;
pub mod draw;
pub mod field_path;
pub mod frames;
pub mod head;
pub mod heap;
pub mod in_process;
pub mod json;
pub mod json_patch;
pub mod json_path;
pub mod kubeconfig;
pub mod list;
pub mod manifests;
pub mod merge_patch;
pub mod mutator;
pub mod negotiation;
pub mod neighbours;
pub mod patterns;
pub mod protobuf;
pub mod recording;
pub mod selectors;
pub mod shape;
pub mod snapshot;
pub mod strategic_merge;
pub mod twin;
pub mod watch;
pub mod yaml;

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
    /// The time that it may take whatever the input, beyond that for each byte.
    pub patience: Duration,
    /// Pieces of which inputs are made.
    pub words: &'static [&'static [u8]],
}

/// Of readers that do what an input says, and no more.
const SHORT: Duration = Duration::from_millis(20);
/// Of a server that is asked several times, and of what may multiply within a bound.
const LONG: Duration = Duration::from_millis(250);

/// All of them.
pub const TARGETS: [Target; 21] = [
    of("list", list::run, (SHORT, json::WORDS)),
    of("watch", watch::run, (SHORT, json::WORDS)),
    of("head", head::run, (SHORT, json::WORDS)),
    of("protobuf", protobuf::run, (SHORT, protobuf::WORDS)),
    of("selectors", selectors::run, (SHORT, selectors::WORDS)),
    of("field_path", field_path::run, (SHORT, field_path::WORDS)),
    of("json_path", json_path::run, (SHORT, json_path::WORDS)),
    of("json_patch", json_patch::run, (LONG, json_patch::WORDS)),
    of("merge_patch", merge_patch::run, (LONG, merge_patch::WORDS)),
    of(
        "strategic_merge",
        strategic_merge::run,
        (LONG, strategic_merge::WORDS),
    ),
    of("apply", apply::run, (LONG, apply::WORDS)),
    of(
        "continue_token",
        continue_token::run,
        (LONG, continue_token::WORDS),
    ),
    of("negotiation", negotiation::run, (LONG, negotiation::WORDS)),
    of(
        "admission_reply",
        admission_reply::run,
        (LONG, admission_reply::WORDS),
    ),
    of("yaml", yaml::run, (LONG, yaml::WORDS)),
    of("cel", cel::run, (LONG, cel::WORDS)),
    of("patterns", patterns::run, (LONG, patterns::WORDS)),
    of("kubeconfig", kubeconfig::run, (LONG, kubeconfig::WORDS)),
    of("manifests", manifests::run, (LONG, manifests::WORDS)),
    of("snapshot", snapshot::run, (LONG, snapshot::WORDS)),
    of("recording", recording::run, (LONG, recording::WORDS)),
];

const fn of(
    name: &'static str,
    run: fn(&[u8]) -> Shape,
    (patience, words): (Duration, &'static [&'static [u8]]),
) -> Target {
    Target {
        name,
        run,
        patience,
        words,
    }
}

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
