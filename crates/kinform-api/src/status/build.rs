//! The replies of a server, with upstream's reason, code and message.
//!
//! ```text
//! Status::not_found(pods, "x") ──▶ 404 NotFound `pods "x" not found`
//! ```
//!
//! One function for each of upstream's constructors that a list, a watch or a write can meet.
//! The messages are part of the protocol: old clients parse some of them.
//! Upstream: `apimachinery:pkg/api/errors/errors.go`, `apiserver:pkg/storage/errors.go`.

use super::{Status, StatusCause, StatusDetails, reason};
use crate::field_error::{FieldError, aggregate};
use crate::quote::quote;
use crate::resource::{GroupKind, GroupResource};

impl Status {
    /// A failure without details.
    #[must_use]
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            status: "Failure".to_owned(),
            message: message.into(),
            reason: reason.to_owned(),
            code,
            ..Self::default()
        }
    }

    /// Success: the reply to a delete that removes the object immediately.
    #[must_use]
    pub fn success(details: StatusDetails) -> Self {
        Self {
            status: "Success".to_owned(),
            details: Some(details),
            ..Self::default()
        }
    }

    /// With details.
    #[must_use]
    pub fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(details);
        self
    }

    /// With one more cause.
    #[must_use]
    pub fn with_cause(mut self, cause: StatusCause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// With a token for continuing at a newer version.
    #[must_use]
    pub fn with_continue_token(mut self, token: impl Into<String>) -> Self {
        self.metadata.continue_token = token.into();
        self
    }

    /// 404: the object does not exist.
    #[must_use]
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", quote(name));
        Self::failure(404, reason::NOT_FOUND, message).with_details(about(resource, name))
    }

    /// 404: the resource does not exist, in a group and version that does.
    #[must_use]
    pub fn no_such_resource() -> Self {
        Self::failure(
            404,
            reason::NOT_FOUND,
            "the server could not find the requested resource",
        )
        .with_details(StatusDetails::default())
    }

    /// 409: the name is taken.
    #[must_use]
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quote(name));
        Self::failure(409, reason::ALREADY_EXISTS, message).with_details(about(resource, name))
    }

    /// 409: no free name was found for a generated one.
    #[must_use]
    pub fn generate_name_conflict(
        resource: &GroupResource,
        name: &str,
        retry_after_seconds: u32,
    ) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for \
             the object",
            quote(name)
        );
        let details = StatusDetails {
            retry_after_seconds,
            ..about(resource, name)
        };
        Self::failure(409, reason::ALREADY_EXISTS, message).with_details(details)
    }

    /// 409: the write cannot be done, for the reason given.
    #[must_use]
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {}: {why}",
            quote(name)
        );
        Self::failure(409, reason::CONFLICT, message).with_details(about(resource, name))
    }

    /// 409: the object changed since it was read.
    #[must_use]
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    /// 401: the caller is not authenticated.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::failure(401, reason::UNAUTHORIZED, "Unauthorized")
    }

    /// 403: not allowed, for the reason given. `name` is empty for a collection.
    #[must_use]
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = match (resource.resource.is_empty(), name) {
            (true, _) => format!("forbidden: {why}"),
            (false, "") => format!("{resource} is forbidden: {why}"),
            (false, name) => format!("{resource} {} is forbidden: {why}", quote(name)),
        };
        Self::failure(403, reason::FORBIDDEN, message).with_details(about(resource, name))
    }

    /// 403: this user may not do this here. `name` is empty for a collection.
    ///
    /// Upstream: `apiserver:pkg/endpoints/handlers/responsewriters/errors.go` (`Forbidden`).
    #[must_use]
    pub fn access_denied(
        user: &str,
        verb: &str,
        resource: &GroupResource,
        name: &str,
        namespace: Option<&str>,
    ) -> Self {
        let place = match namespace {
            None | Some("") => "at the cluster scope".to_owned(),
            Some(namespace) => format!("in the namespace {}", quote(namespace)),
        };
        let why = format!(
            "User {} cannot {verb} resource {} in API group {} {place}",
            quote(user),
            quote(&resource.resource),
            quote(&resource.group)
        );
        Self::forbidden(resource, name, &why)
    }

    /// 403: a namespace that is being deleted takes no new objects.
    #[must_use]
    pub fn namespace_terminating(resource: &GroupResource, name: &str, namespace: &str) -> Self {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        Self::forbidden(resource, name, &why).with_cause(StatusCause {
            reason: reason::CAUSE_NAMESPACE_TERMINATING.to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        })
    }

    /// 410: a version or a continue token is too old.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, reason::EXPIRED, message)
    }

    /// 410: a watch from before the oldest event that a watch cache holds.
    #[must_use]
    pub fn too_old_resource_version(asked: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// 410: the requested resource is gone for good.
    #[must_use]
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, reason::GONE, message)
    }

    /// 422: the object, or the options of a request, are invalid.
    #[must_use]
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&aggregate(errors));
        }
        let causes = errors.iter().map(|error| StatusCause {
            reason: error.kind().reason().to_owned(),
            message: error.body(),
            field: error.field().to_owned(),
        });
        Self::failure(422, reason::INVALID, message).with_details(StatusDetails {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes: causes.collect(),
            ..StatusDetails::default()
        })
    }

    /// 422: the options of a list or a watch do not fit together.
    #[must_use]
    pub fn invalid_list_options(errors: &[FieldError]) -> Self {
        Self::invalid(&GroupKind::new("meta.k8s.io", "ListOptions"), "", errors)
    }

    /// 400: the request makes no sense, for the reason given.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, reason::BAD_REQUEST, message)
    }

    /// 405: the resource does not support this verb.
    #[must_use]
    pub fn method_not_supported(resource: &GroupResource, verb: &str) -> Self {
        let shown = quote(&resource.to_string());
        let message = format!("{verb} is not supported on resources of kind {shown}");
        Self::failure(405, reason::METHOD_NOT_ALLOWED, message).with_details(about(resource, ""))
    }

    /// 405: the path does not take this method.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::failure(
            405,
            reason::METHOD_NOT_ALLOWED,
            "the server does not allow this method on the requested resource",
        )
        .with_details(StatusDetails::default())
    }

    /// 406: the server supports none of the accepted media types; it supports those in `available`.
    #[must_use]
    pub fn not_acceptable(available: &[&str]) -> Self {
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            available.join(", ")
        );
        Self::failure(406, reason::NOT_ACCEPTABLE, message).with_details(StatusDetails::default())
    }

    /// 413: the body is longer than `limit` bytes.
    #[must_use]
    pub fn request_entity_too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::failure(413, reason::REQUEST_ENTITY_TOO_LARGE, message)
    }

    /// 415: the body's media type is not one of those in `accepted`.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, reason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// 429: try again later.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(429, reason::TOO_MANY_REQUESTS, message)
            .with_details(retry_after(retry_after_seconds))
    }

    /// 500: the server failed, for the reason given.
    #[must_use]
    pub fn internal_error(why: &str) -> Self {
        let cause = StatusCause {
            message: why.to_owned(),
            ..StatusCause::default()
        };
        Self::failure(
            500,
            reason::INTERNAL_ERROR,
            format!("Internal error occurred: {why}"),
        )
        .with_cause(cause)
    }

    /// 503: the server cannot answer now.
    #[must_use]
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, reason::SERVICE_UNAVAILABLE, message)
    }

    /// 504: the request was not done in time. Its message begins with `Timeout: `.
    #[must_use]
    pub fn timeout(message: &str, retry_after_seconds: u32) -> Self {
        Self::failure(504, reason::TIMEOUT, format!("Timeout: {message}"))
            .with_details(retry_after(retry_after_seconds))
    }

    /// 504: the server has not reached the requested version.
    #[must_use]
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        Self::timeout(&message, 1).with_cause(StatusCause {
            reason: reason::CAUSE_RESOURCE_VERSION_TOO_LARGE.to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        })
    }
}

fn about(resource: &GroupResource, name: &str) -> StatusDetails {
    StatusDetails {
        name: name.to_owned(),
        group: resource.group.clone(),
        kind: resource.resource.clone(),
        ..StatusDetails::default()
    }
}

fn retry_after(retry_after_seconds: u32) -> StatusDetails {
    StatusDetails {
        retry_after_seconds,
        ..StatusDetails::default()
    }
}
