//! Activity of one connection: when the head of a request began to arrive, how long its reply lasts,
//! and how much it sends in one turn.
//!
//! ```text
//! stream ──Watched──▶ HTTP: bytes without a request under way begin a head
//! HTTP ──Watched──▶ stream, 128 KiB, then other connections
//! request ──begin_request──▶ Held body ──end──▶ no request under way
//! ```
//!
//! A head that has begun has to be complete soon. An idle connection has more time, because clients
//! keep theirs for the next request. HTTP has one limit for both, so the bytes are watched here.
//! HTTP/2 sends other frames between requests: there only the first head has a limit.
//!
//! Many connections that have much to send at once are served in turns. Without them, each would
//! encrypt megabytes before a short request is answered.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::connections::{Seat, UnderWay};
use crate::clock;
use crate::http::body::{Body, CutOff};

/// BOUND: the bytes that a connection sends in one turn.
const TURN: usize = 128 << 10;

/// The next head of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// Awaited to its end since this instant.
    Since(Instant),
    /// Not begun.
    NotBegun,
    /// Without a limit.
    Free,
}

/// The heads of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    seat: Arc<Seat>,
    head: Mutex<Head>,
    begun: Notify,
}

impl Activity {
    /// Begins with the first head, which is awaited at once.
    pub(super) fn new(seat: Arc<Seat>) -> Arc<Self> {
        Arc::new(Self {
            seat,
            head: Mutex::new(Head::Since(clock::instant())),
            begun: Notify::new(),
        })
    }

    pub(super) fn seat(&self) -> &Seat {
        &self.seat
    }

    fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that bytes came.
    fn received(&self) {
        let mut head = self.head();
        if *head == Head::NotBegun && self.seat.is_idle() {
            *head = Head::Since(clock::instant());
            self.begun.notify_one();
        }
    }

    /// Notes that the head of a request is complete. The request is under way until the guard is
    /// dropped.
    pub(super) fn begin_request(&self, version: Version) -> UnderWay {
        *self.head() = match version {
            Version::HTTP_2 => Head::Free,
            _ => Head::NotBegun,
        };
        self.seat.begin_request()
    }

    /// Ends when a head has been awaited for this long.
    pub(super) async fn late_head(&self, limit: Duration) {
        loop {
            let head = *self.head();
            let Head::Since(since) = head else {
                self.begun.notified().await;
                continue;
            };
            tokio::time::sleep_until(since + limit).await;
            if *self.head() == head {
                return;
            }
        }
    }
}

/// A stream whose bytes are noted.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
    /// The bytes sent in this turn.
    sent: usize,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            activity,
            sent: 0,
        }
    }

    /// Sends by `write`, unless the turn is over.
    fn send(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut S, &mut Context<'_>) -> Poll<std::io::Result<usize>>,
    ) -> Poll<std::io::Result<usize>> {
        if self.sent >= TURN {
            self.sent = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let written = write(&mut self.stream, cx);
        match &written {
            Poll::Ready(Ok(bytes)) => self.sent += bytes,
            Poll::Ready(Err(_)) | Poll::Pending => self.sent = 0,
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.activity.received();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let bytes = &bytes[..bytes.len().min(TURN)];
        self.send(cx, |stream, cx| Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.send(cx, |stream, cx| {
            Pin::new(stream).poll_write_vectored(cx, parts)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A body that keeps its request under way.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) body: Body,
    pub(super) _request: UnderWay,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::super::connections::Connections;
    use super::*;

    #[tokio::test]
    async fn a_connection_that_sends_much_lets_others_have_their_turn() {
        let (_client, stream) = tokio::io::duplex(2 << 20);
        let seat = Arc::<Connections>::default().enter().await;
        let mut stream = Watched::new(stream, Activity::new(seat));
        for piece in [1 << 20, 32 << 10] {
            let bytes = vec![0; piece];
            let (mut sent, mut turns) = (0, 0);
            while sent < 1 << 20 {
                let write = std::future::poll_fn(|cx| {
                    Poll::Ready(Pin::new(&mut stream).poll_write(cx, &bytes))
                });
                match write.await {
                    Poll::Ready(written) => sent += written.unwrap(),
                    Poll::Pending => turns += 1,
                }
            }
            assert!((7..=8).contains(&turns), "{turns}");
        }
    }
}
