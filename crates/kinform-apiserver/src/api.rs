//! One request, from its head to its reply: routing, authorization, and dispatch to a handler.
//!
//! ```text
//! request ──route──▶ journal ──faults──▶ credentials ──▶ read | write | discovery ──▶ reply
//! ```
//!
//! Sockets and callers in the process use the same path. This module depends on neither kinds nor
//! encodings. Each ordinary request has a deadline; watches have their own.
//!
//! Upstream: `apiserver:pkg/server/config.go` (the chain of handlers).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use kinform_api::Status;

use crate::access::{Caller, User};
use crate::actions;
use crate::admission::{Annotations, Warnings};
use crate::budget::{self, Budget, Deadline, Meter, late};
use crate::clock;
use crate::controllers::initial::flow::{self, Asked};
use crate::controllers::{asked, definitions, event_ttl, follow};
use crate::encode;
use crate::fault::{self, Damage, Fault, Midway, Passage};
use crate::http::body::Body;
use crate::http::body::Incoming;
use crate::http::negotiate::{self, Encoding};
use crate::http::pretty;
use crate::http::query::Query;
use crate::http::reply;
use crate::http::route::{Route, Target, route};
use crate::journal::Entry;
use crate::journal::Record;
use crate::resource::Shape;
use crate::state::State;
use crate::state::metrics::Labels;
use crate::state::offload::offload;
use crate::state::shares::LIGHT;
use crate::write::handle::Handled;
use crate::write::request::WriteRequest;
use crate::{admin, discovery, read, write};

const FLOW_SCHEMA: &str = "x-kubernetes-pf-flowschema-uid";
const PRIORITY_LEVEL: &str = "x-kubernetes-pf-prioritylevel-uid";

/// Answers a request. The body is read only if a handler needs it.
pub(crate) async fn answer(
    state: &Arc<State>,
    head: Parts,
    body: Incoming<'_>,
    caller: Caller,
) -> Response<Body> {
    let path = head.uri.path();
    let query = Query::parse(head.uri.query());
    if let Some(word) = admin::word(path).filter(|_| state.has_admin_path) {
        return match state
            .access
            .admit_administrator(&state.store, caller, &head, &query)
        {
            Ok(()) => admin::answer(state, &head.method, (word, &query), body).await,
            Err(status) => reply::status(&status, Encoding::Json),
        };
    }
    let route = route(&state.registry, path);
    let watch = query.flag("watch").unwrap_or(false);
    let (verb, record) = record(state, &head, &route, watch);
    let mut measured = state
        .metrics
        .begin(Labels::of(&head, &query, (verb, &route)));
    let resource = record.resource.clone();
    let record = match caller.is_known() {
        true => record,
        false => record.of_a_stranger(),
    };
    let mut entry = state.journal.begin(record);
    let encoding = negotiate::error_encoding(&head.headers);
    if verb == "watch" {
        match state.watches.clone().try_acquire_owned() {
            Ok(slot) => entry.hold(slot),
            Err(_) => {
                let status = Status::too_many_requests("there are too many watches", 1);
                entry.answered(status.code);
                measured.answered(status.code);
                return reply::status(&status, encoding);
            }
        }
    }
    let (reply, damage) = match misbehave(state, verb, &resource, encoding).await {
        ControlFlow::Break(reply) => (reply, None),
        ControlFlow::Continue(damage) => {
            let admitted = state.access.admit(&state.store, caller, &head, &query);
            let reply = match admitted {
                Ok(user) => {
                    let flow = flow_of(state, &user, (verb, &route), head.uri.path());
                    let work = carry_out(state, &head, &query, route, verb, (body, &user));
                    let mut reply = work.await;
                    reply.headers_mut().extend(flow);
                    entry.annotate(reply.extensions_mut().remove());
                    reply
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
    measured.answered(reply.status().as_u16());
    entry.measure(measured);
    sent(state, verb, entry, (reply, damage))
}

/// Returns the verb of a request and its journal record.
fn record(state: &State, head: &Parts, route: &Route, watch: bool) -> (&'static str, Record) {
    let (verb, resource, target) = match route {
        Route::Target(target) => (
            target.verb(&head.method, watch),
            target.resource.plural.as_str(),
            Some(target),
        ),
        _ => (plain_verb(&head.method), head.uri.path(), None),
    };
    let record = Record {
        verb,
        resource: resource.to_owned(),
        namespace: target.and_then(|target| target.namespace.clone()),
        name: target.and_then(|target| target.name.clone()),
        query: head.uri.query().unwrap_or_default().to_owned(),
        controller: None,
        code: 0,
        bytes: 0,
        annotations: BTreeMap::new(),
        time: state.clock.now(),
        started: clock::instant(),
        ended: None,
    };
    (verb, record)
}

/// Returns the headers that name the flow schema of a request and its priority level.
fn flow_of(
    state: &State,
    user: &User,
    (verb, route): (&str, &Route),
    path: &str,
) -> Vec<(HeaderName, HeaderValue)> {
    let target = match route {
        Route::Target(target) => Some(target),
        _ => None,
    };
    let asked = Asked {
        verb,
        resource: target.map(|target| (&*target.resource.group, &*target.resource.plural)),
        subresource: target.and_then(|target| target.subresource.as_deref()),
        path,
    };
    let (schema, level) = flow::flow(user, &asked);
    let header = |name: &'static str, shelf: &str, object: &str| {
        // An object that was deleted has no name to tell.
        let object = state.store.get(state.store.shelf(shelf), object)?;
        let uid = HeaderValue::from_str(object.uid()).ok()?;
        Some((HeaderName::from_static(name), uid))
    };
    let schema = header(FLOW_SCHEMA, flow::SCHEMA_SHELF, schema);
    let level = header(PRIORITY_LEVEL, flow::LEVEL_SHELF, level);
    schema.into_iter().chain(level).collect()
}

/// Returns the reply as it is sent: damaged if a fault requires it, and counted by the journal.
fn sent(
    state: &State,
    verb: &str,
    entry: Entry,
    (mut reply, damage): (Response<Body>, Option<Damage>),
) -> Response<Body> {
    let whole = reply.body().as_full().map(<[u8]>::len);
    let pace = match (verb, whole, damage.is_some()) {
        ("watch", ..) => {
            let midway = reply.extensions_mut().remove::<Midway>();
            Some(state.faults.pace(midway.unwrap_or_default()))
        }
        (_, Some(bytes), false) => {
            entry.sent(bytes);
            return reply;
        }
        _ => None,
    };
    let stopping = state.stopping.clone();
    reply.map(|body| {
        fault::pass(
            body,
            Passage {
                entry,
                damage,
                pace,
                stopping,
            },
        )
    })
}

/// Performs the fault of a matching rule: replaces the reply, or damages it.
async fn misbehave(
    state: &State,
    verb: &str,
    resource: &str,
    encoding: Encoding,
) -> ControlFlow<Response<Body>, Option<Damage>> {
    ControlFlow::Break(match state.faults.meet(verb, resource) {
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
                () = state.stopping.cancelled() => {}
                () = tokio::time::sleep(time) => {}
            }
            return ControlFlow::Continue(None);
        }
        Some(Fault::Hang) => {
            state.stopping.cancelled().await;
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
    state: &Arc<State>,
    head: &Parts,
    query: &Query,
    route: Route,
    verb: &str,
    body: (Incoming<'_>, &User),
) -> Response<Body> {
    let encoding = negotiate::error_encoding(&head.headers);
    if state.stopping.is_cancelled() {
        return reply::status(&shutting_down(), encoding);
    }
    let asked = match query.timeout() {
        Ok(asked) => asked,
        Err(status) => return reply::status(&status, encoding),
    };
    let budget = match is_read(&head.method) {
        true => Budget::read(asked),
        false => Budget::write(asked),
    };
    let deprecation = match &route {
        Route::Target(target) => target.resource.deprecation().map(str::to_owned),
        _ => None,
    };
    let is_followed = matches!(&route, Route::Target(target) if follows(target, query));
    let work = async {
        match route {
            Route::Target(target) => {
                let deadline = Deadline {
                    at: clock::instant() + budget.time,
                    stopping: state.stopping.clone(),
                };
                resource(state, (head, query), &target, body, deadline).await
            }
            Route::UnknownResource => Err(Status::no_such_resource()),
            Route::UnknownPart(resource, name) => {
                Err(Status::not_found(&resource.group_resource(), &name))
            }
            Route::Elsewhere => discovery::handle(state, head, query),
        }
    };
    let done = if verb == "watch" || is_followed {
        Ok(work.await)
    } else {
        tokio::time::timeout(budget.time, work).await
    };
    let mut reply = match done {
        Ok(Ok(reply)) => reply,
        Ok(Err(status)) => reply::status(&status, encoding),
        Err(_) => reply::status(&late(), encoding),
    };
    if let Some(text) = deprecation {
        reply::warn(&mut reply, &text);
    }
    reply
}

async fn resource(
    state: &Arc<State>,
    (head, query): (&Parts, &Query),
    target: &Target,
    (body, user): (Incoming<'_>, &User),
    deadline: Deadline,
) -> Result<Response<Body>, Status> {
    if head.method == Method::HEAD {
        return Err(Status::method_not_allowed());
    }
    if event_ttl::concerns(&target.resource) {
        event_ttl::expire(state);
    }
    if is_read(&head.method) && target.subresource.is_none() {
        return read::read(state, target, query, &head.headers).await;
    }
    // Before the first look at the stored state.
    let begun = state.store.begin();
    let reply = write_or_act(state, (head, query), target, (body, user), deadline).await;
    match state.store.settled(begun).await {
        Ok(()) => reply,
        Err(lost) => {
            definitions::serve_definitions(state);
            Err(lost.into())
        }
    }
}

async fn write_or_act(
    state: &Arc<State>,
    (head, query): (&Parts, &Query),
    target: &Target,
    (body, user): (Incoming<'_>, &User),
    deadline: Deadline,
) -> Result<Response<Body>, Status> {
    let body = body.await?;
    // A definition may have been deleted or changed while the body came.
    let is_custom = target.resource.is_custom();
    let again = is_custom.then(|| route(&state.registry, head.uri.path()));
    let target = match &again {
        None => target,
        Some(Route::Target(again)) => again,
        Some(_) => return Err(Status::no_such_resource()),
    };
    let size = size(state, target, (&head.method, body.len()));
    let is_light = size <= LIGHT && !is_costly(&head.method, target);
    // The read of a subresource needs no share, and a connection must not hold one.
    if is_light || is_read(&head.method) || actions::is_connection(target) {
        let request = WriteRequest {
            method: &head.method,
            headers: &head.headers,
            query,
            user,
            body,
            meter: Meter::until(deadline),
            warnings: Warnings::default(),
            annotations: Annotations::default(),
        };
        return Ok(act(state, target, &request).await);
    }
    let share = state.shares.take(size).await?;
    if state.stopping.is_cancelled() {
        return Err(shutting_down());
    }
    // A step that computes outlives a request that is dropped, and holds its core until it ends.
    let (shares, state) = (&state.shares, state.clone());
    let (target, user) = (target.clone(), user.clone());
    let (method, headers, query) = (head.method.clone(), head.headers.clone(), query.clone());
    let computed = offload(shares, share, async move {
        let request = WriteRequest {
            method: &method,
            headers: &headers,
            query: &query,
            user: &user,
            body,
            meter: Meter::until(deadline),
            warnings: Warnings::default(),
            annotations: Annotations::default(),
        };
        act(&state, &target, &request).await
    });
    match computed.await {
        Ok(reply) => Ok(reply),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(shutting_down()),
        },
    }
}

/// Returns the bytes that a write decodes: its body, and the stored object. A delete of many
/// decodes one object at a time, but takes as long as for all of them together.
fn size(state: &State, target: &Target, (method, body): (&Method, usize)) -> usize {
    let shelf = target.resource.shelf;
    let stored = match target.key() {
        Some(key) => state.store.get(shelf, &key).map(|of| of.bytes().len()),
        None if method == Method::DELETE => {
            let view = state.store.view(shelf);
            let sizes = view.snapshot.iter().map(|of| of.bytes().len());
            Some(sizes.sum::<usize>().min(budget::OBJECT))
        }
        None => None,
    };
    body.saturating_add(stored.unwrap_or(0))
}

/// Returns whether a write may cost much more than its size: patterns and rules are compiled, or run
/// for the object, or other objects are deleted with it.
fn is_costly(method: &Method, target: &Target) -> bool {
    let resource = &target.resource;
    match &resource.shape {
        Shape::Custom(custom) => custom.is_costly,
        Shape::Builtin(_) => {
            resource.is_definition() || (method == Method::DELETE && resource.is_core("namespaces"))
        }
    }
}

/// Handles an action or a write; the reply has all warnings, even if it is a refusal.
async fn act(state: &Arc<State>, target: &Target, request: &WriteRequest<'_>) -> Response<Body> {
    let wanted_deletes = state.wanted_deletes.added();
    let reply = match actions::answer(state, target, request).await {
        Some(reply) => reply,
        None => write_object(state, target, request).await,
    };
    asked::settle(state, wanted_deletes).await;
    let encoding = negotiate::error_encoding(request.headers);
    let mut reply = reply.unwrap_or_else(|status| reply::status(&status, encoding));
    reply::warn_of_all(&mut reply, &request.warnings.take());
    let annotations = request.annotations.take();
    if !annotations.is_empty() {
        reply.extensions_mut().insert(annotations);
    }
    reply
}

/// Handles a write and its consequences before it returns the reply.
async fn write_object(
    state: &Arc<State>,
    target: &Target,
    request: &WriteRequest<'_>,
) -> Result<Response<Body>, Box<Status>> {
    match write::handle::handle(state, target, request).await? {
        Handled::Reply(reply) => Ok(reply),
        Handled::Written(written) => {
            follow::written(state, &written);
            Ok(written.reply)
        }
        Handled::Deletes(mut deletes) => loop {
            request.meter.look();
            let next = match request.meter.check() {
                Ok(()) => deletes.next().await,
                Err(status) => Err(status),
            };
            match next {
                Ok(Some(one)) => follow::changed(state, &one.resource, one.object.as_deref()),
                Ok(None) => return Ok(deletes.reply()),
                Err(status) => return deletes.refused(status),
            }
        },
    }
}

/// Returns whether a request reads a log that goes on. A kubelet sends no head before the next line.
fn follows(target: &Target, query: &Query) -> bool {
    target.subresource.as_deref() == Some("log") && query.flag("follow") == Some(true)
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
