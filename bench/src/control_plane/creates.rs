//! Creations a second over 32 connections.
//!
//! ```text
//! 32 tasks, a connection each ─POST─▶ config maps of 1 KB ─▶ creations a second
//! ```

use std::time::Instant;

use futures::stream::{FuturesUnordered, TryStreamExt};
use http::Request;
use kube::Client;
use serde_json::json;

use crate::operators::cluster::{NAMESPACE, object};
use crate::subject::Failed;

/// Connections, and requests under way.
pub const CONNECTIONS: usize = 32;

/// Creates this many objects, and returns how many were created a second.
///
/// # Errors
/// The server refuses one.
pub async fn a_second(client: &Client, first: usize, creations: usize) -> Result<f64, Failed> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let each = creations / CONNECTIONS;
    let started = Instant::now();
    let tasks: FuturesUnordered<_> = (0..CONNECTIONS)
        .map(|task| {
            let (client, path) = (client.clone(), path.clone());
            tokio::spawn(async move {
                for number in 0..each {
                    let mut object = object(first + task * each + number);
                    object["metadata"]["uid"] = json!(null);
                    let request = Request::post(&path)
                        .header("content-type", "application/json")
                        .body(object.to_string().into_bytes())?;
                    client.request_text(request).await?;
                }
                Ok::<_, Failed>(())
            })
        })
        .collect();
    let ended: Vec<Result<(), Failed>> = tasks.try_collect().await?;
    ended.into_iter().collect::<Result<(), Failed>>()?;
    Ok((each * CONNECTIONS) as f64 / started.elapsed().as_secs_f64())
}

/// Microseconds of each of this many creations, one after the other.
///
/// # Errors
/// The server refuses one.
pub async fn micros_each(
    client: &Client,
    first: usize,
    creations: usize,
) -> Result<Vec<f64>, Failed> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let mut micros = Vec::with_capacity(creations);
    for number in 0..creations {
        let mut object = object(first + number);
        object["metadata"]["uid"] = json!(null);
        let request = Request::post(&path)
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes())?;
        let started = Instant::now();
        client.request_text(request).await?;
        micros.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(micros)
}
