//! The state of a replay: its clock, its place, and what is left.
//!
//! ```text
//! request ──Turns──▶ number of an exchange        recorded time ──Pace, clock──▶ the moment to answer
//! ```
//!
//! Upstream counterpart: none.

use std::time::Duration;

use kinform_core::recording::{Asked, Recording};
use kinform_core::time::Instant;

use super::turns::{Found, Turns};
use crate::env::Env;
use crate::sync::{Mutex, lock, watch};

/// The pace of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As it was recorded, by the clock of the source: see [`Env::with_speed`].
    #[default]
    Recorded,
    /// Each answer as soon as it is asked for.
    AtOnce,
}

/// The progress of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayState {
    /// Nobody has asked for anything.
    Waiting,
    /// Answers are left.
    Playing,
    /// The last watch has sent everything that was recorded, or a request came for which there is no
    /// answer. Open bodies stay open, and further requests wait for ever.
    Ended,
}

/// Numbers of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayStats {
    /// Its progress.
    pub state: ReplayState,
    /// Requests and answers of the recording.
    pub exchanges: usize,
    /// Requests that were answered.
    pub answered: usize,
    /// Requests that got the answer to another request, because nobody had asked the same: the
    /// reader is not the one of the recording, or behaves otherwise.
    pub otherwise: usize,
}

/// The parts that the bodies of a replay share.
pub(super) struct Played {
    pub(super) recording: Recording,
    env: Env,
    pace: Pace,
    state: Mutex<State>,
    progress: watch::Sender<ReplayState>,
}

struct State {
    turns: Turns,
    /// The time that counts as the recording's start, and the recorded time of the first request.
    start: Option<(Instant, Duration)>,
    answered: usize,
    otherwise: usize,
}

impl Played {
    pub(super) fn new(recording: Recording) -> Self {
        let state = State {
            turns: Turns::new(recording.exchanges()),
            start: None,
            answered: 0,
            otherwise: 0,
        };
        Self {
            recording,
            env: Env::system(),
            pace: Pace::default(),
            state: Mutex::new(state),
            progress: watch::Sender::new(ReplayState::Waiting),
        }
    }

    pub(super) fn with_pace(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    pub(super) fn with_env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    pub(super) fn stats(&self) -> ReplayStats {
        let state = lock(&self.state);
        ReplayStats {
            state: *self.progress.borrow(),
            exchanges: self.recording.exchanges().len(),
            answered: state.answered,
            otherwise: state.otherwise,
        }
    }

    pub(super) fn progress(&self) -> watch::Receiver<ReplayState> {
        self.progress.subscribe()
    }

    /// The exchange that answers a request.
    pub(super) fn take(&self, asked: &Asked) -> Option<usize> {
        let exchanges = self.recording.exchanges();
        let mut state = lock(&self.state);
        let found = state.turns.take(exchanges, asked);
        let number = match found {
            Found::NoneLeft => return None,
            Found::Same(number) => number,
            Found::Other(number) => {
                state.otherwise += 1;
                let (asked, recorded) = (asked, &exchanges[number].asked);
                tracing::debug!(?asked, ?recorded, "the replay answers another request");
                number
            }
        };
        state.answered += 1;
        let now = self.env.now();
        state.start.get_or_insert((now, exchanges[number].at));
        self.progress.send_if_modified(|state| {
            let is_first = *state == ReplayState::Waiting;
            if is_first {
                *state = ReplayState::Playing;
            }
            is_first
        });
        Some(number)
    }

    /// Waits for a recorded time.
    pub(super) async fn wait(&self, at: Duration) {
        if self.pace == Pace::AtOnce {
            return;
        }
        let Some((start, first)) = lock(&self.state).start else {
            return;
        };
        let until = start + at.saturating_sub(first);
        if until > self.env.now() {
            self.env.sleep_until(until).await;
        }
    }

    /// Returns whether a request was recorded after this time.
    pub(super) fn goes_on_after(&self, at: Duration) -> bool {
        let exchanges = self.recording.exchanges();
        exchanges.last().is_some_and(|exchange| exchange.at >= at)
    }

    /// A watch has sent all that was recorded of it.
    pub(super) fn ran_out(&self) {
        if !lock(&self.state).turns.has_watch() {
            self.end();
        }
    }

    pub(super) fn end(&self) {
        self.progress.send_replace(ReplayState::Ended);
    }
}
