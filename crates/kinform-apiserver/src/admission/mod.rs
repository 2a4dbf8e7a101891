//! Admission: whether a write goes on, and with which object.
//!
//! ```text
//! Question ──▶ plugins ──▶ mutate: policies, webhooks, a second time if one changed the object ──▶ object
//!          ──▶ plugins ──▶ validate: policies, webhooks (all at once) ──▶ quotas ──▶ go on | Status
//! ```
//!
//! `write/` calls plugins and quotas, which never wait, around the rest, which may.
//!
//! The order is that of a real server. The first refusal ends the request. `write/` and `actions/`
//! ask here about every verb, never a handler of one kind; a request about which nothing has a say
//! (`asks`) is never asked about and never awaits.
//!
//! Nothing is locked while a webhook is called, and a configuration is effective with its own reply.
//!
//! * `plugins/`: what is compiled in; `question.rs`: a request as admission sees it; `request.rs`: the
//!   same as JSON;
//! * `rule.rs`: the operations and resources of a rule; `matching.rs`: rules and selectors of
//!   webhooks and policies; `cel/`: their expressions; `round.rs`: the rounds of the mutating part;
//! * `webhook/`: webhooks and their configurations; `policy/`: policies.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission`, `kubernetes:pkg/kubeapiserver/options/plugins.go`
//! (the order).

pub(crate) mod cel;
mod matching;
pub(crate) mod plugins;
mod policy;
mod question;
mod request;
mod round;
mod rule;
mod webhook;

use kinform_api::Status;
use serde_json::Value;

pub(crate) use self::question::{Annotations, Kind, Objects, Operation, Question, Warnings};
use self::round::Round;
use crate::resource::ResourceInfo;
use crate::state::State;

/// Returns whether anything is asked about an operation on a resource, or on a subresource.
pub(crate) fn asks(state: &State, resource: &ResourceInfo, part: (&str, Operation)) -> bool {
    webhook::asks(state, resource, part) || policy::asks(state, resource, part)
}

/// Asks the mutating part of the chain. Returns the object if it was changed.
///
/// # Errors
/// The first refusal.
pub(crate) async fn mutate(
    question: &Question<'_>,
    object: Value,
    old: Option<&Value>,
) -> Result<Option<Value>, Box<Status>> {
    let mut policies = policy::mutation::Mutating::of(question);
    let mut webhooks = webhook::Mutating::of(question);
    let mut round = Round::default();
    let mut object = object;
    for number in 0..ROUNDS {
        round.number = number;
        policies
            .ask(question, (&mut object, old), &mut round)
            .await?;
        webhooks
            .ask(question, (&mut object, old), &mut round)
            .await?;
    }
    Ok((round.changes > 0).then_some(object))
}

/// BOUND: the rounds of the mutating part of the chain.
const ROUNDS: usize = 2;

/// Asks the validating part of the chain.
///
/// # Errors
/// The first refusal.
pub(crate) async fn validate(
    question: &Question<'_>,
    objects: Objects<'_>,
) -> Result<(), Box<Status>> {
    policy::validate(question, objects).await?;
    webhook::validate(question, objects).await
}

/// Asks both parts of the chain about a delete.
///
/// # Errors
/// The first refusal. A webhook that tries to change the object of a delete is one.
pub(crate) async fn delete(question: &Question<'_>, old: &Value) -> Result<(), Box<Status>> {
    mutate(question, Value::Null, Some(old)).await?;
    let objects = Objects {
        object: None,
        old: Some(old),
    };
    validate(question, objects).await
}
