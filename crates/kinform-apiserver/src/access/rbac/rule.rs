//! A rule: the requests that it allows, and comparisons of rules.
//!
//! ```text
//! Rule + Attributes ──▶ yes | no          held rules + wanted rules ──▶ missing rules, combined
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/rbac/v1/evaluation_helpers.go`,
//! `k8s.io/component-helpers/auth/rbac/validation`.

use serde::{Deserialize, Serialize};

use crate::access::attributes::{Attributes, Subject};

/// BOUND: the number of pieces that rules are split into for a comparison.
const PIECES: usize = 100_000;

/// A rule of a role: the verbs that it allows on resources or on URLs.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rule {
    #[serde(deserialize_with = "list")]
    pub(crate) verbs: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) api_groups: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(crate) urls: Vec<String>,
}

/// Lists that are `null` are empty.
fn list<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|of| of == "*" || of == wanted)
}

impl Rule {
    /// Returns whether the rule allows a request.
    pub(crate) fn allows(&self, asked: &Attributes) -> bool {
        if !has(&self.verbs, &asked.verb) {
            return false;
        }
        match &asked.subject {
            Subject::Path => self.allows_path(&asked.path),
            Subject::Resource(of) => {
                has(&self.api_groups, &of.group)
                    && self.allows_resource(&of.resource, &of.subresource)
                    && (self.resource_names.is_empty() || self.resource_names.contains(&of.name))
            }
        }
    }

    fn allows_path(&self, path: &str) -> bool {
        self.urls.iter().any(|url| match url.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => url == path,
        })
    }

    fn allows_resource(&self, resource: &str, part: &str) -> bool {
        self.resources.iter().any(|of| match of.split_once('/') {
            _ if of == "*" => true,
            None => part.is_empty() && of == resource,
            Some((named, of_part)) => {
                !part.is_empty() && of_part == part && (named == "*" || named == resource)
            }
        })
    }

    /// Splits the rule into pieces of one verb, one group and resource or path, and at most one
    /// name.
    fn pieces(&self) -> impl Iterator<Item = Self> + '_ {
        let names: Vec<Vec<String>> = match self.resource_names.is_empty() {
            true => vec![Vec::new()],
            false => self
                .resource_names
                .iter()
                .map(|n| vec![n.clone()])
                .collect(),
        };
        let of_resources = self.api_groups.iter().flat_map(move |group| {
            let names = names.clone();
            self.resources.iter().flat_map(move |resource| {
                let names = names.clone();
                self.verbs.iter().flat_map(move |verb| {
                    let piece = |name: Vec<String>| Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        resource_names: name,
                        urls: Vec::new(),
                    };
                    names.clone().into_iter().map(piece).collect::<Vec<_>>()
                })
            })
        });
        let of_paths = self.urls.iter().flat_map(move |url| {
            self.verbs.iter().map(move |verb| Self {
                verbs: vec![verb.clone()],
                urls: vec![url.clone()],
                ..Self::default()
            })
        });
        of_resources.chain(of_paths)
    }

    /// Returns whether this rule allows everything that a piece allows.
    fn covers(&self, piece: &Self) -> bool {
        let all = |wanted: &[String], held: &[String]| wanted.iter().all(|of| has(held, of));
        if !all(&piece.verbs, &self.verbs) {
            return false;
        }
        if let Some(url) = piece.urls.first() {
            return self.urls.iter().any(|held| {
                held == url || held.strip_suffix('*').is_some_and(|at| url.starts_with(at))
            });
        }
        let resources = piece.resources.iter().all(|wanted| {
            has(&self.resources, wanted)
                || wanted.split_once('/').is_some_and(|(_, part)| {
                    self.resources
                        .iter()
                        .any(|held| *held == format!("*/{part}"))
                })
        });
        let names = self.resource_names.is_empty()
            || (!piece.resource_names.is_empty()
                && piece
                    .resource_names
                    .iter()
                    .all(|name| self.resource_names.contains(name)));
        all(&piece.api_groups, &self.api_groups) && resources && names
    }

    /// Formats the rule as upstream prints it.
    pub(super) fn describe(&self) -> String {
        let list = |values: &[String]| {
            let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            quoted.join(" ")
        };
        let parts: Vec<String> = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ]
        .into_iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(name, values)| format!("{name}:[{}]", list(values)))
        .collect();
        format!("{{{}}}", parts.join(", "))
    }

    fn is_about_the_same(&self, other: &Self) -> bool {
        self.urls.is_empty()
            && other.urls.is_empty()
            && self.api_groups == other.api_groups
            && self.resources == other.resources
            && self.resource_names == other.resource_names
    }
}

/// Returns the rules that allow everything.
pub(crate) fn everything() -> Vec<Rule> {
    let all = || vec!["*".to_owned()];
    vec![
        Rule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..Rule::default()
        },
        Rule {
            verbs: all(),
            urls: all(),
            ..Rule::default()
        },
    ]
}

/// Returns the part of the wanted rules that no held rule covers, combined into few rules. An empty
/// list means that every wanted rule is covered.
///
/// # Errors
/// The wanted rules consist of too many pieces to be compared.
pub(super) fn missing(held: &[Rule], wanted: &[Rule]) -> Result<Vec<Rule>, TooMany> {
    let count = |rule: &Rule| {
        let resources = rule.api_groups.len().saturating_mul(rule.resources.len());
        let named = resources.saturating_mul(rule.resource_names.len().max(1));
        named
            .saturating_add(rule.urls.len())
            .saturating_mul(rule.verbs.len())
    };
    let pieces = wanted.iter().map(count).fold(0, usize::saturating_add);
    if pieces.saturating_mul(held.len().max(1)) > PIECES * 100 || pieces > PIECES {
        return Err(TooMany);
    }
    let mut few: Vec<Rule> = Vec::new();
    for piece in wanted.iter().flat_map(Rule::pieces) {
        if held.iter().any(|rule| rule.covers(&piece)) {
            continue;
        }
        match few.iter_mut().find(|rule| rule.is_about_the_same(&piece)) {
            Some(rule) => rule.verbs.extend(piece.verbs),
            None => few.push(piece),
        }
    }
    few.sort_by_key(Rule::describe);
    Ok(few)
}

/// The error of rules with too many pieces to compare.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::attributes::ResourceRef;

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> Rule {
        let list = |text: &str| match text {
            "-" => Vec::new(),
            text => text.split(' ').map(str::to_owned).collect(),
        };
        Rule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: list(names),
            urls: Vec::new(),
        }
    }

    // kubernetes/kubernetes: TestResourceMatches
    #[test]
    fn a_rule_names_resources_and_their_parts() {
        for (resources, asked, want) in [
            ("*", "foo", true),
            ("*", "foo/bar", true),
            ("foo", "foo", true),
            ("foo", "foo/bar", false),
            ("foo/bar", "foo/bar", true),
            ("foo/bar", "foo", false),
            ("*/bar", "foo/bar", true),
            ("*/bar", "foo", false),
            ("foo/*", "foo/bar", false),
        ] {
            let (resource, part) = asked.split_once('/').unwrap_or((asked, ""));
            let of = ResourceRef {
                resource: resource.to_owned(),
                subresource: part.to_owned(),
                ..ResourceRef::default()
            };
            let got = rule("get", "*", resources, "-").allows(&Attributes::of("get", of));
            assert_eq!(got, want, "{resources} {asked}");
        }
    }

    // kubernetes/component-helpers: TestCovers
    #[test]
    fn what_is_not_held_is_missing() {
        let told = |held: &[Rule], wanted: Rule| {
            let missing = missing(held, &[wanted]).unwrap();
            missing
                .iter()
                .map(Rule::describe)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let held = [
            rule("get list", "-", "-", "-"),
            rule("get", "v1", "pods a/b", "-"),
        ];
        assert_eq!(told(&held, rule("get", "v1", "pods", "x")), "");
        assert_eq!(
            told(&held, rule("get watch put", "v1", "pods", "-")),
            r#"{APIGroups:["v1"], Resources:["pods"], Verbs:["watch" "put"]}"#
        );
        assert_eq!(
            told(&held, rule("*", "v1", "pods", "-")),
            r#"{APIGroups:["v1"], Resources:["pods"], Verbs:["*"]}"#
        );
        let named = [rule("get", "v1", "pods", "a")];
        assert_eq!(
            told(&named, rule("get", "v1", "pods", "-")),
            r#"{APIGroups:["v1"], Resources:["pods"], Verbs:["get"]}"#
        );
        let all = [rule("*", "*", "*", "-")];
        assert_eq!(
            told(&all, rule("get", "v1", "pods/log */status", "x y")),
            ""
        );
        let many = rule(&"v ".repeat(1000), &"g ".repeat(1000), "pods", "-");
        assert_eq!(missing(&all, &[many]), Err(TooMany));
    }
}
