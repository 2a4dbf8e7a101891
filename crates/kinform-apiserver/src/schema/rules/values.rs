//! The values of an object as rules see them.
//!
//! ```text
//! schema + JSON -> value: fields by their escaped names, times and durations by their formats
//! ```
//!
//! Fields that the schema does not declare are invisible to rules, even where they are kept.
//!
//! Upstream: `apiextensions-apiserver:pkg/apiserver/schema/cel/values.go`.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use kube_cel::cel::objects::Key;
use kube_cel::cel::{Context, Value as CelValue};
use serde_json::{Map, Value};

use crate::object::duration::seconds;
use crate::schema::cel::types::escape;
use crate::schema::{Whole, flag};

/// Turns JSON into values.
pub(super) struct Converter<'a> {
    /// The context that holds the functions that parse times and durations.
    pub(super) context: &'a Context<'static>,
}

impl Converter<'_> {
    /// A value of a schema.
    pub(super) fn value(&self, schema: &Value, value: &Value, whole: Whole) -> CelValue {
        match value {
            Value::Null => CelValue::Null,
            Value::Bool(value) => CelValue::Bool(*value),
            Value::Number(number) => Self::number(schema, number),
            Value::String(text) => self.text(schema, text),
            Value::Array(items) => {
                let of = schema.get("items").unwrap_or(&Value::Null);
                let items = items.iter().map(|item| self.value(of, item, Whole::No));
                CelValue::List(Arc::new(items.collect()))
            }
            Value::Object(members) => self.members(schema, members, whole),
        }
    }

    fn members(&self, schema: &Value, members: &Map<String, Value>, whole: Whole) -> CelValue {
        let mut map = HashMap::new();
        let mut put = |name: String, value| map.insert(Key::String(Arc::new(name)), value);
        let is_embedded = flag(schema, "x-kubernetes-embedded-resource");
        let is_whole = whole == Whole::Yes || is_embedded;
        if is_whole {
            for name in ["apiVersion", "kind"] {
                if let Some(Value::String(text)) = members.get(name) {
                    put(name.to_owned(), CelValue::String(Arc::new(text.clone())));
                }
            }
            if let Some(Value::Object(metadata)) = members.get("metadata") {
                let named = ["name", "generateName"].into_iter().filter_map(|name| {
                    let text = metadata.get(name)?.as_str()?.to_owned();
                    let key = Key::String(Arc::new(name.to_owned()));
                    Some((key, CelValue::String(Arc::new(text))))
                });
                let named: HashMap<Key, CelValue> = named.collect();
                put("metadata".to_owned(), named.into());
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema
            .get("additionalProperties")
            .filter(|of| of.is_object());
        for (name, value) in members {
            if is_whole && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                continue;
            }
            if let Some(of) = properties.and_then(|of| of.get(name)) {
                if let Some(escaped) = escape(name) {
                    put(escaped, self.value(of, value, Whole::No));
                }
            } else if let Some(of) = others {
                put(name.clone(), self.value(of, value, Whole::No));
            }
        }
        map.into()
    }

    fn number(schema: &Value, number: &serde_json::Number) -> CelValue {
        let of = schema.get("type").and_then(Value::as_str);
        match (of, number.as_i64()) {
            (Some("number"), _) | (_, None) => CelValue::Float(number.as_f64().unwrap_or_default()),
            (_, Some(whole)) => CelValue::Int(whole),
        }
    }

    fn text(&self, schema: &Value, text: &str) -> CelValue {
        let plain = || CelValue::String(Arc::new(text.to_owned()));
        match schema.get("format").and_then(Value::as_str) {
            Some("byte") => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                bytes.map_or_else(|_| plain(), |bytes| CelValue::Bytes(Arc::new(bytes)))
            }
            Some("date-time") => self.read("timestamp", text).unwrap_or_else(plain),
            Some("date") => {
                let text = format!("{text}T00:00:00Z");
                self.read("timestamp", &text).unwrap_or_else(plain)
            }
            Some("duration") if seconds(text).is_some() => {
                self.read("duration", text).unwrap_or_else(plain)
            }
            _ => plain(),
        }
    }

    /// Calls a function of the language on a text and returns its result.
    fn read(&self, function: &str, text: &str) -> Option<CelValue> {
        use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
        let ided = |expr| IdedExpr { id: 0, expr };
        let call = ided(Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args: vec![ided(Expr::Literal(LiteralValue::String(text.into())))],
        }));
        CelValue::resolve(&call, self.context).ok()
    }
}
