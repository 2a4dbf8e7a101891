//! A web service: an HTTP endpoint that answers from a cache.
//!
//! ```text
//! API server ─ one watch ─▶ informer, index by node ◀─ GET /nodes/node-1/pods ─ any number of readers
//! ```
//!
//! Prints its address. A request costs the API server nothing, holds no lock and decodes nothing.
//! `/ready` is 503 until the cache is filled, and while it cannot follow the server.
//!
//! Upstream counterpart: none; the handlers of a dashboard do this with a lister.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use k8s_openapi::api::core::v1::Pod;
use kinform::{Index, IndexReader, Informer, InformerFactory};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::start::{Failure, Start};

#[derive(Clone)]
struct Cache {
    pods: Informer<Pod>,
    by_node: IndexReader<Pod>,
}

async fn pods_of(State(cache): State<Cache>, Path(node): Path<String>) -> Json<Value> {
    let pods = cache.by_node.get(node);
    let names: Vec<String> = pods.keys().iter().map(ToString::to_string).collect();
    Json(json!({ "pods": names }))
}

/// The answer to a load balancer: 200 while the cache follows the server.
async fn ready(State(cache): State<Cache>) -> (StatusCode, String) {
    let state = cache.pods.state();
    let code = match state.is_synced() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, format!("{state:?}\n"))
}

/// Serves until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let factory = InformerFactory::new(start.client);
    let pods = factory.informer::<Pod>();
    let by_node = pods.add_index(Index::path("spec.nodeName"))?;
    factory.start()?;

    let router = Router::new()
        .route("/nodes/{node}/pods", get(pods_of))
        .route("/ready", get(ready))
        .with_state(Cache { pods, by_node });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    start
        .out
        .line(format!("http://{}/nodes/NODE/pods", listener.local_addr()?));
    axum::serve(listener, router)
        .with_graceful_shutdown(start.stop.cancelled_owned())
        .await?;
    factory.shutdown().await;
    Ok(())
}
