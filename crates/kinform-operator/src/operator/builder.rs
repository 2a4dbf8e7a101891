//! The start of an operator: settings become clients, a factory and a recorder.
//!
//! ```text
//! name + Settings + (kubeconfig | Config | Client) → clients, InformerFactory → Operator
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/manager` (`New`).

use std::sync::{Arc, Mutex, OnceLock};

use kinform::InformerFactory;
use kinform::env::Env;
use kinform::events::EventRecorder;
use kinform::source::{ClientOptions, Transport, client_through, client_with, load_config};
use kube_client::{Client, Config};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::layer::layer_fn;

use super::gate::Gate;
use super::{Inner, Operator};
use crate::error::{Error, ErrorKind};
use crate::leader::{LeaderElection, Leadership, LeaseCandidate, member_id, pod_namespace};
use crate::probes::Probes;
use crate::settings::{Fencing, LeaseSettings, Settings};
use crate::sharding::Member;
#[cfg(feature = "metrics")]
use crate::telemetry::{Telemetry, requests::Requests};

/// An operator to be configured.
#[derive(Debug)]
#[must_use = "an operator does nothing before `run`"]
pub struct OperatorBuilder {
    pub(super) name: String,
    pub(super) settings: Settings,
    pub(super) fencing: Fencing,
    pub(super) candidate: Option<LeaseCandidate>,
}

impl OperatorBuilder {
    /// Sets everything that flags set.
    #[cfg(feature = "clap")]
    pub fn flags(self, flags: &crate::flags::Flags) -> Self {
        self.settings(flags.into())
    }

    /// Replaces the settings. Units and default: [`Settings::default`].
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Fences each write of a leader on the server, too, whatever the settings say: see
    /// [`LeaderElection::hard_fence`]. It needs leader election.
    pub fn hard_fence(mut self) -> Self {
        self.fencing = Fencing::Hard;
        self
    }

    /// Lets the control plane choose the leader among candidates as this one, whatever the settings
    /// say: see [`LeaderElection::coordinated`]. It needs leader election. Off by default; upstream's
    /// components have a feature gate for it, and no flag.
    pub fn coordinated(mut self, candidate: LeaseCandidate) -> Self {
        self.candidate = Some(candidate);
        self
    }

    /// Makes the operator of the kubeconfig in the settings, else of kubectl's, else of the pod's
    /// service account.
    ///
    /// # Errors
    /// No configuration is found, or it cannot be used; or as [`with_config`](Self::with_config).
    ///
    /// # Cancel safety
    /// Dropping it leaves nothing behind.
    pub async fn try_default(self) -> Result<Operator, Error> {
        let config = load_config(&self.settings.connection).await?;
        self.with_config(config)
    }

    /// Makes the operator of a configuration.
    ///
    /// # Errors
    /// The configuration or the settings cannot be used, or there is no tokio runtime.
    pub fn with_config(self, config: Config) -> Result<Operator, Error> {
        let (per_second, burst) = self.settings.request_rate;
        let options = ClientOptions::from_env().with_rate_limit(per_second, burst);
        let connect = Connect::Config(Box::new((config, options)));
        self.make(connect)
    }

    /// Makes the operator of a client: also the lease goes through it. For tests; in production,
    /// [`with_config`](Self::with_config) gives the lease connections and a thread of its own.
    ///
    /// # Errors
    /// The settings cannot be used, or there is no tokio runtime.
    pub fn with_client(self, client: Client) -> Result<Operator, Error> {
        self.make(Connect::Client(client))
    }

    fn make(self, connect: Connect) -> Result<Operator, Error> {
        tokio::runtime::Handle::try_current().map_err(|error| {
            Error::new(ErrorKind::Usage, "an operator needs a tokio runtime").with_cause(error)
        })?;
        let Self {
            name,
            mut settings,
            fencing,
            candidate,
        } = self;
        require(&mut settings, fencing, candidate)?;
        if name.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "an operator needs a name"));
        }
        let election = election(&name, &settings, &connect)?;
        let gate = election.as_ref().map(|(_, place)| Gate::new(place));
        #[cfg(feature = "metrics")]
        let (telemetry, requests) = (Telemetry::default(), Requests::default());
        #[cfg(feature = "metrics")]
        let count = |transport: Transport| Transport::new(requests.counting(transport));
        #[cfg(not(feature = "metrics"))]
        let count = |transport: Transport| transport;
        let client = connect.client(count)?;
        let guard =
            |gate: &Gate| connect.client(|transport| Transport::new(gate.over(count(transport))));
        let guarded = gate.as_ref().map_or_else(|| Ok(client.clone()), guard)?;
        let member = member(&name, &settings, &connect)?;
        let sharded = member.as_ref().map(|member| {
            let gate = Gate::new(&member.place());
            guard(&gate).map(|client| (gate, client))
        });
        let sharded = sharded.transpose()?;
        let factory = factory(&client, &settings);
        let (recorder, delivery) = EventRecorder::new(client.clone(), &name);
        let (probes, leaving) = (Probes::default(), CancellationToken::new());
        #[cfg(feature = "metrics")]
        telemetry.add(Arc::new(requests.clone()));
        let undrained = Arc::default();
        let inner = Inner {
            name,
            connect,
            client,
            guarded,
            gate,
            member,
            sharded,
            lease: Mutex::new(election.map(|(election, _)| election)),
            factory,
            recorder,
            delivery: Mutex::new(Some(delivery)),
            probes,
            #[cfg(feature = "metrics")]
            telemetry,
            parts: super::Parts::new(settings.grace_period, Arc::clone(&undrained)),
            left_at: OnceLock::new(),
            undrained,
            addresses: watch::Sender::new(None),
            #[cfg(feature = "webhook")]
            webhooks: OnceLock::new(),
            leaving,
            elected: CancellationToken::new(),
            settings,
        };
        let operator = Operator(Arc::new(inner));
        #[cfg(feature = "metrics")]
        operator.scrape();
        Ok(operator)
    }
}

/// The informers of the operator.
fn factory(client: &Client, settings: &Settings) -> InformerFactory {
    InformerFactory::builder(client.clone())
        .namespaces(settings.namespaces.iter().cloned())
        .disk_cache(settings.disk_cache.clone())
        .memory_budget(settings.memory_budget)
        .build()
}

/// Adds to the lease's settings what code asked for.
fn require(
    settings: &mut Settings,
    fencing: Fencing,
    candidate: Option<LeaseCandidate>,
) -> Result<(), Error> {
    if fencing == Fencing::Hard {
        elected(settings, "a hard fence")?.fencing = Fencing::Hard;
    }
    if candidate.is_some() {
        elected(settings, "a candidate")?.candidate = candidate;
    }
    Ok(())
}

/// The lease, which `what` needs.
fn elected<'a>(settings: &'a mut Settings, what: &str) -> Result<&'a mut LeaseSettings, Error> {
    settings.leader_election.as_mut().ok_or_else(|| {
        let message = format!("{what} needs leader election: --leader-elect");
        Error::new(ErrorKind::Usage, message)
    })
}

/// The election that the settings ask for, and its lease as `namespace/name`.
fn election(
    name: &str,
    settings: &Settings,
    connect: &Connect,
) -> Result<Option<(LeaderElection, String)>, Error> {
    let Some(lease) = &settings.leader_election else {
        return Ok(None);
    };
    let namespace = match &lease.namespace {
        Some(namespace) => namespace.clone(),
        None => pod_namespace().unwrap_or_else(|_| connect.namespace().to_owned()),
    };
    lease.options.validate()?;
    let name = lease.name.as_deref().unwrap_or(name);
    let place = format!("{namespace}/{name}");
    let mut election = LeaderElection::new(namespace, name).options(lease.options.clone());
    if lease.fencing == Fencing::Hard {
        election = election.hard_fence();
    }
    if let Some(candidate) = &lease.candidate {
        election = election.coordinated(candidate.clone());
    }
    Ok(Some((election, place)))
}

/// The membership that the settings ask for.
fn member(name: &str, settings: &Settings, connect: &Connect) -> Result<Option<Member>, Error> {
    let Some(sharding) = &settings.sharding else {
        return Ok(None);
    };
    let namespace = match &sharding.namespace {
        Some(namespace) => namespace.clone(),
        None => pod_namespace().unwrap_or_else(|_| connect.namespace().to_owned()),
    };
    let id = member_id(&Env::system());
    Member::new(name, sharding.clone(), namespace, id).map(Some)
}

/// The way to the server.
pub(super) enum Connect {
    Config(Box<(Config, ClientOptions)>),
    Client(Client),
}

impl Connect {
    /// A client whose requests pass `wrap` last.
    fn client(&self, wrap: impl Fn(Transport) -> Transport) -> Result<Client, Error> {
        match self {
            Self::Config(parts) => {
                let (config, options) = &**parts;
                Ok(client_with(config.clone(), options, layer_fn(wrap))?)
            }
            Self::Client(client) => Ok(client_through(client, layer_fn(wrap))),
        }
    }

    /// The namespace of the kubeconfig's context, or of the pod.
    fn namespace(&self) -> &str {
        match self {
            Self::Config(parts) => &parts.0.default_namespace,
            Self::Client(client) => client.default_namespace(),
        }
    }

    /// Starts an election, over connections of its own if it can.
    pub(super) fn stand(&self, election: LeaderElection) -> Result<Leadership, Error> {
        match self {
            Self::Config(parts) => election.start(parts.0.clone()),
            Self::Client(client) => election.start_here(client.clone()),
        }
    }
}
