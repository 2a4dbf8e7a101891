//! (room: wire)
