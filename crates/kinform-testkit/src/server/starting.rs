//! The set-up of a test's server, at its start and after a restart.
//!
//! ```text
//! TestServer::start() .crd::<Foo>() .with(|builder| ..) .in_process() .seed(7) ──await──▶ TestServer
//! ```
//!
//! The set-up outlives the start: a restart uses the same one.

use std::fmt::{self, Debug};
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use kinform::source::{ClientOptions, ConfigOverrides, client_for, config_from};
use kinform_apiserver::{Builder, FeatureGates, Server, Stopped, WatchLag};
use kube_client::Client;
use kube_client::config::Kubeconfig;
use kube_core::CustomResourceExt;

use super::{ClientHolder, Reach, TestError, TestServer, failed};
use crate::link::Link;

/// The default maximum lag of watches: as long as a caught-up watch cache usually needs, and long
/// enough for a write's reply to come first.
const LAG: Duration = Duration::from_millis(5);

type Change = Box<dyn Fn(Builder) -> Builder + Send + Sync>;

/// A server that starts when it is awaited.
#[must_use = "a server starts when it is awaited"]
pub struct Starting {
    changes: Vec<Change>,
    definitions: Vec<serde_json::Value>,
    /// Texts of objects.
    manifests: Vec<String>,
    place: Place,
    lag: Option<Duration>,
    seed: u64,
    #[cfg(feature = "controllers")]
    controllers: Option<kinform_controlplane::Selection>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// A port on loopback: a free one, or this.
    Sockets(Option<SocketAddr>),
    InProcess,
}

impl Debug for Starting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Starting")
            .field("definitions", &self.definitions.len())
            .field("manifests", &self.manifests.len())
            .field("place", &self.place)
            .field("lag", &self.lag)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl Default for Starting {
    fn default() -> Self {
        Self {
            changes: Vec::new(),
            definitions: Vec::new(),
            manifests: Vec::new(),
            place: Place::Sockets(None),
            lag: Some(LAG),
            seed: 0,
            #[cfg(feature = "controllers")]
            controllers: None,
        }
    }
}

impl Starting {
    /// Adds the definition of the custom resource `K`.
    pub fn crd<K: CustomResourceExt>(mut self) -> Self {
        let definition = serde_json::to_value(K::crd());
        self.definitions
            .push(definition.expect("a definition is plain data"));
        self
    }

    /// Creates the objects of a text in YAML or JSON at the start, as [`TestServer::load`] does:
    /// definitions of other projects, and whatever else a test needs. Called again, it adds; the
    /// objects of all texts are created in one order.
    ///
    /// `TestServer::start().manifests(include_str!("../deploy/crds.yaml"))`
    pub fn manifests(mut self, manifests: impl Into<String>) -> Self {
        self.manifests.push(manifests.into());
        self
    }

    /// Changes the server's set-up: limits, history, TLS. Called again at a restart.
    pub fn with(mut self, change: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Sets the features of the server that are on, such as
    /// [`FeatureGate::ShardedListAndWatch`](crate::FeatureGate).
    pub fn feature_gates(self, gates: impl Into<FeatureGates>) -> Self {
        let gates = gates.into();
        self.with(move |builder| builder.feature_gates(gates))
    }

    /// Uses no sockets: clients reach the server by a function call, through a [`Link`]. Everything
    /// works under paused time, where a test of hours takes milliseconds and its order is a
    /// function of the seed. The operator then runs in the test's runtime: [`TestServer::run`].
    pub fn in_process(mut self) -> Self {
        self.place = Place::InProcess;
        self
    }

    /// The seed from which the lag of watches and the splits of bodies in process are drawn; 0 by
    /// default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The maximum lag of watches; 5 ms by default.
    pub fn lag(mut self, most: Duration) -> Self {
        self.lag = Some(most);
        self
    }

    /// Lets watches report changes immediately. A cache is then often as fresh as the server, which
    /// it is not on a cluster: an operator that reads its own writes from a cache passes its tests,
    /// and fails on a cluster.
    pub fn without_lag(mut self) -> Self {
        self.lag = None;
        self
    }

    /// Runs the built-in controllers, too: a Deployment gets pods, and they become ready.
    #[cfg(feature = "controllers")]
    pub fn with_controllers(self) -> Self {
        self.with_selected_controllers(kinform_controlplane::Selection::all())
    }

    /// Runs some of the built-in controllers, so that the test plays the others.
    #[cfg(feature = "controllers")]
    pub fn with_selected_controllers(mut self, selection: kinform_controlplane::Selection) -> Self {
        self.controllers = Some(selection);
        self
    }

    /// Starts the controllers that were asked for.
    #[cfg(feature = "controllers")]
    pub(super) async fn controllers(
        &self,
        server: &Server,
    ) -> Result<Option<kinform_controlplane::Running>, TestError> {
        let Some(selection) = &self.controllers else {
            return Ok(None);
        };
        let started = super::controllers::start(server, selection).await?;
        Ok(Some(started))
    }

    /// Makes the server, empty or from the state that another left.
    pub(super) async fn server(&self, state: Option<Stopped>) -> Result<Server, TestError> {
        let mut builder = Server::builder().plain();
        if let Some(lag) = self.lag {
            builder = builder.watch_lag(WatchLag::up_to(lag, self.seed));
        }
        #[cfg(feature = "controllers")]
        if let Some(selection) = &self.controllers {
            builder = super::controllers::furnish(builder, selection);
        }
        for change in &self.changes {
            builder = change(builder);
        }
        if let Some(state) = state {
            builder = builder.state(state);
        }
        match self.place {
            Place::InProcess => Ok(builder.in_process()),
            Place::Sockets(address) => {
                let builder = address.into_iter().fold(builder, Builder::listen);
                let started = builder.start().await;
                started.map_err(|error| failed("start a server", &error))
            }
        }
    }

    /// The way to the server, and a client.
    async fn reach(&self, server: &Server) -> Result<(Reach, Client), TestError> {
        if let Place::InProcess = self.place {
            let link = Link::new(server.service(), self.seed);
            let client = link.client();
            return Ok((Reach::InProcess(link), client));
        }
        let failed = |error: &dyn fmt::Display| failed("make a client", error);
        let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).map_err(|e| failed(&e))?;
        let config = config_from(&kubeconfig, &ConfigOverrides::default()).await;
        let config = config.map_err(|error| failed(&error))?;
        // A test's own writes are not what is limited.
        let options = ClientOptions::default().with_rate_limit(0, 0);
        let client = client_for(config.clone(), &options);
        let client = client.map_err(|error| failed(&error))?;
        Ok((Reach::Sockets(Box::new(config)), client))
    }
}

impl IntoFuture for Starting {
    type Output = Result<TestServer, TestError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let server = self.server(None).await?;
            if let (Place::Sockets(_), Some(address)) = (self.place, server.address()) {
                // A restarted server keeps the address of this one.
                self.place = Place::Sockets(Some(address));
            }
            let (reach, client) = self.reach(&server).await?;
            let definitions = std::mem::take(&mut self.definitions);
            let manifests = std::mem::take(&mut self.manifests);
            #[cfg(feature = "controllers")]
            let controllers = self.controllers(&server).await?;
            let started = TestServer {
                #[cfg(feature = "controllers")]
                controllers,
                server,
                reach,
                client: ClientHolder(client),
                setup: self,
            };
            for definition in &definitions {
                started.install(definition).await?;
            }
            started.load_all(&manifests).await?;
            Ok(started)
        })
    }
}
