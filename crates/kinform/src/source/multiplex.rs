//! Requests over few connections: HTTP/2 where the server offers it.
//!
//! ```text
//! request ─ upgrade? ─▶ HTTP/1.1 only
//!        ├─ not known, or HTTP/1.1 ─▶ pool: a connection for each reply under way
//!        └─ HTTP/2 ─▶ first lane with a free stream: one connection, shared by 64 replies at most
//! ```
//!
//! A hundred watches take three connections in place of a hundred. A lane is a pool that opens its
//! one connection again when it has broken; its streams are counted here, since a stream above the
//! server's limit would wait for another one to end, and watches do not end. The first connection
//! shows the protocol that the server chooses; meanwhile other requests wait, so that a program that
//! starts does not open a connection for each of its informers. Any later connection may show
//! another protocol. A reader that stops reading stops its own stream only: the connection's window
//! has room for all.
//!
//! Upstream counterpart: `apimachinery:pkg/util/net/http.go` (`configureHTTP2Transport`).

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::UPGRADE;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use kube_client::client::Body;
use tokio::sync::{Semaphore, SemaphorePermit};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt};

use super::pool::Pooled;
use super::protocol::{Chosen, Protocol, Protocols};
use crate::error::Error;

/// BOUND: replies under way on one connection. Servers allow 100 (client-go's default, Go's server,
/// most proxies) and more.
const STREAMS: usize = 64;
/// Fewer are not believed: a request that is given up may have other reasons than a server's limit.
const FEWEST: usize = 16;

/// Opens a pool whose connections speak these protocols.
pub(super) type Open = Box<dyn Fn(Protocols) -> Result<Pooled, Error> + Send + Sync>;

/// Sends requests over its lanes.
pub(super) type Multiplexed = BoxCloneSyncService<Request<Body>, Response<Counted>, BoxError>;

/// Makes the pools, none of which connects before the first request. The protocol may be known: a
/// client that wants HTTP/1.1 offers no other.
///
/// # Errors
/// As of `open`.
pub(super) fn over(open: Open, known: Option<Protocol>) -> Result<Multiplexed, Error> {
    let chosen = Chosen::new(known);
    let upgrades = open(Protocols::Http1)?;
    let shared = Shared {
        pool: match known {
            Some(Protocol::Http1) => upgrades.clone(),
            _ => open(Protocols::Either(chosen.clone()))?,
        },
        upgrades,
        lanes: Mutex::default(),
        chosen,
        ahead: Semaphore::new(1),
        open,
    };
    let shared = Arc::new(shared);
    let send = move |request| Arc::clone(&shared).send(request);
    Ok(BoxCloneSyncService::new(tower::service_fn(send)))
}

struct Shared {
    open: Open,
    /// For requests that leave HTTP: `exec`, `attach`, `port-forward`.
    upgrades: Pooled,
    /// For a server without HTTP/2, and to find out.
    pool: Pooled,
    // BOUND: as many as the replies under way need, and one.
    lanes: Mutex<Vec<Lane>>,
    /// `None` until the first connection stands.
    chosen: Chosen,
    /// The right to be the request whose connection shows the protocol.
    ahead: Semaphore,
}

struct Lane {
    pool: Pooled,
    streams: Arc<Streams>,
}

/// The streams of a lane.
#[derive(Debug)]
struct Streams {
    /// Requests without a head yet, and replies under way.
    taken: AtomicUsize,
    /// Replies under way.
    heads: AtomicUsize,
    /// The most that this lane is given.
    most: AtomicUsize,
}

impl Shared {
    async fn send(self: Arc<Self>, request: Request<Body>) -> Result<Response<Counted>, BoxError> {
        if request.headers().contains_key(UPGRADE) {
            let response = self.upgrades.clone().oneshot(request).await?;
            return Ok(response.map(|body| Counted { body, stream: None }));
        }
        // Kept until the head of the reply: if this request fails, the next one goes ahead.
        let _ahead = self.wait().await;
        let (pool, stream) = match *self.chosen.borrow() {
            Some(Protocol::Http2) => {
                let (pool, stream) = self.lane()?;
                (pool, Some(stream))
            }
            _ => (self.pool.clone(), None),
        };
        let response = pool.oneshot(request).await?;
        let stream = stream.map(Stream::begun);
        Ok(response.map(|body| Counted { body, stream }))
    }

    /// Waits until the protocol is known, or this request is the one to find it out.
    async fn wait(&self) -> Option<SemaphorePermit<'_>> {
        let mut chosen = self.chosen.subscribe();
        tokio::select! {
            biased;
            // The sender lives as long as this.
            _ = chosen.wait_for(Option::is_some) => None,
            ahead = self.ahead.acquire() => ahead.ok(),
        }
    }

    /// A lane with a free stream, which is then taken.
    fn lane(&self) -> Result<(Pooled, Stream), Error> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let place = match lanes.iter().position(|lane| lane.streams.has_room()) {
            Some(place) => place,
            None => {
                lanes.push(Lane {
                    pool: (self.open)(Protocols::Http2(self.chosen.clone()))?,
                    streams: Arc::new(Streams::new()),
                });
                lanes.len() - 1
            }
        };
        let lane = &lanes[place];
        let taken = (lane.pool.clone(), Stream::of(&lane.streams));
        // A lane that is dropped closes its connection; the first stays.
        let mut rest = lanes.split_off(1);
        rest.retain(|lane| lane.streams.taken.load(Ordering::Relaxed) > 0);
        lanes.append(&mut rest);
        Ok(taken)
    }
}

impl Streams {
    fn new() -> Self {
        Self {
            taken: AtomicUsize::new(0),
            heads: AtomicUsize::new(0),
            most: AtomicUsize::new(STREAMS),
        }
    }

    fn has_room(&self) -> bool {
        self.taken.load(Ordering::Relaxed) < self.most.load(Ordering::Relaxed)
    }
}

/// A stream of a lane that is taken, until it is dropped.
///
/// One that is given up without a head, while many others have theirs, shows that the server lets
/// no more of them run: the lane is given no more from then on.
struct Stream {
    lane: Arc<Streams>,
    has_head: bool,
}

impl Stream {
    fn of(lane: &Arc<Streams>) -> Self {
        lane.taken.fetch_add(1, Ordering::Relaxed);
        Self {
            lane: lane.clone(),
            has_head: false,
        }
    }

    /// The head of its reply has come.
    fn begun(mut self) -> Self {
        self.has_head = true;
        self.lane.heads.fetch_add(1, Ordering::Relaxed);
        self
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.lane.taken.fetch_sub(1, Ordering::Relaxed);
        if self.has_head {
            self.lane.heads.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let heads = self.lane.heads.load(Ordering::Relaxed);
        if heads >= FEWEST {
            self.lane.most.fetch_min(heads, Ordering::Relaxed);
        }
    }
}

/// A body that holds its stream of a lane until it is dropped.
pub(super) struct Counted {
    body: Incoming,
    #[expect(dead_code, reason = "its drop is what counts")]
    stream: Option<Stream>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
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
    use super::*;

    #[test]
    fn a_lane_whose_server_lets_fewer_streams_run_is_given_fewer() {
        let lane = Arc::new(Streams::new());
        let mut replies: Vec<Stream> = Vec::new();
        replies.extend((0..FEWEST - 1).map(|_| Stream::of(&lane).begun()));
        // Too few replies to tell.
        drop(Stream::of(&lane));
        assert!(lane.has_room());
        replies.extend((0..5).map(|_| Stream::of(&lane).begun()));
        let waiting = Stream::of(&lane);
        drop(Stream::of(&lane));
        assert!(!lane.has_room());
        drop(waiting);
        assert!(!lane.has_room());
        replies.pop();
        assert!(lane.has_room());
        drop(replies);
        let all: Vec<Stream> = (0..FEWEST + 4).map(|_| Stream::of(&lane)).collect();
        assert!(!lane.has_room());
        drop(all);
        assert_eq!(lane.taken.load(Ordering::Relaxed), 0);
        assert_eq!(lane.heads.load(Ordering::Relaxed), 0);
    }
}
