//! The JSON patch of a mutating webhook, from an object that typed code changed.
//!
//! ```text
//! original (as sent) ─┬─decode, encode──▶ before ─┐ differences of before and after
//!                     └──────────────────────────▶ put into the original ──▶ diff ──▶ patch
//! changed object ───────encode──────────▶ after ──┘
//! ```
//!
//! A type knows part of an object. The patch has what the code changed, and nothing that decoding
//! alone changes: unknown fields stay, so do values that are written in another way (`1000m`, `1`).
//! Elements of lists are matched if they are equal, or have equal names, so that unknown fields of
//! those stay, too.
//!
//! Invariant: the patch applies to the original.
//!
//! Complexity: linear, but for lists whose length changed: quadratic in the elements that differ.
//!
//! Upstream counterpart: `controller-runtime:pkg/webhook/admission/defaulter_custom.go`, which drops
//! removals by path.

use serde_json::{Map, Value};

use super::refusal::Refusal;

/// BOUND: bytes of a patch: the API server's own limit of a request body.
const MOST_BYTES: usize = 3 << 20;
/// BOUND: elements of a list that are compared with each other; a longer one is taken as it is.
const MOST_COMPARED: usize = 1000;
/// Members that identify an element of a list, as merge keys of built-in types do.
const NAMES: [&str; 5] = ["name", "key", "type", "uid", "mountPath"];

/// Returns the operations that change `original` as `before` was changed to `after`; `None` if they
/// are equal.
///
/// # Errors
/// The patch is too large, or does not apply.
pub(super) fn patch(
    original: &Value,
    before: &Value,
    after: &Value,
) -> Result<Option<Vec<u8>>, Refusal> {
    if before == after {
        return Ok(None);
    }
    let target = carry(original, before, after);
    let patch = json_patch::diff(original, &target);
    if patch.0.is_empty() {
        return Ok(None);
    }
    let mut result = original.clone();
    let applied = json_patch::patch(&mut result, &patch);
    if applied.is_err() || result != target {
        return Err(Refusal::failed(
            "the patch does not make the changed object",
        ));
    }
    let bytes = serde_json::to_vec(&patch)
        .map_err(|_| Refusal::failed("the patch cannot be serialized"))?;
    if bytes.len() > MOST_BYTES {
        let line = format!("the patch has more than {MOST_BYTES} bytes");
        return Err(Refusal::failed(line));
    }
    Ok(Some(bytes))
}

/// Carries the differences of `before` and `after` over to `original`.
fn carry(original: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return original.clone();
    }
    match (original, before, after) {
        (Value::Object(original), Value::Object(before), Value::Object(after)) => {
            Value::Object(carry_members(original, before, after))
        }
        (Value::Array(original), Value::Array(before), Value::Array(after))
            if original.len() == before.len() =>
        {
            Value::Array(carry_elements(original, before, after))
        }
        _ => after.clone(),
    }
}

fn carry_members(
    original: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut target = original.clone();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        target.remove(key);
    }
    for (key, new) in after {
        let value = match (original.get(key), before.get(key)) {
            (Some(original), Some(old)) => carry(original, old, new),
            // The type writes a member that was not sent: not a change if it is as decoded.
            (None, Some(old)) if old == new => continue,
            _ => new.clone(),
        };
        target.insert(key.clone(), value);
    }
    target
}

/// Carries over the differences of two lists, the first of which has an original for each element.
fn carry_elements(original: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    if before.len() == after.len() && !is_moved(before, after) {
        let triples = original.iter().zip(before).zip(after);
        return triples
            .map(|((original, old), new)| carry(original, old, new))
            .collect();
    }
    if before.len().max(after.len()) > MOST_COMPARED {
        return after.to_vec();
    }
    let mut is_used = vec![false; before.len()];
    let mut find = |is_it: &dyn Fn(&Value) -> bool| {
        let at = (0..before.len()).find(|at| !is_used[*at] && is_it(&before[*at]))?;
        is_used[at] = true;
        Some(at)
    };
    // Equal ones first, or a namesake would take the place of one.
    let equal: Vec<_> = after.iter().map(|new| find(&|old| old == new)).collect();
    let pairs = after.iter().zip(equal);
    pairs
        .map(|(new, equal)| match equal {
            Some(at) => original[at].clone(),
            None => match find(&|old| is_namesake(old, new)) {
                Some(at) => carry(&original[at], &before[at], new),
                None => new.clone(),
            },
        })
        .collect()
}

/// Returns whether a named element has another place in the second list.
fn is_moved(before: &[Value], after: &[Value]) -> bool {
    let names = |value: &Value| NAMES.iter().find_map(|name| value.get(name).cloned());
    before
        .iter()
        .zip(after)
        .any(|(old, new)| match (names(old), names(new)) {
            (Some(old), Some(new)) => old != new,
            _ => false,
        })
}

fn is_namesake(old: &Value, new: &Value) -> bool {
    let name = NAMES.iter().find(|name| new.get(name).is_some());
    name.is_some_and(|name| old.get(name) == new.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the object after the patch.
    fn patched(original: &Value, before: &Value, after: &Value) -> Value {
        let mut result = original.clone();
        if let Some(bytes) = patch(original, before, after).unwrap() {
            let patch: json_patch::Patch = serde_json::from_slice(&bytes).unwrap();
            json_patch::patch(&mut result, &patch).unwrap();
        }
        result
    }

    #[test]
    fn only_what_the_code_changed_is_patched() {
        // controller-runtime: "should preserve unknown fields by default"
        for (original, before, after, expected) in [
            // Unknown fields stay, nested and in lists.
            (
                json!({"a": 1, "new": {"x": 1}, "b": {"new": 2}}),
                json!({"a": 1, "b": {}}),
                json!({"a": 2, "b": {"c": 3}}),
                json!({"a": 2, "new": {"x": 1}, "b": {"new": 2, "c": 3}}),
            ),
            // What decoding alone changes stays as it was sent.
            (
                json!({"q": "1000m", "n": null, "z": 1}),
                json!({"q": "1", "d": 0, "z": 1}),
                json!({"q": "1", "d": 0, "z": 2}),
                json!({"q": "1000m", "n": null, "z": 2}),
            ),
            // Removed by the code.
            (
                json!({"a": 1, "b": 2}),
                json!({"a": 1, "b": 2}),
                json!({"b": 2}),
                json!({"b": 2}),
            ),
            // Elements keep their unknown fields when others come before them,
            (
                json!({"l": [{"name": "a", "new": 1}, {"name": "b", "new": 2}]}),
                json!({"l": [{"name": "a"}, {"name": "b"}]}),
                json!({"l": [{"name": "side"}, {"name": "a"}, {"name": "b", "x": 1}]}),
                json!({"l": [{"name": "side"}, {"name": "a", "new": 1},
                    {"name": "b", "new": 2, "x": 1}]}),
            ),
            // when one is gone,
            (
                json!({"l": [{"name": "a", "new": 1}, {"name": "b", "new": 2}]}),
                json!({"l": [{"name": "a"}, {"name": "b"}]}),
                json!({"l": [{"name": "b"}]}),
                json!({"l": [{"name": "b", "new": 2}]}),
            ),
            // when they change places,
            (
                json!({"l": [{"name": "a", "new": 1}, {"name": "b", "new": 2}]}),
                json!({"l": [{"name": "a"}, {"name": "b"}]}),
                json!({"l": [{"name": "b"}, {"name": "a"}]}),
                json!({"l": [{"name": "b", "new": 2}, {"name": "a", "new": 1}]}),
            ),
            // and in place.
            (
                json!({"l": [{"v": 1, "new": 1}, {"v": 2, "new": 2}]}),
                json!({"l": [{"v": 1}, {"v": 2}]}),
                json!({"l": [{"v": 1}, {"v": 3}]}),
                json!({"l": [{"v": 1, "new": 1}, {"v": 3, "new": 2}]}),
            ),
            // A list that decoding shortened is what the code says.
            (
                json!({"l": [1, 2]}),
                json!({"l": [1]}),
                json!({"l": [3]}),
                json!({"l": [3]}),
            ),
            // Another type.
            (
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1}}),
                json!({"a": 1}),
                json!({"a": 1}),
            ),
            // Names that a JSON pointer escapes.
            (
                json!({"x/y~z": {"new": 1}}),
                json!({"x/y~z": {}}),
                json!({"x/y~z": {"": 1}}),
                json!({"x/y~z": {"new": 1, "": 1}}),
            ),
        ] {
            assert_eq!(patched(&original, &before, &after), expected, "{original}");
        }
    }

    #[test]
    fn an_object_that_was_not_changed_has_no_patch() {
        let original = json!({"a": 1, "new": 2});
        let before = json!({"a": 1, "d": 0});
        assert_eq!(patch(&original, &before, &before).unwrap(), None);
        // Changed to what was sent.
        let (before, after) = (json!({"q": "1"}), json!({"q": "1000m"}));
        assert_eq!(
            patch(&json!({"q": "1000m"}), &before, &after).unwrap(),
            None
        );
    }

    #[test]
    fn long_lists_and_large_patches_are_bounded() {
        let long = |first: u32| json!({"l": (first..first + 5000).collect::<Vec<_>>()});
        let (before, mut after) = (long(0), long(1));
        assert_eq!(patched(&before, &before, &after), after);
        after["l"] = json!([]);
        assert_eq!(patched(&before, &before, &after), after);
        let large = json!({"a": "x".repeat(MOST_BYTES)});
        let error = patch(&json!({}), &json!({}), &large).unwrap_err();
        assert_eq!(error.line(), "the patch has more than 3145728 bytes");
    }

    proptest::proptest! {
        #[test]
        fn a_patch_of_a_type_that_knows_all_makes_the_changed_object(
            before in value(), after in value(),
        ) {
            proptest::prop_assert_eq!(patched(&before, &before, &after), after);
        }
    }

    fn value() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4).prop_map(Value::from),
            "[a-c/~]{0,2}".prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]|name", inner, 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        });
        prop::collection::btree_map("[a-c]|name", value, 0..4)
            .prop_map(|members| members.into_iter().collect())
    }
}
