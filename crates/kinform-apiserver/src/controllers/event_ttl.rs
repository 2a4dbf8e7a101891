//! Events end an hour after their last write.
//!
//! ```text
//! event written ──▶ its end, an hour later ──▶ removed, as a delete that watches hear
//! ```
//!
//! A server behind sockets looks once a minute. Each request for events looks, too, so that a
//! server in process follows paused time without a task. Events that a start finds, or that a seed
//! or a dump brings, have an hour from then on, as etcd's leases have after a restart.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/event/rest` (`--event-ttl`).

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::resource::ResourceInfo;
use crate::state::State;
use crate::storage::Expect;

/// The shelf of events, of both groups.
const SHELF: &str = "events";
const TTL: SignedDuration = SignedDuration::from_hours(1);
const PERIOD: Duration = Duration::from_secs(60);

/// Returns whether a resource is events.
pub(crate) fn concerns(resource: &ResourceInfo) -> bool {
    resource.plural == SHELF && matches!(&*resource.group, "" | "events.k8s.io")
}

/// Renews the end of an event that was written.
pub(crate) fn written(state: &State, key: &str) {
    let is_there = state.store.get(state.store.shelf(SHELF), key).is_some();
    state.event_ttl.set(key, is_there.then(|| end(state)));
    expire(state);
}

/// Gives an end to every stored event that has none.
pub(crate) fn adopt(state: &State) {
    for event in state.store.view(state.store.shelf(SHELF)).snapshot.iter() {
        if !state.event_ttl.has(event.key()) {
            state.event_ttl.set(event.key(), Some(end(state)));
        }
    }
}

/// Removes the events whose end has come.
pub(crate) fn expire(state: &State) {
    let shelf = state.store.shelf(SHELF);
    for key in state.event_ttl.due(state.clock.now()) {
        // Another request may have removed it.
        drop(state.store.remove(shelf, &key, Expect::Present));
    }
}

/// Removes events when their end comes, until the server stops.
pub(crate) async fn run(state: Arc<State>) {
    loop {
        tokio::select! {
            biased;
            () = state.stopping.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => expire(&state),
        }
    }
}

fn end(state: &State) -> Timestamp {
    let now = state.clock.now();
    now.checked_add(TTL).unwrap_or(Timestamp::MAX)
}
