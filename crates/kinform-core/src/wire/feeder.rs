//! Feeds a body in chunks to a reader of lists or watches, in either encoding; errors are final.
//!
//! ```text
//! chunk ─▶ Feeder ─▶ Step::step, until the chunk is read ─▶ parts, in order
//!                                                         └▶ WireError, in every later call, too
//! ```
//!
//! INVARIANT: the parts depend on the bytes only, never on the boundaries of the chunks.
//! Upstream: `apimachinery:pkg/util/framer`.

use super::baseline::BaselineRef;
use super::error::WireError;

/// A reader of one kind of body in one encoding.
pub(super) trait Step {
    /// A piece of output: a part of a list, or a frame.
    type Part<'a>;
    /// The metadata of a body, complete at its end.
    type End;

    /// Reads one byte or more of `chunk`, which begins at offset `at` of the body; returns the
    /// number of bytes read.
    fn step(
        &mut self,
        chunk: &[u8],
        at: u64,
        baseline: Option<BaselineRef<'_>>,
        part: &mut impl FnMut(Self::Part<'_>),
    ) -> Result<usize, WireError>;

    /// Ends the body.
    fn end(self) -> Result<Self::End, WireError>;
}

/// Feeds a body to its reader, chunk by chunk.
#[derive(Debug)]
pub(super) struct Feeder<S> {
    pub(super) step: S,
    consumed: u64,
    failed: Option<WireError>,
}

impl<S: Step> Feeder<S> {
    pub(super) fn new(step: S) -> Self {
        Self {
            step,
            consumed: 0,
            failed: None,
        }
    }

    /// Reads the next bytes of the body and passes each part that they complete to `part`, in
    /// order. After an error every later call fails with the same error.
    pub(super) fn feed(
        &mut self,
        mut chunk: &[u8],
        baseline: Option<BaselineRef<'_>>,
        part: &mut impl FnMut(S::Part<'_>),
    ) -> Result<(), WireError> {
        while !chunk.is_empty() && self.failed.is_none() {
            match self.step.step(chunk, self.consumed, baseline, part) {
                Ok(read) => {
                    chunk = &chunk[read..];
                    self.consumed += read as u64;
                }
                Err(error) => self.failed = Some(error),
            }
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Ends the body; returns its metadata.
    pub(super) fn finish(self) -> Result<S::End, WireError> {
        match self.failed {
            Some(error) => Err(error),
            None => self.step.end(),
        }
    }
}
