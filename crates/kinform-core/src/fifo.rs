//! (room: fifo)
