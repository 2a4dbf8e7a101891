//! Habits as code.
fn main() {}
