//! Objects without what differs from run to run: times, uids, versions, addresses, hashes, random names.
//!
//! ```text
//! all changes of a run ─▶ Names ─▶ normal(object): x-59c67766dc-gbs79 → x-HASH1-*
//! ```

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::recording::Change;

/// The names of a run that are not the same in another one.
pub(super) struct Names {
    /// From the longest to the shortest.
    replaced: Vec<(String, String)>,
    patterns: Vec<(Regex, &'static str)>,
}

/// Patterns of what is never the same.
const PATTERNS: [(&str, &str); 10] = [
    (
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "UID",
    ),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\b10\.\d+\.\d+\.\d+\b", "ADDRESS"),
    (r"tick-\d{8}\b", "tick-MINUTES"),
    // Which node a pod gets is as good as chance, if both have room.
    (r"\bnode-[ab]\b", "NODE"),
    ("\"z-[ab]\"", "\"ZONE\""),
    (r"\.[0-9a-f]{16}\b", ".HEX"),
    ("kube-api-access-[a-z0-9]{5}", "kube-api-access-*"),
    // The name of a pod that was refused.
    (r"(HASH\d+)-[a-z0-9]{5}\b", "$1-*"),
    (r#""nodePort":\d+"#, r#""nodePort":0"#),
];

impl Names {
    pub(super) fn of<'a>(changes: impl Iterator<Item = &'a Change>) -> Self {
        let mut hashes: Vec<String> = Vec::new();
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for change in changes {
            let meta = &change.object["metadata"];
            for label in ["pod-template-hash", "controller.kubernetes.io/hash"] {
                if let Some(hash) = meta["labels"][label].as_str()
                    && !hashes.iter().any(|known| known == hash)
                {
                    hashes.push(hash.to_owned());
                }
            }
            // A StatefulSet's pods have the whole name of the revision there.
            if let Some(hash) = meta["labels"]["controller-revision-hash"].as_str()
                && !hash.contains('-')
                && !hashes.iter().any(|known| known == hash)
            {
                hashes.push(hash.to_owned());
            }
            let (name, stem) = (meta["name"].as_str(), meta["generateName"].as_str());
            if let (Some(name), Some(stem)) = (name, stem)
                && let Some(rest) = name.strip_prefix(stem)
                && rest.parse::<u32>().is_err()
            {
                names.insert(name.to_owned(), format!("{stem}*"));
            }
        }
        let mut replaced: Vec<_> = names.into_iter().collect();
        replaced.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let numbered = hashes.into_iter().enumerate();
        replaced.extend(numbered.map(|(at, hash)| (hash, format!("HASH{}", at + 1))));
        let patterns = PATTERNS.map(|(pattern, to)| (Regex::new(pattern).unwrap(), to));
        Self {
            replaced,
            patterns: patterns.into(),
        }
    }

    /// An object as it is compared.
    pub(super) fn normal(&self, change: &Change) -> Value {
        let mut text = change.object.to_string();
        for (name, other) in &self.replaced {
            text = text.replace(name, other);
        }
        for (pattern, to) in &self.patterns {
            text = pattern.replace_all(&text, *to).into_owned();
        }
        let mut object: Value = serde_json::from_str(&text).unwrap();
        strip(&mut object);
        if let Some(bundle) = object.pointer_mut("/data/ca.crt") {
            *bundle = "A CERTIFICATE".into();
        }
        if let Some(token) = object.pointer_mut("/data/token") {
            *token = "TOKEN".into();
        }
        if change.resource == "events" {
            // It is named by its time.
            object["metadata"] = Value::Null;
        }
        object
    }
}

/// Removes what is not compared anywhere.
fn strip(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(members) => {
            for name in ["resourceVersion", "managedFields", "uid"] {
                members.remove(name);
            }
            // The time of the last write, and nothing else.
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(strip);
        }
        _ => {}
    }
}
