//! The types of messages, and how deep they may nest.
//!
//! ```text
//! apiVersion, kind ─▶ type_of ─▶ the schema's type
//! ```
//!
//! Upstream: the scheme of `kubernetes/client-go:kubernetes/scheme`.

use kinform_schema::Type;

use crate::wire::json;

/// The deepest nesting of messages that is accepted, as of arrays and objects in JSON. Such a
/// message may be deeper as JSON, where lists and maps are levels, too; other parsers may refuse
/// that JSON.
pub(crate) const MAX_DEPTH: u32 = json::validate::MAX_DEPTH;

const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";
const EXTENSIONS: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";

/// Returns the type of a kind by its name; metadata alone is a kind, too.
pub(crate) fn type_of(api_version: &str, kind: &str) -> Option<&'static Type> {
    match api_version.split_once('/') {
        Some(("meta.k8s.io", _)) => kinform_schema::named_type(META, kind),
        Some((group, version)) => kinform_schema::builtin(group, version, kind),
        None => kinform_schema::builtin("", api_version, kind),
    }
}

/// The type of a schema, which some forms of the table refer to.
pub(super) fn schema_props() -> Option<&'static Type> {
    kinform_schema::named_type(EXTENSIONS, "JSONSchemaProps")
}
