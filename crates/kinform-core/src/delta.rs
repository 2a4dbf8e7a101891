//! (room: delta)
