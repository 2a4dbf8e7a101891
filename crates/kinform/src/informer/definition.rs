//! Definitions of indexes as a watch keeps them.
//!
//! ```text
//! Index<K> → Definition (index of the store + origin) → same origin again? the index that is there
//! ```
//!
//! Upstream counterpart: `client-go:tools/cache/thread_safe_store.go` (`AddIndexers`).

use std::sync::Arc;

use kinform_core::object::reduction::Reduction;
use kinform_core::store::index::Index;

use crate::error::{Error, ErrorKind};
use crate::source::ResourceInfo;

/// An index of the store and its origin: adding an equal origin again is no conflict.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) index: Index,
    pub(crate) origin: Origin,
}

impl Definition {
    /// An index is an error that reads fields which the cache of `resource` may give up.
    pub(crate) fn reads_what_stays(
        &self,
        resource: &ResourceInfo,
        reduction: Option<&Arc<Reduction>>,
    ) -> Result<(), Error> {
        if reduction.is_none_or(|reduction| self.index.reads_only(reduction)) {
            return Ok(());
        }
        let name = self.index.name();
        let message = format!(
            "the index {name:?} reads fields that the cache of {resource} may give up: add it before the start, or \
             name them in reducible_to"
        );
        Err(Error::new(ErrorKind::Invalid, message))
    }
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
