//! The form in which a cache keeps its objects, whatever a memory budget says.
//!
//! ```text
//! builder.storage(form) → Core: a store that keeps what comes as it is, or compressed
//! ```
//!
//! Upstream counterpart: none; client-go keeps decoded values.

/// The form in which a cache keeps its objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Storage {
    /// As the server encoded them.
    #[default]
    Plain,
    /// Compressed with a dictionary of their common content: for large caches of which little is
    /// read.
    ///
    /// The dictionary is trained on the first 256 objects (64 if they are large), or at the end of
    /// a smaller list of at least 32; until then objects are kept as they came. Keys and versions
    /// are read as before. A handle inflates its object before it reads anything else, which takes
    /// some microseconds an object. A single change reaches handlers as the server sent it, with
    /// its previous state compressed; first lists, resyncs and the replay for a late handler reach
    /// them compressed. Indexes cost no more, except those that are added later.
    ///
    /// Needs the feature `compressed`.
    #[cfg(feature = "compressed")]
    Compressed,
}
