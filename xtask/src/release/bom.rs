//! The bill of materials of the program: every crate that its build needs, as CycloneDX.
//!
//! ```text
//! cargo tree of kinform-cli, without dev-dependencies ──▶ edges ──▶ components, dependencies
//! ```
//!
//! The graph of `cargo metadata` would have the features of the whole workspace, and with them
//! crates that this program does not have. Without times and random numbers: the same commit has the
//! same file.
//!
//! Upstream counterpart: the specification CycloneDX 1.5; `cargo-cyclonedx` writes the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use super::{Release, notices};

/// A crate: its name and version.
pub(super) type Crate<'a> = (&'a str, &'a str);

/// Writes the file.
pub(super) fn write(release: &Release) -> Result<String, String> {
    let workspace = &release.workspace;
    let tree = workspace.tree(&release.root)?;
    let mut bom = bill(workspace.packages(), &tree)?;
    add_c_library(&mut bom, &notices::c_library()?);
    let name = format!("kinform-{}.cdx.json", workspace.version());
    let text = serde_json::to_string_pretty(&bom).map_err(|error| format!("{name}: {error}"))?;
    fs::write(release.folder.join(&name), text + "\n").map_err(|e| format!("{name}: {e}"))?;
    let count = bom["components"].as_array().map_or(0, Vec::len);
    Ok(format!("{name}: {count} components"))
}

/// Adds the C library, which the static program has in it.
fn add_c_library(bom: &mut Value, version: &str) {
    let reference = format!("pkg:generic/glibc@{version}");
    let component = json!({
        "type": "library",
        "bom-ref": reference,
        "name": "glibc",
        "version": version,
        "purl": reference,
        "description": "in the static program alone; the dynamic one uses that of its machine",
        "licenses": [{"license": {"id": "LGPL-2.1-or-later"}}],
    });
    let program = bom["metadata"]["component"]["bom-ref"].clone();
    if let Some(components) = bom["components"].as_array_mut() {
        components.push(component);
    }
    let all = bom["dependencies"].as_array_mut().into_iter().flatten();
    let mut own = all.filter(|one| one["ref"] == program);
    if let Some(on) = own.next().and_then(|one| one["dependsOn"].as_array_mut()) {
        on.push(Value::String(reference));
    }
}

/// The crates of a tree.
///
/// # Errors
/// It is not understood.
pub(super) fn crates(tree: &str) -> Result<BTreeSet<Crate<'_>>, String> {
    Ok(edges(tree)?.1.into_keys().collect())
}

fn bill<'a>(packages: impl Iterator<Item = &'a Value>, tree: &str) -> Result<Value, String> {
    let by_name = |package: &'a Value| {
        let text = |key: &str| package[key].as_str();
        Some(((text("name")?, text("version")?), package))
    };
    let packages: BTreeMap<Crate<'_>, &Value> = packages.filter_map(by_name).collect();
    let (first, edges) = edges(tree)?;
    let package = |of: Crate<'_>| -> Result<&Value, String> {
        let (name, version) = of;
        let package = packages.get(&of).copied();
        package.ok_or_else(|| format!("cargo metadata does not have {name} {version}"))
    };
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    for (of, on) in &edges {
        if *of != first {
            components.push(component(package(*of)?, "library"));
        }
        let on: Vec<String> = on.iter().map(purl).collect();
        dependencies.push(json!({"ref": purl(of), "dependsOn": on}));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(package(first)?, "application")},
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The first crate of a tree of lines `DEPTH|NAME vVERSION ..`, and each crate with those that it
/// uses. A crate that is in the tree again has its part only once.
fn edges(tree: &str) -> Result<(Crate<'_>, BTreeMap<Crate<'_>, BTreeSet<Crate<'_>>>), String> {
    let mut edges: BTreeMap<Crate<'_>, BTreeSet<Crate<'_>>> = BTreeMap::new();
    let mut above: Vec<Crate<'_>> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let read = || {
            let (depth, rest) = line.split_once('|')?;
            let (name, rest) = rest.split_once(" v")?;
            let version = rest.split_whitespace().next()?;
            Some((depth.parse::<usize>().ok()?, (name, version)))
        };
        let (depth, of) = read().ok_or_else(|| format!("cargo tree: not understood: {line}"))?;
        above.truncate(depth);
        if let Some(user) = above.last() {
            edges.entry(*user).or_default().insert(of);
        }
        edges.entry(of).or_default();
        above.push(of);
    }
    let first = above.first().copied();
    Ok((first.ok_or("cargo tree: it is empty")?, edges))
}

fn component(package: &Value, kind: &str) -> Value {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let reference = purl(&(text("name"), text("version")));
    let mut component = json!({
        "type": kind,
        "bom-ref": reference,
        "name": package["name"],
        "version": package["version"],
        "purl": reference,
    });
    if let Some(licence) = package["license"].as_str() {
        // An old form of OR.
        let expression = licence.replace(" / ", " OR ").replace('/', " OR ");
        component["licenses"] = json!([{"expression": expression}]);
    }
    component
}

fn purl((name, version): &Crate<'_>) -> String {
    format!("pkg:cargo/{name}@{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_has_the_crates_of_the_tree_and_no_others() {
        let package =
            |name: &str| json!({"name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let packages = ["kinform-cli", "a", "b", "c", "test", "other"].map(package);
        let tree = "0|kinform-cli v1.0.0 (/path)\n1|a v1.0.0\n2|c v1.0.0 (proc-macro)\n\
                    1|b v1.0.0\n2|a v1.0.0 (*)\n";
        let bill = bill(packages.iter(), tree).unwrap();
        let components = bill["components"].as_array().unwrap();
        let names: Vec<_> = components.iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(
            components[0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        let line = |of: &str, on: &[&str]| {
            let purl = |name: &&str| format!("pkg:cargo/{name}@1.0.0");
            let on: Vec<_> = on.iter().map(purl).collect();
            json!({"ref": purl(&of), "dependsOn": on})
        };
        let lines = [
            line("a", &["c"]),
            line("b", &["a"]),
            line("c", &[]),
            line("kinform-cli", &["a", "b"]),
        ];
        assert_eq!(bill["dependencies"], json!(lines));

        let mut bill = bill;
        add_c_library(&mut bill, "2.36");
        let library = "pkg:generic/glibc@2.36";
        assert_eq!(bill["components"][3]["bom-ref"], library);
        let purl = |name: &str| format!("pkg:cargo/{name}@1.0.0");
        let on = json!([purl("a"), purl("b"), library]);
        assert_eq!(bill["dependencies"][3]["dependsOn"], on);
    }

    #[test]
    fn a_tree_that_is_not_understood_makes_no_bill() {
        let bill = |tree| bill(std::iter::empty(), tree).unwrap_err();
        assert_eq!(bill(""), "cargo tree: it is empty");
        assert_eq!(bill("?"), "cargo tree: not understood: ?");
        assert_eq!(
            bill("0|kinform-cli v1.0.0"),
            "cargo metadata does not have kinform-cli 1.0.0"
        );
    }
}
