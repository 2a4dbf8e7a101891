//! Discovery documents of the replay server, for programs that look a resource up before listing
//! it.
//!
//! ```text
//! path, collections of the corpus ─▶ APIResourceList | APIGroupList | nothing
//! ```
//!
//! Upstream: the older documents of `apiserver:pkg/endpoints/discovery`.

use serde_json::{Value, json};

use crate::shape::Collection;

/// The document at a path, if it is one of discovery.
#[must_use]
pub fn document(path: &str, collections: &[Collection]) -> Option<String> {
    let words: Vec<&str> = path.trim_matches('/').split('/').collect();
    let found = match words[..] {
        ["api", version] => resources("", version, collections),
        ["apis", group, version] => resources(group, version, collections),
        ["apis"] => groups(collections),
        _ => return None,
    };
    Some(found.to_string())
}

fn resources(group: &str, version: &str, collections: &[Collection]) -> Value {
    let of = collections.iter();
    let of = of.filter(|of| of.group == group && of.version == version);
    let resource = |of: &Collection| {
        json!({
            "name": of.plural,
            "singularName": of.kind.to_lowercase(),
            "namespaced": true,
            "kind": of.kind,
            "verbs": ["list", "watch"],
        })
    };
    let group_version = [group, version].join("/");
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version.trim_start_matches('/'),
        "resources": of.map(resource).collect::<Vec<_>>(),
    })
}

fn groups(collections: &[Collection]) -> Value {
    let mut named: Vec<(&str, &str)> = Vec::new();
    for of in collections.iter().filter(|of| !of.group.is_empty()) {
        if !named.contains(&(of.group, of.version)) {
            named.push((of.group, of.version));
        }
    }
    let group = |(group, version): (&str, &str)| {
        let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
        json!({"name": group, "versions": [version], "preferredVersion": version})
    };
    json!({
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": named.into_iter().map(group).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    #[test]
    fn every_collection_of_a_corpus_is_found() {
        for shape in [Shape::Pods, Shape::Mix, Shape::Unseen, Shape::Operator] {
            let collections = shape.collections();
            for of in collections {
                let path = of.path();
                let (list, plural) = path.rsplit_once('/').unwrap();
                let text = document(list, collections).unwrap();
                let list: Value = serde_json::from_str(&text).unwrap();
                let resources = list["resources"].as_array().unwrap();
                let is_this = |found: &&Value| found["name"] == plural && found["kind"] == of.kind;
                assert_eq!(resources.iter().filter(is_this).count(), 1, "{text}");
                let groups = document("/apis", collections).unwrap();
                assert!(of.group.is_empty() || groups.contains(of.group), "{groups}");
                assert_eq!(document(&path, collections), None);
            }
        }
    }
}
