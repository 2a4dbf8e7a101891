//! Connections that their readers drive.
//!
//! ```text
//! pool ─execute─▶ Drivers ─▶ a task that polls Driver { connection }, woken when the reader leaves
//!                              ▲
//! reader ─▶ Driven { body, driver } ── no bytes yet: polls the connection itself, and looks again
//! ```
//!
//! By default an HTTP/1 connection is a task of its own, which reads a piece from the socket and
//! hands it to the body. The scheduler puts the two alternating tasks on two threads: 1,400 times
//! for a list of 100,000 pods in protobuf, each of which wakes a thread and works on data in
//! another processor's cache. So a reader that waits for a piece polls the connection in its own
//! turn, and reads the socket where the piece is used: some 600 such times are left, and a tenth
//! less CPU time. The last task to poll is the one that is woken; a reader that leaves wakes the
//! connection's task, which continues as if there had been no reader.
//!
//! The stream identifies the connection of a response: the first driver that reads from it is the
//! connection's. HTTP/2 connections, which many readers share, are left to their tasks: a slow
//! reader must not stop the others.
//!
//! INVARIANT: a connection that was woken is polled: by its task, or by the reader that was woken
//! in its place.
//! Upstream: none; Go's transport has two goroutines a connection.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use futures::stream::Stream;
use futures::task::AtomicWaker;
use http::{Response, Version};
use http_body::{Body, Frame};
use hyper::rt::{Executor, Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

/// Runs the background tasks of a connection pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drivers;

/// A connection, and the waker of the task that polls it if no reader does.
struct Driver {
    // The lock is held for one poll, of a read at most.
    inner: Mutex<Inner>,
    task: AtomicWaker,
}

struct Inner {
    /// `None` once it has ended.
    connection: Option<BoxFuture<'static, ()>>,
    /// The last to poll the connection, which is thus the one woken.
    woken: Who,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Task,
    Reader,
}

/// The task of a connection.
struct Task(Arc<Driver>);

thread_local! {
    /// The driver whose connection is being polled.
    static POLLED: RefCell<Weak<Driver>> = const { RefCell::new(Weak::new()) };
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Drivers {
    fn execute(&self, future: F) {
        tokio::spawn(Task(Driver::new(future)));
    }
}

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.task.register(context.waker());
        self.0.poll(Who::Task, context)
    }
}

impl Drop for Task {
    /// The runtime or the connection has ended: closes the socket, and so the reader's body ends.
    fn drop(&mut self) {
        let left = self.0.lock().connection.take();
        drop(left);
    }
}

impl Driver {
    fn new(connection: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                connection: Some(Box::pin(connection)),
                woken: Who::Task,
            }),
            task: AtomicWaker::new(),
        })
    }

    /// Ready once the connection has ended. A panic ends the connection, as it would its task, but
    /// not the reader.
    fn poll(self: &Arc<Self>, who: Who, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        let Inner { connection, woken } = &mut *inner;
        let Some(running) = connection else {
            return Poll::Ready(());
        };
        // The task was woken by an earlier event, from before the reader came: it must not take the
        // connection over.
        if (who, *woken) == (Who::Task, Who::Reader) {
            return Poll::Pending;
        }
        *woken = who;
        let _polled = Polled::begin(self);
        let turn = AssertUnwindSafe(|| running.as_mut().poll(context));
        let end = catch_unwind(turn).unwrap_or(Poll::Ready(()));
        if end.is_ready() {
            *connection = None;
        }
        end
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn of a connection; its driver is in `POLLED` until the turn ends.
struct Polled(Weak<Driver>);

impl Polled {
    fn begin(driver: &Arc<Driver>) -> Self {
        Self(POLLED.replace(Arc::downgrade(driver)))
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        POLLED.replace(std::mem::take(&mut self.0));
    }
}

/// A stream that knows its connection, from the first read on.
pub(super) struct Known<S> {
    stream: S,
    place: Place,
}

/// The slot for a connection's driver; responses over the connection carry it.
// Weak, since the connection holds the stream.
#[derive(Clone, Default)]
struct Place(Arc<OnceLock<Weak<Driver>>>);

impl<S> Known<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            place: Place::default(),
        }
    }
}

impl<S: Connection> Connection for Known<S> {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.place.clone())
    }
}

impl<S: Read + Unpin> Read for Known<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.place.0.get_or_init(|| POLLED.with_borrow(Weak::clone));
        Pin::new(&mut this.stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Known<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The body of a response, whose reader drives the connection.
pub(super) struct Driven<B> {
    // Dropped before the reader leaves, so that the task finds it gone.
    body: B,
    /// `None` once the body is complete: the connection then belongs to another request.
    reader: Option<Reader>,
}

/// A reader that polls a connection; its drop returns that to the task.
struct Reader {
    driver: Arc<Driver>,
    /// If false, the connection may already belong to the next request.
    has_polled: bool,
}

impl<B> Driven<B> {
    /// The body of a response.
    pub(super) fn new(response: Response<B>) -> Self {
        let (parts, body) = response.into_parts();
        let place = parts.extensions.get::<Place>();
        let place = place.filter(|_| parts.version <= Version::HTTP_11);
        let driver = place.and_then(|place| place.0.get()?.upgrade());
        Self {
            body,
            reader: driver.map(|driver| Reader {
                driver,
                has_polled: false,
            }),
        }
    }
}

impl<B: Body + Unpin> Driven<B> {
    /// The next bytes that have come.
    fn come(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<B::Data, B::Error>>> {
        loop {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                None => return Poll::Ready(None),
                Some(Ok(Ok(bytes))) => return Poll::Ready(Some(Ok(bytes))),
                // Trailers.
                Some(Ok(Err(_))) => {}
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl<B: Body + Unpin> Stream for Driven<B> {
    type Item = Result<B::Data, B::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let mut come = this.come(context);
        if let (Poll::Pending, Some(reader)) = (&come, &mut this.reader) {
            reader.has_polled = true;
            if reader.driver.poll(Who::Reader, context).is_ready() {
                this.reader = None;
            }
            come = this.come(context);
        }
        // The last bytes may come together with the end of the stream.
        if matches!(come, Poll::Ready(None | Some(Err(_)))) || this.body.is_end_stream() {
            this.reader = None;
        }
        come
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.has_polled {
            self.driver.lock().woken = Who::Task;
            self.driver.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use bytes::Bytes;
    use futures::task::{ArcWake, waker};

    use super::*;
    use crate::source::{ClientOptions, client_for};

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl ArcWake for Woken {
        fn wake_by_ref(woken: &Arc<Self>) {
            woken.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Woken {
        fn take(&self) -> usize {
            self.0.swap(0, Ordering::Relaxed)
        }
    }

    /// The pieces of a socket, those that reached the body, and the end of the connection.
    #[derive(Default)]
    struct Line {
        socket: Mutex<VecDeque<Piece>>,
        body: Mutex<VecDeque<Option<u8>>>,
        place: Place,
    }

    #[derive(Clone, Copy)]
    enum Piece {
        Byte(u8),
        /// All of the body has come.
        Whole,
        End,
        Panic,
    }

    /// The body of a line's pieces.
    struct Come(Arc<Line>);

    impl Body for Come {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.body.lock().unwrap().pop_front() {
                Some(byte) => Poll::Ready(byte.map(|byte| Ok(Frame::data(vec![byte].into())))),
                None => Poll::Pending,
            }
        }

        /// Returns whether the end of the body has come.
        fn is_end_stream(&self) -> bool {
            self.0.body.lock().unwrap().front() == Some(&None)
        }
    }

    /// A connection that yields one piece each time it is polled, and the reader of these pieces.
    fn connected(version: Version) -> (Arc<Line>, Task, Driven<Come>) {
        let line = Arc::new(Line::default());
        let there = Arc::clone(&line);
        let task = Task(Driver::new(std::future::poll_fn(move |_| {
            there
                .place
                .0
                .get_or_init(|| POLLED.with_borrow(Weak::clone));
            let piece = there.socket.lock().unwrap().pop_front();
            let come = match piece {
                None => return Poll::Pending,
                Some(Piece::End) => return Poll::Ready(()),
                Some(Piece::Panic) => panic!("a panic that is expected"),
                Some(Piece::Byte(byte)) => Some(byte),
                Some(Piece::Whole) => None,
            };
            there.body.lock().unwrap().push_back(come);
            Poll::Pending
        })));
        // Its first turn shows whose it is.
        let mut context = Context::from_waker(Waker::noop());
        assert!(task.0.poll(Who::Task, &mut context).is_pending());
        let mut response = Response::new(Come(Arc::clone(&line)));
        *response.version_mut() = version;
        response.extensions_mut().insert(line.place.clone());
        (line, task, Driven::new(response))
    }

    impl Line {
        fn brings(&self, pieces: impl IntoIterator<Item = Piece>) {
            self.socket.lock().unwrap().extend(pieces);
        }

        fn is_read(&self) -> bool {
            self.socket.lock().unwrap().is_empty()
        }
    }

    fn next(driven: &mut Driven<Come>) -> Poll<Option<u8>> {
        let mut context = Context::from_waker(Waker::noop());
        let next = Pin::new(driven).poll_next(&mut context);
        next.map(|next| next.map(|bytes| bytes.unwrap()[0]))
    }

    fn poll(task: &mut Task, woken: &Arc<Woken>) -> Poll<()> {
        let woken = waker(Arc::clone(woken));
        Pin::new(task).poll(&mut Context::from_waker(&woken))
    }

    #[test]
    fn a_reader_polls_the_connection_and_its_task_goes_on_after_it() {
        let (line, mut task, mut driven) = connected(Version::HTTP_11);
        let woken = Arc::new(Woken::default());
        line.brings([Piece::Byte(1), Piece::Byte(2), Piece::Byte(3)]);
        assert!(poll(&mut task, &woken).is_pending());
        // One piece came by the task, the others by the reader.
        for byte in 1..4 {
            assert_eq!(next(&mut driven), Poll::Ready(Some(byte)));
        }
        assert_eq!(next(&mut driven), Poll::Pending);
        // A wake of the task does not take the connection from the reader now.
        line.brings([Piece::Byte(4)]);
        assert!(poll(&mut task, &woken).is_pending());
        assert!(!line.is_read());
        assert_eq!(woken.take(), 0);
        drop(driven);
        assert_eq!(woken.take(), 1);
        assert!(poll(&mut task, &woken).is_pending());
        assert!(line.is_read());
        line.brings([Piece::End]);
        assert!(poll(&mut task, &woken).is_ready());
        assert_eq!(Arc::strong_count(&line), 1);
    }

    #[test]
    fn a_reader_at_the_end_leaves_the_connection_to_the_next_request() {
        for last in [&[Piece::Byte(1), Piece::Whole][..], &[Piece::Whole]] {
            let (line, mut task, mut driven) = connected(Version::HTTP_11);
            let woken = Arc::new(Woken::default());
            assert!(poll(&mut task, &woken).is_pending());
            line.brings(last.iter().copied());
            let (mut bytes, mut turns) = (0, 0);
            while let Poll::Ready(next) = next(&mut driven) {
                bytes += usize::from(next.is_some());
                turns += 1;
                if next.is_none() {
                    break;
                }
            }
            assert_eq!(turns, bytes + 1);
            // It is still held, and yet the next event wakes the task.
            assert!(driven.reader.is_none());
            assert_eq!(woken.take(), 1);
            line.brings([Piece::End]);
            assert!(poll(&mut task, &woken).is_ready());
        }
    }

    #[test]
    fn bytes_that_are_known_to_be_the_last_are_enough() {
        let (line, mut task, mut driven) = connected(Version::HTTP_11);
        let woken = Arc::new(Woken::default());
        line.brings([Piece::Byte(9), Piece::Whole]);
        assert!(poll(&mut task, &woken).is_pending());
        assert!(poll(&mut task, &woken).is_pending());
        assert_eq!(next(&mut driven), Poll::Ready(Some(9)));
        assert!(driven.reader.is_none());
        // This reader never had the connection, which may be the next reader's.
        assert_eq!(woken.take(), 0);
    }

    #[test]
    fn a_connection_that_ends_under_its_reader_is_closed_and_its_task_ends() {
        for end in [Piece::End, Piece::Panic] {
            let (line, mut task, mut driven) = connected(Version::HTTP_11);
            let woken = Arc::new(Woken::default());
            assert!(poll(&mut task, &woken).is_pending());
            line.brings([end]);
            assert_eq!(next(&mut driven), Poll::Pending);
            assert!(task.0.lock().connection.is_none() && driven.reader.is_none());
            assert_eq!(woken.take(), 1);
            assert!(poll(&mut task, &woken).is_ready());
            // Earlier pieces can still be read.
            line.body.lock().unwrap().push_back(Some(7));
            assert_eq!(next(&mut driven), Poll::Ready(Some(7)));
        }
    }

    #[test]
    fn a_connection_ends_with_its_runtime_and_not_with_its_reader() {
        let (line, task, mut driven) = connected(Version::HTTP_11);
        drop(task);
        // The line is held by the test and by the body.
        assert_eq!(Arc::strong_count(&line), 2);
        assert_eq!(next(&mut driven), Poll::Pending);
        assert!(driven.reader.is_none());
        let (line, _task, driven) = connected(Version::HTTP_11);
        drop(driven);
        assert_eq!(Arc::strong_count(&line), 2);
    }

    #[test]
    fn a_shared_connection_is_left_to_its_task() {
        let reader = |version| connected(version).2.reader.is_some();
        assert!(reader(Version::HTTP_11) && reader(Version::HTTP_10));
        assert!(!reader(Version::HTTP_2));
        let unknown = Response::new(Come(Arc::default()));
        assert!(Driven::new(unknown).reader.is_none());
    }

    #[tokio::test]
    async fn a_client_of_ours_tells_over_which_connection_a_reply_came() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 4096]).await.unwrap();
            let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
            socket.write_all(reply).await.unwrap();
            let _ = socket.read(&mut [0; 4096]).await;
        });
        let config = kube_client::Config::new(format!("http://{address}").parse().unwrap());
        let client = client_for(config, &ClientOptions::default()).unwrap();
        let request = http::Request::get("/api").body(kube_client::client::Body::empty());
        let response = client.send(request.unwrap()).await.unwrap();
        assert!(Driven::new(response).reader.is_some());
    }
}
