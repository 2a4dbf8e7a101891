//! (room: stats)
