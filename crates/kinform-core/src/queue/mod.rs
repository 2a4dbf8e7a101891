//! (room: queue)
