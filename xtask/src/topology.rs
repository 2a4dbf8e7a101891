//! The owners of parts of a built-in's lists and maps, as a real server publishes them.
//!
//! ```text
//! openapi definitions -> words behind the types and fields of the table
//! ```
//!
//! Only differences from the patch tags are written: a list with a merge key is keyed by it, other
//! lists are atomic, maps and structs are granular. A key's default is written if it is not zero.
//!
//! Upstream: the markers `+listType`, `+listMapKey`, `+mapType`, `+structType` and `+default` of
//! `kubernetes/api`, as `kube-openapi` turns them into extensions.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::PathBuf;

use serde_json::Value;

/// The definitions of all documents, by the name of their type in Go.
pub(crate) struct Topology {
    types: HashMap<String, Value>,
    /// Names of fields that identify items of lists.
    keys: HashSet<String>,
}

impl Topology {
    /// Reads documents; a later definition of a type replaces an earlier one.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, Box<dyn Error>> {
        let mut topology = Self {
            types: HashMap::new(),
            keys: HashSet::new(),
        };
        for path in paths {
            let mut document: Value = serde_json::from_slice(&std::fs::read(path)?)?;
            let definitions = match document.get_mut("definitions") {
                Some(definitions) => definitions.take(),
                None => document["components"]["schemas"].take(),
            };
            let Value::Object(definitions) = definitions else {
                return Err(format!("{} has no definitions", path.display()).into());
            };
            for (name, definition) in definitions {
                let properties = definition["properties"].as_object();
                for property in properties.into_iter().flat_map(serde_json::Map::values) {
                    let keys = property["x-kubernetes-list-map-keys"].as_array();
                    let names = keys.into_iter().flatten().filter_map(Value::as_str);
                    topology.keys.extend(names.map(str::to_owned));
                }
                topology.types.insert(go_name(&name), definition);
            }
        }
        Ok(topology)
    }

    /// The word behind a type's name.
    pub(crate) fn of_type(&self, name: &str) -> &'static str {
        match self.extension(name, "x-kubernetes-map-type") {
            Some("atomic") => " ~atomic",
            _ => "",
        }
    }

    /// The words behind a field's flags.
    pub(crate) fn of_field(&self, of: &str, name: &str, patch: (&str, &str)) -> String {
        let Some(property) = self.types.get(of).and_then(|of| of["properties"].get(name)) else {
            return String::new();
        };
        let by_patch = match patch {
            (strategy, "") if strategy.contains("merge") => "set".to_owned(),
            (strategy, key) if strategy.contains("merge") => key.to_owned(),
            _ => "atomic".to_owned(),
        };
        let mut words = String::new();
        match property["x-kubernetes-list-type"].as_str() {
            Some("map") => {
                let keys = property["x-kubernetes-list-map-keys"].as_array();
                let keys: Vec<&str> = keys
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect();
                let keys = keys.join(",");
                if keys != by_patch {
                    words = format!(" ~{keys}");
                }
            }
            Some(kind) if kind != by_patch => words = format!(" ~{kind}"),
            _ => {}
        }
        if let Some(kind) = property["x-kubernetes-map-type"].as_str() {
            words = format!(" ~{kind}");
        }
        let default = property["default"].as_str().unwrap_or_default();
        if self.keys.contains(name) && !default.is_empty() {
            words.push_str(&format!(" !{default}"));
        }
        words
    }

    fn extension(&self, of: &str, name: &str) -> Option<&str> {
        self.types.get(of)?.get(name)?.as_str()
    }
}

/// `io.k8s.api.core.v1.Pod` is `k8s.io/api/core/v1.Pod`.
fn go_name(name: &str) -> String {
    let Some(rest) = name.strip_prefix("io.k8s.") else {
        return name.to_owned();
    };
    let Some((package, name)) = rest.rsplit_once('.') else {
        return name.to_owned();
    };
    format!("k8s.io/{}.{name}", package.replace('.', "/"))
}
