//! A pool of connections to one server, directly or through a proxy.
//!
//! ```text
//! Config ──▶ TCP ──▶ HTTP or SOCKS5 proxy? ──▶ TLS? ──▶ pool of connections that their readers drive
//! ```
//!
//! A pool has the certificates that it was opened with; `connections` opens another as they change.
//! Of a server that chooses HTTP/2 it has one connection, which `multiplex` shares out.
//!
//! Upstream counterpart: `client-go:rest/transport.go`, `client-go:transport/cache.go`.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
#[cfg(feature = "rustls-tls")]
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioTimer;
use kube_client::Config;
use kube_client::client::Body;
#[cfg(feature = "rustls-tls")]
use kube_client::client::ConfigExt;
#[cfg(feature = "rustls-tls")]
use rustls::pki_types::ServerName;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

use super::driver::{Drivers, Known};
use super::protocol::{Protocol, Protocols};
use super::proxy;
use crate::error::{Error, ErrorKind};

// BOUND: bytes that a connection reads at once, and keeps for the next read. With less, more
// objects lie across two reads, which costs a pass more over each: 3 to 9% of a sync's CPU time at
// 64 KB.
const READ_BYTES: usize = 256 << 10;

// BOUND: headers of a reply; hyper's default of 100 is few behind proxies.
const MAX_HEADERS: usize = 1000;

// BOUND: bytes that a server may send of one reply before they are read, and of all replies of an
// HTTP/2 connection: readers that stop do not stop the others.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
/// BOUND: bytes of a frame; larger ones cost less for each object.
const FRAME: u32 = 256 << 10;
/// The time without a byte after which an HTTP/2 connection is asked for a sign of life, and the
/// time to give it. As client-go's.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

/// The time for a TCP connection of a configuration that names none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends requests over its connections.
pub(super) type Pooled = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// Opens a pool; connects with the first request.
///
/// # Errors
/// The certificates in `config`, or the proxy's password, cannot be used.
pub(super) fn open(
    config: &Config,
    connector: HttpConnector,
    protocols: Protocols,
) -> Result<Pooled, Error> {
    let Some(proxy) = config.proxy_url.clone() else {
        return over(config, connector, protocols);
    };
    let login = proxy::login(&proxy);
    match (proxy.scheme_str(), login) {
        (Some("socks5"), Some((name, password))) => {
            let through = SocksV5::new(proxy, connector).with_auth(name, password);
            over(config, through, protocols)
        }
        (Some("socks5"), None) => over(config, SocksV5::new(proxy, connector), protocols),
        #[cfg(feature = "rustls-tls")]
        (Some("https"), login) => {
            // The proxy has a name and an authority of its own.
            let proxied = &Config::new(proxy.clone());
            let connector = over_tls(proxied, connector, &Protocols::Http1)?;
            over(config, tunnel(proxy, connector, login)?, protocols)
        }
        #[cfg(not(feature = "rustls-tls"))]
        (Some("https"), _) => {
            let message = "a proxy over TLS needs kinform's feature rustls-tls";
            Err(Error::new(ErrorKind::Config, message))
        }
        (_, login) => over(config, tunnel(proxy, connector, login)?, protocols),
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
fn over<C>(config: &Config, connector: C, protocols: Protocols) -> Result<Pooled, Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Unpin + Send + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    // As long again for a proxy and for TLS.
    let limit = 2 * config.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    #[cfg(feature = "rustls-tls")]
    if config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS) {
        let connector = over_tls(config, connector, &protocols)?;
        return Ok(pooled(connector, (protocols, limit)));
    }
    Ok(pooled(connector, (protocols, limit)))
}

/// A stream that was opened. Its protocol is reported.
fn known<S: Connection>(protocols: &Protocols, stream: S) -> Result<Known<S>, BoxError> {
    let protocol = match stream.connected().is_negotiated_h2() {
        true => Protocol::Http2,
        false => Protocol::Http1,
    };
    if let Protocols::Either(chosen) | Protocols::Http2(chosen) = protocols {
        chosen.send_replace(Some(protocol));
    }
    match (protocols, protocol) {
        (Protocols::Http2(_), Protocol::Http1) => {
            Err("the server no longer speaks HTTP/2; the next request is HTTP/1.1".into())
        }
        _ => Ok(Known::new(stream)),
    }
}

#[cfg(feature = "rustls-tls")]
fn over_tls<C>(
    config: &Config,
    connector: C,
    protocols: &Protocols,
) -> Result<HttpsConnector<C>, Error>
where
    C: Service<Uri>,
{
    if matches!(protocols, Protocols::Http1) {
        let made = config.rustls_https_connector_with_connector(connector);
        return made.map_err(Error::unusable_config);
    }
    let tls = config
        .rustls_client_config()
        .map_err(Error::unusable_config)?;
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        let name = ServerName::try_from(name).map_err(|error| {
            Error::new(
                ErrorKind::Config,
                "the server's name is not a DNS name or an address",
            )
            .with_cause(error)
        })?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_all_versions().wrap_connector(connector))
}

/// Gives up a connection that does not come about: a peer that accepts it and is silent would hold
/// up all requests that wait for it.
async fn within<S>(
    limit: Duration,
    opening: impl Future<Output = Result<S, BoxError>>,
) -> Result<S, BoxError> {
    let opened = tokio::time::timeout(limit, opening).await;
    opened.unwrap_or_else(|_| Err(format!("no connection within {} s", limit.as_secs()).into()))
}

fn pooled<C>(connector: C, (protocols, limit): (Protocols, Duration)) -> Pooled
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Unpin + Send + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    let mut builder = Pool::<(), ()>::builder(Drivers);
    builder.pool_timer(TokioTimer::new());
    let is_shared = matches!(protocols, Protocols::Http2(_));
    // Below the idle time after which load balancers forget connections. A shared one counts as idle
    // from its last request on, whatever its streams do; it is pinged instead.
    builder.pool_idle_timeout((!is_shared).then_some(Duration::from_secs(50)));
    builder.http1_max_buf_size(READ_BYTES);
    builder.http1_max_headers(MAX_HEADERS);
    builder.timer(TokioTimer::new());
    builder.http2_initial_stream_window_size(STREAM_WINDOW);
    builder.http2_initial_connection_window_size(CONNECTION_WINDOW);
    builder.http2_max_frame_size(FRAME);
    builder.http2_keep_alive_interval(PING);
    builder.http2_keep_alive_timeout(PONG);
    builder.http2_keep_alive_while_idle(true);
    builder.http2_only(is_shared);
    let connector = connector
        .map_err(Into::<BoxError>::into)
        .map_future(move |opening| Box::pin(within(limit, opening)))
        .map_result(move |opened| known(&protocols, opened?));
    let pool = builder.build::<_, Body>(connector);
    BoxCloneSyncService::new(pool.map_err(BoxError::from))
}
