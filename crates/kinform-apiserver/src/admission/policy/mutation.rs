//! The mutations of a policy.
//!
//! ```text
//! object ──each policy, binding, parameter, mutation──▶ object | 403
//! ```
//!
//! Each mutation sees the object as those before it left it. A test of a JSON patch that fails skips
//! its mutation. Changes belong to no manager: owners were recorded before.
//!
//! BOUND: two rounds of a policy for one object; the cost of each mutation.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/policy/mutating/{dispatcher,plugin}.go`,
//! `pkg/admission/plugin/policy/mutating/patch`.

use std::sync::Arc;

use kinform_api::{GroupResource, Status, StatusCause};
use serde_json::Value;

use super::params::{self, Param};
use super::stored::{Binding, Failure, Mutation, Policies, Policy, Reinvocation};
use crate::admission::cel::{BINDING, Evaluation, Failure as Failed, Verdict, to_json};
use crate::admission::matching::{self, Match};
use crate::admission::round::Round;
use crate::admission::{Objects, Question};
use crate::object::json_patch::{self, Misfit, Operation};
use crate::object::part::Part;
use crate::ownership::partial;
use crate::resource::ResourceInfo;

/// The reply's reason for a policy or a binding that is not configured; others have `Invalid`.
const FORBIDDEN: &str = "Forbidden";
const INVALID: &str = "Invalid";

/// The mutating policies of one question.
#[derive(Debug)]
pub(in crate::admission) struct Mutating {
    policies: Arc<Policies>,
    /// For each policy that was asked: the changes that were made until its answer.
    asked: Vec<Option<usize>>,
}

/// The error of a binding.
#[derive(Debug)]
struct Refusal {
    reason: &'static str,
    why: String,
}

impl Refusal {
    fn invalid(why: impl Into<String>) -> Self {
        Self {
            reason: INVALID,
            why: why.into(),
        }
    }
}

impl Mutating {
    pub(in crate::admission) fn of(question: &Question<'_>) -> Self {
        let policies = Policies::of(question.state);
        Self {
            asked: vec![None; policies.mutating.len()],
            policies,
        }
    }

    /// Asks the policies in one round of the chain.
    ///
    /// # Errors
    /// 403 for the first error that a policy does not pass over.
    pub(in crate::admission) async fn ask(
        &mut self,
        question: &Question<'_>,
        (object, old): (&mut Value, Option<&Value>),
        round: &mut Round,
    ) -> Result<(), Box<Status>> {
        // Deletes are not asked about.
        if object.is_null() {
            return Ok(());
        }
        let objects = Objects {
            object: Some(&*object),
            old,
        };
        // As a real server does, all are matched before the first one changes the object.
        let mut invocations = Vec::new();
        for policy in &self.policies.mutating {
            invocations.push(invocation(question, policy, objects).await?);
        }
        for (invocation, asked) in invocations.into_iter().zip(&mut self.asked) {
            let Some(invocation) = invocation else {
                continue;
            };
            let wants_again = invocation.policy.reinvocation == Reinvocation::IfNeeded;
            if !round.is_due(*asked, wants_again) {
                continue;
            }
            let objects = Objects {
                object: Some(&*object),
                old,
            };
            let next = mutated(question, &invocation, objects).await?;
            if let Some(next) = next.filter(|next| next != object) {
                round.changes += 1;
                *object = next;
            }
            *asked = Some(round.changes);
        }
        Ok(())
    }
}

/// A policy that matches, with what its bindings ask it with.
struct Invocation<'p> {
    policy: &'p Policy,
    matched: Match,
    params: Vec<(&'p Binding, Vec<Option<Param>>)>,
}

/// Returns what a policy is asked with, if it matches.
async fn invocation<'p>(
    question: &Question<'_>,
    policy: &'p Policy,
    objects: Objects<'_>,
) -> Result<Option<Invocation<'p>>, Box<Status>> {
    let Some(matched) = matching::of(question, &policy.constraints, objects) else {
        return Ok(None);
    };
    let forbidden = |why| Refusal {
        reason: FORBIDDEN,
        why,
    };
    let kind = match policy.param_kind(question.state) {
        Ok(kind) => kind,
        Err(why) => {
            let why = format!("failed to configure policy: {why}");
            pass_over(question, (policy, None), forbidden(why))?;
            return Ok(None);
        }
    };
    let mut params = Vec::new();
    let bindings = params::of_bindings(question, policy, kind.as_ref(), objects).await;
    for (binding, of_binding) in bindings {
        match of_binding {
            Ok(of_binding) => params.push((binding, of_binding)),
            Err(why) => pass_over(question, (policy, Some(binding)), forbidden(why))?,
        }
    }
    Ok(Some(Invocation {
        policy,
        matched,
        params,
    }))
}

/// Returns the object as a policy leaves it.
async fn mutated(
    question: &Question<'_>,
    invocation: &Invocation<'_>,
    objects: Objects<'_>,
) -> Result<Option<Value>, Box<Status>> {
    let matched = &invocation.matched;
    let seen = matched.objects(question, objects).await?;
    let Some(mut object) = seen.of().object.cloned() else {
        return Ok(None);
    };
    let mut is_changed = false;
    for (binding, params) in &invocation.params {
        for param in params {
            let objects = Objects {
                object: Some(&object),
                old: seen.of().old,
            };
            let (of, param) = ((invocation, *binding), param.as_ref().map(Param::value));
            if let Some(next) = apply_all(question, of, objects, param.as_ref())? {
                is_changed |= next != object;
                object = next;
            }
        }
    }
    match is_changed {
        true => matched.back(question, object).await.map(Some),
        // What was only looked at in another version stays as it was sent.
        false => Ok(None),
    }
}

/// Applies the mutations of a policy for one parameter. Returns the object if it was changed.
///
/// # Errors
/// The first error that the policy does not pass over; others skip their mutation.
fn apply_all(
    question: &Question<'_>,
    (invocation, binding): (&Invocation<'_>, &Binding),
    objects: Objects<'_>,
    param: Option<&Value>,
) -> Result<Option<Value>, Box<Status>> {
    let (policy, resource) = (invocation.policy, &*invocation.matched.resource);
    let evaluation_of = |object: &Value| {
        let objects = Objects {
            object: Some(object),
            ..objects
        };
        let mut evaluation = Evaluation::new(question, resource, objects);
        evaluation.begin(param);
        evaluation
    };
    let Some(object) = objects.object else {
        return Ok(None);
    };
    let pass_over = |refusal| pass_over(question, (policy, Some(binding)), refusal);
    let mut evaluation = evaluation_of(object);
    match policy.conditions.evaluate(&evaluation) {
        Verdict::Asked => {}
        Verdict::Skipped => return Ok(None),
        Verdict::Failed(why) => {
            pass_over(Refusal::invalid(why))?;
            return Ok(None);
        }
    }
    let mut changed: Option<Value> = None;
    for mutation in &policy.mutations {
        if let Some(changed) = &changed {
            evaluation = evaluation_of(changed);
        }
        let object = changed.as_ref().unwrap_or(object);
        let of = (policy, mutation);
        match apply(question, of, &evaluation, (resource, object)) {
            Ok(next) => changed = next.or(changed),
            Err(why) => pass_over(Refusal::invalid(why))?,
        }
    }
    Ok(changed)
}

/// Applies one mutation. Returns `None` if it leaves the object as it is.
fn apply(
    question: &Question<'_>,
    (policy, mutation): (&Policy, &Mutation),
    evaluation: &Evaluation,
    (resource, object): (&ResourceInfo, &Value),
) -> Result<Option<Value>, String> {
    let (Mutation::Apply(expression) | Mutation::Patch(expression)) = mutation;
    let mut budget = BINDING;
    let ran = evaluation.run(expression, &policy.variables, &mut budget);
    let made = ran.map_err(|failed| match failed {
        Failed::Error(why) => why,
        Failed::OutOfBudget => "validation failed due to running out of cost budget, no further \
                                validation rules will be run"
            .to_owned(),
    })?;
    let made = to_json(&made).ok_or("the result has no form in JSON")?;
    if let Mutation::Patch(_) = mutation {
        return patched(question, object, made);
    }
    let part = match question.subresource {
        "scale" => Part::Scale,
        _ => Part::Main,
    };
    let merged = partial::merged((resource, part), object, made);
    let merged = merged.map_err(|why| format!("error applying patch: {why}"));
    merged.map(Some)
}

/// Applies a JSON patch. Returns `None` if one of its tests fails.
fn patched(
    question: &Question<'_>,
    object: &Value,
    operations: Value,
) -> Result<Option<Value>, String> {
    let operations: Vec<Operation> =
        serde_json::from_value(operations).map_err(|why| format!("JSON Patch: {why}"))?;
    if operations.len() > json_patch::MAX_OPERATIONS {
        return Err("JSON Patch: too many operations".to_owned());
    }
    let mut object = object.clone();
    match json_patch::apply(&mut object, operations, question.meter) {
        Ok(()) if object.is_object() => Ok(Some(object)),
        Ok(()) => Err("JSON Patch: the result is no object".to_owned()),
        Err(Misfit::Operation(why)) if why.ends_with("test failed") => Ok(None),
        Err(Misfit::Operation(why)) => Err(format!("JSON Patch: {why}")),
        Err(Misfit::Copies) => Err("JSON Patch: the copies are too large".to_owned()),
        Err(Misfit::Request(status)) => Err(status.message),
    }
}

/// Passes over an error, if the policy says so.
///
/// # Errors
/// The reply to a refused request.
fn pass_over(
    question: &Question<'_>,
    (policy, binding): (&Policy, Option<&Binding>),
    refusal: Refusal,
) -> Result<(), Box<Status>> {
    if policy.failure == Failure::Ignore {
        return Ok(());
    }
    let (name, why) = (&policy.name, &refusal.why);
    let message = match binding {
        Some(Binding { name: binding, .. }) => {
            format!("policy '{name}' with binding '{binding}' denied request: {why}")
        }
        None => format!("policy '{name}' denied request: {why}"),
    };
    let resource = question.resource;
    let resource = GroupResource::new(&*resource.group, &*resource.plural);
    let mut status = Status::forbidden(&resource, question.name, &message);
    status.message.clone_from(&message);
    refusal.reason.clone_into(&mut status.reason);
    Err(Box::new(status.with_cause(StatusCause {
        message,
        ..StatusCause::default()
    })))
}
