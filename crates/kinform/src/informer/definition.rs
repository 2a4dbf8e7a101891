//! Definitions of indexes as a watch keeps them.
//!
//! ```text
//! Index<K> → Definition (index of the store + origin) → same origin again? the index that is there
//! ```
//!
//! Upstream counterpart: `client-go:tools/cache/thread_safe_store.go` (`AddIndexers`).

use kinform_core::store::index::Index;

/// An index of the store and its origin: adding an equal origin again is no conflict.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) index: Index,
    pub(crate) origin: Origin,
}

/// The source of an index's values.
///
/// INVARIANT: two definitions of the same origin have the same values for every object, except
/// `Function`: two functions are never taken as equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Path(String),
    Label(String),
    Owner,
    Function,
}
