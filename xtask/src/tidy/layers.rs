//! Who may import whom: crates by their manifests, the modules of the core by their paths.
//!
//! ```text
//! api, schema ◀─ core ◀─ kinform ◀─ cli        api, schema ◀─ apiserver ◀─ cli
//! kinform, apiserver ◀─ testkit                (dev-dependencies are free)
//!
//! core:  wire backoff time stats ◀─ object ◀─ delta ◀─ reflector │ fifo │ store ◀─ informer
//!        queue and election stand alone, on backoff, time and stats
//! ```
//!
//! A crate cannot be imported without its manifest saying so, so manifests are enough. Clocks
//! and randomness enter the library by `env.rs` only. Upstream: none; `ARCHITECTURE.md` is the map.

use super::source::{Source, is_ident, words};
use super::{File, Finding};

const RULE: &str = "layers";

/// For each crate of ours: the crates of ours that it may depend on.
const CRATES: [(&str, &[&str]); 9] = [
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
        ],
    ),
    (
        "kinform-cli",
        &[
            "kinform-api",
            "kinform-schema",
            "kinform-core",
            "kinform",
            "kinform-apiserver",
            "sample-controller",
        ],
    ),
    ("sample-controller", &["kinform", "kinform-api"]),
    ("xtask", &["kinform-schema"]),
];

/// The language of rules in definitions: it talks to no server.
const RULES: &str = "kube-cel";
/// Crates that build without a runtime and without kube.
const PURE: [&str; 3] = ["kinform-api", "kinform-schema", "kinform-core"];
const RUNTIMES: [&str; 6] = ["tokio", "kube", "hyper", "k8s-openapi", "tower", "reqwest"];
/// What the server may not share with a client.
const CLIENTS: [&str; 2] = ["kube", "k8s-openapi"];

/// For each module of the core: the modules that it may import.
const CORE: [(&str, &[&str]); 13] = [
    ("mutant", &[]),
    ("time", &[]),
    ("stats", &["time"]),
    ("backoff", &["time", "stats"]),
    ("wire", &["time", "stats"]),
    ("object", &["wire", "backoff", "time", "stats"]),
    ("delta", &["object", "wire", "backoff", "time", "stats"]),
    (
        "reflector",
        &["delta", "object", "wire", "backoff", "time", "stats"],
    ),
    (
        "fifo",
        &["delta", "object", "wire", "backoff", "time", "stats"],
    ),
    (
        "store",
        &["delta", "object", "wire", "backoff", "time", "stats"],
    ),
    (
        "informer",
        &[
            "reflector",
            "fifo",
            "store",
            "delta",
            "object",
            "wire",
            "backoff",
            "time",
            "stats",
        ],
    ),
    ("queue", &["backoff", "time", "stats"]),
    ("election", &["backoff", "time", "stats"]),
];

const CORE_ROOT: &str = "crates/kinform-core/src/";
const CLOCKS: [&str; 7] = [
    "Instant::now",
    "SystemTime::now",
    "Timestamp::now",
    "rand::",
    "getrandom",
    "new_v4",
    "fastrand",
];
const CLOCKLESS: [&str; 4] = [
    "crates/kinform-api/src/",
    "crates/kinform-schema/src/",
    "crates/kinform-core/src/",
    "crates/kinform/src/",
];

/// Checks one manifest's dependencies.
pub(crate) fn check_manifest(file: &File) -> Vec<Finding> {
    let Some(folder) = file.path.strip_suffix("/Cargo.toml") else {
        return Vec::new();
    };
    let name = folder.rsplit('/').next().unwrap_or(folder);
    let Some((_, allowed)) = CRATES.iter().find(|(c, _)| *c == name) else {
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

/// Checks the imports inside the core, and clocks in the library.
pub(crate) fn check_modules(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = check_clocks(source);
    let Some(inside) = source.path.strip_prefix(CORE_ROOT) else {
        return findings;
    };
    let module = inside
        .split('/')
        .next()
        .unwrap_or(inside)
        .trim_end_matches(".rs");
    if module == "lib" {
        return findings;
    }
    let Some((_, allowed)) = CORE.iter().find(|(m, _)| *m == module) else {
        let message = format!("{module} has no place in the layers of the core (xtask: layers.rs)");
        findings.push(finding(source.path, 1, message));
        return findings;
    };
    for (at, import) in imports(source.production(), depth(inside)) {
        if import == module || allowed.contains(&import) {
            continue;
        }
        let known = CORE.iter().any(|(m, _)| *m == import);
        let message = if known {
            format!("{module} is not above {import}")
        } else {
            format!("{import} is imported from the crate's root, not from its module")
        };
        findings.push(finding(source.path, source.line(at), message));
    }
    findings
}

fn check_clocks(source: &Source<'_>) -> Vec<Finding> {
    let library = CLOCKLESS.iter().any(|root| source.path.starts_with(root));
    if !library || source.path == "crates/kinform/src/env.rs" {
        return Vec::new();
    }
    let code = source.production();
    let found = CLOCKS
        .iter()
        .flat_map(|clock| words(code, clock).map(move |at| (at, clock)));
    found
        .map(|(at, clock)| {
            let message = format!("{clock}: clocks and randomness enter by env.rs only");
            Finding {
                path: source.path.to_owned(),
                line: source.line(at),
                rule: "clocks",
                message,
            }
        })
        .collect()
}

/// How many modules deep a file of the core is: 1 for `x.rs` and `x/mod.rs`.
fn depth(inside: &str) -> usize {
    inside.split('/').filter(|part| *part != "mod.rs").count()
}

/// The first names after `crate::`, or after as many `super::` as lead to the root.
fn imports(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let up = "super::".repeat(depth);
    let mut found = Vec::new();
    for prefix in ["crate::", up.as_str()] {
        for at in words(code, prefix).filter(|at| !code[..*at].ends_with("super::")) {
            let start = at + prefix.len();
            match code[start..].strip_prefix('{') {
                Some(group) => found.extend(heads(group).into_iter().map(|head| (at, head))),
                None => found.extend(head(&code[start..]).map(|head| (at, head))),
            }
        }
    }
    found
}

/// The first names of a group of imports, whose opening brace is read.
fn heads(group: &str) -> Vec<&str> {
    let (mut depth, mut expects, mut found) = (1_usize, true, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' if depth == 1 => expects = true,
            c if expects && (c.is_alphanumeric() || c == '_') => {
                found.extend(head(&group[at..]));
                expects = false;
            }
            _ => {}
        }
    }
    found
}

fn head(text: &str) -> Option<&str> {
    let end = text
        .bytes()
        .position(|b| !is_ident(b))
        .unwrap_or(text.len());
    let head = &text[..end];
    (!head.is_empty() && head != "super").then_some(head)
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

    fn module(path: &str, text: &str) -> Vec<String> {
        let file = File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        check_modules(&Source::new(&file))
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    fn core(path: &str, text: &str) -> Vec<String> {
        module(&format!("{CORE_ROOT}{path}"), text)
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

    #[test]
    fn the_core_imports_downwards() {
        assert_eq!(core("fifo.rs", "use crate::delta::Delta;"), [""; 0]);
        assert_eq!(
            core("fifo.rs", "use crate::store::Root;"),
            ["fifo is not above store"]
        );
        assert_eq!(
            core("store/diff.rs", "use crate::store::Root; use super::Edit;"),
            [""; 0]
        );
        assert_eq!(
            core("informer/mod.rs", "use crate::{fifo::A, store::{B, C}};"),
            [""; 0]
        );
        let group = "use crate::{\n    delta::{A, informer},\n    informer::B,\n};";
        assert_eq!(core("store/mod.rs", group), ["store is not above informer"]);
        assert_eq!(
            core("queue/limiter.rs", "fn f(o: &crate::object::Object) {}").len(),
            1
        );
        assert_eq!(
            core("wire/json.rs", "use super::super::object::Object;").len(),
            1
        );
        assert_eq!(core("wire/mod.rs", "use super::object::Object;").len(), 1);
        assert_eq!(core("wire/json.rs", "use super::object::Object;"), [""; 0]);
        assert_eq!(core("lib.rs", "pub use crate::informer::X;"), [""; 0]);
        assert_eq!(core("novelty.rs", "").len(), 1);
        assert_eq!(core("store/mod.rs", "use crate::Object;").len(), 1);
    }

    #[test]
    fn comments_and_tests_may_name_what_is_above() {
        assert_eq!(
            core("fifo.rs", "//! see [`crate::store`]\n// crate::store\n"),
            [""; 0]
        );
        let tests = "#[cfg(test)]\nmod tests {\n use crate::store::Root;\n}";
        assert_eq!(core("fifo.rs", tests), [""; 0]);
    }

    #[test]
    fn clocks_are_read_in_one_place() {
        let text = "fn f() { std::time::Instant::now(); let x = rand::random(); }";
        assert_eq!(module("crates/kinform/src/factory.rs", text).len(), 2);
        assert_eq!(module("crates/kinform/src/env.rs", text), [""; 0]);
        assert_eq!(module("crates/kinform-cli/src/main.rs", text), [""; 0]);
        assert_eq!(
            module("crates/kinform/src/a.rs", "fn brand::x() {}"),
            [""; 0]
        );
    }
}
