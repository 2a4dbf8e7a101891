//! Commits under the storage's compare-and-swap.
//!
//! ```text
//! stored state -> Outcome -> put | remove, expecting that state -> the object under its new revision
//! ```
//!
//! A commit returns the written object. The router calls `controllers/` for its consequences.
//!
//! Upstream: `kubernetes/apiserver:pkg/storage/etcd3/store.go` (`GuaranteedUpdate`).

use std::sync::Arc;

use http::Response;
use kinform_api::Status;
use serde_json::Value;

use super::{Action, Outcome};
use crate::http::body::Body;
use crate::resource::ResourceInfo;
use crate::storage::{Draft, Expect, Store, Stored};

/// BOUND: attempts of a write that loses races against other writers.
pub(crate) const TRIES: usize = 64;

/// A write that was committed, and its reply.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) resource: Arc<ResourceInfo>,
    /// The object as it was stored or removed, or the stored one if the write changed nothing;
    /// `None` if there is no object.
    pub(crate) object: Option<Arc<Stored>>,
    /// Set if the write created the object.
    pub(crate) is_new: bool,
    pub(crate) reply: Response<Body>,
}

/// Deletes one object, retrying lost races; returns the stored or removed object.
///
/// # Errors
/// The refusal of the last attempt, and 409 if every attempt lost a race.
pub(crate) fn delete_stored(
    store: &Store,
    resource: &ResourceInfo,
    key: &str,
    ask: impl Fn(Option<&Value>) -> Result<Outcome, Box<Status>>,
) -> Result<Option<Arc<Stored>>, Box<Status>> {
    for _ in 0..TRIES {
        let current = store.get(resource.shelf, key);
        let outcome = ask(current.as_ref().map(|current| current.value()).as_ref())?;
        let Some(current) = current else {
            return Ok(None);
        };
        let expect = Expect::Revision(current.revision());
        let done = match outcome.action {
            Action::Nothing => return Ok(None),
            Action::Create(object) | Action::Replace(object) => {
                let Some(draft) = Draft::new(&resource.fields, object) else {
                    return Ok(None);
                };
                store.put(resource.shelf, draft, expect)
            }
            Action::Remove => store.remove(resource.shelf, key, expect),
        };
        if let Ok(done) = done {
            return Ok(Some(done.object));
        }
    }
    let name = key.rsplit('/').next().unwrap_or_default();
    Err(Box::new(Status::modified(&resource.group_resource(), name)))
}
