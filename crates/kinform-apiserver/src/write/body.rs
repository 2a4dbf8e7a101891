//! Decoding of a request's body to an object of the resource's kind.
//!
//! ```text
//! content type + bytes -> Decoded { object without apiVersion and kind, warnings } | 400, 415
//! ```
//!
//! Built-ins go through the table (`object/typed.rs`), custom resources through their schema.
//! Unknown fields are dropped; the request chooses whether they are ignored, reported or refused.
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers/create.go`,
//! `kubernetes/apimachinery:pkg/runtime/serializer/json`.

use kinform_api::{FieldError, GroupKind, Status, reason};
use serde_json::{Map, Value};

use super::Context;
use super::options::FieldValidation;
use crate::budget::Meter;
use crate::builtin::defaults;
use crate::definition::custom_object::{self, Nulls};
use crate::definition::served;
use crate::http::yaml;
use crate::object::part::Part;
use crate::object::text;
use crate::object::typed::Voice;
use crate::object::{findings, strict, typed};
use crate::ownership::scale;
use crate::protobuf;
use crate::resource::{ResourceInfo, Shape};
use crate::schema::validate::embedded::without_key;

/// A decoded body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// Decodes the body of a create or an update.
///
/// # Errors
/// 415 for another encoding, 400 for a body that is not an object of this kind.
pub(crate) fn decode(
    cx: &Context<'_>,
    part: Part,
    (content_type, bytes): (Option<&str>, &[u8]),
) -> Result<Decoded, Box<Status>> {
    match media_type(content_type) {
        "" | "application/json" | "*/*" => {}
        yaml::MEDIA_TYPE => return decode_yaml(cx, part, bytes),
        protobuf::MEDIA_TYPE if !cx.resource.is_custom() || part == Part::Scale => {
            return decode_value(cx, part, from_protobuf(cx.resource, part, bytes)?);
        }
        _ => {
            let accepted = ["application/json", yaml::MEDIA_TYPE, protobuf::MEDIA_TYPE];
            return Err(unsupported(&accepted));
        }
    }
    let kind = &cx.resource.kind;
    let (value, doubled) = strict::parse(bytes).map_err(|error| {
        let error = json_error(&error);
        bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get \
             version/kind; json parse error: {error}"
        ))
    })?;
    let doubled = Doubled::In(bytes, doubled);
    read_value(cx, part, value, (doubled, Voice::Decoder))
        .map_err(|refusal| refusal.into_status(cx.resource))
}

/// Parses a YAML body. A duplicate key is reported like an unknown field.
fn decode_yaml(cx: &Context<'_>, part: Part, bytes: &[u8]) -> Result<Decoded, Box<Status>> {
    let kind = &cx.resource.kind;
    let parsed = yaml::parse(bytes).map_err(|error| {
        bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {error}"
        ))
    })?;
    let value = match parsed.value {
        Value::Null => Value::Object(Map::new()),
        value => value,
    };
    let doubled = parsed
        .duplicate
        .map(|key| match cx.options.field_validation {
            FieldValidation::Strict => format!("yaml: unmarshal errors:\n  {key}"),
            FieldValidation::Warn | FieldValidation::Ignore => key.to_string(),
        });
    read_value(
        cx,
        part,
        value,
        (Doubled::Told(doubled.into_iter().collect()), Voice::Decoder),
    )
    .map_err(|refusal| refusal.into_status(cx.resource))
}

/// Decodes a body as an object of the context's kind, for any purpose.
///
/// # Errors
/// 415 for another encoding, 400 for a body that is not an object of this kind.
pub(crate) fn decode_body(
    cx: &Context<'_>,
    body: (Option<&str>, &[u8]),
) -> Result<Value, Box<Status>> {
    decode(cx, Part::Main, body).map(|decoded| decoded.object)
}

/// Converts a protobuf body to JSON. A body without a kind has the resource's.
fn from_protobuf(resource: &ResourceInfo, part: Part, bytes: &[u8]) -> Result<Value, Box<Status>> {
    let wanted = &resource.kind;
    let mut envelope = protobuf::open(bytes).map_err(|error| {
        let error = error.0;
        bad_request(format!(
            "the object provided is unrecognized (must be of type {wanted}): {error}"
        ))
    })?;
    if envelope.kind.is_empty() && part != Part::Scale {
        envelope.kind.clone_from(wanted);
    }
    if envelope.api_version.is_empty() && part != Part::Scale {
        envelope.api_version = resource.api_version();
    }
    let kind = envelope.kind.clone();
    let version = envelope.api_version.rsplit('/').next().unwrap_or_default();
    let version = version.to_owned();
    envelope.read().map_err(|error| {
        let error = error.0;
        bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {wanted}: {error}"
        ))
    })
}

/// Parses the body of a patch, which may be any JSON; returns its duplicate keys, too.
///
/// # Errors
/// 400 for malformed JSON.
pub(crate) fn decode_patch(bytes: &[u8]) -> Result<(Value, Vec<String>), Box<Status>> {
    strict::parse(bytes).map_err(|_| bad_request("invalid JSON patch".to_owned()))
}

/// Parses a value as an object of the resource's kind, or of its subresource's.
pub(crate) fn decode_value(
    cx: &Context<'_>,
    part: Part,
    value: Value,
) -> Result<Decoded, Box<Status>> {
    read_value(cx, part, value, (Doubled::none(), Voice::Decoder))
        .map_err(|refusal| refusal.into_status(cx.resource))
}

/// The reason why a value is not an object of its kind.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// Its kind or version is another one.
    Status(Box<Status>),
    /// A member is of another type; in Go's words.
    Type(String),
    /// Members are unknown or duplicate, and strict validation forbids them.
    Strict(String),
}

impl Refusal {
    /// The reply to a refused body.
    pub(crate) fn into_status(self, resource: &ResourceInfo) -> Box<Status> {
        match self {
            Self::Status(status) => status,
            Self::Type(what) | Self::Strict(what) => unrecognized(resource, &what),
        }
    }
}

/// The duplicate members of a body.
#[derive(Clone, Debug)]
pub(crate) enum Doubled<'a> {
    /// As messages, which come before those about unknown members.
    Told(Vec<String>),
    /// Their paths in this body.
    In(&'a [u8], Vec<String>),
}

impl Doubled<'_> {
    pub(crate) fn none() -> Self {
        Self::Told(Vec::new())
    }

    /// Returns the messages about them and about unknown members: of a built-in in the order of the
    /// body, as one decoder finds both; of a custom object, the pruning comes later.
    fn messages(self, unknown: Vec<String>, shape: &Shape) -> Vec<String> {
        let unknown_field = |path: &String| format!("unknown field {path:?}");
        match (self, shape) {
            (Self::In(bytes, doubled), Shape::Builtin(_)) if doubled.len() + unknown.len() > 1 => {
                findings::in_order(bytes, unknown, doubled)
            }
            (Self::In(_, doubled), _) => {
                let doubled = doubled
                    .iter()
                    .map(|path| format!("duplicate field {path:?}"));
                doubled.chain(unknown.iter().map(unknown_field)).collect()
            }
            (Self::Told(told), _) => {
                let unknown = unknown.iter().map(unknown_field);
                told.into_iter().chain(unknown).collect()
            }
        }
    }
}

/// Parses a value as an object of its kind. Earlier findings, such as duplicate members, are
/// reported together with unknown members.
///
/// # Errors
/// Another kind or version, a member of another type; with strict validation, unknown members.
pub(crate) fn read_value(
    cx: &Context<'_>,
    part: Part,
    value: Value,
    (doubled, voice): (Doubled<'_>, Voice),
) -> Result<Decoded, Refusal> {
    let resource = cx.resource;
    if part == Part::Scale {
        return read_scale(value);
    }
    let Value::Object(mut given) = value else {
        let what = "json: cannot unmarshal into Go value of type struct";
        return Err(Refusal::Type(what.to_owned()));
    };
    check_kind(resource, &given).map_err(Refusal::Status)?;
    given.remove("apiVersion");
    given.remove("kind");
    let resets_owners = given
        .get("metadata")
        .and_then(|metadata| metadata.get("managedFields"))
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty);
    let mut unknown = Vec::new();
    let object = match &resource.shape {
        Shape::Builtin(of) => {
            let by = (voice, cx.meter);
            let read = typed::read_as(of, Value::Object(given), &mut unknown, by);
            read.map(|mut object| {
                defaults::apply(of, &mut object, cx.meter);
                served::defaults(resource, &mut object);
                object
            })
        }
        Shape::Custom(custom) => metadata(&mut given, &mut unknown, cx.meter).and_then(|()| {
            let mut object = Value::Object(given);
            let nulls = match voice {
                Voice::Decoder => Nulls::Dropped,
                Voice::Converter => Nulls::Kept,
            };
            let read = custom_object::read(custom, &mut object, nulls, (&mut unknown, cx.meter));
            read.map(|()| object)
                .map_err(|error| typed::TypeError(error.to_string()))
        }),
    };
    cx.meter.check().map_err(Refusal::Status)?;
    let mut object = object.map_err(|error| Refusal::Type(error.0))?;
    if resets_owners && let Some(metadata) = object.get_mut("metadata") {
        // An absent list of owners differs from an empty one (`ownership/`).
        metadata["managedFields"] = Value::Array(Vec::new());
    }
    let mut warnings: Vec<String> = match cx.options.field_validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn | FieldValidation::Strict => {
            doubled.messages(unknown, &resource.shape)
        }
    };
    warnings.truncate(strict::MOST);
    if cx.options.field_validation == FieldValidation::Strict && !warnings.is_empty() {
        let text = format!("strict decoding error: {}", warnings.join(", "));
        return Err(Refusal::Strict(text));
    }
    Ok(Decoded { object, warnings })
}

/// Parses a value as a `Scale`.
fn read_scale(value: Value) -> Result<Decoded, Refusal> {
    let (kind, version) = (text(&value, &["kind"]), text(&value, &["apiVersion"]));
    if !matches!(kind, "" | "Scale") {
        let short = version.rsplit('/').next().unwrap_or_default();
        return Err(Refusal::Status(bad_request(format!(
            "{kind} in version {short:?} cannot be handled as a Scale: converting \
             ({short}.{kind}) to (autoscaling.Scale): unknown conversion"
        ))));
    }
    let object = scale::read(value).map_err(|error| Refusal::Type(error.0))?;
    Ok(Decoded {
        object,
        warnings: Vec::new(),
    })
}

/// A 415 that names the accepted types.
pub(crate) fn unsupported(accepted: &[&str]) -> Box<Status> {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    );
    Box::new(Status::failure(
        415,
        reason::UNSUPPORTED_MEDIA_TYPE,
        message,
    ))
}

/// The media type without its parameters.
pub(crate) fn media_type(content_type: Option<&str>) -> &str {
    content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
}

fn check_kind(resource: &ResourceInfo, given: &Map<String, Value>) -> Result<(), Box<Status>> {
    let said = |name| given.get(name).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (said("apiVersion"), said("kind"));
    let wanted = resource.api_version();
    if resource.is_custom() && kind.is_empty() {
        return Err(bad_request(
            "Object 'Kind' is missing in the request's body".to_owned(),
        ));
    }
    let same_kind = kind == resource.kind || kind.is_empty();
    let same_version = version == wanted || (version.is_empty() && !resource.is_custom());
    if same_kind && same_version {
        return Ok(());
    }
    if resource.is_custom() && same_version {
        // Validation finds this error: the reply is about an object of the other kind.
        let error = FieldError::invalid("kind", kind, format!("must be {}", resource.kind));
        let of = GroupKind::new(resource.group.as_str(), kind);
        let name = given.get("metadata").map_or("", |of| text(of, &["name"]));
        return Err(Box::new(Status::invalid(&of, name, &[error])));
    }
    let is_registered = || {
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        kinform_schema::builtin(group, short, kind).is_some()
    };
    if resource.is_custom() || same_kind && (kind.is_empty() || is_registered()) {
        return Err(bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version \
             ({wanted})"
        )));
    }
    let short = version.rsplit('/').next().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let of = &resource.kind;
    if !resource.is_custom() && kinform_schema::builtin(group, short, kind).is_none() {
        return Err(bad_request(format!(
            "{kind} in version {short:?} cannot be handled as a {of}: no kind {kind:?} is registered \
             for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    let (of, into) = (&resource.kind, group_name(resource));
    Err(bad_request(format!(
        "{kind} in version {short:?} cannot be handled as a {of}: converting ({short}.{kind}) to \
         ({into}.{of}): unknown conversion"
    )))
}

/// The name of a group's Go package.
fn group_name(resource: &ResourceInfo) -> &str {
    match resource.group.split('.').next() {
        Some("") | None => "core",
        Some(name) => name,
    }
}

/// Parses the metadata of a custom resource as that of a built-in.
fn metadata(
    given: &mut Map<String, Value>,
    unknown: &mut Vec<String>,
    meter: &Meter,
) -> Result<(), typed::TypeError> {
    const PACKAGE: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";
    let metadata = given
        .remove("metadata")
        .filter(|metadata| !metadata.is_null());
    let metadata = metadata.unwrap_or_else(|| Value::Object(Map::new()));
    let Some(of) = kinform_schema::named_type(PACKAGE, "ObjectMeta") else {
        return Ok(());
    };
    let mut found = Vec::new();
    let metadata = typed::read_as(of, metadata, &mut found, (Voice::Decoder, meter))
        .map_err(|error| typed::TypeError(without_key(&error.0)))?;
    let paths = found.into_iter().map(|path| format!("metadata.{path}"));
    strict::tell(unknown, paths);
    given.insert("metadata".to_owned(), metadata);
    Ok(())
}

fn unrecognized(resource: &ResourceInfo, what: &str) -> Box<Status> {
    let (kind, version) = (&resource.kind, &resource.version);
    bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {what}"
    ))
}

pub(crate) fn bad_request(message: String) -> Box<Status> {
    Box::new(Status::bad_request(message))
}

/// Message for malformed JSON, without a quote of it.
pub(super) fn json_error(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    error.to_string()
}

/// Checks that name and namespace of a body are those of the URL; sets the namespace.
pub(crate) fn match_url(
    cx: &Context<'_>,
    name: Option<&str>,
    object: &mut Value,
) -> Result<(), Box<Status>> {
    let said = text(object, &["metadata", "namespace"]);
    let wanted = cx.namespace.unwrap_or_default();
    // Cluster-scoped objects lose any namespace.
    if !said.is_empty() && !wanted.is_empty() && said != wanted {
        return Err(bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
                .to_owned(),
        ));
    }
    let said = text(object, &["metadata", "name"]);
    if let Some(name) = name {
        if said.is_empty() {
            return Err(bad_request(format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be \
                 provided"
            )));
        }
        if said != name {
            return Err(bad_request(format!(
                "the name of the object ({said}) does not match the name on the URL ({name})"
            )));
        }
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        if wanted.is_empty() {
            metadata.remove("namespace");
        } else {
            metadata.insert("namespace".to_owned(), Value::from(wanted));
        }
    }
    Ok(())
}
