//! The environment of the included work queue: time is the scenario's.

use kinform_core::time::Instant;

use crate::time;

/// The clock.
#[derive(Clone, Debug, Default)]
pub struct Env;

impl Env {
    /// The only one there is.
    #[must_use]
    pub fn system() -> Self {
        Self
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Instant {
        time::now()
    }

    /// Waits for a timer.
    pub async fn sleep_until(&self, at: Instant) {
        time::sleep_until(at).await;
    }
}
