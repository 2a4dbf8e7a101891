//! The faults that the demo causes on its own server, and their times.
//!
//! ```text
//! time passed, keys pressed → cut every watch | expire history → a notice
//! ```
//!
//! Each run causes both once, whether it lasts long enough or not.

use std::time::Duration;

use super::stage::Stage;
use super::view::Wish;

/// The times of the acts without a limit.
const CUT_AFTER: Duration = Duration::from_secs(8);
const EXPIRE_AFTER: Duration = Duration::from_secs(16);

/// The acts still to come.
#[derive(Debug)]
pub(crate) struct Acts {
    cut_at: Option<Duration>,
    expire_at: Option<Duration>,
}

impl Acts {
    /// The acts of a run: with a limit, at a third and two thirds of it.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        match limit {
            Some(limit) => Self {
                cut_at: Some(limit / 3),
                expire_at: Some(limit / 3 * 2),
            },
            None => Self {
                cut_at: Some(CUT_AFTER),
                expire_at: Some(EXPIRE_AFTER),
            },
        }
    }

    /// Performs the acts that are due or requested.
    pub(crate) async fn play(
        &mut self,
        passed: Duration,
        wish: Option<Wish>,
        stage: &Stage,
    ) -> Option<String> {
        if wish == Some(Wish::Cut) || self.cut_at.is_some_and(|at| passed >= at) {
            self.cut_at = None;
            return Some(cut(stage));
        }
        if wish == Some(Wish::Expire) || self.expire_at.is_some_and(|at| passed >= at) {
            self.expire_at = None;
            return Some(expire(stage).await);
        }
        None
    }

    /// Performs the acts that have not been done.
    pub(crate) async fn play_the_rest(&mut self, stage: &Stage) -> Option<String> {
        if self.cut_at.take().is_some() {
            cut(stage);
        }
        match self.expire_at.take() {
            Some(_) => Some(expire(stage).await),
            None => None,
        }
    }
}

fn cut(stage: &Stage) -> String {
    stage.cut();
    "every watch was cut: informers go on from the version they had reached".to_owned()
}

async fn expire(stage: &Stage) -> String {
    match stage.expire().await {
        Ok(()) => {
            "history expired and every watch was cut: informers whose version is gone list again"
                .to_owned()
        }
        Err(failure) => failure.to_string(),
    }
}
