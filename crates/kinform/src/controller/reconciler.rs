//! A controller with its reconcile function, run as often as its program leads.
//!
//! ```text
//! Controller<K, C> + function → Reconciler → follow() (standby) → lead() → Finish::Lost → lead() ..
//! ```
//!
//! While it follows, only the keys of the last minute's changes are kept. A term begins with these,
//! then comes every object at the lowest priority.
//! INVARIANT: when [`Reconciler::lead`] returns or is dropped, no reconcile runs.
//!
//! Upstream counterpart: `controller-runtime:pkg/internal/controller` (`Controller`), which runs
//! once in a process's life.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use tokio_util::sync::CancellationToken;

use super::feed::{Listening, Sink};
use super::last_writes::LastWrites;
use super::recent::Recent;
use super::run::{Ends, Finish, Run, Runner};
use super::stats::ControllerMetrics;
use super::stop::Stop;
use crate::error::{Error, ErrorKind};
use crate::events::EventRecorder;
use crate::share::Share;

/// A controller with its reconcile function, without type parameters. Made by
/// [`Controller::reconciling`](super::Controller::reconciling).
#[must_use = "a controller does nothing before it runs"]
pub struct Reconciler {
    run: Box<dyn Run>,
    ends: Ends,
    /// The reason why it cannot run, unless it is given a client.
    refused: Option<Error>,
    following: Option<Following>,
}

struct Following {
    recent: Arc<Recent>,
    listening: Vec<Box<dyn Listening>>,
}

impl Reconciler {
    pub(super) fn new<C: Send + Sync + 'static>(
        runner: Runner<C>,
        ends: Ends,
        refused: Option<Error>,
    ) -> Self {
        Self {
            run: Box::new(runner),
            ends,
            refused,
            following: None,
        }
    }

    /// The controller's name: see [`Controller::named`](super::Controller::named).
    #[must_use]
    pub fn name(&self) -> &str {
        self.run.name()
    }

    /// Makes it a part of an operator: its field manager begins with `operator`, and it writes with
    /// `client`, unless the builder was given others.
    pub fn within(mut self, operator: &str, client: Client) -> Self {
        self.run.adopt(operator, client);
        self.refused = None;
        self
    }

    /// Sets the recorder of the controller's own events, unless the builder was given one: see
    /// [`Controller::events`](super::Controller::events).
    pub fn events(mut self, events: EventRecorder) -> Self {
        self.run.record(events);
        self
    }

    /// The resource that is reconciled.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.run.resource()
    }

    /// The number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.run.workers()
    }

    /// The resources whose informers it needs; the first is the one that is reconciled.
    #[must_use]
    pub fn needs(&self) -> Vec<String> {
        let triggers = self.run.triggers().iter();
        triggers.map(|t| t.resource().to_string()).collect()
    }

    /// The share whose keys it works on; `None` if it works on all.
    #[must_use]
    pub fn share(&self) -> Option<&Share> {
        self.run.share()
    }

    /// The numbers, readable while it runs.
    #[must_use]
    pub fn metrics(&self) -> ControllerMetrics {
        self.run.metrics()
    }

    /// The last writes of its term, of resources that its caches hold: a successor catches up with
    /// them. Empty after a term was lost.
    #[must_use]
    pub fn last_writes(&self) -> LastWrites {
        self.run.last_writes()
    }

    /// Waits until its caches have these writes of an earlier term, as long as it takes. Without
    /// any, asks the server and waits until they have everything that it had at this call; so for
    /// resources whose last version is not known. Before their first list, caches are not waited
    /// for.
    ///
    /// # Errors
    /// A cache did not catch up with an answer of the server ([`Error::is_stale`]), or is stopped.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn catch_up(&self, writes: Option<&LastWrites>) -> Result<(), Error> {
        self.run.view().catch_up(writes).await
    }

    /// Sets the time that running reconciles have to end after a stop was asked for. Units and
    /// default: as [`Controller::grace_period`](super::Controller::grace_period).
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.run.set_grace(grace);
        self
    }

    /// Runs as [`Controller::run`](super::Controller::run) does, once.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn run(self) -> Result<(), Error> {
        let Self {
            run, ends, refused, ..
        } = self;
        refused.map_or(Ok(()), Err)?;
        let never = CancellationToken::new();
        run.run(ends.listen()?, &never, None).await.map(drop)
    }

    /// Begins to keep the keys of recent changes, for the term that may come. Keeps at most 65,536
    /// keys, of one minute.
    ///
    /// # Errors
    /// The caller is outside of a tokio runtime, or an informer is stopped already.
    pub fn follow(&mut self) -> Result<(), Error> {
        if self.following.is_some() {
            return Ok(());
        }
        let recent = Arc::<Recent>::default();
        let mut listening = Vec::new();
        for (source, trigger) in self.run.triggers().iter().enumerate() {
            let sink = Arc::clone(&recent) as Arc<dyn Sink>;
            listening.push(trigger.listen(sink, source as u16, None)?);
        }
        self.following = Some(Following { recent, listening });
        Ok(())
    }

    /// Works until `stop` or `lost` is cancelled.
    ///
    /// After `stop`, running reconciles have the grace period to end. After `lost`, also during
    /// that time, they are dropped at their next await and waited for; it can lead again.
    ///
    /// # Errors
    /// As [`Controller::run`](super::Controller::run).
    ///
    /// # Cancel safety
    /// Dropping it drops the running reconciles at their next await and closes the queue: it cannot
    /// lead again.
    ///
    /// # Order guarantees
    /// Keys of recent changes come first, then those of all objects. One key is never in two
    /// reconciles at the same time.
    pub async fn lead(
        &self,
        stop: &CancellationToken,
        lost: &CancellationToken,
    ) -> Result<Finish, Error> {
        if let Some(refused) = &self.refused {
            return Err(Error::new(ErrorKind::Config, refused.to_string()));
        }
        let recent = self.following.as_ref().map(|f| &*f.recent);
        let stop = Stop {
            token: stop.clone(),
            signals: None,
        };
        self.run.run(stop, lost, recent).await
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.listening
            .drain(..)
            .for_each(|handler| handler.remove());
    }
}

impl fmt::Debug for Reconciler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconciler")
            .field("resource", &self.resource())
            .field("workers", &self.workers())
            .finish_non_exhaustive()
    }
}
