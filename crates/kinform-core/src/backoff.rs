//! (room: backoff)
