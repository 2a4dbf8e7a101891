//! The settings of an election, and its start.
//!
//! ```text
//! LeaderElection ──validate──▶ clients, Election ──start──▶ thread with a runtime of its own
//!                                              └──start_here──▶ task of this runtime (tests)
//! ```
//!
//! Upstream counterpart: `LeaderElectionConfig` in `client-go:tools/leaderelection/leaderelection.go`.

use std::sync::Arc;
use std::time::Duration;

use kinform::env::Env;
use kinform::source::{ClientOptions, client_for};
use kinform_api::names::{
    dns_label_errors, dns_subdomain_errors, label_key_errors, label_value_errors,
};
use kinform_core::election::{Election, LeaseOptions};
use kube_client::{Client, Config};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

use super::candidacy::Candidacy;
use super::clock::Clock;
use super::driver::{Driver, Finish};
use super::identity::{default_identity, pod_namespace};
use super::leadership::Leadership;
use super::lease_client::{LeaseClient, Place};
use super::object::{Labels, Stored};
use super::orders::Orders;
use super::shared::Shared;
use super::watch::{ObjectWatch, Watched};
use crate::candidate::LeaseCandidate;
use crate::error::{Error, ErrorKind};
use crate::settings::Fencing;

/// The settings of an election for one lease.
///
/// ```no_run
/// # fn start(config: kube_client::Config) -> Result<(), kinform_operator::Error> {
/// use kinform_operator::leader::{LeaderElection, LeaseOptions};
/// let leadership = LeaderElection::new("operators", "foo-operator")
///     .options(LeaseOptions::quick())
///     .start(config)?;
/// # drop(leadership);
/// # Ok(())
/// # }
/// ```
///
/// Upstream: `LeaderElectionConfig`.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    place: Place,
    identity: Option<String>,
    options: LeaseOptions,
    labels: Labels,
    fencing: Fencing,
    candidate: Option<LeaseCandidate>,
}

impl LeaderElection {
    /// An election for the lease `name` in `namespace`, which replicas of one operator have in
    /// common, and no other operator has.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            place: Place {
                namespace: namespace.into(),
                name: name.into(),
            },
            identity: None,
            options: LeaseOptions::default(),
            labels: Labels::new(),
            fencing: Fencing::Guard,
            candidate: None,
        }
    }

    /// An election for the lease `name` in the namespace of this pod.
    ///
    /// # Errors
    /// As of [`pod_namespace`].
    pub fn in_pod(name: impl Into<String>) -> Result<Self, Error> {
        Ok(Self::new(pod_namespace()?, name))
    }

    /// The identity of this process in the lease. It must be unique; by default it is the host's name
    /// and a random part.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// The timings. Default: [`LeaseOptions::default`].
    #[must_use]
    pub fn options(mut self, options: LeaseOptions) -> Self {
        self.options = options;
        self
    }

    /// A label that each write of this process sets on the lease. Labels of others stay.
    ///
    /// Upstream: `LeaseLock.Labels`.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Fences each write of a term on the server, too: also that of a process that was frozen between
    /// the guard's look and the first byte. Each write through a guarded client carries its term in
    /// the annotation [`TERM_ANNOTATION`](super::TERM_ANNOTATION), and the policy that
    /// [`FencePolicy`](super::FencePolicy) makes compares it with the lease. Off by default.
    ///
    /// A delete, a JSON patch, and the first status of an object in a term cost a request more: the
    /// object is stamped first, for which the right to patch it is needed. Collections are deleted
    /// one object at a time. Without the policy on the server nothing is refused.
    ///
    /// Upstream has no counterpart.
    #[must_use]
    pub fn hard_fence(mut self) -> Self {
        self.fencing = Fencing::Hard;
        self
    }

    /// Lets the control plane choose the holder: coordinated leader election, beta in Kubernetes 1.37
    /// and off by default. This process makes a `LeaseCandidate` with its identity as the name, renews
    /// it every 5 minutes and when it is pinged, makes it again if it is deleted, and deletes it at
    /// [`Leadership::stop`]. The lease is never created here, and taken only while it names this
    /// process. Off by default: processes take the lease themselves.
    ///
    /// Once `spec.preferredHolder` names another one, the term is over with
    /// [`EndReason::Preferred`](super::EndReason::Preferred). The lease is released as soon as
    /// [`Leadership::idle`] was called and the request timeout and the margin have passed: 3 s by
    /// default.
    ///
    /// All replicas must be coordinated alike. The account needs create, get, update, watch
    /// and delete on `leasecandidates`, too. The server needs the feature gate
    /// `CoordinatedLeaderElection` and `--runtime-config=coordination.k8s.io/v1beta1=true`. Where
    /// either is missing, the log has one line about it, and requests are tried again.
    ///
    /// The control plane compares `renewTime` with its own time of day: the clocks of both must differ
    /// by less than the margin, or the writes need [`hard_fence`](Self::hard_fence).
    ///
    /// Upstream: `LeaderElectionConfig.Coordinated` and `NewCandidate`, which leaves its object to a
    /// garbage collector.
    #[must_use]
    pub fn coordinated(mut self, candidate: LeaseCandidate) -> Self {
        self.candidate = Some(candidate);
        self
    }

    /// Starts the election, on a thread and over connections of its own.
    ///
    /// It goes on until [`Leadership::stop`], or until the last handle is dropped. It needs the
    /// rights to get, create and update leases in the namespace; with the right to watch them, it
    /// hears of a release at once.
    ///
    /// # Errors
    /// The options, the names or the identity are not valid, `config` cannot be used, or the system
    /// has no thread left. Nothing was started then.
    pub fn start(self, config: Config) -> Result<Leadership, Error> {
        let env = Env::system();
        let (election, identity) = self.election(&env)?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            // BOUND: lookups of host names, and files of credentials.
            .max_blocking_threads(4)
            .thread_name("kinform-lease-io")
            .build();
        let runtime = Own(Some(runtime.map_err(no_thread)?));
        let client = {
            let _inside = runtime.enter();
            client_for(config, &self.client_options())?
        };
        let (driver, leadership) = self.assemble(election, identity, client, Clock::System, env);
        let thread = std::thread::Builder::new().name("kinform-lease".to_owned());
        let started = thread.spawn(move || runtime.block_on(driver.run()));
        started.map_err(no_thread)?;
        Ok(leadership)
    }

    /// Starts the election as a task of this runtime, over this client: for tests, also in paused
    /// time. In production, blocked workers of the runtime, or a full connection, would then end a
    /// term.
    ///
    /// # Errors
    /// The options, the names or the identity are not valid, or there is no runtime.
    pub fn start_here(self, client: Client) -> Result<Leadership, Error> {
        let env = Env::system();
        let (election, identity) = self.election(&env)?;
        let runtime = Handle::try_current().map_err(|error| {
            Error::new(ErrorKind::Usage, "this needs a tokio runtime").with_cause(error)
        })?;
        let (driver, leadership) = self.assemble(election, identity, client, Clock::runtime(), env);
        // Its owner is the handle: without one it ends.
        drop(runtime.spawn(driver.run()));
        Ok(leadership)
    }

    /// The machine, and the identity that it stands under.
    fn election(&self, env: &Env) -> Result<(Election, String), Error> {
        let Place { namespace, name } = &self.place;
        let label = |(key, value): (&String, &String)| {
            check("label", key, label_key_errors(key))?;
            check("label", value, label_value_errors(value))
        };
        check("namespace", namespace, dns_label_errors(namespace))?;
        check("lease name", name, dns_subdomain_errors(name))?;
        self.labels.iter().try_for_each(label)?;
        let identity = self.identity.clone();
        let identity = identity.unwrap_or_else(|| default_identity(env));
        let mut election = Election::new(identity.clone(), self.options.clone(), env.seed())?;
        if let Some(candidate) = &self.candidate {
            let valid = candidate.validate(&identity);
            valid.map_err(|why| Error::new(ErrorKind::Usage, why))?;
            election = election.coordinated();
        }
        Ok((election, identity))
    }

    /// Connections that are given up as soon as a request is: over HTTP/1.1, a dead one is not used
    /// again.
    fn client_options(&self) -> ClientOptions {
        ClientOptions::default()
            .without_http2()
            .with_rate_limit(0, 0)
            .with_connect_timeout(self.options.request_timeout)
            .with_request_timeout(self.options.request_timeout)
            .with_dead_peer_after(self.options.lease_duration.max(LEAST_DEAD_PEER))
    }

    fn assemble(
        self,
        election: Election,
        identity: String,
        client: Client,
        clock: Clock,
        env: Env,
    ) -> (Driver, Leadership) {
        let Place { namespace, name } = &self.place;
        let lease = format!("{namespace}/{name}");
        let (orders, heard) = watch::channel(Orders::default());
        let request_timeout = self.options.request_timeout;
        let watched = Watched {
            collection: self.place.collection(),
            name: name.clone(),
            read: Stored::read,
            needs: None,
        };
        let watch = ObjectWatch::new(
            client.clone(),
            watched,
            clock,
            request_timeout,
            self.options.lease_duration,
        );
        let candidacy = self.candidate.map(|candidate| {
            let (client, orders, env) = (client.clone(), heard.clone(), env.clone());
            let place = (&self.place, &*identity);
            Candidacy::new(
                candidate,
                place,
                client,
                orders,
                clock,
                request_timeout,
                env,
            )
        });
        let shared = Arc::new(Shared::new(lease, identity, clock));
        let driver = Driver {
            election,
            lease: LeaseClient::new(client, self.place, self.labels),
            watch,
            candidacy,
            shared: Arc::clone(&shared),
            orders: heard,
            clock,
            env,
            finish: Finish(Arc::clone(&shared)),
        };
        let leadership = Leadership::new(shared, orders, request_timeout, self.fencing);
        (driver, leadership)
    }
}

/// BOUND: keepalive of the kernel counts in whole seconds.
const LEAST_DEAD_PEER: Duration = Duration::from_secs(6);

/// A runtime that may be dropped anywhere, also inside of another one.
struct Own(Option<Runtime>);

impl std::ops::Deref for Own {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("it is taken only as it is dropped")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("no thread for leader election: {error}"),
    )
    .with_cause(error)
}

fn check(what: &str, text: &str, errors: Vec<String>) -> Result<(), Error> {
    if errors.is_empty() {
        return Ok(());
    }
    let why = errors.join("; ");
    Err(Error::new(
        ErrorKind::Usage,
        format!("the {what} {text:?} is not valid: {why}"),
    ))
}
