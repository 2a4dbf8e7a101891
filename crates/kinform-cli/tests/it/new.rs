//! `new`: the files of a project, and the names and folders that it refuses.
//!
//! ```text
//! kinform new (a process) → files in a folder of the test | one line, exit code 2, no file
//! ```
//!
//! That a project builds, passes its tests and is formatted takes minutes: `cargo xtask new`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::{kinform, outcome};

/// The flags that a project needs.
const NAMES: [&str; 4] = ["--group", "example.com", "--kind", "Website"];

/// Runs the command in a folder; exit code and stderr.
async fn new(folder: &Path, words: &[&str]) -> (i32, String) {
    let mut command = kinform(None, &["new"]);
    command.args(words).current_dir(folder);
    let (code, stdout, stderr) = outcome(command).await;
    assert_eq!(stdout, "");
    (code, stderr)
}

/// The files below a folder by their paths, with slashes.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
            files.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
        }
    }
    files
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// The root of this repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[tokio::test]
async fn a_project_has_code_tests_manifests_and_an_image_under_its_names() {
    let home = tempfile::tempdir().unwrap();
    let words = [&["web-operator"], &NAMES[..]].concat();
    let (code, told) = new(home.path(), &words).await;
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("22 files in web-operator"), "{told}");
    assert!(
        told.contains("not published yet") && told.contains("--kinform-path"),
        "{told}"
    );
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    let files = files(&home.path().join("web-operator"));
    let paths: Vec<_> = files.keys().map(String::as_str).collect();
    assert_eq!(
        paths,
        [
            ".dockerignore",
            ".gitignore",
            "Cargo.toml",
            "Containerfile",
            "README.md",
            "deploy/crd.yaml",
            "deploy/deployment.yaml",
            "deploy/disruption-budget.yaml",
            "deploy/example.yaml",
            "deploy/kustomization.yaml",
            "deploy/namespace.yaml",
            "deploy/rbac.yaml",
            "deploy/service-account.yaml",
            "deploy/services.yaml",
            "src/api.rs",
            "src/lib.rs",
            "src/main.rs",
            "src/reconcile.rs",
            "tests/it/main.rs",
            "tests/it/manifests.rs",
            "tests/it/server.rs",
            "tests/it/simulation.rs",
        ]
    );
    let api = &files["src/api.rs"];
    for part in [
        "group = \"example.com\"",
        "pub struct WebsiteSpec",
        "plural = \"websites\"",
    ] {
        assert!(api.contains(part), "{api}");
    }
    let definition: Value = serde_saphyr::from_str(&files["deploy/crd.yaml"]).unwrap();
    assert_eq!(definition["metadata"]["name"], "websites.example.com");
    assert_eq!(definition["spec"]["scope"], "Namespaced");
    // The kustomization names each manifest but the example.
    let kustomization: Value = serde_saphyr::from_str(&files["deploy/kustomization.yaml"]).unwrap();
    let mut named: Vec<_> = kustomization["resources"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    named.sort_by_key(|name| name.to_string());
    let manifests = paths.iter().filter_map(|path| path.strip_prefix("deploy/"));
    let others = ["example.yaml", "kustomization.yaml"];
    assert!(
        named
            .into_iter()
            .eq(manifests.filter(|name| !others.contains(name)))
    );
}

#[tokio::test]
async fn scope_plural_version_checkout_and_folder_are_as_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let checkout = repository();
    let own = [
        "web",
        "--scope=cluster",
        "--plural=sites",
        "--version=v2beta1",
        "--dir=here",
        "--kinform-path",
        checkout.to_str().unwrap(),
    ];
    fs::create_dir(home.path().join("here")).unwrap();
    let (code, told) = new(home.path(), &[&own, &NAMES[..]].concat()).await;
    assert_eq!(code, 0, "{told}");
    assert!(!told.contains("not published"), "{told}");
    let files = files(&home.path().join("here"));
    let definition: Value = serde_saphyr::from_str(&files["deploy/crd.yaml"]).unwrap();
    assert_eq!(definition["metadata"]["name"], "sites.example.com");
    assert_eq!(definition["spec"]["scope"], "Cluster");
    assert_eq!(definition["spec"]["versions"][0]["name"], "v2beta1");
    let path = checkout.canonicalize().unwrap();
    let path = format!("path = \"{}/crates/kinform\"", path.display());
    assert!(
        files["Cargo.toml"].contains(&path),
        "{}",
        files["Cargo.toml"]
    );
    // The versions that the checkout was tested with.
    let lock = fs::read_to_string(checkout.join("Cargo.lock")).unwrap();
    assert_eq!(files["Cargo.lock"], lock);
}

#[tokio::test]
async fn a_refused_name_is_one_line_and_exit_code_2_and_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    for (name, group, kind, named) in [
        ("fn", "example.com", "Website", "NAME \"fn\""),
        ("test", "example.com", "Website", "a word of Rust"),
        ("core", "example.com", "Website", "a word of Rust"),
        ("std", "example.com", "Website", "a word of Rust"),
        (
            "kube",
            "example.com",
            "Website",
            "a crate that the project needs",
        ),
        ("1web", "example.com", "Website", "a letter first"),
        ("web_op", "example.com", "Website", "single \"-\""),
        ("wéb", "example.com", "Website", "lower case letters"),
        ("../web", "example.com", "Website", "lower case letters"),
        ("web", "example", "Website", "with a dot"),
        (
            "web",
            "apps.k8s.io",
            "Website",
            "api-approved.kubernetes.io",
        ),
        ("web", "example.com", "website", "a capital letter first"),
        (
            "web",
            "example.com",
            "Option",
            "use another name, as MyOption",
        ),
        ("web", "example.com", "Self", "use another name, as MySelf"),
    ] {
        let words = [name, "--group", group, "--kind", kind];
        let (code, told) = new(home.path(), &words).await;
        assert_eq!(code, 2, "{words:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(
            told.contains(named) && told.contains("use "),
            "{words:?}: {told}"
        );
        assert!(is_empty(home.path()), "{words:?}");
    }
    for flag in [
        "--version=1",
        "--plural=Sites",
        "--scope=none",
        "--kinform-path=nowhere",
    ] {
        let (code, told) = new(home.path(), &[&["web", flag], &NAMES[..]].concat()).await;
        assert_eq!(code, 2, "{flag}: {told}");
        assert!(is_empty(home.path()), "{flag}");
    }
}

#[tokio::test]
async fn a_folder_with_a_file_is_refused_and_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("web");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("notes"), "mine").unwrap();
    let (code, told) = new(home.path(), &[&["web"], &NAMES[..]].concat()).await;
    assert_eq!((code, told.lines().count()), (2, 1), "{told}");
    assert!(
        told.contains("web exists: use a folder that is missing or empty"),
        "{told}"
    );
    assert_eq!(
        files(home.path()),
        [("web/notes".to_owned(), "mine".to_owned())].into()
    );
}

#[test]
fn a_project_asks_for_the_versions_that_kinform_is_built_with() {
    let workspace = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let template = include_str!("../../src/new/template/manifest.toml");
    /// The version in `name = "1"` or `name = { version = "1", .. }`.
    fn version(line: &str) -> Option<(&str, &str)> {
        let (name, rest) = line.split_once(" = ")?;
        let rest = rest.strip_prefix("{ version = ").unwrap_or(rest);
        Some((name, rest.strip_prefix('"')?.split('"').next()?))
    }
    let (_, shared) = workspace.split_once("[workspace.dependencies]\n").unwrap();
    let shared: BTreeMap<_, _> = shared.lines().filter_map(version).collect();
    let (_, dependencies) = template.split_once("[dependencies]\n").unwrap();
    let (dependencies, _) = dependencies.split_once("\n[dev-dependencies]").unwrap();
    let foreign = dependencies
        .lines()
        .filter(|line| !line.starts_with("kinform"));
    let mut count = 0;
    for (name, asked) in foreign.filter_map(version) {
        assert_eq!(shared.get(name), Some(&asked), "{name}");
        count += 1;
    }
    assert_eq!(count, 9);
    for key in ["edition", "rust-version"] {
        let line = workspace
            .lines()
            .find(|line| line.starts_with(&format!("{key} = ")))
            .unwrap();
        assert!(template.contains(&format!("{line}\n")), "{line}");
    }
}
