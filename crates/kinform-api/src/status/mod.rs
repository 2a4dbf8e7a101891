//! `Status`: a server's reply without an object, mostly a failure.
//!
//! ```text
//! bytes ──read leniently──▶ Status ──ask──▶ is_expired? retry_after?
//!                           Status ──written exactly──▶ bytes
//! ```
//!
//! Parsing is lenient, since a proxy may have changed the reply: any field may be missing, null, or
//! of the wrong type, and then counts as absent. Writing has upstream's fields in upstream's order.
//! The `is_` methods follow upstream's rule: a known reason decides; without one, the code does. A
//! Status never holds more than the reply; its reader bounds the body.
//! Upstream: `apimachinery:pkg/apis/meta/v1/types.go` (`Status`) and `pkg/api/errors`.

mod build;
mod read;
pub mod reason;

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// A server's reply that is not an object: almost always a failure.
///
/// Displays the message, or the reason or code without one. Deserializing never fails on an object,
/// see [`Status::from_slice`].
///
/// Upstream: `metav1.Status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Version and continue token, if the reply has them.
    pub metadata: StatusMetadata,
    /// `Failure` or `Success`; empty if absent.
    pub status: String,
    /// For people.
    pub message: String,
    /// For programs: one of [`reason`], or an unknown one; empty if absent.
    pub reason: String,
    /// More for programs. An empty value is written, `None` is not.
    pub details: Option<StatusDetails>,
    /// The HTTP code; 0 if absent.
    pub code: u16,
}

/// The metadata of a [`Status`].
///
/// Upstream: `metav1.ListMeta`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusMetadata {
    /// The version that the reply belongs to; empty if absent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// A token for continuing at a newer version, in the reply to an expired one.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// The number of items that a list has left; servers omit it in a Status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// The subject of a [`Status`].
///
/// Upstream: `metav1.StatusDetails`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group of the kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (`pods`), or the kind (`Pod`) where an object is invalid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The causes, one for each error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// The delay in seconds before the next try; 0 if absent.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One error.
///
/// Upstream: `metav1.StatusCause`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StatusCause {
    /// For programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Status {
    /// Returns whether this is a success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status == "Success"
    }

    /// Returns whether history is gone: a version or continue token is too old (410).
    ///
    /// Upstream: `IsResourceExpired` or `IsGone`, which every caller combines.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.reason == reason::EXPIRED || self.is_gone()
    }

    /// Returns whether the reason is `Gone`, or the code 410 without a known reason.
    ///
    /// Upstream: `IsGone`.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.says(reason::GONE, 410)
    }

    /// Returns whether the requested version is one that the server has not reached.
    ///
    /// Servers before 1.18.6 stated it in a cause's message, before 1.17 in the message only.
    ///
    /// Upstream: `isTooLargeResourceVersionError` in `client-go:tools/cache/reflector.go`.
    #[must_use]
    pub fn is_too_large_resource_version(&self) -> bool {
        const OLD_TEXT: &str = "Too large resource version";
        let Some(details) = &self.details else {
            return false;
        };
        if self.has_cause(reason::CAUSE_RESOURCE_VERSION_TOO_LARGE) {
            return true;
        }
        self.is_timeout()
            && (details.causes.iter().any(|c| c.message == OLD_TEXT)
                || self.message.contains(OLD_TEXT))
    }

    /// Returns whether the object or resource does not exist (404).
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.says(reason::NOT_FOUND, 404)
    }

    /// Returns whether a name is taken (409).
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.reason == reason::ALREADY_EXISTS
    }

    /// Returns whether the object changed meanwhile (409).
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.says(reason::CONFLICT, 409)
    }

    /// Returns whether the object or the options are invalid (422).
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.says(reason::INVALID, 422)
    }

    /// Returns whether the request makes no sense (400).
    #[must_use]
    pub fn is_bad_request(&self) -> bool {
        self.says(reason::BAD_REQUEST, 400)
    }

    /// Returns whether the caller is not authenticated (401).
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.says(reason::UNAUTHORIZED, 401)
    }

    /// Returns whether the caller is not authorized (403).
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.says(reason::FORBIDDEN, 403)
    }

    /// Returns whether the resource does not support the verb (405).
    #[must_use]
    pub fn is_method_not_allowed(&self) -> bool {
        self.says(reason::METHOD_NOT_ALLOWED, 405)
    }

    /// Returns whether the server supports no accepted media type (406).
    #[must_use]
    pub fn is_not_acceptable(&self) -> bool {
        self.says(reason::NOT_ACCEPTABLE, 406)
    }

    /// Returns whether the server asks to try again later (429), whatever the reason.
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.reason == reason::TOO_MANY_REQUESTS || self.code == 429
    }

    /// Returns whether the server failed (500 without another known reason).
    #[must_use]
    pub fn is_internal_error(&self) -> bool {
        self.says(reason::INTERNAL_ERROR, 500)
    }

    /// Returns whether the server cannot answer now (503).
    #[must_use]
    pub fn is_service_unavailable(&self) -> bool {
        self.says(reason::SERVICE_UNAVAILABLE, 503)
    }

    /// Returns whether the request took too long (504).
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.says(reason::TIMEOUT, 504)
    }

    /// The delay before the next try, if the server stated one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Returns whether one of the causes has this reason.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details
            .iter()
            .flat_map(|d| &d.causes)
            .any(|c| c.reason == reason)
    }

    /// As JSON, byte for byte as a Go server writes it.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let json = serde_json::to_string(self).expect("strings and numbers always serialize");
        let mut out = String::with_capacity(json.len());
        // These stand only inside strings, where Go escapes them.
        for c in json.chars() {
            match c {
                '<' => out.push_str("\\u003c"),
                '>' => out.push_str("\\u003e"),
                '&' => out.push_str("\\u0026"),
                '\u{2028}' => out.push_str("\\u2028"),
                '\u{2029}' => out.push_str("\\u2029"),
                c => out.push(c),
            }
        }
        out.into_bytes()
    }

    /// A known reason decides; without one, the code does.
    fn says(&self, reason: &str, code: u16) -> bool {
        self.reason == reason
            || (self.code == code && !reason::KNOWN.contains(&self.reason.as_str()))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message.as_str(), self.reason.as_str(), self.code) {
            ("", "", 0) => f.write_str("no message"),
            ("", "", code) => write!(f, "no message, code {code}"),
            ("", reason, _) => f.write_str(reason),
            (message, _, _) => f.write_str(message),
        }
    }
}

impl std::error::Error for Status {}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Status", 8)?;
        out.serialize_field("kind", "Status")?;
        out.serialize_field("apiVersion", "v1")?;
        out.serialize_field("metadata", &self.metadata)?;
        for (name, text) in [
            ("status", &self.status),
            ("message", &self.message),
            ("reason", &self.reason),
        ] {
            if !text.is_empty() {
                out.serialize_field(name, text)?;
            }
        }
        if let Some(details) = &self.details {
            out.serialize_field("details", details)?;
        }
        if self.code > 0 {
            out.serialize_field("code", &self.code)?;
        }
        out.end()
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::GroupResource;

    #[track_caller]
    fn read(json: &str) -> Status {
        Status::from_slice(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_known_reason_outweighs_the_code() {
        let status = read(r#"{"kind":"Status","reason":"Forbidden","code":404}"#);
        assert!(status.is_forbidden() && !status.is_not_found());
        let status = read(r#"{"kind":"Status","reason":"Teapot","code":404}"#);
        assert!(status.is_not_found());
        let status = read(r#"{"kind":"Status","code":410}"#);
        assert!(status.is_gone() && status.is_expired());
        let status = read(r#"{"kind":"Status","reason":"Expired","code":410}"#);
        assert!(!status.is_gone() && status.is_expired());
        let status = read(r#"{"kind":"Status","reason":"Timeout","code":429}"#);
        assert!(status.is_too_many_requests() && status.is_timeout());
    }

    #[test]
    fn too_large_versions_are_known_in_all_three_dialects() {
        // client-go: TestReflectorFullListIfTooLarge
        let details = r#""details":{"causes":[{"message":"Too large resource version"}]}"#;
        for (json, expected) in [
            (r#"{"kind":"Status","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#.to_owned(), true),
            (format!(r#"{{"kind":"Status","reason":"Timeout",{details}}}"#), true),
            (format!(r#"{{"kind":"Status","code":504,{details}}}"#), true),
            (format!(r#"{{"kind":"Status","reason":"InternalError",{details}}}"#), false),
            (r#"{"kind":"Status","reason":"Timeout","message":"Timeout: Too large resource version: 9, current: 1","details":{}}"#.to_owned(), true),
            (r#"{"kind":"Status","reason":"Timeout","message":"Timeout: Too large resource version: 9, current: 1"}"#.to_owned(), false),
            (r#"{"kind":"Status","reason":"Timeout","message":"slow","details":{}}"#.to_owned(), false),
        ] {
            assert_eq!(read(&json).is_too_large_resource_version(), expected, "{json}");
        }
        assert!(Status::too_large_resource_version(9, 1).is_too_large_resource_version());
    }

    #[test]
    fn retry_after_is_what_the_details_say() {
        assert_eq!(
            Status::too_many_requests("m", 7).retry_after(),
            Some(Duration::from_secs(7))
        );
        assert_eq!(Status::too_many_requests("m", 0).retry_after(), None);
        assert_eq!(Status::default().retry_after(), None);
    }

    #[test]
    fn display_says_something() {
        let pods = GroupResource::new("", "pods");
        assert_eq!(
            Status::not_found(&pods, "x").to_string(),
            "pods \"x\" not found"
        );
        assert_eq!(Status::default().to_string(), "no message");
        assert_eq!(
            read(r#"{"kind":"Status","reason":"Gone"}"#).to_string(),
            "Gone"
        );
        assert_eq!(
            read(r#"{"kind":"Status","code":500}"#).to_string(),
            "no message, code 500"
        );
    }
}
