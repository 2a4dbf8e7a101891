//! The parking of keys whose writes no cache has seen.
//!
//! ```text
//! key ──▶ Parked ──▶ park: questions asked, caches awaited (30 s at most) ──▶ queue
//! ```
//!
//! One task for all parked keys of a run, and one for objects of which it has heard nothing; they end
//! with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kinform_api::ObjectKey;
use kinform_core::causes::{Cause, Causes, Event};
use kinform_core::queue::Priority;
use kube_client::Client;
use tokio::sync::mpsc;

use super::Writes;
use crate::sync::lock;
use crate::workqueue::WorkQueue;

/// BOUND: the time that a key is parked. Then it runs, on a view that may be old.
const PARKED: Duration = Duration::from_secs(30);
/// The pause after a question that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// The way of keys to the parking task.
#[derive(Debug)]
pub(in crate::controller) struct Parked {
    /// The parked keys, with the causes of the runs that wait.
    keys: Mutex<HashMap<ObjectKey, Causes>>,
    // BOUND: a key is sent once until it leaves, so there are as many as `keys`.
    send: mpsc::UnboundedSender<ObjectKey>,
}

impl Parked {
    pub(in crate::controller) fn new() -> (Self, mpsc::UnboundedReceiver<ObjectKey>) {
        let (send, receive) = mpsc::unbounded_channel();
        let keys = Mutex::default();
        (Self { keys, send }, receive)
    }

    /// Parks a key, unless it is parked.
    pub(in crate::controller) fn add(&self, key: &ObjectKey, causes: Causes) {
        let mut keys = lock(&self.keys);
        if let Some(earlier) = keys.get_mut(key) {
            return earlier.extend(causes);
        }
        keys.insert(key.clone(), causes);
        // Without a receiver the run has ended.
        let _ = self.send.send(key.clone());
    }
}

/// Queues each parked key again once its writes were seen, or its time is over. Runs until it is
/// dropped.
pub(in crate::controller) async fn park(
    parked: Arc<Parked>,
    mut keys: mpsc::UnboundedReceiver<ObjectKey>,
    (writes, client): (Arc<Writes>, Option<Client>),
    queue: WorkQueue<ObjectKey>,
) {
    let mut waits = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(key) = waits.next(), if !waits.is_empty() => {
                let causes = lock(&parked.keys).remove(&key);
                let back = Cause::of(Event::Unparked);
                queue.add_back(key, Priority::Normal, causes, back);
            }
            key = keys.recv() => match key {
                Some(key) => waits.push(wait(&writes, client.as_ref(), key)),
                None => return,
            },
        }
    }
}

/// Queues keys again whose objects are gone without an event. Runs until it is dropped.
pub(in crate::controller) async fn look_again(writes: Arc<Writes>, queue: WorkQueue<ObjectKey>) {
    loop {
        let keys = writes.unheard.gone().await.into_iter();
        let because = |key: ObjectKey| {
            tracing::debug!(%key, "an object of this key came and went, and no event told it");
            (key, Cause::of(Event::Unparked))
        };
        queue.add_caused(keys.map(because).collect(), Priority::Normal);
    }
}

/// Waits for the writes of a key, within the limit.
async fn wait(writes: &Writes, client: Option<&Client>, key: ObjectKey) -> ObjectKey {
    let seen = async {
        ask(writes, client, &key).await;
        writes.seen.seen(&key).await
    };
    match tokio::time::timeout(PARKED, seen).await {
        Ok(Ok(())) => {}
        // A watch that has ended shows no more.
        Ok(Err(_)) => writes.forget(&key),
        Err(_) => {
            tracing::warn!(%key, "the caches did not show this key's writes within {PARKED:?}: it is reconciled on an older view");
            writes.give_up(&key);
        }
    }
    key
}

/// Asks the server for its version, for each write without an answer.
async fn ask(writes: &Writes, client: Option<&Client>, key: &ObjectKey) {
    let Some(client) = client else {
        return;
    };
    loop {
        let target = lock(&writes.unanswered)
            .get(key)
            .and_then(|questions| questions.last().cloned());
        let Some(target) = target else {
            return;
        };
        let uri = format!("{}?limit=1", target.collection());
        let answer = match http::Request::get(uri).body(Vec::new()) {
            Ok(request) => client.request::<serde_json::Value>(request).await,
            Err(error) => Err(kube_client::Error::HttpError(error)),
        };
        match answer {
            Ok(list) => {
                let version = list["metadata"]["resourceVersion"].as_str();
                writes.answered(key, &target, version.unwrap_or_default());
                let mut unanswered = lock(&writes.unanswered);
                if let Some(questions) = unanswered.get_mut(key) {
                    questions.retain(|question| *question != target);
                    if questions.is_empty() {
                        unanswered.remove(key);
                    }
                }
            }
            Err(error) => {
                tracing::debug!(%error, "cannot ask for the version of {}", target.plural);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
