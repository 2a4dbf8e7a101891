//! Ownership of the number of replicas, as the scale subresource presents it.
//!
//! ```text
//! managers of the object ──inward──▶ managers of the Scale ──write──▶ ──outward──▶ managers of the object
//! ```
//!
//! Upstream: `apimachinery:pkg/util/managedfields/scalehandler.go`.

use super::element::Element;
use super::managed::{Managed, Manager, Operation, Owned};
use super::set::Set;

/// The version of the scale subresource's kind.
pub(super) const VERSION: &str = "autoscaling/v1";
const REPLICAS: &str = "spec.replicas";

/// Returns the owners of the number of replicas as managers of a `Scale`. `path` is the number's
/// path in the object.
pub(super) fn inward(parent: &Managed, path: &str) -> Managed {
    let (path, mut scale) = (steps(path), Managed::default());
    for (manager, owned) in &parent.owners {
        if owned.set.has(&path) {
            let owned = Owned {
                set: Set::of_paths(&[REPLICAS]),
                version: VERSION.to_owned(),
            };
            let time = parent.times.get(manager).cloned();
            let manager = seen(manager);
            scale.times.extend(time.map(|time| (manager.clone(), time)));
            scale.owners.insert(manager, owned);
        }
    }
    scale
}

/// Returns the managers of the object after a write of the `Scale`; `version` is the object's.
///
/// As in upstream, updaters of the number lose the time of their entries, because the managers of a
/// `Scale` differ from those of the object.
pub(super) fn outward(parent: &Managed, mut scale: Managed, path: &str, version: &str) -> Managed {
    let (place, number) = (steps(path), Set::of_paths(&[path]));
    let mut managed = parent.clone();
    for (manager, owned) in &parent.owners {
        if owned.set.has(&place) && scale.owners.remove(manager).is_none() {
            managed.take(manager, &number);
        }
    }
    let wanted = steps(REPLICAS);
    for (mut manager, owned) in scale.owners {
        if !owned.set.has(&wanted) {
            continue;
        }
        if manager.operation == Operation::Update {
            version.clone_into(&mut manager.version);
            if !managed.owners.contains_key(&manager) {
                managed.times.remove(&manager);
            }
        }
        let owned = managed.owners.entry(manager).or_insert_with(|| Owned {
            set: Set::default(),
            version: version.to_owned(),
        });
        owned.set = std::mem::take(&mut owned.set).union(number.clone());
    }
    managed
}

/// Returns a manager as a manager of the `Scale`.
fn seen(manager: &Manager) -> Manager {
    let mut manager = manager.clone();
    if manager.operation == Operation::Update {
        VERSION.clone_into(&mut manager.version);
    }
    manager
}

fn steps(path: &str) -> Vec<Element> {
    path.split('.').map(Element::field).collect()
}
