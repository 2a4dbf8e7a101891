//! The operator: everything around controllers, started and stopped in order.
//!
//! ```text
//! Settings → OperatorBuilder → Operator: informers, clients, recorder, probes, metrics
//!    add(controller), task(..) → Part (a handle that removes)
//!    run: HTTP → informers synced → lease → controllers; a stop goes backwards
//! ```
//!
//! `builder` makes it, `parts` are what it runs, `run` is the order, `readiness` its own checks,
//! `gate` guards its client.
//! INVARIANT: work that needs the lease runs only in a term, and is joined before the next.
//!
//! Upstream counterpart: `controller-runtime:pkg/manager`.

mod builder;
mod gate;
mod parts;
mod readiness;
mod run;
mod servers;
mod team;
#[cfg(feature = "metrics")]
mod tls;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use kinform::controller::Reconciler;
use kinform::events::{EventDelivery, EventRecorder};
use kinform::{Informer, InformerFactory, Share};
use kube_client::Client;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::builder::OperatorBuilder;
pub use self::parts::{Part, When};

use self::builder::Connect;
use self::gate::Gate;
use self::parts::{BoxError, Need, Parts, Work};
use crate::error::{Error, ErrorKind};
use crate::leader::{LeaderElection, Term};
use crate::probes::{Counts, Probes};
use crate::settings::{Fencing, Settings};
use crate::sharding::Member;
#[cfg(feature = "metrics")]
use crate::telemetry::Telemetry;
#[cfg(feature = "webhook")]
use crate::webhook::{Certificates, Webhooks};

/// Everything around controllers. Cheap to clone.
#[derive(Clone)]
pub struct Operator(Arc<Inner>);

struct Inner {
    name: String,
    settings: Settings,
    connect: Connect,
    client: Client,
    guarded: Client,
    /// `None` without leader election.
    gate: Option<Gate>,
    /// `None` without shards.
    member: Option<Member>,
    /// The client of sharded controllers, and what guards it.
    sharded: Option<(Gate, Client)>,
    /// `None` without leader election, and after the start.
    lease: Mutex<Option<LeaderElection>>,
    factory: InformerFactory,
    recorder: EventRecorder,
    /// `None` after the start.
    delivery: Mutex<Option<EventDelivery>>,
    probes: Probes,
    #[cfg(feature = "metrics")]
    telemetry: Telemetry,
    parts: Parts,
    addresses: watch::Sender<Option<Addresses>>,
    #[cfg(feature = "webhook")]
    webhooks: OnceLock<(Webhooks, Certificates)>,
    /// A stop has begun.
    leaving: CancellationToken,
    /// The controllers that need the lease have begun to work once.
    elected: CancellationToken,
    left_at: OnceLock<Instant>,
    /// A reconcile did not end in its grace period, and may still run.
    undrained: Arc<AtomicBool>,
}

impl Inner {
    /// From here on the process is not ready.
    fn leave(&self) {
        let _ = self.left_at.set(Instant::now());
        self.leaving.cancel();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Each part knows the list that it is in: an operator that was dropped before its end would
        // keep its controllers, and they its clients.
        self.parts.close();
    }
}

/// The addresses of a running operator's ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Addresses {
    /// The port of the probes.
    pub probes: Option<SocketAddr>,
    /// The port of the metrics.
    pub metrics: Option<SocketAddr>,
    /// The port of the webhooks.
    pub webhooks: Option<SocketAddr>,
    /// The port of the inspector.
    pub inspector: Option<SocketAddr>,
}

impl Operator {
    /// An operator to be configured. The name is that of its lease, and its component in events.
    ///
    /// Upstream: `manager.New`.
    pub fn builder(name: impl Into<String>) -> OperatorBuilder {
        OperatorBuilder {
            name: name.into(),
            settings: Settings::default(),
            fencing: Fencing::Guard,
            candidate: None,
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The informer of `K` in the operator's namespaces.
    pub fn informer<K>(&self) -> Informer<K>
    where
        K: kube_core::Resource + DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Default,
    {
        self.0.factory.informer()
    }

    /// The factory of the operator's informers, which it starts and ends.
    #[must_use]
    pub fn factory(&self) -> &InformerFactory {
        &self.0.factory
    }

    /// A client for the work of a leader: with leader election, its requests fail with
    /// [`NotLeading`](crate::leader::NotLeading) outside of a term. Without, it is
    /// [`unguarded`](Self::unguarded).
    #[must_use]
    pub fn client(&self) -> Client {
        self.0.guarded.clone()
    }

    /// A client for work that every replica does. The lease does not cover it.
    #[must_use]
    pub fn unguarded(&self) -> Client {
        self.0.client.clone()
    }

    /// The term that this replica leads in now, by the clock; `None` outside of a term, and without
    /// leader election.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.0.gate.as_ref()?.term()
    }

    /// Waits until the controllers that need the lease begin to work here for the first time: the
    /// caches are synced, a term has begun, and the caches have the writes of the term before, or the
    /// wait for them ended with a warning (after 30 s if the lease tells the writes, else 2 s).
    /// Without leader election that is the start. Never ends if the operator ends before.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    ///
    /// Upstream counterpart: `Manager.Elected`.
    pub async fn elected(&self) {
        self.0.elected.cancelled().await;
    }

    /// This replica's share of the keys, for sharded controllers and their informers:
    /// [`Controller::sharded`](kinform::Controller::sharded),
    /// [`InformerBuilder::share`](kinform::InformerBuilder::share). `None` without
    /// [`Settings::sharding`].
    #[must_use]
    pub fn share(&self) -> Option<Share> {
        Some(self.0.member.as_ref()?.share.clone())
    }

    /// A client for the work of sharded controllers: its requests fail with
    /// [`NotLeading`](crate::leader::NotLeading) while this replica is no member. `None` without
    /// [`Settings::sharding`].
    #[must_use]
    pub fn shard_client(&self) -> Option<Client> {
        Some(self.0.sharded.as_ref()?.1.clone())
    }

    /// The term in which this replica is a member, by the clock; `None` outside of a term, and without
    /// [`Settings::sharding`]. A write of a sharded controller can carry it, to name its writer.
    ///
    /// A shard's lease names the term of its owner in the annotation `kinform.dev/term`, as
    /// `UID TRANSITIONS`.
    #[must_use]
    pub fn shard_term(&self) -> Option<Term> {
        self.0.sharded.as_ref()?.0.term()
    }

    /// The recorder of the operator's events.
    #[must_use]
    pub fn events(&self) -> &EventRecorder {
        &self.0.recorder
    }

    /// Waits until the ports are bound; returns their addresses.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn addresses(&self) -> Addresses {
        let mut addresses = self.0.addresses.subscribe();
        let bound = addresses.wait_for(Option::is_some).await;
        // The sender is in `self`.
        bound.ok().and_then(|bound| *bound).unwrap_or_default()
    }

    /// Adds a controller under its own name. It runs while this replica leads; one that is added to
    /// a running operator starts at once. Its writes go through [`client`](Self::client), unless it
    /// was given another. Its own `shutdown_on` and `shutdown_on_signal` do not count here.
    ///
    /// # Errors
    /// There is a part of that name already (see [`add_named`](Self::add_named)), or the operator
    /// has stopped.
    ///
    /// Upstream: `Manager.Add`, `ControllerManagedBy`.
    pub fn add(&self, controller: Reconciler) -> Result<Part, Error> {
        let name = controller.name().to_owned();
        self.add_named(&name, controller)
    }

    /// The same, with a name for its metrics and errors.
    ///
    /// # Errors
    /// There is a part of that name, or the operator has stopped.
    pub fn add_named(&self, name: &str, controller: Reconciler) -> Result<Part, Error> {
        self.add_controller(name, Need::Required, controller)
    }

    /// Adds a controller that the operator can do without: its failure is logged, and it ends alone.
    ///
    /// # Errors
    /// As [`add_named`](Self::add_named).
    pub fn add_optional(&self, name: &str, controller: Reconciler) -> Result<Part, Error> {
        self.add_controller(name, Need::Optional, controller)
    }

    fn add_controller(
        &self,
        name: &str,
        need: Need,
        mut controller: Reconciler,
    ) -> Result<Part, Error> {
        let when = self.time_of(&controller)?;
        if when == When::Leading && self.0.settings.leader_election.is_some() {
            controller.follow()?;
        }
        let client = match when {
            When::Sharded => self.shard_client(),
            When::Leading | When::Always => None,
        };
        let controller = controller
            .grace_period(self.0.settings.grace_period)
            .within(&self.0.name, client.unwrap_or_else(|| self.client()))
            .events(self.events().clone());
        let work = Work::Controller(Box::new(controller));
        self.0.parts.add(name, (when, need), work)
    }

    /// The time in which a controller runs.
    fn time_of(&self, controller: &Reconciler) -> Result<When, Error> {
        let refused = |why: &str| {
            let message = format!("the controller {}: {why}", controller.name());
            Err(Error::new(ErrorKind::Usage, message))
        };
        match (controller.share(), &self.0.member) {
            (Some(share), Some(member)) if *share == member.share => Ok(When::Sharded),
            (Some(_), _) => refused("its share is not that of this operator: Operator::share"),
            (None, Some(_)) if self.0.settings.leader_election.is_none() => refused(
                "it is not sharded, and would work in every replica: add --leader-elect, or shard it",
            ),
            (None, _) => Ok(When::Leading),
        }
    }

    /// Adds a task. It is called with a token that is cancelled when it is to end, once for each
    /// term if it runs [`When::Leading`]. A lost term drops it at its next await.
    ///
    /// # Errors
    /// There is a part of that name, or the operator has stopped.
    ///
    /// Upstream: `manager.Runnable`, `LeaderElectionRunnable`.
    pub fn task<F, R, E>(&self, name: &str, when: When, run: F) -> Result<Part, Error>
    where
        F: Fn(CancellationToken) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let work = parts::task(run);
        self.0.parts.add(name, (when, Need::Required), work)
    }

    /// Serves webhooks, in every replica, from the start to some time after the stop: see
    /// [`Settings::webhook_drain`]. They wait for no cache and no lease. Readiness is then that they
    /// serve; `/readyz/informers` tells of the caches.
    ///
    /// # Errors
    /// There are webhooks already.
    ///
    /// Upstream: `Manager.GetWebhookServer`.
    #[cfg(feature = "webhook")]
    pub fn serve_webhooks(
        &self,
        webhooks: Webhooks,
        certificates: Certificates,
    ) -> Result<(), Error> {
        let set = self
            .0
            .webhooks
            .set((webhooks.clone(), certificates.clone()));
        set.map_err(|_| {
            let message = "there are webhooks already: add all functions to one `Webhooks`";
            Error::new(ErrorKind::Usage, message)
        })?;
        #[cfg(feature = "metrics")]
        self.0.telemetry.add(Arc::new(move || {
            crate::telemetry::webhooks::families(&webhooks, &certificates)
        }));
        Ok(())
    }

    /// The certificate of the webhooks in the files that the settings name.
    #[cfg(feature = "webhook")]
    #[must_use]
    pub fn webhook_certificate(&self) -> Option<Certificates> {
        let files = self.0.settings.webhook_certificate.as_ref();
        files.map(Certificates::from_files)
    }

    /// Adds a check to `/readyz`: an error is its cause, in one line. It must not wait.
    ///
    /// # Errors
    /// The name is taken, or is no part of a path.
    ///
    /// Upstream: `AddReadyzCheck`.
    pub fn ready_check(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let ready = &self.0.probes.ready;
        ready.add(name, Counts::Everywhere, Arc::new(check))
    }

    /// Adds a check to `/healthz`: a failure restarts the process.
    ///
    /// # Errors
    /// The name is taken, or is no part of a path.
    ///
    /// Upstream: `AddHealthzCheck`.
    pub fn live_check(
        &self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let live = &self.0.probes.live;
        live.add(name, Counts::Everywhere, Arc::new(check))
    }

    /// Registers metrics of the program's own.
    #[cfg(feature = "metrics")]
    pub fn register_metrics(
        &self,
        register: impl FnOnce(&mut prometheus_client::registry::Registry),
    ) {
        self.0.telemetry.register(register);
    }

    /// The operator as the inspector sees it.
    #[cfg(feature = "inspect")]
    fn program(&self) -> crate::inspect::Program {
        use crate::inspect::{Controller, Lease, Program};
        let (parts, gate) = (self.0.parts.clone(), self.0.gate.clone());
        Program {
            name: self.0.name.clone(),
            factory: self.0.factory.clone(),
            controllers: Arc::new(move || {
                let parts = parts.all();
                let shown = parts.iter().filter_map(|part| {
                    let controller = part.controller()?;
                    Some(Controller {
                        name: part.name.clone(),
                        workers: controller.workers(),
                        metrics: controller.metrics(),
                    })
                });
                shown.collect()
            }),
            share: self.share(),
            lease: Arc::new(move || {
                gate.as_ref().map(|gate| Lease {
                    name: gate.lease().to_owned(),
                    is_leading: gate.term().is_some(),
                })
            }),
        }
    }

    /// Adds the operator's own sources to the metrics.
    #[cfg(feature = "metrics")]
    fn scrape(&self) {
        use crate::telemetry::{controllers, family, informers, process};
        let factory = self.0.factory.clone();
        let add = |source: Arc<dyn family::Source>| self.0.telemetry.add(source);
        add(Arc::new(move || informers::families(&factory)));
        add(Arc::new(process::families));
        let parts = self.0.parts.clone();
        add(Arc::new(move || {
            let parts = parts.all();
            let watched = parts.iter().filter_map(|part| {
                let controller = part.controller()?;
                Some(controllers::Watched {
                    name: part.name.clone(),
                    workers: controller.workers(),
                    metrics: controller.metrics(),
                })
            });
            controllers::families(&watched.collect::<Vec<_>>())
        }));
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator")
            .field("name", &self.0.name)
            .finish_non_exhaustive()
    }
}
