//! A stand-in for the last writes that an election passes on and never reads.

/// No writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWrites;
