//! Match conditions: whether a webhook or a policy is asked about a question.
//!
//! ```text
//! conditions + Evaluation ──▶ asked | not asked | errors
//! ```
//!
//! A condition that is false wins over one that fails.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/webhook/matchconditions/matcher.go`.

use kube_cel::cel::Value as CelValue;
use serde_json::Value;

use super::{CONDITIONS, Evaluation, Expression, Failure};
use crate::object::text;
use crate::schema::cel::environment::Environment;

/// The conditions of a webhook or a policy.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Vec<Expression>);

/// The result of all conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All are true.
    Asked,
    /// One is false.
    Skipped,
    /// None is false, and one failed.
    Failed(String),
}

impl Conditions {
    /// Compiles the conditions of a webhook or a policy.
    pub(crate) fn of(list: &Value, environment: &Environment<'_>) -> Self {
        let items = list.as_array().into_iter().flatten();
        let compiled = items.map(|condition| {
            let text = text(condition, &["expression"]).to_owned();
            let program = environment.compile(text.trim()).map(|(program, _)| program);
            Expression { text, program }
        });
        Self(compiled.collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Evaluates the conditions.
    pub(crate) fn evaluate(&self, evaluation: &Evaluation) -> Verdict {
        let mut budget = CONDITIONS;
        let mut errors = Vec::new();
        for condition in &self.0 {
            match evaluation.run(condition, &[], &mut budget) {
                Ok(CelValue::Bool(true)) => {}
                Ok(CelValue::Bool(false)) => return Verdict::Skipped,
                Ok(_) => errors.push("match condition does not evaluate to a boolean".to_owned()),
                Err(Failure::Error(why)) => errors.push(why),
                Err(Failure::OutOfBudget) => {
                    let why = "validation failed due to running out of cost budget, no further \
                               validation rules will be run";
                    errors.push(why.to_owned());
                    break;
                }
            }
        }
        match errors.as_slice() {
            [] => Verdict::Asked,
            [one] => Verdict::Failed(one.clone()),
            many => Verdict::Failed(format!("[{}]", many.join(", "))),
        }
    }
}
