//! (room: kinform)
