//! The one door through which time and chance enter.
//!
//! ```text
//! tokio's clock, the wall clock, the system's randomness → Env → instants and jitter for the machines
//! ```
//!
//! Nothing else in this crate reads a clock or draws a number. Under tokio's paused time and with
//! [`Env::seeded`], a run is a function of its inputs, so a failing test replays.
//! Never: a global. Each informer holds a clone of the environment of its factory.
//!
//! Upstream counterpart: `k8s.io/utils:clock` (injected in places) and `math/rand` (global there).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kinform_core::time::Instant;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Clocks and randomness, cheap to clone; clones share one sequence of random numbers.
#[derive(Clone)]
pub struct Env {
    start: tokio::time::Instant,
    random: Arc<Mutex<SmallRng>>,
}

impl Env {
    /// The real clocks and system randomness.
    pub fn system() -> Self {
        Self::with(SmallRng::from_os_rng())
    }

    /// The runtime's clock (which tests can pause) and a reproducible sequence of random numbers.
    pub fn seeded(seed: u64) -> Self {
        Self::with(SmallRng::seed_from_u64(seed))
    }

    fn with(random: SmallRng) -> Self {
        Self {
            start: tokio::time::Instant::now(),
            random: Arc::new(Mutex::new(random)),
        }
    }

    /// Now, for machines.
    #[inline]
    pub fn now(&self) -> Instant {
        Instant::from_start(self.start.elapsed())
    }

    /// A number in `[0, 1)`.
    pub fn jitter(&self) -> f64 {
        // A poisoned lock only says that some thread panicked while drawing: the state is a number.
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
    /// Cancel safety: dropping it forgets the wake-up, nothing else.
    pub async fn sleep_until(&self, at: Instant) {
        match self.start.checked_add(at.since_start()) {
            // tokio's timer ends in about two years; a later instant is never reached.
            Some(when) if at.since_start() < FAR => tokio::time::sleep_until(when).await,
            _ => std::future::pending().await,
        }
    }
}

/// Sleeps longer than this are for ever.
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

/// The time of day, for what people and other machines read (a `Retry-After` date, a line's time).
pub fn wall_clock() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
