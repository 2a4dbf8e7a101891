//! One request, from its head to its reply: who asks, what for, and who answers.
//!
//! ```text
//! request ──route──▶ journal ──faults──▶ credentials ──▶ read | write | discovery ──▶ reply
//! ```
//!
//! Sockets and callers in the process come through here alike. It knows no kind and no encoding. Each
//! ordinary request has a deadline; watches have their own.
//!
//! Upstream: `apiserver:pkg/server/config.go` (the chain of handlers).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use kinform_api::Status;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Caller, User};
use crate::encode;
use crate::fault::{self, Damage, Fault, Faults, Passage};
use crate::garbage::Collector;
use crate::http::body::Body;
use crate::http::negotiate::{self, Encoding};
use crate::http::pretty;
use crate::http::query::Query;
use crate::http::reply;
use crate::http::route::{Route, Target, route};
use crate::journal::{Journal, Record};
use crate::part::{self, PodLogs};
use crate::resource::Registry;
use crate::storage::{Shelf, Store, View};
use crate::{admin, discovery, openapi, read, write};

/// How long an ordinary request may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long a write may take.
const WRITE_DEADLINE: Duration = Duration::from_secs(34);
/// How long a watch lasts if its client does not say; up to twice as long, at random.
const WATCH_TIMEOUT: Duration = Duration::from_secs(1800);
/// The longest timeout that a watch may ask for.
const LONGEST_WATCH: u64 = 7 * 24 * 3600;

/// Bounds and periods of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Events that a live watch may be behind before it is cut.
    pub(crate) watch_backlog: usize,
    /// How often watches that allow bookmarks get one.
    pub(crate) bookmark_period: Option<Duration>,
    /// Watches at a time, over all clients.
    pub(crate) watches: usize,
    /// The size of a request's body.
    pub(crate) body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            watch_backlog: 10_000,
            // BOUND: a watch that is idle is about 2 KB.
            watches: 100_000,
            bookmark_period: Some(Duration::from_secs(60)),
            body: 3 << 20,
        }
    }
}

/// The server without its sockets.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) faults: Faults,
    pub(crate) journal: Arc<Journal>,
    pub(crate) access: Access,
    pub(crate) logs: PodLogs,
    pub(crate) collector: Collector,
    /// Names under which it is reached, besides those of every server.
    pub(crate) names: Vec<String>,
    /// What is left of the bound on watches.
    pub(crate) watches: Arc<Semaphore>,
    /// What nothing here acts on is stored all the same.
    pub(crate) keeps_inert: bool,
    pub(crate) limits: Limits,
    pub(crate) openapi: openapi::Documents,
    pub(crate) stopping: CancellationToken,
    /// Whether it can be hurt over a socket.
    pub(crate) has_admin_path: bool,
}

/// The body of a request that may still be on its way.
pub(crate) type Incoming<'a> = BoxFuture<'a, Result<Bytes, Status>>;

impl Api {
    /// Answers a request. The body is only read if it is wanted.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        head: Parts,
        body: Incoming<'_>,
        caller: Caller,
    ) -> Response<Body> {
        let path = head.uri.path();
        let query = Query::parse(head.uri.query());
        if let Some(word) = admin::word(path).filter(|_| self.has_admin_path) {
            return match self
                .access
                .admit_administrator(&self.store, caller, &head, &query)
            {
                Ok(()) => admin::answer(self, &head.method, (word, &query), body).await,
                Err(status) => reply::status(&status, Encoding::Json),
            };
        }
        let route = route(&self.registry, path);
        let watch = query.flag("watch").unwrap_or(false);
        let (verb, resource, target) = match &route {
            Route::Target(target) => (
                target.verb(&head.method, watch),
                &*target.resource.plural,
                Some(target),
            ),
            _ => (plain_verb(&head.method), path, None),
        };
        let mut entry = self.journal.begin(Record {
            verb,
            resource: resource.to_owned(),
            namespace: target.and_then(|target| target.namespace.clone()),
            name: target.and_then(|target| target.name.clone()),
            query: head.uri.query().unwrap_or_default().to_owned(),
            controller: None,
            code: 0,
            bytes: 0,
            started: Instant::now(),
            ended: None,
        });
        let encoding = negotiate::error_encoding(&head.headers);
        if verb == "watch" {
            match self.watches.clone().try_acquire_owned() {
                Ok(slot) => entry.hold(slot),
                Err(_) => {
                    let status = Status::too_many_requests("there are too many watches", 1);
                    entry.answered(status.code);
                    return reply::status(&status, encoding);
                }
            }
        }
        let (reply, damage) = match self.misbehave(verb, resource, encoding).await {
            ControlFlow::Break(reply) => (reply, None),
            ControlFlow::Continue(damage) => {
                let admitted = self.access.admit(&self.store, caller, &head, &query);
                let reply = match admitted {
                    Ok(user) => {
                        self.carry_out(&head, &query, route, verb, (body, &user))
                            .await
                    }
                    Err(status) => reply::status(&status, encoding),
                };
                (reply, damage)
            }
        };
        let reply = if verb != "watch" && pretty::is_wanted(&head, &query) {
            pretty::indented(reply)
        } else {
            reply
        };
        entry.answered(reply.status().as_u16());
        let whole = reply.body().as_full().map(<[u8]>::len);
        match (verb, whole, damage) {
            ("watch", ..) => reply.map(|body| {
                let pace = self.faults.pace();
                fault::pass(
                    body,
                    Passage {
                        entry,
                        damage,
                        pace: Some(pace),
                        stopping: self.stopping.clone(),
                    },
                )
            }),
            (_, Some(bytes), None) => {
                entry.sent(bytes);
                reply
            }
            _ => reply.map(|body| {
                fault::pass(
                    body,
                    Passage {
                        entry,
                        damage,
                        pace: None,
                        stopping: self.stopping.clone(),
                    },
                )
            }),
        }
    }

    /// Acts the fault that a rule wants for this request: another reply, or damage to the right one.
    async fn misbehave(
        &self,
        verb: &str,
        resource: &str,
        encoding: Encoding,
    ) -> ControlFlow<Response<Body>, Option<Damage>> {
        ControlFlow::Break(match self.faults.meet(verb, resource) {
            None => return ControlFlow::Continue(None),
            Some(Fault::TruncateAfter(bytes)) => {
                return ControlFlow::Continue(Some(Damage::TruncateAfter(bytes)));
            }
            Some(Fault::StallAfter(bytes)) => {
                return ControlFlow::Continue(Some(Damage::StallAfter(bytes)));
            }
            Some(Fault::LoseReply) => {
                return ControlFlow::Continue(Some(Damage::TruncateAfter(0)));
            }
            Some(Fault::Delay(time)) => {
                tokio::select! {
                    biased;
                    () = self.stopping.cancelled() => {}
                    () = tokio::time::sleep(time) => {}
                }
                return ControlFlow::Continue(None);
            }
            Some(Fault::Hang) => {
                self.stopping.cancelled().await;
                reply::status(&shutting_down(), encoding)
            }
            Some(Fault::EmptyStream) => {
                reply::streamed(encoding.stream_type(), Body::full(Bytes::new()))
            }
            Some(Fault::ErrorEvent(status)) => {
                let mut frame = BytesMut::new();
                encode::error_frame(&mut frame, &status, encoding);
                reply::streamed(encoding.stream_type(), Body::full(frame))
            }
            Some(Fault::Reply(status)) => reply::status(&status, encoding),
            Some(Fault::Foreign {
                code,
                media,
                body,
                retry_after,
            }) => foreign(code, media, body, retry_after),
        })
    }

    async fn carry_out(
        self: &Arc<Self>,
        head: &Parts,
        query: &Query,
        route: Route,
        verb: &str,
        body: (Incoming<'_>, &User),
    ) -> Response<Body> {
        let encoding = negotiate::error_encoding(&head.headers);
        if self.stopping.is_cancelled() {
            return reply::status(&shutting_down(), encoding);
        }
        let asked = match query.timeout() {
            Ok(asked) => asked,
            Err(status) => return reply::status(&status, encoding),
        };
        let most = if is_read(&head.method) {
            DEADLINE
        } else {
            WRITE_DEADLINE
        };
        let deadline = asked
            .filter(|asked| !asked.is_zero())
            .map_or(most, |asked| asked.min(most));
        let deprecation = match &route {
            Route::Target(target) => target.resource.deprecation().map(str::to_owned),
            _ => None,
        };
        let work = async {
            match route {
                Route::Target(target) => self.resource(head, query, &target, body).await,
                Route::UnknownResource => Err(Status::no_such_resource()),
                Route::UnknownPart(resource, name) => {
                    Err(Status::not_found(&resource.group_resource(), &name))
                }
                Route::Elsewhere => discovery::handle(self, head, query),
            }
        };
        let done = if verb == "watch" {
            Ok(work.await)
        } else {
            tokio::time::timeout(deadline, work).await
        };
        let mut reply = match done {
            Ok(Ok(reply)) => reply,
            Ok(Err(status)) => reply::status(&status, encoding),
            Err(_) => {
                let what = "request did not complete within the allotted timeout";
                reply::status(&Status::timeout(what, 0), encoding)
            }
        };
        if let Some(text) = deprecation {
            reply::warn(&mut reply, &text);
        }
        reply
    }

    async fn resource(
        self: &Arc<Self>,
        head: &Parts,
        query: &Query,
        target: &Target,
        (body, user): (Incoming<'_>, &User),
    ) -> Result<Response<Body>, Status> {
        if head.method == Method::HEAD {
            return Err(Status::method_not_allowed());
        }
        if is_read(&head.method) && target.subresource.is_none() {
            return read::read(self, target, query, &head.headers).await;
        }
        let body = body.await?;
        // A definition may have been deleted or changed while the body came.
        let is_custom = target.resource.is_custom();
        let again = is_custom.then(|| route(&self.registry, head.uri.path()));
        let target = match &again {
            None => target,
            Some(Route::Target(again)) => again,
            Some(_) => return Err(Status::no_such_resource()),
        };
        let request = WriteRequest {
            method: &head.method,
            headers: &head.headers,
            query,
            user,
            body,
        };
        if let Some(reply) = part::answer(self, target, &request) {
            return reply.map_err(|status| *status);
        }
        write::handle(self, target, request).await
    }

    /// What reads that may be stale see: the store, or a replica that was told to lag.
    pub(crate) fn replica_view(&self, shelf: Shelf) -> View {
        let lagging = self
            .faults
            .replica()
            .and_then(|at| self.store.view_at(shelf, at).ok());
        lagging.unwrap_or_else(|| self.store.view(shelf))
    }

    /// The revision that the replica has reached.
    pub(crate) fn replica_revision(&self) -> u64 {
        let now = self.store.revision();
        self.faults.replica().map_or(now, |at| at.min(now))
    }

    pub(crate) fn bookmark_period(&self) -> Option<Duration> {
        self.limits.bookmark_period
    }

    /// How long a watch lasts.
    pub(crate) fn watch_timeout(&self, asked_seconds: u64) -> Duration {
        match asked_seconds {
            0 => WATCH_TIMEOUT.mul_f64(1.0 + rand::random::<f64>()),
            asked => Duration::from_secs(asked.min(LONGEST_WATCH)),
        }
    }
}

/// What a write is made of.
#[derive(Debug)]
pub(crate) struct WriteRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: &'a Query,
    pub(crate) user: &'a User,
    pub(crate) body: Bytes,
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn plain_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

fn shutting_down() -> Status {
    Status::service_unavailable("apiserver is shutting down")
}

fn foreign(
    code: u16,
    media: &'static str,
    body: &'static str,
    retry_after: Option<u32>,
) -> Response<Body> {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut reply = reply::text(code, body);
    reply
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media));
    if let Some(seconds) = retry_after {
        reply
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}
