//! The term in the body of a write, and the version that it must meet.
//!
//! ```text
//! body + content type + term [+ version] → body with metadata.annotations["kinform.dev/term"]
//! ```
//!
//! A JSON patch can add the annotation only to an object that has annotations: the touch before it
//! makes sure.
//!
//! Upstream has no counterpart.

use kinform_api::mutant;
use serde_json::{Map, Value, json};

use super::policy::TERM_ANNOTATION;

/// Uid and version of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Precondition {
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
}

impl Precondition {
    /// Reads them from a reply, or from the body of a write.
    pub(super) fn of(object: &Value) -> Self {
        let text = |name: &str| {
            let text = object.get("metadata")?.get(name)?.as_str()?;
            Some(text.to_owned()).filter(|text| !text.is_empty())
        };
        Self {
            uid: text("uid"),
            version: text("resourceVersion"),
        }
    }
}

/// Writes the term into an object, or into a patch that is one.
pub(super) fn stamp(body: &mut Value, term: &str) -> Result<(), &'static str> {
    let root = body.as_object_mut().ok_or("it is no JSON object")?;
    let metadata = child(root, "metadata").ok_or("its metadata is no object")?;
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if annotations.is_null() {
        return Err("it removes all annotations");
    }
    let annotations = annotations.as_object_mut();
    let annotations = annotations.ok_or("its annotations are no object")?;
    if !mutant!("L15") {
        annotations.insert(TERM_ANNOTATION.to_owned(), term.into());
    }
    Ok(())
}

/// Sets the version that the object of a write must have.
pub(super) fn demand(body: &mut Value, version: &str) {
    if let Some(metadata) = body
        .as_object_mut()
        .and_then(|root| child(root, "metadata"))
    {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
}

/// Adds the term to a JSON patch of an object that has annotations, and the version that its object
/// must have.
pub(super) fn append(
    body: &mut Value,
    term: &str,
    version: Option<&str>,
) -> Result<(), &'static str> {
    let operations = body.as_array_mut().ok_or("it is no JSON patch")?;
    let escaped = TERM_ANNOTATION.replace('~', "~0").replace('/', "~1");
    let path = format!("/metadata/annotations/{escaped}");
    operations.push(json!({ "op": "add", "path": path, "value": term }));
    if let Some(version) = version {
        let path = "/metadata/resourceVersion";
        operations.push(json!({ "op": "replace", "path": path, "value": version }));
    }
    Ok(())
}

/// The patch that stamps an object and does nothing else.
pub(super) fn touch(term: &str, precondition: &Precondition) -> Value {
    let mut metadata = json!({ "annotations": { TERM_ANNOTATION: term } });
    if let Some(uid) = &precondition.uid {
        metadata["uid"] = uid.as_str().into();
    }
    if let Some(version) = &precondition.version {
        metadata["resourceVersion"] = version.as_str().into();
    }
    json!({ "metadata": metadata })
}

/// The options of a delete, with the uid and the version of the stamped object.
pub(super) fn delete(body: Value, stamped: &Precondition) -> Result<Value, &'static str> {
    let mut options = match body {
        Value::Null => json!({ "apiVersion": "v1", "kind": "DeleteOptions" }),
        options => options,
    };
    let root = options.as_object_mut().ok_or("its options are no object")?;
    let preconditions = child(root, "preconditions").ok_or("its preconditions are no object")?;
    if let Some(uid) = &stamped.uid {
        preconditions
            .entry("uid")
            .or_insert_with(|| uid.as_str().into());
    }
    if let Some(version) = stamped.version.as_deref().filter(|_| !mutant!("L16")) {
        preconditions.insert("resourceVersion".to_owned(), version.into());
    }
    Ok(options)
}

/// The preconditions of a delete's options.
pub(super) fn preconditions(options: &Value) -> Precondition {
    let preconditions = options.get("preconditions").cloned().unwrap_or_default();
    Precondition::of(&json!({ "metadata": preconditions }))
}

/// A member that is an object; made if it is missing or null.
fn child<'a>(root: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    let member = root.entry(name).or_insert_with(|| json!({}));
    if member.is_null() {
        *member = json!({});
    }
    member.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l15_any_object_or_patch_gets_the_term_and_keeps_the_rest() {
        let stamped = |annotations: Value| json!({ "metadata": { "annotations": annotations } });
        for (body, expected) in [
            (json!({}), stamped(json!({ TERM_ANNOTATION: "t" }))),
            (
                json!({ "metadata": null }),
                stamped(json!({ TERM_ANNOTATION: "t" })),
            ),
            (
                stamped(json!({ "a": "b", TERM_ANNOTATION: "old" })),
                stamped(json!({ "a": "b", TERM_ANNOTATION: "t" })),
            ),
            (
                json!({ "spec": 1, "metadata": { "name": "x" } }),
                json!({ "spec": 1, "metadata": { "name": "x", "annotations": { TERM_ANNOTATION: "t" } } }),
            ),
        ] {
            let mut found = body.clone();
            stamp(&mut found, "t").unwrap();
            assert_eq!(found, expected, "{body}");
        }
    }

    #[test]
    fn a_body_that_has_no_room_for_the_term_is_refused() {
        for bad in [
            json!([]),
            json!("text"),
            json!({ "metadata": 1 }),
            json!({ "metadata": { "annotations": null } }),
            json!({ "metadata": { "annotations": [] } }),
        ] {
            assert!(stamp(&mut bad.clone(), "t").is_err(), "{bad}");
        }
        assert!(append(&mut json!({}), "t", None).is_err());
        assert!(delete(json!([]), &Precondition::default()).is_err());
    }

    #[test]
    fn a_json_patch_ends_with_the_term_and_the_version() {
        let mut patch = json!([{ "op": "remove", "path": "/spec" }]);
        append(&mut patch, "t", Some("7")).unwrap();
        let expected = json!([
            { "op": "remove", "path": "/spec" },
            { "op": "add", "path": "/metadata/annotations/kinform.dev~1term", "value": "t" },
            { "op": "replace", "path": "/metadata/resourceVersion", "value": "7" },
        ]);
        assert_eq!(patch, expected);
    }

    #[test]
    fn l16_a_delete_carries_uid_and_version_of_the_stamped_object() {
        let stamped = Precondition {
            uid: Some("u".to_owned()),
            version: Some("7".to_owned()),
        };
        let plain = delete(Value::Null, &stamped).unwrap();
        let both = json!({ "uid": "u", "resourceVersion": "7" });
        assert_eq!(plain["preconditions"], both);
        assert_eq!(plain["kind"], "DeleteOptions");
        let own = json!({ "propagationPolicy": "Orphan", "preconditions": { "uid": "mine" } });
        let kept = delete(own, &stamped).unwrap();
        let both = json!({ "uid": "mine", "resourceVersion": "7" });
        assert_eq!(
            kept,
            json!({ "propagationPolicy": "Orphan", "preconditions": both })
        );
        assert_eq!(preconditions(&kept).version.as_deref(), Some("7"));
    }
}
