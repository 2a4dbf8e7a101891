//! Admission webhooks: their order, their calls, and the effect of their answers.
//!
//! ```text
//! Question ──rules, selectors──▶ webhooks that match
//!   mutating:   one after the other, patches applied; those that asked for it a second time
//!   validating: all at once; the refusal that comes first counts
//! ```
//!
//! A call that fails is a refusal (500) or is passed over, by the failure policy. A denial and a
//! patch that does not fit the object are always refusals.
//!
//! BOUND: two calls of a mutating webhook for one object; the time of each call by its timeout, and
//! of all by the request's deadline.
//!
//! * `configuration.rs`: stored configurations, parsed; `matching.rs`: the webhooks that a question
//!   matches; `review.rs`: requests and answers.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go`.

mod configuration;
mod matching;
mod review;

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt};
use kinform_api::Status;
use serde_json::Value;

use self::configuration::{Failure, Reinvocation, Webhook, Webhooks};
use self::review::{Answer, Patch, Phase, Verdict};
use super::matching::{Asked, Match, version};
use super::round::Round;
use super::{Objects, Operation, Question};
use crate::object::json_patch::{self, Misfit};
use crate::random;
use crate::resource::ResourceInfo;
use crate::state::State;

/// The name under which this server calls webhooks.
const AGENT: &str = "kube-apiserver-admission";

/// Returns whether a webhook may be asked about an operation.
pub(super) fn asks(state: &State, resource: &ResourceInfo, part: (&str, Operation)) -> bool {
    let webhooks = Webhooks::of(state);
    let mut all = webhooks.mutating.iter().chain(&webhooks.validating);
    let asked = Asked { part, name: None };
    all.any(|webhook| version(state, &webhook.constraints, resource, asked).is_some())
}

/// The mutating webhooks of one question.
#[derive(Debug)]
pub(super) struct Mutating {
    webhooks: Arc<Webhooks>,
    /// For each webhook that was called: the changes that were made until its answer.
    called: Vec<Option<usize>>,
}

impl Mutating {
    pub(super) fn of(question: &Question<'_>) -> Self {
        let webhooks = Webhooks::of(question.state);
        Self {
            called: vec![None; webhooks.mutating.len()],
            webhooks,
        }
    }

    /// Asks the webhooks in one round of the chain.
    ///
    /// # Errors
    /// The first refusal.
    pub(super) async fn ask(
        &mut self,
        question: &Question<'_>,
        (object, old): (&mut Value, Option<&Value>),
        round: &mut Round,
    ) -> Result<(), Box<Status>> {
        for (webhook, called) in self.webhooks.mutating.iter().zip(&mut self.called) {
            if !round.is_due(*called, webhook.reinvocation == Reinvocation::IfNeeded) {
                continue;
            }
            let objects = Objects {
                object: Some(&*object).filter(|object| !object.is_null()),
                old,
            };
            let Some(matched) = matching::of(question, webhook, objects).await? else {
                continue;
            };
            if let Some(next) = mutated(question, webhook, &matched, objects).await? {
                round.changes += usize::from(next != *object);
                *object = next;
            }
            *called = Some(round.changes);
        }
        Ok(())
    }
}

/// Asks one mutating webhook. Returns the object if it was patched.
async fn mutated(
    question: &Question<'_>,
    webhook: &Webhook,
    matched: &Match,
    objects: Objects<'_>,
) -> Result<Option<Value>, Box<Status>> {
    let seen = matched.objects(question, objects).await?;
    let Some(verdict) = ask(question, (Phase::Mutating, webhook), matched, seen.of()).await? else {
        return Ok(None);
    };
    let operations = match verdict {
        Answer::Allowed => return Ok(None),
        Answer::Denied(status) => return Err(status),
        Answer::Patched(Patch::Unfit(why)) => return Err(internal(&why)),
        Answer::Patched(Patch::Operations(operations)) => operations,
    };
    if operations.is_empty() {
        return Ok(None);
    }
    let Some(object) = seen.of().object else {
        let name = &webhook.name;
        return Err(internal(&format!(
            "admission webhook {name:?} attempted to modify the object, which is not supported for \
             this operation"
        )));
    };
    let mut object = object.clone();
    json_patch::apply(&mut object, operations, question.meter).map_err(|misfit| match misfit {
        Misfit::Operation(why) => internal(&why),
        Misfit::Copies => internal("the accumulated size of copies is too large"),
        Misfit::Request(status) => status,
    })?;
    matched.back(question, object).await.map(Some)
}

/// Asks the validating webhooks, all at once, and waits for all of them.
///
/// # Errors
/// The refusal that came first.
pub(super) async fn validate(
    question: &Question<'_>,
    objects: Objects<'_>,
) -> Result<(), Box<Status>> {
    let webhooks = Webhooks::of(question.state);
    // BOUND: the webhooks of all configurations, which administrators write.
    let mut calls = FuturesUnordered::new();
    for webhook in &webhooks.validating {
        let Some(matched) = matching::of(question, webhook, objects).await? else {
            continue;
        };
        let seen = matched.objects(question, objects).await?;
        calls.push(async move {
            ask(question, (Phase::Validating, webhook), &matched, seen.of()).await
        });
    }
    let mut first = None;
    while let Some(answer) = calls.next().await {
        let refused = match answer {
            Ok(Some(Answer::Denied(status))) | Err(status) => Some(status),
            Ok(_) => None,
        };
        first = first.or(refused);
    }
    first.map_or(Ok(()), Err)
}

/// Calls a webhook. Returns `None` if the call failed and the failure is to be passed over.
///
/// # Errors
/// 500 for a call that failed.
async fn ask(
    question: &Question<'_>,
    (phase, webhook): (Phase, &Webhook),
    matched: &Match,
    objects: Objects<'_>,
) -> Result<Option<Answer>, Box<Status>> {
    let uid = random::uid();
    let version = (webhook.version, uid.as_str());
    let body: Bytes = review::request(question, version, &matched.resource, objects);
    let state = question.state;
    let (endpoint, how) = (&webhook.endpoint, (webhook.timeout, AGENT));
    let called = state.hooks.call(&state.store, endpoint, body, how).await;
    let verdict = called
        .map_err(|why| format!("failed to call webhook: {why}"))
        .and_then(|body| review::verdict((phase, &webhook.name), version, &body));
    match (verdict, webhook.failure) {
        (Ok(Verdict { warnings, answer }), _) => {
            for text in warnings {
                question.warnings.add(text);
            }
            Ok(Some(answer))
        }
        (Err(why), Failure::Fail) => {
            let name = &webhook.name;
            Err(internal(&format!("failed calling webhook {name:?}: {why}")))
        }
        (Err(why), Failure::Ignore) => {
            let name = &webhook.name;
            tracing::warn!(webhook = name, why, "a webhook failed and was passed over");
            Ok(None)
        }
    }
}

fn internal(why: &str) -> Box<Status> {
    Box::new(Status::internal_error(why))
}
