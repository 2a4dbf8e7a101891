//! A definition's conditions, one step at a time.
//!
//! ```text
//! created -> names accepted, installing -> established          deleted -> terminating -> released
//! ```
//!
//! Upstream's controllers write each step as an update of its own, which watches see. The server
//! does the same: it stores the result of `settle` until the definition is settled.
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/controller/{status,establish,finalizer}`.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::CLEANUP;
use crate::object::{at, metadata, text};

/// Returns whether the objects of a definition are served.
pub(crate) fn is_established(definition: &Value) -> bool {
    says(definition, "Established", "True")
}

/// Returns the next state of a definition, given all others, or `None` if it is settled.
pub(crate) fn settle<'a>(
    definition: &Value,
    others: impl IntoIterator<Item = &'a Value>,
    now: Timestamp,
) -> Option<Value> {
    if metadata::is_terminating(definition) {
        return None;
    }
    let (names, conflict) = accept(definition, others)?;
    let is_accepted = conflict.is_none();
    let mut next = definition.clone();
    next["status"]["acceptedNames"] = names;
    let (status, reason, message) = match &conflict {
        Some((reason, message)) => ("False", *reason, message.as_str()),
        None => ("True", "NoConflicts", "no conflicts found"),
    };
    put(&mut next, "NamesAccepted", [status, reason, message], now);
    let accepted = "the initial names have been accepted";
    if !is_established(definition) {
        match (is_accepted, says(definition, "Established", "False")) {
            (true, _) => put(
                &mut next,
                "Established",
                ["False", "Installing", accepted],
                now,
            ),
            (false, false) => {
                let message = "not all names are accepted";
                put(
                    &mut next,
                    "Established",
                    ["False", "NotAccepted", message],
                    now,
                );
            }
            (false, true) => {}
        }
    }
    if next != *definition {
        return Some(next);
    }
    if !is_accepted || is_established(definition) {
        return None;
    }
    let reason = "InitialNamesAccepted";
    put(&mut next, "Established", ["True", reason, accepted], now);
    Some(next)
}

/// Sets the condition that the objects of the definition will be deleted.
pub(super) fn begin_termination(definition: &mut Value, now: Timestamp) {
    let message =
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    put(
        definition,
        "Terminating",
        ["True", "InstanceDeletionPending", message],
        now,
    );
}

/// Returns whether a definition waits for the deletion of its objects.
pub(crate) fn awaits_cleanup(definition: &Value) -> bool {
    metadata::is_terminating(definition)
        && metadata::finalizers(definition).any(|name| name == CLEANUP)
}

/// Returns the definition with the condition that its objects are being deleted.
pub(crate) fn wait(definition: &Value, now: Timestamp) -> Value {
    let mut next = definition.clone();
    let message = "CustomResource deletion is in progress";
    let reason = "InstanceDeletionInProgress";
    put(&mut next, "Terminating", ["True", reason, message], now);
    next
}

/// Returns the definition without its cleanup finalizer, once its objects are gone.
pub(crate) fn release(definition: &Value, now: Timestamp) -> Value {
    let mut next = definition.clone();
    let message = "removed all instances";
    put(
        &mut next,
        "Terminating",
        ["False", "InstanceDeletionCompleted", message],
        now,
    );
    let kept: Vec<Value> = metadata::finalizers(definition)
        .filter(|name| *name != CLEANUP)
        .map(Value::from)
        .collect();
    if kept.is_empty() {
        metadata::of(&mut next).remove("finalizers");
    } else {
        metadata::of(&mut next).insert("finalizers".to_owned(), Value::from(kept));
    }
    next
}

fn says(definition: &Value, condition: &str, status: &str) -> bool {
    let conditions = at(definition, &["status", "conditions"]).and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|c| text(c, &["type"]) == condition && text(c, &["status"]) == status)
}

fn put(
    definition: &mut Value,
    condition: &str,
    [status, reason, message]: [&str; 3],
    now: Timestamp,
) {
    let list = &mut definition["status"]["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else {
        return;
    };
    let old = list.iter().position(|c| text(c, &["type"]) == condition);
    let since = old
        .filter(|at| text(&list[*at], &["status"]) == status)
        .map(|at| list[at]["lastTransitionTime"].clone());
    let new = json!({
        "type": condition,
        "status": status,
        "lastTransitionTime": since.unwrap_or_else(|| metadata::time(now)),
        "reason": reason,
        "message": message,
    });
    match old {
        Some(at) => list[at] = new,
        None => list.push(new),
    }
}

/// The reason and the message of a name that is not accepted.
type Conflict = (&'static str, String);

/// Returns the accepted names: those that the definition already has, and those requested names
/// that no other definition has. If several names conflict, the last conflict is reported.
fn accept<'a>(
    definition: &Value,
    others: impl IntoIterator<Item = &'a Value>,
) -> Option<(Value, Option<Conflict>)> {
    let (name, group) = (
        text(definition, &["metadata", "name"]),
        text(definition, &["spec", "group"]),
    );
    let (mut resources, mut kinds) = (HashSet::new(), HashSet::new());
    for other in others {
        if text(other, &["spec", "group"]) != group || text(other, &["metadata", "name"]) == name {
            continue;
        }
        let accepted = |name| text(other, &["status", "acceptedNames", name]);
        resources.extend([accepted("plural"), accepted("singular")]);
        let path = ["status", "acceptedNames", "shortNames"];
        resources.extend(short_names(other, &path));
        kinds.extend([accepted("kind"), accepted("listKind")]);
    }
    let wishes = at(definition, &["spec", "names"])?;
    let mut names = at(definition, &["status", "acceptedNames"])?.clone();
    let mut conflict = None;
    let in_use = |name: &str| format!("{name:?} is already in use");
    let mut take = |field: &str, taken: &HashSet<&str>, reason| {
        let wish = text(wishes, &[field]);
        if wish != text(&names, &[field]) && taken.contains(wish) {
            conflict = Some((reason, in_use(wish)));
        } else {
            names[field] = Value::from(wish);
        }
    };
    take("plural", &resources, "PluralConflict");
    take("singular", &resources, "SingularConflict");
    let short = short_names(wishes, &["shortNames"]);
    let taken: Vec<String> = short
        .filter(|name| resources.contains(name))
        .map(in_use)
        .collect();
    let short_conflict = match taken.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    };
    take("kind", &kinds, "KindConflict");
    take("listKind", &kinds, "ListKindConflict");
    for list in ["shortNames", "categories"] {
        if list == "shortNames" && short_conflict.is_some() {
            continue;
        }
        match (wishes.get(list), names.as_object_mut()) {
            (Some(wish), Some(names)) => _ = names.insert(list.to_owned(), wish.clone()),
            (None, Some(names)) => _ = names.remove(list),
            _ => {}
        }
    }
    let conflict = conflict.or_else(|| Some(("ShortNamesConflict", short_conflict?)));
    Some((names, conflict))
}

fn short_names<'a>(definition: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a str> {
    let list = at(definition, path).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, kind: &str) -> Value {
        json!({"metadata": {"name": format!("{name}.example.com")},
            "spec": {"group": "example.com", "names": {"plural": name, "kind": kind}},
            "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}}})
    }

    fn settled(mut definition: Value, others: &[Value]) -> (Value, usize) {
        let mut steps = 0;
        while let Some(next) = settle(&definition, others, Timestamp::UNIX_EPOCH) {
            definition = next;
            steps += 1;
        }
        (definition, steps)
    }

    #[test]
    fn a_definition_is_established_in_two_steps() {
        let (first, steps) = settled(definition("foos", "Foo"), &[]);
        assert_eq!(steps, 2);
        assert!(is_established(&first));
        assert_eq!(first["status"]["acceptedNames"]["plural"], "foos");
        let (second, steps) = settled(definition("bars", "Foo"), &[first]);
        assert_eq!(steps, 1);
        assert!(!is_established(&second));
        assert_eq!(second["status"]["conditions"][0]["reason"], "KindConflict");
    }
}
