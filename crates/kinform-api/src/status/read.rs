//! Lenient parsing of a `Status`: a missing or wrong field counts as absent.
//!
//! ```text
//! {"kind":"Status","code":"410","details":null} ──▶ Status { code: 410, .. }
//! ```
//!
//! The body must only be an object; [`Status::from_slice`] also requires it to state that it is a
//! `Status`. Numbers may come as strings, unknown fields are ignored. Depth is bounded by
//! `serde_json` (128), size by the reader of the bytes.

use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::{Map, Value};

use super::{Status, StatusCause, StatusDetails, StatusMetadata};

impl Status {
    /// The `Status` in a body, if it is one: a JSON object of kind `Status` and version `v1`
    /// (or without version).
    ///
    /// Upstream: `apierrors.FromObject`.
    #[must_use]
    pub fn from_slice(body: &[u8]) -> Option<Self> {
        let Value::Object(fields) = serde_json::from_slice(body).ok()? else {
            return None;
        };
        if text(&fields, "kind") != "Status" {
            return None;
        }
        matches!(&*text(&fields, "apiVersion"), "" | "v1" | "meta.k8s.io/v1")
            .then(|| status(&fields))
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(fields) => Ok(status(&fields)),
            _ => Err(D::Error::custom("a Status is an object")),
        }
    }
}

fn status(fields: &Map<String, Value>) -> Status {
    Status {
        metadata: object(fields, "metadata").map(metadata).unwrap_or_default(),
        status: text(fields, "status"),
        message: text(fields, "message"),
        reason: text(fields, "reason"),
        details: object(fields, "details").map(details),
        code: number(fields, "code"),
    }
}

fn metadata(fields: &Map<String, Value>) -> StatusMetadata {
    StatusMetadata {
        resource_version: text(fields, "resourceVersion"),
        continue_token: text(fields, "continue"),
        remaining_item_count: fields.get("remainingItemCount").and_then(Value::as_i64),
    }
}

fn details(fields: &Map<String, Value>) -> StatusDetails {
    let causes = match fields.get("causes") {
        Some(Value::Array(causes)) => causes.iter().filter_map(Value::as_object).collect(),
        _ => Vec::new(),
    };
    StatusDetails {
        name: text(fields, "name"),
        group: text(fields, "group"),
        kind: text(fields, "kind"),
        uid: text(fields, "uid"),
        causes: causes.into_iter().map(cause).collect(),
        retry_after_seconds: number(fields, "retryAfterSeconds"),
    }
}

fn cause(fields: &Map<String, Value>) -> StatusCause {
    StatusCause {
        reason: text(fields, "reason"),
        message: text(fields, "message"),
        field: text(fields, "field"),
    }
}

fn object<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Map<String, Value>> {
    fields.get(name)?.as_object()
}

fn text(fields: &Map<String, Value>, name: &str) -> String {
    fields
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// A number, also as a string or with a fraction; 0 if it is not a number or does not fit.
fn number<T: TryFrom<u64> + Default>(fields: &Map<String, Value>, name: &str) -> T {
    let whole = match fields.get(name) {
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(Value::Number(number)) => number.as_u64().or_else(|| {
            let float = number
                .as_f64()
                .filter(|f| (0.0..=f64::from(u32::MAX)).contains(f))?;
            Some(float as u64)
        }),
        _ => None,
    };
    whole.and_then(|n| T::try_from(n).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_status_is_one() {
        for not in [
            "",
            "null",
            "[]",
            "404 page not found",
            r#"{"kind":"PodList","items":[]}"#,
            r#"{"message":"x"}"#,
            r#"{"kind":"Status","apiVersion":"example.com/v1"}"#,
        ] {
            assert_eq!(Status::from_slice(not.as_bytes()), None, "{not}");
        }
        assert_eq!(
            Status::from_slice(br#"{"kind":"Status"}"#),
            Some(Status::default())
        );
    }

    #[test]
    fn wrong_fields_count_as_not_said() {
        let json = br#"{"kind":"Status","metadata":null,"status":7,"message":["x"],"reason":{},
            "details":{"name":1,"causes":[1,null,{"reason":"R","field":false}],"retryAfterSeconds":"3"},
            "code":"410","extra":{"deep":[[]]}}"#;
        let status = Status::from_slice(json).unwrap();
        let cause = StatusCause {
            reason: "R".into(),
            ..StatusCause::default()
        };
        let details = StatusDetails {
            causes: vec![cause],
            retry_after_seconds: 3,
            ..StatusDetails::default()
        };
        let expected = Status {
            details: Some(details),
            code: 410,
            ..Status::default()
        };
        assert_eq!(status, expected);
    }

    #[test]
    fn numbers_that_do_not_fit_are_zero() {
        for (code, expected) in [
            ("410.0", 410),
            ("4.1e2", 410),
            ("-1", 0),
            ("70000", 0),
            ("1e300", 0),
            ("\"x\"", 0),
            ("null", 0),
            ("true", 0),
        ] {
            let json = format!(r#"{{"kind":"Status","code":{code}}}"#);
            assert_eq!(
                Status::from_slice(json.as_bytes()).unwrap().code,
                expected,
                "{code}"
            );
        }
    }

    #[test]
    fn depth_is_bounded() {
        let json = format!(
            r#"{{"kind":"Status","x":{}{}}}"#,
            "[".repeat(9_999),
            "]".repeat(9_999)
        );
        assert_eq!(Status::from_slice(json.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(message in ".*", reason in "[A-Za-z]*", name in ".{0,9}",
            continue_token in "[a-z]{0,5}", code in 0u16.., retry in 0u32.., some in any::<bool>()) {
            let cause = StatusCause { message: message.clone(), ..StatusCause::default() };
            let details = StatusDetails {
                name, causes: vec![cause], retry_after_seconds: retry, ..StatusDetails::default()
            };
            let status = Status {
                metadata: StatusMetadata { continue_token, ..StatusMetadata::default() },
                status: "Failure".into(), message, reason, details: some.then_some(details), code,
            };
            prop_assert_eq!(Status::from_slice(&status.to_json()), Some(status.clone()));
            let text = serde_json::to_string(&status).unwrap();
            prop_assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
        }
    }
}
