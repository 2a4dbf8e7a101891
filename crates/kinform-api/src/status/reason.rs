//! The reasons of a `Status`, and of its causes.
//!
//! ```text
//! "NotFound" ──▶ reason::NOT_FOUND; anything else is a reason too, just not a known one
//! ```
//!
//! Reasons are strings on the wire and stay strings: a server may invent new ones. `KNOWN` lists
//! those that decide alone; for others the HTTP code does.
//! Upstream: `apimachinery:pkg/apis/meta/v1/types.go` (`StatusReason`, `CauseType`).

/// The caller is not authenticated (401).
pub const UNAUTHORIZED: &str = "Unauthorized";
/// The caller is not authorized (403).
pub const FORBIDDEN: &str = "Forbidden";
/// The object or resource does not exist (404).
pub const NOT_FOUND: &str = "NotFound";
/// The name is taken (409).
pub const ALREADY_EXISTS: &str = "AlreadyExists";
/// The object changed meanwhile, or a precondition failed (409).
pub const CONFLICT: &str = "Conflict";
/// The requested resource is gone for good (410).
pub const GONE: &str = "Gone";
/// The version or continue token is too old (410).
pub const EXPIRED: &str = "Expired";
/// The object or the options are invalid (422).
pub const INVALID: &str = "Invalid";
/// The server could not complete the request in time; try again (500).
pub const SERVER_TIMEOUT: &str = "ServerTimeout";
/// The storage could not read an object (500).
pub const STORE_READ_ERROR: &str = "StorageReadError";
/// The request timed out, or asks for a version that the server has not reached (504).
pub const TIMEOUT: &str = "Timeout";
/// Try again later (429).
pub const TOO_MANY_REQUESTS: &str = "TooManyRequests";
/// The request does not make sense (400).
pub const BAD_REQUEST: &str = "BadRequest";
/// The resource does not support this verb (405).
pub const METHOD_NOT_ALLOWED: &str = "MethodNotAllowed";
/// The server supports none of the accepted media types (406).
pub const NOT_ACCEPTABLE: &str = "NotAcceptable";
/// The request's body is too large (413).
pub const REQUEST_ENTITY_TOO_LARGE: &str = "RequestEntityTooLarge";
/// The media type of the request's body is not supported (415).
pub const UNSUPPORTED_MEDIA_TYPE: &str = "UnsupportedMediaType";
/// The server failed (500).
pub const INTERNAL_ERROR: &str = "InternalError";
/// The server cannot answer now (503).
pub const SERVICE_UNAVAILABLE: &str = "ServiceUnavailable";

/// Cause: the server has not reached the requested version.
pub const CAUSE_RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";
/// Cause: the namespace is being deleted.
pub const CAUSE_NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
/// Cause: another manager owns a field.
pub const CAUSE_FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";
/// Cause: the reply was not a `Status`.
pub const CAUSE_UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";

/// Reasons that decide alone, whatever the code.
pub(super) const KNOWN: [&str; 19] = [
    UNAUTHORIZED,
    FORBIDDEN,
    NOT_FOUND,
    ALREADY_EXISTS,
    CONFLICT,
    GONE,
    INVALID,
    SERVER_TIMEOUT,
    STORE_READ_ERROR,
    TIMEOUT,
    TOO_MANY_REQUESTS,
    BAD_REQUEST,
    METHOD_NOT_ALLOWED,
    NOT_ACCEPTABLE,
    REQUEST_ENTITY_TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
    INTERNAL_ERROR,
    EXPIRED,
    SERVICE_UNAVAILABLE,
];
