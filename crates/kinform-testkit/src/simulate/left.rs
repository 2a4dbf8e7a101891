//! A thing that another client has left on the server, until it takes it back.
//!
//! ```text
//! stranger ─▶ Hub { Left, .. } ─▶ Run: taken back after a time; was it taken away before?
//! ```
//!
//! Never: asks a server.

/// A thing that another client has left on the server.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    pub(crate) thing: Thing,
    pub(crate) path: String,
    pub(crate) shelf: String,
    pub(crate) key: String,
    pub(crate) uid: String,
    /// The revision at which it was written.
    pub(crate) revision: u64,
    pub(crate) is_taken_back: bool,
}

/// The kind of such a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    Object,
    Annotation,
    Finalizer,
}
