//! Refuses objects that this server would store but never act on, or warns about them.
//!
//! ```text
//! aggregated API -> 501 | Warning
//! ```
//!
//! A test against a server that stores an aggregated API and never passes a request on proves nothing,
//! or misleads. Objects without an effect of their own may be stored: an API service that is the
//! server's own.
//!
//! Upstream: none; there, all of these act.

use kinform_api::Status;
use serde_json::Value;

use crate::object::at;
use crate::resource::ResourceInfo;

/// Refuses an object that this server would not act on.
///
/// # Errors
/// 501 that names the missing component.
pub(crate) fn refuse(resource: &ResourceInfo, object: &Value) -> Result<(), Box<Status>> {
    match warning(resource, object) {
        None => Ok(()),
        Some(message) => Err(Box::new(Status::failure(501, "NotImplemented", message))),
    }
}

/// Returns the words about an object that this server would not act on: the reason of a refusal, or
/// the warning of a server that keeps such objects.
pub(crate) fn warning(resource: &ResourceInfo, object: &Value) -> Option<String> {
    let has = |path: &[&str]| at(object, path).is_some_and(|value| !value.is_null());
    let what = match (resource.group.as_str(), resource.plural.as_str()) {
        ("apiregistration.k8s.io", "apiservices") if has(&["spec", "service"]) => {
            "requests are never passed on to another API server"
        }
        _ => return None,
    };
    Some(format!("not supported by this server: {what}"))
}
