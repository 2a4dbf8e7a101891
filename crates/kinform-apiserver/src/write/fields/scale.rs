//! Ownership of the number of replicas, as it looks from the scale subresource.
//!
//! ```text
//! managers of the object ──inward──▶ managers of the Scale ──write──▶ ──outward──▶ managers of the object
//! ```
//!
//! Upstream: `apimachinery:pkg/util/managedfields/scalehandler.go`.

use super::element::Element;
use super::managed::{Managed, Operation, Owned};
use super::set::Set;

/// The version of the kind that the subresource speaks.
pub(super) const VERSION: &str = "autoscaling/v1";
const REPLICAS: &str = "spec.replicas";

/// Who owns the number, as managers of a `Scale`. `path` is where the object has it.
pub(super) fn inward(parent: &Managed, path: &str) -> Managed {
    let (path, mut scale) = (steps(path), Managed::default());
    for (manager, owned) in &parent.owners {
        if owned.set.has(&path) {
            let owned = Owned {
                set: Set::of_paths(&[REPLICAS]),
                version: VERSION.to_owned(),
            };
            scale.owners.insert(manager.clone(), owned);
            let time = parent.times.get(manager).cloned();
            scale.times.extend(time.map(|time| (manager.clone(), time)));
        }
    }
    scale
}

/// Who owns what of the object after a write of the `Scale`; `version` is the object's.
///
/// As upstream's, the entries of who scales have no time.
pub(super) fn outward(parent: &Managed, scale: Managed, path: &str, version: &str) -> Managed {
    let (steps, number) = (steps(path), Set::of_paths(&[path]));
    let mut managed = parent.clone();
    let losers = parent
        .owners
        .iter()
        .filter(|(manager, owned)| owned.set.has(&steps) && !scale.owners.contains_key(*manager));
    for (manager, _) in losers {
        managed.take(manager, &number);
    }
    let wanted = steps_of_scale();
    for (mut manager, owned) in scale.owners {
        if !owned.set.has(&wanted) || parent.owners.contains_key(&manager) {
            continue;
        }
        if manager.operation == Operation::Update {
            version.clone_into(&mut manager.version);
            managed.times.remove(&manager);
        }
        let owned = Owned {
            set: number.clone(),
            version: version.to_owned(),
        };
        managed.owners.insert(manager, owned);
    }
    managed
}

fn steps(path: &str) -> Vec<Element> {
    path.split('.').map(Element::field).collect()
}

fn steps_of_scale() -> Vec<Element> {
    steps(REPLICAS)
}
