//! Validates the views of a definition's objects: columns, scale, selectable fields.
//!
//! ```text
//! definition -> [FieldError]
//! ```
//!
//! Upstream: `apiextensions-apiserver:pkg/apis/apiextensions/validation/validation.go`.

use std::collections::HashSet;

use kinform_api::FieldError;
use serde_json::Value;

use super::{parts, schema_of};
use crate::object::{at, text};
use crate::schema::rules::define::{Brackets, field_path};

const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
/// BOUND: each selectable field is looked up at every write.
const MAX_SELECTABLE: usize = 8;

/// Adds the errors of the views of all versions.
pub(super) fn errors(definition: &Value, errors: &mut Vec<FieldError>) {
    for (path, _, part) in parts(definition, "subresources", "subresources") {
        if let Some(scale) = part
            .and_then(|part| part.get("scale"))
            .filter(|of| of.is_object())
        {
            self::scale(scale, &path, errors);
        }
    }
    for (path, _, part) in parts(
        definition,
        "additionalPrinterColumns",
        "additionalPrinterColumns",
    ) {
        let columns = part.and_then(Value::as_array).into_iter().flatten();
        for (at, column) in columns.enumerate() {
            self::column(column, &format!("{path}[{at}]"), errors);
        }
    }
    for (path, version, part) in parts(definition, "selectableFields", "selectableFields") {
        let fields = part.and_then(Value::as_array).map(Vec::as_slice);
        let fields = fields.unwrap_or_default();
        if let (Some(schema), false) = (schema_of(version), fields.is_empty()) {
            selectable(fields, schema, &path, errors);
        }
    }
}

fn column(column: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if text(column, &["name"]).is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let field = format!("{path}.type");
    let detail = format!("must be one of {COLUMN_TYPES}");
    match text(column, &["type"]) {
        "" => errors.push(FieldError::required(field, detail)),
        of if COLUMN_TYPES.split(',').any(|known| known == of) => {}
        of => errors.push(FieldError::invalid(field, of, detail)),
    }
    let format = text(column, &["format"]);
    if !format.is_empty() && !COLUMN_FORMATS.split(',').any(|known| known == format) {
        let detail = format!("must be one of {COLUMN_FORMATS}");
        errors.push(FieldError::invalid(
            format!("{path}.format"),
            format,
            detail,
        ));
    }
    let field = format!("{path}.JSONPath");
    match text(column, &["jsonPath"]) {
        "" => errors.push(FieldError::required(field, "")),
        said => errors.extend(simple_path(said, &field)),
    }
}

fn simple_path(path: &str, field: &str) -> Option<FieldError> {
    let detail = "must be a simple json path starting with .";
    (!path.starts_with('.')).then(|| FieldError::invalid(field, path, detail))
}

fn scale(scale: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (name, start) in [
        ("specReplicasPath", ".spec."),
        ("statusReplicasPath", ".status."),
    ] {
        let field = format!("{path}.scale.{name}");
        let said = text(scale, &[name]);
        if said.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if let Some(error) = simple_path(said, &field) {
            errors.push(error);
        } else if !said.starts_with(start) {
            let under = start.trim_end_matches('.');
            let detail = format!("should be a json path under {under}");
            errors.push(FieldError::invalid(field, said, detail));
        }
    }
    let said = text(scale, &["labelSelectorPath"]);
    let field = format!("{path}.scale.labelSelectorPath");
    if let Some(error) = simple_path(said, &field).filter(|_| !said.is_empty()) {
        errors.push(error);
    } else if !said.is_empty() && !said.starts_with(".spec.") && !said.starts_with(".status.") {
        let detail = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(field, said, detail));
    }
}

fn selectable(fields: &[Value], schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (place, selectable) in fields.iter().enumerate() {
        let field = format!("{path}[{place}].jsonPath");
        let said = text(selectable, &["jsonPath"]);
        if said.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let found = match field_path(said, schema, Brackets::Refused) {
            Ok(found) => found,
            Err(why) => {
                let detail = format!("is an invalid path: {why}");
                errors.push(FieldError::invalid(field, said, detail));
                continue;
            }
        };
        if said == ".metadata" || said.starts_with(".metadata.") {
            let detail = "must not point to fields in metadata";
            errors.push(FieldError::invalid(field.clone(), said, detail));
        }
        let of = at(found, &["type"]).and_then(Value::as_str);
        if !matches!(of, Some("string" | "boolean" | "integer")) {
            let detail = "must point to a field of type string, boolean or integer. Enum string \
                          fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(field.clone(), said, detail));
        }
        if !seen.insert(said) {
            errors.push(FieldError::duplicate(field, said));
        }
    }
    if seen.len() > MAX_SELECTABLE {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE));
    }
}
