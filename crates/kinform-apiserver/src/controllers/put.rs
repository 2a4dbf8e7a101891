//! Writes that a controller makes of whole objects.
//!
//! ```text
//! object (over the stored one) -> owners of its fields -> store, unless another writer was faster
//! ```

use jiff::Timestamp;
use serde_json::Value;

use crate::budget::Meter;
use crate::object::metadata;
use crate::object::part::Part;
use crate::ownership::{self, Writer};
use crate::random;
use crate::resource::ResourceInfo;
use crate::state::State;
use crate::storage::{Draft, Expect, Stored};

/// The field manager of the controllers of a real cluster.
pub(super) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// The field manager of what a real API server writes itself.
pub(super) const API_SERVER: &str = "apiserver";

/// Stores an object as this field manager does, unless another writer was faster.
pub(super) fn put(
    state: &State,
    (resource, manager): (&ResourceInfo, &str),
    mut object: Value,
    over: Option<&Stored>,
) {
    let writer = Writer {
        resource,
        manager,
        now: state.clock.now(),
        meter: &Meter::endless(),
    };
    let expect = match over {
        None => {
            begin(&mut object, writer.now);
            ownership::created(&writer, &mut object);
            Expect::Absent
        }
        Some(old) => {
            ownership::updated(&writer, Part::Main, &mut object, &old.value());
            Expect::Revision(old.revision())
        }
    };
    if let Some(draft) = Draft::new(&resource.fields, object) {
        drop(state.store.put(resource.shelf, draft, expect));
    }
}

/// Gives a new object its identity.
fn begin(object: &mut Value, now: Timestamp) {
    let members = metadata::of(object);
    let uid = random::uid();
    members.insert("uid".to_owned(), uid.into());
    members.insert("creationTimestamp".to_owned(), metadata::time(now));
}
