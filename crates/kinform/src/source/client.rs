//! Makes clients fit for watches that live for months.
//!
//! ```text
//! kube_client::Config → TCP keepalive + user timeout → proxy? → TLS → HTTP/2? → credentials
//!                     → requests a second → kube_client::Client
//! ```
//!
//! Differs from `kube_client::Client::try_from` in nine points:
//!
//! - The kernel notices a vanished peer within 30 s, without a request to the server (idle: keepalive
//!   probes; waiting for a reply: user timeout).
//! - Only the reflector retries: kube's own layer retries 429, 503 and 504 up to 15 times and so hides
//!   them for minutes.
//! - Credentials that a server refuses are loaded anew from the configuration, see `credentials`.
//! - A connection reads 256 KB at most: an idle watch keeps the buffer that its list made grow, 400 KB
//!   by hyper's default.
//! - The reader of a reply drives its connection, see `driver`.
//! - Connections through a proxy, by `CONNECT` or SOCKS5, need no feature of kube's, and have all of
//!   the above, between the client and the proxy.
//! - Where the server has HTTP/2, replies share connections, see `multiplex`.
//! - Exec plugins run beside the runtime's work and again before their credentials end, and client
//!   certificates are followed as they are replaced, see `connections`.
//! - Requests a second have a limit, see `throttle`.
//!
//! Needs this crate's feature `rustls-tls` for `https`; with kube's other TLS features the client is
//! kube's own, and only the second point holds.
//!
//! Upstream counterpart: `client-go:rest/transport.go`, `apimachinery:pkg/util/net/http.go`
//! (`configureHTTP2Transport`: ping after 30 s idle, 15 s to answer).

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kinform_api::mutant;
use kube_client::client::{Body, ConfigExt};
use kube_client::{Client, Config};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};

use super::client_options::ClientOptions;
use super::connections::Connections;
use super::credentials::CredentialsLayer;
use super::kubeconfig::{ConfigOverrides, load_config};
use super::throttle::ThrottleLayer;
use crate::error::Error;

/// A client by kubectl's rules: kubeconfig, else the service account of the pod; see
/// [`load_config`].
///
/// # Errors
/// As of [`load_config`], or the certificates in the configuration cannot be used.
pub async fn default_client() -> Result<Client, Error> {
    let config = load_config(&ConfigOverrides::default()).await?;
    client_for(config, &ClientOptions::from_env())
}

/// A client for `config`. Must be called inside a tokio runtime, which then owns its connections.
///
/// A client made elsewhere, as by `kube_client::Client::try_default`, serves informers, too. But it
/// has no limit of requests a second, and no keepalive that notices a dead peer within 30 s. It reads
/// credentials again only as they expire, hides refusals by retries of its own, and knows proxies and
/// new client certificates only as far as its features go.
///
/// # Errors
/// The certificates or credentials in `config` cannot be used, or it needs TLS and this build has none.
pub fn client_for(mut config: Config, options: &ClientOptions) -> Result<Client, Error> {
    config.default_retry = mutant!("D17");
    if config.default_retry {
        return Client::try_from(config).map_err(Error::unusable_config);
    }
    #[cfg(not(feature = "rustls-tls"))]
    if config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS) {
        config.connect_timeout = Some(options.connect_timeout);
        return Client::try_from(config).map_err(Error::unusable_config);
    }
    over(config, options, |connections| connections)
}

/// The same as [`client_for`], with a layer directly above the connections, below limiter and
/// credentials: it sees a request after everything that the request waits for in this process but a
/// connection. Must be called inside a tokio runtime.
///
/// # Errors
/// As of [`client_for`]. For `https` it needs this crate's feature `rustls-tls`.
pub fn client_with<L, S>(config: Config, options: &ClientOptions, layer: L) -> Result<Client, Error>
where
    L: Layer<Transport, Service = S>,
    S: Service<Request<Body>, Response = Response<TransportBody>, Error = BoxError>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    #[cfg(not(feature = "rustls-tls"))]
    if config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS) {
        let message = "a client of layers needs the feature `rustls-tls` of kinform for https";
        return Err(Error::new(crate::error::ErrorKind::Config, message));
    }
    over(config, options, |connections| {
        layer.layer(transport(connections))
    })
}

/// A client whose requests pass a layer, then `client` with its limit and credentials. Must be called
/// inside a tokio runtime, which then has a task for it.
pub fn client_through<L, S>(client: &Client, layer: L) -> Client
where
    L: Layer<Transport, Service = S>,
    S: Service<Request<Body>, Response = Response<TransportBody>, Error = BoxError>,
    S: Send + 'static,
    S::Future: Send + 'static,
{
    let (below, namespace) = (client.clone(), client.default_namespace().to_owned());
    let send = move |request| {
        let client = below.clone();
        async move { client.send(request).await.map_err(BoxError::from) }
    };
    Client::new(layer.layer(transport(tower::service_fn(send))), namespace)
}

fn transport<S, B>(service: S) -> Transport
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let boxed = |body: B| body.map_err(Into::into).boxed_unsync();
    BoxCloneSyncService::new(service.map_response(move |reply: Response<B>| reply.map(boxed)))
}

/// The connections of a client, as [`client_with`] hands them to a layer.
pub type Transport = BoxCloneSyncService<Request<Body>, Response<TransportBody>, BoxError>;

/// The body of a reply of [`Transport`].
pub type TransportBody = UnsyncBoxBody<Bytes, BoxError>;

fn over<S, B>(
    mut config: Config,
    options: &ClientOptions,
    above: impl FnOnce(Connections) -> S,
) -> Result<Client, Error>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    config.default_retry = false;
    config.connect_timeout = Some(options.connect_timeout);
    let plugin = config.auth_info.exec.take();
    let credentials = CredentialsLayer::new(&config)?;
    // As in client-go, a token or a password comes before a plugin, so that a `--token` is sent.
    let plugin = plugin.filter(|_| credentials.is_none());
    let service = ServiceBuilder::new()
        .option_layer(ThrottleLayer::new(
            options.requests_per_second,
            options.burst,
        ))
        .layer(config.base_uri_layer())
        .option_layer(credentials)
        .layer(
            config
                .extra_headers_layer()
                .map_err(Error::unusable_config)?,
        )
        .service(above(Connections::new(&config, options, plugin)?));
    Ok(Client::new(service, config.default_namespace))
}
