//! The line of one process: its network, its number, the versions that it has seen.
//!
//! ```text
//! Wire (requests), Hearing (watches) ─▶ Line { Link, Hub, Seen } ─▶ orders to the run
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use super::hub::{Hub, Order};
use super::plan::Mishap;
use super::seen::Seen;
use super::trace::Who;
use crate::control::{Network, ProxyMode};
use crate::link::Link;

/// The line of one process.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) link: Link,
    pub(crate) hub: Arc<Hub>,
    pub(crate) process: usize,
    seen: Mutex<Seen>,
}

impl Line {
    /// The line of the process with this number.
    pub(crate) fn new(hub: &Arc<Hub>, link: Link, process: usize) -> Self {
        Self {
            link,
            hub: Arc::clone(hub),
            process,
            seen: Mutex::default(),
        }
    }

    /// The process, as an actor of the trace.
    pub(crate) fn who(&self) -> Who {
        Who::Operator(self.process)
    }

    /// Reads or changes the versions that the process has seen.
    pub(crate) fn see<T>(&self, with: impl FnOnce(&mut Seen) -> T) -> T {
        with(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Refuses connections until the run mends the network.
    pub(crate) fn refuse(&self, mishap: Mishap) {
        self.link.set(ProxyMode::Refuse);
        self.link.cut();
        self.hub.order(Order::Meet(self.process, mishap));
    }
}
