//! The versions of objects that a process has seen, compared with those of the server.
//!
//! ```text
//! notifications, replies ─▶ Seen { object ─▶ version } + Store ─▶ "Foo default/a: seen @12, the server has @15"
//! ```
//!
//! Used for stories only. Objects of resources that the process does not watch are left out, but
//! for those that it has read.

use std::collections::{BTreeMap, BTreeSet};

use kinform_apiserver::Store;
use serde_json::Value;

use super::asked::Asked;

/// BOUND: the lines of a story about one write.
const MOST: usize = 6;

/// The versions that a process has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// `None`: seen to be gone.
    versions: BTreeMap<(String, String), Option<u64>>,
    watched: BTreeSet<String>,
}

impl Seen {
    /// A watch was opened.
    pub(crate) fn opened(&mut self, shelf: &str) {
        if !self.watched.contains(shelf) {
            self.watched.insert(shelf.to_owned());
        }
    }

    /// A notification was delivered; returns it in words, unless it is about no object.
    pub(crate) fn heard(&mut self, shelf: &str, event: &Value) -> Option<String> {
        let kind = event["type"].as_str()?;
        if matches!(kind, "BOOKMARK" | "ERROR") {
            return None;
        }
        let (key, version) = identity(&event["object"])?;
        let words = format!("hears {kind} {shelf} {key} @{version}");
        let state = (kind != "DELETED").then_some(version);
        self.versions.insert((shelf.to_owned(), key), state);
        Some(words)
    }

    /// A reply was delivered: an object or a list.
    pub(crate) fn replied(&mut self, asked: &Asked, reply: &Value) {
        let shelf = asked.shelf.as_str();
        if let Some(items) = reply["items"].as_array() {
            self.opened(shelf);
            for (key, version) in items.iter().filter_map(identity) {
                self.versions.insert((shelf.to_owned(), key), Some(version));
            }
        } else if let Some((key, version)) = identity(reply) {
            self.versions.insert((shelf.to_owned(), key), Some(version));
        }
    }

    /// The differences from the server, in words.
    pub(crate) fn behind(&self, store: &Store) -> Vec<String> {
        let mut words = Vec::new();
        let known = store.shelves();
        for shelf in &known {
            let is_watched = self.watched.contains(&**shelf);
            if !is_watched {
                continue;
            }
            let view = store.view(store.shelf(shelf));
            for object in view.snapshot.iter() {
                let key = object.key();
                let there = object.revision();
                match self.versions.get(&(shelf.to_string(), key.to_owned())) {
                    Some(Some(seen)) if *seen >= there => {}
                    Some(Some(seen)) => words.push(format!(
                        "{shelf} {key}: it had seen @{seen}, the server has @{there}"
                    )),
                    Some(None) => words.push(format!(
                        "{shelf} {key}: it had seen it go, the server has @{there}"
                    )),
                    None => words.push(format!(
                        "{shelf} {key}: it had not seen it, the server has @{there}"
                    )),
                }
            }
            let of_shelf = self.versions.iter().filter(|((of, _), _)| **of == **shelf);
            for ((_, key), seen) in of_shelf {
                if let (Some(seen), None) = (seen, view.snapshot.get(key)) {
                    words.push(format!("{shelf} {key}: it had seen @{seen}, it is gone"));
                }
            }
        }
        words.truncate(MOST);
        words
    }
}

/// The version of an object or a list, or 0.
pub(crate) fn version(of: &Value) -> u64 {
    let version = of["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

/// The key and version of an object.
fn identity(object: &Value) -> Option<(String, u64)> {
    let metadata = object.get("metadata")?;
    let name = metadata["name"].as_str()?;
    let version = metadata["resourceVersion"].as_str()?.parse().ok()?;
    Some(match metadata["namespace"].as_str() {
        Some(namespace) => (format!("{namespace}/{name}"), version),
        None => (name.to_owned(), version),
    })
}
