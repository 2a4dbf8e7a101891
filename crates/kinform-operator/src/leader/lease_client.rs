//! The requests on one lease: get, create, update; their answers for the election.
//!
//! ```text
//! Action ──renewTime──▶ request, once ──▶ reply ──classified──▶ Answer + the whole object
//! ```
//!
//! A refusal is only what the server certainly did not store. Everything else that is no lease
//! leaves that open: a lost connection, a 5xx, a proxy's page.
//!
//! An update replaces the object that was read at the same uid and version, so that nothing in it is
//! lost; the server refuses it at any other version.
//!
//! BOUND: an answer is of two megabytes at most.
//! Upstream counterpart: `client-go:tools/leaderelection/resourcelock/leaselock.go`.

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use kinform::controller::LastWrites;
use kinform::env::wall_clock;
use kinform::{GroupVersionResource, ResourceVersion, SourceError, Status};
use kinform_core::election::{AcquireTime, Action, Answer, NewRecord, Refusal, RefusalKind};
use kube_client::Client;
use kube_client::client::Body;

use super::last_writes::{self, Inherited};
use super::object::{Labels, Stored, created};

/// BOUND: bytes of an answer. The server's own limit of an object is lower.
pub(super) const MAX_ANSWER_BYTES: usize = 2 << 20;

/// The lease's place on the server.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Place {
    /// The path of all leases of the namespace.
    pub(super) fn collection(&self) -> String {
        leases().path(Some(&self.namespace))
    }

    /// The path of all candidates of the namespace.
    pub(super) fn candidates(&self) -> String {
        let candidates =
            GroupVersionResource::new("coordination.k8s.io", "v1beta1", "leasecandidates");
        candidates.path(Some(&self.namespace))
    }

    fn object(&self) -> String {
        leases().object_path(Some(&self.namespace), &self.name)
    }
}

fn leases() -> GroupVersionResource {
    GroupVersionResource::new("coordination.k8s.io", "v1", "leases")
}

/// An answer for the election, and the object in it.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) answer: Answer,
    pub(super) object: Option<Stored>,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        let object = None;
        Self { answer, object }
    }
}

/// A request that is about to leave: it does when its future is polled.
pub(super) struct Departure {
    /// `renewTime` in it; empty for a get.
    pub(super) renew_time: String,
    pub(super) reply: BoxFuture<'static, Reply>,
}

/// Makes the requests on one lease.
pub(super) struct LeaseClient {
    client: Client,
    place: Place,
    labels: Labels,
    /// The lease as the election knows it.
    held: Option<Stored>,
    /// The last `renewTime`, in microseconds.
    stamped: i64,
    /// Left by the term before the last attempt to take the lease.
    inherited: Inherited,
}

impl LeaseClient {
    pub(super) fn new(client: Client, place: Place, labels: Labels) -> Self {
        Self {
            client,
            place,
            labels,
            held: None,
            stamped: i64::MIN,
            inherited: Inherited::Unknown,
        }
    }

    /// Keeps the newest state of the lease.
    pub(super) fn hold(&mut self, stored: Stored) {
        self.held = Some(stored);
    }

    /// The last writes of the term before the last attempt to take the lease.
    pub(super) fn inherited(&self) -> Inherited {
        self.inherited.clone()
    }

    /// Makes a request. A release tells `last_writes`.
    pub(super) fn depart(&mut self, action: Action, last_writes: Option<&LastWrites>) -> Departure {
        match action {
            Action::Get => Departure {
                renew_time: String::new(),
                reply: self.send(Method::GET, &self.place.object(), Vec::new()),
            },
            Action::Create { record } => {
                self.inherited = Inherited::Unknown;
                let renew_time = self.stamp();
                let Place { namespace, name } = &self.place;
                let body = created(namespace, name, &record, &renew_time, &self.labels);
                let reply = self.send(Method::POST, &self.place.collection(), body);
                Departure { renew_time, reply }
            }
            Action::Update {
                uid,
                version,
                record,
            } => {
                self.inherit(&record);
                self.update(&uid, &version, &record, None)
            }
            Action::Release {
                uid,
                version,
                record,
            } => self.update(&uid, &version, &record, last_writes),
        }
    }

    /// Before an update: if it takes the lease, it succeeds only at the state that is held.
    fn inherit(&mut self, record: &NewRecord) {
        if record.acquire_time != AcquireTime::Now {
            return;
        }
        let told = |held: &Stored| {
            last_writes::inherited(&held.lease.record, held.annotation(last_writes::ANNOTATION))
        };
        self.inherited = self.held.as_ref().map(told).unwrap_or_default();
    }

    fn update(
        &mut self,
        uid: &str,
        version: &ResourceVersion,
        record: &NewRecord,
        last: Option<&LastWrites>,
    ) -> Departure {
        let renew_time = self.stamp();
        let last = last.map(|last| last_writes::annotation(last, record.transitions, &renew_time));
        let held = self.held.as_ref();
        let held = held.filter(|held| held.lease.uid == uid && held.lease.version == *version);
        let reply = match held {
            Some(stored) => {
                let body = stored.updated(record, &renew_time, &self.labels, last.as_deref());
                self.send(Method::PUT, &self.place.object(), body)
            }
            // The election knows a state that came without an object: it reads the lease again.
            None => futures::future::ready(Reply::from(Answer::Conflict)).boxed(),
        };
        Departure { renew_time, reply }
    }

    /// The time of day as the server writes it, later than each one before.
    fn stamp(&mut self) -> String {
        let now = wall_clock().as_microsecond();
        self.stamped = now.max(self.stamped.saturating_add(1));
        micro_time(self.stamped)
    }

    fn send(&self, method: Method, path: &str, body: Vec<u8>) -> BoxFuture<'static, Reply> {
        let answer = exchange(self.client.clone(), &method, path, body);
        answer
            .map(move |answer| match answer {
                Ok((code, body)) => classify(&method, code, body),
                Err(message) => unanswered(message),
            })
            .boxed()
    }
}

/// The status of an answer, and its body.
pub(super) type Exchanged = (StatusCode, Result<Vec<u8>, String>);

/// Sends a request once, and reads the answer.
///
/// # Errors
/// There is no answer, in words.
pub(super) fn exchange(
    client: Client,
    method: &Method,
    path: &str,
    body: Vec<u8>,
) -> BoxFuture<'static, Result<Exchanged, String>> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", "application/json")
        .header("content-type", "application/json")
        .body(Body::from(body));
    async move {
        let request = request.map_err(|error| error.to_string())?;
        let response = client.send(request).await;
        let response = response.map_err(|error| SourceError::from(error).to_string())?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map(|body| body.to_bytes().to_vec());
        Ok((head.status, body.map_err(|error| error.to_string())))
    }
    .boxed()
}

/// Microseconds since 1970 as the server writes them.
pub(super) fn micro_time(microseconds: i64) -> String {
    let time = kinform::Timestamp::from_microsecond(microseconds);
    let time = time.unwrap_or(kinform::Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn unanswered(message: String) -> Reply {
    Answer::Unanswered { message }.into()
}

/// The meaning of a reply.
fn classify(method: &Method, code: StatusCode, body: Result<Vec<u8>, String>) -> Reply {
    if code.is_success() {
        let object = body
            .and_then(|body| serde_json::from_slice(&body).map_err(|error| error.to_string()))
            .and_then(Stored::read);
        return match object {
            Ok(stored) => Reply {
                answer: if *method == Method::GET {
                    Answer::Found(stored.lease.clone())
                } else {
                    Answer::Stored(stored.lease.clone())
                },
                object: Some(stored),
            },
            Err(message) => unanswered(message),
        };
    }
    let status = body.ok().and_then(|body| Status::from_slice(&body));
    let message = match &status {
        Some(status) => format!("{} {}", code.as_u16(), one_line(&status.message)),
        None => format!("{} without a Status of Kubernetes", code.as_u16()),
    };
    let kind = match code {
        StatusCode::FORBIDDEN => RefusalKind::Forbidden,
        StatusCode::UNAUTHORIZED => RefusalKind::Unauthorized,
        // Before the API server, and before it looks at the request: without a Status.
        StatusCode::TOO_MANY_REQUESTS => RefusalKind::Throttled,
        _ if status.is_none() || !code.is_client_error() => return unanswered(message),
        StatusCode::CONFLICT => return Answer::Conflict.into(),
        // Of a create, it is the namespace that does not exist.
        StatusCode::NOT_FOUND if *method != Method::POST => return Answer::Absent.into(),
        _ => RefusalKind::Other,
    };
    Answer::Refused(Refusal { kind, message }).into()
}

/// BOUND: a message of the server in a log line.
const MAX_MESSAGE_CHARS: usize = 500;

/// A message of the server for a line of a log.
pub(super) fn one_line(text: &str) -> String {
    let line = text.chars().take(MAX_MESSAGE_CHARS);
    line.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use kinform::{GroupResource, Status};

    use super::*;

    fn lease() -> Vec<u8> {
        let metadata = serde_json::json!({ "uid": "u", "resourceVersion": "7" });
        let lease = serde_json::json!({ "metadata": metadata, "spec": {} });
        lease.to_string().into_bytes()
    }

    fn check(method: &Method, code: u16, body: &[u8], expected: &str) {
        let code = StatusCode::from_u16(code).unwrap();
        let reply = classify(method, code, Ok(body.to_vec()));
        let got = match reply.answer {
            Answer::Found(_) => "found".to_owned(),
            Answer::Absent => "absent".to_owned(),
            Answer::Stored(_) => "stored".to_owned(),
            Answer::Conflict => "conflict".to_owned(),
            Answer::Refused(refusal) => format!("{:?}", refusal.kind),
            Answer::Unanswered { .. } => "open".to_owned(),
        };
        assert_eq!(got, expected, "{method} {code}");
        let has_object = matches!(expected, "found" | "stored");
        assert_eq!(reply.object.is_some(), has_object);
    }

    // client-go: TestGet, TestGetError, TestCreateError, TestUpdateError
    #[test]
    fn an_answer_is_a_refusal_only_if_nothing_was_stored() {
        let leases = GroupResource::new("coordination.k8s.io", "leases");
        let absent = Status::not_found(&leases, "a").to_json();
        let conflict = Status::modified(&leases, "a").to_json();
        let exists = Status::already_exists(&leases, "a").to_json();
        let forbidden = Status::forbidden(&leases, "a", "no rights").to_json();
        let invalid = Status::bad_request("no").to_json();
        let failed = Status::internal_error("etcd").to_json();
        let page = b"<html>not found</html>".as_slice();
        let (get, post, put) = (&Method::GET, &Method::POST, &Method::PUT);
        check(get, 200, &lease(), "found");
        check(put, 200, &lease(), "stored");
        check(post, 201, &lease(), "stored");
        check(put, 200, page, "open");
        check(get, 404, &absent, "absent");
        check(put, 404, &absent, "absent");
        check(post, 404, &absent, "Other");
        check(get, 404, page, "open");
        check(put, 409, &conflict, "conflict");
        check(post, 409, &exists, "conflict");
        check(put, 409, page, "open");
        check(put, 403, &forbidden, "Forbidden");
        check(put, 401, page, "Unauthorized");
        check(put, 429, page, "Throttled");
        check(put, 400, &invalid, "Other");
        check(put, 500, &failed, "open");
        check(put, 503, page, "open");
        check(put, 302, page, "open");
    }

    #[test]
    fn a_message_of_the_server_is_one_line() {
        let long = "a\r\n\u{1b}b".repeat(1000);
        let line = one_line(&long);
        assert!(line.starts_with("a   b") && line.chars().count() == MAX_MESSAGE_CHARS);
    }
}
