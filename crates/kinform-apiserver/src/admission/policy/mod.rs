//! Admission policies: those that match, their bindings, and the effect of a failure.
//!
//! ```text
//! Question ──constraints──▶ policies ──bindings, parameters──▶ Decision ──actions──▶ 422 | warning
//!                                     └──▶ mutations ──▶ object | 403
//! ```
//!
//! All policies are asked in the order of their names. The reply has the first refusal and all
//! warnings. Only the conversion of an object awaits.
//!
//! BOUND: the cost of each binding and parameter (`admission/cel/`); policies, bindings and parameters
//! are written by administrators.
//!
//! * `stored.rs`: policies and bindings, compiled; `params.rs`: the parameters of a binding;
//!   `validation.rs`: the expressions of a policy for one parameter; `mutation.rs`: its mutations.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/policy/validating/dispatcher.go`.

pub(super) mod mutation;
mod params;
mod stored;
mod validation;

use kinform_api::{GroupResource, Status, StatusCause};

use self::params::Param;
use self::stored::{Binding, Failure, Policies, Policy};
use self::validation::Decision;
use super::cel::Evaluation;
use super::matching::{self, Asked, Match, version};
use super::{Objects, Operation, Question};
use crate::resource::ResourceInfo;
use crate::state::State;

/// Returns whether a policy may be asked about an operation.
pub(super) fn asks(state: &State, resource: &ResourceInfo, part: (&str, Operation)) -> bool {
    let policies = Policies::of(state);
    let asked = Asked { part, name: None };
    let mut all = policies.validating.iter().chain(&policies.mutating);
    all.any(|policy| version(state, &policy.constraints, resource, asked).is_some())
}

/// Asks the validating policies.
///
/// # Errors
/// The first refusal.
pub(super) async fn validate(
    question: &Question<'_>,
    objects: Objects<'_>,
) -> Result<(), Box<Status>> {
    let policies = Policies::of(question.state);
    let mut refusals = Vec::new();
    for policy in &policies.validating {
        let Some(matched) = matching::of(question, &policy.constraints, objects) else {
            continue;
        };
        let seen = matched.objects(question, objects).await?;
        refusals.extend(ask(question, (policy, &matched), (objects, seen.of())).await);
    }
    let first = refusals.into_iter().next();
    first.map_or(Ok(()), |refusal| Err(refused(question, &refusal)))
}

/// A refusal of a policy, and the binding that refuses.
struct Refusal<'p> {
    policy: &'p Policy,
    binding: Option<&'p Binding>,
    decision: Decision,
}

/// Asks one policy about the objects as it sees them. Returns its first refusal, and adds its warnings
/// to the question.
async fn ask<'p>(
    question: &Question<'_>,
    (policy, matched): (&'p Policy, &Match),
    (objects, seen): (Objects<'_>, Objects<'_>),
) -> Option<Refusal<'p>> {
    let refuse = |binding, decision| Refusal {
        policy,
        binding,
        decision,
    };
    let kind = match policy.param_kind(question.state) {
        Ok(kind) => kind,
        Err(why) => {
            let why = format!("failed to configure policy: {why}");
            return policy.failed(why).map(|decision| refuse(None, decision));
        }
    };
    let bindings = params::of_bindings(question, policy, kind.as_ref(), objects).await;
    let mut first = None;
    let mut evaluation = None;
    for (binding, params) in bindings {
        let decisions = match params {
            Err(why) => {
                // Whatever its actions are, a binding that is not configured refuses.
                let refusal = policy.failed(why);
                first = first.or(refusal.map(|decision| refuse(Some(binding), decision)));
                continue;
            }
            Ok(params) => {
                let evaluation = evaluation
                    .get_or_insert_with(|| Evaluation::new(question, &matched.resource, seen));
                let decisions = params.iter().map(|param| {
                    let param = param.as_ref().map(Param::value);
                    validation::decide(policy, evaluation, param.as_ref())
                });
                decisions.flatten().collect::<Vec<_>>()
            }
        };
        for decision in decisions {
            if binding.warns && !decision.is_annotation {
                let (policy, binding, text) = (&policy.name, &binding.name, &decision.message);
                question.warnings.add(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding \
                     '{binding}': {text}"
                ));
            }
            if (binding.denies || decision.is_annotation) && first.is_none() {
                first = Some(refuse(Some(binding), decision));
            }
        }
    }
    first
}

impl Policy {
    /// The decision about an error, if the policy does not pass over errors.
    fn failed(&self, message: String) -> Option<Decision> {
        (self.failure == Failure::Fail).then(|| Decision {
            message,
            reason: String::new(),
            is_annotation: false,
        })
    }
}

/// The reply to a refused request.
fn refused(question: &Question<'_>, refusal: &Refusal<'_>) -> Box<Status> {
    let (policy, text) = (&refusal.policy.name, &refusal.decision.message);
    let message = match refusal.binding {
        Some(Binding { name, .. }) => format!(
            "ValidatingAdmissionPolicy '{policy}' with binding '{name}' denied request: {text}"
        ),
        None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {text}"),
    };
    let (code, reason) = match refusal.decision.reason.as_str() {
        "Forbidden" => (403, "Forbidden"),
        "Unauthorized" => (401, "Unauthorized"),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    let resource = question.resource;
    let resource = GroupResource::new(&*resource.group, &*resource.plural);
    let mut status = Status::forbidden(&resource, question.name, &message);
    status.code = code;
    reason.clone_into(&mut status.reason);
    Box::new(status.with_cause(StatusCause {
        message,
        ..StatusCause::default()
    }))
}
