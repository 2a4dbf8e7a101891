//! Tests of the testkit, and by it.

#![expect(clippy::unwrap_used, reason = "tests may unwrap")]

mod audit;
mod controllers;
mod preemption;
mod rounds;
mod server;
mod sets;
