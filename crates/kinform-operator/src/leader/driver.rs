//! The loop of one election: inputs in, steps out.
//!
//! ```text
//! orders, timer, reply, watch ──Input──▶ Election ──Step──▶ one request at a time, Shared, log
//! ```
//!
//! The clock is the system's on a thread of its own, and the runtime's in a test. No task is spawned:
//! all work is part of this one future, and ends with it.
//!
//! The election hears that a request is sent before its first byte can leave. None is sent twice.
//!
//! Upstream counterpart: `LeaderElector.Run` in
//! `client-go:tools/leaderelection/leaderelection.go`.

use std::sync::Arc;

use futures::future::BoxFuture;
use kinform::env::Env;
use kinform_core::election::{
    Answer, Election, EndReason, Input, RefusalKind, Report, Request, RequestId, Sighting, Step,
};
use kinform_core::time::Instant;
use tokio::sync::watch;

use super::candidacy::Candidacy;
use super::clock::Clock;
use super::lease_client::{LeaseClient, Reply};
use super::object::Stored;
use super::orders::Orders;
use super::shared::{Ended, Shared};
use super::watch::{ObjectWatch, Seen};

/// An election that runs while it is polled.
pub(super) struct Driver {
    pub(super) election: Election,
    pub(super) lease: LeaseClient,
    pub(super) watch: ObjectWatch<Stored>,
    /// In a coordinated election.
    pub(super) candidacy: Option<Candidacy>,
    pub(super) shared: Arc<Shared>,
    pub(super) orders: watch::Receiver<Orders>,
    pub(super) clock: Clock,
    pub(super) env: Env,
    pub(super) finish: Finish,
}

/// The request under way.
struct Open {
    id: RequestId,
    reply: BoxFuture<'static, Reply>,
}

/// Something that happened.
enum Event {
    Order(Orders),
    Abandoned,
    Timer,
    Reply(RequestId, Reply),
    Seen(Seen<Stored>),
}

/// The loop's own state.
struct Run {
    // Dropped first: no request outlives the election.
    open: Option<Open>,
    driver: Driver,
    heard: Orders,
    /// All handles were dropped.
    is_abandoned: bool,
    is_over: bool,
    /// The message that was logged last: a failure that repeats is one line.
    failure: String,
}

impl Driver {
    /// Runs the election to its end: a stop that was asked for, or no handle is left.
    pub(super) async fn run(mut self) {
        let candidacy = self.candidacy.take();
        let mut run = Run {
            open: None,
            driver: self,
            heard: Orders::default(),
            is_abandoned: false,
            is_over: false,
            failure: String::new(),
        };
        let election = async {
            run.take(Input::Timer);
            while !run.is_over {
                let event = run.next().await;
                run.on(event);
            }
            run.open = None;
        };
        match candidacy {
            None => election.await,
            // Both end at a stop, or with the last handle.
            Some(candidacy) => {
                futures::join!(election, candidacy.run());
            }
        }
        run.driver.finish.0.finish(Ended::Stopped);
    }
}

/// The advice to an account without rights; empty for other failures.
fn remedy(kind: Option<RefusalKind>, lease: &str) -> String {
    if kind != Some(RefusalKind::Forbidden) {
        return String::new();
    }
    let namespace = lease.split('/').next().unwrap_or_default();
    format!(
        "; it is tried again: grant this account get, create, update and watch on leases in namespace {namespace}"
    )
}

/// Waits for the reply to the request under way.
async fn reply(open: &mut Option<Open>) -> Event {
    match open {
        Some(open) => Event::Reply(open.id, (&mut open.reply).await),
        None => std::future::pending().await,
    }
}

/// Ends the election in any case: a panic of the driver, a runtime that ends, a thread that did not
/// start.
pub(super) struct Finish(pub(super) Arc<Shared>);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.finish(Ended::Broken);
    }
}

impl Run {
    async fn next(&mut self) -> Event {
        let driver = &mut self.driver;
        let wake = driver.election.next_wake();
        let known = driver
            .election
            .lease()
            .map(|(lease, _)| lease.version.clone());
        let jitter = driver.env.jitter();
        let timer = driver
            .clock
            .sleep_until(wake.unwrap_or(Instant::FAR_FUTURE));
        tokio::select! {
            biased;
            change = driver.orders.changed(), if !self.is_abandoned => match change {
                Ok(()) => Event::Order(*driver.orders.borrow_and_update()),
                Err(_) => Event::Abandoned,
            },
            () = timer => Event::Timer,
            event = reply(&mut self.open) => event,
            seen = driver.watch.next(known, jitter) => Event::Seen(seen),
        }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Order(orders) => {
                let before = std::mem::replace(&mut self.heard, orders);
                if orders.is_stop && !before.is_stop {
                    self.take(Input::Stop);
                }
                if orders.idles != before.idles {
                    self.take(Input::Idle);
                }
            }
            Event::Abandoned => {
                self.is_abandoned = true;
                // Work may still run, and nobody will say when it ends: the lease expires.
                self.is_over |= !self.heard.is_stop;
            }
            Event::Timer => self.take(Input::Timer),
            Event::Reply(id, Reply { answer, object }) => {
                self.open = None;
                if !matches!(answer, Answer::Refused(_) | Answer::Unanswered { .. }) {
                    self.failure.clear();
                }
                self.hear(Input::Answer { id, answer }, object);
            }
            Event::Seen(Seen::Present(stored)) => {
                let sighting = Sighting::Present(stored.lease.clone());
                self.hear(Input::Watched(sighting), Some(stored));
            }
            Event::Seen(Seen::Gone(stored)) => {
                self.take(Input::Watched(Sighting::Deleted(stored.lease)))
            }
        }
    }

    fn take(&mut self, input: Input) {
        self.hear(input, None);
    }

    /// Hands in an observation, with the object in it, and does what follows.
    fn hear(&mut self, input: Input, object: Option<Stored>) {
        let now = self.driver.clock.now();
        self.driver.election.handle(input, now);
        // Its updates build on this object, unless it knew a newer one.
        let newest = self.driver.election.lease().map(|(lease, _)| lease);
        if let Some(object) = object.filter(|object| newest == Some(&object.lease)) {
            self.driver.lease.hold(object);
        }
        while let Some(step) = self.driver.election.poll() {
            self.perform(step);
        }
    }

    fn perform(&mut self, step: Step) {
        let shared = &self.driver.shared;
        let lease = &shared.lease;
        match step {
            Step::Request(request) => self.send(request),
            Step::Close(id) => {
                self.open.take_if(|open| open.id == id);
            }
            Step::TermBegan(term) => {
                tracing::info!(%lease, identity = %shared.identity, transitions = term.transitions, "leading");
                shared.inherit(self.driver.lease.inherited());
                shared.begin(term);
            }
            Step::TermExtended { ends_at } => shared.extend(ends_at),
            Step::TermEnded { term, reason } => {
                // First the work, then the log.
                shared.end(term, reason.clone());
                match reason {
                    EndReason::Released | EndReason::Stopped | EndReason::Preferred { .. } => {
                        tracing::info!(%lease, "no longer leading: {reason:?}");
                    }
                    _ => tracing::warn!(%lease, "no longer leading: {reason:?}"),
                }
            }
            Step::LeaderChanged { identity } => {
                match identity.as_deref() {
                    None => tracing::info!(%lease, "nobody leads"),
                    Some(leader) if leader == shared.identity => {}
                    Some(leader) => {
                        tracing::info!(%lease, leader, identity = %shared.identity, "standing by");
                    }
                }
                shared.lead_by(identity);
            }
            Step::Report(report) => self.report(report),
            Step::Stopped => self.is_over = true,
        }
    }

    fn send(&mut self, Request { id, action }: Request) {
        let last_writes = self.driver.shared.last_writes();
        let departure = self.driver.lease.depart(action, last_writes.as_ref());
        let renew_time = departure.renew_time;
        let reply = departure.reply;
        // Its future was not polled yet: the bytes leave after this.
        let now = self.driver.clock.now();
        self.driver
            .election
            .handle(Input::Sent { id, renew_time }, now);
        self.open = Some(Open { id, reply });
    }

    fn report(&mut self, report: Report) {
        let lease = &self.driver.shared.lease;
        match report {
            Report::SlowPath => self.driver.shared.count_slow_path(),
            Report::Conflict { verb } => tracing::debug!(%lease, ?verb, "another client was first"),
            Report::Failed { verb, message, .. } if message == self.failure => {
                tracing::debug!(%lease, ?verb, %message, "a request on the lease failed");
            }
            Report::Failed {
                verb,
                kind,
                message,
            } => {
                let remedy = remedy(kind, lease);
                tracing::warn!(%lease, ?verb, "a request on the lease failed: {message}{remedy}");
                self.failure = message;
            }
        }
    }
}
