//! The inspector: what a program's informers and controllers do, as a page, as JSON, as events.
//!
//! ```text
//! factory, controllers, lease ─▶ Program ─look─▶ sample ─▶ views ─▶ JSON | events | page.html
//!                                         request ─▶ origin ─▶ sight ──┘
//! ```
//!
//! It is off unless asked for, and does nothing while nobody looks. A look copies counters, never
//! events. [`Inspector::serve`] is for any program: on loopback, behind a token of this start. In an
//! operator it is `--inspect`, behind the reviews of the API server.
//!
//! | file | content |
//! |---|---|
//! | `server` | [`Inspector`]: a port on loopback, its token and where that is announced |
//! | `room`, `reply`, `shared` | routes, headers, and the state that requests share |
//! | `origin`, `sight` | which requests go on, and the names that a caller may see |
//! | `program`, `sampler`, `journal` | the program, its counters over time, its reports |
//! | `pipeline`, `caches`, `queues`, `search`, `object`, `memory`, `problems` | a view each: its JSON, and a function that makes it |
//! | `versions`, `difference` | versions of objects while they are watched |
//! | `events`, `viewers` | the stream of a view, and its seats |
//! | `secret` | values of Secrets are hidden |
//!
//! The JSON is versioned: [`VERSION`]; docs/inspector.md has each field.
//! INVARIANT: values of Secrets leave by no way; there is no way to write.
//!
//! Upstream counterpart: none.

mod advice;
mod caches;
mod difference;
mod events;
mod journal;
mod memory;
mod numbers;
mod object;
mod origin;
mod page;
mod pipeline;
mod problems;
mod program;
mod query;
mod queues;
mod reply;
mod room;
mod sampler;
mod search;
mod secret;
mod server;
mod shared;
mod sight;
mod versions;
mod viewers;

pub use self::caches::{CacheRow, Caches, HandlerRow};
pub use self::difference::Change;
pub use self::events::ObjectSign;
pub use self::memory::{BudgetMemory, CacheMemory, FieldMemory, FieldRow, Memory, NamespaceMemory};
pub use self::numbers::{Head, Latency, Rate, VERSION};
pub use self::object::{Manager, ObjectView, Owner, VersionRow, WaitingRow};
pub use self::pipeline::{InformerFlow, LeaseState, Pipeline, QueueFlow, ShardRow, ShardingState};
pub use self::problems::{Problem, Problems};
pub(crate) use self::program::{Controller, Lease, Program};
pub use self::queues::{CauseList, CauseRow, InWork, KeyRow, QueueRow, Queues, RunRow};
pub use self::search::{ObjectRow, Objects};
pub(crate) use self::server::reviewed;
pub use self::server::{Inspector, InspectorBuilder};
