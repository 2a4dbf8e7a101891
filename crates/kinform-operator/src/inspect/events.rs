//! The stream of a view: server-sent events, twice a second.
//!
//! ```text
//! ?view=pipeline ─▶ seat ─▶ each half second: may it still look? ─▶ event: pipeline, data: the view
//! ```
//!
//! An event is a view that was computed for it: nothing of the program is queued or copied. A client
//! that reads slowly gets fewer events. The right to look is checked before each event.
//! BOUND: as many streams as there are viewers' seats; one event is buffered for each.
//!
//! Upstream counterpart: none.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::StreamExt;
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use kinform::ObjectKey;
use serde::{Deserialize, Serialize};
use tokio::time::{Interval, MissedTickBehavior};

use super::query::Query;
use super::reply::{Reply, json, plain};
use super::shared::Shared;
use super::sight::Sight;
use super::viewers::Viewer;
use crate::serve::Body;

/// The interval of events.
const INTERVAL: Duration = Duration::from_millis(500);

/// The event of an object: its version, but not its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ObjectSign {
    /// The version in the cache; `null` if it has none.
    pub resource_version: Option<String>,
}

struct Watching {
    shared: Arc<Shared>,
    request: Request<()>,
    query: Query,
    view: String,
    viewer: Viewer,
    interval: Interval,
}

/// The stream of a view.
pub(super) fn reply(shared: &Arc<Shared>, request: Request<Bytes>, query: Query) -> Reply {
    let view = query.text("view").unwrap_or_else(|| "pipeline".to_owned());
    if !matches!(
        &*view,
        "pipeline" | "caches" | "queues" | "problems" | "object"
    ) {
        let why = "the parameter view is pipeline, caches, queues, problems or object\n";
        return plain(StatusCode::BAD_REQUEST, why);
    }
    let Some(viewer) = shared.viewers.enter() else {
        let why = "there are eight viewers already\n";
        return plain(StatusCode::SERVICE_UNAVAILABLE, why);
    };
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watching = Watching {
        shared: Arc::clone(shared),
        request: request.map(drop),
        query,
        view,
        viewer,
        interval,
    };
    let events = stream::unfold(watching, |mut watching| async move {
        let event = watching.next().await?;
        Some((event, watching))
    });
    let mut reply = Response::new(Body::Streamed(events.boxed()));
    let events = HeaderValue::from_static("text/event-stream");
    reply.headers_mut().insert(CONTENT_TYPE, events);
    reply
}

impl Watching {
    async fn next(&mut self) -> Option<Bytes> {
        self.interval.tick().await;
        if !self.viewer.read() {
            return None;
        }
        // Reviews are cached for a minute.
        let sight = self.shared.gate.sight(&self.request).await.ok()?;
        let data = match &*self.view {
            "object" => self.sign(&sight)?,
            view => self.shared.view(view, &sight, &self.query)?,
        };
        let mut event = BytesMut::with_capacity(data.len() + 32);
        event.put_slice(b"event: ");
        event.put_slice(self.view.as_bytes());
        event.put_slice(b"\ndata: ");
        // JSON has no line break outside of its texts, and none inside.
        event.put_slice(&data);
        event.put_slice(b"\n\n");
        Some(event.freeze())
    }

    fn sign(&self, sight: &Sight) -> Option<Bytes> {
        let cache = self.shared.program.cache(self.query.get("cache")?)?;
        let key = ObjectKey::new(self.query.get("namespace"), self.query.get("name")?);
        if !sight.sees(&cache.informer.resource().resource, key.namespace()) {
            return None;
        }
        let object = cache.informer.get(&key);
        Some(json(&ObjectSign {
            resource_version: object.map(|object| object.resource_version().to_owned()),
        }))
    }
}
