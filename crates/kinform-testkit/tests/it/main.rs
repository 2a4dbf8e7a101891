//! Tests of the testkit, and by it.

#![expect(clippy::unwrap_used, reason = "tests may unwrap")]

mod audit;
mod autoscaling;
mod budgets;
mod controllers;
mod cron_jobs;
mod faults;
mod hostile;
mod jobs;
mod nodes;
mod others;
mod preemption;
mod put_back;
mod rounds;
mod scheduling;
mod server;
mod sets;
mod simulate;
mod stories;
mod story;
