//! The match of a webhook: its rules and selectors, then its match conditions.
//!
//! ```text
//! Question + objects ──constraints──▶ Match ──conditions──▶ asked | not asked | 403
//! ```
//!
//! Conditions see the objects in the version of the rule.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/webhook/generic/webhook.go`.

use kinform_api::{GroupResource, Status};

use super::configuration::{Failure, Webhook};
use crate::admission::cel::{Evaluation, Verdict};
use crate::admission::matching::{self, Match};
use crate::admission::{Objects, Question};

/// Returns the match of a webhook, if it is asked.
///
/// # Errors
/// 403 for conditions that fail, if the failure policy refuses; 500 about a conversion webhook.
pub(super) async fn of(
    question: &Question<'_>,
    webhook: &Webhook,
    objects: Objects<'_>,
) -> Result<Option<Match>, Box<Status>> {
    let Some(matched) = matching::of(question, &webhook.constraints, objects) else {
        return Ok(None);
    };
    if webhook.conditions.is_empty() {
        return Ok(Some(matched));
    }
    let seen = matched.objects(question, objects).await?;
    let evaluation = Evaluation::new(question, &matched.resource, seen.of());
    match (webhook.conditions.evaluate(&evaluation), webhook.failure) {
        (Verdict::Asked, _) => Ok(Some(matched)),
        (Verdict::Skipped, _) | (Verdict::Failed(_), Failure::Ignore) => Ok(None),
        (Verdict::Failed(why), Failure::Fail) => {
            let resource = question.resource;
            let resource = GroupResource::new(&*resource.group, &*resource.plural);
            let status = Status::forbidden(&resource, question.name, &why);
            Err(Box::new(status))
        }
    }
}
