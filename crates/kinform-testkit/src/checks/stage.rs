//! The stage of a round: a server, a network before it, and ways around the network.
//!
//! ```text
//! informer → network (Link | Proxy) → server ← direct client ← Writer
//! ```
//!
//! [`Embedded`] is the embedded server, in process or behind a proxy over sockets. It can be taken
//! away and brought back with all its state, without its history, or empty. A test of another
//! server implements [`Stage`] for it.

use std::time::Duration;

use futures::future::BoxFuture;
use kinform_apiserver::{Builder, Server};
use kube_client::Client;
use kube_client::config::{AuthInfo, Config};

use crate::control::Network;
use crate::link::Link;
use crate::proxy::Proxy;
use crate::server::Loss;

/// BOUND: events that servers on a stage remember, so that outages outlast them.
pub const HISTORY: usize = 200;

/// The failure of a stage; the round then states nothing about informers.
pub type StageError = Box<dyn std::error::Error + Send + Sync>;

/// A server with a network before it.
pub trait Stage: Send {
    /// The network between informers and the server.
    fn network(&self) -> &dyn Network;

    /// A client that goes around the network; to be requested again after a restart.
    ///
    /// # Errors
    /// It cannot be made.
    fn direct(&self) -> Result<Client, StageError>;

    /// The server, if its faults and history can be commanded.
    fn embedded(&self) -> Option<&Server> {
        None
    }

    /// The number of events that the server remembers, if its history expires by writes.
    fn history(&self) -> Option<usize> {
        None
    }

    /// Stops the server and starts it again at the same place.
    ///
    /// # Errors
    /// It does not come back.
    ///
    /// Cancel safety: the server may be gone.
    fn restart(&mut self, loss: Loss) -> BoxFuture<'_, Result<(), StageError>>;
}

/// The embedded server on a stage.
#[derive(Debug)]
pub struct Embedded {
    // Gone only while it restarts, or if it did not come back.
    server: Option<Server>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    InProcess { link: Link, seed: u64 },
    Sockets(Proxy),
}

/// Servers on a stage are those of tests, but for the history.
fn builder() -> Builder {
    Server::builder().plain().history(HISTORY)
}

impl Embedded {
    /// A server in process; `seed` decides where replies are split on their way.
    pub fn in_process(seed: u64) -> Self {
        let server = builder().in_process();
        let link = Link::new(server.service(), seed);
        Self {
            server: Some(server),
            way: Way::InProcess { link, seed },
        }
    }

    /// A server over plain HTTP on loopback, behind a proxy, with a bookmark each `bookmark_period`.
    ///
    /// # Errors
    /// No port can be had.
    ///
    /// Cancel safety: nothing is left behind.
    pub async fn over_sockets(bookmark_period: Duration) -> Result<Self, StageError> {
        let server = builder().bookmark_period(bookmark_period).start().await?;
        let address = server.address().ok_or("the server has no address")?;
        let proxy = Proxy::start(address).await?;
        Ok(Self {
            server: Some(server),
            way: Way::Sockets(proxy),
        })
    }

    fn server(&self) -> Result<&Server, StageError> {
        self.server
            .as_ref()
            .ok_or_else(|| "the server is gone".into())
    }

    /// A client through the network.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn client(&self) -> Result<Client, StageError> {
        match &self.way {
            Way::InProcess { link, .. } => Ok(link.client()),
            Way::Sockets(_) => Ok(kinform::source::client_for(
                self.config()?,
                &kinform::source::ClientOptions::default().with_rate_limit(0, 0),
            )?),
        }
    }

    /// The configuration of a client that goes through the network; over sockets only.
    ///
    /// # Errors
    /// The server is gone, or in process.
    pub fn config(&self) -> Result<Config, StageError> {
        let Way::Sockets(proxy) = &self.way else {
            return Err("a server in process has no address".into());
        };
        let url = format!("http://{}", proxy.address());
        config(&url, self.server()?.token())
    }
}

fn config(url: &str, token: &str) -> Result<Config, StageError> {
    let mut config = Config::new(url.parse()?);
    config.auth_info = serde_json::from_value::<AuthInfo>(serde_json::json!({ "token": token }))?;
    Ok(config)
}

impl Stage for Embedded {
    fn network(&self) -> &dyn Network {
        match &self.way {
            Way::InProcess { link, .. } => link,
            Way::Sockets(proxy) => proxy,
        }
    }

    fn direct(&self) -> Result<Client, StageError> {
        let server = self.server()?;
        match &self.way {
            Way::InProcess { seed, .. } => Ok(Link::new(server.service(), *seed).client()),
            Way::Sockets(_) => Ok(Client::try_from(config(&server.url(), server.token())?)?),
        }
    }

    fn embedded(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    fn restart(&mut self, loss: Loss) -> BoxFuture<'_, Result<(), StageError>> {
        Box::pin(async move {
            let server = self.server.take().ok_or("the server is gone")?;
            let address = server.address();
            if let Way::InProcess { link, .. } = &self.way {
                link.disconnect();
            }
            let state = server.stop().await;
            let state = match loss {
                Loss::Nothing => state,
                Loss::History => state.without_history(),
                Loss::Everything => state.without_objects(),
            };
            let builder = builder().state(state);
            let server = match (&self.way, address) {
                (Way::Sockets(_), Some(address)) => builder.listen(address).start().await?,
                (Way::InProcess { link, .. }, _) => {
                    let server = builder.in_process();
                    link.connect(server.service());
                    server
                }
                (Way::Sockets(_), None) => return Err("the server had no address".into()),
            };
            self.server = Some(server);
            Ok(())
        })
    }
}
