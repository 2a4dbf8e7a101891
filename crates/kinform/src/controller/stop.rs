//! The end of a controller: a token, or the process's signals.
//!
//! ```text
//! CancellationToken | SIGTERM, SIGINT, ctrl-c → asked: no new work
//! a second signal → forced: no more waiting
//! one within 100 ms of the last → its echo: nothing
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/manager/signals`, where the second signal ends the
//! process; here it ends the waiting: `run` drops the running reconciles and returns an error.

use std::time::Duration;

use kinform_core::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::env::Env;
use crate::error::{Error, ErrorKind};

/// BOUND: the time after a signal in which another one is its echo. `timeout` of GNU signals the
/// program and then the program's group, some milliseconds later; people need longer for two.
const ECHO: Duration = Duration::from_millis(100);

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
    env: Env,
    echoes: Echoes,
}

/// A clock. Nothing here needs random numbers.
fn clock() -> Env {
    Env::seeded(0)
}

/// Tells a signal from the echo of the last one.
#[derive(Debug, Default)]
struct Echoes {
    last: Option<Instant>,
}

impl Echoes {
    /// Returns whether a signal that is received now is an echo of the last one that was none.
    fn is_echo(&mut self, now: Instant) -> bool {
        if self.last.is_some_and(|last| now.since(last) < ECHO) {
            return true;
        }
        self.last = Some(now);
        false
    }
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
            env: clock(),
            echoes: Echoes::default(),
        })
    }

    /// Begins to listen for ctrl-c.
    ///
    /// # Errors
    /// Never, on this system.
    #[cfg(not(unix))]
    pub fn listen() -> Result<Self, Error> {
        Ok(Self {
            env: clock(),
            echoes: Echoes::default(),
        })
    }

    /// Waits for the next signal. One that is received within 100 ms of the last is taken as its
    /// echo, and dropped.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) {
        loop {
            self.arrival().await;
            if !self.echoes.is_echo(self.env.now()) {
                return;
            }
        }
    }

    #[cfg(unix)]
    async fn arrival(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn arrival(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_right_after_another_is_its_echo() {
        let began = Instant::ZERO;
        let mut echoes = Echoes::default();
        // Milliseconds since the first one. Echoes of echoes do not put off a second signal.
        let arrivals = [
            (0, false),
            (4, true),
            (90, true),
            (150, false),
            (249, true),
            (250, false),
        ];
        for (at, is_echo) in arrivals {
            let now = began + Duration::from_millis(at);
            assert_eq!(echoes.is_echo(now), is_echo, "at {at} ms");
        }
    }
}
