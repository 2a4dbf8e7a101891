//! A small HTTP server: paths to pages.
//!
//! ```text
//! GET /path ─▶ route(path) ─▶ Page: 200 │ None: 404
//! ```
//!
//! In the place of a web framework, of which the ports need no more than this.
//!
//! Upstream counterpart: `controller-rs:src/main.rs`, on actix-web.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The variable with the address of the port.
const ADDRESS: &str = "PORTS_ADDRESS";
/// The default address, as upstream's.
const DEFAULT_ADDRESS: &str = "0.0.0.0:8080";
/// BOUND: connections at one time; a further one takes the place of the one that ends first.
const CONNECTIONS: usize = 64;

/// A page: its media type and its text.
pub type Page = (&'static str, String);

/// Serves pages at the address that the environment states, and tells it in the log.
///
/// # Errors
/// The address cannot be had.
///
/// # Cancel safety
/// Dropping the future ends all connections.
pub async fn serve(
    route: impl Fn(&str) -> Option<Page> + Clone + Send + 'static,
) -> io::Result<()> {
    let address = std::env::var(ADDRESS);
    let address = address.as_deref().unwrap_or(DEFAULT_ADDRESS);
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "serving pages");
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        if connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        let route = route.clone();
        let answer = move |request: Request<_>| {
            let page = route(request.uri().path());
            std::future::ready(Ok::<_, Infallible>(reply(page)))
        };
        let http = hyper::server::conn::http1::Builder::new();
        connections.spawn(http.serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}

fn reply(page: Option<Page>) -> Response<Full<Bytes>> {
    let (status, (kind, text)) = match page {
        Some(page) => (StatusCode::OK, page),
        None => (StatusCode::NOT_FOUND, ("text/plain", String::new())),
    };
    let mut reply = Response::new(Full::from(text));
    *reply.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static(kind);
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}
