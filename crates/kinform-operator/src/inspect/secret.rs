//! Values of Secrets are hidden, whoever looks.
//!
//! ```text
//! object as JSON, path of a change ─▶ is it a Secret's value? ─▶ "(hidden)"
//! ```
//!
//! Of a Secret are shown its metadata without the values of annotations (one of them may be a copy of
//! the whole), its type, and the keys of its data. A field that is not known here is hidden.
//!
//! INVARIANT: every value of a cache of Secrets passes here on its way out.
//!
//! Upstream counterpart: none.

use serde_json::Value;

/// The text in place of a value.
pub(super) const HIDDEN: &str = "(hidden)";

/// Fields of a Secret that are no values.
const SHOWN: [&str; 5] = ["apiVersion", "kind", "type", "immutable", "metadata"];

/// Hides the values of a Secret.
pub(super) fn hide(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else {
        *secret = HIDDEN.into();
        return;
    };
    for (name, value) in fields.iter_mut() {
        match name.as_str() {
            "data" | "stringData" => hide_members(value),
            "metadata" => hide_metadata(value),
            name if SHOWN.contains(&name) && is_small(value) => {}
            _ => *value = HIDDEN.into(),
        }
    }
}

fn hide_metadata(metadata: &mut Value) {
    let Some(fields) = metadata.as_object_mut() else {
        *metadata = HIDDEN.into();
        return;
    };
    fields.remove("managedFields");
    if let Some(annotations) = fields.get_mut("annotations") {
        hide_members(annotations);
    }
}

fn hide_members(of: &mut Value) {
    match of.as_object_mut() {
        Some(members) => members
            .values_mut()
            .for_each(|value| *value = HIDDEN.into()),
        None => *of = HIDDEN.into(),
    }
}

fn is_small(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// Returns whether the value at a path of a Secret is shown. Steps are names of fields.
pub(super) fn shows(steps: &[&str]) -> bool {
    match steps {
        ["metadata", "annotations", ..] | ["metadata"] | [] => false,
        ["metadata", ..] => true,
        [field] => SHOWN.contains(field),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_of_a_secret_but_names_is_left() {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
            "metadata": {
                "name": "n", "labels": {"app": "web"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "canary"},
                "managedFields": [{"manager": "canary"}],
            },
            "data": {"password": "canary"}, "stringData": {"token": "canary"},
            "later": {"deep": ["canary"]},
        });
        hide(&mut secret);
        let text = secret.to_string();
        assert!(!text.contains("canary"), "{text}");
        for name in ["password", "token", "web", "Opaque", "last-applied"] {
            assert!(text.contains(name), "{name}: {text}");
        }
        for mut odd in [
            json!("canary"),
            json!({"data": "canary", "metadata": "canary"}),
            json!({"type": {"x": "canary"}, "data": ["canary"]}),
        ] {
            hide(&mut odd);
            assert!(!odd.to_string().contains("canary"), "{odd}");
        }
    }

    #[test]
    fn changes_of_values_are_not_shown() {
        for (steps, want) in [
            (&["data", "password"][..], false),
            (&["data"], false),
            (&["stringData", "x"], false),
            (&["metadata", "annotations", "a"], false),
            (&["metadata", "annotations"], false),
            (&["metadata"], false),
            (&["later"], false),
            (&["type"], true),
            (&["metadata", "labels", "app"], true),
            (&[], false),
        ] {
            assert_eq!(shows(steps), want, "{steps:?}");
        }
    }
}
