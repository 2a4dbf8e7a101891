//! Waits that end.
//!
//! ```text
//! a look ─▶ something: it │ nothing: a pause, and again ─▶ too late: an error with the log
//! ```

use std::time::{Duration, Instant};

use crate::StageError;

/// BOUND: the time for anything to happen; a watcher of kube-runtime pauses for up to 30 seconds.
const PATIENCE: Duration = Duration::from_secs(90);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until there is something.
///
/// # Errors
/// A look failed, or there is nothing in time; then the message has the log.
pub async fn until<T, F: Future<Output = Result<Option<T>, StageError>>>(
    what: &str,
    log: impl Fn() -> String,
    mut look: impl FnMut() -> F,
) -> Result<T, StageError> {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("waited in vain: {what}:\n{}", log()).into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
