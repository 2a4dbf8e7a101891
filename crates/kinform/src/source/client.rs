//! Makes clients fit for watches that live for months.
//!
//! ```text
//! kube_client::Config → TCP keepalive + user timeout → TLS → credentials → kube_client::Client
//! ```
//!
//! Differs from `kube_client::Client::try_from` in five points:
//!
//! - The kernel notices a vanished peer within 30 s, without a request to the server (idle: keepalive
//!   probes; waiting for a reply: user timeout).
//! - Only the reflector retries: kube's own layer retries 429, 503 and 504 up to 15 times and so hides
//!   them for minutes.
//! - Credentials that a server refuses are loaded anew from the configuration, see `credentials`.
//! - A connection reads 256 KB at most: an idle watch keeps the buffer that its list made grow, 400 KB
//!   by hyper's default.
//! - The reader of a reply drives its connection, see `driver`.
//!
//! Needs this crate's feature `rustls-tls` for `https`; with kube's other TLS features, or a proxy in
//! the configuration, the client is kube's own, and only the second point holds.
//!
//! Upstream counterpart: `client-go:rest/transport.go`, `apimachinery:pkg/util/net/http.go`
//! (`configureHTTP2Transport`: ping after 30 s idle, 15 s to answer).

use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder as PoolBuilder, Client as Pool};
use hyper_util::rt::TokioTimer;
use kinform_api::mutant;
use kube_client::client::{Body, ConfigExt};
use kube_client::{Client, Config};
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::credentials::CredentialsLayer;
use super::driver::{Drivers, Known};
use crate::error::{Error, ErrorKind};

// BOUND: bytes that a connection reads at once, and keeps for the next read. With less, more objects lie across
// two reads, which costs a pass more over each: 3 to 9% of a sync's CPU time at 64 KB.
const READ_BYTES: usize = 256 << 10;

/// Settings of a client's connections; the defaults are right for informers.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    keepalive_idle: Duration,
    keepalive_interval: Duration,
    keepalive_retries: u32,
    user_timeout: Duration,
    connect_timeout: Duration,
}

impl Default for ClientOptions {
    /// Probes after 13 s without traffic, each 5 s, three of them; 28 s for unanswered data; 10 s to connect.
    fn default() -> Self {
        Self {
            keepalive_idle: Duration::from_secs(13),
            keepalive_interval: Duration::from_secs(5),
            keepalive_retries: 3,
            // Looked at when a probe is due: a little less than 30 s is noticed before 30 s.
            user_timeout: Duration::from_secs(28),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

impl ClientOptions {
    /// Time for a TCP connection to come about; 10 s if not set.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// A dead peer is noticed within about this time; 30 s if not set.
    #[must_use]
    pub fn with_dead_peer_after(mut self, time: Duration) -> Self {
        self.user_timeout = time * 14 / 15;
        self.keepalive_idle = time * 13 / 30;
        self.keepalive_interval = time / 6;
        self
    }

    fn connector(&self) -> HttpConnector {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(self.connect_timeout));
        let idle = (!mutant!("B19")).then_some(self.keepalive_idle);
        connector.set_keepalive(idle);
        connector.set_keepalive_interval(Some(self.keepalive_interval));
        connector.set_keepalive_retries(Some(self.keepalive_retries));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        connector.set_tcp_user_timeout(Some(self.user_timeout));
        connector
    }
}

/// A client by kubectl's rules: kubeconfig, else the service account of the pod.
///
/// # Errors
/// No configuration is found, or it cannot be used.
pub async fn default_client() -> Result<Client, Error> {
    let config = Config::infer().await.map_err(|error| {
        Error::new(
            ErrorKind::Config,
            "no Kubernetes configuration: neither a kubeconfig (KUBECONFIG, ~/.kube/config) \
             nor a pod's service account was found",
        )
        .with_cause(error)
    })?;
    client_for(config, &ClientOptions::default())
}

/// A client for `config`. Must be called inside a tokio runtime, which then owns its connections.
///
/// # Errors
/// The certificates or credentials in `config` cannot be used, or it needs TLS and this build has none.
pub fn client_for(mut config: Config, options: &ClientOptions) -> Result<Client, Error> {
    config.default_retry = mutant!("D17");
    if config.default_retry {
        return Client::try_from(config).map_err(unusable);
    }
    config.connect_timeout = Some(options.connect_timeout);
    if config.proxy_url.is_some() {
        return Client::try_from(config).map_err(unusable);
    }
    let https = config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS);
    if https {
        return https_client(config, options);
    }
    assemble(
        &config,
        pool().build(options.connector().map_response(Known::new)),
    )
}

#[cfg(feature = "rustls-tls")]
fn https_client(config: Config, options: &ClientOptions) -> Result<Client, Error> {
    let connector = config
        .rustls_https_connector_with_connector(options.connector())
        .map_err(unusable)?;
    assemble(&config, pool().build(connector.map_response(Known::new)))
}

#[cfg(not(feature = "rustls-tls"))]
fn https_client(config: Config, _: &ClientOptions) -> Result<Client, Error> {
    Client::try_from(config).map_err(unusable)
}

fn pool() -> PoolBuilder {
    let mut builder = Pool::<(), ()>::builder(Drivers);
    builder.pool_timer(TokioTimer::new());
    // Below the idle time after which load balancers forget connections.
    builder.pool_idle_timeout(Duration::from_secs(50));
    builder.http1_max_buf_size(READ_BYTES);
    builder
}

fn assemble<C>(config: &Config, client: Pool<C, Body>) -> Result<Client, Error>
where
    C: hyper_util::client::legacy::connect::Connect + Clone + Send + Sync + 'static,
{
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(CredentialsLayer::new(config).map_err(unusable)?)
        .layer(config.extra_headers_layer().map_err(unusable)?)
        .map_err(BoxError::from)
        .service(client);
    Ok(Client::new(service, config.default_namespace.clone()))
}

fn unusable(error: kube_client::Error) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("the Kubernetes configuration cannot be used: {error}"),
    )
    .with_cause(error)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use socket2::SockRef;

    async fn check(options: &ClientOptions, dead_after: Duration) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap());
        let connection = options.connector().oneshot(uri.parse().unwrap());
        let stream = connection.await.unwrap().into_inner();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert!(socket.tcp_nodelay().unwrap());
        // Idle: the first probe, and then `probes` more without a reply.
        let first = socket.tcp_keepalive_time().unwrap();
        let each = socket.tcp_keepalive_interval().unwrap();
        let probes = socket.tcp_keepalive_retries().unwrap();
        assert!(probes >= 2, "one lost packet is no dead peer");
        assert!(first + each * probes < dead_after);
        // Waiting for an answer.
        assert!(socket.tcp_user_timeout().unwrap().unwrap() < dead_after);
    }

    #[tokio::test]
    async fn sockets_notice_a_dead_peer_within_thirty_seconds() {
        check(&ClientOptions::default(), Duration::from_secs(30)).await;
        let options = ClientOptions::default().with_dead_peer_after(Duration::from_secs(6));
        check(&options, Duration::from_secs(6)).await;
    }
}
