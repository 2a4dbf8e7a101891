//! How to write: what the query and the body of a delete say.
//!
//! ```text
//! [(name, value)] -> WriteOptions        query + body -> DeleteOptions
//! ```
//!
//! Upstream: `kubernetes/apimachinery:pkg/apis/meta/v1/validation/validation.go`.

use kinform_api::{FieldError, GroupKind, ShownValue, Status};
use serde_json::Value;

use super::body::media_type;
use super::{apply, at, fields, text};
use crate::http::yaml;
use crate::protobuf;
use crate::resource::Propagation;

/// What a create, update or patch may be told by its query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// Everything is done but storing.
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    /// Who writes. The query's `fieldManager`, until the request's head is looked at.
    pub(crate) manager: String,
    /// An apply takes what others own.
    pub(crate) force: bool,
}

/// What happens about fields that a type does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped silently.
    Ignore,
    /// They are dropped with a warning.
    #[default]
    Warn,
    /// They are an error.
    Strict,
}

impl WriteOptions {
    /// Reads a query; `kind` names the options in an error, as `CreateOptions`.
    ///
    /// # Errors
    /// 422 for a value that does not exist.
    pub(crate) fn from_query<'a>(
        query: impl IntoIterator<Item = (&'a str, &'a str)>,
        kind: &str,
    ) -> Result<Self, Box<Status>> {
        let (options, _, errors) = Self::read(query);
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(invalid(kind, &errors))
        }
    }

    /// Reads a patch's query, which says more about an apply than about others.
    ///
    /// # Errors
    /// 422 for a value that does not exist, an apply without a manager, and others by force.
    pub(crate) fn for_patch<'a>(
        query: impl IntoIterator<Item = (&'a str, &'a str)>,
        content_type: Option<&str>,
    ) -> Result<Self, Box<Status>> {
        let (options, force, others) = Self::read(query);
        let mut errors = Vec::new();
        if media_type(content_type) != apply::MEDIA_TYPE {
            let detail = "may not be specified for non-apply patch";
            errors.extend(force.then(|| FieldError::forbidden("force", detail)));
        } else if options.manager.is_empty() {
            let detail = "is required for apply patch";
            errors.push(FieldError::required("fieldManager", detail));
        }
        errors.extend(others);
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(invalid("PatchOptions", &errors))
        }
    }

    /// The options, whether `force` is said at all, and what is wrong.
    fn read<'a>(
        query: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> (Self, bool, Vec<FieldError>) {
        let (mut options, mut errors, mut force) = (Self::default(), Vec::new(), false);
        for (name, value) in query {
            match (name, value) {
                ("dryRun", "All") => options.dry_run = true,
                ("dryRun", "") | ("fieldValidation", "") => {}
                ("dryRun", other) => {
                    errors.push(unknown_dry_run(other));
                }
                ("fieldValidation", "Ignore") => options.field_validation = FieldValidation::Ignore,
                ("fieldValidation", "Warn") => options.field_validation = FieldValidation::Warn,
                ("fieldValidation", "Strict") => options.field_validation = FieldValidation::Strict,
                ("fieldValidation", other) => errors.push(FieldError::not_supported(
                    "fieldValidation",
                    other,
                    &["", "Ignore", "Strict", "Warn"],
                )),
                ("fieldManager", manager) => {
                    errors.extend(manager_error(manager));
                    manager.clone_into(&mut options.manager);
                }
                ("force", value) => {
                    force = true;
                    options.force = !matches!(value.to_ascii_lowercase().as_str(), "false" | "0");
                }
                _ => {}
            }
        }
        (options, force, errors)
    }
}

/// Upstream: `ValidateFieldManager`.
fn manager_error(manager: &str) -> Option<FieldError> {
    if manager.len() > fields::MAX_MANAGER {
        return Some(FieldError::too_long("fieldManager", fields::MAX_MANAGER));
    }
    let (place, letter) = manager
        .char_indices()
        .find(|(_, letter)| letter.is_control() || (letter.is_whitespace() && *letter != ' '))?;
    let code = u32::from(letter);
    let detail = format!("invalid character U+{code:04X} (at position {place})");
    Some(FieldError::invalid("fieldManager", manager, detail))
}

/// What a delete may be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// Reads a query, or a body if there is one: a body's word counts alone, as upstream's does.
    ///
    /// # Errors
    /// 400 for a body that is no `DeleteOptions`, 422 for values that do not exist or contradict.
    pub(crate) fn read<'a>(
        query: impl IntoIterator<Item = (&'a str, &'a str)>,
        (content_type, body): (Option<&str>, &[u8]),
    ) -> Result<Self, Box<Status>> {
        let given = if body.iter().all(u8::is_ascii_whitespace) {
            query_value(query)
        } else {
            body_value(content_type, body)?
        };
        Self::from_value(&given)
    }

    /// Reads options as they stand in a body.
    pub(crate) fn from_value(given: &Value) -> Result<Self, Box<Status>> {
        let kind = text(given, &["kind"]);
        if given.is_object() && !matches!(kind, "" | "DeleteOptions") {
            let version = text(given, &["apiVersion"]);
            return Err(Box::new(Status::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \
                 \"pkg/runtime/scheme.go:111\""
            ))));
        }
        if !given.is_object() {
            let message = "decoded object cannot be converted to DeleteOptions";
            return Err(Box::new(Status::bad_request(message)));
        }
        let mut errors = Vec::new();
        let orphan = given.get("orphanDependents").and_then(Value::as_bool);
        let policy = given.get("propagationPolicy").and_then(Value::as_str);
        if orphan.is_some() && policy.is_some() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            let shown = policy.unwrap_or_default();
            errors.push(FieldError::invalid("propagationPolicy", shown, detail));
        }
        let propagation = match (policy, orphan) {
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (None, None) => None,
            (Some(other), _) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(
                    "propagationPolicy",
                    other,
                    &supported,
                ));
                None
            }
        };
        let dry_run = given.get("dryRun").and_then(Value::as_array);
        for value in dry_run
            .into_iter()
            .flatten()
            .filter(|value| *value != "All")
        {
            let shown = value.as_str().unwrap_or_default();
            errors.push(unknown_dry_run(shown));
        }
        if !errors.is_empty() {
            return Err(invalid("DeleteOptions", &errors));
        }
        let condition = |name| {
            at(given, &["preconditions", name])
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Ok(Self {
            dry_run: dry_run.is_some_and(|values| !values.is_empty()),
            grace_period_seconds: given.get("gracePeriodSeconds").and_then(Value::as_i64),
            propagation,
            uid: condition("uid"),
            resource_version: condition("resourceVersion"),
        })
    }
}

/// All of what was said is shown, as a list.
fn unknown_dry_run(said: &str) -> FieldError {
    let shown = ShownValue::raw(format!("[{said:?}]"));
    FieldError::not_supported("dryRun", shown, &["All"])
}

fn body_value(content_type: Option<&str>, body: &[u8]) -> Result<Value, Box<Status>> {
    let refused = |text: String| Box::new(Status::bad_request(text));
    match media_type(content_type) {
        protobuf::MEDIA_TYPE => protobuf::read_body(body).map_err(|error| refused(error.0)),
        yaml::MEDIA_TYPE => yaml::parse(body)
            .map(|parsed| match parsed.value {
                Value::Null => Value::Object(serde_json::Map::new()),
                value => value,
            })
            .map_err(|error| refused(error.to_string())),
        _ => serde_json::from_slice(body).map_err(|error| {
            refused(format!(
                "couldn't get version/kind; json parse error: {error}"
            ))
        }),
    }
}

/// A query in the shape of the body that it stands for.
fn query_value<'a>(query: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let mut given = serde_json::Map::new();
    for (name, value) in query {
        let value = match (name, value) {
            ("dryRun", value) if !value.is_empty() => Value::from(vec![value]),
            ("gracePeriodSeconds", value) => value.parse::<i64>().map_or(Value::Null, Value::from),
            ("propagationPolicy", value) if !value.is_empty() => Value::from(value),
            ("orphanDependents", value) => Value::from(!matches!(value, "false" | "0")),
            _ => continue,
        };
        given.insert(name.to_owned(), value);
    }
    Value::Object(given)
}

fn invalid(kind: &str, errors: &[FieldError]) -> Box<Status> {
    Box::new(Status::invalid(
        &GroupKind::new("meta.k8s.io", kind),
        "",
        errors,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_how_to_write() {
        let query = [
            ("dryRun", "All"),
            ("fieldValidation", "Strict"),
            ("fieldManager", "me"),
        ];
        let options = WriteOptions::from_query(query, "CreateOptions").unwrap();
        assert!(options.dry_run);
        assert_eq!(options.field_validation, FieldValidation::Strict);
        let status = WriteOptions::from_query([("dryRun", "Some")], "CreateOptions").unwrap_err();
        assert_eq!(status.code, 422);
        assert!(
            status.message.contains("Unsupported value: [\"Some\"]"),
            "{}",
            status.message
        );
    }

    #[test]
    fn delete_options_come_from_the_body_or_from_the_query() {
        let body = br#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan",
            "preconditions":{"uid":"u"},"gracePeriodSeconds":0}"#;
        let options =
            DeleteOptions::read([("propagationPolicy", "Foreground")], (None, body)).unwrap();
        assert_eq!(options.propagation, Some(Propagation::Orphan));
        assert_eq!(options.uid.as_deref(), Some("u"));
        assert_eq!(options.grace_period_seconds, Some(0));
        let options =
            DeleteOptions::read([("propagationPolicy", "Foreground")], (None, b" ")).unwrap();
        assert_eq!(options.propagation, Some(Propagation::Foreground));
        let both = br#"{"propagationPolicy":"Orphan","orphanDependents":true}"#;
        assert_eq!(DeleteOptions::read([], (None, both)).unwrap_err().code, 422);
        assert_eq!(
            DeleteOptions::read([], (None, br#"{"kind":"Pod"}"#))
                .unwrap_err()
                .code,
            400
        );
        assert_eq!(DeleteOptions::read([], (None, b"{")).unwrap_err().code, 400);
    }
}
