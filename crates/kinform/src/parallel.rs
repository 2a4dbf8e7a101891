//! A function called for each of many pieces, some at a time.
//!
//! ```text
//! pieces 0..n → chunks → workers, each takes the next chunk → Parallelized {finished, panicked}
//! ```
//!
//! Each piece is worked once. A piece that panics is named and costs only itself. Nothing here limits
//! what a piece does; it has the number of the piece and whatever the function holds.
//!
//! Upstream counterpart: `client-go:util/workqueue/parallelizer.go` (`ParallelizeUntil`,
//! `WithChunkSize`), where a panic ends the process and a cancelled context is not told.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use tokio::task::JoinSet;

/// How many work at once, and how much each takes at a time.
#[doc(alias = "ParallelizeUntil")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallel {
    workers: usize,
    chunk: usize,
}

/// What became of the pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parallelized {
    /// Pieces that were worked to their end.
    pub finished: usize,
    /// Pieces whose work panicked, in order.
    pub panicked: Vec<usize>,
}

impl Parallel {
    /// So many workers, at least one, each taking one piece at a time.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            workers: workers.max(1),
            chunk: 1,
        }
    }

    /// The same, each worker taking `pieces` at a time, at least one: for small pieces.
    #[must_use]
    pub fn with_chunk_size(self, pieces: usize) -> Self {
        Self {
            chunk: pieces.max(1),
            ..self
        }
    }

    /// Calls `work` for each of the pieces `0..pieces` and waits until all are done. Must be called
    /// inside a runtime.
    ///
    /// # Cancel safety
    /// Dropping it begins no further piece and ends those that are being worked where they wait.
    pub async fn run<F, Work>(self, pieces: usize, work: F) -> Parallelized
    where
        F: Fn(usize) -> Work + Send + Sync + 'static,
        Work: Future<Output = ()> + Send + 'static,
    {
        let work = Arc::new(work);
        let next = Arc::new(AtomicUsize::new(0));
        let workers = self.workers.min(pieces.div_ceil(self.chunk));
        // The set ends its tasks when it is dropped.
        let mut tasks: JoinSet<Parallelized> = (0..workers)
            .map(|_| self.worker(pieces, Arc::clone(&next), Arc::clone(&work)))
            .collect();
        let mut all = Parallelized::default();
        while let Some(done) = tasks.join_next().await {
            // A worker catches panics, and nobody else ends it.
            let done = done.unwrap_or_default();
            all.finished += done.finished;
            all.panicked.extend(done.panicked);
        }
        all.panicked.sort_unstable();
        all
    }

    async fn worker<F, Work>(
        self,
        pieces: usize,
        next: Arc<AtomicUsize>,
        work: Arc<F>,
    ) -> Parallelized
    where
        F: Fn(usize) -> Work + Send + Sync,
        Work: Future<Output = ()> + Send,
    {
        let mut done = Parallelized::default();
        loop {
            let first = next.fetch_add(self.chunk, Ordering::Relaxed);
            if first >= pieces {
                return done;
            }
            for piece in first..pieces.min(first.saturating_add(self.chunk)) {
                let piece_of_work = async { work(piece).await };
                match AssertUnwindSafe(piece_of_work).catch_unwind().await {
                    Ok(()) => done.finished += 1,
                    Err(_) => done.panicked.push(piece),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn counters(pieces: usize) -> Arc<Vec<AtomicUsize>> {
        Arc::new((0..pieces).map(|_| AtomicUsize::new(0)).collect())
    }

    #[tokio::test]
    async fn each_piece_is_worked_once_in_chunks_of_any_size() {
        // client-go: TestParallelizeUntil
        let table = [
            (1, 1000, 0),
            (1, 10, 1),
            (1, 1000, 10),
            (10, 1000, 10),
            (10, 1000, 1),
            (7, 1000, 33),
            (5, 3, 1),
            (3, 2, 100),
            (0, 5, 1),
            (4, 0, 1),
        ];
        for (workers, pieces, chunk) in table {
            let seen = counters(pieces);
            let count = Arc::clone(&seen);
            let work = move |piece: usize| {
                let count = Arc::clone(&count);
                async move {
                    tokio::task::yield_now().await;
                    count[piece].fetch_add(1, Ordering::Relaxed);
                }
            };
            let parallel = Parallel::new(workers).with_chunk_size(chunk);
            let done = parallel.run(pieces, work).await;
            assert_eq!((done.finished, done.panicked.len()), (pieces, 0));
            assert!(seen.iter().all(|piece| piece.load(Ordering::Relaxed) == 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_work_at_once_than_there_are_workers() {
        let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (now, peak) = (Arc::clone(&busy), Arc::clone(&most));
        let work = move |_| {
            let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let started = tokio::time::Instant::now();
        Parallel::new(3).run(10, work).await;
        assert_eq!(most.load(Ordering::Relaxed), 3);
        assert_eq!(started.elapsed(), Duration::from_secs(4));
    }

    #[tokio::test]
    async fn a_piece_that_panics_is_named_and_costs_only_itself() {
        let work = |piece: usize| {
            assert_ne!(piece, 3, "this panic is part of the test");
            async move { assert_ne!(piece, 7, "this panic is part of the test") }
        };
        let done = Parallel::new(2).with_chunk_size(5).run(20, work).await;
        assert_eq!((done.finished, done.panicked), (18, vec![3, 7]));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_stops_waiting_stops_the_work() {
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let work = move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(10))
        };
        let run = Parallel::new(2).run(100, work);
        let limit = Duration::from_secs(25);
        assert!(tokio::time::timeout(limit, run).await.is_err());
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(
            begun.load(Ordering::Relaxed),
            6,
            "three turns of two workers"
        );
    }
}
