//! Printer columns of custom resources.
//!
//! ```text
//! additionalPrinterColumns -> [Column];  object ──JSON path──▶ cell of the column's type
//! ```
//!
//! A cell shows only the first value that a path finds. A value that is not of the column's type is
//! null.
//!
//! Upstream: `apiextensions-apiserver:pkg/registry/customresource/tableconvertor`.

use jiff::Timestamp;
use kinform_api::JsonPath;
use serde_json::Value;

use super::{Cell, Column, Columns, age, builtin_columns};

/// The columns of a version of a definition.
pub(crate) fn columns(version: &Value) -> Columns {
    let text = |column: &Value, name: &str| {
        column
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    // Every kind has a name column. A kind without columns of its own also has an age.
    let like = builtin_columns("", "serviceaccounts");
    let mut columns: Vec<Column> = like.iter().take(1).cloned().collect();
    let given = version
        .get("additionalPrinterColumns")
        .and_then(Value::as_array);
    for column in given.into_iter().flatten() {
        let path = text(column, "jsonPath");
        let mut description = text(column, "description");
        if description.is_empty() {
            description = format!("Custom resource definition column (in JSONPath format): {path}");
        }
        columns.push(Column {
            name: text(column, "name"),
            kind: text(column, "type"),
            format: text(column, "format"),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            description,
            cell: Cell::Custom(path.parse().ok()),
        });
    }
    if given.is_none_or(Vec::is_empty) {
        // Unlike a built-in one, it is null if there is no time, as in a bookmark.
        columns.extend(like.iter().skip(1).cloned().map(|age| Column {
            kind: "date".to_owned(),
            cell: Cell::Custom(".metadata.creationTimestamp".parse().ok()),
            ..age
        }));
    }
    columns.into()
}

/// The cell of a column of a type.
pub(super) fn cell(kind: &str, path: Option<&JsonPath>, object: &Value, now: Timestamp) -> Value {
    let Some(first) = path.and_then(|path| path.first(object)) else {
        return Value::Null;
    };
    match (kind, first) {
        ("string", Value::String(text)) => Value::from(text.as_str()),
        ("string", Value::Null) => Value::Null,
        ("string", value) => Value::from(value.to_string()),
        ("integer", Value::Number(number)) => number
            .as_i64()
            .or_else(|| number.as_f64().map(whole))
            .map_or(Value::Null, Value::from),
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => first.clone(),
        ("date", Value::String(time)) => match time.parse::<Timestamp>() {
            Ok(_) => Value::from(age(time, now)),
            Err(_) => Value::from("<invalid>"),
        },
        _ => Value::Null,
    }
}

/// Returns a number without its fraction. A number out of range becomes the smallest one, as on
/// upstream's machines.
fn whole(number: f64) -> i64 {
    if number.abs() < 9.2e18 {
        number as i64
    } else {
        i64::MIN
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // apiextensions-apiserver: what a real server answered for such columns and objects
    #[test]
    fn cells_are_of_the_types_of_their_columns() {
        let object = json!({"i": 5, "f": 5.7, "n": 1.5, "b": true, "y": "yes", "s": "text",
            "d": "2020-01-01T00:00:00Z", "w": "nonsense", "o": {"x": 1, "a": [1, {"q": "r"}]},
            "huge": 1e20, "nil": null});
        let now: Timestamp = "2026-11-21T09:00:55Z".parse().unwrap();
        for (kind, path, expected) in [
            ("integer", ".i", json!(5)),
            ("integer", ".f", json!(5)),
            ("integer", ".s", json!(null)),
            ("integer", ".huge", json!(i64::MIN)),
            ("number", ".n", json!(1.5)),
            ("number", ".i", json!(5)),
            ("boolean", ".b", json!(true)),
            ("boolean", ".y", json!(null)),
            ("date", ".d", json!("6y326d")),
            ("date", ".w", json!("<invalid>")),
            ("date", ".nope", json!(null)),
            ("string", ".i", json!("5")),
            ("string", ".f", json!("5.7")),
            ("string", ".o", json!("{\"a\":[1,{\"q\":\"r\"}],\"x\":1}")),
            ("string", ".nil", json!(null)),
        ] {
            let path: Option<JsonPath> = path.parse().ok();
            assert_eq!(
                cell(kind, path.as_ref(), &object, now),
                expected,
                "{kind} {path:?}"
            );
        }
    }
}
