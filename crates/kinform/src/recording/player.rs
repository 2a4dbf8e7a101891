//! The answer of one recorded exchange, step by step.
//!
//! ```text
//! steps of an exchange ──each at its time──▶ Body: chunks │ its end │ SourceError
//! ```
//!
//! A request or body that the recorded reader dropped ends when it was dropped, since a reader at another
//! pace may wait longer. At the end of the recording it stays open.
//! BOUND: one inflated block for each body.
//!
//! Upstream counterpart: none.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use kinform_core::Encoding;
use kinform_core::recording::{Exchange, Span, Step, StepKind};

use super::failure;
use super::played::Played;
use crate::error::{SourceError, SourceErrorKind};
use crate::source::Body;

/// A byte that no JSON has outside of texts, nor in them.
const NO_JSON: &[u8] = b"\x01";

/// A body while it is played.
struct Player {
    played: Arc<Played>,
    number: usize,
    next: usize,
    block: Option<(u32, Bytes)>,
    is_over: bool,
}

/// Answers as the recorded server did.
pub(super) async fn answer(played: Arc<Played>, number: usize) -> Result<Body, SourceError> {
    let step = exchange(&played, number).answer.first().cloned();
    let Some(step) = step else {
        // The recording ended before there was an answer.
        played.ran_out();
        return std::future::pending().await;
    };
    played.wait(step.at()).await;
    match &step.kind {
        StepKind::Refused(failed) => Err(failure::read(failed)),
        StepKind::Abandoned if !played.goes_on_after(step.at()) => {
            played.ran_out();
            std::future::pending().await
        }
        StepKind::Abandoned => Err(given_up()),
        StepKind::Gap => Err(gap()),
        _ => {
            let player = Player {
                played,
                number,
                next: 1,
                block: None,
                is_over: false,
            };
            let chunks = stream::unfold(player, |mut player| async move {
                let chunk = player.chunk().await?;
                Some((chunk, player))
            });
            Ok(Body::new(Encoding::Json, chunks))
        }
    }
}

impl Player {
    /// The next chunk; `None` once the body has ended.
    async fn chunk(&mut self) -> Option<Result<Bytes, SourceError>> {
        if self.is_over {
            return None;
        }
        let exchange = exchange(&self.played, self.number);
        let (step, is_watch) = (
            exchange.answer.get(self.next).cloned(),
            exchange.asked.is_watch(),
        );
        let Some(Step { kind, .. }) = &step else {
            self.played.ran_out();
            return std::future::pending().await;
        };
        let at = step.as_ref().map(Step::at).unwrap_or_default();
        if *kind == StepKind::Abandoned && !self.played.goes_on_after(at) {
            self.played.ran_out();
            return std::future::pending().await;
        }
        self.played.wait(at).await;
        self.next += 1;
        self.is_over = !matches!(kind, StepKind::Chunk(_));
        match kind {
            StepKind::Chunk(span) => Some(self.content(*span)),
            StepKind::Broken(failed) | StepKind::Refused(failed) => {
                Some(Err(failure::read(failed)))
            }
            StepKind::Gap => Some(Err(gap())),
            StepKind::Withheld => Some(Ok(Bytes::from_static(NO_JSON))),
            StepKind::Abandoned if !is_watch => Some(Err(given_up())),
            StepKind::Abandoned | StepKind::Ended | StepKind::Opened => None,
        }
    }

    fn content(&mut self, span: Span) -> Result<Bytes, SourceError> {
        let has_block = matches!(&self.block, Some((number, _)) if *number == span.block);
        if !has_block {
            let block = self.played.recording.block(span.block).unwrap_or_default();
            self.block = Some((span.block, Bytes::from(block)));
        }
        let range = span.range();
        match &self.block {
            Some((_, block)) if range.end <= block.len() => Ok(block.slice(range)),
            // It was checked when the file was read.
            _ => Err(gap()),
        }
    }
}

fn exchange(played: &Played, number: usize) -> &Exchange {
    &played.recording.exchanges()[number]
}

fn gap() -> SourceError {
    let message = "the recording has a gap here";
    SourceError::new(SourceErrorKind::Transport, message)
}

fn given_up() -> SourceError {
    let message = "the recorded reader gave up here";
    SourceError::new(SourceErrorKind::Deadline, message)
}
