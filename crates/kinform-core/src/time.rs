//! (room: time)
