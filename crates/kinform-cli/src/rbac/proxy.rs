//! The proxy between a command and the server: it passes requests on and records which rights they
//! need.
//!
//! ```text
//! command ──HTTP on loopback, a secret path──▶ Proxy ──the user's credentials──▶ server
//!                                                └─▶ rights that were used, and that were refused
//! ```
//!
//! Whoever knows the path acts as the user, so it has a random part that stands in the command's
//! kubeconfig alone, which only the user can read. Bodies are never recorded; those of replies are
//! passed on as they come. Requests that upgrade their connection go over HTTP/1.1.
//!
//! BOUND: 256 connections, 10,000 different rights, 64 MiB of a request.
//!
//! Upstream counterpart: `kubectl proxy`.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{AUTHORIZATION, CONNECTION, HOST, HeaderName, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube_client::Client;
use kube_client::client::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::asked::Asked;

const MAX_CONNECTIONS: usize = 256;
const MAX_BODY: usize = 64 << 20;
const MAX_RIGHTS: usize = 10_000;

/// The rights of a command.
#[derive(Clone, Debug, Default)]
pub(super) struct Rights {
    /// Those that the server let it use.
    pub(super) used: BTreeSet<Asked>,
    /// Those that the user does not have.
    pub(super) refused: BTreeSet<Asked>,
}

/// The clients that requests are passed on by.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) any: Client,
    /// HTTP/1.1, for upgrades.
    pub(super) upgrading: Client,
}

/// A proxy that listens.
pub(super) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: TcpListener,
}

struct Shared {
    clients: Clients,
    /// The first part of each path, with its slash.
    secret: String,
    rights: Mutex<Rights>,
}

impl Proxy {
    /// Begins to listen on a free port of loopback.
    pub(super) async fn listen(clients: Clients) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let secret = format!("/{:032x}", rand::random::<u128>());
        Ok(Self {
            address: listener.local_addr()?,
            shared: Arc::new(Shared {
                clients,
                secret,
                rights: Mutex::default(),
            }),
            listener,
        })
    }

    /// The URL that a kubeconfig has.
    pub(super) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.shared.secret)
    }

    /// The rights that were used so far.
    pub(super) fn rights(&self) -> Rights {
        self.shared.rights().clone()
    }

    /// Passes requests on, until the future is dropped.
    pub(super) async fn run(&self) {
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = self.listener.accept().await else {
                continue;
            };
            let shared = Arc::clone(&self.shared);
            connections.spawn(async move {
                serve(stream, shared).await;
                drop(permit);
            });
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    let connection = http
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.with_upgrades().await {
        tracing::debug!("a connection of the command: {error}");
    }
}

impl Shared {
    fn rights(&self) -> std::sync::MutexGuard<'_, Rights> {
        self.rights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let uri = request.uri();
        let inner = uri.path().strip_prefix(self.secret.as_str());
        let Some(path) = inner.filter(|path| path.is_empty() || path.starts_with('/')) else {
            return plain(StatusCode::NOT_FOUND, "another path");
        };
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        let query = uri.query().unwrap_or_default().to_owned();
        let asked = Asked::read(request.method(), &path, &query, request.headers());
        let whole = match query.is_empty() {
            true => path.parse::<Uri>(),
            false => format!("{path}?{query}").parse(),
        };
        let Ok(uri) = whole else {
            return plain(StatusCode::BAD_REQUEST, "the path cannot be passed on");
        };
        match self.pass_on(request, uri).await {
            Err(error) => plain(StatusCode::BAD_GATEWAY, &error.to_string()),
            Ok(response) => {
                self.record(asked, &query, response.status());
                response
            }
        }
    }

    fn record(&self, asked: Vec<Asked>, query: &str, status: StatusCode) {
        let mut rights = self.rights();
        for asked in asked {
            if rights.used.len() + rights.refused.len() >= MAX_RIGHTS {
                return;
            }
            match status {
                StatusCode::UNAUTHORIZED => {}
                StatusCode::FORBIDDEN => {
                    rights.refused.insert(asked);
                }
                _ => {
                    if status == StatusCode::CREATED {
                        rights.used.extend(asked.creation());
                    }
                    rights.used.extend(asked.fallback(query));
                    rights.used.extend(asked.stream());
                    rights.used.insert(asked);
                }
            }
        }
    }

    async fn pass_on(
        &self,
        mut request: Request<Incoming>,
        uri: Uri,
    ) -> Result<Response<Body>, Box<dyn std::error::Error + Send + Sync>> {
        let upgrade = request.headers().get(UPGRADE).cloned();
        let from_command = upgrade.as_ref().map(|_| hyper::upgrade::on(&mut request));
        let (mut parts, body) = request.into_parts();
        parts.uri = uri;
        parts.version = http::Version::HTTP_11;
        parts.extensions.clear();
        forget(&mut parts.headers, &[HOST, AUTHORIZATION]);
        let client = match upgrade {
            None => &self.clients.any,
            Some(protocol) => {
                parts
                    .headers
                    .insert(CONNECTION, http::HeaderValue::from_static("Upgrade"));
                parts.headers.insert(UPGRADE, protocol);
                &self.clients.upgrading
            }
        };
        let body = Limited::new(body, MAX_BODY).collect().await?.to_bytes();
        let request = Request::from_parts(parts, Body::from(body.to_vec()));
        let mut response = client.send(request).await?;
        if let (Some(command), StatusCode::SWITCHING_PROTOCOLS) = (from_command, response.status())
        {
            let server = hyper::upgrade::on(&mut response);
            tokio::spawn(async move {
                let (Ok(command), Ok(server)) = futures::join!(command, server) else {
                    return;
                };
                let (mut command, mut server) = (TokioIo::new(command), TokioIo::new(server));
                let copied = tokio::io::copy_bidirectional(&mut command, &mut server).await;
                tracing::debug!("an upgraded connection ended: {copied:?}");
            });
            let (parts, _) = response.into_parts();
            return Ok(Response::from_parts(parts, Body::empty()));
        }
        forget(response.headers_mut(), &[]);
        *response.version_mut() = http::Version::HTTP_11;
        Ok(response)
    }
}

/// Removes the headers of one connection, and some more.
fn forget(headers: &mut HeaderMap, more: &[HeaderName]) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let of_connection = [CONNECTION, TRANSFER_ENCODING, UPGRADE];
    for name in named.iter().chain(&of_connection).chain(more) {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}

fn plain(status: StatusCode, words: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(words.as_bytes().to_vec()));
    *response.status_mut() = status;
    response
}
