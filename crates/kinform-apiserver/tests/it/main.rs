//! The server as its clients see it.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

mod support;

mod admin;
mod clients;
mod events;
mod faults;
mod golden;
mod http2;
mod list;
mod refusals;
mod semantics;
mod sockets;
mod watch;
mod writes;
mod yaml;
