//! The machines of kinform: no runtime, no clock, no socket.
//!
//! ```text
//! bytes → wire → reflector → fifo → informer (store + indexes) → handlers → queue
//! store → snapshot → reflector of the next start
//! requests, chunks of bodies, errors, times → recording → the same again, at another time
//! lease as read, answers of writes → election → requests, terms
//! sizes of caches → budget → orders to informers: what they give up
//! leases of members and shards, own term → shards → orders to informers, queues, lease client
//! ```

pub mod backoff;
pub mod bucket;
pub mod budget;
pub mod causes;
pub mod delta;
mod dice;
pub mod election;
pub mod fifo;
mod framing;
pub mod informer;
pub mod loops;
pub mod object;
pub mod queue;
pub mod recording;
pub mod reflector;
pub mod scope;
pub mod shards;
pub mod snapshot;
pub mod stats;
pub mod store;
#[cfg_attr(kinform_shuttle, path = "../../../schedules/core/sync.rs")]
mod sync;
pub mod time;
pub mod wire;

pub use object::Object;
pub use object::budget::TypedBudget;
pub use object::owner::OwnerReference;
pub use object::projection::Projection;
pub use object::typed::{DecodeError, TypedCache};
pub use object::weight::{FieldWeight, FieldWeights};
pub use wire::bookmark::Bookmark;
pub use wire::encoding::{Encoding, ListReader, WatchReader};
pub use wire::error::WireError;
pub use wire::item::Item;
pub use wire::list::{ListMeta, ListPart};
pub use wire::unreadable::Unreadable;
pub use wire::watch::{Frame, FrameKind};

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
