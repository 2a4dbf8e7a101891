//! Options of writes: from the query, and from the body of a delete.
//!
//! ```text
//! query -> WriteOptions        query or body -> DeleteOptions
//! ```
//!
//! If the query repeats a name, the first value counts, except for `dryRun`, which is a list.
//!
//! Upstream: `kubernetes/apimachinery:pkg/apis/meta/v1/validation/validation.go`.

use kinform_api::{FieldError, GroupKind, ShownValue, Status};
use serde_json::{Map, Value};

use super::apply;
use super::body::{bad_request, json_error, media_type};
use crate::http::query::Query;
use crate::http::yaml;
use crate::object::{at, strict, text, typed};
use crate::ownership::MAX_MANAGER;
use crate::protobuf;
use crate::resource::Propagation;

/// Options in the query of a create, an update or a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// Does everything except storing.
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    /// Field manager of the write: the query's `fieldManager`, until the request's head has been
    /// read.
    pub(crate) manager: String,
    /// An apply takes over fields of other managers.
    pub(crate) force: bool,
}

/// Treatment of unknown fields.
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
    /// Parses a query; `kind` names the options in an error, as `CreateOptions`.
    ///
    /// # Errors
    /// 422 for an invalid value.
    pub(crate) fn from_query(query: &Query, kind: &str) -> Result<Self, Box<Status>> {
        let (options, errors) = Self::read(query);
        refuse(kind, &errors).map(|()| options)
    }

    /// Parses a patch's query, with the additional rules for an apply.
    ///
    /// # Errors
    /// 422 for an invalid value, an apply without a manager, and another patch with force.
    pub(crate) fn for_patch(
        query: &Query,
        content_type: Option<&str>,
    ) -> Result<Self, Box<Status>> {
        let (options, others) = Self::read(query);
        let mut errors = Vec::new();
        if media_type(content_type) != apply::MEDIA_TYPE {
            let detail = "may not be specified for non-apply patch";
            let force = query.get("force");
            errors.extend(force.map(|_| FieldError::forbidden("force", detail)));
        } else if options.manager.is_empty() {
            let detail = "is required for apply patch";
            errors.push(FieldError::required("fieldManager", detail));
        }
        errors.extend(others);
        refuse("PatchOptions", &errors).map(|()| options)
    }

    /// The options, and their errors.
    fn read(query: &Query) -> (Self, Vec<FieldError>) {
        let manager = query.text("fieldManager");
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        let mut errors: Vec<FieldError> = manager_error(manager).into_iter().collect();
        errors.extend(dry_run_error(&dry_run));
        let field_validation = match query.text("fieldValidation") {
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                let error = FieldError::not_supported("fieldValidation", other, &supported);
                errors.push(error);
                FieldValidation::default()
            }
        };
        let options = Self {
            dry_run: !dry_run.is_empty(),
            field_validation,
            manager: manager.to_owned(),
            force: query.flag("force").unwrap_or(false),
        };
        (options, errors)
    }
}

/// Upstream: `ValidateFieldManager`.
fn manager_error(manager: &str) -> Option<FieldError> {
    if manager.len() > MAX_MANAGER {
        return Some(FieldError::too_long("fieldManager", MAX_MANAGER));
    }
    let (place, letter) = manager
        .char_indices()
        .find(|(_, letter)| letter.is_control() || (letter.is_whitespace() && *letter != ' '))?;
    let code = u32::from(letter);
    let detail = format!("invalid character U+{code:04X} (at position {place})");
    Some(FieldError::invalid("fieldManager", manager, detail))
}

/// Options of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// Parses a query, or a body if there is one: then the query is ignored, as upstream does.
    ///
    /// # Errors
    /// 400 for a body that is not `DeleteOptions`, 422 for invalid or contradictory values.
    pub(crate) fn read(
        query: &Query,
        (content_type, body): (Option<&str>, &[u8]),
    ) -> Result<Self, Box<Status>> {
        let given = if body.iter().all(u8::is_ascii_whitespace) {
            query_value(query)?
        } else {
            body_value(content_type, body)?
        };
        Self::from_value(&given)
    }

    /// Parses options of a body. A member of another type is refused: without it, the delete would
    /// do what the member was to prevent.
    pub(crate) fn from_value(given: &Value) -> Result<Self, Box<Status>> {
        let kind = text(given, &["kind"]);
        if given.is_object() && !matches!(kind, "" | "DeleteOptions") {
            let version = text(given, &["apiVersion"]);
            return Err(bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \
                 \"pkg/runtime/scheme.go:111\""
            )));
        }
        if !given.is_object() {
            let message = "decoded object cannot be converted to DeleteOptions";
            return Err(bad_request(message.to_owned()));
        }
        let of = protobuf::message_of("v1", "DeleteOptions").expect("the table has these options");
        let given = typed::read(of, given.clone(), &mut Vec::new())
            .map_err(|error| bad_request(error.0))?;
        let mut errors = Vec::new();
        let propagation = propagation(&given, &mut errors);
        let dry_run = given.get("dryRun").and_then(Value::as_array);
        let dry_run: Vec<&str> = dry_run
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        errors.extend(dry_run_error(&dry_run));
        refuse("DeleteOptions", &errors)?;
        let condition = |name| {
            at(&given, &["preconditions", name])
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Ok(Self {
            dry_run: !dry_run.is_empty(),
            grace_period_seconds: given.get("gracePeriodSeconds").and_then(Value::as_i64),
            propagation,
            uid: condition("uid"),
            resource_version: condition("resourceVersion"),
        })
    }
}

/// Treatment of dependents, which a request can state in one of two ways.
fn propagation(given: &Value, errors: &mut Vec<FieldError>) -> Option<Propagation> {
    let orphan = given.get("orphanDependents").and_then(Value::as_bool);
    let policy = given.get("propagationPolicy").and_then(Value::as_str);
    if orphan.is_some() && policy.is_some() {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        let shown = policy.unwrap_or_default();
        errors.push(FieldError::invalid("propagationPolicy", shown, detail));
    }
    match (policy, orphan) {
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (None, None) => None,
        (Some(other), _) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            let error = FieldError::not_supported("propagationPolicy", other, &supported);
            errors.push(error);
            None
        }
    }
}

/// The error shows all values, as a list.
fn dry_run_error(said: &[&str]) -> Option<FieldError> {
    said.iter().find(|value| **value != "All")?;
    let quoted: Vec<String> = said.iter().map(|value| format!("{value:?}")).collect();
    let shown = ShownValue::raw(format!("[{}]", quoted.join(",")));
    Some(FieldError::not_supported("dryRun", shown, &["All"]))
}

fn body_value(content_type: Option<&str>, body: &[u8]) -> Result<Value, Box<Status>> {
    let read = match media_type(content_type) {
        protobuf::MEDIA_TYPE => protobuf::read_body(body).map_err(|error| error.0),
        yaml::MEDIA_TYPE => yaml::parse(body)
            .map(|parsed| parsed.value)
            .map_err(|error| error.to_string()),
        _ => strict::parse(body)
            .map(|(value, _)| value)
            .map_err(|error| {
                let error = json_error(&error);
                format!("couldn't get version/kind; json parse error: {error}")
            }),
    };
    match read.map_err(bad_request)? {
        Value::Null => Ok(Value::Object(Map::new())),
        value => Ok(value),
    }
}

/// A query in the shape of the equivalent body.
fn query_value(query: &Query) -> Result<Value, Box<Status>> {
    let mut given = Map::new();
    let mut say = |name: &str, value: Value| given.insert(name.to_owned(), value);
    say("dryRun", query.all("dryRun").collect());
    if query.get("gracePeriodSeconds").is_some() {
        say(
            "gracePeriodSeconds",
            query.number("gracePeriodSeconds")?.into(),
        );
    }
    say("propagationPolicy", query.get("propagationPolicy").into());
    say("orphanDependents", query.flag("orphanDependents").into());
    let condition = |name: &str| Value::from(query.get(name).filter(|text| !text.is_empty()));
    let conditions = ["uid", "resourceVersion"].map(|name| (name.to_owned(), condition(name)));
    say("preconditions", conditions.into_iter().collect());
    Ok(Value::Object(given))
}

fn refuse(kind: &str, errors: &[FieldError]) -> Result<(), Box<Status>> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind::new("meta.k8s.io", kind);
    Err(Box::new(Status::invalid(&kind, "", errors)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(Some(text))
    }

    // apimachinery: pkg/apis/meta/v1/conversion.go; the messages are those of a real server
    #[test]
    fn a_query_says_how_to_write() {
        let read = |text: &str| WriteOptions::from_query(&query(text), "CreateOptions");
        let options = read("dryRun=All&fieldValidation=Strict&fieldManager=me").unwrap();
        assert!(options.dry_run);
        assert_eq!(options.field_validation, FieldValidation::Strict);
        let options = read("dryRun=All&fieldManager=a&fieldManager=%01").unwrap();
        assert_eq!(options.manager, "a");
        for (said, shown) in [
            ("dryRun=Some", r#"["Some"]"#),
            ("dryRun=", r#"[""]"#),
            ("dryRun=All&dryRun=Some", r#"["All","Some"]"#),
        ] {
            let status = read(said).unwrap_err();
            let words = format!(
                "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: {shown}: \
                 supported values: \"All\""
            );
            assert_eq!((status.code, &*status.message), (422, &*words));
        }
    }

    fn of_body(body: &str) -> Result<DeleteOptions, Box<Status>> {
        DeleteOptions::read(
            &query("propagationPolicy=Foreground&uid=q"),
            (None, body.as_bytes()),
        )
    }

    #[test]
    fn delete_options_come_from_the_body_or_from_the_query() {
        let body = r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan",
            "preconditions":{"uid":"u"},"gracePeriodSeconds":0,"nope":1}"#;
        let options = of_body(body).unwrap();
        assert_eq!(options.propagation, Some(Propagation::Orphan));
        assert_eq!(options.uid.as_deref(), Some("u"));
        assert_eq!(options.grace_period_seconds, Some(0));
        let options = of_body(" ").unwrap();
        assert_eq!(options.propagation, Some(Propagation::Foreground));
        assert_eq!(options.uid.as_deref(), Some("q"));
        assert_eq!(of_body("null").unwrap(), DeleteOptions::default());
        let both = r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#;
        assert_eq!(of_body(both).unwrap_err().code, 422);
        assert_eq!(of_body(r#"{"kind":"Pod"}"#).unwrap_err().code, 400);
        assert_eq!(of_body("{").unwrap_err().code, 400);
        let twice = r#"{"preconditions":{"uid":"u"},"preconditions":{"resourceVersion":"5"}}"#;
        let options = of_body(twice).unwrap();
        assert_eq!(options.uid.as_deref(), Some("u"));
        assert_eq!(options.resource_version.as_deref(), Some("5"));
    }

    // The messages are those of a real server.
    #[test]
    fn a_delete_that_is_not_understood_is_refused() {
        let go = "json: cannot unmarshal";
        for (body, words) in [
            (
                r#"{"dryRun":"All"}"#,
                "string into Go struct field DeleteOptions.dryRun of type []string",
            ),
            (
                r#"{"preconditions":{"uid":5}}"#,
                "number into Go struct field Preconditions.preconditions.uid of type types.UID",
            ),
            (
                r#"{"preconditions":5}"#,
                "number into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
            ),
            (
                r#"{"propagationPolicy":5}"#,
                "number into Go struct field DeleteOptions.propagationPolicy of type \
                 v1.DeletionPropagation",
            ),
            (
                r#"{"gracePeriodSeconds":"5"}"#,
                "string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
            ),
            (
                r#"{"orphanDependents":"x"}"#,
                "string into Go struct field DeleteOptions.orphanDependents of type bool",
            ),
        ] {
            for media in [None, Some(yaml::MEDIA_TYPE)] {
                let status = DeleteOptions::read(&query(""), (media, body.as_bytes())).unwrap_err();
                let words = format!("{go} {words}");
                assert_eq!((status.code, &*status.message), (400, &*words));
            }
        }
        let of = |text: &str| DeleteOptions::read(&query(text), (None, b""));
        let status = of("gracePeriodSeconds=abc").unwrap_err();
        let words = "strconv.ParseInt: parsing \"abc\": invalid syntax";
        assert_eq!((status.code, &*status.message), (400, words));
        assert_eq!(of("dryRun=").unwrap_err().code, 422);
        assert_eq!(of("propagationPolicy=").unwrap_err().code, 422);
        let options = of("dryRun=All&resourceVersion=7&uid=").unwrap();
        assert!(options.dry_run);
        assert_eq!(options.resource_version.as_deref(), Some("7"));
        assert_eq!(options.uid, None);
    }
}
