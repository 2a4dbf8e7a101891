//! The latency from a write to its reconcile, as a subject records it.
//!
//! ```text
//! object written at T (its annotation says so) ─▶ reconciled ─▶ now - T ─▶ percentiles
//! ```
//!
//! The writer is the bench, which puts objects into an embedded server at a steady pace. Both
//! clocks are the machine's.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio_util::sync::CancellationToken;

use crate::row::Reading;

/// The annotation: microseconds since 1970.
pub const WRITTEN: &str = "bench/written";

/// Latencies, until there are as many as objects.
#[derive(Debug)]
pub struct Latencies {
    wanted: usize,
    micros: Mutex<Vec<f64>>,
    /// Cancelled when the last object was reconciled.
    pub whole: CancellationToken,
}

/// Microseconds since 1970.
#[must_use]
pub fn now_micros() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_micros()
}

impl Latencies {
    /// Starts without a latency and expects `wanted` of them.
    #[must_use]
    pub fn new(wanted: usize) -> Self {
        Self {
            wanted,
            micros: Mutex::default(),
            whole: CancellationToken::new(),
        }
    }

    /// An object with these annotations is reconciled now. Each is written once.
    pub fn note(&self, annotations: Option<&BTreeMap<String, String>>) {
        let now = now_micros();
        let written = annotations.and_then(|annotations| annotations.get(WRITTEN));
        let Some(written) = written.and_then(|written| written.parse::<u128>().ok()) else {
            return;
        };
        let Ok(mut micros) = self.micros.lock() else {
            return;
        };
        micros.push(now.saturating_sub(written) as f64);
        if micros.len() >= self.wanted {
            self.whole.cancel();
        }
    }

    /// Percentiles.
    #[must_use]
    pub fn readings(&self) -> Vec<Reading> {
        let mut micros = self
            .micros
            .lock()
            .map(|micros| micros.clone())
            .unwrap_or_default();
        micros.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (micros.len().saturating_sub(1) as f64 * share) as usize;
            micros.get(place).copied().unwrap_or(f64::NAN)
        };
        vec![
            Reading::new("p50_us", "us", at(0.5)),
            Reading::new("p90_us", "us", at(0.9)),
            Reading::new("p99_us", "us", at(0.99)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_object_ends_it_and_others_do_not_count() {
        let latencies = Latencies::new(2);
        latencies.note(None);
        let written = |micros: u128| BTreeMap::from([(WRITTEN.to_owned(), micros.to_string())]);
        latencies.note(Some(&written(now_micros() - 500)));
        assert!(!latencies.whole.is_cancelled());
        latencies.note(Some(&written(now_micros() - 900_000_000)));
        assert!(latencies.whole.is_cancelled());
        let readings = latencies.readings();
        assert!(
            (500.0..60_000_000.0).contains(&readings[0].value),
            "{readings:?}"
        );
    }
}
