//! A built-in's fields as Go's structs read and write them.
//!
//! ```text
//! JSON value + Type -> value in the form that the server writes + unknown fields | type error
//! ```
//!
//! A real server decodes a built-in into a struct and encodes it again. What that does to a value is
//! done here by the table: unknown fields vanish, null is absent, zero values of `omitempty` fields
//! are left out, structs and fields without `omitempty` are always there, times lose their fraction,
//! and a value of another type is an error.
//!
//! BOUND: values are as deep as the parser allowed (128), and so is this recursion.
//!
//! Upstream: `encoding/json`, `sigs.k8s.io/json`.

use base64::Engine as _;
use jiff::Timestamp;
use kinform_schema::{Container, Field, FieldType, Type};
use serde_json::{Map, Value};

use crate::quantity::Quantity;

/// A value that does not fit its field, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypeError(pub(crate) String);

/// Reads a value as a type. Paths of unknown fields are added to `unknown`.
pub(crate) fn read(of: &Type, value: Value, unknown: &mut Vec<String>) -> Result<Value, TypeError> {
    Reader { unknown }.message(of, value, &Place::root(of))
}

/// The value of a member that nobody has set.
pub(crate) fn empty_member(of: &Type, name: &str) -> Option<Value> {
    let field = of.field(name)?;
    let mut unknown = Vec::new();
    Reader {
        unknown: &mut unknown,
    }
    .absent(field, &Place::root(of))
    .ok()
    .flatten()
}

struct Reader<'a> {
    unknown: &'a mut Vec<String>,
}

/// Where a value stands, for messages.
struct Place<'a> {
    of: &'a Type,
    path: String,
}

impl<'a> Place<'a> {
    fn root(of: &'a Type) -> Self {
        Self {
            of,
            path: String::new(),
        }
    }

    fn member(&self, name: &str) -> Self {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        Self { of: self.of, path }
    }

    fn item(&self, at: usize) -> Self {
        Self {
            of: self.of,
            path: format!("{}[{at}]", self.path),
        }
    }

    fn error(&self, value: &Value, go_type: &str) -> TypeError {
        let kind = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if go_type.starts_with("int") => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let (of, path) = (self.of.name(), &self.path);
        TypeError(format!(
            "json: cannot unmarshal {kind} into Go struct field {of}.{path} of type {go_type}"
        ))
    }
}

impl Reader<'_> {
    fn message(&mut self, of: &Type, value: Value, place: &Place<'_>) -> Result<Value, TypeError> {
        let Value::Object(mut given) = value else {
            let go_type = of.package().rsplit('/').next().unwrap_or_default();
            return Err(place.error(&value, &format!("{go_type}.{}", of.name())));
        };
        let mut out = Map::new();
        self.fields(of, &mut given, &mut out, place)?;
        if of.is_kind() {
            given.remove("apiVersion");
            given.remove("kind");
        }
        let paths = given.keys().map(|name| place.member(name).path);
        self.unknown.extend(paths);
        Ok(Value::Object(out))
    }

    /// Moves the fields of a type, and of its inline structs, from what is given to what is written.
    fn fields(
        &mut self,
        of: &Type,
        given: &mut Map<String, Value>,
        out: &mut Map<String, Value>,
        place: &Place<'_>,
    ) -> Result<(), TypeError> {
        for field in of.fields() {
            if let (true, Some(message)) = (field.is_inline(), field.message()) {
                self.fields(message, given, out, place)?;
                continue;
            }
            let place = Place {
                of,
                path: place.member(field.name()).path,
            };
            let written = match given.remove(field.name()).filter(|value| !value.is_null()) {
                None => self.absent(field, &place)?,
                Some(value) => Some(self.present(field, value, &place)?)
                    .filter(|value| !(omits(field) && is_empty(value))),
            };
            if let Some(value) = written {
                out.insert(field.name().to_owned(), value);
            }
        }
        Ok(())
    }

    /// What is written for a field that is not given.
    fn absent(&mut self, field: &Field, place: &Place<'_>) -> Result<Option<Value>, TypeError> {
        let nothing = (!field.omits_empty()).then_some(Value::Null);
        if field.is_pointer() || field.container() != Container::Single {
            return Ok(nothing);
        }
        if field.omits_zero() {
            return Ok(None);
        }
        Ok(match field.field_type() {
            FieldType::Message(of) => Some(self.message(of, Value::Object(Map::new()), place)?),
            FieldType::Time | FieldType::MicroTime | FieldType::RawExtension => Some(Value::Null),
            FieldType::Quantity => Some(Value::from("0")),
            FieldType::IntOrString => Some(Value::from(0)),
            FieldType::String if !field.omits_empty() => Some(Value::from("")),
            FieldType::Bool if !field.omits_empty() => Some(Value::from(false)),
            FieldType::Int32 | FieldType::Int64 | FieldType::Double if !field.omits_empty() => {
                Some(Value::from(0))
            }
            _ => nothing,
        })
    }

    fn present(
        &mut self,
        field: &Field,
        value: Value,
        place: &Place<'_>,
    ) -> Result<Value, TypeError> {
        match (field.container(), value) {
            (Container::Single, value) => self.one(field, value, place),
            (Container::List, Value::Array(items)) => {
                let items = items.into_iter().enumerate();
                items
                    .map(|(at, item)| self.one(field, item, &place.item(at)))
                    .collect()
            }
            (Container::Map, Value::Object(entries)) => {
                let entry = |(name, value): (String, Value)| {
                    let value = self.one(field, value, &place.member(&name))?;
                    Ok((name, value))
                };
                let entries: Result<Map<_, _>, _> = entries.into_iter().map(entry).collect();
                Ok(Value::Object(entries?))
            }
            (Container::List, value) => Err(place.error(&value, &format!("[]{}", go_type(field)))),
            (Container::Map, value) => {
                Err(place.error(&value, &format!("map[string]{}", go_type(field))))
            }
        }
    }

    /// One value: a field's, a list's item or a map's entry.
    fn one(&mut self, field: &Field, value: Value, place: &Place<'_>) -> Result<Value, TypeError> {
        let fits = match (field.field_type(), &value) {
            (FieldType::Message(of), _) => {
                // A null item of a list of structs is an empty one.
                let value = if value.is_null() {
                    Value::Object(Map::new())
                } else {
                    value
                };
                return self.message(of, value, place);
            }
            (FieldType::String, Value::Null) => return Ok(Value::from("")),
            (FieldType::Time, Value::String(text)) => return time(text, place),
            (FieldType::MicroTime, Value::String(text)) => return micro_time(text, place),
            (FieldType::Quantity, Value::Number(number)) => return quantity(&number.to_string()),
            (FieldType::Quantity, Value::String(text)) => return quantity(text.trim()),
            (
                FieldType::JsonSchemaPropsOrBool
                | FieldType::JsonSchemaPropsOrArray
                | FieldType::JsonSchemaPropsOrStringArray,
                _,
            ) => return self.schema(value, place),
            (FieldType::String | FieldType::Quantity | FieldType::Duration, value) => {
                value.is_string()
            }
            (FieldType::Bool, value) => value.is_boolean(),
            (FieldType::Int32, value) => value
                .as_i64()
                .is_some_and(|number| i32::try_from(number).is_ok()),
            (FieldType::Int64, value) => value.is_i64(),
            (FieldType::Double, value) => value.is_number(),
            (FieldType::IntOrString, value) => value.is_string() || value.is_i64(),
            (FieldType::Strings, value) => value
                .as_array()
                .is_some_and(|items| items.iter().all(Value::is_string)),
            (FieldType::Bytes, value) => value.as_str().is_some_and(is_base64),
            _ => true,
        };
        if fits {
            Ok(value)
        } else {
            Err(place.error(&value, go_type(field)))
        }
    }

    /// The forms in which a schema holds schemas.
    fn schema(&mut self, value: Value, place: &Place<'_>) -> Result<Value, TypeError> {
        const PACKAGE: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";
        match (
            kinform_schema::named_type(PACKAGE, "JSONSchemaProps"),
            value,
        ) {
            (Some(of), value @ Value::Object(_)) => self.message(of, value, place),
            (Some(of), Value::Array(items)) => {
                let one = |(at, item): (usize, Value)| match item {
                    item @ Value::Object(_) => self.message(of, item, &place.item(at)),
                    item => Ok(item),
                };
                items.into_iter().enumerate().map(one).collect()
            }
            (_, value) => Ok(value),
        }
    }
}

/// Whether a zero value of this field is left out. Structs never are.
fn omits(field: &Field) -> bool {
    let is_struct = field.container() == Container::Single
        && matches!(
            field.field_type(),
            FieldType::Message(_) | FieldType::IntOrString | FieldType::Quantity
        );
    field.omits_empty() && !field.is_pointer() && !is_struct
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

fn is_base64(text: &str) -> bool {
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .is_ok()
}

fn time(text: &str, place: &Place<'_>) -> Result<Value, TypeError> {
    Ok(Value::from(
        parse_time(text, place)?
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string(),
    ))
}

fn micro_time(text: &str, place: &Place<'_>) -> Result<Value, TypeError> {
    Ok(Value::from(
        parse_time(text, place)?
            .strftime("%Y-%m-%dT%H:%M:%S.%6fZ")
            .to_string(),
    ))
}

fn quantity(text: &str) -> Result<Value, TypeError> {
    let quantity: Result<Quantity, _> = text.parse();
    quantity
        .map(|quantity| Value::from(quantity.to_string()))
        .map_err(|error| TypeError(error.0.to_owned()))
}

fn parse_time(text: &str, place: &Place<'_>) -> Result<Timestamp, TypeError> {
    text.parse().map_err(|_| {
        let path = &place.path;
        TypeError(format!(
            "{path}: parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\""
        ))
    })
}

fn go_type(field: &Field) -> &'static str {
    match field.field_type() {
        FieldType::String => "string",
        FieldType::Bool => "bool",
        FieldType::Int32 => "int32",
        FieldType::Int64 => "int64",
        FieldType::Double => "float64",
        FieldType::Bytes => "[]uint8",
        FieldType::Strings => "[]string",
        FieldType::Time => "v1.Time",
        FieldType::MicroTime => "v1.MicroTime",
        FieldType::Duration => "v1.Duration",
        FieldType::Quantity => "resource.Quantity",
        FieldType::IntOrString => "intstr.IntOrString",
        FieldType::Message(of) => of.name(),
        _ => "json",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(kind: (&str, &str, &str), given: Value, expected: &Value, unknown: &[&str]) {
        let of = kinform_schema::builtin(kind.0, kind.1, kind.2).unwrap();
        let mut found = Vec::new();
        let read = read(of, given, &mut found).unwrap();
        assert_eq!(&read, expected);
        assert_eq!(found, unknown);
    }

    #[test]
    fn a_value_goes_through_as_through_the_struct() {
        check(
            ("", "v1", "ConfigMap"),
            json!({"kind": "ConfigMap", "metadata": {"name": "x", "labels": null, "annotations": {}},
                "data": {"a": "b", "n": null}, "binaryData": {}, "nope": 1}),
            &json!({"metadata": {"name": "x"}, "data": {"a": "b", "n": ""}}),
            &["nope"],
        );
        check(
            ("", "v1", "Pod"),
            json!({"metadata": {"creationTimestamp": "2026-01-02T03:04:05.678Z"},
                "spec": {"containers": [{"name": "c", "bad": 1, "tty": false}], "hostNetwork": false,
                    "priority": 0, "nodeName": ""}}),
            &json!({"metadata": {"creationTimestamp": "2026-01-02T03:04:05Z"},
                "spec": {"containers": [{"name": "c", "resources": {}}], "priority": 0},
                "status": {}}),
            &["spec.containers[0].bad"],
        );
        check(
            ("apps", "v1", "Deployment"),
            json!({"spec": {"paused": false, "replicas": 0}}),
            &json!({"metadata": {}, "spec": {"replicas": 0, "selector": null, "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": null}}}, "status": {}}),
            &[],
        );
    }

    #[test]
    fn a_value_of_another_type_is_refused_in_gos_words() {
        let of = kinform_schema::builtin("", "v1", "ConfigMap").unwrap();
        let error = |given| read(of, given, &mut Vec::new()).unwrap_err().0;
        assert_eq!(
            error(json!({"data": {"a": 1}})),
            "json: cannot unmarshal number into Go struct field ConfigMap.data.a of type string"
        );
        assert_eq!(
            error(json!({"data": []})),
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type \
             map[string]string"
        );
        assert!(error(json!({"binaryData": {"a": "%"}})).contains("[]uint8"));
        assert!(error(json!({"metadata": {"generation": 1.5}})).contains("number 1.5"));
        assert!(error(json!(1)).contains("of type v1.ConfigMap"));
    }
}
