//! The machines of kinform, as their users see them.
#![expect(
    clippy::unwrap_used,
    reason = "this binary holds tests and what they share"
)]

mod baseline;
mod bugs;
mod bugs_queue;
mod cluster;
mod cold;
mod convergence;
mod forms;
mod golden;
mod golden_types;
mod informer;
mod listeners;
mod messages;
mod mutated;
mod objects;
mod past;
mod protobuf;
mod protobuf_hostile;
mod protobuf_order;
mod ranges;
mod recorded;
mod reduced;
mod restored;
mod store;
mod twins;
mod upstream;
