//! Tests of the crate through its public interface.

#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod bugs;
mod causes;
mod clusters;
mod compressed;
mod connection;
mod definitions;
mod disk_cache;
mod duplicates;
mod dynamic;
mod elided;
mod event_series;
mod events;
mod exports;
mod finalizers;
mod fixture;
mod foo;
mod fresh;
mod handlers;
mod hands;
mod informer;
mod join;
mod lifecycle;
mod loops;
mod memory_budget;
mod memory_reduced;
mod namespaces;
mod own_writes;
mod past;
mod planted_loops;
mod reading;
mod recording;
mod reflector;
mod registrations;
mod resync;
mod selection;
mod server;
mod shares;
mod signals;
mod source;
mod spans;
mod standalone;
mod streams;
mod waking;
mod workqueue;
