//! Watches: the log from a version on, seen through a selection, as a stream of frames.
//!
//! ```text
//! snapshot ──initial events──▶ end bookmark ──▶ cursor in the log ──filter(previous, current)──▶ frames
//!                                                timers: bookmarks, timeout        ends: cut, lost, stop
//! ```
//!
//! A watch owns a cursor and no queue: it asks the store for the next events whenever its reader
//! has taken its earlier frames. A watch that has fallen out of the log ends cleanly, as upstream's
//! slow watchers do, and its client resumes. A watch always ends cleanly; a failure is one ERROR
//! event before the end. Small frames that are ready together are sent together; large objects are
//! shared with the store, so that watches that do not read keep no copies.
//!
//! | version | initial events | first come                                | then              |
//! |---------|----------------|-------------------------------------------|-------------------|
//! | unset,0 | yes or legacy  | the state, in key order; the end bookmark | newer events      |
//! | N       | yes            | the same, once the store has reached N    | newer events      |
//! | unset,0 | no             | nothing                                   | events from now   |
//! | N       | no             | nothing                                   | events after N    |
//!
//! Upstream: `apiserver:pkg/storage/cacher/{cacher,cache_watcher}.go`,
//! `apiserver:pkg/endpoints/handlers/watch.go`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::Response;
use kinform_api::{Status, WatchEventKind, mutant};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::source::Source;
use crate::clock;
use crate::encode::frames::Frames;
use crate::encode::select::Selection;
use crate::encode::{Bookmark, Encoder, EventParts, error_frame};
use crate::fault::Midway;
use crate::http::body::{Body, CutOff};
use crate::http::list_options::{self, ReadOptions, Version};
use crate::http::negotiate::Form;
use crate::http::reply;
use crate::http::route::Target;
use crate::state::State;
use crate::storage::{Ends, Event, Place, PollLimits, Shelf, Snapshot};

const WATCH_EXPIRED: &str = "The resourceVersion for the provided watch is too old.";

/// BOUND: bytes that a watch writes before it sends them. The last object may exceed them.
const CHUNK: usize = 64 << 10;
/// BOUND: events that a watch takes from the log in one batch, whose objects have up to `CHUNK`
/// bytes before the last one.
const BATCH: usize = 256;
/// Time between the last bookmark of a watch and its timeout.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// Answers a watch.
pub(crate) async fn watch(
    state: &Arc<State>,
    target: &Target,
    options: ReadOptions,
    form: Form,
) -> Result<Response<Body>, Status> {
    let selection = state.selection(target, &options)?;
    // Upstream's versioner returns an error that is not an API status: it becomes a 500 without a
    // reason.
    let version =
        list_options::version(&options.version).map_err(|why| Status::failure(500, "", why))?;
    let mut watcher = Watcher::new(state, target, selection, &options, form);
    if let Err(status) = watcher
        .start(version, options.initial_events == Some(true))
        .await
    {
        if status.is_expired() && state.faults.refuses_expired_watches() {
            return Err(status);
        }
        // The watch is accepted already: later failures are events.
        watcher.fail(&status);
    }
    let midway = watcher.midway.clone();
    let frames = stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next().await?;
        Some((chunk, watcher))
    });
    let media_type = form.encoding.stream_type();
    let mut reply = reply::streamed(media_type, Body::stream(frames));
    reply.extensions_mut().insert(midway);
    Ok(reply)
}

struct Watcher {
    state: Arc<State>,
    shelf: Shelf,
    selection: Selection,
    encoder: Encoder,
    /// Every event up to here was sent or does not match.
    cursor: u64,
    initial: Option<Initial>,
    /// The bookmark that ends the initial events is still to be sent.
    owes_end: bool,
    phase: Phase,
    /// Frames that are not yet sent.
    out: Frames,
    /// Set while a part of the frames that were ready together is sent.
    midway: Midway,
    bookmarks: bool,
    timers: Timers,
    source: Source,
    wake: Receiver<u64>,
    /// Wakes when more objects were converted, where that is done.
    converted: Option<Receiver<u64>>,
    /// Counts of requests to end watches, as of this watch's start.
    ends: Ends,
}

/// Initial events that are still to be sent.
struct Initial {
    snapshot: Snapshot,
    at: Place,
    end: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Sends initial events or history.
    CatchingUp,
    /// Has caught up once; from now on it may not fall far behind.
    Live,
    /// Sends the remaining frames, then ends.
    Ending,
    Ended,
}

struct Timers {
    deadline: Instant,
    bookmark: Option<Instant>,
    period: Option<Duration>,
}

impl Watcher {
    fn new(
        state: &Arc<State>,
        target: &Target,
        selection: Selection,
        options: &ReadOptions,
        form: Form,
    ) -> Self {
        let shelf = target.resource.shelf;
        let now = clock::instant();
        let timeout = state.watch_timeout(options.timeout_seconds);
        let timers = Timers {
            deadline: now + timeout,
            bookmark: None,
            period: state.bookmark_period().filter(|_| options.bookmarks),
        };
        let source = Source::of(state, &target.resource);
        let (wake, converted) = source.subscribe();
        Self {
            shelf,
            selection,
            encoder: source.encoder(form),
            cursor: 0,
            initial: None,
            owes_end: false,
            phase: Phase::CatchingUp,
            out: Frames::default(),
            midway: Midway::default(),
            bookmarks: options.bookmarks,
            timers: timers.with_next_bookmark(now),
            wake,
            converted,
            ends: source.ends(),
            source,
            state: state.clone(),
        }
    }

    async fn start(&mut self, version: Version, initial_events: bool) -> Result<(), Status> {
        self.source.begun().await;
        if !initial_events {
            self.cursor = match version {
                Version::Unset => self.state.store.revision(),
                Version::Any => self.state.replica_revision(),
                Version::At(revision) => revision,
            };
            let store = &self.state.store;
            return self.source.can_resume(self.cursor).map_err(|floor| {
                // Upstream keeps no watch cache of events: the storage itself answers.
                if self.shelf == store.shelf("events") {
                    Status::expired(WATCH_EXPIRED)
                } else {
                    Status::too_old_resource_version(self.cursor, floor)
                }
            });
        }
        match version {
            Version::Unset => self.source.reached(self.state.store.revision()).await?,
            Version::Any => {}
            Version::At(revision) => self.source.asked(revision).await?,
        }
        let view = self.source.replica();
        let (mut at, end) = self.selection.bounds(&view.snapshot);
        if !self.state.faults.sends_initial_events() {
            at = end;
        }
        self.cursor = view.revision;
        self.initial = Some(Initial {
            snapshot: view.snapshot,
            at,
            end,
        });
        Ok(())
    }

    fn fail(&mut self, status: &Status) {
        error_frame(self.out.small(), status, self.encoder.encoding());
        self.phase = Phase::Ending;
    }

    /// Returns the next bytes of the stream; `None` at its end.
    ///
    /// Cancel safety: events leave the log only together with being written to `out`, which stays.
    async fn next(&mut self) -> Option<Result<Bytes, CutOff>> {
        loop {
            // A frame that has begun is sent to its end.
            if let Some(chunk) = self.out.take() {
                self.midway.set(!self.out.is_empty());
                return Some(Ok(chunk));
            }
            if self.phase == Phase::Ended || self.state.stopping.is_cancelled() {
                return None;
            }
            self.fill();
            if !self.out.is_empty() {
                continue;
            }
            if self.phase == Phase::Ending {
                self.phase = Phase::Ended;
                continue;
            }
            self.wait().await;
        }
    }

    /// Writes the frames that are ready.
    fn fill(&mut self) {
        if self.phase == Phase::Ending {
            return;
        }
        if self.initial.is_some() {
            self.fill_initial();
            return;
        }
        self.fill_events();
        let is_due = || !self.out.is_empty() || !self.state.faults.delays_initial_events_end();
        if self.owes_end && is_due() {
            self.end_initial_events();
        }
    }

    fn fill_events(&mut self) {
        while self.out.len() < CHUNK {
            let ceiling = self.state.faults.replica();
            let polled = self.source.poll(
                self.cursor,
                PollLimits {
                    events: BATCH,
                    bytes: CHUNK,
                    ceiling,
                },
            );
            let behind = self.phase == Phase::Live
                && polled.remaining + polled.events.len() > self.state.limits.watch_backlog;
            if polled.lost || behind || polled.ends.at_once != self.ends.at_once {
                self.phase = Phase::Ending;
                return;
            }
            for event in &polled.events {
                self.write(event);
                // Each event has a revision of its own. A frame may be much longer than its stored
                // object; the next fill goes on behind the last event that was written.
                self.cursor = event.revision.max(self.cursor);
                if self.out.len() >= CHUNK {
                    return;
                }
            }
            self.cursor = polled.upto.max(self.cursor);
            if polled.remaining == 0 {
                let is_over = polled.ends.after_events != self.ends.after_events;
                if is_over && !self.source.is_behind() {
                    self.phase = Phase::Ending;
                } else {
                    self.phase = Phase::Live;
                }
                return;
            }
        }
    }

    fn fill_initial(&mut self) {
        let Some(initial) = &mut self.initial else {
            return;
        };
        while initial.at < initial.end {
            let Some(object) = initial.snapshot.at(initial.at) else {
                break;
            };
            if !self.out.is_empty() && self.out.len() + object.bytes().len() > CHUNK {
                return;
            }
            initial.at = initial.snapshot.next(initial.at);
            if self.selection.matches(object) {
                let event = EventParts {
                    kind: WatchEventKind::Added,
                    object,
                    revision: None,
                };
                self.encoder.event(&mut self.out, event);
            }
        }
        self.initial = None;
        let faults = &self.state.faults;
        self.owes_end = self.bookmarks && faults.sends_initial_events_end();
        if self.owes_end && !faults.delays_initial_events_end() {
            self.end_initial_events();
        }
    }

    fn end_initial_events(&mut self) {
        self.owes_end = false;
        self.encoder
            .bookmark(self.out.small(), self.cursor, Bookmark::InitialEventsEnd);
    }

    /// Writes the event that a change is for this watch: an object that stops to match is deleted,
    /// one that begins to match is added.
    fn write(&mut self, event: &Event) {
        let before = event
            .previous
            .as_deref()
            .filter(|object| self.selection.matches(object));
        let after = event
            .current
            .as_deref()
            .filter(|object| self.selection.matches(object));
        let (kind, object, revision) = match (before, after) {
            (None, None) => return,
            (Some(_), None) if mutant!("S4") && event.current.is_some() => return,
            (None, Some(object)) => (WatchEventKind::Added, object, None),
            (Some(_), Some(object)) => (WatchEventKind::Modified, object, None),
            // The old content under the version of the change.
            (Some(object), None) => (WatchEventKind::Deleted, object, Some(event.revision)),
        };
        let event = EventParts {
            kind,
            object,
            revision,
        };
        self.encoder.event(&mut self.out, event);
    }

    async fn wait(&mut self) {
        let bookmark = self.timers.bookmark.unwrap_or(self.timers.deadline);
        tokio::select! {
            biased;
            () = self.state.stopping.cancelled() => {}
            // The sender lives as long as the store, which the watch holds.
            _ = self.wake.changed() => {}
            () = next_change(&mut self.converted) => {}
            () = sleep_until(self.timers.deadline) => self.phase = Phase::Ending,
            () = sleep_until(bookmark), if self.timers.bookmark.is_some() => self.tell_version(),
        }
    }

    fn tell_version(&mut self) {
        let now = clock::instant();
        self.timers =
            std::mem::replace(&mut self.timers, Timers::none(now)).with_next_bookmark(now);
        // Events that came since the last look go first.
        self.fill();
        let reached = self.state.replica_revision();
        // A watch from the future is silent until that version is reached.
        if self.phase == Phase::Live
            && self.cursor <= reached
            && self.state.faults.sends_bookmarks()
        {
            // The first bookmark after initial events is that of their end.
            if self.owes_end {
                self.end_initial_events();
                return;
            }
            let version = match mutant!("S3") {
                true => self.state.store.revision(),
                false => self.cursor,
            };
            self.encoder
                .bookmark(self.out.small(), version, Bookmark::Periodic);
        }
    }
}

/// Waits until more objects were converted; forever where nothing is.
async fn next_change(converted: &mut Option<Receiver<u64>>) {
    match converted {
        // The sender lives as long as the mirror, which the watch holds.
        Some(converted) => drop(converted.changed().await),
        None => std::future::pending().await,
    }
}

impl Timers {
    fn none(now: Instant) -> Self {
        Self {
            deadline: now,
            bookmark: None,
            period: None,
        }
    }

    /// The earlier of: a period from now, and shortly before the timeout.
    fn with_next_bookmark(mut self, now: Instant) -> Self {
        let last = self
            .deadline
            .checked_sub(LAST_BOOKMARK)
            .filter(|last| *last > now);
        let regular = self
            .period
            .map(|period| now + period)
            .filter(|at| *at < self.deadline);
        self.bookmark = match (self.period.and(last), regular) {
            (Some(last), Some(regular)) => Some(last.min(regular)),
            (last, regular) => last.or(regular),
        };
        self
    }
}
