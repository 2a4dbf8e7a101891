//! The concurrent code of kinform under a scheduler: scenarios, and the models that they run on.
//!
//! ```text
//! sources of kinform, kinform-operator ─#[path]─▶ workqueue, informer, leader ─▶ scenarios ─▶ run
//! sources of kinform-core ─schedules/core─▶ store, ring, deliveries ─────────────┘
//! sync, time, env: models in the place of std, tokio and clocks
//! ```
//!
//! The product's files are compiled from where they are, so that a scenario runs the code that users
//! run. They take their primitives from `crate::sync`, which is another module here: each of its calls
//! is a point where the scheduler may choose another task. All of a scenario runs on one thread of the
//! system; the order of its steps is a function of a seed.
//!
//! Never: code of the product that exists only here. What the included files need of others (a store's
//! core, clocks, reports) has a stand-in of a few lines next to them.
//!
//! Upstream counterpart: none; `shuttle` and the paper on probabilistic concurrency testing.

// `kinform::controller::LastWrites` in the operator's sources is this crate's.
extern crate self as kinform;

pub mod controller;
pub mod env;
mod informer;
mod leader;
mod report;
pub mod run;
pub mod scenarios;
pub mod sync;
pub mod time;
#[path = "../../crates/kinform/src/workqueue/mod.rs"]
#[expect(dead_code, reason = "a scenario calls a part of it")]
pub mod workqueue;
