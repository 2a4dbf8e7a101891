//! Builder of a server.
//!
//! ```text
//! Server::builder().plain().history(200).start().await ──▶ Server
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[cfg(feature = "disk")]
use super::data_dir::DataDir;
use super::identity::{Authority, Identity, Tls};
use super::{Error, Server, Stopped, listen};
use crate::access::{Access, Rights, TokenFileError, Tokens, User, rbac};
use crate::clock::Clock;
use crate::controllers::account;
use crate::controllers::addresses;
use crate::controllers::asked;
use crate::controllers::garbage;
use crate::controllers::initial::{self, Place};
use crate::controllers::{event_ttl, resume};
use crate::fault::{Faults, WatchLag};
use crate::hooks::Hooks;
use crate::journal::{Journal, Listener, Record};
use crate::kubelets::Kubelets;
use crate::resource::Registry;
use crate::state::derived::Derived;
use crate::state::documents::Documents;
use crate::state::event_ttl::EventTtl;
use crate::state::feature_gates::FeatureGates;
use crate::state::mirrors::Mirrors;
use crate::state::owner_graph::OwnerGraph;
use crate::state::plugins::AdmissionPlugins;
use crate::state::pod_logs::PodLogs;
use crate::state::quota_counts::QuotaCounts;
use crate::state::shares::Shares;
use crate::state::wanted_deletes::WantedDeletes;
use crate::state::{Limits, State};
use crate::storage::committer::Begun;
use crate::storage::{HistoryLimits, Store, committer};

/// A server before it starts.
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    listen: SocketAddr,
    transport: Transport,
    history: HistoryLimits,
    limits: Limits,
    lag: Option<WatchLag>,
    start: Option<Timestamp>,
    listener: Option<Listener>,
    has_admin_path: bool,
    state: Option<Stopped>,
    data_dir: Option<Stopped>,
    rights: Rights,
    tokens: Tokens,
    collects_garbage: bool,
    keeps_inert: bool,
    has_kubelets: bool,
    kubelets: Option<Kubelets>,
    has_namespace_content: bool,
    has_lease_candidates: bool,
    names: Vec<String>,
    hooks: Hooks,
    plugins: AdmissionPlugins,
    gates: FeatureGates,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("listen", &self.listen)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Plain,
    Tls,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            transport: Transport::Tls,
            history: HistoryLimits::default(),
            limits: Limits::default(),
            lag: None,
            start: None,
            listener: None,
            has_admin_path: false,
            state: None,
            data_dir: None,
            rights: Rights::default(),
            tokens: Tokens::default(),
            collects_garbage: true,
            keeps_inert: false,
            has_kubelets: false,
            kubelets: None,
            has_namespace_content: false,
            has_lease_candidates: false,
            names: Vec::new(),
            hooks: Hooks::default(),
            plugins: AdmissionPlugins::default(),
            gates: FeatureGates::default(),
        }
    }
}

impl Builder {
    /// Sets the address to listen on; default: a free port on loopback.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// HTTPS with a certificate made at start. This is the default.
    pub fn tls(mut self) -> Self {
        self.transport = Transport::Tls;
        self
    }

    /// Plain HTTP, which is only served on loopback.
    pub fn plain(mut self) -> Self {
        self.transport = Transport::Plain;
        self
    }

    /// Sets the number of events kept over all resources; default: 100,000.
    pub fn history(mut self, events: usize) -> Self {
        self.history.events = events;
        self
    }

    /// Sets the maximum of bytes of superseded versions; default: 256 MiB.
    pub fn history_bytes(mut self, bytes: usize) -> Self {
        self.history.bytes = bytes;
        self
    }

    /// Sets the period of bookmarks for watches that allow them; default: 60 s.
    pub fn bookmark_period(mut self, period: Duration) -> Self {
        self.limits.bookmark_period = Some(period);
        self
    }

    /// Disables periodic bookmarks, as for resources without a watch cache.
    pub fn without_bookmarks(mut self) -> Self {
        self.limits.bookmark_period = None;
        self
    }

    /// Sets the number of events that a live watch may be behind before it is cut; default: 10,000.
    pub fn watch_backlog(mut self, events: usize) -> Self {
        self.limits.watch_backlog = events.max(1);
        self
    }

    /// Delays watches a little, so that reads through caches may be stale as on a real cluster.
    pub fn watch_lag(mut self, lag: WatchLag) -> Self {
        self.lag = Some(lag);
        self
    }

    /// Sets the time at which a server in process starts; default: the system's time. A server
    /// behind sockets follows the system's time, whatever is set here.
    pub fn start_time(mut self, start: Timestamp) -> Self {
        self.start = Some(start);
        self
    }

    /// Also serves `/__kinform/`, where the holder of the token can inject faults and read the
    /// journal.
    pub fn admin_path(mut self) -> Self {
        self.has_admin_path = true;
        self
    }

    /// Calls this function with the record of each request when it has ended. The call is made
    /// where the request was served, so it should return quickly.
    pub fn on_record(mut self, listener: impl Fn(&Record) + Send + Sync + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Continues with the state of another server, its token and its certificate. The limits of the
    /// history are then those of that server.
    pub fn state(mut self, state: Stopped) -> Self {
        self.state = Some(state);
        self
    }

    /// Continues with the state of a folder, and keeps it there: a write is acknowledged, and seen
    /// by readers and watches, when it is on disk. The history has this builder's limits.
    ///
    /// A state that is given, too ([`Self::state`]), wins: the folder is then not used.
    #[cfg(feature = "disk")]
    pub fn data_dir(mut self, folder: DataDir) -> Self {
        self.data_dir = Some(Stopped {
            store: folder.store,
            registry: folder.registry,
            identity: folder.identity,
        });
        self
    }

    /// Enables authorization by the stored roles and bindings, beginning with those that every
    /// cluster has. Without this, every authenticated
    /// user may do everything.
    pub fn rbac(mut self) -> Self {
        self.rights = Rights::Rbac;
        self
    }

    /// Disables garbage collection: dependents of deleted objects, and finalizers for a collector,
    /// stay as they do for an API server without its controllers.
    pub fn without_garbage_collection(mut self) -> Self {
        self.collects_garbage = false;
        self
    }

    /// Stores aggregated API services, although this server never passes a request on to them. Without
    /// this, they are refused (501).
    pub fn keep_inert_objects(mut self) -> Self {
        self.keeps_inert = true;
        self
    }

    /// Sets the compiled-in admission plugins; by default all are on, `ServiceAccount` only
    /// [with the content of namespaces](Self::with_namespace_content).
    pub fn admission(mut self, plugins: AdmissionPlugins) -> Self {
        self.plugins = plugins;
        self
    }

    /// Sets the features that are on: one [`FeatureGate`](crate::FeatureGate), or several; by default
    /// those of a real server, where all of these are off.
    pub fn feature_gates(mut self, gates: impl Into<FeatureGates>) -> Self {
        self.gates = gates.into();
        self
    }

    /// Sets the address at which webhooks of a service (`namespace`, `name`) are called, instead of
    /// its cluster address. Its certificate must be for `NAME.NAMESPACE.svc`, as on a cluster.
    pub fn service_address(mut self, namespace: &str, name: &str, address: SocketAddr) -> Self {
        let service = format!("{namespace}/{name}");
        self.hooks.services.insert(service, address);
        self
    }

    /// Calls webhooks at any address. Without this, only loopback is called, so that no manifest
    /// makes a test server call into a network.
    pub fn webhooks_anywhere(mut self) -> Self {
        self.hooks.anywhere = true;
        self
    }

    /// Leaves the end of deleted pods to a kubelet: a pod on a node is terminating until that deletes
    /// it without a grace period. Without this, a deleted pod is gone at once.
    pub fn with_kubelets(mut self) -> Self {
        self.has_kubelets = true;
        self
    }

    /// Passes logs, `exec`, `attach` and `portforward` on to the kubelet of the pod's node: by HTTPS, to
    /// the addresses and the port that the Node object states. Its certificate is not verified, as by
    /// an upstream server without `--kubelet-certificate-authority`, and no credential is sent.
    ///
    /// Without this, no manifest makes the server call into a network: these requests are refused
    /// (501), and logs are those of [`Server::pod_logs`], which also win over a kubelet's.
    pub fn call_kubelets(mut self) -> Self {
        self.kubelets = Some(Kubelets::default());
        self
    }

    /// Gives each namespace the content that it has in every cluster: ServiceAccount `default` and
    /// ConfigMap `kube-root-ca.crt`, which is empty for plain HTTP. Secrets for tokens of accounts are
    /// filled in, and the admission plugin `ServiceAccount` is on. Quotas are counted.
    pub fn with_namespace_content(mut self) -> Self {
        self.has_namespace_content = true;
        self
    }

    /// Serves `coordination.k8s.io/v1beta1` with its LeaseCandidates, as a real server does with
    /// `--runtime-config=coordination.k8s.io/v1beta1=true`. Nothing here chooses among them.
    pub fn with_lease_candidates(mut self) -> Self {
        self.has_lease_candidates = true;
        self
    }

    /// Adds a name under which the server is reached; its certificate contains the name, too.
    /// Requests for any host other than this server's addresses and names are refused.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Sets the number of simultaneous watches; default: 100,000. Further ones are refused with
    /// 429.
    pub fn watches(mut self, most: usize) -> Self {
        self.limits.watches = most.min(Semaphore::MAX_PERMITS);
        self
    }

    /// Accepts a user by a bearer token.
    pub fn user(mut self, token: impl Into<String>, user: User) -> Self {
        self.tokens.add(token.into(), user);
        self
    }

    /// Accepts the users of a token file: lines of `token,user,uid,"group1,group2"`.
    ///
    /// # Errors
    /// A line does not parse.
    pub fn token_file(mut self, text: &str) -> Result<Self, TokenFileError> {
        self.tokens.add_file(text)?;
        Ok(self)
    }

    /// A server without sockets, reached by [`Server::service`].
    ///
    /// # Panics
    /// It has a folder, and no tokio runtime.
    pub fn in_process(self) -> Server {
        let identity = self
            .stopped()
            .map_or_else(|| Identity::new(None), |state| state.identity.clone());
        self.assemble(identity, None)
    }

    /// Returns the state to continue with.
    fn stopped(&self) -> Option<&Stopped> {
        self.state.as_ref().or(self.data_dir.as_ref())
    }

    /// Listens and serves, until the server is stopped or dropped.
    ///
    /// # Errors
    /// The address is taken, plain HTTP was asked for outside of loopback, or no certificate could
    /// be made.
    ///
    /// # Cancel safety
    /// No task or socket is left when dropped.
    pub async fn start(self) -> Result<Server, Error> {
        if self.transport == Transport::Plain && !self.listen.ip().is_loopback() {
            return Err(Error::plain_outside_of_loopback(self.listen));
        }
        let kept = self.stopped().map(|state| state.identity.clone());
        let identity = match (self.transport, kept) {
            (Transport::Tls, Some(identity)) if identity.tls.is_some() => identity,
            (Transport::Tls, kept) => {
                let authority = kept.as_ref().and_then(|kept| kept.authority.clone());
                let authority = authority.map_or_else(Authority::generate, Ok)?;
                let tls = Some(Tls::generate(authority, self.listen.ip(), &self.names)?);
                kept.map_or_else(
                    || Identity::new(tls.clone()),
                    |kept| Identity {
                        tls: tls.clone(),
                        ..kept
                    },
                )
            }
            (Transport::Plain, Some(kept)) => Identity { tls: None, ..kept },
            (Transport::Plain, None) => Identity::new(None),
        };
        let listener = TcpListener::bind(self.listen)
            .await
            .map_err(|error| Error::listen(self.listen, error))?;
        let address = listener
            .local_addr()
            .map_err(|error| Error::listen(self.listen, error))?;
        let server = self.assemble(identity, Some(address));
        let written = server.written().await;
        written.map_err(|lost| Error::not_on_disk(lost.0))?;
        server.tasks.spawn(event_ttl::run(server.state.clone()));
        // What an earlier process left open.
        asked::begin(&server.state);
        server.tasks.spawn(listen::accept(
            listener,
            server.state.clone(),
            server.identity.clone(),
            server.tasks.clone(),
        ));
        Ok(server)
    }

    fn assemble(self, identity: Identity, address: Option<SocketAddr>) -> Server {
        let clock = match address {
            Some(_) => Clock::wall(),
            None => Clock::in_process(self.start),
        };
        if let Some(folder) = &self.data_dir {
            folder.store.set_limits(self.history);
        }
        let opened = self.state.or(self.data_dir);
        let (store, registry) = stored(opened, self.history);
        let place = Place {
            now: clock.now(),
            address: address.map(super::reachable),
            authority: identity.tls.as_ref().map(|tls| &*tls.authority.pem),
        };
        if self.has_lease_candidates {
            registry.serve_lease_candidates(&store);
        }
        let begun = store.begin();
        lay_initial(&store, &registry, (&place, self.rights));
        let faults = Faults::default();
        faults.delay_watches(self.lag);
        let mut tokens = self.tokens;
        tokens.add(identity.token.clone(), User::admin());
        let access = Access {
            tokens,
            rights: self.rights,
            signer: identity.signer.clone(),
            clock,
        };
        let pem = |tls: &Tls| tls.authority.pem.to_string();
        let authority = identity.tls.as_ref().map(pem);
        let state = Arc::new(State {
            owners: self.collects_garbage.then(OwnerGraph::default),
            keeps_inert: self.keeps_inert,
            has_kubelets: self.has_kubelets,
            kubelets: self.kubelets,
            namespace_authority: self
                .has_namespace_content
                .then(|| authority.unwrap_or_default()),
            names: self.names,
            watches: Arc::new(Semaphore::new(self.limits.watches)),
            shares: Shares::default(),
            store,
            registry,
            faults,
            journal: Arc::new(Journal::heard_by(self.listener)),
            metrics: Arc::default(),
            access,
            logs: PodLogs::new(clock),
            event_ttl: EventTtl::default(),
            quota_counts: QuotaCounts::default(),
            wanted_deletes: WantedDeletes::default(),
            clock,
            hooks: self.hooks,
            plugins: match self.has_namespace_content {
                true => self.plugins.with_namespace_content(),
                false => self.plugins,
            },
            gates: self.gates,
            mirrors: Mirrors::default(),
            webhooks: Derived::default(),
            policies: Derived::default(),
            limits: self.limits,
            openapi: Documents::default(),
            stopping: CancellationToken::new(),
            has_admin_path: self.has_admin_path,
        });
        started(state, identity, address, begun)
    }
}

/// Applies the effects that are open in the state, and starts to commit if it has a folder.
fn started(
    state: Arc<State>,
    identity: Identity,
    address: Option<SocketAddr>,
    begun: Begun,
) -> Server {
    let weak = Arc::downgrade(&state);
    state.wanted_deletes.started_by(move || {
        if let Some(state) = weak.upgrade() {
            asked::begin(&state);
        }
    });
    event_ttl::adopt(&state);
    let (closing, committing) = (CancellationToken::new(), TaskTracker::new());
    if state.store.has_disk() {
        resume::resume(&state);
        committing.spawn(committer::run(state.store.clone(), closing.clone()));
    } else {
        garbage::adopt(&state);
    }
    account::furnish_all(&state);
    addresses::adopt(&state);
    Server {
        state,
        identity,
        address,
        tasks: TaskTracker::new(),
        closing,
        committing,
        reported: Mutex::new(begun),
    }
}

/// The store to continue with, or an empty one, with the built-in resources.
fn stored(opened: Option<Stopped>, history: HistoryLimits) -> (Arc<Store>, Arc<Registry>) {
    if let Some(state) = opened {
        return (state.store, state.registry);
    }
    let store = Arc::new(Store::new(history));
    let registry = Arc::new(Registry::built_in(&store));
    (store, registry)
}

/// Stores what every cluster has from its start, with its roles if they decide.
fn lay_initial(store: &Arc<Store>, registry: &Registry, (place, rights): (&Place<'_>, Rights)) {
    initial::found(store, registry, place);
    if rights == Rights::Rbac {
        initial::found_roles(store, registry, place.now);
        rbac::aggregation::aggregate(store);
    }
}
