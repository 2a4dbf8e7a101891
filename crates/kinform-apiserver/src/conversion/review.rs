//! Reviews of conversion: the request to a webhook, and the objects that it answers with.
//!
//! ```text
//! objects + wanted version ──▶ ConversionReview as bytes      bytes ──checked──▶ objects | error text
//! ```
//!
//! Pure. A webhook may change everything but names, namespace and uid; of the rest of the metadata only
//! labels and annotations are taken over.
//!
//! Upstream: `apiextensions-apiserver:pkg/apiserver/conversion/webhook_converter.go`.

use bytes::Bytes;
use kinform_api::FieldError;
use serde_json::{Map, Value, json};

use crate::object::{at, metadata, text};

/// The versions between which objects of a kind are converted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) uid: &'a str,
    /// The version of the review.
    pub(super) review: &'a str,
    pub(super) kind: &'a str,
    /// The `apiVersion` of the objects, and the wanted one.
    pub(super) from: &'a str,
    pub(super) to: &'a str,
}

impl Request<'_> {
    /// Writes the review of objects, which have a kind and a version.
    pub(super) fn body(&self, objects: &[Value]) -> Bytes {
        let review = json!({
            "kind": "ConversionReview",
            "apiVersion": format!("apiextensions.k8s.io/{}", self.review),
            "request": {"uid": self.uid, "desiredAPIVersion": self.to, "objects": objects},
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
        });
        Bytes::from(review.to_string())
    }

    /// Returns the objects in a reply, each with the metadata of the original.
    ///
    /// # Errors
    /// The reply cannot be used, in upstream's words.
    pub(super) fn converted(
        &self,
        originals: &[Value],
        reply: Result<Bytes, String>,
    ) -> Result<Vec<Value>, String> {
        let objects = reply
            .and_then(|body| self.answered(&body))
            .map_err(|why| self.says(&format!("failed: {why}")))?;
        if objects.len() != originals.len() {
            let (got, wanted) = (objects.len(), originals.len());
            return Err(self.says(&format!("returned {got} objects, expected {wanted}")));
        }
        let mut converted = Vec::with_capacity(objects.len());
        for (place, (original, object)) in originals.iter().zip(objects).enumerate() {
            let invalid = |why| format!("returned invalid object at index {place}: {why}");
            self.fits(&object).map_err(|why| self.says(&invalid(why)))?;
            same_object(original, &object)
                .map_err(|why| self.says(&format!("returned invalid object: {why}")))?;
            let object = with_metadata_of(original, object)
                .map_err(|why| self.says(&format!("returned invalid metadata: {why}")))?;
            converted.push(object);
        }
        Ok(converted)
    }

    /// An error about the webhook of these objects.
    fn says(&self, what: &str) -> String {
        let (version, kind) = (self.from, self.kind);
        format!("conversion webhook for {version}, Kind={kind} {what}")
    }

    /// Returns the objects of a reply.
    fn answered(&self, body: &[u8]) -> Result<Vec<Value>, String> {
        let mut review = parsed(body)?;
        let response = review["response"].take();
        let api_version = text(&review, &["apiVersion"]);
        let kind = text(&review, &["kind"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let is_known = group == "apiextensions.k8s.io" && matches!(version, "v1" | "v1beta1");
        let is_review = is_known && matches!(kind, "" | "ConversionReview");
        if !is_review && !api_version.is_empty() {
            return Err(format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme \
                 \"pkg/runtime/scheme.go:111\""
            ));
        }
        if !api_version.is_empty() && version != self.review {
            return Err(format!(
                "converting ({version}.ConversionReview) to ({}.ConversionReview): unknown conversion",
                self.review
            ));
        }
        if response.is_null() {
            return Err("no response provided".to_owned());
        }
        if api_version.is_empty() || kind.is_empty() {
            return Err(format!(
                "expected webhook response of apiextensions.k8s.io/{}, Kind=ConversionReview, got \
                 {group}/{version}, Kind={kind}",
                self.review
            ));
        }
        objects_of(self.uid, response)
    }

    /// Checks the kind and the version of an object.
    fn fits(&self, object: &Value) -> Result<(), String> {
        let (version, kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
        if version != self.to {
            return Err(format!(
                "invalid groupVersion (expected {}, received {version})",
                self.to
            ));
        }
        if kind != self.kind {
            return Err(format!(
                "invalid kind (expected {}, received {kind})",
                self.kind
            ));
        }
        Ok(())
    }
}

/// Parses a reply.
fn parsed(body: &[u8]) -> Result<Value, String> {
    let refused = |what: String| format!("couldn't get version/kind; json parse error: {what}");
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(refused("it is no object".to_owned())),
        Err(error) if error.is_eof() => Err(refused("unexpected end of JSON input".to_owned())),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Returns the objects of a response that is a success.
fn objects_of(uid: &str, mut response: Value) -> Result<Vec<Value>, String> {
    let told = text(&response, &["uid"]);
    if told != uid {
        return Err(format!("expected response.uid={uid:?}, got {told:?}"));
    }
    let (status, message) = (
        text(&response, &["result", "status"]),
        text(&response, &["result", "message"]),
    );
    match (status, message) {
        ("Success", _) => {}
        (status, "") => {
            return Err(format!(
                "response.result.status was '{status}', not 'Success'"
            ));
        }
        (_, message) => return Err(message.to_owned()),
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// Checks that a converted object is still the same one.
fn same_object(original: &Value, converted: &Value) -> Result<(), String> {
    for (member, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let path = ["metadata", member];
        let (was, is) = (text(original, &path), text(converted, &path));
        if was != is {
            return Err(format!("must have the same {shown}: {was} != {is}"));
        }
    }
    Ok(())
}

/// Returns a converted object with the metadata of the original, but for labels and annotations.
fn with_metadata_of(original: &Value, mut converted: Value) -> Result<Value, String> {
    let answered = converted["metadata"].take();
    let mut kept = at(original, &["metadata"]).cloned().unwrap_or_default();
    if !kept.is_object() {
        kept = Value::Object(Map::new());
    }
    for member in ["labels", "annotations"] {
        let was = &original["metadata"][member];
        match &answered[member] {
            Value::Null => drop(kept.as_object_mut().and_then(|of| of.remove(member))),
            is @ Value::Object(entries) => {
                if let Some((key, _)) = entries.iter().find(|(_, value)| !value.is_string()) {
                    return Err(format!(
                        "metadata.{member}[{key}]: Invalid value: must be a string"
                    ));
                }
                if is != was {
                    changed(member, is)?;
                }
                kept[member] = is.clone();
            }
            _ => return Err(format!("invalid metadata.{member} in converted object")),
        }
    }
    converted["metadata"] = kept;
    Ok(converted)
}

/// Checks labels or annotations that were changed.
fn changed(member: &str, entries: &Value) -> Result<(), String> {
    let object = json!({"metadata": {member: entries}});
    let mut errors: Vec<FieldError> = Vec::new();
    match member {
        "labels" => metadata::label_errors(&object, &mut errors),
        _ => metadata::annotation_errors(&object, &mut errors),
    }
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request<'_> = Request {
        uid: "u",
        review: "v1",
        kind: "Knot",
        from: "g/v1",
        to: "g/v2",
    };

    fn check(change: impl Fn(&mut Value), expected: Result<Value, &str>) {
        let metadata = json!({"name": "a", "uid": "1", "generation": 3, "labels": {"l": "a"}});
        let original = json!({"apiVersion": "g/v1", "kind": "Knot", "metadata": metadata});
        let converted = json!({"apiVersion": "g/v2", "kind": "Knot", "metadata": metadata});
        let mut review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": "u", "result": {"status": "Success"},
                "convertedObjects": [converted]}});
        change(&mut review);
        let reply = Ok(Bytes::from(review.to_string()));
        let found = REQUEST.converted(&[original], reply);
        let found = found.map(|mut objects| objects.pop().unwrap()["metadata"].take());
        let expected =
            expected.map_err(|why| format!("conversion webhook for g/v1, Kind=Knot {why}"));
        assert_eq!(found, expected);
    }

    #[test]
    fn an_answer_is_taken_only_for_the_same_objects_in_the_wanted_version() {
        let kept =
            |labels: Value| json!({"name": "a", "uid": "1", "generation": 3, "labels": labels});
        let object = |review: &mut Value, member: &str, value: Value| {
            review["response"]["convertedObjects"][0][member] = value;
        };
        check(|_| (), Ok(kept(json!({"l": "a"}))));
        let other = json!({"name": "a", "uid": "1", "generation": 9, "finalizers": ["x/y"],
            "labels": {"m": "b"}});
        check(
            |review| object(review, "metadata", other.clone()),
            Ok(kept(json!({"m": "b"}))),
        );
        for (metadata, why) in [
            (
                json!({"name": "b"}),
                "object: must have the same name: a != b",
            ),
            (json!(null), "object: must have the same name: a != "),
            (
                json!({"name": "a"}),
                "object: must have the same UID: 1 != ",
            ),
            (
                json!({"name": "a", "uid": "1", "labels": {"x": 1}}),
                "metadata: metadata.labels[x]: Invalid value: must be a string",
            ),
            (
                json!({"name": "a", "uid": "1", "annotations": 7}),
                "metadata: invalid metadata.annotations in converted object",
            ),
        ] {
            check(
                |review| object(review, "metadata", metadata.clone()),
                Err(&format!("returned invalid {why}")),
            );
        }
        check(
            |review| object(review, "kind", json!("Rope")),
            Err("returned invalid object at index 0: invalid kind (expected Knot, received Rope)"),
        );
        check(
            |review| review["response"]["convertedObjects"] = json!(7),
            Err("returned 0 objects, expected 1"),
        );
        check(
            |review| review["response"]["result"] = json!(3),
            Err("failed: response.result.status was '', not 'Success'"),
        );
        check(
            |review| review["response"] = json!([]),
            Err("failed: expected response.uid=\"u\", got \"\""),
        );
    }

    #[test]
    fn no_reply_makes_it_panic() {
        for body in [
            "",
            "7",
            "[]",
            "{",
            "{}",
            "null",
            r#"{"response":{"uid":"u"}}"#,
        ] {
            let reply = Ok(Bytes::from_static(body.as_bytes()));
            assert!(REQUEST.converted(&[json!({})], reply).is_err(), "{body}");
        }
        assert!(REQUEST.converted(&[], Err("down".to_owned())).is_err());
    }
}
