//! The expressions of a policy for one parameter.
//!
//! ```text
//! Policy + Evaluation + parameter ──conditions, validations, annotations──▶ [Decision]
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/policy/validating/validator.go`.

use kube_cel::cel::Value as CelValue;
use serde_json::Value;

use super::stored::{Policy, Validation};
use crate::admission::cel::{BINDING, Evaluation, Failure, Verdict};

/// The length of a message that an expression may make.
const MAX_MESSAGE: usize = 5 << 10;
const OUT_OF_BUDGET: &str = "validation failed due to running out of cost budget, no further \
                             validation rules will be run";

/// A validation that is false, or an expression that failed.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) message: String,
    /// The reason of the reply; empty for the default.
    pub(super) reason: String,
    /// An audit annotation failed, which refuses whatever the actions are.
    pub(super) is_annotation: bool,
}

/// Evaluates a policy. Returns a decision for each validation that does not hold.
pub(super) fn decide(
    policy: &Policy,
    evaluation: &mut Evaluation,
    param: Option<&Value>,
) -> Vec<Decision> {
    evaluation.begin(param);
    match policy.conditions.evaluate(evaluation) {
        Verdict::Asked => {}
        Verdict::Skipped => return Vec::new(),
        Verdict::Failed(why) => return policy.failed(why).into_iter().collect(),
    }
    let mut budget = BINDING;
    let mut decisions = Vec::new();
    for validation in &policy.validations {
        let ran = evaluation.run(&validation.expression, &policy.variables, &mut budget);
        match ran {
            Ok(CelValue::Bool(true)) => {}
            Ok(_) => decisions.push(Decision {
                message: message(policy, validation, evaluation, &mut budget),
                reason: validation.reason.clone(),
                is_annotation: false,
            }),
            Err(Failure::Error(why)) => decisions.extend(policy.failed(why)),
            Err(Failure::OutOfBudget) => {
                decisions.extend(policy.failed(OUT_OF_BUDGET.to_owned()));
                return decisions;
            }
        }
    }
    for annotation in &policy.annotations {
        let ran = evaluation.run(annotation, &policy.variables, &mut budget);
        let why = match ran {
            Ok(_) => continue,
            Err(Failure::Error(why)) => why,
            Err(Failure::OutOfBudget) => OUT_OF_BUDGET.to_owned(),
        };
        decisions.extend(policy.failed(why).map(|decision| Decision {
            is_annotation: true,
            ..decision
        }));
    }
    decisions
}

/// The message of a validation that is false.
fn message(
    policy: &Policy,
    validation: &Validation,
    evaluation: &Evaluation,
    budget: &mut u64,
) -> String {
    let made = validation.made_message.as_ref().and_then(|made| {
        let made = evaluation.run(made, &policy.variables, budget).ok()?;
        let CelValue::String(text) = made else {
            return None;
        };
        let text = text.trim();
        let fits = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
        fits.then(|| text.to_owned())
    });
    made.unwrap_or_else(|| match validation.message.as_str() {
        "" => format!("failed expression: {}", validation.expression.text.trim()),
        message => message.to_owned(),
    })
}
