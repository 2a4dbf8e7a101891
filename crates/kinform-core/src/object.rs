//! (room: object)
