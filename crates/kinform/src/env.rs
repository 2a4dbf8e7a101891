//! The single source of time and randomness.
//!
//! ```text
//! tokio's clock, the wall clock, the system's randomness → Env → instants, jitter for machines
//! ```
//!
//! No other code in this crate reads a clock or draws a number. Under tokio's paused time and with
//! [`Env::seeded`], a run is a function of its inputs, so a failing test replays.
//! Never: a global. Each informer holds a clone of the environment of its factory.
//!
//! Upstream counterpart: `k8s.io/utils:clock` (injected in places) and `math/rand` (global there).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kinform_core::time::Instant;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng, TryRngCore};
use tokio::task::JoinError;

use crate::error::{Error, ErrorKind};

/// Clocks and randomness, cheap to clone; clones share one sequence of random numbers.
#[derive(Clone)]
pub struct Env {
    start: tokio::time::Instant,
    random: Arc<Mutex<SmallRng>>,
    /// The speed of its clock; 1 but for replays.
    speed: f64,
}

/// BOUND: the speeds of a clock. At a higher one, the time of a computation would be minutes.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.01..=10_000.0;

impl Env {
    /// The real clocks and system randomness; on a thread that simulates, the numbers of its seed.
    pub fn system() -> Self {
        match kinform_api::simulated::next() {
            Some(seed) => Self::seeded(seed),
            None => Self::with(SmallRng::from_os_rng()),
        }
    }

    /// The runtime's clock (which tests can pause) and a reproducible sequence of random numbers.
    pub fn seeded(seed: u64) -> Self {
        Self::with(SmallRng::seed_from_u64(seed))
    }

    fn with(random: SmallRng) -> Self {
        Self {
            start: tokio::time::Instant::now(),
            random: Arc::new(Mutex::new(random)),
            speed: 1.0,
        }
    }

    /// The same, with a clock that goes `factor` times as fast, between 0.01 and 10,000: timeouts,
    /// back-off and the times of a [replay](crate::recording::ReplaySource) pass at this speed. For
    /// clients of real servers it is of no use. What is not a number counts as 1.
    #[must_use]
    pub fn with_speed(self, factor: f64) -> Self {
        let factor = if factor.is_nan() { 1.0 } else { factor };
        Self {
            speed: factor.clamp(*SPEEDS.start(), *SPEEDS.end()),
            ..self
        }
    }

    /// Now, for machines.
    #[inline]
    pub fn now(&self) -> Instant {
        let elapsed = self.start.elapsed();
        match self.is_real() {
            true => Instant::from_start(elapsed),
            false => Instant::from_start(elapsed.mul_f64(self.speed)),
        }
    }

    /// A number in `[0, 1)`.
    pub fn jitter(&self) -> f64 {
        // A poisoned lock only means that a thread panicked while drawing: the state is a number.
        self.random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .random()
    }

    /// A seed for a machine that draws its own numbers.
    pub fn seed(&self) -> u64 {
        self.random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .random()
    }

    /// Waits until `at`; for ever if it is [`Instant::FAR_FUTURE`].
    ///
    /// Cancel safety: dropping it only cancels the wake-up.
    pub async fn sleep_until(&self, at: Instant) {
        match self.deadline(at) {
            Some(when) => tokio::time::sleep_until(when).await,
            None => std::future::pending().await,
        }
    }

    /// A timer for repeated waits, mostly with a later deadline.
    pub(crate) fn alarm(&self) -> Alarm {
        Alarm {
            env: self.clone(),
            set: None,
        }
    }

    /// An instant for the runtime's timer, which ends in about two years; `None` from [`FAR`] on.
    fn deadline(&self, at: Instant) -> Option<tokio::time::Instant> {
        let near = Some(at.since_start()).filter(|after| *after < FAR)?;
        match self.is_real() {
            true => self.start.checked_add(near),
            // Rounded up: once it is reached, the instant is.
            false => self
                .start
                .checked_add(near.div_f64(self.speed) + Duration::from_micros(1)),
        }
    }

    fn is_real(&self) -> bool {
        self.speed.to_bits() == 1.0_f64.to_bits()
    }
}

/// A timer that is set far more often than it fires.
///
/// Setting one of the runtime's timers wakes the thread that waits for sockets: doing so for each
/// piece of a body keeps a second processor busy without use. So one timer is kept; if it would
/// fire too early it is left alone, and set anew when it fires.
pub(crate) struct Alarm {
    env: Env,
    /// The runtime's timer, and its deadline.
    set: Option<(Instant, Pin<Box<tokio::time::Sleep>>)>,
}

impl Alarm {
    /// Waits until `at`; for ever if it is [`Instant::FAR_FUTURE`].
    ///
    /// Cancel safety: dropping it loses nothing; the next call states the deadline again.
    pub(crate) async fn until(&mut self, at: Instant) {
        let Some(deadline) = self.env.deadline(at) else {
            return std::future::pending().await;
        };
        loop {
            let (until, timer) = self
                .set
                .get_or_insert_with(|| (at, Box::pin(tokio::time::sleep_until(deadline))));
            if *until > at || timer.is_elapsed() {
                timer.as_mut().reset(deadline);
                *until = at;
            }
            timer.await;
            if self.env.now() >= at {
                return;
            }
        }
    }
}

/// An instant this long after the start of the environment, or later, is never reached.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl Default for Env {
    fn default() -> Self {
        Self::system()
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

/// Fails outside a tokio runtime.
pub(crate) fn in_runtime() -> Result<(), Error> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::new(
            ErrorKind::Invalid,
            "this needs a tokio runtime: call it inside async code",
        )
        .with_cause(error)),
    }
}

/// Does work that may block on a thread for it. A thread that simulates does it by itself, so that its seed
/// decides what happens meanwhile.
///
/// # Errors
/// The work panicked.
///
/// # Cancel safety
/// Nobody waits for the work any more; what has begun goes on.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    match kinform_api::simulated::is_on() {
        true => tokio::spawn(async { work() }).await,
        false => tokio::task::spawn_blocking(work).await,
    }
}

/// Bytes for a key that nobody else has, from the system; never those of a seed.
///
/// # Errors
/// The system has no source of random bytes.
pub(crate) fn secret() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    rand::rngs::OsRng
        .try_fill_bytes(&mut bytes)
        .map_err(|error| Error::new(ErrorKind::Config, "no random bytes").with_cause(error))?;
    Ok(bytes)
}

/// The time of day, for people and other machines (a `Retry-After` date, a line's time).
pub fn wall_clock() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_alarm_rings_at_the_time_set_last() {
        let env = Env::seeded(1);
        let mut alarm = env.alarm();
        let mut rings_at = async |at: u64| alarm.until(Instant::from_millis(at)).now_or_never();
        // Each line: the time that passes, the deadline, whether the timer fires.
        for (later, at, rings) in [
            (0, 50, false),
            (10, 100, false),
            // Set to 50, which has passed: it is not yet 100.
            (50, 100, false),
            (39, 100, false),
            (1, 100, true),
            // It has fired: its deadline lies behind.
            (0, 300, false),
            (100, 250, false),
            (50, 250, true),
            (0, 60_000, false),
            // Earlier than its deadline.
            (50, 300, true),
            (0, 10, true),
        ] {
            advance(Duration::from_millis(later)).await;
            let has_rung = rings_at(at).await.is_some();
            assert_eq!(has_rung, rings, "until {at} at {:?}", env.now());
        }
        assert!(alarm.until(Instant::FAR_FUTURE).now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_at_another_speed_is_never_early() {
        for speed in [0.01, 0.3, 7.0, 60.0, 9_999.0] {
            let env = Env::seeded(1).with_speed(speed);
            for step in 1..50_u64 {
                let at = Instant::from_millis(step * step * 7_919);
                let before = tokio::time::Instant::now();
                env.alarm().until(at).await;
                assert!(env.now() >= at, "{speed}");
                env.sleep_until(at).await;
                let most = at.since_start().div_f64(speed) + Duration::from_millis(2);
                assert!(before.elapsed() <= most, "{speed}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_that_is_moved_later_sets_no_timer_and_rings_in_time() {
        let env = Env::seeded(1);
        let mut alarm = env.alarm();
        let first = Instant::from_millis(100);
        for at in 100..200 {
            let rung = alarm.until(Instant::from_millis(at)).now_or_never();
            assert!(rung.is_none());
            assert_eq!(alarm.set.as_ref().map(|set| set.0), Some(first));
        }
        let last = Instant::from_millis(200);
        alarm.until(last).await;
        assert!(env.now() >= last && env.now() < last + Duration::from_millis(2));
    }
}
