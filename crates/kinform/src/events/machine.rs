//! The decisions about events, of either API.
//!
//! ```text
//! Occurrence → Machine (correlator │ series) → Telling → request → failed, begin_anew
//! ```

use kinform_core::time::Instant;

use super::correlator::Correlator;
use super::occurrence::Occurrence;
use super::series::Series;
use super::telling::{Heard, Telling, Verb};

/// The decisions of one of the two APIs.
#[derive(Debug)]
pub(super) enum Machine {
    Core(Correlator),
    Series(Series),
}

impl Machine {
    pub(super) fn hear(&mut self, occurrence: Occurrence, now: Instant) -> Heard {
        match self {
            Self::Core(correlator) => correlator.hear(occurrence, now),
            Self::Series(series) => series.hear(occurrence, now),
        }
    }

    /// The server does not have an event that was to be patched: creates it.
    pub(super) fn begin_anew(&mut self, telling: &mut Telling) {
        match self {
            Self::Core(correlator) => correlator.begin_anew(telling),
            Self::Series(_) => telling.verb = Verb::Create,
        }
    }

    /// The request failed: the next equal event begins anew.
    pub(super) fn failed(&mut self, telling: &Telling) {
        match self {
            Self::Core(correlator) => correlator.failed(telling),
            Self::Series(series) => series.failed(telling),
        }
    }

    /// The time at which [`Machine::due`] may return requests.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        match self {
            Self::Core(_) => None,
            Self::Series(series) => series.next_wake(),
        }
    }

    /// The requests that are due because time passed.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Telling> {
        match self {
            Self::Core(_) => Vec::new(),
            Self::Series(series) => series.due(now),
        }
    }

    /// The requests that are due at the end.
    pub(super) fn end(&mut self) -> Vec<Telling> {
        match self {
            Self::Core(_) => Vec::new(),
            Self::Series(series) => series.end(),
        }
    }
}
