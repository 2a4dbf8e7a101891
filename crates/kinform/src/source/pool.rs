//! A pool of connections to one server, directly or through a proxy.
//!
//! ```text
//! Config ──▶ TCP ──▶ HTTP or SOCKS5 proxy? ──▶ TLS? ──▶ pool of connections that their readers drive
//! ```
//!
//! A pool has the certificates that it was opened with; `connections` opens another as they change.
//!
//! Upstream counterpart: `client-go:rest/transport.go`, `client-go:transport/cache.go`.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connect, Connection, HttpConnector};
use hyper_util::rt::TokioTimer;
use kube_client::Config;
use kube_client::client::Body;
#[cfg(feature = "rustls-tls")]
use kube_client::client::ConfigExt;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

use super::driver::{Drivers, Known};
use super::proxy;
use crate::error::{Error, ErrorKind};

// BOUND: bytes that a connection reads at once, and keeps for the next read. With less, more
// objects lie across two reads, which costs a pass more over each: 3 to 9% of a sync's CPU time at
// 64 KB.
const READ_BYTES: usize = 256 << 10;

/// Sends requests over its connections.
pub(super) type Pooled = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// Opens a pool; connects with the first request.
///
/// # Errors
/// The certificates in `config`, or the proxy's password, cannot be used.
pub(super) fn open(config: &Config, connector: HttpConnector) -> Result<Pooled, Error> {
    let Some(proxy) = config.proxy_url.clone() else {
        return over(config, connector);
    };
    let login = proxy::login(&proxy);
    match (proxy.scheme_str(), login) {
        (Some("socks5"), Some((name, password))) => {
            let through = SocksV5::new(proxy, connector).with_auth(name, password);
            over(config, through)
        }
        (Some("socks5"), None) => over(config, SocksV5::new(proxy, connector)),
        #[cfg(feature = "rustls-tls")]
        (Some("https"), login) => {
            // The proxy has a name and an authority of its own.
            let connector = over_tls(&Config::new(proxy.clone()), connector)?;
            over(config, tunnel(proxy, connector, login)?)
        }
        #[cfg(not(feature = "rustls-tls"))]
        (Some("https"), _) => {
            let message = "a proxy over TLS needs kinform's feature rustls-tls";
            Err(Error::new(ErrorKind::Config, message))
        }
        (_, login) => over(config, tunnel(proxy, connector, login)?),
    }
}

/// A connector that asks a proxy for a tunnel to the server.
fn tunnel<C>(
    proxy: Uri,
    connector: C,
    login: Option<(String, String)>,
) -> Result<Tunnel<C>, Error> {
    let tunnel = Tunnel::new(proxy, connector);
    let Some((name, password)) = login else {
        return Ok(tunnel);
    };
    let login = BASE64_STANDARD.encode(format!("{name}:{password}"));
    let header = HeaderValue::try_from(format!("Basic {login}"));
    let header = header.map_err(|error| {
        Error::new(ErrorKind::Config, "the proxy's password cannot be sent").with_cause(error)
    })?;
    Ok(tunnel.with_auth(header))
}

/// A pool over `connector`, with TLS if the server's address says so.
fn over<C>(config: &Config, connector: C) -> Result<Pooled, Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Unpin + Send + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    #[cfg(feature = "rustls-tls")]
    if config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS) {
        let connector = over_tls(config, connector)?;
        return Ok(pooled(connector.map_response(Known::new)));
    }
    #[cfg(not(feature = "rustls-tls"))]
    let _ = config;
    Ok(pooled(connector.map_response(Known::new)))
}

#[cfg(feature = "rustls-tls")]
fn over_tls<C>(
    config: &Config,
    connector: C,
) -> Result<
    impl Service<
        Uri,
        Response = impl Connection + Read + Write + Unpin + Send + 'static,
        Future = impl Future + Send + Unpin + 'static,
        Error = BoxError,
    > + Clone
    + Send
    + Sync
    + 'static,
    Error,
>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Unpin + Send + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let made = config.rustls_https_connector_with_connector(connector);
    made.map_err(Error::unusable_config)
}

fn pooled<C>(connector: C) -> Pooled
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let mut builder = Pool::<(), ()>::builder(Drivers);
    builder.pool_timer(TokioTimer::new());
    // Below the idle time after which load balancers forget connections.
    builder.pool_idle_timeout(Duration::from_secs(50));
    builder.http1_max_buf_size(READ_BYTES);
    let pool = builder.build::<C, Body>(connector);
    BoxCloneSyncService::new(pool.map_err(BoxError::from))
}
