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

use kinform_api::selector::LabelSelector;
use serde_json::Value;

use crate::admission::rule::Rule;
use crate::hooks::Endpoint;
use crate::object::at;
use crate::object::label_selector::label_selector;
use crate::object::text;
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
    pub(super) rules: Vec<Rule>,
    pub(super) failure: Failure,
    pub(super) matching: Matching,
    pub(super) namespaces: Option<LabelSelector>,
    pub(super) objects: Option<LabelSelector>,
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

/// The treatment of other versions of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matching {
    /// A rule matches only its own version.
    Exact,
    /// An object of another version is converted.
    Equivalent,
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
        let rules = value["rules"].as_array().into_iter().flatten();
        let selector = |name| label_selector(at(value, &[name]).unwrap_or(&Value::Null));
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
            rules: rules.map(Rule::of).collect(),
            failure: match text(value, &["failurePolicy"]) {
                "Ignore" => Failure::Ignore,
                _ => Failure::Fail,
            },
            matching: match text(value, &["matchPolicy"]) {
                "Exact" => Matching::Exact,
                _ => Matching::Equivalent,
            },
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
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
