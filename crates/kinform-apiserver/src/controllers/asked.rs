//! Deletes of controllers about which admission is asked.
//!
//! ```text
//! delete that a controller wants ──defer.rs──▶ queue ──Asking, a task──▶ admission ──▶ deleted | stays
//! reply of the write ◀──settle, for a while── nothing waits any more
//! ```
//!
//! The task is the server's: a client that hangs up ends none of this.
//!
//! Webhooks and policies see the user of the controller, as on a cluster. A refused object stays, and
//! is asked about again when another write makes its controller look at it.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/{garbagecollector,namespace}`, whose deletes are
//! requests.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::namespace::drain_namespace;
use super::removal::is_terminating;
use super::{effects, follow, garbage};
use crate::access::User;
use crate::admission::{self, Annotations, Kind, Operation, Question, Warnings};
use crate::budget::Meter;
use crate::resource::Propagation;
use crate::state::State;
use crate::state::wanted_deletes::{Wanted, Wish};
use crate::storage::{Shelf, Stored};
use crate::write::admit::{of_delete, with_kind};
use crate::write::options::DeleteOptions;

/// BOUND: the time for which a reply waits for the deletes that its write caused. Later ones are made
/// all the same. A webhook that writes here before it answers would else wait for its own answer.
const WAIT: Duration = Duration::from_secs(2);

/// Begins the task that asks, if deletes wait and none runs.
pub(crate) fn begin(state: &Arc<State>) {
    if !state.wanted_deletes.begins() {
        return;
    }
    let task = Asking::new(state).run();
    let task = state.stopping.clone().run_until_cancelled_owned(task);
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(task);
    }
    // Without a runtime the next request begins one: the task that was dropped says so.
}

/// Waits for the deletes that a write caused: `before` is how many had been added until then.
pub(crate) async fn settle(state: &Arc<State>, before: u64) {
    // An earlier task may have ended with its runtime.
    begin(state);
    let added = state.wanted_deletes.added();
    if added > before {
        let settled = state.wanted_deletes.settled(added);
        let settled = state.stopping.run_until_cancelled(settled);
        drop(tokio::time::timeout(WAIT, settled).await);
    }
}

/// The task that asks about deletes, one after the other, and makes them.
struct Asking {
    state: Arc<State>,
    /// The one that is being asked about. It waits again if the task ends before the answer.
    current: Option<Wanted>,
    /// Objects as they were when their deletes were refused in this run.
    refused: HashSet<(Shelf, String, u64)>,
    /// Namespaces from which objects were deleted since they were looked at.
    namespaces: BTreeSet<String>,
    is_done: bool,
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(wanted) = self.current.take() {
            self.state.wanted_deletes.put_back(wanted);
        }
        // Otherwise another task may have begun: it is not this one's to end.
        if !self.is_done {
            self.state.wanted_deletes.rest();
        }
    }
}

impl Asking {
    fn new(state: &Arc<State>) -> Self {
        Self {
            state: state.clone(),
            current: None,
            refused: HashSet::new(),
            namespaces: BTreeSet::new(),
            is_done: false,
        }
    }

    async fn run(mut self) {
        while !self.is_done {
            while let Some(wanted) = self.state.wanted_deletes.take() {
                self.current = Some(wanted.clone());
                self.ask(&wanted).await;
                self.current = None;
            }
            for namespace in std::mem::take(&mut self.namespaces) {
                drain_namespace(&self.state, &namespace);
                garbage::run(&self.state);
            }
            self.is_done = self.state.wanted_deletes.ends();
        }
    }

    /// Asks about one delete, and makes it.
    async fn ask(&mut self, wanted: &Wanted) {
        let resource = &wanted.resource;
        let key = wanted.object.key();
        let Some(object) = self.state.store.get(resource.shelf, key) else {
            return;
        };
        let judged = (resource.shelf, key.to_owned(), object.revision());
        let is_another = object.uid() != wanted.object.uid();
        if is_another || is_terminating(&object) || self.refused.contains(&judged) {
            return;
        }
        if is_outdated(wanted, &object) {
            // Its owners may be others by now.
            garbage::look_again(&self.state, resource.shelf, key);
        } else if !may_delete(&self.state, wanted, &object).await {
            self.refused.insert(judged);
        } else if !self.state.stopping.is_cancelled() {
            self.delete(wanted, &object);
        }
    }

    /// Deletes an object as it was judged. One that changed meanwhile is looked at again.
    fn delete(&mut self, wanted: &Wanted, object: &Stored) {
        let (state, resource) = (&self.state, &wanted.resource);
        let options = options(wanted, object);
        match wanted.wish {
            Wish::Collected(_) => {
                match follow::delete_object(state, resource, object.key(), &options) {
                    Ok(()) => garbage::note_delete(state, resource, &wanted.object),
                    Err(status) if status.code == 409 => {
                        garbage::look_again(state, resource.shelf, object.key());
                    }
                    Err(_) => {}
                }
            }
            Wish::Emptied => {
                match effects::delete_in_namespace(state, resource, object.key(), &options) {
                    Ok(()) => self
                        .namespaces
                        .extend(object.namespace().map(str::to_owned)),
                    Err(status) if status.code == 409 => state.wanted_deletes.add(wanted.clone()),
                    Err(_) => {}
                }
            }
        }
    }
}

fn is_outdated(wanted: &Wanted, object: &Stored) -> bool {
    let is_collected = matches!(wanted.wish, Wish::Collected(_));
    is_collected && object.revision() != wanted.object.revision()
}

/// The options of a delete: of this very object, as it was judged.
fn options(wanted: &Wanted, object: &Stored) -> DeleteOptions {
    let (grace, propagation) = match wanted.wish {
        Wish::Collected(propagation) => (None, propagation),
        Wish::Emptied => (Some(0), Propagation::Background),
    };
    DeleteOptions {
        grace_period_seconds: grace,
        propagation: Some(propagation),
        uid: Some(object.uid().to_owned()),
        resource_version: Some(object.revision().to_string()),
        ..DeleteOptions::default()
    }
}

/// Asks admission as the controller would.
async fn may_delete(state: &State, wanted: &Wanted, object: &Stored) -> bool {
    let resource = &*wanted.resource;
    // A namespace is emptied by deletes of many, which name no object.
    let (account, name) = match wanted.wish {
        Wish::Collected(_) => ("generic-garbage-collector", object.name()),
        Wish::Emptied => ("namespace-controller", ""),
    };
    let user = User::service_account("kube-system", account).authenticated();
    let shown = || match wanted.wish {
        Wish::Collected(_) => of_delete(&options(wanted, object), resource, object.uid()),
        Wish::Emptied => json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1",
            "propagationPolicy": "Background"}),
    };
    let shown: &(dyn Fn() -> Value + Sync) = &shown;
    let question = Question {
        state,
        user: &user,
        resource,
        subresource: "",
        kind: Kind::of(resource),
        operation: Operation::Delete,
        namespace: object.namespace(),
        name,
        options: shown,
        dry_run: false,
        meter: &Meter::endless(),
        warnings: &Warnings::default(),
        annotations: &Annotations::default(),
    };
    let old = resource.to_shown(object.value(), &Meter::of_object());
    let old = with_kind(resource, old);
    match admission::delete(&question, &old).await {
        Ok(()) => true,
        Err(status) => {
            tracing::info!(
                key = object.key(),
                why = status.message,
                "a delete was refused"
            );
            false
        }
    }
}
