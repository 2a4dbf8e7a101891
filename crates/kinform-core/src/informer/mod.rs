//! The informer: from deltas to the next root, and from roots to what each handler hears.
//!
//! ```text
//! deltas ──Applier──▶ root, changes ──Ring──▶ Delivery (one a handler) ──▶ changes to hear
//! ```
//!
//! | file | what lives there |
//! |---|---|
//! | `applier` | [`applier::Applier`]: what a delta does to the store; lists, quarantine, versions |
//! | `audit` | [`audit::Audit`]: whether a store is what its server says, on request |
//! | `forms` | [`forms::Holds`]: the memory of a store, and its objects' form, changed in pieces; `reform` what is left of that |
//! | `listing` | a list that runs: what it has named, items of one name |
//! | `narrow` | objects that leave because they are not wanted any more |
//! | `news` | [`news::News`]: what a batch brings for handlers |
//! | `report` | [`report::ApplyEvent`], [`report::ApplyCounts`]: what is worth saying |
//! | `ring` | [`ring::Ring`]: the newest batches of changes, bounded, each with the root after it |
//! | `delivery` | [`delivery::Delivery`]: one handler's place; initial list, falling behind, resync |
//! | `resync` | [`resync::ResyncSchedule`]: which handlers are due to hear everything again |
//! | `tier` | [`tier::Tier`]: what is kept compressed, and when that is learnt |
//! | `writer` | [`writer::Writer`], [`writer::Reader`]: the above put together, one writer, many readers |
//!
//! Upstream counterpart: `client-go:tools/cache/controller.go` (`processDeltas`),
//! `client-go:tools/cache/shared_informer.go`.

pub mod applier;
pub mod audit;
pub mod delivery;
pub mod forms;
mod listing;
mod narrow;
pub mod news;
mod packing;
mod reform;
pub mod report;
pub mod resync;
pub mod ring;
pub mod tier;
pub mod writer;
