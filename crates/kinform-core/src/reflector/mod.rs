//! (room: reflector)
