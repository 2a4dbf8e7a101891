//! Signals of the process: the first one asks it to stop, the second ends it at once.
//!
//! ```text
//! SIGTERM, SIGINT → token cancelled; a second one → exit 1
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/manager/signals`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use kinform::controller::Signals;
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// The exit code of a process that a second signal ends, as upstream's.
const FORCED: i32 = 1;

/// The stop of a program whose main function is ours.
static EARLY: OnceLock<Early> = OnceLock::new();

#[derive(Debug, Default)]
struct Early {
    stop: CancellationToken,
    is_adopted: AtomicBool,
}

/// Listens from here on: a process with the number 1 would not hear a signal otherwise. Must be
/// called inside a tokio runtime, which then has a task for it.
pub(crate) fn listen_early() -> Result<(), Error> {
    let signals = Signals::listen()?;
    let early = EARLY.get_or_init(Early::default);
    // Its owner is the process.
    drop(tokio::spawn(follow(signals, early.stop.clone())));
    Ok(())
}

/// Waits for a signal before an operator runs; for ever if one does.
pub(crate) async fn before_the_run() {
    if let Some(early) = EARLY.get() {
        early.stop.cancelled().await;
        if !early.is_adopted.load(Ordering::Acquire) {
            return;
        }
    }
    std::future::pending().await
}

/// The stop that signals ask for, if they are listened for already.
pub(crate) fn adopt() -> Option<CancellationToken> {
    let early = EARLY.get()?;
    early.is_adopted.store(true, Ordering::Release);
    Some(early.stop.clone())
}

/// Cancels `stop` at the first signal and ends the process at the second. Never returns.
pub(crate) async fn follow(mut signals: Signals, stop: CancellationToken) {
    signals.next().await;
    tracing::info!("stopping; another signal ends the process at once");
    stop.cancel();
    signals.next().await;
    tracing::warn!("stopped by a second signal: running reconciles were not waited for");
    std::process::exit(FORCED);
}
