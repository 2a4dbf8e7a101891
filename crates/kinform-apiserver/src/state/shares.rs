//! Shares of the machine for requests that are costly to compute.
//!
//! ```text
//! bytes to decode ──take──▶ Share { a core, memory } ──▶ a blocking thread ──dropped──▶ the next request
//! ```
//!
//! A share is held by the computation, not by its request: if a client leaves, the step that runs
//! goes on until it looks at its meter, and its core and memory are in use until then. A computation
//! that waits for a webhook keeps its memory, and gives its core back. Requests wait in the order in
//! which they came. One request always fits, however large it is.
//!
//! Upstream: none; there, `apiserver:pkg/util/flowcontrol` bounds the requests under way.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use kinform_api::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// BOUND: decoded values at a time, in KiB.
const MEMORY: u32 = 256 << 10;
/// The decoded size of a byte of text at most: an object with one member takes some 700 bytes.
const DECODED: usize = 85;
/// BOUND: bodies that wait for a share, in KiB; further ones are refused at once.
const WAITING: u32 = 64 << 10;
/// BOUND: the time that a request waits for a share.
const WAIT: Duration = Duration::from_secs(10);
/// Bytes to decode above which a request needs a share.
pub(crate) const LIGHT: usize = 64 << 10;

/// The shares that are left.
#[derive(Debug)]
pub(crate) struct Shares {
    /// One permit for each computation at a time.
    cores: Arc<Semaphore>,
    all_cores: u32,
    /// A permit for each KiB.
    memory: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// A part of the machine, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    /// `None` while the computation waits for something else than a core.
    core: Option<OwnedSemaphorePermit>,
    _memory: OwnedSemaphorePermit,
}

impl Share {
    /// Gives the core back while the computation waits: whatever it waits for may need one.
    pub(crate) fn pause(&mut self) {
        self.core = None;
    }
}

impl Default for Shares {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        // BOUND: half of the cores, so that the others answer small requests.
        Self::of(u32::try_from(cores / 2).unwrap_or(1).max(1))
    }
}

impl Shares {
    pub(super) fn of(cores: u32) -> Self {
        let semaphore = |permits: u32| Arc::new(Semaphore::new(permits as usize));
        Self {
            cores: semaphore(cores),
            all_cores: cores,
            memory: semaphore(MEMORY),
            waiting: semaphore(WAITING),
        }
    }

    /// Waits for a share that suffices for decoding this many bytes.
    ///
    /// # Errors
    /// 429 if too many bytes wait already, or if this request has waited too long.
    pub(crate) async fn take(&self, bytes: usize) -> Result<Share, Status> {
        let refused = |_| Status::too_many_requests("too many large requests are under way", 1);
        let kib = |bytes: usize, most| u32::try_from(bytes >> 10).unwrap_or(most).clamp(1, most);
        let waiting = self.waiting.clone();
        let place = waiting.try_acquire_many_owned(kib(bytes, WAITING));
        let _place = place.map_err(|_| refused(()))?;
        let permits = async {
            let memory = kib(bytes.saturating_mul(DECODED), MEMORY);
            let memory = self.memory.clone().acquire_many_owned(memory).await.ok()?;
            let core = self.cores.clone().acquire_owned().await.ok()?;
            Some(Share {
                core: Some(core),
                _memory: memory,
            })
        };
        let permits = tokio::time::timeout(WAIT, permits).await;
        permits.ok().flatten().ok_or_else(|| refused(()))
    }

    /// Waits for a core again, for a computation that goes on.
    pub(crate) async fn resume(&self, share: &mut Share) {
        // Only a closed semaphore fails, and this is never closed.
        share.core = self.cores.clone().acquire_owned().await.ok();
    }

    /// Waits until no computation runs.
    pub(crate) async fn idle(&self) {
        // Only a closed semaphore fails, and these are never closed.
        let _ = self.cores.acquire_many(self.all_cores).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_that_fit_no_share_wait_and_are_then_refused() {
        let shares = Shares::of(2);
        let first = shares.take(10 << 20).await.unwrap();
        let begun = tokio::time::Instant::now();
        let refused = shares.take(1).await.unwrap_err();
        assert_eq!((refused.code, begun.elapsed()), (429, WAIT));
        drop(first);
        let (one, two) = (shares.take(1).await, shares.take(1).await);
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(shares.take(1).await.unwrap_err().code, 429, "a third core");
        let left = async {
            tokio::time::sleep(WAIT / 2).await;
            drop(one);
        };
        assert!(tokio::join!(shares.take(1), left).0.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_wait_are_bounded_and_a_stopped_server_waits_for_computations() {
        let shares = Arc::new(Shares::of(1));
        let held = shares.take(1).await.unwrap();
        let many = (0..40).map(|_| {
            let shares = shares.clone();
            tokio::spawn(async move { shares.take(3 << 20).await.map(drop) })
        });
        let begun = tokio::time::Instant::now();
        let many: Vec<_> = many.collect();
        tokio::task::yield_now().await;
        let refused = many.iter().filter(|task| task.is_finished()).count();
        assert_eq!((refused, begun.elapsed()), (40 - 21, Duration::ZERO));
        let (idle, ()) = tokio::join!(
            async {
                shares.idle().await;
                begun.elapsed()
            },
            async {
                tokio::time::sleep(WAIT * 2).await;
                drop(held);
            }
        );
        assert_eq!(idle, WAIT * 2);
    }
}
