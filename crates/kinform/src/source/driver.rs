//! Connections that are driven by who reads from them.
//!
//! ```text
//! pool ─execute─▶ Drivers ─▶ a task that polls Driver { connection } … and is woken when the reader leaves
//!                              ▲
//! reader ─▶ Driven { body, driver } ── nothing has come: polls the connection itself, and looks again
//! ```
//!
//! An HTTP/1 connection is a task of its own, which reads a piece from the socket and hands it to the body. Two tasks
//! that take turns are put on two threads by a scheduler that means well: of a list of 100,000 pods in protobuf 1,400
//! times, each of which wakes a thread, and has it work on what the other processor has in its cache. So who waits for
//! a piece polls the connection in its own turn, and reads the socket where the piece is used: 170 such times are
//! left, and a tenth less CPU time. Whoever polls is woken by what comes; a reader that leaves wakes the task, which
//! goes on as if there had been none.
//!
//! Which connection a response came over is told by its stream: the first that reads from it is its driver.
//! HTTP/2 connections, which many readers share, are left to their tasks: one that is slow must not stop the others.
//!
//! INVARIANT: a connection that was woken is polled: by its task, or by the reader that was woken in its place.
//! Upstream: none; Go's transport has two goroutines a connection.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, StreamExt};
use futures::task::AtomicWaker;
use http::{Extensions, Version};
use hyper::rt::{Executor, Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

/// Runs what a pool of connections runs beside its requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drivers;

/// A connection, and who polls it if no reader does.
struct Driver {
    // Nothing once it has ended. The lock is held for one poll, of a read at most.
    connection: Mutex<Option<BoxFuture<'static, ()>>>,
    task: AtomicWaker,
}

/// The task of a connection.
struct Task(Arc<Driver>);

thread_local! {
    /// Whose connection is being polled.
    static POLLED: RefCell<Weak<Driver>> = const { RefCell::new(Weak::new()) };
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Drivers {
    fn execute(&self, future: F) {
        tokio::spawn(Task(Arc::new(Driver {
            connection: Mutex::new(Some(Box::pin(future))),
            task: AtomicWaker::new(),
        })));
    }
}

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.task.register(context.waker());
        self.0.poll(context)
    }
}

impl Driver {
    /// Ready once the connection has ended. A panic in it ends it, as it would its task, and no reader.
    fn poll(self: &Arc<Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(running) = connection.as_mut() else {
            return Poll::Ready(());
        };
        let _polled = Polled::begin(self);
        let turn = AssertUnwindSafe(|| running.as_mut().poll(context));
        let end = catch_unwind(turn).unwrap_or(Poll::Ready(()));
        if end.is_ready() {
            *connection = None;
        }
        end
    }
}

/// A turn of a connection; at its end it is known no longer.
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

/// Where a connection's driver is told; responses over it bring it along.
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

/// What comes over a connection, which is driven by who reads it.
pub(super) struct Driven<T> {
    // Dropped before the reader leaves, so that the task finds it gone.
    body: BoxStream<'static, T>,
    reader: Option<Reader>,
}

/// One that polls a connection; dropped, it leaves that to the task again.
struct Reader(Arc<Driver>);

impl<T> Driven<T> {
    /// The body of a response with these extensions.
    pub(super) fn new(
        body: BoxStream<'static, T>,
        version: Version,
        extensions: &Extensions,
    ) -> Self {
        let place = extensions.get::<Place>();
        let place = place.filter(|_| version <= Version::HTTP_11);
        let driver = place.and_then(|place| place.0.get()?.upgrade());
        Self {
            body,
            reader: driver.map(Reader),
        }
    }
}

impl<T> Stream for Driven<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let come = self.body.poll_next_unpin(context);
        let Some(Reader(driver)) = &self.reader else {
            return come;
        };
        if come.is_ready() {
            return come;
        }
        if driver.poll(context).is_ready() {
            self.reader = None;
        }
        self.body.poll_next_unpin(context)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::task::{ArcWake, waker};

    use super::*;

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

    /// Pieces that a socket has, what came of them to the body, and what became of the connection.
    #[derive(Default)]
    struct Line {
        socket: Mutex<Vec<Piece>>,
        body: Mutex<Vec<u8>>,
        place: Place,
    }

    enum Piece {
        Byte(u8),
        End,
        Panic,
    }

    /// A connection that hands one piece on each time it is polled, and the body of what it hands on.
    fn connected(pieces: impl IntoIterator<Item = Piece>) -> (Arc<Line>, Task, Driven<u8>) {
        let line = Arc::new(Line::default());
        line.put(pieces);
        let there = Arc::clone(&line);
        let connection = std::future::poll_fn(move |_| {
            there
                .place
                .0
                .get_or_init(|| POLLED.with_borrow(Weak::clone));
            let mut socket = there.socket.lock().unwrap();
            match socket.pop() {
                None => return Poll::Pending,
                Some(Piece::Byte(byte)) => there.body.lock().unwrap().push(byte),
                Some(Piece::End) => return Poll::Ready(()),
                Some(Piece::Panic) => panic!("a panic that is expected"),
            }
            Poll::Pending
        });
        let task = Task(Arc::new(Driver {
            connection: Mutex::new(Some(Box::pin(connection))),
            task: AtomicWaker::new(),
        }));
        let here = Arc::clone(&line);
        let body = futures::stream::poll_fn(move |_| match here.body.lock().unwrap().pop() {
            Some(byte) => Poll::Ready(Some(byte)),
            None => Poll::Pending,
        });
        // What is to be known of a connection, its first turn tells.
        let woken = waker(Arc::new(Woken::default()));
        let mut context = Context::from_waker(&woken);
        line.socket.lock().unwrap().push(Piece::Byte(0));
        assert!(task.0.poll(&mut context).is_pending());
        assert_eq!(line.body.lock().unwrap().pop(), Some(0));
        let mut extensions = Extensions::new();
        extensions.insert(line.place.clone());
        let driven = Driven::new(body.boxed(), Version::HTTP_11, &extensions);
        (line, task, driven)
    }

    impl Line {
        fn put(&self, pieces: impl IntoIterator<Item = Piece>) {
            let mut socket = self.socket.lock().unwrap();
            socket.extend(pieces);
            socket.reverse();
        }

        fn is_closed(self: &Arc<Self>, task: &Task) -> bool {
            task.0.connection.lock().unwrap().is_none() && Arc::strong_count(self) == 2
        }
    }

    fn next(driven: &mut Driven<u8>, woken: &Arc<Woken>) -> Poll<Option<u8>> {
        let woken = waker(Arc::clone(woken));
        driven.poll_next_unpin(&mut Context::from_waker(&woken))
    }

    fn poll(task: &mut Task, woken: &Arc<Woken>) -> Poll<()> {
        let woken = waker(Arc::clone(woken));
        Pin::new(task).poll(&mut Context::from_waker(&woken))
    }

    #[test]
    fn who_reads_polls_the_connection_and_its_task_goes_on_behind_him() {
        let (line, mut task, mut driven) = connected([Piece::Byte(1), Piece::Byte(2)]);
        let (reader, own) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        assert!(poll(&mut task, &own).is_pending());
        // One came by the task, the next by who reads.
        assert_eq!(next(&mut driven, &reader), Poll::Ready(Some(1)));
        assert_eq!(next(&mut driven, &reader), Poll::Ready(Some(2)));
        assert_eq!(next(&mut driven, &reader), Poll::Pending);
        assert_eq!(own.take(), 0);
        drop(driven);
        assert_eq!(own.take(), 1);
        line.put([Piece::End]);
        assert!(poll(&mut task, &own).is_ready());
        assert_eq!(Arc::strong_count(&line), 1);
    }

    #[test]
    fn a_connection_that_ends_under_its_reader_is_closed_and_its_task_ends() {
        for end in [Piece::End, Piece::Panic] {
            let (line, mut task, mut driven) = connected([end]);
            let (reader, own) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
            task.0.task.register(&waker(Arc::clone(&own)));
            assert_eq!(next(&mut driven, &reader), Poll::Pending);
            assert!(line.is_closed(&task) && driven.reader.is_none());
            assert_eq!(own.take(), 1);
            assert!(poll(&mut task, &own).is_ready());
            // What was handed on before can still be read.
            line.body.lock().unwrap().push(7);
            assert_eq!(next(&mut driven, &reader), Poll::Ready(Some(7)));
        }
    }

    #[test]
    fn a_runtime_that_ends_takes_the_connection_with_it() {
        let (line, task, driven) = connected([Piece::Byte(1)]);
        drop(task);
        // Its reader is the last to hold it.
        assert_eq!(Arc::strong_count(&line), 3);
        drop(driven);
        assert_eq!(Arc::strong_count(&line), 1);
    }

    #[test]
    fn a_shared_connection_is_left_to_its_task() {
        let (line, _task, _) = connected([]);
        let mut extensions = Extensions::new();
        let reader = |version, extensions: &Extensions| {
            let body = futures::stream::pending::<u8>().boxed();
            Driven::new(body, version, extensions).reader.is_some()
        };
        assert!(!reader(Version::HTTP_11, &extensions));
        extensions.insert(line.place.clone());
        assert!(reader(Version::HTTP_11, &extensions));
        assert!(!reader(Version::HTTP_2, &extensions));
    }
}
