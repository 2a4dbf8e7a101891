//! An authorization decision, and the error of a refusal.
//!
//! ```text
//! user + attributes -> Decision -> 403 in upstream's words
//! ```

use kinform_api::{GroupResource, Status, StatusDetails, reason};

use super::attributes::{Attributes, Subject};
use super::user::User;

/// An authorization decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) is_allowed: bool,
    /// The reason of the permission; empty if there is none to report.
    pub(crate) reason: String,
}

impl Decision {
    pub(super) fn yes() -> Self {
        Self {
            is_allowed: true,
            reason: String::new(),
        }
    }
}

/// 403 with upstream's words.
///
/// Upstream: `apiserver:pkg/endpoints/handlers/responsewriters/errors.go`.
pub(crate) fn forbidden(user: &User, asked: &Attributes) -> Status {
    let (who, verb) = (user.name(), &asked.verb);
    let Subject::Resource(of) = &asked.subject else {
        let path = &asked.path;
        let message = format!("forbidden: User {who:?} cannot {verb} path {path:?}");
        return Status::failure(403, reason::FORBIDDEN, message)
            .with_details(StatusDetails::default());
    };
    let place = match of.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let (group, combined) = (&of.group, of.combined());
    let why =
        format!("User {who:?} cannot {verb} resource {combined:?} in API group {group:?} {place}");
    let resource = GroupResource::new(of.group.as_str(), of.resource.as_str());
    Status::forbidden(&resource, &of.name, &why)
}
