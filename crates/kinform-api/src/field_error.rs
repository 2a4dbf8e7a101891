//! The error of one field of an object or of a request, in upstream's words.
//!
//! ```text
//! FieldError::invalid("spec.replicas", -1, "must be ..") ──▶ `spec.replicas: Invalid value: -1: must be ..`
//! [FieldError] ──Status::invalid──▶ message and causes of a 422
//! ```
//!
//! Pure text: validators find the errors.
//! Upstream: `apimachinery:pkg/util/validation/field/errors.go`.

use std::collections::HashSet;
use std::fmt;

use crate::quote::quote;

/// BOUND: bytes of an error's path, of its value and of its detail.
const MOST_BYTES: usize = 16 << 10;

/// One error of one field.
///
/// Displays as `field: body`, as upstream's does.
///
/// Upstream: `field.Error`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    kind: FieldErrorKind,
    field: String,
    /// The value as shown, in quotes if it is a string.
    value: Option<String>,
    detail: String,
}

/// The kind of error.
///
/// Upstream: `field.ErrorType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// A value that is referred to does not exist.
    NotFound,
    /// A value is required.
    Required,
    /// The value must be unique.
    Duplicate,
    /// The value is malformed or out of bounds.
    Invalid,
    /// The value is not one of those allowed.
    NotSupported,
    /// The value is not allowed under these conditions.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// Too many items.
    TooMany,
    /// The value has the wrong type.
    TypeInvalid,
    /// The server failed, not the field.
    Internal,
}

impl FieldErrorKind {
    /// The reason of the cause in a `Status`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

/// A value as a field error shows it: strings in quotes, all else as written.
///
/// Made by `From` of strings, whole numbers and booleans; [`ShownValue::raw`] takes any text,
/// such as a value's JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownValue(String);

impl ShownValue {
    /// Shown as it stands, without quotes.
    #[must_use]
    pub fn raw(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl From<&str> for ShownValue {
    fn from(text: &str) -> Self {
        Self(quote(text))
    }
}

impl From<&String> for ShownValue {
    fn from(text: &String) -> Self {
        Self(quote(text))
    }
}

impl From<i64> for ShownValue {
    fn from(number: i64) -> Self {
        Self(number.to_string())
    }
}

impl From<bool> for ShownValue {
    fn from(value: bool) -> Self {
        Self(value.to_string())
    }
}

impl FieldError {
    /// A value is missing.
    #[must_use]
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, None, detail)
    }

    /// A value is malformed or out of bounds.
    #[must_use]
    pub fn invalid(
        field: impl Into<String>,
        value: impl Into<ShownValue>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorKind::Invalid, field, Some(value.into()), detail)
    }

    /// A value has the wrong type.
    #[must_use]
    pub fn type_invalid(
        field: impl Into<String>,
        value: impl Into<ShownValue>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(
            FieldErrorKind::TypeInvalid,
            field,
            Some(value.into()),
            detail,
        )
    }

    /// A value is not one of the supported ones, which are named in the order given.
    #[must_use]
    pub fn not_supported(
        field: impl Into<String>,
        value: impl Into<ShownValue>,
        supported: &[&str],
    ) -> Self {
        let quoted: Vec<String> = supported.iter().map(|s| quote(s)).collect();
        let detail = match supported {
            [] => String::new(),
            _ => format!("supported values: {}", quoted.join(", ")),
        };
        Self::new(
            FieldErrorKind::NotSupported,
            field,
            Some(value.into()),
            detail,
        )
    }

    /// A value is not allowed under these conditions.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, None, detail)
    }

    /// A value must be unique.
    #[must_use]
    pub fn duplicate(field: impl Into<String>, value: impl Into<ShownValue>) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, Some(value.into()), "")
    }

    /// The object referred to does not exist.
    #[must_use]
    pub fn not_found(field: impl Into<String>, value: impl Into<ShownValue>) -> Self {
        Self::new(FieldErrorKind::NotFound, field, Some(value.into()), "")
    }

    /// A value is longer than `max` bytes; the value itself is not shown.
    #[must_use]
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {bytes}");
        Self::new(FieldErrorKind::TooLong, field, None, detail)
    }

    /// There are more items than allowed.
    #[must_use]
    pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {items}");
        let value = Some(ShownValue::raw(actual.to_string()));
        Self::new(FieldErrorKind::TooMany, field, value, detail)
    }

    /// The same error without the invalid value.
    ///
    /// Upstream: `field.OmitValueType`.
    #[must_use]
    pub fn without_value(mut self) -> Self {
        self.value = None;
        self
    }

    /// The same error of a field within another one.
    ///
    /// An error of no field (`""` or `<nil>`) becomes one of the other field.
    #[must_use]
    pub fn within(mut self, parent: &str) -> Self {
        self.field = match self.field.as_str() {
            "" | "<nil>" => parent.to_owned(),
            field if field.starts_with('[') => format!("{parent}{field}"),
            field => format!("{parent}.{field}"),
        };
        self
    }

    /// The server failed while it looked at the field.
    #[must_use]
    pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Internal, field, None, detail)
    }

    fn new(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: Option<ShownValue>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            field: cut(field.into()),
            value: value.map(|shown| cut(shown.0)),
            detail: cut(detail.into()),
        }
    }

    /// The kind of error.
    #[must_use]
    pub fn kind(&self) -> FieldErrorKind {
        self.kind
    }

    /// The path of the field.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The error without its field.
    ///
    /// Upstream: `Error.ErrorBody`.
    #[must_use]
    pub fn body(&self) -> String {
        let mut body = self.kind.words().to_owned();
        let shown = [
            self.value.as_deref(),
            Some(&*self.detail).filter(|d| !d.is_empty()),
        ];
        for part in shown.into_iter().flatten() {
            body.push_str(": ");
            body.push_str(part);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// Several messages as one: a single one unchanged, else in brackets without repeats.
///
/// Upstream: `utilerrors.Aggregate`.
pub(crate) fn aggregate(errors: &[FieldError]) -> String {
    let all: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    let mut told = HashSet::new();
    let once = all.iter().filter(|message| told.insert(message.as_str()));
    let messages: Vec<&str> = once.map(String::as_str).collect();
    match messages.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Cuts a part of an error at a letter's boundary. A value can be as large as its object, and an
/// error exists for each of its items.
fn cut(mut text: String) -> String {
    if text.len() > MOST_BYTES {
        let ends = (0..=MOST_BYTES).rev();
        let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push_str("...");
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_upstreams() {
        // apimachinery: TestMakeFuncs, TestErrorUsefulMessage, TestNotSupported
        for (error, text) in [
            (FieldError::required("a", ""), "a: Required value"),
            (
                FieldError::required("a", "it must"),
                "a: Required value: it must",
            ),
            (
                FieldError::invalid("a.b", "x\"y", "no"),
                r#"a.b: Invalid value: "x\"y": no"#,
            ),
            (
                FieldError::invalid("a", -1, "low"),
                "a: Invalid value: -1: low",
            ),
            (
                FieldError::invalid("a", ShownValue::raw("{\"b\":1}"), "no"),
                "a: Invalid value: {\"b\":1}: no",
            ),
            (
                FieldError::not_supported("a", "v", &["y", "x"]),
                r#"a: Unsupported value: "v": supported values: "y", "x""#,
            ),
            (
                FieldError::not_supported("a", "v", &[]),
                r#"a: Unsupported value: "v""#,
            ),
            (
                FieldError::forbidden("a", "not now"),
                "a: Forbidden: not now",
            ),
            (
                FieldError::duplicate("a", "v"),
                r#"a: Duplicate value: "v""#,
            ),
            (FieldError::not_found("a", true), "a: Not found: true"),
            (
                FieldError::too_long("[]", 1_048_576),
                "[]: Too long: may not be more than 1048576 bytes",
            ),
            (FieldError::internal("a", "oops"), "a: Internal error: oops"),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn many_errors_about_large_values_stay_small() {
        let large = "ü".repeat(1 << 20);
        let error = FieldError::invalid(&large, large.as_str(), &large);
        assert!(error.to_string().len() < 3 * MOST_BYTES + 100);
        assert!(error.field().ends_with("ü..."));
        // Compared with each other, this many would take minutes.
        let errors: Vec<FieldError> = (0..100_000)
            .map(|at| FieldError::required(format!("a[{}]", at / 2), ""))
            .collect();
        assert_eq!(aggregate(&errors).matches("Required").count(), 50_000);
    }

    #[test]
    fn several_are_listed_once_each() {
        let (a, b) = (FieldError::required("a", ""), FieldError::required("b", ""));
        assert_eq!(aggregate(std::slice::from_ref(&a)), "a: Required value");
        assert_eq!(
            aggregate(&[a.clone(), b, a]),
            "[a: Required value, b: Required value]"
        );
    }
}
