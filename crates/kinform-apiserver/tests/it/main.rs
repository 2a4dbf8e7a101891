//! The server as its clients use it.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

mod support;

mod admin;
mod admission;
mod bounds;
mod candidates;
mod clients;
mod cluster;
mod conversion;
mod events;
mod faults;
mod garbage;
mod golden;
mod http2;
mod kubelet;
mod kubelets;
mod list;
mod mutations;
mod parts;
mod policies;
mod quotas;
mod refusals;
mod rights;
mod semantics;
mod shards;
mod sockets;
mod tls;
mod warnings;
mod watch;
mod webhooks;
mod writes;
mod yaml;
