//! The resource types that a server serves, and the one that a user's word names.
//!
//! ```text
//! discovery documents → Catalogue;  "deploy" | "foos.example.com" | "Pod" → ResourceEntry
//! ```
//!
//! Pure: `discovery.rs` fetches the documents. A word is looked up as kubectl does: plural,
//! singular, kind (any case), `plural.group`, `plural.version.group`, and a short name if it is
//! none of these; the core group first, then the groups in the server's order, and in a group its
//! preferred version.
//!
//! Upstream counterpart: kubernetes/apimachinery:pkg/api/meta (RESTMapper) and
//! kubernetes/client-go:restmapper.

use kinform_api::{GroupVersionResource, Scope};
use serde::Deserialize;

/// One served resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceEntry {
    /// Group, version and plural.
    pub(crate) gvr: GroupVersionResource,
    /// The kind, e.g. `Pod`.
    pub(crate) kind: String,
    /// The singular word, e.g. `pod`.
    pub(crate) singular: String,
    /// Short words, e.g. `po`.
    pub(crate) short_names: Vec<String>,
    /// The scope: objects live in namespaces, or belong to the cluster.
    pub(crate) scope: Scope,
    /// The verbs that the resource supports.
    pub(crate) verbs: Vec<String>,
}

impl ResourceEntry {
    /// The resource as people write it: `deployments.apps`, `pods`.
    pub(crate) fn title(&self) -> String {
        if self.gvr.group.is_empty() {
            self.gvr.resource.clone()
        } else {
            format!("{}.{}", self.gvr.resource, self.gvr.group)
        }
    }

    /// Returns whether the word is its plural, its singular or its kind.
    fn is_named(&self, word: &str) -> bool {
        self.gvr.resource == word || self.singular == word || self.kind.eq_ignore_ascii_case(word)
    }

    fn has_short_name(&self, word: &str) -> bool {
        self.short_names.iter().any(|short| short == word)
    }

    fn is_readable(&self) -> bool {
        self.verbs.iter().any(|verb| verb == "list")
    }
}

/// The meaning of a word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// This resource.
    Known(ResourceEntry),
    /// A `plural.group` that is not served now, but may come: a definition not installed yet.
    Awaited {
        /// The plural.
        plural: String,
        /// The group.
        group: String,
    },
    /// No resource type, and a definition installed later cannot change that.
    Unknown,
}

/// All that a server serves, in order of preference.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    entries: Vec<ResourceEntry>,
}

/// An `APIResourceList`, with the fields needed here.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceList {
    #[serde(default)]
    group_version: String,
    #[serde(default)]
    resources: Vec<ListedResource>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
}

/// An `APIGroupDiscoveryList`, with the fields needed here: all groups in one document.
#[derive(Debug, Deserialize)]
pub(crate) struct AggregatedList {
    #[serde(default)]
    items: Vec<AggregatedGroup>,
}

#[derive(Debug, Deserialize)]
struct AggregatedGroup {
    #[serde(default)]
    metadata: GroupName,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Debug, Default, Deserialize)]
struct GroupName {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct AggregatedVersion {
    #[serde(default)]
    version: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

/// An `APIGroupList`, with the fields needed here.
#[derive(Debug, Deserialize)]
pub(crate) struct GroupList {
    #[serde(default)]
    groups: Vec<ListedGroup>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedGroup {
    #[serde(default)]
    versions: Vec<ListedVersion>,
    #[serde(default)]
    preferred_version: Option<ListedVersion>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedVersion {
    group_version: String,
}

impl GroupList {
    /// The `group/version`s to ask for, preferred ones first within each group.
    pub(crate) fn group_versions(&self) -> Vec<String> {
        let mut all = Vec::new();
        for group in &self.groups {
            let preferred = group.preferred_version.iter();
            for version in preferred.chain(&group.versions) {
                if !all.contains(&version.group_version) {
                    all.push(version.group_version.clone());
                }
            }
        }
        all
    }
}

impl ResourceList {
    /// Returns whether a word is the plural, the singular or the kind of one of its resources.
    pub(crate) fn names(&self, word: &str) -> bool {
        let mut resources = self.resources.iter();
        resources.any(|of| {
            of.name == word || of.singular_name == word || of.kind.eq_ignore_ascii_case(word)
        })
    }
}

impl Catalogue {
    /// Adds one group version's document; call in order of preference.
    pub(crate) fn add(&mut self, list: ResourceList) {
        let (group, version) = list
            .group_version
            .split_once('/')
            .unwrap_or(("", &list.group_version));
        for resource in list.resources {
            // Subresources are not types of their own.
            if resource.name.contains('/') {
                continue;
            }
            self.push(ResourceEntry {
                gvr: GroupVersionResource::new(group, version, resource.name),
                kind: resource.kind,
                singular: resource.singular_name,
                short_names: resource.short_names,
                scope: if resource.namespaced {
                    Scope::Namespaced
                } else {
                    Scope::Cluster
                },
                verbs: resource.verbs,
            });
        }
    }

    /// Adds the document of several groups, which are in order of preference.
    pub(crate) fn add_aggregated(&mut self, list: AggregatedList) {
        for group in list.items {
            for version in group.versions {
                for resource in version.resources {
                    let kind = resource.response_kind.unwrap_or_default().kind;
                    self.push(ResourceEntry {
                        gvr: GroupVersionResource::new(
                            &group.metadata.name,
                            &version.version,
                            resource.resource,
                        ),
                        kind,
                        singular: resource.singular_resource,
                        short_names: resource.short_names,
                        scope: match &*resource.scope {
                            "Namespaced" => Scope::Namespaced,
                            _ => Scope::Cluster,
                        },
                        verbs: resource.verbs,
                    });
                }
            }
        }
    }

    fn push(&mut self, mut entry: ResourceEntry) {
        if entry.singular.is_empty() {
            entry.singular = entry.kind.to_ascii_lowercase();
        }
        self.entries.push(entry);
    }

    /// The types that can be listed, each once, in its preferred version.
    pub(crate) fn readable(&self) -> Vec<&ResourceEntry> {
        let mut found: Vec<&ResourceEntry> = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.is_readable()) {
            let is_same = |other: &&ResourceEntry| {
                (&other.gvr.group, &other.gvr.resource) == (&entry.gvr.group, &entry.gvr.resource)
            };
            if !found.iter().any(is_same) {
                found.push(entry);
            }
        }
        found
    }

    /// The resource that the word names, and not only in short.
    pub(crate) fn named(&self, word: &str) -> Option<&ResourceEntry> {
        let mut readable = self.entries.iter().filter(|entry| entry.is_readable());
        readable.find(|entry| entry.is_named(word))
    }

    /// The meaning of `word` on this server.
    pub(crate) fn find(&self, word: &str) -> Meaning {
        let readable = || self.entries.iter().filter(|entry| entry.is_readable());
        // A short name never hides a plural, whatever group it is of.
        let in_short = || readable().find(|entry| entry.has_short_name(word));
        if let Some(entry) = self.named(word).or_else(in_short) {
            return Meaning::Known(entry.clone());
        }
        let Some((plural, rest)) = word.split_once('.') else {
            return Meaning::Unknown;
        };
        let in_group = |entry: &&ResourceEntry| {
            (entry.is_named(plural) || entry.has_short_name(plural))
                && (entry.gvr.group == rest
                    || rest
                        .split_once('.')
                        .map_or((rest, ""), |(version, group)| (version, group))
                        == (entry.gvr.version.as_str(), entry.gvr.group.as_str()))
        };
        match readable().find(in_group) {
            Some(entry) => Meaning::Known(entry.clone()),
            // A definition's group has a dot, so a shorter word can never be one.
            None if !plural.is_empty() && rest.contains('.') => Meaning::Awaited {
                plural: plural.to_owned(),
                group: rest.to_owned(),
            },
            None => Meaning::Unknown,
        }
    }

    /// The plural that is nearest to a mistyped word, if one is near enough.
    pub(crate) fn nearest(&self, word: &str) -> Option<String> {
        let word = word.to_ascii_lowercase();
        self.entries
            .iter()
            .flat_map(|entry| [&entry.gvr.resource, &entry.singular])
            .map(|known| (distance(&word, known), known))
            .filter(|(distance, _)| *distance <= 2)
            .min()
            .map(|(_, known)| known.clone())
    }
}

/// Edits between two words: insert, delete, replace, swap two neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i];
        for j in 1..=b.len() {
            let replaced = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut fewest = replaced.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                fewest = fewest.min(above[j - 2] + 1);
            }
            next.push(fewest);
        }
        above = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn catalogue() -> Catalogue {
        let mut catalogue = Catalogue::default();
        let verbs = json!(["get", "list", "watch"]);
        for list in [
            json!({"groupVersion": "v1", "resources": [
                {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": verbs, "shortNames": ["po"]},
                {"name": "pods/status", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"]},
                {"name": "bindings", "singularName": "binding", "namespaced": true, "kind": "Binding", "verbs": ["create"]},
                {"name": "events", "singularName": "event", "namespaced": true, "kind": "Event", "verbs": verbs}]}),
            json!({"groupVersion": "apps/v1", "resources": [
                {"name": "deployments", "singularName": "deployment", "namespaced": true, "kind": "Deployment", "verbs": verbs, "shortNames": ["deploy"]}]}),
            json!({"groupVersion": "events.k8s.io/v1", "resources": [
                {"name": "events", "singularName": "event", "namespaced": true, "kind": "Event", "verbs": verbs}]}),
        ] {
            catalogue.add(serde_json::from_value(list).unwrap());
        }
        catalogue
    }

    #[test]
    fn a_short_name_never_hides_a_plural_of_a_later_group() {
        let mut catalogue = catalogue();
        let list = json!({"items": [{"metadata": {"name": "mail.example.com"}, "versions": [
            {"version": "v1", "resources": [
                {"resource": "po", "responseKind": {"kind": "Post"}, "scope": "Cluster", "verbs": ["list"]},
                {"resource": "posts", "responseKind": {"kind": "Other"}, "scope": "Namespaced",
                 "singularResource": "post", "shortNames": ["deployment"], "verbs": ["list"]}]}]}]});
        catalogue.add_aggregated(serde_json::from_value(list).unwrap());
        let title = |word: &str| match catalogue.find(word) {
            Meaning::Known(entry) => (entry.title(), entry.scope),
            other => panic!("{word}: {other:?}"),
        };
        assert_eq!(
            title("po"),
            ("po.mail.example.com".to_owned(), Scope::Cluster)
        );
        assert_eq!(title("deployment").0, "deployments.apps");
        assert_eq!(title("post").0, "po.mail.example.com");
        assert_eq!(
            title("posts"),
            ("posts.mail.example.com".to_owned(), Scope::Namespaced)
        );
    }

    #[track_caller]
    fn check(word: &str, expected: &str) {
        let got = match catalogue().find(word) {
            Meaning::Known(entry) => format!("{}/{}", entry.title(), entry.gvr.version),
            Meaning::Awaited { plural, group } => format!("awaited {plural} {group}"),
            Meaning::Unknown => "unknown".to_owned(),
        };
        assert_eq!(got, expected, "{word}");
    }

    #[test]
    fn words_mean_what_they_mean_to_kubectl() {
        check("pods", "pods/v1");
        check("pod", "pods/v1");
        check("po", "pods/v1");
        check("Pod", "pods/v1");
        check("deploy", "deployments.apps/v1");
        check("deployments.apps", "deployments.apps/v1");
        check("deployments.v1.apps", "deployments.apps/v1");
        check("events", "events/v1");
        check("events.events.k8s.io", "events.events.k8s.io/v1");
        check("foos.example.com", "awaited foos example.com");
        check("foos", "unknown");
        check("foos.apps", "unknown");
        check("bindings", "unknown");
        check("pods/status", "unknown");
    }

    #[test]
    fn a_mistyped_word_is_told_its_neighbour() {
        assert_eq!(catalogue().nearest("pdos").as_deref(), Some("pods"));
        assert_eq!(
            catalogue().nearest("deploymets").as_deref(),
            Some("deployments")
        );
        assert_eq!(catalogue().nearest("quux"), None);
    }
}
