//! The files of a project: templates of a real project, `gizmo-operator`, with its names replaced.
//!
//! ```text
//! template/* ──"only: SCOPE" lines chosen──▶ names replaced, in one pass ──▶ [(path, text)]
//! ```
//!
//! Pure. A line that ends in `// only: X` or `# only: X` stays, without the mark, where X holds:
//! `namespaced` or `cluster`, `path` or `registry`. A name that replaces another is not looked at
//! again, so a project may be called like a part of the template.

use std::collections::BTreeSet;

use crate::args::creating::Scope;

/// The templates by the paths that they get.
const FILES: [(&str, &str); 22] = [
    (".dockerignore", include_str!("template/dockerignore")),
    (".gitignore", include_str!("template/gitignore")),
    ("Cargo.toml", include_str!("template/manifest.toml")),
    ("Containerfile", include_str!("template/Containerfile")),
    ("README.md", include_str!("template/README.md")),
    ("deploy/crd.yaml", include_str!("template/deploy/crd.yaml")),
    (
        "deploy/deployment.yaml",
        include_str!("template/deploy/deployment.yaml"),
    ),
    (
        "deploy/disruption-budget.yaml",
        include_str!("template/deploy/disruption-budget.yaml"),
    ),
    (
        "deploy/example.yaml",
        include_str!("template/deploy/example.yaml"),
    ),
    (
        "deploy/kustomization.yaml",
        include_str!("template/deploy/kustomization.yaml"),
    ),
    (
        "deploy/namespace.yaml",
        include_str!("template/deploy/namespace.yaml"),
    ),
    (
        "deploy/rbac.yaml",
        include_str!("template/deploy/rbac.yaml"),
    ),
    (
        "deploy/service-account.yaml",
        include_str!("template/deploy/service-account.yaml"),
    ),
    (
        "deploy/services.yaml",
        include_str!("template/deploy/services.yaml"),
    ),
    ("src/api.rs", API),
    ("src/lib.rs", include_str!("template/src/lib.rs")),
    ("src/main.rs", include_str!("template/src/main.rs")),
    (
        "src/reconcile.rs",
        include_str!("template/src/reconcile.rs"),
    ),
    (
        "tests/it/main.rs",
        include_str!("template/tests/it/main.rs"),
    ),
    (
        "tests/it/manifests.rs",
        include_str!("template/tests/it/manifests.rs"),
    ),
    (
        "tests/it/server.rs",
        include_str!("template/tests/it/server.rs"),
    ),
    (
        "tests/it/simulation.rs",
        include_str!("template/tests/it/simulation.rs"),
    ),
];

/// The module of the custom resource.
const API: &str = include_str!("template/src/api.rs");

/// The mark before the condition of a line.
const MARK: &str = "only: ";

/// The files of Rust code that a formatter begins with.
pub(super) const ROOTS: [&str; 3] = ["src/lib.rs", "src/main.rs", "tests/it/main.rs"];

/// The origin of kinform's crates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin<'a> {
    /// The registry.
    Published,
    /// A checkout at this path.
    Checkout(&'a str),
}

/// The names of a project, as `names.rs` has validated them.
#[derive(Debug)]
pub(super) struct Names {
    /// The project, the crate and the operator.
    pub(super) project: String,
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) version: String,
    pub(super) plural: String,
}

/// The files of a project: their paths and texts.
pub(super) fn files(
    names: &Names,
    scope: Scope,
    origin: Origin<'_>,
) -> impl Iterator<Item = (&'static str, String)> {
    let scope = match scope {
        Scope::Namespaced => "namespaced",
        Scope::Cluster => "cluster",
    };
    let (from, checkout) = match origin {
        Origin::Published => ("registry", ""),
        Origin::Checkout(path) => ("path", path),
    };
    let singular = names.kind.to_ascii_lowercase();
    let snake = names.project.replace('-', "_");
    // A longer name is before one that it begins with.
    let replaced = [
        ("/path/to/kinform", checkout.to_owned()),
        ("gizmo-operator", names.project.clone()),
        ("gizmo_operator", snake),
        ("gizmo.example", names.group.clone()),
        ("gizmos", names.plural.clone()),
        ("gizmo", singular),
        ("Gizmo", names.kind.clone()),
        ("v1alpha1", names.version.clone()),
        ("0.0.0", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    FILES.into_iter().map(move |(path, template)| {
        let text = chosen(template, &[scope, from]);
        (path, replace(&text, &replaced))
    })
}

/// The lines without a mark, and those whose mark is one of these.
fn chosen(template: &str, holds: &[&str]) -> String {
    let mut text = String::with_capacity(template.len());
    for line in template.lines() {
        let line = match line.rsplit_once(MARK) {
            Some((_, condition)) if !holds.contains(&condition) => continue,
            Some((line, _)) => line.trim_end_matches(['/', '#', ' ']),
            None => line,
        };
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Replaces the first of the names that fits, at each place of the text.
fn replace(text: &str, names: &[(&str, String)]) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let found = names.iter().find(|(name, _)| rest.starts_with(name));
        let length = match found {
            Some((name, by)) => {
                replaced.push_str(by);
                name.len()
            }
            None => {
                replaced.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    replaced
}

/// The crates that a project depends on.
pub(super) fn dependencies() -> BTreeSet<&'static str> {
    let manifest = include_str!("template/manifest.toml");
    let lines = manifest.lines();
    lines
        .filter_map(|line| line.split_once(" = {").or_else(|| line.split_once(" = \"")))
        .map(|(name, _)| name)
        .collect()
}

/// The types that the module of the custom resource uses, but for its own.
pub(super) fn names_of_the_module() -> BTreeSet<&'static str> {
    let code = API
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let words = code.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words
        .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
        .filter(|word| !word.starts_with("Gizmo"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(project: &str, kind: &str) -> Names {
        Names {
            project: project.to_owned(),
            group: "example.com".to_owned(),
            kind: kind.to_owned(),
            version: "v2".to_owned(),
            plural: format!("{}s", kind.to_ascii_lowercase()),
        }
    }

    #[test]
    fn no_name_and_no_mark_of_the_template_is_left() {
        for scope in [Scope::Namespaced, Scope::Cluster] {
            for origin in [Origin::Published, Origin::Checkout("/src/k")] {
                for (path, text) in files(&names("web", "Website"), scope, origin) {
                    for left in ["izmo", MARK, "/path/to/", "0.0.0", "v1alpha1"] {
                        assert!(!text.contains(left), "{path}: {left}: {text}");
                    }
                    assert!(
                        text.ends_with('\n') && !text.contains(" \n"),
                        "{path}: {text}"
                    );
                    assert!(!text.contains('\r') && !text.contains("\n\n\n"), "{path}");
                }
            }
        }
    }

    #[test]
    fn the_marks_choose_scope_and_origin() {
        let text = |scope, origin, path: &str| {
            let names = names("web", "Website");
            let mut all = files(&names, scope, origin);
            all.find(|(name, _)| *name == path).unwrap().1
        };
        let (namespaced, published) = (Scope::Namespaced, Origin::Published);
        let manifest = text(namespaced, published, "Cargo.toml");
        let version = env!("CARGO_PKG_VERSION");
        assert!(manifest.contains(&format!(
            "kinform-operator = {{ version = \"{version}\" }}\n"
        )));
        assert!(!manifest.contains("path ="), "{manifest}");
        let manifest = text(namespaced, Origin::Checkout("/src/k"), "Cargo.toml");
        assert!(manifest.contains("kinform = { path = \"/src/k/crates/kinform\","));
        assert!(
            !manifest.contains(version) || version == "0.1.0",
            "{manifest}"
        );
        let api = text(namespaced, published, "src/api.rs");
        assert!(api.contains("    namespaced,\n"), "{api}");
        let api = text(Scope::Cluster, published, "src/api.rs");
        assert!(!api.contains("namespaced"), "{api}");
    }

    #[test]
    fn a_name_that_replaces_another_is_not_replaced_again() {
        let pairs = [("ab", "ba".to_owned()), ("a", "ab".to_owned())];
        assert_eq!(replace("ab a ü ba", &pairs), "ba ab ü bab");
    }

    #[test]
    fn the_kinds_module_and_the_dependencies_are_read_from_the_template() {
        let used = names_of_the_module();
        for name in ["CustomResource", "JsonSchema", "Serialize", "Vec"] {
            assert!(used.contains(name), "{name}: {used:?}");
        }
        let dependencies = dependencies();
        for name in ["clap", "kinform", "kinform-testkit", "serde_json"] {
            assert!(dependencies.contains(name), "{name}: {dependencies:?}");
        }
    }
}
