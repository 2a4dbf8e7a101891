//! The server as its clients see it.

mod support;

mod faults;
mod golden;
mod list;
mod semantics;
mod sockets;
mod watch;
