//! The candidate of this process in a coordinated election: one `LeaseCandidate`, kept alive.
//!
//! ```text
//! start ──POST──▶ LeaseCandidate ──5 min, or pingTime > renewTime──▶ PUT ──gone──▶ POST .. stop ──▶ DELETE
//! ```
//!
//! One request at a time; answers and the watch tell the state that the next one builds on. A failure
//! is logged once, and tried again. It decides nothing about the lease.
//!
//! BOUND: four requests a second; retries come 0.25 s to a minute after a failure, with jitter.
//!
//! Upstream counterpart: `client-go:tools/leaderelection/leasecandidate.go`.

use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, StatusCode};
use kinform::env::{Env, wall_clock};
use kinform::{BackoffPolicy, ResourceVersion, Status, Timestamp};
use kinform_core::backoff::Backoff;
use kinform_core::time::Instant;
use kube_client::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::clock::Clock;
use super::lease_client::{Exchanged, Place, exchange, micro_time, one_line};
use super::orders::Orders;
use super::watch::{ObjectWatch, Seen, Watched};
use crate::candidate::{LeaseCandidate, STRATEGY};

/// The interval of renewals without a ping.
const RENEW_PERIOD: Duration = Duration::from_secs(5 * 60);
/// The retries of a request that failed.
const RETRIES: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(250),
    cap: Duration::from_secs(60),
    jitter_factor: 1.0,
    reset_after: Duration::from_secs(60),
};

/// The request under way.
struct Open {
    method: Method,
    reply: BoxFuture<'static, Result<Exchanged, String>>,
}

/// Keeps the candidate of one process, until the stop.
pub(super) struct Candidacy {
    candidate: LeaseCandidate,
    place: Place,
    name: String,
    client: Client,
    orders: watch::Receiver<Orders>,
    clock: Clock,
    request_timeout: Duration,
    env: Env,
    watch: ObjectWatch<Value>,
    backoff: Backoff,
    /// The object as it was last observed.
    held: Option<Value>,
    /// Something may have happened that only a read can tell.
    is_in_doubt: bool,
    /// The next request is due then.
    due: Instant,
    /// The last request was made then.
    asked_at: Instant,
    /// The message that was logged last: a failure that repeats is one line.
    failure: String,
}

impl Candidacy {
    /// The candidate of the process `place.1` for the lease `place.0`.
    pub(super) fn new(
        candidate: LeaseCandidate,
        (place, name): (&Place, &str),
        client: Client,
        orders: watch::Receiver<Orders>,
        clock: Clock,
        request_timeout: Duration,
        env: Env,
    ) -> Self {
        let watched = Watched {
            collection: place.candidates(),
            name: name.to_owned(),
            read,
            needs: Some(rights(&place.namespace)),
        };
        let watch = ObjectWatch::new(client.clone(), watched, clock, request_timeout, RETRIES.cap);
        Self {
            candidate,
            place: place.clone(),
            name: name.to_owned(),
            client,
            orders,
            clock,
            request_timeout,
            env,
            watch,
            backoff: Backoff::new(RETRIES),
            held: None,
            is_in_doubt: false,
            due: Instant::ZERO,
            asked_at: Instant::ZERO,
            failure: String::new(),
        }
    }

    /// Keeps the candidate, until a stop or the last handle is dropped.
    pub(super) async fn run(mut self) {
        let mut open: Option<Open> = None;
        loop {
            let known = self.held.as_ref().map(version);
            let jitter = self.env.jitter();
            let (wake, is_open) = (self.due, open.is_some());
            tokio::select! {
                biased;
                change = self.orders.changed() => match change {
                    Ok(()) if self.orders.borrow_and_update().is_stop => break,
                    Ok(()) => {}
                    Err(_) => return,
                },
                (method, reply) = answer(&mut open) => {
                    open = None;
                    self.on_answer(&method, reply);
                }
                () = self.clock.sleep_until(wake), if !is_open => open = Some(self.ask()),
                seen = self.watch.next(known, jitter) => self.on_seen(seen),
            }
        }
        drop(open);
        self.withdraw().await;
    }

    /// Deletes the candidate: the coordinator chooses among those that stay, and waits for no answer
    /// of this one.
    async fn withdraw(self) {
        let deletion = self.send(Method::DELETE, Vec::new()).reply;
        let limit = tokio::time::timeout(self.request_timeout, deletion);
        let outcome = match limit.await {
            Ok(Ok((code, _))) if code.is_success() || code == StatusCode::NOT_FOUND => return,
            Ok(Ok((code, _))) => format!("the server answered {code}"),
            Ok(Err(message)) => message,
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::debug!(candidate = %self.name, "it was not deleted: {outcome}");
    }

    /// The request that is due.
    fn ask(&mut self) -> Open {
        self.asked_at = self.clock.now();
        if self.is_in_doubt {
            return self.send(Method::GET, Vec::new());
        }
        match self.held.clone() {
            None => {
                let body = json!({
                    "apiVersion": "coordination.k8s.io/v1beta1",
                    "kind": "LeaseCandidate",
                    "metadata": { "name": self.name, "namespace": self.place.namespace },
                    "spec": {
                        "leaseName": self.place.name,
                        "binaryVersion": self.candidate.binary_version,
                        "emulationVersion": self.candidate.emulation_version,
                        "strategy": STRATEGY,
                        "renewTime": micro_time(wall_clock().as_microsecond()),
                    },
                });
                self.send(Method::POST, body.to_string().into_bytes())
            }
            Some(mut object) => {
                object["spec"]["renewTime"] = renewed(&object).into();
                self.send(Method::PUT, object.to_string().into_bytes())
            }
        }
    }

    fn send(&self, method: Method, body: Vec<u8>) -> Open {
        let collection = self.place.candidates();
        let path = match method {
            Method::POST => collection,
            _ => format!("{collection}/{}", self.name),
        };
        let reply = exchange(self.client.clone(), &method, &path, body);
        let limit = self.request_timeout;
        let reply = Box::pin(async move {
            let reply = tokio::time::timeout(limit, reply).await;
            reply.unwrap_or_else(|_| Err("no answer in time".to_owned()))
        });
        Open { method, reply }
    }

    fn on_answer(&mut self, method: &Method, reply: Result<Exchanged, String>) {
        let (code, body) = match reply {
            Ok(reply) => reply,
            Err(message) => return self.fail(message),
        };
        if code.is_success() {
            let object = body.and_then(|body| parse(&body));
            return match object {
                Ok(object) => self.on_object(method, object),
                Err(message) => self.fail(message),
            };
        }
        let status = body.ok().and_then(|body| Status::from_slice(&body));
        match code {
            StatusCode::CONFLICT => {
                self.is_in_doubt = true;
                self.retry();
            }
            StatusCode::NOT_FOUND if status.is_some() && *method != Method::POST => {
                self.is_in_doubt = false;
                self.held = None;
                self.retry();
            }
            _ => {
                let said = status.map(|status| one_line(&status.message));
                let said = said.unwrap_or_else(|| "no Status of Kubernetes".to_owned());
                let remedy = remedy(code, &said, &self.place.namespace);
                self.fail(format!("{} {said}{remedy}", code.as_u16()));
            }
        }
    }

    /// A request succeeded.
    fn on_object(&mut self, method: &Method, object: Value) {
        self.failure.clear();
        let now = self.clock.now();
        self.backoff.healthy(now);
        self.is_in_doubt = false;
        self.hold(object);
        self.due = now + RENEW_PERIOD;
        // What was read is someone else's state: it is renewed at once.
        if *method == Method::GET || self.held.as_ref().is_some_and(is_pinged) {
            self.hurry();
        }
    }

    fn on_seen(&mut self, seen: Seen<Value>) {
        match seen {
            Seen::Present(object) => {
                self.hold(object);
                if self.held.as_ref().is_some_and(is_pinged) {
                    self.hurry();
                }
            }
            Seen::Gone(last) => {
                if self.is_newer(&last) {
                    self.held = None;
                    self.hurry();
                }
            }
        }
    }

    /// Keeps the newest state.
    fn hold(&mut self, object: Value) {
        if self.is_newer(&object) {
            self.held = Some(object);
        }
    }

    /// Returns whether a state is not older than the one that is known.
    fn is_newer(&self, object: &Value) -> bool {
        let known = self.held.as_ref().map(version);
        // Versions without an order are believed.
        known.is_none_or(|known| {
            let order = version(object).compare(&known);
            order.is_ok_and(|order| order.is_ge()) || version(object).compare(&known).is_err()
        })
    }

    /// Brings the next request forward.
    fn hurry(&mut self) {
        let soon = self.clock.now().max(self.asked_at + RETRIES.first);
        self.due = self.due.min(soon);
    }

    fn retry(&mut self) {
        let now = self.clock.now();
        self.due = now + self.backoff.failed(now, self.env.jitter());
    }

    fn fail(&mut self, message: String) {
        let (candidate, namespace) = (&self.name, &self.place.namespace);
        if message == self.failure {
            tracing::debug!(%namespace, %candidate, %message, "a request on the LeaseCandidate failed");
        } else {
            tracing::warn!(%namespace, %candidate, "a request on the LeaseCandidate failed: {message}");
            self.failure = message;
        }
        self.retry();
    }
}

/// Waits for the answer to the request under way.
async fn answer(open: &mut Option<Open>) -> (Method, Result<Exchanged, String>) {
    match open {
        Some(open) => (open.method.clone(), (&mut open.reply).await),
        None => std::future::pending().await,
    }
}

/// The rights that a candidate needs.
fn rights(namespace: &str) -> String {
    format!(
        "it is tried again: grant this account create, get, update, watch and delete on leasecandidates in namespace {namespace}"
    )
}

/// The advice for a refusal; empty where there is none.
fn remedy(code: StatusCode, said: &str, namespace: &str) -> String {
    match code {
        StatusCode::FORBIDDEN => format!("; {}", rights(namespace)),
        // The namespace is there for the lease; it is the group that is not.
        StatusCode::NOT_FOUND if !said.starts_with("namespaces ") => {
            "; it is tried again: start the API server with --feature-gates=CoordinatedLeaderElection=true --runtime-config=coordination.k8s.io/v1beta1=true".to_owned()
        }
        _ => String::new(),
    }
}

fn parse(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body)
        .map_err(|error| error.to_string())
        .and_then(read)
}

/// Reads a candidate of the server.
fn read(mut object: Value) -> Result<Value, String> {
    if version(&object).is_unset() || !object["spec"].is_object() {
        return Err("the answer is no LeaseCandidate".to_owned());
    }
    // The server keeps its own list if an update has no managedFields.
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    Ok(object)
}

fn version(object: &Value) -> ResourceVersion {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap_or_default().into()
}

/// A time of the spec.
fn time(object: &Value, name: &str) -> Option<Timestamp> {
    object["spec"][name].as_str()?.parse().ok()
}

/// Returns whether the coordinator waits for an answer.
fn is_pinged(object: &Value) -> bool {
    time(object, "pingTime")
        .is_some_and(|ping| time(object, "renewTime").is_none_or(|at| at < ping))
}

/// The time of the next renewal: of an answer never earlier than its ping, whatever the clocks say.
fn renewed(object: &Value) -> String {
    let now = wall_clock();
    let at = time(object, "pingTime").map_or(now, |ping| ping.max(now));
    micro_time(at.as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(ping: &str, renew: &str) -> Value {
        let spec = json!({ "pingTime": ping, "renewTime": renew });
        json!({ "metadata": { "resourceVersion": "7" }, "spec": spec })
    }

    // client-go: TestLeaseCandidateAck
    #[test]
    fn an_answer_is_never_earlier_than_its_ping_whatever_the_clocks_say() {
        let now = wall_clock();
        let at = |seconds: i64| micro_time(now.as_microsecond() + seconds * 1_000_000);
        assert!(is_pinged(&candidate(&at(0), &at(-1))));
        assert!(!is_pinged(&candidate(&at(0), &at(0))));
        assert!(!is_pinged(&json!({ "spec": { "renewTime": at(0) } })));
        assert!(is_pinged(&json!({ "spec": { "pingTime": at(0) } })));
        // The coordinator's clock is an hour ahead.
        let ahead = candidate(&at(3600), &at(0));
        assert_eq!(renewed(&ahead), at(3600));
        let behind = candidate(&at(-3600), &at(-7200));
        assert!(renewed(&behind) >= at(0));
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let forbidden = remedy(StatusCode::FORBIDDEN, "no", "bank");
        assert!(forbidden.contains("on leasecandidates in namespace bank"));
        let absent = remedy(StatusCode::NOT_FOUND, "no Status of Kubernetes", "bank");
        assert!(absent.contains("--feature-gates=CoordinatedLeaderElection=true"));
        let said = "namespaces \"bank\" not found";
        assert_eq!(remedy(StatusCode::NOT_FOUND, said, "bank"), "");
        assert_eq!(remedy(StatusCode::UNPROCESSABLE_ENTITY, "no", "bank"), "");
    }

    #[test]
    fn an_answer_that_is_no_candidate_is_named() {
        for bad in [
            "[]",
            "{}",
            "x",
            "{\"metadata\":{\"resourceVersion\":\"7\"}}",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let mut good = candidate("", "");
        good["metadata"]["managedFields"] = json!([]);
        let read = parse(good.to_string().as_bytes()).unwrap();
        assert!(read["metadata"].get("managedFields").is_none());
    }
}
