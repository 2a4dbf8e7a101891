//! A condition of one object, for tools that filter objects by an expression.
//!
//! ```text
//! text ──▶ ObjectCondition | InvalidCondition        condition + object, budget ──▶ true | false | ConditionFailure
//! ```
//!
//! The expression has one variable, `object`, as in an admission policy: members without a type. It
//! neither reads a server nor changes the object.
//!
//! BOUND: 10^6 units of cost for an object, as for one expression of a policy.
//!
//! Upstream counterpart: `kubernetes/apiserver:pkg/admission/plugin/cel/compile.go`.

use std::fmt;

use kube_cel::cel::{Context, Value as CelValue};
use serde_json::Value;

use super::{EXPRESSION, values};
use crate::schema::cel::meter::{self, Purse};
use crate::schema::cel::paid;
use crate::schema::cel::program::{self, Program};
use crate::schema::cel::types::Type;

/// A condition in CEL of the variable `object`.
pub struct ObjectCondition {
    program: Program,
    /// The functions. Making them takes longer than most expressions.
    context: Context<'static>,
    purse: Purse,
}

impl fmt::Debug for ObjectCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectCondition")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// An expression that is no condition: it does not parse, names another variable, or its result is
/// never a bool. The message has one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCondition(String);

impl fmt::Display for InvalidCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidCondition {}

/// The reason why a condition has no answer for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConditionFailure {
    /// The expression costs more than its budget.
    OutOfBudget,
    /// The expression has no value for this object, as where a member is absent.
    NoValue(String),
}

impl ObjectCondition {
    /// Compiles an expression.
    ///
    /// # Errors
    /// A syntax or type error, in upstream's words, on one line.
    pub fn compile(text: &str) -> Result<Self, InvalidCondition> {
        let variables = vec![("object".to_owned(), Type::Dynamic)];
        let (program, of) = Program::compile(text, variables)
            .map_err(|message| InvalidCondition(first_line(&message)))?;
        match of {
            Type::Bool | Type::Dynamic => {
                let purse = Purse::default();
                Ok(Self {
                    program,
                    context: paid::context(&purse),
                    purse,
                })
            }
            _ => Err(InvalidCondition("must evaluate to bool".to_owned())),
        }
    }

    /// Returns whether the condition is true of an object. Calls at the same time share a budget.
    ///
    /// # Errors
    /// The expression has no value, or costs too much.
    pub fn is_true(&self, object: &Value) -> Result<bool, ConditionFailure> {
        let mut context = self.context.new_inner_scope();
        context.add_variable_from_value("object", values::of(object));
        self.purse.refill(EXPRESSION);
        match self.program.run(&context) {
            Ok(CelValue::Bool(is_true)) => Ok(is_true),
            Ok(_) => Err(ConditionFailure::NoValue("its value is no bool".to_owned())),
            Err(error) if meter::is_out_of_budget(&error) => Err(ConditionFailure::OutOfBudget),
            Err(error) => Err(ConditionFailure::NoValue(program::words(&error))),
        }
    }
}

/// The place and the mistake, without the drawing below them.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.strip_prefix("ERROR: <input>:").unwrap_or(line);
    match line.split_once(": ") {
        // Not every mistake has a place.
        Some(("-1:0", words)) => words.to_owned(),
        Some((place, words)) => format!("at {place}: {words}"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, object: &Value, expected: Result<bool, ConditionFailure>) {
        let condition = ObjectCondition::compile(text).unwrap();
        assert_eq!(condition.is_true(object), expected, "{text}");
    }

    #[test]
    fn a_condition_is_decided_by_the_object_alone() {
        let pod = json!({"metadata": {"name": "web", "labels": {"app": "shop"}},
            "status": {"phase": "Running", "containerStatuses": [{"restartCount": 3}]}});
        let absent = || Err(ConditionFailure::NoValue("no such key: spec".to_owned()));
        for (text, expected) in [
            ("object.status.phase == 'Running'", Ok(true)),
            (
                "object.status.containerStatuses.exists(c, c.restartCount > 3)",
                Ok(false),
            ),
            (
                "object.metadata.name.startsWith('w') && has(object.metadata.labels.app)",
                Ok(true),
            ),
            ("object.spec.nodeName == 'a'", absent()),
            ("has(object.spec) && object.spec.nodeName == 'a'", Ok(false)),
        ] {
            check(text, &pod, expected);
        }
    }

    #[test]
    fn what_is_no_condition_is_refused_in_one_line() {
        for text in [
            "object.a ==",
            "objekt.a",
            "'a' + 'b'",
            "1",
            "",
            &"(".repeat(500),
        ] {
            let why = ObjectCondition::compile(text).unwrap_err().to_string();
            assert!(!why.is_empty() && !why.contains('\n'), "{text}: {why}");
        }
    }

    #[test]
    fn a_condition_that_costs_too_much_ends() {
        let numbers: Vec<u32> = (0..2_000).collect();
        let object = json!({"a": numbers});
        let text = "object.a.all(x, object.a.all(y, object.a.all(z, x + y + z >= 0)))";
        check(text, &object, Err(ConditionFailure::OutOfBudget));
    }
}
