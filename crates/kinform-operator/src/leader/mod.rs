//! Leader election: one replica at a time works.
//!
//! ```text
//! Lease ◀─requests, watch─▶ driver (own thread, own connections) ◀─inputs, steps─▶ Election (core)
//!                             │ terms                 ▲ stop, idle
//!                             ▼                       │
//!                           shared ──▶ Leadership ────┘      shared ──▶ Guard: each request looks last
//! ```
//!
//! `kinform-core/src/election/` decides; this room asks the server, watches the lease, and tells the
//! owner of the work. The election has a thread and connections of its own, because each of the
//! program's workers may be blocked, and its main connection full.
//!
//! The owner of the work, in a circle:
//!
//! 1. [`Leadership::won`] waits for a term; the work begins, through a client with a
//!    [`Guard`].
//! 2. [`Leadership::lost`] waits for the end of the term; the work is dropped and joined.
//! 3. [`Leadership::idle`] reports that all work of the term has been joined; this process becomes a
//!    candidate again.
//!
//! In a coordinated election a control plane chooses among [`LeaseCandidate`]s: see
//! [`LeaderElection::coordinated`]. With a hard fence the server looks, too: see
//! [`LeaderElection::hard_fence`].
//!
//! An orderly stop joins the work first, then calls [`Leadership::stop`], which releases the lease.
//!
//! Upstream counterpart: `client-go:tools/leaderelection`, whose elector is used up by a loss.

mod builder;
mod candidacy;
mod clock;
mod driver;
mod fence;
mod guard;
mod guarded;
mod identity;
pub(crate) mod last_writes;
mod leadership;
mod lease_client;
mod not_leading;
mod object;
mod orders;
mod shared;
mod watch;

pub use kinform_core::election::{EndReason, LeaseOptions, LeaseOptionsError, OnStop, Term};

pub use self::builder::LeaderElection;
pub use self::fence::{FenceError, FencePolicy, TERM_ANNOTATION};
pub use self::guard::Guard;
pub use self::guarded::Guarded;
pub(crate) use self::identity::member_id;
pub use self::identity::pod_namespace;
pub(crate) use self::last_writes::Inherited;
pub use self::leadership::Leadership;
pub use self::not_leading::{NotLeading, is_not_leading};
pub use crate::candidate::LeaseCandidate;
pub use crate::error::Error;
