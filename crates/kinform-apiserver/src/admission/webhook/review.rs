//! Reviews: the requests to webhooks, and their answers.
//!
//! ```text
//! Question + objects ──▶ AdmissionReview as bytes          bytes ──▶ Verdict | Unusable
//! ```
//!
//! Pure. Absent fields are left out, but `object`, `oldObject` and `options` are null.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/webhook/request/admissionreview.go`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kinform_api::Status;
use serde_json::{Value, json};

use crate::admission::{Objects, Question, request};
use crate::http::yaml;
use crate::object::json_patch::{MAX_OPERATIONS, Operation};
use crate::object::text;
use crate::resource::ResourceInfo;

/// BOUND: warnings of one reply.
const WARNINGS: usize = 256;

/// The answer of a webhook.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) warnings: Vec<String>,
    pub(super) answer: Answer,
}

#[derive(Debug)]
pub(super) enum Answer {
    Allowed,
    /// Allowed, with a change of the object.
    Patched(Patch),
    Denied(Box<Status>),
}

/// The patch of a mutating webhook.
#[derive(Debug)]
pub(super) enum Patch {
    Operations(Vec<Operation>),
    /// Operations that no object fits, with the reason.
    Unfit(String),
}

/// The phase of the chain in which a webhook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Mutating,
    Validating,
}

/// Writes the review of a question.
///
/// `resource` is the version of the resource for which the webhook asked; the objects are of it.
pub(super) fn request(
    question: &Question<'_>,
    (version, uid): (&str, &str),
    resource: &ResourceInfo,
    objects: Objects<'_>,
) -> Bytes {
    let mut request = request::facts(question, resource);
    let mut put = |name: &str, value: Value| drop(request.insert(name.to_owned(), value));
    put("uid", Value::from(uid));
    put("object", objects.object.cloned().unwrap_or_default());
    put("oldObject", objects.old.cloned().unwrap_or_default());
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{version}"),
        "request": request,
    });
    Bytes::from(review.to_string())
}

/// Reads the reply to a review.
///
/// # Errors
/// The reply cannot be used, in upstream's words; the failure policy decides.
pub(super) fn verdict(
    (phase, name): (Phase, &str),
    (version, uid): (&str, &str),
    body: &[u8],
) -> Result<Verdict, String> {
    let called = |why: String| format!("failed to call webhook: {why}");
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let review = parsed(body).map_err(called)?;
    let api_version = text(&review, &["apiVersion"]);
    let kind = text(&review, &["kind"]);
    let wanted = format!("admission.k8s.io/{version}");
    let response = &review["response"];
    if response.is_null() && (api_version.is_empty() || api_version == wanted) {
        return Err(invalid("webhook response was absent".to_owned()));
    }
    known(api_version, kind, version).map_err(called)?;
    typed(response).map_err(called)?;
    let told = text(response, &["uid"]);
    if told != uid {
        return Err(invalid(format!(
            "expected response.uid={uid:?}, got {told:?}"
        )));
    }
    if api_version != wanted || kind != "AdmissionReview" {
        let (group, short) = api_version.split_once('/').unwrap_or(("", api_version));
        return Err(invalid(format!(
            "expected webhook response of admission.k8s.io/{version}, Kind=AdmissionReview, got \
             {group}/{short}, Kind={kind}"
        )));
    }
    let patch = text(response, &["patch"]);
    let patch_type = text(response, &["patchType"]);
    complete(phase, patch, patch_type).map_err(invalid)?;
    let warnings = response["warnings"].as_array().into_iter().flatten();
    // A text that no header can carry is left out.
    let fits = |text: &&str| !text.is_empty() && !text.contains(['\n', '\r']);
    let warnings = warnings
        .filter_map(Value::as_str)
        .filter(fits)
        .take(WARNINGS);
    let warnings = warnings.map(str::to_owned);
    let answer = match (&response["allowed"], patch) {
        (Value::Bool(true), "") => Answer::Allowed,
        (Value::Bool(true), patch) => {
            let patch = patch_of(patch)?;
            if patch_type != "JSONPatch" && phase == Phase::Mutating {
                return Err(format!("unsupported patch type {patch_type:?}"));
            }
            Answer::Patched(patch)
        }
        _ => Answer::Denied(Box::new(denied(name, &response["status"]))),
    };
    Ok(Verdict {
        warnings: warnings.collect(),
        answer,
    })
}

/// Refuses a patch without its type, a type without its patch, and both in a validating phase.
fn complete(phase: Phase, patch: &str, patch_type: &str) -> Result<(), String> {
    let why = match (phase, patch.is_empty(), patch_type.is_empty()) {
        (Phase::Validating, false, _) => "validating webhook may not return response.patch",
        (Phase::Validating, _, false) => "validating webhook may not return response.patchType",
        (Phase::Mutating, true, false) => {
            "webhook returned response.patchType but not response.patch"
        }
        (Phase::Mutating, false, true) => {
            "webhook returned response.patch but not response.patchType"
        }
        _ => return Ok(()),
    };
    Err(why.to_owned())
}

/// Parses a reply: JSON, or YAML.
fn parsed(body: &[u8]) -> Result<Value, String> {
    let refused = |what: String| format!("couldn't get version/kind; json parse error: {what}");
    let is_json = body.trim_ascii_start().starts_with(b"{");
    let value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) if is_json && error.is_eof() => {
            return Err(refused("unexpected end of JSON input".to_owned()));
        }
        Err(error) if is_json => return Err(refused(error.to_string())),
        Err(_) => {
            yaml::parse(body)
                .map_err(|error| refused(error.to_string()))?
                .value
        }
    };
    match value {
        Value::Object(_) => Ok(value),
        other => {
            let found = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            Err(refused(format!(
                "json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            )))
        }
    }
}

/// Refuses a reply of a kind that this version of the review cannot be read from.
fn known(api_version: &str, kind: &str, version: &str) -> Result<(), String> {
    let other = match api_version {
        "admission.k8s.io/v1" => "v1",
        "admission.k8s.io/v1beta1" => "v1beta1",
        // Without a version the reply is read as what is expected.
        "" => return Ok(()),
        _ => "",
    };
    if other.is_empty() || !matches!(kind, "" | "AdmissionReview") {
        return Err(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \
             \"pkg/runtime/scheme.go:111\""
        ));
    }
    match other == version {
        true => Ok(()),
        false => Err(format!(
            "converting ({other}.AdmissionReview) to ({version}.AdmissionReview): unknown conversion"
        )),
    }
}

/// Refuses members of another type, in Go's words.
fn typed(response: &Value) -> Result<(), String> {
    let unfit = |found: &str, name: &str, wanted: &str| {
        format!(
            "json: cannot unmarshal {found} into Go struct field AdmissionResponse.response.{name} \
             of type {wanted}"
        )
    };
    let found = |value: &Value| match value {
        Value::Null => None,
        Value::Bool(_) => Some("bool"),
        Value::Number(_) => Some("number"),
        Value::String(_) => Some("string"),
        Value::Array(_) => Some("array"),
        Value::Object(_) => Some("object"),
    };
    for (name, fits, wanted) in [
        ("uid", "string", "types.UID"),
        ("allowed", "bool", "bool"),
        ("status", "object", "v1.Status"),
        ("patch", "string", "[]uint8"),
        ("patchType", "string", "v1.PatchType"),
        ("warnings", "array", "[]string"),
    ] {
        if let Some(found) = found(&response[name]).filter(|found| *found != fits) {
            return Err(unfit(found, name, wanted));
        }
    }
    let patch = text(response, &["patch"]);
    match STANDARD.decode(patch) {
        Ok(_) => Ok(()),
        Err(_) => {
            let at = patch.bytes().position(|byte| {
                !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'/' | b'=')
            });
            let at = at.unwrap_or(patch.len() - patch.len() % 4);
            Err(format!("illegal base64 data at input byte {at}"))
        }
    }
}

/// Decodes a patch. Operations that no object fits are no failure of the call.
fn patch_of(encoded: &str) -> Result<Patch, String> {
    let undecodable =
        |why: String| format!("received undecodable patch in webhook response: {why}");
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| undecodable(error.to_string()))?;
    let found = match &value {
        Value::Array(list) if list.len() > MAX_OPERATIONS => {
            return Ok(Patch::Unfit(format!(
                "more than {MAX_OPERATIONS} operations"
            )));
        }
        Value::Array(list) => {
            let mut operations = Vec::with_capacity(list.len());
            for item in list {
                match serde_json::from_value(item.clone()) {
                    Ok(operation) => operations.push(operation),
                    Err(_) => {
                        let kind = text(item, &["op"]);
                        return Ok(Patch::Unfit(format!("Unexpected kind: {kind}")));
                    }
                }
            }
            return Ok(Patch::Operations(operations));
        }
        Value::Object(_) => "object",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    };
    Err(undecodable(format!(
        "json: cannot unmarshal {found} into Go value of type jsonpatch.Patch"
    )))
}

/// The refusal of a webhook. Its code counts if it is one of a failure.
///
/// Upstream: `ToStatusErr` of `pkg/admission/plugin/webhook/errors/statuserror.go`.
fn denied(name: &str, said: &Value) -> Status {
    let mut status: Status = serde_json::from_value(said.clone()).unwrap_or_default();
    let denial = format!("admission webhook {name:?} denied the request");
    status.message = match (status.message.as_str(), status.reason.as_str()) {
        ("", "") => format!("{denial} without explanation"),
        ("", reason) => format!("{denial}: {reason}"),
        (message, _) => format!("{denial}: {message}"),
    };
    status.status = "Failure".to_owned();
    status.metadata = Default::default();
    if status.code < 400 {
        status.code = 400;
    }
    status
}
