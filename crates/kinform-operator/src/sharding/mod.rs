//! Sharding: all replicas work, each on its own part of the keys.
//!
//! ```text
//! leases of members, shards ──informer──▶ driver ◀─inputs, steps─▶ Sharding (core)
//!        ▲                                  │ extend, open, close ..
//!        └────────requests──────────────────┤                ▼
//! own member lease ◀─▶ Leadership ──terms───┘              Share ──▶ informers, controllers
//! ```
//!
//! `kinform-core/src/shards/` decides; this room asks the server and tells the share. The member's own
//! lease is that of an election without rivals, with a thread and connections of its own.
//!
//! `member` is the whole, `lease` the wire, `division` lets replicas of one division work at a time,
//! `requests` the way there, `waits` what is waited for, `inheritance` what owners before have told,
//! `sweep` removes leases of processes that are gone, `driver` is the loop.
//!
//! Upstream counterpart: none.

mod division;
mod driver;
mod inheritance;
mod lease;
mod member;
mod requests;
mod stage;
mod sweep;
mod waits;

pub(crate) use self::member::Member;
pub(crate) use self::stage::Stage;
