//! JSON objects independently of any resource: access to members, metadata, typed and strict
//! reading, and the scalar types that Kubernetes writes as text.
//!
//! ```text
//! bytes -> strict -> Value -> typed (by the table of built-in types) -> Value as Go would write it
//! Value -> at, text, metadata, label_selector, quantity, number, duration
//! ```
//!
//! All functions are pure functions of values and of the table of types. They depend on no resource
//! of this server, no request and no storage.
//!
//! * `metadata.rs`: members of `metadata` and their checks; `names.rs`: names in paths;
//! * `typed.rs`: a built-in's fields as Go's structs read and write them; `go_types.rs`: the names
//!   of their types in Go; `strict.rs`: duplicate members; `findings.rs`: these and
//!   unknown ones in the body's order; `syntax_error.rs`: the position at which
//!   a text stops being base64 or a time;
//! * `label_selector.rs`, `quantity.rs`, `number.rs`, `duration.rs`: values with a syntax of their
//!   own; `json_patch.rs`: patches by operations;
//! * `part.rs`: the object itself and its subresources.

pub(crate) mod duration;
pub(crate) mod findings;
pub(crate) mod go_types;
pub(crate) mod json_patch;
pub(crate) mod label_selector;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod number;
pub(crate) mod part;
pub(crate) mod quantity;
pub(crate) mod shown;
pub(crate) mod strict;
pub(crate) mod syntax_error;
pub(crate) mod typed;

use serde_json::Value;

/// The member at a path of names.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// The text at a path of names; `""` when absent.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}
