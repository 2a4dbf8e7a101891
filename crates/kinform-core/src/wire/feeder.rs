//! What lists and watches have in common in both encodings: a body comes in chunks, and what is wrong with it stays so.
//!
//! ```text
//! chunk ─▶ Feeder ─▶ Step::step, until the chunk is read ─▶ parts, in order │ WireError, now and from then on
//! ```
//!
//! INVARIANT: what comes out depends on the bytes only, never on where the chunks were cut.
//! Upstream: `apimachinery:pkg/util/framer`.

use super::error::WireError;
use super::known::Lookup;

/// A reader of one kind of body in one encoding.
pub(super) trait Step {
    /// What it hands on: a part of a list, or a frame.
    type Part<'a>;
    /// What a body says about itself, known at its end.
    type End;

    /// Reads bytes of a body, at least one of the chunk that begins at `at` of it; returns how many.
    fn step(
        &mut self,
        chunk: &[u8],
        at: u64,
        stored: Option<Lookup<'_>>,
        part: &mut impl FnMut(Self::Part<'_>),
    ) -> Result<usize, WireError>;

    /// The body has ended.
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

    /// Reads the next bytes of the body and hands on the parts that they complete, in order. After an error every later
    /// call fails with it.
    pub(super) fn feed(
        &mut self,
        mut chunk: &[u8],
        stored: Option<Lookup<'_>>,
        part: &mut impl FnMut(S::Part<'_>),
    ) -> Result<(), WireError> {
        while !chunk.is_empty() && self.failed.is_none() {
            match self.step.step(chunk, self.consumed, stored, part) {
                Ok(read) => {
                    chunk = &chunk[read..];
                    self.consumed += read as u64;
                }
                Err(error) => self.failed = Some(error),
            }
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// The body has ended: what it said about itself.
    pub(super) fn finish(self) -> Result<S::End, WireError> {
        match self.failed {
            Some(error) => Err(error),
            None => self.step.end(),
        }
    }
}
