//! The parking of keys whose writes no cache has seen.
//!
//! ```text
//! key ──▶ Parked ──▶ park: questions asked, caches awaited (30 s at most) ──▶ queue
//!                           └─ a cache that is idle: a short watch shows that it lacks nothing
//! ```
//!
//! The version of a cache is that of its last event. A collection in which nothing happens lags behind
//! the server's version until a bookmark comes, once a minute, without lacking anything.
//!
//! One task for all parked keys of a run, and one for objects of which it has heard nothing; they end
//! with it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kinform_api::{ObjectKey, mutant};
use kinform_core::causes::{Cause, Causes, Event};
use kinform_core::queue::Priority;
use kube_client::Client;
use tokio::sync::{Semaphore, mpsc};

use super::Writes;
use crate::sync::lock;
use crate::workqueue::WorkQueue;

/// BOUND: the time that a key is parked. Then it runs, on a view that may be old.
const PARKED: Duration = Duration::from_secs(30);
/// The pause after a question that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// The time that a watch has to bring a write whose version is known.
const OWN_WATCH: Duration = Duration::from_secs(1);
/// BOUND: keys for which short watches are open at one time.
const SHORT_WATCHES: usize = 4;
/// BOUND: the time of one key's short watches, before another key has its turn.
const TURN: Duration = Duration::from_secs(5);

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
    let seats = Semaphore::new(SHORT_WATCHES);
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
                Some(key) => waits.push(wait(&writes, (client.as_ref(), &seats), key)),
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
async fn wait(
    writes: &Writes,
    (client, seats): (Option<&Client>, &Semaphore),
    key: ObjectKey,
) -> ObjectKey {
    let seen = async {
        let pause = ask(writes, client, &key).await;
        tokio::select! {
            biased;
            seen = writes.seen.seen(&key) => seen,
            never = catch_up(writes, seats, (&key, pause)) => match never {},
        }
    };
    match tokio::time::timeout(PARKED, seen).await {
        Ok(Ok(())) => {}
        // A watch that has ended shows no more.
        Ok(Err(_)) => writes.forget_ended(&key),
        Err(_) => {
            tracing::warn!(%key, "the caches did not show this key's writes within {PARKED:?}: it is reconciled on an older view");
            writes.give_up(&key);
        }
    }
    key
}

/// Shows by short watches, again and again, that caches have what was written for a key: those that are
/// idle get there in no other way.
async fn catch_up(
    writes: &Writes,
    seats: &Semaphore,
    (key, pause): (&ObjectKey, Duration),
) -> Infallible {
    tokio::time::sleep(pause).await;
    loop {
        // It is not closed. Meanwhile another key's watch may have shown this one's writes.
        let seat = seats.acquire().await;
        let shown = async {
            for (core, version) in writes.seen.awaited_versions(key) {
                let epoch = core.root().epoch();
                let is_there = core.caught_up(&version).await.is_ok();
                // Versions of another history say nothing.
                if is_there && core.root().epoch() == epoch && !mutant!("R10") {
                    writes.seen.caught_up(&core, &version);
                }
            }
        };
        // What was not shown is tried again.
        let _ = tokio::time::timeout(TURN, shown).await;
        drop(seat);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Asks the server for its version, for each write without an answer. Returns the time that watches have
/// to bring what was written.
async fn ask(writes: &Writes, client: Option<&Client>, key: &ObjectKey) -> Duration {
    let mut pause = OWN_WATCH;
    let Some(client) = client else {
        return pause;
    };
    loop {
        let target = lock(&writes.unanswered)
            .get(key)
            .and_then(|questions| questions.last().cloned());
        let Some(target) = target else {
            return pause;
        };
        // No event need ever come at the version that the server tells.
        pause = Duration::ZERO;
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
