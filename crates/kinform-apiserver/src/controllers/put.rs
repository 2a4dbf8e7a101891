//! Writes that a controller makes of whole objects.
//!
//! ```text
//! object (over the stored one) -> owners of its fields -> store, unless another writer was faster
//! ```

use serde_json::Value;

use crate::budget::Meter;
use crate::object::part::Part;
use crate::ownership::{self, Writer};
use crate::resource::ResourceInfo;
use crate::state::State;
use crate::storage::{Draft, Expect, Stored};

/// The field manager of the controllers of a real cluster.
const MANAGER: &str = "kube-controller-manager";

/// Stores an object as a controller does, unless another writer was faster.
pub(super) fn put(
    state: &State,
    resource: &ResourceInfo,
    mut object: Value,
    over: Option<&Stored>,
) {
    let writer = Writer {
        resource,
        manager: MANAGER,
        now: state.clock.now(),
        meter: &Meter::endless(),
    };
    let expect = match over {
        None => {
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
