//! A network between a client and a server in the same process, which misbehaves on command.
//!
//! ```text
//! kube_client::Client → Link { pass | refuse | stall, cut } → kinform_apiserver::Service
//! ```
//!
//! [`Link::client`] is an ordinary client: requests and replies take the same path as over sockets,
//! but for the sockets, so everything works under paused time and a round is a function of its
//! seed. Bodies arrive in pieces of random size, as from a network.
//!
//! The server may be replaced ([`Link::connect`]); without one, connections are refused. Over
//! sockets, [`Proxy`](crate::proxy::Proxy) does the same.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kinform_apiserver::Service;
use kube_client::Client;
use kube_client::client::Body as RequestBody;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;

use crate::control::ProxyMode;
use crate::control::{Control, Follower, Network};

/// A network. Clones are the same network.
#[derive(Clone, Debug)]
pub struct Link(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    service: watch::Sender<Option<Service>>,
    control: Control,
    random: Mutex<SmallRng>,
    // BOUND: as many as a test asks for.
    tampering: Mutex<VecDeque<Tamper>>,
}

/// Tampering of a wrong server with events of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tamper {
    /// The next piece that a watch sends is lost: an event, or those that were ready together.
    Drop,
    /// It comes twice.
    Duplicate,
    /// The pieces before it come again, the last eight at most: a server that sends a window again.
    /// If there are none, nothing does.
    Again,
}

/// BOUND: the pieces of a watch that can come again, and the bytes of each.
const TOLD: usize = 8;
const LARGEST: usize = 64 << 10;

/// The body of a reply.
#[doc(hidden)]
pub type ReplyBody = StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>;

impl Link {
    /// A network to `service`; `seed` decides where bodies are split.
    pub fn new(service: Service, seed: u64) -> Self {
        Self(Arc::new(Inner {
            service: watch::Sender::new(Some(service)),
            control: Control::default(),
            random: Mutex::new(SmallRng::seed_from_u64(seed)),
            tampering: Mutex::default(),
        }))
    }

    /// Connects `service` from now on. Open connections stay with the old one.
    pub fn connect(&self, service: Service) {
        self.0.service.send_replace(Some(service));
    }

    /// Disconnects the service: new connections are refused, and open ones break.
    pub fn disconnect(&self) {
        self.0.service.send_replace(None);
        self.0.control.cut();
    }

    /// Tampers with the next piece that any watch sends. A piece may be a bookmark.
    pub fn tamper(&self, what: Tamper) {
        self.tampering().push_back(what);
    }

    fn tampering(&self) -> std::sync::MutexGuard<'_, VecDeque<Tamper>> {
        let tampering = &self.0.tampering;
        tampering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client at this end, without retries of its own.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn client(&self) -> Client {
        let link = self.clone();
        let service = tower::service_fn(move |request| link.clone().call(request));
        Client::new(service, "default")
    }

    /// Sends one request: what the client does, for a caller that does more before or after it.
    #[doc(hidden)]
    pub async fn call(self, request: Request<RequestBody>) -> io::Result<Response<ReplyBody>> {
        let mut follower = self.0.control.follow();
        let mut cut = follower.clone();
        let is_watch = is_watch(&request);
        let answer = async {
            if follower.mode() == ProxyMode::Refuse {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let service = self.0.service.borrow().clone();
            let Some(service) = service else {
                return Err(io::ErrorKind::ConnectionRefused.into());
            };
            self.0.control.connected();
            follower.passing().await;
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let reply = service.call(Request::from_parts(head, body)).await;
            follower.passing().await;
            Ok(reply)
        };
        let reply = tokio::select! {
            biased;
            () = cut.cut() => Err(reset()),
            reply = answer => reply,
        }?;
        Ok(reply.map(|body| {
            let chunks = TryStreamExt::map_err(body, io::Error::other).boxed();
            let chunks = self.through(chunks, cut, is_watch).map_ok(Frame::data);
            StreamBody::new(chunks.boxed())
        }))
    }

    /// The same bytes in other pieces, until the connection is cut.
    fn through(
        self,
        chunks: BoxStream<'static, io::Result<Bytes>>,
        follower: Follower,
        is_watch: bool,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        let wire = Wire {
            link: self,
            chunks,
            follower,
            waiting: Bytes::new(),
            told: is_watch.then(VecDeque::new),
        };
        stream::unfold(Some(wire), Wire::step)
    }

    /// The number of bytes that may travel together now.
    fn piece(&self) -> usize {
        let mut random = self.0.random.lock().unwrap_or_else(PoisonError::into_inner);
        match random.random_range(0..4) {
            0 => random.random_range(1..64),
            _ => usize::MAX,
        }
    }
}

impl Network for Link {
    fn set(&self, mode: ProxyMode) {
        self.0.control.set(mode);
    }

    fn cut(&self) {
        self.0.control.cut();
    }

    fn cut_after(&self, bytes: u64) {
        self.0.control.cut_after(bytes);
    }

    fn connections(&self) -> watch::Receiver<u64> {
        self.0.control.connections()
    }
}

pub(crate) fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

/// A reply in transit.
struct Wire {
    link: Link,
    chunks: BoxStream<'static, io::Result<Bytes>>,
    follower: Follower,
    waiting: Bytes,
    /// The last pieces of a watch.
    told: Option<VecDeque<Bytes>>,
}

impl Wire {
    async fn step(this: Option<Self>) -> Option<(io::Result<Bytes>, Option<Self>)> {
        let mut this = this?;
        let mut cut = this.follower.clone();
        let next = tokio::select! {
            biased;
            () = cut.cut() => Some(Err(reset())),
            next = this.next() => next,
        }?;
        match next {
            Ok(piece) => Some((Ok(piece), Some(this))),
            Err(error) => Some((Err(error), None)),
        }
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while self.waiting.is_empty() {
            match self.chunks.next().await? {
                Ok(chunk) => self.waiting = self.tampered(chunk),
                Err(error) => return Some(Err(error)),
            }
        }
        self.follower.passing().await;
        let most = self.link.piece().min(self.waiting.len());
        let pass = self.link.0.control.spend(most);
        let piece = self.waiting.split_to(pass);
        if pass < most {
            self.link.0.control.cut();
        }
        Some(Ok(piece))
    }

    /// A chunk as it goes on: none, once or twice, or after those before it once more.
    fn tampered(&mut self, chunk: Bytes) -> Bytes {
        let Some(told) = &mut self.told else {
            return chunk;
        };
        let tamper = self.link.tampering().pop_front();
        let goes_on = match tamper {
            None => chunk.clone(),
            Some(Tamper::Drop) => Bytes::new(),
            Some(Tamper::Duplicate) => [&*chunk, &*chunk].concat().into(),
            Some(Tamper::Again) => {
                let before = told.iter().flat_map(|piece| piece.iter());
                before.chain(chunk.iter()).copied().collect()
            }
        };
        if tamper == Some(Tamper::Drop) {
            return goes_on;
        }
        if told.len() == TOLD {
            told.pop_front();
        }
        match chunk.len() > LARGEST {
            true => told.clear(),
            false => told.push_back(chunk),
        }
        goes_on
    }
}

/// Returns whether a request is a watch.
fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|one| matches!(one, "watch=true" | "watch=1"))
}
