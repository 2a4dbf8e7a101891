//! The waits of a run: until a step is complete, and at the end until nothing happens any more.
//!
//! ```text
//! step ─▶ settle: equal to the run without faults, or quiet ─▶ Stop       last step ─▶ rest
//! ```
//!
//! A step is complete when the server's state is that of the run without faults and stays so; without
//! one to compare with, when nobody has written for longer than any pause between two tries of a
//! controller.

use std::time::Duration;

use tokio::time::Instant;

use super::alarms::Alarms;
use super::finding::Finding;
use super::plan::Pace;
use super::run::{Run, Stop};
use super::spans::Failing;

/// The time without a write after which a state that is right is complete.
const QUIET: Duration = Duration::from_secs(5);
/// The same if there is no state to compare with: longer than a controller waits between tries.
const QUIET_ALONE: Duration = Duration::from_secs(11 * 60);
/// The time within which a faulty run must reach the state, after its faults.
const PATIENCE: Duration = Duration::from_secs(40 * 60);
/// The time at the end in which nothing may happen any more.
const REST: Duration = Duration::from_secs(10 * 60);
/// BOUND: those times that pass until an operator counts as restless after faults.
const RESTS: u32 = 3;
/// BOUND: what may go on while an operator rests: requests, and reconciles, in ten minutes.
const RESTING_REQUESTS: u64 = 600;
const RESTING_RECONCILES: u64 = 6_000;

impl Run<'_> {
    /// Waits until a step is complete; `None` if the operator's write of the number `until` is
    /// answered before.
    pub(super) async fn settle(
        &mut self,
        step: usize,
        expected: Option<&[Stop]>,
        until: Option<usize>,
    ) -> Result<Option<Stop>, Finding> {
        let begun = Instant::now();
        let mut compared = None;
        let mut last = Vec::new();
        loop {
            let is_young = begun.elapsed() < QUIET * 2;
            let tick = Duration::from_millis(if is_young { 250 } else { 2_000 });
            self.turn(tick).await?;
            if until.is_some_and(|write| self.answered >= write) {
                return Ok(None);
            }
            let quiet = self.changed.elapsed();
            let stop = || Stop {
                picture: self.picture(),
                whole: expected.is_none().then(|| self.picture_after(0)),
                tally: self.census.tally().clone(),
            };
            let is_rushed = self.hub.plan().pace != Pace::Settled;
            match expected.and_then(|stops| stops.get(step)) {
                None if quiet >= QUIET_ALONE => {
                    self.is_stuck(step)?;
                    return Ok(Some(stop()));
                }
                Some(expected)
                    if quiet >= QUIET && self.is_peaceful() && compared != Some(self.changes) =>
                {
                    compared = Some(self.changes);
                    let stop = stop();
                    last = stop.picture.differences(&expected.picture);
                    if last.is_empty() {
                        return match is_rushed {
                            // How often depends on which steps the operator saw.
                            true => Ok(Some(stop)),
                            false => self.counted(step, stop, expected).map(Some),
                        };
                    }
                }
                _ => {}
            }
            if begun.elapsed() > PATIENCE {
                return Err(match expected {
                    Some(_) if self.changed.elapsed() > QUIET => Finding::Differs {
                        step: self.named(step),
                        differences: last,
                    },
                    _ => Finding::Restless(format!(
                        "{} minutes after {} objects still change",
                        PATIENCE.as_secs() / 60,
                        self.named(step)
                    )),
                });
            }
        }
    }

    /// Looks, in a run without faults, for a reconcile that fails again and again, and a write that is
    /// refused as invalid again and again meanwhile: the error of an operator that waits for something
    /// is right.
    fn is_stuck(&self, step: usize) -> Result<(), Finding> {
        let trace = self.hub.trace();
        let is_refused = || trace.invalid_within(QUIET_ALONE).is_some();
        let failing = match self.hub.plan().is_clean() {
            true => Alarms::failing(),
            false => None,
        };
        match failing.filter(|_| is_refused()) {
            Some(Failing { of, times, error }) => Err(Finding::Stuck {
                step: self.named(step),
                of,
                times,
                error,
            }),
            None => Ok(()),
        }
    }

    /// Compares how often objects were created and deleted. An operator that has been sent back in
    /// time may bring back what it had deleted, until it hears again that it must go.
    fn counted(&self, step: usize, stop: Stop, expected: &Stop) -> Result<Stop, Finding> {
        let mut counts = stop.tally.differences(&expected.tally);
        if self.hub.plan().goes_back() {
            counts.retain(|one| expected.picture.has(&one.about));
        }
        match counts.is_empty() {
            true => Ok(stop),
            false => Err(Finding::Miscounted {
                step: self.named(step),
                counts,
            }),
        }
    }

    /// Waits at the end: nothing may happen any more. An informer that was cut off connects again
    /// after its own backoff, and until then a controller may write for an object that is gone: an
    /// operator is restless if it is so in each of some periods.
    pub(super) async fn rest(&mut self, expected: Option<&[Stop]>) -> Result<(), Finding> {
        let mut periods = 1;
        while let Err(finding) = self.rest_for(REST).await? {
            if self.hub.plan().is_clean() || periods == RESTS {
                return Err(finding);
            }
            periods += 1;
        }
        if let Some(last) = expected.and_then(|stops| stops.last()) {
            let differences = self.picture().differences(&last.picture);
            if !differences.is_empty() {
                let step = self.named(self.scenario.steps.len().saturating_sub(1));
                return Err(Finding::Differs { step, differences });
            }
        }
        Ok(())
    }

    /// Lets a period pass; the inner error says what went on in it.
    async fn rest_for(&mut self, period: Duration) -> Result<Result<(), Finding>, Finding> {
        let before = (self.hub.requests(), Alarms::reconciles());
        let from = self.hub.trace().entries().len();
        let begun = Instant::now();
        while begun.elapsed() < period {
            self.turn(Duration::from_secs(5)).await?;
        }
        let requests = self.hub.requests() - before.0;
        let reconciles = Alarms::reconciles() - before.1;
        let (count, what) = match () {
            () if requests > RESTING_REQUESTS => (requests, "requests"),
            () if reconciles > RESTING_RECONCILES => (reconciles, "reconciles"),
            () => return Ok(Ok(())),
        };
        let minutes = period.as_secs() / 60;
        let mut how =
            format!("{count} {what} in {minutes} minutes without a change by anybody else");
        if let Some((write, times)) = self.hub.trace().most_frequent(from) {
            how.push_str(&format!("; {times} times {write}"));
        }
        Ok(Err(Finding::Restless(how)))
    }
}
