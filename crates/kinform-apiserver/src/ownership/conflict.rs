//! Apply conflicts: changed fields that other managers own, and the refusal that names them.
//!
//! ```text
//! changed paths + managers -> find -> [Conflict { manager, path }] -> 409 with a cause for each path
//! ```
//!
//! Upstream: `apimachinery:pkg/util/managedfields/internal/conflict.go`.

use kinform_api::{Status, StatusCause, StatusDetails, reason};

use super::element::Element;
use super::managed::{Managed, Manager};
use super::set::Set;

/// BOUND: the number of conflicts that are found. A list of this length may be cut, so it must not
/// decide that all conflicts are harmless.
pub(super) const MOST_CONFLICTS: usize = 10_000;

/// A path that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) manager: Manager,
    pub(super) path: Vec<Element>,
}

/// Finds the changed paths that managers other than the applier own: the conflicts, and what each
/// of these managers loses if they are forced. What is changed depends on the version of a manager.
pub(super) fn find<'s>(
    managed: &Managed,
    applier: &Manager,
    changed_in: impl Fn(&str) -> &'s Set,
) -> (Vec<Conflict>, Vec<(Manager, Set)>) {
    let mut conflicts = Vec::new();
    let mut taken = Vec::new();
    for (other, owned) in managed.owners.iter().filter(|(other, _)| *other != applier) {
        let both = owned.set.intersection(changed_in(&owned.version));
        both.each(&mut Vec::new(), &mut |path| {
            if conflicts.len() < MOST_CONFLICTS {
                conflicts.push(Conflict {
                    manager: other.clone(),
                    path: path.to_vec(),
                });
            }
        });
        taken.push((other.clone(), both));
    }
    (conflicts, taken)
}

/// 409, with a cause for each path.
///
/// Upstream: `apimachinery:pkg/util/managedfields/internal/conflict.go`.
pub(super) fn conflict(conflicts: &[Conflict]) -> Box<Status> {
    let path =
        |conflict: &Conflict| -> String { conflict.path.iter().map(ToString::to_string).collect() };
    let message = if let [one] = conflicts {
        let (manager, path) = (&one.manager, path(one));
        format!("Apply failed with 1 conflict: conflict with {manager}: {path}")
    } else {
        let mut lines: Vec<String> = Vec::new();
        let mut last = None;
        for one in conflicts {
            if last != Some(&one.manager) {
                lines.push(format!("conflicts with {}:", one.manager));
                last = Some(&one.manager);
            }
            lines.push(format!("- {}", path(one)));
        }
        let (count, lines) = (conflicts.len(), lines.join("\n"));
        format!("Apply failed with {count} conflicts: {lines}")
    };
    let cause = |one: &Conflict| StatusCause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", one.manager),
        field: path(one),
    };
    let details = StatusDetails {
        causes: conflicts.iter().map(cause).collect(),
        ..StatusDetails::default()
    };
    let status = Status::failure(409, reason::CONFLICT, message);
    Box::new(status.with_details(details))
}
