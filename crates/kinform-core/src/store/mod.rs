//! (room: store)
