//! An embedded server that is written to at a steady pace.
//!
//! ```text
//! Writer::start ─▶ server on loopback ─▶ a while later, so many objects, 500 a second
//! ```
//!
//! Each object is new, and carries the time when it was written.

use std::time::Duration;

use kinform_apiserver::Server;
use serde_json::json;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::subject::Failed;
use crate::subject::latency::{WRITTEN, now_micros};

/// The time that a subject may take to begin its watch.
const HEAD_START: Duration = Duration::from_secs(2);
/// From one write to the next.
const PACE: Duration = Duration::from_millis(2);

/// The server and its writer, until this is dropped.
#[derive(Debug)]
pub struct Writer {
    /// The server's address.
    pub url: String,
    /// The server's bearer token.
    pub token: String,
    _stop: DropGuard,
}

impl Writer {
    /// Starts a server and a task that will write `objects` objects to it.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(objects: usize) -> Result<Self, Failed> {
        let server = Server::builder().plain().start().await?;
        let (url, token) = (server.url(), server.token().to_owned());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            stopped.run_until_cancelled(write(&server, objects)).await;
            stopped.cancelled().await;
            drop(server);
        });
        Ok(Self {
            url,
            token,
            _stop: stop.drop_guard(),
        })
    }
}

async fn write(server: &Server, objects: usize) {
    tokio::time::sleep(HEAD_START).await;
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0..objects {
        pace.tick().await;
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": format!("written-{number:06}"), "namespace": "default",
                "uid": format!("00000000-0000-4000-8000-{number:012}"),
                "annotations": {WRITTEN: now_micros().to_string()},
            },
            "data": {"number": number.to_string()},
        });
        if let Err(status) = server.restore(object) {
            eprintln!("bench: the embedded server takes no config map: {status:?}");
            return;
        }
    }
}
