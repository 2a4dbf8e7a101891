//! Simulation of kinform itself: a seed becomes five virtual minutes of trouble, and nothing that
//! kinform promises may break in them.
//!
//! ```text
//! seed ─▶ Script { settings, steps } ─▶ Run: servers, network, replicas, writes, faults ─▶ Outcome
//!                    ▲                      │ each notification, cache, lease and reconcile ─▶ invariants
//!                    └── shrink ◀── Finding ┘                                  reach counters ◀┘
//! ```
//!
//! | file | what lives there |
//! |---|---|
//! | `script`, `settings`, `generate` | the steps of a run, as a file has them; the script of a seed |
//! | `run`, `troubles`, `settle` | a run: steps at their times, faults that begin and end, the end |
//! | `hours` | a long run: hours of such steps, everything alike once an hour |
//! | `cluster`, `history` | two API servers over one storage, its backup; everything that was committed |
//! | `network`, `line`, `asked`, `body` | the way of one process to the servers, and what goes wrong on it |
//! | `pace` | requests and reconciles of a minute |
//! | `replica`, `cache`, `work` | a process: operator, informers, handlers, reconciles |
//! | `listener`, `invariants` | the promises about notifications, caches, leaders and reconciles |
//! | `reach` | which faults met which states |
//! | `shrink`, `campaign`, `arguments` | fewer steps that still fail; many seeds; the command line |
//!
//! The same operator, informers and server as in production run here, on one thread and in paused
//! time. Order is varied by seeded yields and delays at each hop: a request, a reply, a piece of a
//! watch, a call of a handler or of a reconcile function.
//!
//! Upstream counterpart: none; the method is that of FoundationDB and of TigerBeetle.

pub mod arguments;
mod asked;
mod body;
mod cache;
pub mod campaign;
mod cluster;
pub mod finding;
pub mod generate;
mod history;
pub mod hours;
mod invariants;
mod line;
mod listener;
mod network;
mod pace;
pub mod reach;
mod replica;
pub mod run;
pub mod script;
mod settings;
mod settle;
mod shared;
pub mod shrink;
mod trace;
mod troubles;
mod work;
