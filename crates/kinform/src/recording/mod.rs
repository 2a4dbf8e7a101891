//! Recorders and replays: what came over the wire, as a file, and again.
//!
//! ```text
//! source ─▶ Recorder ─▶ informer        file ─▶ ReplaySource ─▶ informer
//!              └─▶ queue ─▶ a thread ─▶ file
//! ```
//!
//! A [`Recorder`] stands between a source and its informer, and writes each request, each piece of
//! a body, each failure and their times. A [`ReplaySource`] answers requests from such a file: an
//! informer over it hears the same notifications.
//! Secret values are digests in the file, see [`kinform_core::recording::Redactor`].
//!
//! * `recorder.rs`: the decorator; `body.rs`: the body that it hands on; `writer.rs`: the thread;
//! * `replay.rs`: the source; `player.rs`: its bodies; `played.rs`: its clock and state; `turns.rs`: the
//!   recorded exchange of a request;
//! * `failure.rs`: errors on their way into a file and out of it.
//!
//! Upstream counterpart: none.

mod body;
mod failure;
mod played;
mod player;
mod recorder;
mod replay;
mod turns;
mod writer;

pub use self::played::{Pace, ReplayState, ReplayStats};
pub use self::recorder::Recorder;
pub use self::replay::ReplaySource;
pub use self::writer::RecorderStats;
