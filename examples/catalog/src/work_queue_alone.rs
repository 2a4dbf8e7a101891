//! A work queue alone: keys, workers, retries and delays, without a cluster.
//!
//! ```text
//! add, add_after ─▶ WorkQueue (each key once) ─▶ workers ─▶ settle: Forget │ Retry │ Again later
//! ```
//!
//! Two workers send mails. A key that is added while it waits is one key; one that is added while a
//! worker has it is handed out again afterwards, and never to two workers at a time. `flaky` fails
//! twice, so the limiter delays it. Prints each attempt.
//!
//! Upstream counterpart: `client-go:util/workqueue` (`TypedRateLimitingInterface`).

use std::time::Duration;

use kinform::{Limiter, Priority, Verdict, WorkQueue};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::start::{Failure, Out};

/// BOUND: the time in which workers end.
const DRAIN: Duration = Duration::from_secs(10);

/// Works on keys until the queue is shut down and empty.
async fn work(queue: WorkQueue<String>, out: Out, sent: UnboundedSender<String>) {
    let mut next = queue.get();
    while let Some(item) = next.await {
        let attempt = item.failures() + 1;
        let verdict = match item.key().as_str() {
            "flaky" if attempt < 3 => Verdict::Retry,
            _ => Verdict::Forget,
        };
        out.line(format!("{} attempt {attempt}: {verdict:?}", item.key()));
        if verdict == Verdict::Forget {
            // A receiver that has gone has seen enough.
            let _ = sent.send(item.key().clone());
        }
        // An item that is dropped without a verdict, as by a panic, counts as failed.
        next = item.settle_and_get(verdict);
    }
}

/// Adds keys, and ends when they are done.
pub async fn run(out: Out) -> Result<(), Failure> {
    let (base, most) = (Duration::from_millis(5), Duration::from_secs(60));
    let queue = WorkQueue::new(Limiter::exponential(base, most));
    for key in ["welcome", "welcome", "flaky", "welcome"] {
        queue.add(key.to_owned());
    }
    queue.add_with("urgent".to_owned(), Priority::High);
    queue.add_after("reminder".to_owned(), Duration::from_millis(20));
    out.line(format!("{} keys are ready", queue.len()));

    let (sent, mut received) = unbounded_channel();
    let workers = [(); 2].map(|()| tokio::spawn(work(queue.clone(), out.clone(), sent.clone())));
    for _ in ["welcome", "flaky", "urgent", "reminder"] {
        received.recv().await.ok_or("the workers ended too early")?;
    }
    // No further keys: workers end with what is ready, and `get` returns `None`.
    let left = queue.drain(DRAIN).await;
    let left = left.map_err(|late| format!("keys are still worked on: {late:?}"))?;
    out.line(format!("drained, {} left", left.len()));
    for worker in workers {
        worker.await?;
    }
    Ok(())
}
