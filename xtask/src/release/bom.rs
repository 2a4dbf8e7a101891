//! The bill of materials of the program: every crate that is compiled into it, as CycloneDX.
//!
//! ```text
//! graph of cargo metadata ──from kinform-cli, without dev-dependencies──▶ components, dependencies
//! ```
//!
//! Without times and random numbers: the same commit has the same file.
//!
//! Upstream counterpart: the specification CycloneDX 1.5; `cargo-cyclonedx` writes the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use super::Release;

/// Writes the file.
pub(super) fn write(release: &Release) -> Result<String, String> {
    let workspace = &release.workspace;
    let bom = bill(workspace.packages(), workspace.nodes())?;
    let name = format!("kinform-{}.cdx.json", workspace.version());
    let text = serde_json::to_string_pretty(&bom).map_err(|error| format!("{name}: {error}"))?;
    fs::write(release.folder.join(&name), text + "\n").map_err(|e| format!("{name}: {e}"))?;
    let count = bom["components"].as_array().map_or(0, Vec::len);
    Ok(format!("{name}: {count} crates"))
}

fn bill<'a>(
    packages: impl Iterator<Item = &'a Value>,
    nodes: impl Iterator<Item = &'a Value>,
) -> Result<Value, String> {
    let by_id = |value: &'a Value| Some((value["id"].as_str()?, value));
    let packages: BTreeMap<_, _> = packages.filter_map(by_id).collect();
    let edges: BTreeMap<_, _> = nodes
        .filter_map(by_id)
        .map(|(id, node)| (id, uses(node)))
        .collect();
    let mut program = packages
        .iter()
        .filter(|(_, package)| package["name"] == "kinform-cli");
    let (&first, program) = program.next().ok_or("there is no package kinform-cli")?;
    let mut known = BTreeSet::from([first]);
    let mut waiting = vec![first];
    while let Some(next) = waiting.pop() {
        let more = edges.get(next).into_iter().flatten().copied();
        waiting.extend(more.filter(|id| known.insert(id)));
    }
    let reference = |id: &str| {
        packages
            .get(id)
            .map_or(Value::Null, |package| purl(package).into())
    };
    let dependencies = known.iter().map(|&id| {
        let on: Vec<_> = edges
            .get(id)
            .into_iter()
            .flatten()
            .map(|id| reference(id))
            .collect();
        json!({"ref": reference(id), "dependsOn": on})
    });
    let components = known.iter().filter(|&&id| id != first);
    let components = components.filter_map(|id| packages.get(id));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(program, "application")},
        "components": components.map(|it| component(it, "library")).collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    }))
}

/// The packages that a package needs to be built and to run.
fn uses(node: &Value) -> Vec<&str> {
    let is_dev = |kind: &Value| kind["kind"] == "dev";
    let deps = node["deps"].as_array().into_iter().flatten();
    deps.filter(|dep| {
        let mut kinds = dep["dep_kinds"].as_array().into_iter().flatten();
        !kinds.all(is_dev)
    })
    .filter_map(|dep| dep["pkg"].as_str())
    .collect()
}

fn component(package: &Value, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    });
    if let Some(licence) = package["license"].as_str() {
        // An old form of OR.
        let expression = licence.replace(" / ", " OR ").replace('/', " OR ");
        component["licenses"] = json!([{"expression": expression}]);
    }
    component
}

fn purl(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_has_what_is_compiled_and_no_tool_of_tests() {
        let package = |name: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let packages = ["kinform-cli", "a", "b", "test", "other"].map(package);
        let dep = |to: &str, kind: Value| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
        let nodes = [
            json!({"id": "kinform-cli", "deps": [dep("a", Value::Null), dep("test", "dev".into())]}),
            json!({"id": "a", "deps": [dep("b", "build".into())]}),
        ];
        let bill = bill(packages.iter(), nodes.iter()).unwrap();
        let names: Vec<_> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| &c["name"])
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(
            bill["components"][0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        let on_a =
            json!({"ref": "pkg:cargo/kinform-cli@1.0.0", "dependsOn": ["pkg:cargo/a@1.0.0"]});
        assert!(bill["dependencies"].as_array().unwrap().contains(&on_a));
    }
}
