//! `--where CEL`: a condition that each object is asked.
//!
//! ```text
//! text ──▶ Where | usage       object ──▶ true | false | Failure: it costs too much
//! ```
//!
//! An object for which the expression has no value, as where a member is absent, is not selected; the
//! first such object is reported, since the expression may have a mistake. Compiling, checking and
//! limits of cost are the embedded server's, as for admission policies.

use std::sync::Once;

use kinform::Obj;
use kinform_apiserver::{ConditionFailure, ObjectCondition};
use kube_core::DynamicObject;
use serde_json::Value;

use crate::exit::Failure;

/// A condition, and whether a missing value was reported.
#[derive(Debug)]
pub(crate) struct Where {
    condition: ObjectCondition,
    reported: Once,
}

impl Where {
    /// Compiles the text of the flag.
    ///
    /// # Errors
    /// Wrong usage: the text is no condition.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let condition = ObjectCondition::compile(text).map_err(|why| {
            Failure::usage(format!("--where {text:?}: {why}")).with_hint(
                "the expression has one variable, as in \"object.status.phase == 'Running'\"",
            )
        })?;
        Ok(Self {
            condition,
            reported: Once::new(),
        })
    }

    /// Returns whether an object meets the condition.
    ///
    /// # Errors
    /// The expression costs too much.
    pub(crate) fn accepts(&self, object: &Value) -> Result<bool, Failure> {
        let key = || {
            let part = |name: &str| object.pointer(name).and_then(Value::as_str);
            let name = part("/metadata/name").unwrap_or_default();
            match part("/metadata/namespace") {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name.to_owned(),
            }
        };
        match self.condition.is_true(object) {
            Ok(is_true) => Ok(is_true),
            Err(ConditionFailure::OutOfBudget) => {
                let message = format!("--where costs too much for {}", key());
                Err(Failure::new(message).with_hint(
                    "loops in loops over long lists do; -l and --field-selector select on the server",
                ))
            }
            Err(failure) => {
                if let ConditionFailure::NoValue(why) = failure {
                    self.reported.call_once(|| {
                        crate::progress!(
                            "--where has no value for {} ({why}), which is left out; has(object.a.b) asks whether a member is there",
                            key()
                        );
                    });
                }
                Ok(false)
            }
        }
    }

    /// The same of a cached object.
    ///
    /// # Errors
    /// As of [`Where::accepts`].
    pub(crate) fn selects(&self, object: &Obj<DynamicObject>) -> Result<bool, Failure> {
        // Stored objects were validated when they came; only a number out of range could fail here.
        let json = serde_json::from_slice(&object.to_json())
            .map_err(|error| Failure::new(format!("{}: {error}", object.key())))?;
        self.accepts(&json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_mistake_is_usage_and_a_cost_is_a_failure() {
        for text in ["object.a ==", "pod.a == 1", "1 + 1"] {
            let failure = Where::parse(text).unwrap_err();
            assert_eq!(failure.code(), 2, "{text}");
            let (message, hint) = failure.parts();
            assert!(!message.contains('\n') && hint.is_some(), "{message}");
        }
        let dear = "object.a.all(x, object.a.all(y, object.a.all(z, x + y + z >= 0)))";
        let numbers: Vec<u32> = (0..2_000).collect();
        let failure = Where::parse(dear)
            .unwrap()
            .accepts(&json!({"metadata": {"name": "b", "namespace": "a"}, "a": numbers}))
            .unwrap_err();
        assert_eq!(failure.code(), 1);
        assert_eq!(failure.parts().0, "--where costs too much for a/b");
    }

    #[test]
    fn an_object_without_the_member_is_not_selected() {
        let condition = Where::parse("object.spec.replicas > 2").unwrap();
        let check = |object: Value, expected: bool| {
            assert_eq!(condition.accepts(&object).unwrap(), expected, "{object}");
        };
        check(json!({"spec": {"replicas": 3}}), true);
        check(json!({"spec": {"replicas": 2}}), false);
        check(json!({"spec": {}}), false);
        check(json!({}), false);
    }
}
