//! Stored configurations of webhooks, parsed.
//!
//! ```text
//! ValidatingWebhookConfigurations, MutatingWebhookConfigurations ──by name──▶ Webhooks { mutating, validating }
//! ```
//!
//! A configuration is valid and has its defaults when it is stored (`builtin/`); a member that cannot
//! be read here matches nothing.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/configuration`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::admission::cel::Conditions;
use crate::admission::matching::{Constraints, WithoutRules};
use crate::hooks::Endpoint;
use crate::object::text;
use crate::schema::cel::environment::Environment;
use crate::state::State;
use crate::storage::Shelf;

/// The names of the shelves of both kinds of configurations.
const SHELVES: [&str; 2] = [
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
];
/// The default timeout of a call.
const TIMEOUT: u64 = 10;

/// All webhooks, in the order in which they are called.
#[derive(Debug, Default)]
pub(super) struct Webhooks {
    pub(super) mutating: Vec<Webhook>,
    pub(super) validating: Vec<Webhook>,
}

/// One webhook of a configuration.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) name: String,
    pub(super) endpoint: Endpoint,
    pub(super) constraints: Constraints,
    pub(super) conditions: Conditions,
    pub(super) failure: Failure,
    pub(super) timeout: Duration,
    pub(super) reinvocation: Reinvocation,
    /// The version of the review that it understands.
    pub(super) version: &'static str,
}

/// The effect of a call that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The request is refused.
    Fail,
    /// The request goes on.
    Ignore,
}

/// The treatment of objects that a later webhook changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reinvocation {
    /// The webhook is called once.
    Never,
    /// The webhook is called once more.
    IfNeeded,
}

impl Webhooks {
    /// The webhooks of the stored configurations.
    pub(super) fn of(state: &State) -> Arc<Self> {
        let store = &state.store;
        let [mutating, validating] = SHELVES.map(|name| store.shelf(name));
        state.webhooks.get(store, &[mutating, validating], || Self {
            mutating: read(state, mutating),
            validating: read(state, validating),
        })
    }
}

fn read(state: &State, shelf: Shelf) -> Vec<Webhook> {
    // By name: a snapshot is ordered by its keys.
    let view = state.store.view(shelf);
    let mut webhooks = Vec::new();
    for configuration in view.snapshot.iter() {
        let value = configuration.value();
        let list = value["webhooks"].as_array().into_iter().flatten();
        webhooks.extend(list.map(Webhook::of));
    }
    webhooks
}

impl Webhook {
    fn of(value: &Value) -> Self {
        let seconds = value["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT);
        let versions = value["admissionReviewVersions"].as_array();
        let known = |version: &Value| match version.as_str() {
            Some("v1") => Some("v1"),
            Some("v1beta1") => Some("v1beta1"),
            _ => None,
        };
        Self {
            name: text(value, &["name"]).to_owned(),
            endpoint: Endpoint::of(&value["clientConfig"]),
            constraints: Constraints::of(value, ["rules", ""], WithoutRules::Nothing),
            conditions: Conditions::of(&value["matchConditions"], &environment()),
            failure: match text(value, &["failurePolicy"]) {
                "Ignore" => Failure::Ignore,
                _ => Failure::Fail,
            },
            timeout: Duration::from_secs(seconds),
            reinvocation: match text(value, &["reinvocationPolicy"]) {
                "IfNeeded" => Reinvocation::IfNeeded,
                _ => Reinvocation::Never,
            },
            version: versions
                .into_iter()
                .flatten()
                .find_map(known)
                .unwrap_or("v1"),
        }
    }
}

/// The variables of match conditions.
fn environment() -> Environment<'static> {
    Environment::new().without("namespaceObject")
}
