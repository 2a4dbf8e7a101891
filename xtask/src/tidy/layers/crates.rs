//! The order of our crates, by the dependencies in their manifests.
//!
//! ```text
//! api, schema ◀─ core ◀─ kinform ◀─ cli        api, schema ◀─ apiserver ◀─ cli
//! kinform ◀─ controlplane ◀─ cli, testkit      kinform, apiserver ◀─ testkit
//!                                              (dev-dependencies are free)
//! ```
//!
//! A crate cannot be imported without its manifest saying so, so manifests are enough.

use super::super::finding::Finding;
use super::law::RULE;
use crate::text::file::File;

/// For each crate of ours, by its folder: the crates of ours that it may depend on.
const CRATES: [(&str, &[&str]); 14] = [
    ("kinform-api", &[]),
    ("kinform-schema", &[]),
    ("kinform-core", &["kinform-api", "kinform-schema"]),
    (
        "kinform",
        &["kinform-api", "kinform-schema", "kinform-core"],
    ),
    ("kinform-apiserver", &["kinform-api", "kinform-schema"]),
    (
        "kinform-testkit",
        &[
            "kinform-api",
            "kinform-schema",
            "kinform-core",
            "kinform",
            "kinform-apiserver",
            "kinform-controlplane",
        ],
    ),
    ("kinform-controlplane", &["kinform-api", "kinform"]),
    (
        "kinform-operator",
        &["kinform-api", "kinform-core", "kinform"],
    ),
    (
        "kinform-cli",
        &[
            "kinform-api",
            "kinform-schema",
            "kinform-core",
            "kinform",
            "kinform-apiserver",
            "kinform-controlplane",
            "kinform-operator",
            "sample-controller",
        ],
    ),
    ("sample-controller", &["kinform", "kinform-operator"]),
    ("mistakes", &["kinform", "kinform-testkit"]),
    // The folder of kinform-examples.
    (
        "catalog",
        &["kinform", "kinform-operator", "kinform-testkit"],
    ),
    ("soak", &["kinform", "kinform-operator", "kinform-testkit"]),
    ("xtask", &["kinform-schema"]),
];

/// The language of rules in definitions: it talks to no server.
const RULES: &str = "kube-cel";
/// Crates that build without a runtime and without kube.
const PURE: [&str; 3] = ["kinform-api", "kinform-schema", "kinform-core"];
const RUNTIMES: [&str; 6] = ["tokio", "kube", "hyper", "k8s-openapi", "tower", "reqwest"];
/// Dependencies that the server may not share with a client.
const CLIENTS: [&str; 2] = ["kube", "k8s-openapi"];

/// The crates of ours that a crate may depend on; `None` for a crate that has no place.
pub(crate) fn allowed(package: &str) -> Option<&'static [&'static str]> {
    let found = CRATES.iter().find(|(name, _)| *name == package);
    found.map(|(_, allowed)| *allowed)
}

/// The names of all crates of ours.
pub(crate) fn packages() -> Vec<&'static str> {
    CRATES.iter().map(|(name, _)| *name).collect()
}

/// Checks one manifest's dependencies.
pub(crate) fn check_manifest(file: &File) -> Vec<Finding> {
    let Some(folder) = file.path.strip_suffix("/Cargo.toml") else {
        return Vec::new();
    };
    let name = folder.rsplit('/').next().unwrap_or(folder);
    let Some(allowed) = allowed(name) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (line, dependency) in dependencies(&file.text) {
        let is =
            |family: &&str| dependency == *family || dependency.starts_with(&format!("{family}-"));
        let message = if CRATES.iter().any(|(c, _)| *c == dependency) {
            (!allowed.contains(&dependency)).then(|| format!("{name} is below {dependency}"))
        } else if PURE.contains(&name) && RUNTIMES.iter().any(is) {
            Some(format!("{name} builds without {dependency}"))
        } else if name == "kinform-apiserver" && dependency != RULES && CLIENTS.iter().any(is) {
            Some(format!(
                "the server shares no code with clients, so not {dependency}"
            ))
        } else {
            None
        };
        findings.extend(message.map(|m| finding(&file.path, line, m)));
    }
    findings
}

/// The names in `[dependencies]` and its likes for targets, with their lines.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (number, line) in (1..).zip(manifest.lines().map(str::trim)) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section == "dependencies" || section.ends_with(".dependencies");
            if let Some(name) = section.strip_prefix("dependencies.") {
                found.push((number, name));
            }
            continue;
        }
        let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
        if inside && !name.is_empty() && !name.starts_with('#') {
            found.push((number, name));
        }
    }
    found
}

fn finding(path: &str, line: usize, message: String) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        rule: RULE,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, text: &str) -> Vec<String> {
        let file = File {
            path: format!("crates/{name}/Cargo.toml"),
            text: text.to_owned(),
        };
        check_manifest(&file)
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn a_manifest_may_not_look_up() {
        let text = "[dependencies]\nkinform.workspace = true\nserde = \"1\"\n";
        assert_eq!(
            manifest("kinform-core", text),
            ["kinform-core is below kinform"]
        );
        assert_eq!(manifest("kinform-cli", text), [""; 0]);
        let text = "[dependencies]\nkube-client = { version = \"5\" }\n";
        assert_eq!(
            manifest("kinform-core", text),
            ["kinform-core builds without kube-client"]
        );
        assert_eq!(manifest("kinform-apiserver", text).len(), 1);
        assert_eq!(manifest("kinform", text), [""; 0]);
        let text = "[target.'cfg(unix)'.dependencies]\ntokio.workspace = true\n";
        assert_eq!(manifest("kinform-api", text).len(), 1);
        assert_eq!(
            manifest("kinform-api", "[dependencies.tokio]\nversion = \"1\"").len(),
            1
        );
    }

    #[test]
    fn dev_dependencies_are_free() {
        let text = "[dev-dependencies]\nkinform-testkit.workspace = true\ntokio.workspace = true";
        assert_eq!(manifest("kinform-core", text), [""; 0]);
    }
}
