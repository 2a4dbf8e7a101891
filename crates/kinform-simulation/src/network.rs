//! The way of one process to the servers, and what goes wrong on it.
//!
//! ```text
//! Client ─▶ Wire { hop, frozen?, trap?, dead? } ─▶ Link to the server it reads from ─▶ Service
//!                                              └─▶ Link to the server that writes      │
//!        ◀── hop, one way?, trickle, late ◀────────────────────────────────────────────┘
//! ```
//!
//! A wire is of one life of a process: a later life has another one. Reads go to one of two servers
//! over the same storage, writes to the first.
//! Never: changes an object.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kinform_api::Status;
use kinform_apiserver::Service;
use kinform_testkit::{Link, Network as _, ProxyMode, ReplyBody, Tamper};
use kube_client::Client;
use kube_client::client::Body;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::asked::{self, Asked};
use crate::body::through;
use crate::line::{Line, reset};
use crate::script::{Net, On, Trap, Watched};
use crate::shared::{Life, Order, Shared, lock};

/// BOUND: the time after which an HTTP client gives a request up that is no watch.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// The way of one life of a process. Clones are the same way.
#[derive(Clone, Debug)]
pub(crate) struct Wire(Arc<Line>);

impl Wire {
    /// The way of this life: reads to the first of these servers, writes to the second.
    pub(crate) fn new(shared: &Arc<Shared>, life: Life, services: (Service, Service)) -> Self {
        let (reads, writes) = services;
        let late = Mutex::new(writes.clone());
        Self(Arc::new(Line {
            shared: Arc::clone(shared),
            life,
            reads: Link::new(reads.clone(), shared.below(u64::MAX)),
            audited: Link::new(reads, shared.below(u64::MAX)),
            is_lied_to: AtomicBool::new(false),
            writes: Link::new(writes, shared.below(u64::MAX)),
            frozen: watch::Sender::new(false),
            one_way: watch::Sender::new(false),
            trickles: watch::Sender::new(false),
            deaf_to: watch::Sender::new(None),
            no_writes: AtomicBool::new(false),
            slow: AtomicU64::new(0),
            cuts: watch::Sender::new(0),
            connections: AtomicU64::new(0),
            dead_below: watch::Sender::new(0),
            traps: Mutex::default(),
            sent: Mutex::new(Instant::now()),
            dark_since: Mutex::default(),
            pace: Mutex::default(),
            late,
        }))
    }

    /// A client of the process.
    pub(crate) fn client(&self) -> Client {
        self.client_over(self.0.reads.clone())
    }

    /// A client for informers that are audited.
    pub(crate) fn audited_client(&self) -> Client {
        self.client_over(self.0.audited.clone())
    }

    fn client_over(&self, reads: Link) -> Client {
        let wire = self.clone();
        let service = tower::service_fn(move |request| wire.clone().call(reads.clone(), request));
        Client::new(service, "default")
    }

    /// Returns whether a server forgot to tell this process something.
    pub(crate) fn is_lied_to(&self) -> bool {
        self.0.is_lied_to.load(Ordering::Relaxed)
    }

    fn links(&self) -> [&Link; 3] {
        [&self.0.reads, &self.0.writes, &self.0.audited]
    }

    /// Does this to each link that reads.
    fn reading(&self, change: impl Fn(&Link)) {
        change(&self.0.reads);
        change(&self.0.audited);
    }

    /// A trap for the next write of this kind.
    pub(crate) fn trap(&self, on: On, what: Trap) {
        lock(&self.0.traps).push((on, what));
    }

    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.0.frozen.send_replace(is_frozen);
        self.dark(is_frozen);
    }

    /// Returns whether the process stands still.
    pub(crate) fn is_frozen(&self) -> bool {
        *self.0.frozen.borrow()
    }

    /// Waits while the process stands still.
    pub(crate) async fn moving(&self) {
        self.0.moving().await;
    }

    /// Breaks all connections.
    pub(crate) fn cut(&self) {
        self.0.cuts.send_modify(|cuts| *cuts += 1);
        self.links().into_iter().for_each(|link| link.cut());
    }

    /// The process is gone, and all of its connections.
    pub(crate) fn disconnect(&self) {
        self.links().into_iter().for_each(Link::disconnect);
        self.cut();
    }

    /// A server is gone.
    pub(crate) fn lose_server(&self, is_reading: bool) {
        match is_reading {
            true => self.reading(Link::disconnect),
            false => self.0.writes.disconnect(),
        }
        self.0.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Servers are there.
    pub(crate) fn connect(&self, reads: Option<Service>, writes: Option<Service>) {
        if let Some(reads) = reads {
            self.reading(|link| link.connect(reads.clone()));
        }
        if let Some(writes) = writes {
            *lock(&self.0.late) = writes.clone();
            self.0.writes.connect(writes);
        }
    }

    fn set(&self, mode: ProxyMode) {
        self.links().into_iter().for_each(|link| link.set(mode));
    }

    fn dark(&self, is_dark: bool) {
        let mut since = lock(&self.0.dark_since);
        *since = match (is_dark, *since) {
            (true, None) => Some(Instant::now()),
            (true, since) => since,
            (false, _) => None,
        };
    }

    /// The time for which nothing has come through.
    pub(crate) fn dark_for(&self) -> Duration {
        lock(&self.0.dark_since).map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns whether nothing comes through.
    pub(crate) fn is_dark(&self) -> bool {
        lock(&self.0.dark_since).is_some()
    }

    /// A fault begins.
    pub(crate) fn begin(&self, what: Net) {
        match what {
            Net::Cut => self.cut(),
            Net::CutAfter(bytes) => self.reading(|link| link.cut_after(bytes)),
            Net::Refuse => {
                self.set(ProxyMode::Refuse);
                self.cut();
                self.dark(true);
            }
            Net::BlackHole => {
                self.set(ProxyMode::Stall);
                self.dark(true);
            }
            Net::HalfOpen => {
                let dead = self.0.connections.load(Ordering::Relaxed);
                self.0.dead_below.send_replace(dead);
            }
            Net::OneWay => {
                self.0.one_way.send_replace(true);
                self.dark(true);
            }
            Net::Trickle => drop(self.0.trickles.send_replace(true)),
            Net::Slow(millis) => self.0.slow.store(millis, Ordering::Relaxed),
            Net::Duplicate => self.reading(|link| link.tamper(Tamper::Duplicate)),
            Net::Again => self.reading(|link| link.tamper(Tamper::Again)),
            Net::Drop => {
                self.0.is_lied_to.store(true, Ordering::Relaxed);
                self.0.audited.tamper(Tamper::Drop);
            }
            Net::Deaf(watched) => drop(self.0.deaf_to.send_replace(Some(watched))),
            Net::NoWrites => self.0.no_writes.store(true, Ordering::Relaxed),
        }
    }

    /// A fault ends.
    pub(crate) fn heal(&self, what: Net) {
        match what {
            Net::Refuse | Net::BlackHole => {
                self.set(ProxyMode::Pass);
                self.dark(false);
            }
            Net::OneWay => {
                self.0.one_way.send_replace(false);
                self.dark(false);
            }
            Net::Trickle => drop(self.0.trickles.send_replace(false)),
            Net::Slow(_) => self.0.slow.store(0, Ordering::Relaxed),
            Net::Deaf(_) => drop(self.0.deaf_to.send_replace(None)),
            Net::NoWrites => self.0.no_writes.store(false, Ordering::Relaxed),
            // A network that has lost a connection does not find it again.
            Net::HalfOpen | Net::Cut | Net::CutAfter(_) => {}
            Net::Duplicate | Net::Again | Net::Drop => {}
        }
    }

    /// All faults end.
    pub(crate) fn heal_all(&self) {
        let deaf = Net::Deaf(Watched::Maps);
        let slow = Net::Slow(0);
        for what in [
            Net::Refuse,
            Net::OneWay,
            Net::Trickle,
            slow,
            deaf,
            Net::NoWrites,
        ] {
            self.heal(what);
        }
        self.freeze(false);
        lock(&self.0.traps).clear();
    }

    async fn call(self, reads: Link, request: Request<Body>) -> io::Result<Response<ReplyBody>> {
        let line = self.0;
        let mut cuts = line.cuts.subscribe();
        cuts.mark_unchanged();
        let (head, body) = request.into_parts();
        let asked = Asked::of(&head);
        if let Some(kind) = asked::kind(asked, &head) {
            line.paced(&kind);
        }
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let request = Request::from_parts(head, body);
        let broken = async move {
            // The wire outlives its requests.
            let _ = cuts.changed().await;
        };
        let limit = async {
            match asked.is_watch {
                true => std::future::pending().await,
                false => tokio::time::sleep(REQUEST_LIMIT).await,
            }
        };
        tokio::select! {
            biased;
            () = broken => Err(reset()),
            reply = line.clone().send((asked, reads), request) => reply,
            () = limit => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Line {
    async fn send(
        self: Arc<Self>,
        (asked, reads): (Asked, Link),
        request: Request<Bytes>,
    ) -> io::Result<Response<ReplyBody>> {
        let shared = Arc::clone(&self.shared);
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let method = request.method().clone();
        let mut path = request.uri().path().to_owned();
        // An event is named after the time of day, which is another one in each run.
        if asked.is_event
            && let Some((all, _)) = path.split_once("/events/")
        {
            path = format!("{all}/events/..");
        }
        let process = self.life.0;
        shared.hop().await;
        self.moving().await;
        if !asked.is_watch && !asked.is_lease {
            shared.requests.fetch_add(1, Ordering::Relaxed);
            self.throttle().await;
        }
        self.delay().await;
        self.alive(connection).await;
        if asked.is_write && !asked.is_lease && !asked.is_event {
            shared.worked();
            if self.no_writes.load(Ordering::Relaxed) {
                shared.note(format_args!("{process} {method} {path} is refused"));
                return Ok(refusal(500));
            }
        }
        let trap = self.sprung(asked);
        shared.note(format_args!("{process} {method} {path} {trap:?}"));
        match trap {
            Some(Trap::CrashBefore) => self.die().await,
            Some(Trap::Refuse(code)) => return Ok(refusal(code)),
            Some(Trap::SendLate(millis)) => return self.send_late(millis, request).await,
            _ => {}
        }
        let link = match asked.is_write {
            true => self.writes.clone(),
            false => reads,
        };
        let reply = link.call(request.map(Body::from)).await;
        let code = reply.as_ref().map_or(0, |reply| reply.status().as_u16());
        shared.note(format_args!("{process} {path} {code}"));
        match trap {
            Some(Trap::CrashAfter) => self.die().await,
            Some(Trap::LoseReply) => return Err(reset()),
            _ => {}
        }
        self.heard(connection).await;
        self.delay().await;
        shared.hop().await;
        Ok(reply?.map(|body| through(self, (connection, asked.is_watch, &path), body)))
    }

    fn sprung(&self, asked: Asked) -> Option<Trap> {
        if !asked.is_write || asked.is_event {
            return None;
        }
        let on = if asked.is_lease { On::Lease } else { On::Write };
        let mut traps = lock(&self.traps);
        let at = traps.iter().position(|(of, _)| *of == on)?;
        Some(traps.remove(at).1)
    }

    /// The process ends here: nothing comes back.
    async fn die(&self) {
        self.shared.order(Order::Kill(self.life));
        std::future::pending().await
    }

    /// The request is on its way by itself: also a process that is gone cannot take it back.
    async fn send_late(
        self: Arc<Self>,
        millis: u64,
        request: Request<Bytes>,
    ) -> io::Result<Response<ReplyBody>> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let line = Arc::clone(&self);
        // It ends by itself.
        drop(tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            let service = lock(&line.late).clone();
            let reply = service.call(request).await;
            line.shared.note(format_args!(
                "{} late {}",
                line.life.0,
                reply.status().as_u16()
            ));
            let (head, body) = reply.into_parts();
            let body = body.collect().await.map(Bytes::from);
            // The caller may have gone.
            let _ = answer.send(body.map(|body| Response::from_parts(head, body)));
        }));
        let reply = answered.await.map_err(|_| reset())?;
        let reply = reply.map_err(io::Error::other)?;
        Ok(reply.map(once))
    }
}

fn once(body: Bytes) -> ReplyBody {
    StreamBody::new(futures::stream::iter([Ok(Frame::data(body))]).boxed())
}

/// The status of a server that refuses a request with this code.
pub(crate) fn status(code: u16) -> Status {
    match code {
        409 => Status::failure(409, "Conflict", "the object has been modified"),
        410 => Status::failure(410, "Expired", "too old resource version"),
        429 => Status::too_many_requests("too many requests, please try again later", 1),
        503 => Status::failure(503, "ServiceUnavailable", "the server is currently unable"),
        504 => Status::failure(504, "Timeout", "Timeout: request did not complete"),
        code => Status::failure(code, "InternalError", "Internal error occurred: simulated"),
    }
}

fn refusal(code: u16) -> Response<ReplyBody> {
    let body = serde_json::to_vec(&status(code)).unwrap_or_default();
    let mut reply = Response::new(once(body.into()));
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if code == 429 {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}
