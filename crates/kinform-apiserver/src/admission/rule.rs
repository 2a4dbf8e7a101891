//! A rule: the operations and resources about which a webhook or a policy is asked.
//!
//! ```text
//! operation + resource + subresource ──▶ does the rule match?
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/webhook/predicates/rules/rules.go`.

use serde_json::Value;

use crate::admission::Operation;
use crate::object::text;
use crate::resource::ResourceInfo;

/// The operations, groups, versions, resources and scope of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    /// The names of objects; empty for all.
    names: Vec<String>,
    scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Cluster,
    Namespaced,
}

impl Rule {
    /// Reads a rule as configurations and policies write it.
    pub(crate) fn of(value: &Value) -> Self {
        let list = |name: &str| {
            let items = value[name].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources"),
            names: list("resourceNames"),
            scope: match text(value, &["scope"]) {
                "Cluster" => Scope::Cluster,
                "Namespaced" => Scope::Namespaced,
                _ => Scope::All,
            },
        }
    }

    /// Returns whether the rule matches objects of this name.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|of| of == name)
    }

    /// Returns whether the rule matches an operation on a resource in the version of this entry.
    pub(crate) fn matches(
        &self,
        resource: &ResourceInfo,
        (subresource, operation): (&str, Operation),
    ) -> bool {
        let has = |list: &[String], name: &str| list.iter().any(|of| of == "*" || of == name);
        let in_scope = match self.scope {
            Scope::All => true,
            Scope::Namespaced => resource.is_namespaced(),
            Scope::Cluster => !resource.is_namespaced(),
        };
        in_scope
            && has(&self.operations, operation.name())
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self
                .resources
                .iter()
                .any(|of| covers(of, &resource.plural, subresource))
    }
}

/// Returns whether a word of a rule covers a resource or a subresource. `*` covers no subresource.
fn covers(word: &str, plural: &str, subresource: &str) -> bool {
    let (of, part) = word.split_once('/').unwrap_or((word, ""));
    (of == "*" || of == plural) && (part == subresource || (part == "*" && word.contains('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_rules_cover_resources_and_subresources() {
        for (word, plural, subresource, is_covered) in [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods", "services", "", false),
            ("pods/status", "pods", "status", true),
            ("pods/status", "pods", "", false),
            ("pods/*", "pods", "exec", true),
            ("pods/*", "pods", "", true),
            ("*", "pods", "", true),
            ("*", "pods", "status", false),
            ("*/scale", "deployments", "scale", true),
            ("*/scale", "deployments", "", false),
            ("*/*", "pods", "", true),
            ("*/*", "pods", "binding", true),
        ] {
            assert_eq!(
                covers(word, plural, subresource),
                is_covered,
                "{word} {plural}/{subresource}"
            );
        }
    }
}
