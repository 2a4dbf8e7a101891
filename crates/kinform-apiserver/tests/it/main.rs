//! The server as its clients see it.

mod support;

mod list;
mod sockets;
mod watch;
