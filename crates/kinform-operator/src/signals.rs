//! Signals of the process: the first one asks it to stop, the second ends it at once.
//!
//! ```text
//! SIGTERM, SIGINT → token cancelled; a second one → exit 1
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/manager/signals`.

use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind};

/// The exit code of a process that a second signal ends, as upstream's.
const FORCED: i32 = 1;

/// Signals that are listened for from now on.
#[derive(Debug)]
pub(crate) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Begins to listen: from here on a signal does not end the process by itself.
    #[cfg(unix)]
    pub(crate) fn listen() -> Result<Self, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Error::new(ErrorKind::Config, "cannot listen for signals").with_cause(error)
            })
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn listen() -> Result<Self, Error> {
        Ok(Self {})
    }

    /// Cancels `stop` at the first signal and ends the process at the second. Never returns.
    pub(crate) async fn follow(mut self, stop: CancellationToken) {
        self.next().await;
        tracing::info!("stopping; another signal ends the process at once");
        stop.cancel();
        self.next().await;
        tracing::warn!("stopped by a second signal: running reconciles were not waited for");
        std::process::exit(FORCED);
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
