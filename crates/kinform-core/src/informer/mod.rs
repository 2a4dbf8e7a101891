//! (room: informer)
