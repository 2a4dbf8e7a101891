//! Server-side apply: a configuration becomes a part of an object that its manager owns.
//!
//! ```text
//! YAML or JSON -> configuration          configuration + stored state -> as an update, or a create 201
//! ```
//!
//! What is merged and who owns it is decided in `fields/`; here is what surrounds it: the request's
//! body, objects that do not exist yet, and the checks that any update gets.
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers/patch.go` (`applyPatcher`).

use kinform_api::Status;
use serde_json::{Map, Value};

use super::body::{Decoded, bad_request, decode_value, match_url};
use super::create::insert;
use super::update::overwrite;
use super::{Context, FieldValidation, NamespaceState, Outcome, Part, fields, scale, text};
use crate::http::yaml;

/// The media type of a configuration.
pub(crate) const MEDIA_TYPE: &str = "application/apply-patch+yaml";

/// A configuration to apply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Configuration {
    value: Value,
    /// A key that is given twice, in words.
    duplicate: Option<String>,
}

impl Configuration {
    /// Reads a request's body.
    ///
    /// # Errors
    /// 400 for what is no map.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Box<Status>> {
        let refused = |what: String| bad_request(format!("error decoding patch: {what}"));
        let parsed = yaml::parse(bytes).map_err(|error| refused(error.to_string()))?;
        let value = match parsed.value {
            Value::Null => Value::Object(Map::new()),
            value @ Value::Object(_) => value,
            _ => return Err(refused("a configuration is a map".to_owned())),
        };
        Ok(Self {
            value,
            duplicate: parsed.duplicate,
        })
    }
}

/// What applying makes of the stored state; without one, it creates.
///
/// # Errors
/// 409 for what other managers own, 404 for a part of an object that does not exist, 400, 422 and 500
/// for what is wrong with the configuration.
pub(crate) fn apply(
    cx: &Context<'_>,
    name: &str,
    part: Part,
    configuration: &Configuration,
    (current, namespace): (Option<&Value>, NamespaceState),
) -> Result<Outcome, Box<Status>> {
    let resource = cx.resource;
    if current.is_none() && part != Part::Main {
        let resource = resource.group_resource();
        return Err(Box::new(Status::not_found(&resource, name)));
    }
    let mut object = fields::apply(cx, part, current, configuration.value.clone())?;
    let mut warnings = Vec::new();
    match (&configuration.duplicate, cx.options.field_validation) {
        (Some(key), FieldValidation::Strict) => {
            let text = format!("error strict decoding patch: yaml: unmarshal errors:\n  {key}");
            return Err(bad_request(text));
        }
        (Some(key), FieldValidation::Warn) => {
            warnings.push(format!("yaml: unmarshal errors:\n  {key}"));
        }
        _ => {}
    }
    let uid = text(&object, &["metadata", "uid"]);
    if current.is_none() && !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        let resource = resource.group_resource();
        return Err(Box::new(Status::conflict(&resource, name, &why)));
    }
    let entries = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("managedFields"))
        .map(Value::take);
    if part != Part::Scale {
        object["apiVersion"] = Value::from(resource.api_version());
        object["kind"] = Value::from(resource.kind.as_str());
    }
    let Decoded {
        mut object,
        warnings: more,
    } = decode_value(cx, part, object)?;
    warnings.extend(more);
    match_url(cx, Some(name), &mut object)?;
    if let (Part::Scale, Some(current)) = (part, current) {
        object = scale::into_object(resource, &object, current)?;
    }
    if let Some(entries) = entries {
        object["metadata"]["managedFields"] = entries;
    }
    let outcome = match current {
        None => insert(cx, object, namespace),
        Some(current) => overwrite(cx, part, object, current),
    };
    outcome.map(|outcome| outcome.warned(warnings))
}
