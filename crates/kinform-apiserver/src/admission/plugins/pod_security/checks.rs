//! The nouns of a check: pods, findings, versions, and the words that name containers.
//!
//! ```text
//! Check + Version ──▶ Test        Test + Pod ──▶ Finding { reason, detail }
//! ```
//!
//! Upstream: `kubernetes/pod-security-admission:policy/{checks,helpers,visitor}.go`.

use serde_json::Value;

use super::level::Version;
use crate::object::text;

/// A pod, or the template of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// All containers: those that run before the others, the others, and those added to debug.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        let places = ["initContainers", "containers", "ephemeralContainers"];
        let lists = places
            .into_iter()
            .filter_map(|place| spec[place].as_array());
        lists.flatten()
    }

    /// The names of the containers that this test finds.
    pub(super) fn named(&self, test: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        let found = self.containers().filter(|container| test(container));
        found.map(|container| text(container, &["name"])).collect()
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// The users of the pod are not those of the node.
    pub(super) fn has_own_users(&self) -> bool {
        self.spec["hostUsers"] == false
    }

    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.metadata["annotations"].as_object();
        let all = all.into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

/// A violation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The reason in a few words, by which violations of several pods are grouped.
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

impl Finding {
    pub(super) fn new(reason: &'static str, detail: impl Into<String>) -> Option<Self> {
        let detail = detail.into();
        Some(Self { reason, detail })
    }
}

/// Finds the violation of one check.
pub(super) type Test = fn(&Pod<'_>) -> Option<Finding>;

/// A check in all its versions.
#[derive(Debug)]
pub(super) struct Check {
    /// Minor versions of Kubernetes from which on it is made in this way.
    pub(super) versions: &'static [(u64, Test)],
    /// The check of the baseline that it replaces.
    pub(super) replaces: Option<&'static str>,
    pub(super) name: &'static str,
}

impl Check {
    /// Returns the test of a version, if the check was made then.
    pub(super) fn test(&self, version: Version) -> Option<Test> {
        let mut versions = self.versions.iter().rev();
        let found = versions.find(|(from, _)| Version::Minor(*from) <= version);
        found.map(|(_, test)| *test)
    }
}

/// Texts in quotes, between commas.
pub(super) fn quoted<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = texts.into_iter().map(|text| format!("\"{text}\""));
    quoted.collect::<Vec<_>>().join(", ")
}

pub(super) fn plural<'a>(count: usize, one: &'a str, more: &'a str) -> &'a str {
    if count == 1 { one } else { more }
}

/// The names of containers, with their word.
pub(super) fn containers(names: &[&str]) -> String {
    let word = plural(names.len(), "container", "containers");
    format!("{word} {}", quoted(names.iter().copied()))
}

/// The pod, its containers, or both, as those that set something; `None` if neither did.
pub(super) fn setters(pod_sets: bool, names: &[&str]) -> Option<String> {
    match (pod_sets, names) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, names) => Some(containers(names)),
        (true, names) => Some(format!("pod and {}", containers(names))),
    }
}
