//! A body that is noted while it is read.
//!
//! ```text
//! chunks of the source ──▶ Recorded ──▶ the same chunks        Exchange: a note for each, and for the end
//! ```
//!
//! INVARIANT: an exchange has one last note, also if the reader drops it.
//!
//! Upstream counterpart: none.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use kinform_core::recording::Asked;

use super::failure;
use super::writer::{Noted, Tape};
use crate::env::Env;
use crate::error::SourceError;

/// A request and its answer, while they are noted.
#[derive(Debug)]
pub(super) struct Exchange {
    tape: Arc<Tape>,
    env: Env,
    number: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// A note was lost: the next one to get through says so.
    Lossy,
    Over,
}

impl Exchange {
    pub(super) fn begin(tape: &Arc<Tape>, env: &Env, number: u32, asked: Asked) -> Self {
        let mut exchange = Self {
            tape: Arc::clone(tape),
            env: env.clone(),
            number,
            state: State::Open,
        };
        let at = exchange.env.now().since_start();
        if !tape.note(number, at, Noted::Asked(Box::new(asked))) {
            tape.count_gap();
            // An answer without its request has no meaning.
            exchange.state = State::Over;
        }
        exchange
    }

    pub(super) fn note(&mut self, note: Noted) {
        let at = self.env.now().since_start();
        match self.state {
            State::Over => {}
            State::Lossy => {
                if self.tape.note(self.number, at, Noted::Gap) {
                    self.state = State::Over;
                }
            }
            State::Open => {
                if !self.tape.note(self.number, at, note) {
                    self.tape.count_gap();
                    self.state = State::Lossy;
                }
            }
        }
    }

    /// Adds the last note.
    pub(super) fn end(mut self, note: Noted) {
        self.note(note);
        self.state = State::Over;
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.note(Noted::Abandoned);
    }
}

/// The chunks of a body, noted.
pub(super) struct Recorded {
    chunks: BoxStream<'static, Result<Bytes, SourceError>>,
    exchange: Option<Exchange>,
}

impl Recorded {
    pub(super) fn new(
        chunks: BoxStream<'static, Result<Bytes, SourceError>>,
        exchange: Exchange,
    ) -> Self {
        let exchange = Some(exchange);
        Self { chunks, exchange }
    }
}

impl Stream for Recorded {
    type Item = Result<Bytes, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.chunks.as_mut().poll_next(cx);
        match &next {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(chunk))) => {
                if let Some(exchange) = &mut self.exchange {
                    exchange.note(Noted::Chunk(chunk.clone()));
                }
            }
            Poll::Ready(Some(Err(error))) => {
                if let Some(exchange) = self.exchange.take() {
                    exchange.end(Noted::Broken(Box::new(failure::written(error))));
                }
            }
            Poll::Ready(None) => {
                if let Some(exchange) = self.exchange.take() {
                    exchange.end(Noted::Ended);
                }
            }
        }
        next
    }
}
