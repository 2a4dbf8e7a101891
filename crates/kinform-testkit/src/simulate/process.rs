//! One copy of the operator: it runs, stands still, ends, and starts again.
//!
//! ```text
//! Program (the user's function) + Wire ─spawn─▶ task ─▶ End { how } ─▶ the run
//! ```
//!
//! A copy that is ended is dropped at once, without a chance to clean up, and its network with it.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube_client::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::wire::Wire;

/// The user's operator: what it returned, in words.
pub(crate) type Program = Arc<dyn Fn(Client) -> BoxFuture<'static, String> + Send + Sync>;

/// The end of a copy that nobody ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) number: usize,
    /// The start of this copy: an end of an earlier one is old news.
    pub(crate) start: u64,
    /// Its result in words, or the message of its panic.
    pub(crate) how: Result<String, String>,
}

/// A copy of the operator that runs.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) wire: Wire,
    pub(crate) start: u64,
    task: AbortHandle,
    stands: watch::Sender<bool>,
}

impl Process {
    /// Starts a copy.
    pub(crate) fn spawn(
        program: &Program,
        wire: Wire,
        (number, start): (usize, u64),
        ends: mpsc::UnboundedSender<End>,
    ) -> Self {
        let client = wire.client();
        let program = Arc::clone(program);
        let (stands, standing) = watch::channel(false);
        let task = tokio::spawn(async move {
            let operator = async { program(client).await };
            let operator = AssertUnwindSafe(while_moving(operator, standing)).catch_unwind();
            let how = operator.await.map_err(|panic| message(&*panic));
            // A run that has ended asks for no end.
            let _ = ends.send(End { number, start, how });
        });
        Self {
            wire,
            start,
            task: task.abort_handle(),
            stands,
        }
    }

    /// Stops it where it is, or lets it go on. Tasks that it has spawned go on by themselves.
    pub(crate) fn stand(&self, still: Standing) {
        self.stands.send_replace(still == Standing::Still);
    }

    /// Ends it as a killed process ends.
    pub(crate) fn kill(&self) {
        self.wire.disconnect();
        self.task.abort();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The motion of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It stands still.
    Still,
    /// It goes on.
    Not,
}

/// Polls a future while it may move.
async fn while_moving<T>(work: impl Future<Output = T>, mut standing: watch::Receiver<bool>) -> T {
    let mut work = pin!(work);
    loop {
        // The sender lives as long as the process; without it nothing stands still.
        let _ = standing.wait_for(|still| !*still).await;
        let mut changed = standing.clone();
        tokio::select! {
            biased;
            Ok(_) = changed.wait_for(|still| *still) => {}
            done = &mut work => return done,
        }
    }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}
