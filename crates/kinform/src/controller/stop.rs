//! The end of a controller: a token, or the process's signals.
//!
//! ```text
//! CancellationToken | SIGTERM, SIGINT, ctrl-c → asked: no new work
//! a second signal → forced: no more waiting
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/manager/signals`, where the second signal ends the
//! process; here it ends the waiting: `run` drops the running reconciles and returns an error.

use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind};

/// The causes that stop a controller: its token, or a signal.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) token: CancellationToken,
    pub(super) signals: Option<Signals>,
}

impl Stop {
    /// Waits until the controller is to end. Cancel safety: nothing is lost.
    pub(super) async fn asked(&mut self) {
        let signal = next_of(&mut self.signals);
        tokio::select! {
            biased;
            () = self.token.cancelled() => {}
            () = signal => {}
        }
    }

    /// Waits until the controller is to end immediately.
    pub(super) async fn forced(&mut self) {
        next_of(&mut self.signals).await;
    }
}

async fn next_of(signals: &mut Option<Signals>) {
    match signals {
        Some(signals) => signals.next().await,
        None => std::future::pending().await,
    }
}

/// The signals that ask a process to end: SIGTERM and SIGINT, or ctrl-c.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Begins to listen: from here on such a signal does not end the process by itself.
    ///
    /// # Errors
    /// The system refuses, or the caller is outside of a tokio runtime's I/O.
    #[cfg(unix)]
    pub fn listen() -> Result<Self, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            let failed = |error| {
                Error::new(ErrorKind::Config, "cannot listen for signals").with_cause(error)
            };
            signal(kind).map_err(failed as fn(std::io::Error) -> Error)
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Begins to listen for ctrl-c.
    ///
    /// # Errors
    /// Never, on this system.
    #[cfg(not(unix))]
    pub fn listen() -> Result<Self, Error> {
        Ok(Self {})
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for the next ctrl-c.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
