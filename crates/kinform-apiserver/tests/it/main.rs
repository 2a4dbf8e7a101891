//! The server as its clients see it.

mod support;

mod faults;
mod list;
mod semantics;
mod sockets;
mod watch;
