//! The clock that terms are counted by: time is the scenario's.

use kinform_core::time::Instant;

use crate::time;

/// The clock of one election.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock;

impl Clock {
    pub(super) fn now(self) -> Instant {
        time::now()
    }

    pub(super) async fn sleep_until(self, at: Instant) {
        while self.now() < at {
            time::sleep_until(at).await;
        }
    }
}
