//! A long run: hours of writes and trouble, without a start from nothing between.
//!
//! ```text
//! seed ─▶ five minutes of steps, again and again ─▶ each hour: faults end, everything agrees ─▶ Hour
//!                                                     └─▶ versions that nothing can show are forgotten
//! ```
//!
//! A short run cannot show state that grows by the hour. The storage is never restored here: a promise
//! about versions is forgiven after that, and would be for the rest of the run.
//!
//! Upstream counterpart: none.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::generate::{self, LENGTH};
use crate::run::{Keep, Outcome, Run, on_runtime, tasks};
use crate::script::Script;
use crate::shared::lock;

/// The parts of an hour.
const STRETCHES: u64 = 3_600_000 / LENGTH;

/// One look at the caches in this many steps: there are far more than in a short run.
const LOOK: u64 = 30;

/// The sums of a long run at the end of an hour, when everything agrees.
#[derive(Clone, Copy, Debug)]
pub struct Hour {
    /// The number of the hour, from 1 on.
    pub number: u64,
    /// The virtual time so far. Agreement takes some of it each hour, too.
    pub lasted: Duration,
    /// The writes of users that were done so far.
    pub writes: u64,
    /// The reconciles so far.
    pub reconciles: u64,
    /// The tasks that are alive.
    pub tasks: usize,
}

/// Plays hours of this many writes a second; tells of each hour that has ended.
#[must_use]
pub fn play(seed: u64, hours: u64, rate: u64, told: &mut dyn FnMut(Hour)) -> Outcome {
    let script = Script {
        steps: Vec::new(),
        ..generate::script(seed)
    };
    on_runtime(seed, async {
        let mut run = match Run::begin(&script, Keep::Last).await {
            Ok(run) => run,
            Err(failed) => return failed,
        };
        run.looks = LOOK;
        for number in 1..=hours {
            run.hour(number, rate).await;
            if !run.is_whole() {
                break;
            }
            told(run.summed_up(number));
        }
        if run.is_whole() {
            run.stop_all().await;
        }
        run.outcome().await
    })
}

impl Run<'_> {
    async fn hour(&mut self, number: u64, rate: u64) {
        self.shared.roughen();
        let writes = rate * LENGTH / 1000;
        let first = (number - 1) * STRETCHES;
        for part in first..first + STRETCHES {
            let seed = (self.script.seed, part);
            let steps = generate::stretch(seed, &self.script.settings, writes);
            let begun = Instant::now();
            self.steps(&steps, begun).await;
            self.until(begun + Duration::from_millis(LENGTH)).await;
        }
        if !self.is_whole() {
            return;
        }
        self.agree().await;
        if self.is_whole() {
            // Every cache and handler has reached this revision, and every cleanup is done.
            let revision = self.cluster.store().revision();
            self.shared.history().forget(revision);
            // A disk may have states from before: those of a namespace that nobody watches now.
            self.shared.clear_disks();
            lock(&self.shared.cleaned).clear();
        }
    }

    fn summed_up(&self, number: u64) -> Hour {
        Hour {
            number,
            lasted: self.shared.now(),
            writes: self.cluster.writes(),
            reconciles: self.shared.reconciles.load(Ordering::Relaxed),
            tasks: tasks(),
        }
    }
}
