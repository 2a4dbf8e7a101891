//! The thread that writes a recording.
//!
//! ```text
//! Tape (notes, never waits) ──bounded queue──▶ thread: Writing ──▶ file
//! ```
//!
//! A note that finds the queue full is lost: the recording then has a gap, which is counted, logged
//! and in the file. A disk that fails ends the recording, never the source.
//! Never: waits for the disk on the source's side, reads a clock.
//! BOUND: [`QUEUE`] notes and [`QUEUE_BYTES`] of bodies wait for the thread.
//!
//! Upstream counterpart: none.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use kinform_core::Encoding;
use kinform_core::recording::{Asked, DigestKey, Failed, Note, Subject, Writing};
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind};
use crate::sync::{Mutex, lock};

/// BOUND: notes that wait.
const QUEUE: usize = 8_192;
/// BOUND: bytes of bodies that wait.
const QUEUE_BYTES: u64 = 64 << 20;
/// The time after which what was noted can be read from the file.
const FLUSH: Duration = Duration::from_secs(2);

/// A note that owns its content.
#[derive(Debug)]
pub(super) enum Noted {
    Asked(Box<Asked>),
    Opened(Encoding),
    Refused(Box<Failed>),
    Chunk(Bytes),
    Ended,
    Broken(Box<Failed>),
    Abandoned,
    Gap,
}

#[derive(Debug)]
enum Entry {
    Note(u32, Duration, Noted),
    Finish(oneshot::Sender<()>),
}

/// The numbers of a recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderStats {
    /// Bytes of bodies that arrived.
    pub body_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Requests and answers that are not whole in the file, because the disk was too slow.
    pub gaps: u64,
    /// The failure of the disk that ended the recording.
    pub failure: Option<String>,
}

/// The sending end of a recording.
#[derive(Debug)]
pub(super) struct Tape {
    sender: SyncSender<Entry>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Bytes of bodies in the queue.
    waiting: AtomicU64,
    body_bytes: AtomicU64,
    file_bytes: AtomicU64,
    gaps: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Tape {
    /// Starts the thread, which ends after [`finish`](Self::finish) or with the last tape.
    pub(super) fn start(
        subject: &Subject,
        key: DigestKey,
        out: impl Write + Send + 'static,
    ) -> Result<Self, Error> {
        let (sender, receiver) = sync_channel(QUEUE);
        let shared = Arc::new(Shared::default());
        let thread = Thread {
            writing: Writing::new(subject, key),
            out,
            shared: Arc::clone(&shared),
            gaps: 0,
            flushed: Duration::ZERO,
        };
        std::thread::Builder::new()
            .name("kinform-recorder".to_owned())
            .spawn(move || thread.run(&receiver))
            .map_err(|error| {
                Error::new(ErrorKind::Config, "no thread for the recorder").with_cause(error)
            })?;
        Ok(Self { sender, shared })
    }

    /// Adds a note, without waiting. Returns false if it is lost; after the end there is nothing to
    /// lose.
    pub(super) fn note(&self, exchange: u32, at: Duration, note: Noted) -> bool {
        let size = match &note {
            Noted::Chunk(chunk) => chunk.len() as u64,
            _ => 0,
        };
        let shared = &self.shared;
        let before = shared.waiting.fetch_add(size, Ordering::Relaxed);
        // One chunk alone may be larger.
        let has_room = before == 0 || before + size <= QUEUE_BYTES;
        let sent = match has_room {
            true => self.sender.try_send(Entry::Note(exchange, at, note)).err(),
            false => Some(TrySendError::Full(Entry::Note(exchange, at, note))),
        };
        match sent {
            None => shared.body_bytes.fetch_add(size, Ordering::Relaxed),
            Some(_) => shared.waiting.fetch_sub(size, Ordering::Relaxed),
        };
        !matches!(sent, Some(TrySendError::Full(_)))
    }

    /// Counts a request or an answer that is not whole in the file.
    pub(super) fn count_gap(&self) {
        self.shared.gaps.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes the end of the file, and waits for it.
    pub(super) async fn finish(&self) -> RecorderStats {
        let (sender, is_done) = oneshot::channel();
        let queue = self.sender.clone();
        // The queue may be full: then this waits, off the threads that serve others.
        let sent = tokio::task::spawn_blocking(move || queue.send(Entry::Finish(sender)));
        if matches!(sent.await, Ok(Ok(()))) {
            let _ = is_done.await;
        }
        self.stats()
    }

    pub(super) fn stats(&self) -> RecorderStats {
        RecorderStats {
            body_bytes: self.shared.body_bytes.load(Ordering::Relaxed),
            file_bytes: self.shared.file_bytes.load(Ordering::Relaxed),
            gaps: self.shared.gaps.load(Ordering::Relaxed),
            failure: lock(&self.shared.failure).clone(),
        }
    }
}

/// The thread's state.
struct Thread<W> {
    writing: Writing,
    out: W,
    shared: Arc<Shared>,
    /// Gaps that are in the file.
    gaps: u64,
    /// The time of the last flush, by the notes' times.
    flushed: Duration,
}

impl<W: Write> Thread<W> {
    fn run(mut self, queue: &Receiver<Entry>) {
        let mut last = Duration::ZERO;
        let mut finish = None;
        loop {
            match queue.recv_timeout(FLUSH) {
                Ok(Entry::Note(exchange, at, noted)) => {
                    last = at;
                    self.note(exchange, at, noted);
                    if at.saturating_sub(self.flushed) >= FLUSH {
                        self.flushed = at;
                        self.writing.flush();
                    }
                }
                Ok(Entry::Finish(done)) => {
                    finish = Some(done);
                    break;
                }
                Err(RecvTimeoutError::Timeout) => self.writing.flush(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.write();
        }
        self.tell_gaps(last);
        self.writing.finish();
        self.write();
        if let Some(done) = finish {
            let _ = done.send(());
        }
    }

    fn note(&mut self, exchange: u32, at: Duration, noted: Noted) {
        self.tell_gaps(at);
        let note = match &noted {
            Noted::Chunk(chunk) => {
                let size = chunk.len() as u64;
                self.shared.waiting.fetch_sub(size, Ordering::Relaxed);
                Note::Chunk(chunk)
            }
            Noted::Asked(asked) => Note::Asked((**asked).clone()),
            Noted::Opened(encoding) => Note::Opened(*encoding),
            Noted::Refused(failed) => Note::Refused((**failed).clone()),
            Noted::Broken(failed) => Note::Broken((**failed).clone()),
            Noted::Ended => Note::Ended,
            Noted::Abandoned => Note::Abandoned,
            Noted::Gap => Note::Gap,
        };
        self.writing.note(exchange, at, note);
    }

    fn tell_gaps(&mut self, at: Duration) {
        let gaps = self.shared.gaps.load(Ordering::Relaxed);
        if gaps > self.gaps {
            tracing::warn!(gaps, "the recording has gaps: its disk is too slow");
            self.gaps = gaps;
            self.writing.gap(at);
        }
    }

    /// Writes what is ready. After a failure everything is dropped.
    fn write(&mut self) {
        let ready = self.writing.take();
        if ready.is_empty() || lock(&self.shared.failure).is_some() {
            return;
        }
        let written = self.out.write_all(&ready).and_then(|()| self.out.flush());
        match written {
            Ok(()) => {
                let size = ready.len() as u64;
                self.shared.file_bytes.fetch_add(size, Ordering::Relaxed);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&self, error: &io::Error) {
        tracing::warn!(%error, "the recording ends here: it cannot be written");
        *lock(&self.shared.failure) = Some(error.to_string());
    }
}
