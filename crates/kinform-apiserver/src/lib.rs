//! (room: kinform-apiserver)
