//! The task that fills the mirror of a version.
//!
//! ```text
//! first read ──▶ Mirror + task:  history of the shelf, then its events ──converted in batches──▶ Mirror
//!                                webhook down ──▶ again, later; after some tries the objects of now
//! ```
//!
//! A mirror begins with the history of its shelf, so that a watch can resume from any version that a
//! client may have. What cannot be converted is tried again until it can, or until it is history: then
//! the mirror begins anew with the present objects, and its watches end, as those of a real server do.
//!
//! The task ends when another definition takes the place of the one that it was made for.

use std::sync::Arc;
use std::time::Duration;

use super::shown;
use crate::resource::{Found, ResourceInfo};
use crate::state::State;
use crate::storage::mirror::{Broken, Change, Mirror};
use crate::storage::{Event, PollLimits, Snapshot, Stored};

/// BOUND: events of one step, and the bytes of their objects before the last one.
const EVENTS: usize = 256;
const BYTES: usize = 1 << 20;
/// The wait after the first failure; it doubles up to the longest one.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Failures in a row after which the present objects are converted instead of the events.
const PATIENCE: usize = 10;

/// Returns the mirror that lists and watches of a resource read; `None` if the stored objects have its
/// version. The first call makes it, and its task.
pub(crate) fn mirror(state: &Arc<State>, resource: &Arc<ResourceInfo>) -> Option<Arc<Mirror>> {
    if !resource.is_converted() {
        return None;
    }
    let (mirror, is_new) = state.mirrors.of(&state.store, resource);
    if is_new {
        let filling = fill(state.clone(), resource.clone(), mirror.clone());
        let stopping = state.stopping.clone();
        drop(tokio::spawn(stopping.run_until_cancelled_owned(filling)));
    }
    Some(mirror)
}

async fn fill(state: Arc<State>, mut resource: Arc<ResourceInfo>, mirror: Arc<Mirror>) {
    let mut wake = state.store.subscribe(resource.shelf);
    let (mut failures, mut wait) = (0, FIRST_WAIT);
    while let Some(now) = served(&state, &resource, &mirror) {
        resource = now;
        wake.mark_unchanged();
        let done = match (mirror.is_filled(), failures) {
            (false, 0) => begin(&state, &resource, &mirror, Begin::History).await,
            (false, _) => begin(&state, &resource, &mirror, Begin::Now).await,
            (true, PATIENCE..) => begin(&state, &resource, &mirror, Begin::Now).await,
            (true, _) => step(&state, &resource, &mirror).await,
        };
        match done {
            Ok(is_done) => {
                (failures, wait) = (0, FIRST_WAIT);
                if is_done && wake.changed().await.is_err() {
                    break;
                }
            }
            Err(broken) => {
                tracing::warn!(resource = %resource.plural, version = %resource.version,
                    key = %broken.key, why = broken.why, "objects could not be converted");
                mirror.fail(broken);
                failures += 1;
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
        }
    }
    // The last objects of a definition that is deleted are removed with it.
    while let Ok(false) = step(&state, &resource, &mirror).await {}
    state.mirrors.remove(&mirror);
    mirror.close();
}

/// Returns the resource, if its definition is still the one that the mirror was made for.
fn served(
    state: &State,
    resource: &ResourceInfo,
    mirror: &Arc<Mirror>,
) -> Option<Arc<ResourceInfo>> {
    let (group, version) = (&resource.group, &resource.version);
    let found = state.registry.find(group, version, &resource.plural);
    let Found::Resource(now) = found else {
        return None;
    };
    let is_same = now.serves_as(resource) && state.mirrors.has(mirror);
    is_same.then_some(now)
}

/// The state of the shelf with which a mirror begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// The oldest one that the store knows.
    History,
    Now,
}

/// Replaces the objects of the mirror. Returns whether there is nothing more to do.
async fn begin(
    state: &State,
    resource: &ResourceInfo,
    mirror: &Mirror,
    begin: Begin,
) -> Result<bool, Broken> {
    let store = &state.store;
    let oldest = || store.view_at(resource.shelf, store.floor()).ok();
    let view = match begin {
        Begin::History => oldest().unwrap_or_else(|| store.shown(resource.shelf)),
        Begin::Now => store.shown(resource.shelf),
    };
    let objects: Vec<Arc<Stored>> = view.snapshot.iter().cloned().collect();
    let mut snapshot = Snapshot::default();
    for part in objects.chunks(EVENTS) {
        for object in shown(state, resource, part).await? {
            snapshot.insert(object);
        }
    }
    mirror.replace(snapshot, view.revision);
    Ok(false)
}

/// Converts the next events. Returns whether there is nothing more to do.
async fn step(state: &State, resource: &ResourceInfo, mirror: &Mirror) -> Result<bool, Broken> {
    let limits = PollLimits {
        events: EVENTS,
        bytes: BYTES,
        ceiling: None,
    };
    let polled = state.store.poll(resource.shelf, mirror.upto(), limits);
    if polled.lost {
        return begin(state, resource, mirror, Begin::Now).await;
    }
    let current = |event: &Event| event.current.clone();
    let objects: Vec<Arc<Stored>> = polled.events.iter().filter_map(current).collect();
    let mut objects = shown(state, resource, &objects).await?.into_iter();
    let change = |event: Event| {
        let old = event.current.as_ref().or(event.previous.as_ref());
        Change {
            revision: event.revision,
            key: old.map_or_else(Box::default, |of| of.key().into()),
            object: event.current.as_ref().and_then(|_| objects.next()),
        }
    };
    mirror.append(polled.events.into_iter().map(change).collect(), polled.upto);
    Ok(polled.remaining == 0)
}
