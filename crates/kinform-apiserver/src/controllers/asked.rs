//! Deletes of controllers about which admission is asked.
//!
//! ```text
//! delete that a controller wants ──defer.rs──▶ queue ──settle──▶ admission ──▶ deleted | stays
//! ```
//!
//! Webhooks and policies see the user of the controller, as on a cluster. A refused object stays, and
//! is asked about again when another write makes its controller look at it.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/{garbagecollector,namespace}`, whose deletes are
//! requests.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::removal::is_terminating;
use super::{follow, garbage};
use crate::access::User;
use crate::admission::{self, Annotations, Kind, Operation, Question, Warnings};
use crate::budget::Meter;
use crate::resource::Propagation;
use crate::state::State;
use crate::state::wanted_deletes::{Wanted, Wish};
use crate::storage::Stored;
use crate::write::admit::{of_delete, with_kind};
use crate::write::options::DeleteOptions;

/// Asks about the deletes that wait, and makes them, until there are none left.
pub(crate) async fn settle(state: &Arc<State>) {
    let mut refused = HashSet::new();
    while let Some(wanted) = state.wanted_deletes.take() {
        if state.stopping.is_cancelled() {
            return;
        }
        let resource = &wanted.resource;
        let key = wanted.object.key();
        let Some(object) = state.store.get(resource.shelf, key) else {
            continue;
        };
        let judged = (resource.shelf, key.to_owned(), object.revision());
        let is_another = object.uid() != wanted.object.uid();
        if is_another || is_terminating(&object) || refused.contains(&judged) {
            continue;
        }
        if is_outdated(&wanted, &object) {
            // Its owners may be others by now.
            garbage::look_again(state, resource.shelf, key);
            continue;
        }
        if may_delete(state, &wanted, &object).await {
            delete(state, &wanted, &object);
        } else {
            refused.insert(judged);
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

/// Deletes an object as it was judged. One that changed meanwhile is looked at again.
fn delete(state: &Arc<State>, wanted: &Wanted, object: &Stored) {
    let resource = &wanted.resource;
    let options = options(wanted, object);
    match follow::delete_object(state, resource, object.key(), &options) {
        Ok(()) => {
            if let Wish::Collected(_) = wanted.wish {
                garbage::note_delete(state, resource, &wanted.object);
            }
        }
        Err(status) if status.code == 409 => match wanted.wish {
            Wish::Collected(_) => garbage::look_again(state, resource.shelf, object.key()),
            Wish::Emptied => state.wanted_deletes.add(wanted.clone()),
        },
        Err(_) => {}
    }
}
