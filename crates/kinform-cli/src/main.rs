//! The `kinform` command.
fn main() {}
