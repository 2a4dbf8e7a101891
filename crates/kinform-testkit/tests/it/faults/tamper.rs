//! A server that says the wrong thing: replies are changed between it and the informer.
//!
//! ```text
//! HttpSource ──body──▶ whole list | frames of a watch ──Frames──▶ the informer
//! ```
//!
//! Works on frames and bytes, never on parsed objects, so JSON and protobuf are damaged alike. A clone
//! is the same switch.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use kinform::Encoding;
use kinform::source::{Body, HttpSource, ListerWatcher, ResourceInfo, SourceError};
use kinform_api::{ListOptions, WatchOptions};

/// The treatment of what comes next.
#[derive(Clone, Debug, Default)]
pub(crate) enum Frames {
    /// As it is.
    #[default]
    Pass,
    /// Each frame of a watch twice.
    Duplicate,
    /// The next two frames of a watch in the other order, then as they are.
    Swap,
    /// The next frame of a watch is lost, then as they are.
    Drop,
    /// The bytes that follow are damaged where it contains this text; once.
    Corrupt(&'static str),
    /// A byte each second.
    Trickle,
}

type Reply = Result<Body, SourceError>;
/// Replies in place of the server's: the next of the queue, whatever is asked for.
pub(crate) type Replies = VecDeque<Box<dyn FnOnce() -> Reply + Send>>;
type Asking = Arc<dyn Fn(&mut ListOptions) + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct Tamper(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    frames: Frames,
    replies: Replies,
    asking: Option<Asking>,
    /// Pieces of the first reply, as long as it is recorded.
    recorded: Option<Vec<Bytes>>,
}

impl Tamper {
    pub(crate) fn set(&self, frames: Frames) {
        self.0.lock().unwrap().frames = frames;
    }

    /// The next request, list or watch, gets this reply.
    pub(crate) fn reply(&self, reply: impl FnOnce() -> Reply + Send + 'static) {
        self.0.lock().unwrap().replies.push_back(Box::new(reply));
    }

    /// Changes the options of each list.
    pub(crate) fn asking(&self, change: impl Fn(&mut ListOptions) + Send + Sync + 'static) {
        self.0.lock().unwrap().asking = Some(Arc::new(change));
    }

    /// Records the bytes of all replies from now on.
    pub(crate) fn record(&self) {
        self.0.lock().unwrap().recorded = Some(Vec::new());
    }

    /// Ends the recording.
    pub(crate) fn recorded(&self) -> Vec<Bytes> {
        self.0.lock().unwrap().recorded.take().unwrap_or_default()
    }

    pub(crate) fn over(&self, source: HttpSource) -> Tampered {
        Tampered {
            source,
            tamper: self.clone(),
        }
    }

    fn note(&self, piece: &Bytes) {
        if let Some(recorded) = &mut self.0.lock().unwrap().recorded {
            recorded.push(piece.clone());
        }
    }

    /// The frames that go on in place of this one.
    fn treat(&self, frame: Bytes, kept: &mut Option<Bytes>) -> Vec<Bytes> {
        if let Some(first) = kept.take() {
            return vec![frame, first];
        }
        let mut inner = self.0.lock().unwrap();
        match inner.frames {
            Frames::Pass | Frames::Trickle => vec![frame],
            Frames::Duplicate => vec![frame.clone(), frame],
            Frames::Swap => {
                inner.frames = Frames::Pass;
                *kept = Some(frame);
                Vec::new()
            }
            Frames::Drop => {
                inner.frames = Frames::Pass;
                Vec::new()
            }
            Frames::Corrupt(text) => match corrupted(&frame, text) {
                Some(bad) => {
                    inner.frames = Frames::Pass;
                    vec![bad]
                }
                None => vec![frame],
            },
        }
    }

    fn is_trickling(&self) -> bool {
        matches!(self.0.lock().unwrap().frames, Frames::Trickle)
    }
}

/// The bytes with damage behind `text`, a key of an object's data: the object's name can still be
/// read. In JSON the colon goes; in protobuf the value gets a wire type that does not exist.
fn corrupted(bytes: &Bytes, text: &str) -> Option<Bytes> {
    let is_data = |at: &usize| !bytes[..*at].ends_with(b"f:"); // of managedFields
    let mut parts = bytes.windows(text.len()).enumerate();
    let found = parts.find(|(at, part)| *part == text.as_bytes() && is_data(at));
    let end = found?.0 + text.len();
    let mut damaged = bytes.to_vec();
    match bytes.get(end..end + 2)? {
        b"\":" => damaged[end + 1] = b';',
        _ => damaged[end] = 0x17,
    }
    Some(damaged.into())
}

/// A source whose replies are changed.
pub(crate) struct Tampered {
    source: HttpSource,
    tamper: Tamper,
}

impl ListerWatcher for Tampered {
    fn list<'a>(&'a self, options: &'a ListOptions) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let (reply, asking) = {
                let mut inner = self.tamper.0.lock().unwrap();
                (inner.replies.pop_front(), inner.asking.clone())
            };
            if let Some(reply) = reply {
                return reply();
            }
            let mut options = options.clone();
            if let Some(change) = asking {
                change(&mut options);
            }
            let body = self.source.list(&options).await?;
            let encoding = body.encoding();
            Ok(Body::new(encoding, self.listed(body.into_chunks())))
        })
    }

    fn watch<'a>(&'a self, options: &'a WatchOptions) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let reply = self.tamper.0.lock().unwrap().replies.pop_front();
            if let Some(reply) = reply {
                return reply();
            }
            let body = self.source.watch(options).await?;
            let encoding = body.encoding();
            let frames = frames(body.into_chunks(), encoding, self.tamper.clone());
            Ok(Body::new(encoding, trickled(frames, self.tamper.clone())))
        })
    }

    fn resource(&self) -> &ResourceInfo {
        self.source.resource()
    }
}

type Chunks = BoxStream<'static, Result<Bytes, SourceError>>;

impl Tampered {
    /// A list, which is collected first if it is to be damaged.
    fn listed(&self, chunks: Chunks) -> Chunks {
        let tamper = self.tamper.clone();
        let Frames::Corrupt(text) = tamper.0.lock().unwrap().frames else {
            let noted = tamper.clone();
            let chunks = chunks.inspect(move |chunk| {
                if let Ok(chunk) = chunk {
                    noted.note(chunk);
                }
            });
            return trickled(chunks.boxed(), tamper);
        };
        let whole = async move {
            let mut all = BytesMut::new();
            let mut chunks = chunks;
            while let Some(chunk) = chunks.next().await {
                all.extend_from_slice(&chunk?);
            }
            let all = all.freeze();
            let bad = corrupted(&all, text);
            if bad.is_some() {
                tamper.set(Frames::Pass);
            }
            Ok(bad.unwrap_or(all))
        };
        stream::once(whole).boxed()
    }
}

/// The frames of a watch, treated one by one.
fn frames(chunks: Chunks, encoding: Encoding, tamper: Tamper) -> Chunks {
    let start = (chunks, BytesMut::new(), None, tamper);
    let step = move |(mut chunks, mut held, mut kept, tamper): (Chunks, BytesMut, _, Tamper)| async move {
        loop {
            if let Some(size) = frame_bytes(&held, encoding) {
                let frame = held.split_to(size).freeze();
                tamper.note(&frame);
                let out = tamper.treat(frame, &mut kept);
                if out.is_empty() {
                    continue;
                }
                return Some((Ok(Bytes::from(out.concat())), (chunks, held, kept, tamper)));
            }
            match chunks.next().await {
                Some(Ok(chunk)) => held.extend_from_slice(&chunk),
                Some(Err(error)) => return Some((Err(error), (chunks, held, kept, tamper))),
                None if held.is_empty() => return None,
                None => return Some((Ok(held.split().freeze()), (chunks, held, kept, tamper))),
            }
        }
    };
    stream::unfold(start, step).boxed()
}

/// The size of the first frame: a line of JSON, or a length and as many bytes of protobuf.
fn frame_bytes(held: &[u8], encoding: Encoding) -> Option<usize> {
    match encoding {
        Encoding::Json => Some(held.iter().position(|byte| *byte == b'\n')? + 1),
        _ => {
            let length = u32::from_be_bytes(*held.first_chunk::<4>()?);
            let size = 4 + length as usize;
            (held.len() >= size).then_some(size)
        }
    }
}

/// The same bytes; one a second while that is asked for.
fn trickled(chunks: Chunks, tamper: Tamper) -> Chunks {
    let start = (chunks, Bytes::new(), tamper);
    stream::unfold(start, |(mut chunks, mut held, tamper)| async move {
        if held.is_empty() {
            match chunks.next().await? {
                Ok(chunk) => held = chunk,
                Err(error) => return Some((Err(error), (chunks, held, tamper))),
            }
        }
        let piece = match tamper.is_trickling() && !held.is_empty() {
            true => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                held.split_to(1)
            }
            false => std::mem::take(&mut held),
        };
        Some((Ok(piece), (chunks, held, tamper)))
    })
    .boxed()
}
