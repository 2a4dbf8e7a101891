//! Encodes the older document as protobuf, the only form that older clients read.
//!
//! ```text
//! JSON document ──▶ Document { swagger, info, paths, definitions } ──▶ bytes
//! ```
//!
//! Keywords without a field in the messages (`x-kubernetes-..`) are a name and YAML, and JSON is
//! YAML. Parts that occur neither in this server's documents nor in definitions (headers, examples,
//! contacts) are not implemented.
//!
//! Upstream: `google/gnostic-models:openapiv2/OpenAPIv2.proto`.

use bytes::BytesMut;
use serde_json::{Map, Value};

use crate::protobuf::wire::put_varint;

type Object = Map<String, Value>;

/// Writes a document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    let Some(document) = document.as_object() else {
        return Vec::new();
    };
    out.text(1, document.get("swagger"));
    out.message(2, |info| {
        let given = document.get("info").and_then(Value::as_object);
        info.text(1, given.and_then(|info| info.get("title")));
        info.text(2, given.and_then(|info| info.get("version")));
    });
    out.message(8, |paths| {
        for (name, item) in members(document.get("paths")) {
            paths.named(2, name, |out| path_item(out, item));
        }
    });
    out.message(9, |definitions| {
        for (name, inner) in members(document.get("definitions")) {
            definitions.named(1, name, |out| schema(out, inner));
        }
    });
    out.0.to_vec()
}

fn members(value: Option<&Value>) -> impl Iterator<Item = (&str, &Object)> {
    let object = value.and_then(Value::as_object);
    let members = object.into_iter().flatten();
    members.filter_map(|(name, inner)| Some((name.as_str(), inner.as_object()?)))
}

fn path_item(out: &mut Message, item: &Object) {
    for (number, method) in [
        (2, "get"),
        (3, "put"),
        (4, "post"),
        (5, "delete"),
        (8, "patch"),
    ] {
        if let Some(Value::Object(call)) = item.get(method) {
            out.message(number, |out| operation(out, call));
        }
    }
    parameters(out, 9, item);
}

fn operation(out: &mut Message, call: &Object) {
    out.texts(1, call.get("tags"));
    out.text(5, call.get("operationId"));
    out.texts(6, call.get("produces"));
    out.texts(7, call.get("consumes"));
    parameters(out, 8, call);
    out.message(9, |responses| {
        for (code, reply) in members(call.get("responses")) {
            // The enclosing message is a union of this and a reference.
            responses.named(1, code, |value| {
                value.message(1, |response| {
                    response.text(1, reply.get("description"));
                    if let Some(Value::Object(inner)) = reply.get("schema") {
                        response.message(2, |item| item.message(1, |out| schema(out, inner)));
                    }
                });
            });
        }
    });
    out.extensions(13, call);
}

fn parameters(out: &mut Message, number: u8, of: &Object) {
    let list = of.get("parameters").and_then(Value::as_array);
    for parameter in list.into_iter().flatten().filter_map(Value::as_object) {
        // The enclosing item is a union of this and a reference.
        out.message(number, |item| {
            item.message(1, |either| match parameter.get("in") {
                Some(Value::String(place)) if place == "body" => {
                    either.message(1, |body| {
                        body.text(2, parameter.get("name"));
                        body.text(3, parameter.get("in"));
                        body.flag(4, parameter.get("required"));
                        if let Some(Value::Object(inner)) = parameter.get("schema") {
                            body.message(5, |out| schema(out, inner));
                        }
                    });
                }
                Some(Value::String(place)) if place == "path" => {
                    either.message(2, |other| other.message(4, |out| simple(out, parameter, 0)));
                }
                _ => either.message(2, |other| other.message(3, |out| simple(out, parameter, 1))),
            });
        });
    }
}

/// Writes a parameter of a path or, with one more field, of a query.
fn simple(out: &mut Message, parameter: &Object, more: u8) {
    out.flag(1, parameter.get("required"));
    out.text(2, parameter.get("in"));
    out.text(4, parameter.get("name"));
    out.text(5 + more, parameter.get("type"));
    out.flag(19 + more, parameter.get("uniqueItems"));
}

fn schema(out: &mut Message, of: &Object) {
    out.text(1, of.get("$ref"));
    out.text(2, of.get("format"));
    out.text(3, of.get("title"));
    out.text(4, of.get("description"));
    for (number, word) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        out.double(number, of.get(word));
    }
    out.flag(8, of.get("exclusiveMaximum"));
    out.flag(10, of.get("exclusiveMinimum"));
    for (number, word) in [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
    ] {
        out.integer(number, of.get(word));
    }
    out.text(13, of.get("pattern"));
    out.flag(16, of.get("uniqueItems"));
    out.integer(17, of.get("maxProperties"));
    out.integer(18, of.get("minProperties"));
    out.texts(19, of.get("required"));
    for value in of
        .get("enum")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        out.message(20, |any| any.yaml(value));
    }
    match of.get("additionalProperties") {
        Some(Value::Object(inner)) => {
            out.message(21, |item| item.message(1, |out| schema(out, inner)));
        }
        allowed => out.message_if(21, allowed.is_some(), |item| item.flag(2, allowed)),
    }
    if let Some(kind) = of.get("type") {
        out.message(22, |item| item.text(1, Some(kind)));
    }
    if let Some(Value::Object(inner)) = of.get("items") {
        out.message(23, |item| item.message(1, |out| schema(out, inner)));
    }
    if of.contains_key("properties") {
        out.message(25, |properties| {
            for (name, inner) in members(of.get("properties")) {
                properties.named(1, name, |out| schema(out, inner));
            }
        });
    }
    out.extensions(31, of);
}

/// A message while it is written.
#[derive(Default)]
struct Message(BytesMut);

impl Message {
    fn bytes(&mut self, number: u8, bytes: &[u8]) {
        self.key(number, 2);
        put_varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, number: u8, value: Option<&Value>) {
        if let Some(Value::String(text)) = value {
            self.bytes(number, text.as_bytes());
        }
    }

    fn texts(&mut self, number: u8, value: Option<&Value>) {
        let list = value.and_then(Value::as_array);
        for text in list.into_iter().flatten() {
            self.text(number, Some(text));
        }
    }

    fn flag(&mut self, number: u8, value: Option<&Value>) {
        if value == Some(&Value::Bool(true)) {
            self.key(number, 0);
            put_varint(&mut self.0, 1);
        }
    }

    fn integer(&mut self, number: u8, value: Option<&Value>) {
        if let Some(value) = value.and_then(Value::as_i64) {
            self.key(number, 0);
            put_varint(&mut self.0, value.cast_unsigned());
        }
    }

    fn double(&mut self, number: u8, value: Option<&Value>) {
        if let Some(value) = value.and_then(Value::as_f64) {
            self.key(number, 1);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn key(&mut self, number: u8, wire: u64) {
        put_varint(&mut self.0, u64::from(number) << 3 | wire);
    }

    fn message(&mut self, number: u8, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(number, &inner.0);
    }

    fn message_if(&mut self, number: u8, is_there: bool, write: impl FnOnce(&mut Self)) {
        if is_there {
            self.message(number, write);
        }
    }

    /// Writes an entry of a map: its name and its value.
    fn named(&mut self, number: u8, name: &str, write: impl FnOnce(&mut Self)) {
        self.message(number, |entry| {
            entry.bytes(1, name.as_bytes());
            entry.message(2, write);
        });
    }

    fn yaml(&mut self, value: &Value) {
        self.bytes(2, value.to_string().as_bytes());
    }

    fn extensions(&mut self, number: u8, of: &Object) {
        for (name, value) in of.iter().filter(|(name, _)| name.starts_with("x-")) {
            self.named(number, name, |any| any.yaml(value));
        }
    }
}
