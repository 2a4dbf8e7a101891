//! (room: kinform-testkit)
