//! A stand-in for the knowledge of the term before, which an election only passes on.

/// Nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inherited;
