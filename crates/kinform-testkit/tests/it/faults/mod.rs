//! The fault matrix: each fault of a server, a network, a clock or a user's code, in each cell.
//!
//! ```text
//! each("F8 json,protobuf x list,stream x in-order,coalescing", fault) ──▶ Cell ──▶ Stand ──▶ checks
//!        └──▶ cargo xtask faults ──▶ the table in docs/reliability.md
//! ```
//!
//! The line of a test is both its cells and its place in the table, so the two cannot differ. A line
//! `// fault: F6` above a test of another file adds it to the proofs of a fault, with the cells that
//! it covers, if any. `// no fault: F10 .. : reason` says why a fault does not exist in some cells.
//! A test fails unless handlers, cache and server agree within the bound of the fault.

mod cell;
mod clocks;
mod connections;
mod credentials;
mod disks;
mod dropped;
mod objects;
mod pages;
mod peers;
mod replies;
mod stand;
mod streams;
mod tamper;
mod user_code;

pub(crate) use self::cell::{Cell, Way, each, each_live};
pub(crate) use self::stand::{BACKOFF, Check, SECOND, SILENCE, Setup, Stand, agree, check};
pub(crate) use self::tamper::{Frames, Tamper};
