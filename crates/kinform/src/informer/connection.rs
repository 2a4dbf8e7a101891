//! One request at a time: opens it, reads its body, reports what happens.
//!
//! ```text
//! Request → ListerWatcher → Opened | Chunk | Broke | End
//!                           Chunk, End → Reader (of a list or a watch, as encoded) → Input…
//! ```
//!
//! Knows bytes and frames, decides nothing: reports to the reflector by [`Input`]s. The deadlines
//! are the reflector's; when one passes, the connection is dropped here, and with it the socket.
//! BOUND: one piece of a body is held (the splitter's and the framer's bounds).
//!
//! Upstream counterpart: `client-go:rest/watch/decoder.go`,
//! `apimachinery:pkg/watch/streamwatcher.go`.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use kinform_api::{Status, WatchEventKind};
use kinform_core::Encoding;
use kinform_core::object::Object;
use kinform_core::reflector::Request;
use kinform_core::reflector::input::{Ending, Event, Failure, Input, Outside};
use kinform_core::store::baseline::RootBaseline;
use kinform_core::store::root::Root;
use kinform_core::store::slot_hint::SlotHint;
use kinform_core::wire::encoding::{ListReader, WatchReader};
use kinform_core::wire::error::WireError;
use kinform_core::wire::list::ListPart;
use kinform_core::wire::unreadable::Unreadable;
use kinform_core::wire::watch::{Frame, FrameKind};

use super::ingest::{Ingest, Intake, ItemsRead, Refused};
use crate::source::{Body, ListerWatcher, SourceError, SourceErrorKind};

/// The request that is open, if one is.
#[derive(Default)]
pub(super) enum Connection {
    #[default]
    Idle,
    Opening(BoxFuture<'static, Result<Body, SourceError>>, Asked),
    Reading(BoxStream<'static, Result<Bytes, SourceError>>, Reader),
    /// A probe, and the streaming list beside it, which is not read meanwhile.
    Beside(Box<Self>, Box<Self>),
}

/// The kind of body that a request expects.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    List,
    Watch,
}

/// An event on the connection.
pub(super) enum Observed {
    Opened(Result<(), SourceError>),
    Chunk(Bytes),
    Broke(SourceError),
    End,
}

/// BOUND: bytes of a body without a complete object. The largest object has 64 MiB; passing over a
/// larger one costs time, for which no deadline is counted.
const MAX_UNFINISHED_BYTES: usize = 256 << 20;

/// Makes inputs of a body's bytes.
pub(super) struct Reader {
    parser: Parser,
    /// Bytes since the last complete object.
    unfinished: usize,
}

enum Parser {
    List(Box<ListReader>, ItemsRead, Cell<SlotHint>),
    Watch(WatchReader),
}

impl Connection {
    /// Makes `request`; replaces, and so closes, an open one, but a streaming list beside a probe.
    pub(super) fn open(&mut self, source: &Arc<dyn ListerWatcher>, request: Request) {
        let source = Arc::clone(source);
        let is_probe = matches!(request, Request::Probe { .. });
        let before = std::mem::take(self);
        let opened = match request {
            Request::List { options, .. } | Request::Probe { options, .. } => Self::Opening(
                Box::pin(async move { source.list(&options).await }),
                Asked::List,
            ),
            Request::Watch { options, .. } => Self::Opening(
                Box::pin(async move { source.watch(&options).await }),
                Asked::Watch,
            ),
        };
        *self = match before {
            Self::Reading(..) if is_probe => Self::Beside(Box::new(opened), Box::new(before)),
            _ => opened,
        };
    }

    /// Goes on with the streaming list beside a probe.
    pub(super) fn resume(&mut self) {
        *self = match std::mem::take(self) {
            Self::Beside(_, stream) => *stream,
            other => other,
        };
    }

    /// Drops the request that is read; a streaming list beside it stays.
    pub(super) fn end(&mut self) {
        match self {
            Self::Beside(probe, _) => **probe = Self::Idle,
            other => *other = Self::Idle,
        }
    }

    /// Returns whether a streaming list is open beside a probe.
    pub(super) fn is_beside(&self) -> bool {
        matches!(self, Self::Beside(..))
    }

    /// The request that is read.
    fn read(&mut self) -> &mut Self {
        match self {
            Self::Beside(probe, _) => probe,
            other => other,
        }
    }

    /// The next event; pending for ever without an open request.
    ///
    /// Cancel safety: nothing is lost, the connection continues where it was.
    pub(super) async fn next(&mut self) -> Observed {
        let this = self.read();
        match this {
            // A streaming list beside a probe has no other beside it.
            Self::Idle | Self::Beside(..) => std::future::pending().await,
            Self::Opening(opening, _) => {
                let opened = opening.await;
                let Self::Opening(_, asked) = std::mem::take(this) else {
                    return Observed::End;
                };
                Observed::Opened(opened.map(|body| {
                    let reader = Reader::new(asked, body.encoding());
                    *this = Self::Reading(body.into_chunks(), reader);
                }))
            }
            Self::Reading(chunks, _) => match chunks.next().await {
                Some(Ok(chunk)) => Observed::Chunk(chunk),
                Some(Err(error)) => Observed::Broke(error),
                None => Observed::End,
            },
        }
    }

    /// Takes the reader out, so that the rest can be changed while it reads.
    pub(super) fn take_reader(&mut self) -> Option<Reader> {
        match self.read() {
            Self::Reading(_, reader) => {
                let none = Reader::new(Asked::Watch, Encoding::Json);
                Some(std::mem::replace(reader, none))
            }
            Self::Idle | Self::Opening(..) | Self::Beside(..) => None,
        }
    }

    /// Puts the reader back; drops it if the connection is gone meanwhile.
    pub(super) fn put_reader(&mut self, with: Reader) {
        if let Self::Reading(_, reader) = self.read() {
            *reader = with;
        }
    }
}

impl Reader {
    fn new(asked: Asked, encoding: Encoding) -> Self {
        let parser = match asked {
            Asked::List => Parser::List(
                Box::new(ListReader::new(encoding)),
                ItemsRead::default(),
                Cell::default(),
            ),
            Asked::Watch => Parser::Watch(WatchReader::new(encoding)),
        };
        Self {
            parser,
            unfinished: 0,
        }
    }

    /// Reads the next bytes of the body. A list's item that is in `root` unchanged costs only a
    /// comparison.
    pub(super) fn feed(
        &mut self,
        chunk: &[u8],
        intake: &Intake<'_>,
        root: &Root,
        mut observe: impl FnMut(Input),
    ) {
        let ingest = intake.ingest;
        let unfinished = Cell::new(self.unfinished.saturating_add(chunk.len()));
        let mut observe = |input| {
            unfinished.set(0);
            observe(input);
        };
        let fed = match &mut self.parser {
            Parser::List(splitter, read, hint) => {
                let mut part = |part: ListPart<'_>| observe(listed(part, intake, read));
                // A transform may depend on more than an object's bytes.
                let fed = if root.is_empty() || ingest.transform.is_some() {
                    splitter.feed(chunk, &mut part)
                } else {
                    splitter.feed_compared(chunk, &RootBaseline::new(root, hint), &mut part)
                };
                ingest.count(read);
                fed
            }
            Parser::Watch(framer) => {
                let mut read = ItemsRead::default();
                let fed = framer.feed(chunk, &mut |frame| {
                    observe(Input::Event(event(frame, intake, &mut read)));
                });
                ingest.count(&mut read);
                fed
            }
        };
        if let Err(error) = fed {
            observe(Input::Ended(garbled(&error)));
        } else if unfinished.get() > MAX_UNFINISHED_BYTES {
            let message = format!("{MAX_UNFINISHED_BYTES} bytes without a complete object");
            observe(Input::Ended(Ending::Garbled { message }));
        }
        self.unfinished = unfinished.get();
    }

    /// Handles the end of the body.
    pub(super) fn finish(self, ingest: &Ingest) -> Input {
        match self.parser {
            Parser::List(splitter, read, _) => match splitter.finish() {
                Ok(meta) => match ingest.list(&meta, read) {
                    Ok(()) => Input::PageEnd {
                        version: meta.resource_version.as_str().into(),
                        continue_token: meta.continue_token,
                        remaining: meta.remaining,
                    },
                    Err(what) => Input::Ended(foreign(&what)),
                },
                Err(WireError::Truncated) => Input::Ended(cut("the list ended in the middle")),
                Err(error) => Input::Ended(garbled(&error)),
            },
            Parser::Watch(framer) => Input::Ended(match framer.finish() {
                Ok(()) => Ending::Clean,
                Err(_) => cut("the watch ended in the middle of an event"),
            }),
        }
    }
}

fn listed(part: ListPart<'_>, intake: &Intake<'_>, read: &mut ItemsRead) -> Input {
    match part {
        ListPart::Item(item) => match intake.object(item, read) {
            Ok(object) => Input::Item(Ok(object)),
            Err(refused) => not_listed(refused),
        },
        ListPart::Unreadable(unreadable) => not_listed(intake.unreadable(unreadable)),
    }
}

fn not_listed(refused: Refused) -> Input {
    match refused {
        Refused::Unreadable(unreadable) => Input::Item(Err(unreadable)),
        Refused::Foreign(what) => Input::Ended(foreign(&what)),
        Refused::Outside(..) => Input::ItemOutside,
    }
}

fn cut(message: &str) -> Ending {
    Ending::Cut {
        message: message.to_owned(),
    }
}

fn garbled(error: &WireError) -> Ending {
    Ending::Garbled {
        message: error.to_string(),
    }
}

fn foreign(what: &str) -> Ending {
    Ending::Garbled {
        message: format!("a list of something else than was asked for: {what}"),
    }
}

fn event(frame: Frame<'_>, intake: &Intake<'_>, read: &mut ItemsRead) -> Event {
    let mut object = |kind, item, wrap: fn(Object) -> Event| match intake.object(item, read) {
        Ok(object) => wrap(object),
        Err(Refused::Unreadable(object)) => Event::Unreadable { kind, object },
        Err(Refused::Foreign(what)) => Event::Foreign { what },
        Err(Refused::Outside(version, object)) => Event::Outside(Outside {
            kind,
            version,
            // A new object is no other state of one that is stored.
            object: object.filter(|_| kind != WatchEventKind::Added),
        }),
    };
    let item = frame.object;
    match frame.kind {
        FrameKind::Known(kind @ WatchEventKind::Added) => object(kind, item, Event::Added),
        FrameKind::Known(kind @ WatchEventKind::Modified) => object(kind, item, Event::Modified),
        FrameKind::Known(kind @ WatchEventKind::Deleted) => object(kind, item, Event::Deleted),
        FrameKind::Known(kind @ WatchEventKind::Bookmark) => match item.bookmark() {
            Ok(bookmark) => Event::Bookmark {
                version: bookmark.resource_version.as_str().into(),
                initial_events_end: bookmark.initial_events_end,
            },
            Err(object) => Event::Unreadable { kind, object },
        },
        FrameKind::Known(WatchEventKind::Error) | FrameKind::Status => Event::Error(item.status()),
        FrameKind::Unknown(what) => match intake.object(item, read) {
            Ok(_) => malformed(Unreadable {
                key: None,
                resource_version: None,
                path: "type".to_owned(),
                reason: format!("is unknown: {what:?}"),
            }),
            Err(_) => Event::Foreign { what },
        },
        FrameKind::Malformed(unreadable) => malformed(unreadable),
    }
}

fn malformed(object: Unreadable) -> Event {
    Event::Unreadable {
        kind: WatchEventKind::Modified,
        object,
    }
}

/// The failure of a request, as the reflector needs it.
pub(super) fn failure(error: &SourceError) -> Failure {
    let message = error.to_string();
    match (error.kind(), error.http_code()) {
        (SourceErrorKind::Refused, _) => Failure::Refused { message },
        (SourceErrorKind::Certificate, _) => Failure::Certificate { message },
        (SourceErrorKind::Deadline, _) => Failure::Deadline,
        (SourceErrorKind::Status, Some(code)) => Failure::Status {
            code,
            status: match error.status() {
                Some(status) => Box::new(status.clone()),
                None => Box::new(Status::failure(code, "", message)),
            },
            retry_after: error.retry_after(),
        },
        (SourceErrorKind::NotKubernetes, code) => Failure::NotKubernetes {
            code: code.unwrap_or_default(),
            message,
        },
        _ => Failure::Transport { message },
    }
}
