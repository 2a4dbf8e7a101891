//! The public API against what a real server said.
#![expect(
    clippy::unwrap_used,
    reason = "this binary holds tests and what they share"
)]

mod golden;
