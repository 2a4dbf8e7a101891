//! The public API against what a real server said.

mod golden;
