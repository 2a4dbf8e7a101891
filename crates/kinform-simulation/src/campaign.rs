//! Many seeds, on as many threads as there are processors.
//!
//! ```text
//! seeds ─▶ threads: script, play, one in a hundred twice ─▶ Summary { runs, reach } | the first failing script
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::finding::{Finding, Invariant};
use crate::generate;
use crate::reach::Reach;
use crate::run::{IS_EXACT, Keep, play};
use crate::shrink::Failing;

/// One run in this many is made twice.
const TWICE: u64 = 100;

/// The sums of many runs.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The runs.
    pub runs: u64,
    /// The runs that were made twice.
    pub twice: u64,
    /// The writes of users.
    pub writes: u64,
    /// The reconciles.
    pub reconciles: u64,
    /// The events of all traces.
    pub events: u64,
    /// The virtual time of all runs.
    pub lasted: Duration,
    /// The faults and the states that they met.
    pub reach: Reach,
    /// The failing script of the lowest seed that was found.
    pub failing: Option<Failing>,
    /// The time that it took.
    pub took: Duration,
}

/// Plays the scripts of these seeds, until one fails.
#[must_use]
pub fn run(first: u64, seeds: u64, threads: usize) -> Summary {
    let begun = Instant::now();
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut own = Summary::default();
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= seeds {
                        break;
                    }
                    one(first.wrapping_add(number), number, &mut own);
                    if own.failing.is_some() {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
                add(&total, own);
            });
        }
    });
    let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    total.took = begun.elapsed();
    total
}

fn one(seed: u64, number: u64, own: &mut Summary) {
    let script = generate::script(seed);
    let outcome = play(&script, Keep::Hash);
    own.runs += 1;
    own.writes += outcome.writes;
    own.reconciles += outcome.reconciles;
    own.events += outcome.events;
    own.lasted += outcome.lasted;
    own.reach.add(&outcome.reach);
    if let Some(finding) = outcome.finding {
        own.failing = Some(Failing { script, finding });
        return;
    }
    if IS_EXACT && number % TWICE == TWICE - 1 {
        own.twice += 1;
        let again = play(&script, Keep::Hash);
        if again.hash != outcome.hash {
            let what = format!(
                "two runs of one script: {:x} and {:x}",
                outcome.hash, again.hash
            );
            let finding = Finding {
                invariant: Invariant::I28,
                at: outcome.lasted,
                what,
            };
            own.failing = Some(Failing { script, finding });
        }
    }
}

fn add(total: &Mutex<Summary>, own: Summary) {
    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
    total.runs += own.runs;
    total.twice += own.twice;
    total.writes += own.writes;
    total.reconciles += own.reconciles;
    total.events += own.events;
    total.lasted += own.lasted;
    total.reach.add(&own.reach);
    let seed = |failing: &Option<Failing>| failing.as_ref().map_or(u64::MAX, |one| one.script.seed);
    if seed(&own.failing) < seed(&total.failing) {
        total.failing = own.failing;
    }
}
