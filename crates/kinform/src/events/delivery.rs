//! The loop that delivers events.
//!
//! ```text
//! queue → Machine → Telling → request ──done──▶ counted
//!                                ├── refused ──▶ counted, logged once for each cause
//!                                └── unreachable ──▶ again, twelve tries at most
//! ```
//!
//! One request at a time. At a stop the one under way, those queued and the counts of series get one
//! try each, within a deadline.
//!
//! Upstream counterpart: `client-go:tools/record/event.go` (`recordToSink`),
//! `client-go:tools/events/event_broadcaster.go` (eight workers).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kinform_core::time::Instant;
use kube_core::Status;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::counts::Counters;
use super::machine::Machine;
use super::occurrence::{Occurrence, WORD_MAX, truncate};
use super::remembered::Remembered;
use super::request::{Form, REQUEST_TIMEOUT, Reporter, Tried, tell};
use super::telling::{Heard, Telling};
use crate::env::Env;

/// Upstream: `maxTriesPerEvent`, `defaultSleepDuration`.
const TRIES_MAX: u32 = 12;
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// A refusal for the same cause is logged again after this time.
const LOGGED_FOR: Duration = Duration::from_secs(600);

/// Delivers recorded events to the server while it runs.
#[must_use = "events are delivered by `run`"]
pub struct EventDelivery {
    client: kube_client::Client,
    reporter: Reporter,
    queue: mpsc::Receiver<Occurrence>,
    env: Env,
    machine: Machine,
    counters: Arc<Counters>,
    /// Requests to make. The first is being made: it stays until its end, to be made again at a stop.
    // BOUND: what one event, or one look at all series, leads to.
    pending: VecDeque<Telling>,
    /// Causes of refusals that were logged.
    logged: Remembered<String, ()>,
    flush: Duration,
}

impl EventDelivery {
    pub(super) fn new(
        client: kube_client::Client,
        controller: &str,
        queue: mpsc::Receiver<Occurrence>,
        machine: Machine,
        counters: Arc<Counters>,
    ) -> Self {
        // Kubernetes sets it to the pod's name. Upstream: the controller's name and the host's.
        let host = std::env::var("HOSTNAME").unwrap_or_default();
        let instance = match host.as_str() {
            "" => controller.to_owned(),
            host => format!("{controller}-{host}"),
        };
        let reporter = Reporter {
            controller: controller.to_owned(),
            instance: String::new(),
        };
        let delivery = Self {
            client,
            reporter,
            queue,
            env: Env::system(),
            machine,
            counters,
            pending: VecDeque::new(),
            logged: Remembered::default(),
            flush: REQUEST_TIMEOUT,
        };
        delivery.instance(&instance)
    }

    /// Sets the name of this process in events of `events.k8s.io/v1`, cut to 128 bytes. Default: the
    /// controller's name and `$HOSTNAME`.
    pub fn instance(mut self, instance: &str) -> Self {
        instance.clone_into(&mut self.reporter.instance);
        truncate(&mut self.reporter.instance, WORD_MAX);
        self
    }

    /// Sets the time that events have to be delivered after a stop. Units and default: 10 s.
    pub fn flush_within(mut self, flush: Duration) -> Self {
        self.flush = flush;
        self
    }

    /// Delivers events until `stop` is cancelled, or until every recorder is gone and the queue is
    /// empty. At the end each event that is queued or under way, and each series that grew, gets one
    /// try, for at most ten seconds in all ([`flush_within`](Self::flush_within)).
    ///
    /// # Cancel safety
    /// Dropping it drops the events that are queued.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let (env, wake) = (self.env.clone(), self.machine.next_wake());
            let woken = async {
                match wake {
                    Some(wake) => env.sleep_until(wake).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                // Before the queue, which may never be empty.
                () = woken => self.pending.extend(self.machine.due(self.env.now())),
                occurrence = self.queue.recv() => match occurrence {
                    Some(occurrence) => self.hear(occurrence),
                    None => break,
                },
            }
            tokio::select! {
                biased;
                () = self.deliver_all(TRIES_MAX) => {}
                () = stop.cancelled() => break,
            }
        }
        self.queue.close();
        let deadline = self.env.now() + self.flush;
        let env = self.env.clone();
        let is_flushed = tokio::select! {
            biased;
            () = self.flush() => true,
            () = env.sleep_until(deadline) => false,
        };
        let left = self.abandon();
        if !is_flushed {
            tracing::warn!(left, "events were not delivered before the stop");
        }
    }

    async fn flush(&mut self) {
        self.deliver_all(1).await;
        while let Some(occurrence) = self.queue.recv().await {
            self.hear(occurrence);
            self.deliver_all(1).await;
        }
        self.pending.extend(self.machine.end());
        self.deliver_all(1).await;
    }

    /// Counts what is left as dropped.
    fn abandon(&mut self) -> u64 {
        let pending = self.pending.drain(..);
        let mut left = pending.map(|telling| telling.accounts_for).sum();
        while self.queue.try_recv().is_ok() {
            left += 1;
        }
        self.counters.dropped.add(left);
        left
    }

    fn hear(&mut self, occurrence: Occurrence) {
        match self.machine.hear(occurrence, self.env.now()) {
            Heard::Tell(tellings) => self.pending.extend(tellings),
            Heard::Merged => self.counters.merged.add(1),
            Heard::Dropped => self.counters.dropped.add(1),
        }
    }

    async fn deliver_all(&mut self, tries: u32) {
        while let Some(telling) = self.pending.front().cloned() {
            self.deliver(telling, tries).await;
            self.pending.pop_front();
        }
    }

    async fn deliver(&mut self, mut telling: Telling, tries: u32) {
        let form = match &self.machine {
            Machine::Core(_) => Form::Core,
            Machine::Series(_) => Form::Series,
        };
        for attempt in 1..=tries {
            let mut tried = tell(&self.client, form, &self.reporter, &telling).await;
            if matches!(tried, Tried::Missing) {
                self.machine.begin_anew(&mut telling);
                tried = tell(&self.client, form, &self.reporter, &telling).await;
            }
            match tried {
                Tried::Done => return self.counters.sent.add(telling.accounts_for),
                // Never of a create.
                Tried::Missing => {}
                Tried::Refused(status) => {
                    self.machine.failed(&telling);
                    self.log_refusal(&telling, &status);
                    return self.counters.refused.add(telling.accounts_for);
                }
                Tried::Unreachable(error) => {
                    tracing::debug!(error, attempt, "an event could not be delivered");
                    if attempt < tries {
                        self.pause(attempt).await;
                    }
                }
            }
        }
        self.machine.failed(&telling);
        self.counters.dropped.add(telling.accounts_for);
        let about = about(&telling);
        tracing::warn!(about, tries, "an event was given up");
    }

    async fn pause(&self, attempt: u32) {
        // The first pause is random, so that many clients do not return at the same time.
        let share = if attempt == 1 { self.env.jitter() } else { 1.0 };
        let until: Instant = self.env.now() + RETRY_PAUSE.mul_f64(share);
        self.env.sleep_until(until).await;
    }

    /// One line a cause: missing rights, or a namespace that ends, concern many events.
    fn log_refusal(&mut self, telling: &Telling, status: &Status) {
        let Status {
            code,
            reason,
            message: error,
            ..
        } = status;
        let (about, event) = (about(telling), &telling.event.reason);
        let cause = format!("{code} {reason} {}", telling.event.namespace());
        let now = self.env.now();
        if self.logged.get(&cause, now, LOGGED_FOR).is_some() {
            tracing::debug!(error, about, event, "the server refused an event");
        } else {
            self.logged.put(cause, (), now);
            tracing::warn!(error, about, event, "the server refused an event");
        }
    }
}

/// The object of an event, for a log.
fn about(telling: &Telling) -> String {
    let about = &telling.event.about;
    let kind = about.kind.as_deref().unwrap_or_default();
    let name = about.name.as_deref().unwrap_or_default();
    match about.namespace.as_deref() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

impl std::fmt::Debug for EventDelivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventDelivery")
            .field("reporter", &self.reporter)
            .finish_non_exhaustive()
    }
}
