//! Structural schemas of custom resources: pure functions of a schema and a value.
//!
//! ```text
//! object ──prune──▶ without unknown fields ──defaults──▶ ──validate──▶ ──rules──▶ [FieldError]
//! stored version ──convert──▶ requested version
//! ```
//!
//! * `prune.rs`, `defaults.rs`: removing unknown fields and setting defaults;
//! * `validate/`: the checks of the OpenAPI part; `old_value.rs`: the values that they compare
//!   with;
//! * `cel/`: expressions in CEL; `rules/`: `x-kubernetes-validations`, rules in CEL; `patterns.rs`: regular expressions, whose
//!   syntax `go_regex/` reads; `compiled.rs`: both, compiled once for a schema;
//! * `dns_label.rs`: names of kinds and groups; `convert.rs`: objects between the stored version
//!   and the others.
//!
//! These functions do not depend on definitions, resources or requests.
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/apiserver/{schema,validation}`.

pub(crate) mod cel;
pub(crate) mod compiled;
pub(crate) mod convert;
pub(crate) mod defaults;
pub(crate) mod dns_label;
pub(crate) mod go_regex;
pub(crate) mod old_value;
pub(crate) mod patterns;
pub(crate) mod prune;
pub(crate) mod rules;
pub(crate) mod validate;

use serde_json::Value;

use crate::object::strict::{PATH, beginning};

/// The role of a value: an object with a kind and metadata of its own, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Yes,
    No,
}

/// Returns whether a keyword of a schema is `true`.
pub(crate) fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// Returns the path of a member. A name that is too long is cut: a path is made for each member of
/// an object, and a single name may be as long as a body.
pub(crate) fn join(path: &str, name: &str) -> String {
    let name = beginning(name, PATH);
    if path.is_empty() {
        name.to_owned()
    } else if path.len() > PATH {
        path.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
