//! The steps of a script that change what the operator has made.
//!
//! ```text
//! creates, patches, deletes ─▶ objects of the script ─▶ numbers of the steps that patch any other object
//! ```
//!
//! Such a step stands for a third party, as a kubelet that reports on a Deployment. It is about the
//! object that is there once the steps before it are complete: sooner, it would hit one that the
//! operator is about to replace, and its effect would be gone with that. A deletion is no such step,
//! since operators bring back what is deleted, whenever that is. A patch of finalizers is one: it may
//! take away that of another client, which has left once the steps before are complete.

use std::collections::BTreeSet;

use super::script::{Effect, Step};

/// The numbers of these steps; `before` creates the objects that are there before the script.
pub(crate) fn foreign(before: &[Step], steps: &[Step]) -> BTreeSet<usize> {
    let created = |step: &Step| match &step.effect {
        Effect::Create(path, _) => Some(path.clone()),
        _ => None,
    };
    let mut own: BTreeSet<String> = before.iter().filter_map(created).collect();
    let mut found = BTreeSet::new();
    for (number, step) in steps.iter().enumerate() {
        own.extend(created(step));
        let is_foreign = match &step.effect {
            Effect::Patch(path, patch) => {
                !own.contains(path) || patch.pointer("/metadata/finalizers").is_some()
            }
            Effect::Status(path) => !own.contains(path),
            _ => false,
        };
        if is_foreign {
            found.insert(number);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_of_finalizers_and_of_objects_that_the_script_has_not_created_are_foreign() {
        let step = |effect| Step {
            name: String::new(),
            work: Arc::new(|_| async { Ok(()) }.boxed()),
            effect,
        };
        let path = |name: &str| name.to_owned();
        let before = [step(Effect::Create(path("node"), json!({})))];
        let steps = [
            Effect::Create(path("a"), json!({})),
            Effect::Patch(path("a"), json!({})),
            Effect::Patch(path("a"), json!({"metadata": {"finalizers": null}})),
            Effect::Status(path("a")),
            Effect::Status(path("node")),
            Effect::Status(path("child")),
            Effect::Patch(path("child"), json!({})),
            Effect::Delete(path("child")),
            Effect::Unknown,
        ];
        let found = foreign(&before, &steps.map(step));
        assert_eq!(found, BTreeSet::from([2, 5, 6]));
    }
}
