//! Apply conflicts: fields of a configuration that other managers own, and the refusal that names them.
//!
//! ```text
//! [Conflict { manager, path }] -> 409 with a cause for each path
//! ```
//!
//! Upstream: `apimachinery:pkg/util/managedfields/internal/conflict.go`.

use kinform_api::{Status, StatusCause, StatusDetails, reason};

use super::element::Element;
use super::managed::Manager;

/// A path that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) manager: Manager,
    pub(super) path: Vec<Element>,
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
