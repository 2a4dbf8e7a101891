//! The steps of a script after which its objects are as they were after an earlier step.
//!
//! ```text
//! creates, patches, deletes ─▶ the script's objects after each step ─▶ (later, earlier) with equal ones
//! ```
//!
//! An operator's objects follow from what it is asked for, so they must then be equal, too. A patch
//! or a status of an object that the script has not created, or a step of code, has an unknown
//! effect: no step after it is compared. While an object of the script is deleted, neither is: what
//! is kept of it may be wanted. Objects of others that the script deletes are left out until it has
//! changed each of its own again: an operator that does not watch them brings them back at the next
//! change.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::script::{Effect, Step};

/// Two steps after which the objects of the script are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Return {
    pub(crate) later: usize,
    /// The earliest of them.
    pub(crate) earlier: usize,
    /// The objects of others that the script has deleted, and that need not be back: plural and key.
    pub(crate) deleted: Vec<String>,
}

/// The pairs of steps after which the objects of the script are equal; `before` are those that are
/// there before it.
pub(crate) fn returns(before: &[Step], steps: &[Step]) -> Vec<Return> {
    let mut objects: BTreeMap<&str, Value> = BTreeMap::new();
    for step in before {
        if let Effect::Create(path, object) = &step.effect {
            objects.insert(path, without_nulls(object.clone()));
        }
    }
    let mut deleted = BTreeSet::new();
    let mut past: Vec<(usize, BTreeMap<&str, Value>)> = Vec::new();
    let mut pairs = Vec::new();
    let mut foreign: Vec<Gone<'_>> = Vec::new();
    let changed = |step: &Step| match &step.effect {
        Effect::Create(path, _) | Effect::Patch(path, _) => Some(path.clone()),
        _ => None,
    };
    let all: BTreeSet<String> = steps.iter().filter_map(changed).collect();
    for (number, step) in steps.iter().enumerate() {
        match &step.effect {
            Effect::Create(path, object) => {
                deleted.remove(path.as_str());
                objects.insert(path, without_nulls(object.clone()));
            }
            Effect::Patch(path, patch) => match objects.get_mut(path.as_str()) {
                Some(object) => json_patch::merge(object, patch),
                None => break,
            },
            Effect::Delete(path) => {
                if objects.remove(path.as_str()).is_some() {
                    deleted.insert(path.as_str());
                } else {
                    let is_changed = |own: &&str| all.contains(*own);
                    foreign.push(Gone {
                        name: named(path),
                        waits_for: objects.keys().copied().filter(is_changed).collect(),
                    });
                }
            }
            Effect::Status(_) | Effect::Unknown => break,
        }
        if let Some(path) = changed(step) {
            foreign.retain_mut(|gone| {
                gone.waits_for.remove(path.as_str());
                !gone.waits_for.is_empty()
            });
        }
        if !deleted.is_empty() {
            continue;
        }
        match past.iter().find(|(_, before)| *before == objects) {
            Some((earlier, _)) => pairs.push(Return {
                later: number,
                earlier: *earlier,
                deleted: foreign.iter().map(|gone| gone.name.clone()).collect(),
            }),
            None => past.push((number, objects.clone())),
        }
    }
    pairs
}

/// An object of others that the script has deleted.
struct Gone<'a> {
    name: String,
    /// The objects of the script that it has not changed since.
    waits_for: BTreeSet<&'a str>,
}

/// The plural and the key of the object of a path.
fn named(path: &str) -> String {
    let mut words = path.split('/').filter(|word| !word.is_empty());
    // The version is behind the group, where there is one.
    let before = if words.next() == Some("apis") { 2 } else { 1 };
    let rest: Vec<_> = words.skip(before).collect();
    match rest[..] {
        ["namespaces", namespace, plural, name] => format!("{plural} {namespace}/{name}"),
        [plural, name] => format!("{plural} {name}"),
        _ => path.to_owned(),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null());
            let members = members.map(|(name, value)| (name, without_nulls(value)));
            Value::Object(members.collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    fn steps(effects: Vec<Effect>) -> Vec<Step> {
        let step = |effect| Step {
            name: String::new(),
            work: Arc::new(|_| async { Ok(()) }.boxed()),
            effect,
        };
        effects.into_iter().map(step).collect()
    }

    fn check(effects: Vec<Effect>, expected: &[(usize, usize)]) {
        let steps = steps(effects);
        let found = returns(&steps[..0], &steps);
        let pairs: Vec<_> = found.iter().map(|one| (one.later, one.earlier)).collect();
        assert_eq!(pairs, expected);
    }

    fn create(name: &str, spec: Value) -> Effect {
        Effect::Create(name.to_owned(), json!({"spec": spec, "status": null}))
    }

    fn patch(name: &str, spec: Value) -> Effect {
        Effect::Patch(name.to_owned(), json!({"spec": spec}))
    }

    #[test]
    fn a_field_that_is_put_back_is_compared_with_the_earliest_step() {
        let there = patch("a", json!({"x": 2, "y": 1}));
        let back = patch("a", json!({"x": 1, "y": null}));
        let first = create("a", json!({"x": 1}));
        check(
            vec![first, there.clone(), back.clone(), there, back],
            &[(2, 0), (3, 1), (4, 0)],
        );
    }

    #[test]
    fn an_object_that_is_made_again_is_compared_but_not_while_it_is_gone() {
        let delete = |name: &str| Effect::Delete(name.to_owned());
        let effects = vec![
            create("a", json!({"x": 1})),
            create("b", json!({})),
            delete("b"),
            create("b", json!({})),
            delete("child"),
        ];
        check(effects, &[(3, 1), (4, 1)]);
    }

    #[test]
    fn an_object_of_others_that_is_deleted_is_left_out_until_all_own_objects_have_changed() {
        let (there, back) = (json!({"x": 2}), json!({"x": 1}));
        let child = "/api/v1/namespaces/d/secrets/a".to_owned();
        let effects = vec![
            create("a", json!({"x": 1})),
            create("b", json!({})),
            Effect::Delete(child),
            patch("a", there),
            patch("a", back),
            patch("b", json!({"y": 1})),
            patch("b", json!({"y": null})),
        ];
        let steps = steps(effects);
        let found = returns(&steps[..0], &steps);
        let deleted: Vec<_> = found
            .iter()
            .map(|one| (one.later, &one.deleted[..]))
            .collect();
        let child = ["secrets d/a".to_owned()];
        assert_eq!(deleted, [(2, &child[..]), (4, &child[..]), (6, &[][..])]);
    }

    #[test]
    fn objects_of_others_that_are_deleted_are_named() {
        for (path, expected) in [
            ("/api/v1/namespaces/d/secrets/a", "secrets d/a"),
            ("/apis/g/v1/namespaces/d/foos/a", "foos d/a"),
            ("/api/v1/namespaces/d", "namespaces d"),
            ("/apis/g/v1/bars/b", "bars b"),
        ] {
            assert_eq!(named(path), expected);
        }
    }

    #[test]
    fn nothing_is_compared_after_an_unknown_effect() {
        let again = || vec![create("a", json!({})), patch("a", json!({}))];
        let status = Effect::Status("a".to_owned());
        for unknown in [Effect::Unknown, status, patch("child", json!({}))] {
            let mut effects = again();
            effects.push(unknown);
            effects.push(patch("a", json!({})));
            check(effects, &[(1, 0)]);
        }
    }
}
