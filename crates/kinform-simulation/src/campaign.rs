//! Many seeds, on as many threads as there are processors.
//!
//! ```text
//! seeds ─▶ threads: script, play, one in a hundred twice ─▶ Summary { runs, reach } | the first failing script
//! ```
//!
//! A seed that blocks its thread ends the campaign: its thread cannot be stopped, so it is left. So
//! does one whose thread panics outside of what a run catches.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::finding::{Finding, Invariant};
use crate::generate;
use crate::reach::Reach;
use crate::run::{IS_EXACT, Keep, play};
use crate::shrink::Failing;

/// One run in this many is made twice.
const TWICE: u64 = 100;
/// BOUND: the real time of a seed: a thousand times the usual one, for machines that are busy.
pub const LIMIT: Duration = Duration::from_secs(600);
/// The real time between two looks at the threads.
const LOOK: Duration = Duration::from_secs(1);

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
    /// The caches that went on from what was on disk, without a list.
    pub resumed: u64,
    /// The events of all traces.
    pub events: u64,
    /// The virtual time of all runs.
    pub lasted: Duration,
    /// The faults and the states that they met.
    pub reach: Reach,
    /// The failing script of the lowest seed that was found.
    pub failing: Option<Failing>,
    /// A seed that did not end.
    pub unended: Option<u64>,
    /// The time that it took.
    pub took: Duration,
}

/// The state that the threads of a campaign share.
struct Campaign {
    first: u64,
    seeds: u64,
    next: AtomicU64,
    stop: AtomicBool,
    /// The seed of each thread, and the time at which it began.
    at: Mutex<Vec<Option<(u64, Instant)>>>,
}

/// Plays the scripts of these seeds, until one fails.
#[must_use]
pub fn run(first: u64, seeds: u64, threads: usize) -> Summary {
    let begun = Instant::now();
    let threads = threads.max(1);
    let campaign = Arc::new(Campaign {
        first,
        seeds,
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        at: Mutex::new(vec![None; threads]),
    });
    let (done, ended) = mpsc::channel();
    for thread in 0..threads {
        let (campaign, done) = (Arc::clone(&campaign), done.clone());
        std::thread::spawn(move || campaign.play(thread, &done));
    }
    drop(done);
    let mut total = Summary::default();
    loop {
        match ended.recv_timeout(LOOK) {
            Ok(own) => add(&mut total, own),
            Err(RecvTimeoutError::Disconnected) => {
                // Each thread has ended: a seed that has not died with one.
                total.unended = campaign.at_work(Duration::ZERO);
                break;
            }
            Err(RecvTimeoutError::Timeout) => total.unended = campaign.at_work(LIMIT),
        }
        if total.unended.is_some() {
            break;
        }
    }
    total.took = begun.elapsed();
    total
}

impl Campaign {
    fn play(&self, thread: usize, done: &Sender<Summary>) {
        let mut own = Summary::default();
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.seeds {
                break;
            }
            let seed = self.first.wrapping_add(number);
            self.at()[thread] = Some((seed, Instant::now()));
            one(seed, number, &mut own);
            self.at()[thread] = None;
            if own.failing.is_some() {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        // A campaign that has ended needs it no more.
        let _ = done.send(own);
    }

    fn at(&self) -> MutexGuard<'_, Vec<Option<(u64, Instant)>>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seed that began at least this time ago, and has not ended.
    fn at_work(&self, since: Duration) -> Option<u64> {
        let at = self.at();
        let mut seeds = at.iter().flatten();
        let (seed, _) = seeds.find(|(_, begun)| begun.elapsed() >= since)?;
        Some(*seed)
    }
}

fn one(seed: u64, number: u64, own: &mut Summary) {
    let script = generate::script(seed);
    let outcome = play(&script, Keep::Hash);
    own.runs += 1;
    own.writes += outcome.writes;
    own.reconciles += outcome.reconciles;
    own.resumed += outcome.resumed;
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

fn add(total: &mut Summary, own: Summary) {
    total.runs += own.runs;
    total.twice += own.twice;
    total.writes += own.writes;
    total.reconciles += own.reconciles;
    total.resumed += own.resumed;
    total.events += own.events;
    total.lasted += own.lasted;
    total.reach.add(&own.reach);
    let seed = |failing: &Option<Failing>| failing.as_ref().map_or(u64::MAX, |one| one.script.seed);
    if seed(&own.failing) < seed(&total.failing) {
        total.failing = own.failing;
    }
}
