//! The operator under test, while it runs.
//!
//! ```text
//! spawn: a thread, a runtime of its own ──stop──▶ dropped; then every task of that runtime has ended
//! run:   a task of the test's runtime   ──stop──▶ dropped
//! ```

use std::fmt::Debug;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::task::JoinHandle as TaskHandle;
use tokio_util::sync::CancellationToken;

use super::TestError;

/// The time within which an operator's tasks must end.
const END_WITHIN: Duration = Duration::from_secs(5);
/// The interval at which they are counted.
const COUNT_EACH: Duration = Duration::from_millis(10);

/// The operator under test, while it runs. Dropping it asks the operator to end, without waiting.
#[derive(Debug)]
pub struct Operator {
    stop: CancellationToken,
    running: Option<Running>,
}

#[derive(Debug)]
enum Running {
    Thread(JoinHandle<Result<(), TestError>>),
    Task(TaskHandle<()>),
}

impl Operator {
    /// Runs it on a thread and runtime of its own.
    pub(super) fn thread<F>(operator: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output: Debug>,
    {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| TestError(format!("no runtime: {error}")))?;
            runtime.block_on(until_stopped(stopped, operator));
            left_behind(&runtime)
        });
        Self {
            stop,
            running: Some(Running::Thread(thread)),
        }
    }

    /// Runs it as a task of this runtime.
    pub(super) fn task<F>(operator: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output: Debug + Send> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let task = tokio::spawn(until_stopped(stop.clone(), operator));
        Self {
            stop,
            running: Some(Running::Task(task)),
        }
    }

    /// Drops the operator and waits for its end; a spawned operator must end its tasks, too.
    ///
    /// # Errors
    /// A task is left behind (after [`TestServer::spawn`](super::TestServer::spawn)), or the operator
    /// panicked.
    pub async fn stop(mut self) -> Result<(), TestError> {
        self.stop.cancel();
        let panicked = || TestError("the operator panicked".to_owned());
        match self.running.take() {
            None => Ok(()),
            Some(Running::Task(task)) => task.await.map_err(|_| panicked()),
            Some(Running::Thread(thread)) => {
                let joined = tokio::task::spawn_blocking(move || thread.join()).await;
                match joined {
                    Ok(Ok(ended)) => ended,
                    _ => Err(panicked()),
                }
            }
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// An operator that ends by itself still counts as running until it is stopped, when its tasks are
/// counted. A test that waits for its work fails: its output then says why.
async fn until_stopped<F>(stopped: CancellationToken, operator: impl FnOnce() -> F)
where
    F: Future<Output: Debug>,
{
    tokio::select! {
        biased;
        () = stopped.cancelled() => {}
        ended = operator() => {
            say(&format!("the operator under test has ended by itself: {ended:?}"));
            stopped.cancelled().await;
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the output of a test, shown if it fails"
)]
fn say(line: &str) {
    eprintln!("{line}");
}

/// Waits for the tasks that an operator spawned; a task that does not end is an error.
fn left_behind(runtime: &tokio::runtime::Runtime) -> Result<(), TestError> {
    let alive = || runtime.metrics().num_alive_tasks();
    runtime.block_on(async {
        let ended = tokio::time::timeout(END_WITHIN, async {
            while alive() > 0 {
                tokio::time::sleep(COUNT_EACH).await;
            }
        });
        ended.await.map_err(|_| {
            TestError(format!(
                "{} tasks are left {END_WITHIN:?} after the operator was dropped",
                alive()
            ))
        })
    })
}
