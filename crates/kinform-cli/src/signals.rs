//! Ctrl-C and SIGTERM.
//!
//! ```text
//! SIGINT → Interrupted (130)    SIGTERM → Terminated (143)    a second one → immediate exit
//! ```
//!
//! Upstream counterpart: kubernetes-sigs/controller-runtime:pkg/manager/signals.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Ending, Failure};

/// Both signals, from its creation on.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts listening.
    ///
    /// # Errors
    /// The system has no signal handlers left.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the first of them.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn ending(&mut self) -> Ending {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Ending::Interrupted,
            _ = self.terminate.recv() => Ending::Terminated,
        }
    }

    /// From now on a signal ends the process immediately: the user does not want to wait.
    pub(crate) fn end_at_next(mut self) {
        tokio::spawn(async move {
            let ending = self.ending().await;
            std::process::exit(i32::from(ending.code()));
        });
    }
}
