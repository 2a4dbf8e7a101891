//! Server-side apply: its manager owns the fields of the applied configuration.
//!
//! ```text
//! YAML or JSON -> configuration          configuration + stored state -> as an update, or a create 201
//! ```
//!
//! `ownership/` decides on the merge and the owners. This module has the rest: the request's body,
//! objects that do not exist yet, and the checks of any update.
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers/patch.go` (`applyPatcher`).

use kinform_api::Status;
use serde_json::{Map, Value};

use super::Context;
use super::body::{Decoded, Doubled, Refusal, bad_request, match_url, read_value};
use super::options::FieldValidation;
use crate::http::yaml;
use crate::object::number::whole_numbers;
use crate::object::part::Part;
use crate::object::typed::Voice;
use crate::object::{metadata, strict, text};
use crate::ownership::{self, scale};
use crate::write::proposal::{Owners, Proposal};

/// The media type of a configuration.
pub(crate) const MEDIA_TYPE: &str = "application/apply-patch+yaml";

/// A configuration to apply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Configuration {
    value: Value,
    /// Message about a duplicate key.
    duplicate: Option<String>,
}

impl Configuration {
    /// Parses a request's body.
    ///
    /// # Errors
    /// 400 for a body that is not a map.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Box<Status>> {
        if let Some(value) = json(bytes) {
            return Ok(Self {
                value,
                duplicate: None,
            });
        }
        let refused = |what: String| bad_request(format!("error decoding patch: {what}"));
        let parsed = yaml::parse(bytes)
            .map_err(|error| refused(format!("error converting YAML to JSON: {error}")))?;
        let value = match parsed.value {
            Value::Null => Value::Object(Map::new()),
            value @ Value::Object(_) => value,
            other => {
                let kind = match other {
                    Value::Array(_) => "array",
                    Value::String(_) => "string",
                    Value::Bool(_) => "bool",
                    _ => "number",
                };
                return Err(refused(format!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} \
                     into Go value of type map[string]interface {{}}"
                )));
            }
        };
        Ok(Self {
            value,
            duplicate: parsed.duplicate.map(|key| key.to_string()),
        })
    }
}

/// Parses a configuration in JSON, which most clients send: it is YAML, too, but a parser of YAML
/// takes some twenty times as long. Returns `None` for a text that YAML reads differently, or refuses
/// with an error of its own.
fn json(bytes: &[u8]) -> Option<Value> {
    if !bytes.starts_with(b"{") || !is_same_in_yaml(bytes) {
        return None;
    }
    let (mut value, doubled) = strict::parse(bytes).ok()?;
    whole_numbers(&mut value);
    doubled.is_empty().then_some(value)
}

/// Returns whether YAML reads a text in JSON alike: it allows each letter, takes no letter for an end
/// of line, and there is no escape of a surrogate.
fn is_same_in_yaml(bytes: &[u8]) -> bool {
    let is_letter = |letter: char| {
        !matches!(letter, '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}')
            && !matches!(letter, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    let is_surrogate = |escape: &[u8]| {
        matches!(
            escape,
            [
                b'\\',
                b'u',
                b'd' | b'D',
                b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F',
            ]
        )
    };
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_letter))
        && !bytes.windows(4).any(is_surrogate)
}

/// Proposes the result of applying the configuration to the stored state; without one, creates the
/// object.
///
/// # Errors
/// 409 for fields that other managers own, 404 for a subresource of an object that does not exist,
/// 400, 422 and 500 for an invalid configuration.
pub(crate) fn propose(
    cx: &Context<'_>,
    name: &str,
    part: Part,
    configuration: Configuration,
    current: Option<&Value>,
) -> Result<Proposal, Box<Status>> {
    let resource = cx.resource;
    if current.is_none() && part != Part::Main {
        let resource = resource.group_resource();
        return Err(Box::new(Status::not_found(&resource, name)));
    }
    let Configuration { value, duplicate } = configuration;
    let place = ownership::place(&cx.writer(), part, &value);
    let applied = (value, cx.force());
    let mut object = ownership::apply(&cx.writer(), part, current, applied, cx.versions())?;
    let mut warnings = Vec::new();
    match (&duplicate, cx.options.field_validation) {
        (Some(key), FieldValidation::Strict) => {
            let text = format!("error strict decoding patch: {}", twice(key));
            return Err(bad_request(text));
        }
        (Some(key), FieldValidation::Warn) => {
            warnings.push(twice(key));
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
    } = read_value(cx, part, object, (Doubled::none(), Voice::Converter))
        .map_err(|refusal| not_converted(cx, part, &place, refusal))?;
    warnings.extend(more);
    if current.is_none() {
        // As upstream, a version in a new object is ignored here.
        metadata::of(&mut object).remove("resourceVersion");
    }
    match_url(cx, Some(name), &mut object)?;
    if let (Part::Scale, Some(current)) = (part, current) {
        object = scale::into_object(resource, &object, current)?;
    }
    if let Some(entries) = entries {
        object["metadata"]["managedFields"] = entries;
    }
    Ok(Proposal {
        object,
        warnings,
        owners: Owners::Needed,
    })
}

/// Message of a strict parser for a duplicate key.
fn twice(key: &str) -> String {
    format!("error converting YAML to JSON: yaml: unmarshal errors:\n  {key}")
}

/// Error for a result that is not an object of its kind.
fn not_converted(cx: &Context<'_>, part: Part, place: &str, refusal: Refusal) -> Box<Status> {
    let what = match refusal {
        Refusal::Status(status) => return status,
        Refusal::Type(what) | Refusal::Strict(what) => what,
    };
    let kind = match part {
        Part::Scale => "autoscaling/v1, Kind=Scale".to_owned(),
        _ => {
            let resource = cx.resource;
            format!(
                "{}/{}, Kind={}",
                resource.group, resource.version, resource.kind
            )
        }
    };
    ownership::failed(&format!(
        "failed to convert new object ({place}) to proper version: unable to convert unstructured \
         object to {kind}: {what}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_that_yaml_reads_alike_is_read_as_json() {
        for (text, is_json) in [
            (r#"{"a": "b\u00e9\ud7ff\ue000 é\t"}"#, true),
            (r#"{"a": "\ud83d\ude00"}"#, false),
            (r#"{"a": "\uDC00"}"#, false),
            ("{\"a\": \"\u{7f}\"}", false),
            ("{\"a\": \"\u{85}\"}", false),
            ("{\"a\": \"\u{2028}\"}", false),
            ("{\"a\": \"\u{ffff}\"}", false),
            ("{\"a\": 1, \"a\": 2}", false),
            ("a: b", false),
        ] {
            assert_eq!(json(text.as_bytes()).is_some(), is_json, "{text:?}");
        }
    }
}
