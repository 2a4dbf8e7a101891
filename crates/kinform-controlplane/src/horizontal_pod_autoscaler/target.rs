//! The scale of the object that an autoscaler sizes.
//!
//! ```text
//! scaleTargetRef ─▶ discovery: the resource of its kind ─▶ GET /scale ─▶ size, selector
//!                                      new size ─▶ PUT /scale, again after a conflict
//! ```
//!
//! Upstream counterpart: `client-go:scale`. Difference: the version that the reference states is the
//! one that is asked, where upstream asks the preferred one of the group.

use kube_client::Client;
use serde_json::Value;

use crate::json::{int, set, text};
use crate::scale_subresource::{find, get, message};
use crate::writer::{Failed, Writer};

/// The number of times that a scale is written until it is not in conflict.
// BOUND: five requests, as upstream's `retry.DefaultRetry`.
const TRIES: usize = 5;

/// A scale that was read.
#[derive(Debug)]
pub(super) struct Target {
    path: String,
    scale: Value,
}

impl Target {
    /// Reads the scale of an autoscaler's target.
    ///
    /// # Errors
    /// There is no target, or it has no scale; the message says which.
    pub(super) async fn read(client: &Client, autoscaler: &Value) -> Result<Self, String> {
        let of = |member: &str| text(autoscaler, &format!("/spec/scaleTargetRef/{member}"));
        let (version, kind) = (of("apiVersion"), of("kind"));
        let served = find(client, version, kind).await.map_err(message)?;
        let served = served.ok_or_else(|| {
            let group = version.split_once('/').map_or("", |(group, _)| group);
            format!("no matches for kind {kind:?} in group {group:?}")
        })?;
        let namespace = text(autoscaler, "/metadata/namespace");
        let path = served.scale_path(namespace, of("name"));
        let scale = get(client, &path).await.map_err(message)?;
        Ok(Self { path, scale })
    }

    /// The number of pods that is asked for.
    pub(super) fn size(&self) -> i64 {
        int(&self.scale, "/spec/replicas")
    }

    /// The selector of the pods, as text.
    pub(super) fn selector(&self) -> &str {
        text(&self.scale, "/status/selector")
    }

    /// Asks for another number of pods.
    pub(super) async fn resize(
        &mut self,
        client: &Client,
        writer: &Writer,
        to: i64,
    ) -> Result<(), Failed> {
        let mut tries = 1;
        loop {
            set(&mut self.scale, &["spec", "replicas"], to.into());
            match writer.replace(&self.path, &self.scale).await {
                Err(error) if error.code() == Some(409) && tries < TRIES => {}
                written => return written.map(drop),
            }
            if let Ok(latest) = get(client, &self.path).await {
                self.scale = latest;
            }
            tries += 1;
        }
    }
}
