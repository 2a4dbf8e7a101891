//! YAML of objects and lists: the JSON in the other notation.
//!
//! ```text
//! Stored ──the encoder of the same look──▶ JSON ──▶ document, or an item of a list
//! ```
//!
//! Members are written in order of their names, so the members that sort after a list's items are
//! written after them. YAML is for people, so this encoder is not optimized. There are no watches
//! in YAML.
//!
//! Upstream: `apimachinery:pkg/runtime/serializer/json` (its YAML mode).

use bytes::{BufMut, BytesMut};
use serde_json::{Map, Value};

use super::{Encoder, ListMeta};
use crate::http::yaml;
use crate::storage::Stored;

/// Writes objects as another encoder does, in YAML.
#[derive(Clone, Debug)]
pub(crate) struct Yaml {
    json: Encoder,
    /// Members of a list that are written after its items.
    rest: Map<String, Value>,
    is_empty: bool,
}

impl Yaml {
    pub(super) fn of(json: Encoder) -> Self {
        Self {
            json,
            rest: Map::new(),
            is_empty: true,
        }
    }

    pub(super) fn object(&self, out: &mut BytesMut, object: &Stored) {
        let mut json = BytesMut::new();
        self.json.object(&mut json, object);
        out.put_slice(yaml::write_yaml(&value(&json)).as_bytes());
    }

    pub(super) fn begin_list(&mut self, out: &mut BytesMut, meta: &ListMeta) {
        let mut json = BytesMut::new();
        self.json.begin_list(&mut json, meta, 0);
        self.json.end_list(&mut json, meta);
        let Value::Object(mut list) = value(&json) else {
            return;
        };
        let items = if list.contains_key("rows") {
            "rows"
        } else {
            "items"
        };
        list.remove(items);
        let mut text = String::new();
        for (name, value) in &list {
            if name.as_str() < items {
                yaml::member(&mut text, name, value);
            }
        }
        list.retain(|name, _| name.as_str() > items);
        text.push_str(items);
        text.push(':');
        out.put_slice(text.as_bytes());
        self.rest = list;
    }

    pub(super) fn item(&mut self, out: &mut BytesMut, object: &Stored) {
        let (mut json, mut text) = (BytesMut::new(), String::new());
        self.json.item(&mut json, object);
        if std::mem::take(&mut self.is_empty) {
            text.push('\n');
        }
        yaml::item(&mut text, &value(&json));
        out.put_slice(text.as_bytes());
    }

    pub(super) fn end_list(&mut self, out: &mut BytesMut) {
        let mut text = String::new();
        if self.is_empty {
            text.push_str(" []\n");
        }
        for (name, value) in &self.rest {
            yaml::member(&mut text, name, value);
        }
        out.put_slice(text.as_bytes());
    }
}

/// Value of a text that another encoder wrote.
fn value(json: &[u8]) -> Value {
    let value = serde_json::from_slice(json);
    debug_assert!(value.is_ok());
    value.unwrap_or_default()
}
