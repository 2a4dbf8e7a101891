//! What tests of informers and controllers need: for us and for users.
//!
//! ```text
//! scripted sources → informer under test → what its handlers heard
//! ```

pub mod scripted;
pub mod server;
