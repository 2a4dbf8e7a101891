//! Futures whose steps are long, computed on threads that may block.
//!
//! ```text
//! future ──poll──▶ blocking thread ──pending──▶ waits for its wake-up, without a core ──poll──▶ .. ──▶ output
//! ```
//!
//! A costly request computes between its waits for webhooks: each step of it runs where it holds up
//! no other request, and while it waits it holds no thread.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::{JoinError, spawn_blocking};

use super::shares::{Share, Shares};

/// Runs a future, each step on a blocking thread. Its share has a core during each step, and keeps its
/// memory until the end.
///
/// # Errors
/// The future panicked, or the runtime shuts down.
///
/// # Cancel safety
/// A step that has begun ends on its thread; the future is dropped after it.
pub(crate) async fn offload<F>(
    shares: &Shares,
    mut share: Share,
    future: F,
) -> Result<F::Output, JoinError>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut future = Box::pin(future);
    loop {
        let alarm = Arc::new(Alarm::default());
        let waker = Waker::from(alarm.clone());
        let step = spawn_blocking(move || {
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            match polled {
                Poll::Ready(output) => Step::Done(output),
                Poll::Pending => {
                    share.pause();
                    Step::Pending(future, share)
                }
            }
        });
        match step.await? {
            Step::Done(output) => return Ok(output),
            Step::Pending(again, held) => (future, share) = (again, held),
        }
        poll_fn(|cx| alarm.poll(cx)).await;
        shares.resume(&mut share).await;
    }
}

enum Step<F: Future> {
    Done(F::Output),
    Pending(Pin<Box<F>>, Share),
}

/// A wake-up that may come before anybody waits for it.
#[derive(Debug, Default)]
struct Alarm(Mutex<Rung>);

#[derive(Debug, Default)]
struct Rung {
    has_rung: bool,
    waiting: Option<Waker>,
}

impl Alarm {
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut rung = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rung.has_rung {
            return Poll::Ready(());
        }
        rung.waiting = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let waiting = {
            let mut rung = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            rung.has_rung = true;
            rung.waiting.take()
        };
        if let Some(waker) = waiting {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_offloaded_future_waits_for_time_and_for_messages() {
        let (send, receive) = oneshot::channel();
        let begun = tokio::time::Instant::now();
        let shares = Shares::of(1);
        let share = shares.take(1).await.unwrap();
        let computed = offload(&shares, share, async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            receive.await
        });
        let sent = async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            // The only core is free while the other one waits.
            drop(shares.take(1).await.unwrap());
            send.send(7).unwrap();
        };
        let (output, ()) = tokio::join!(computed, sent);
        assert_eq!(output.unwrap(), Ok(7));
        assert_eq!(begun.elapsed(), Duration::from_secs(9));
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let shares = Shares::of(1);
        let share = shares.take(1).await.unwrap();
        let ended = offload(&shares, share, async { panic!("as planned") });
        assert!(ended.await.unwrap_err().is_panic());
        shares.idle().await;
    }
}
