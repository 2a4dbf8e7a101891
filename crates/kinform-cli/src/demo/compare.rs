//! The demo's proof: compares a cache with the server.
//!
//! ```text
//! cache: key → (uid, version)     server: a full list      → [Difference]
//! ```
//!
//! The list is read with kube's client and serde_json, without any code of kinform, so that cache
//! and proof cannot share a mistake.

use std::collections::BTreeMap;
use std::fmt;

use kube_client::Client;
use serde::Deserialize;

/// The identity of one state of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
}

/// States by `namespace/name`.
pub(crate) type Picture = BTreeMap<String, State>;

/// One key whose state differs between cache and server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    key: String,
    cached: Option<State>,
    served: Option<State>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |state: &Option<State>| match state {
            Some(state) => format!("version {} of {}", state.resource_version, state.uid),
            None => "nothing".to_owned(),
        };
        write!(
            f,
            "{}: cache has {}, server has {}",
            self.key,
            side(&self.cached),
            side(&self.served)
        )
    }
}

/// The keys whose states differ.
pub(crate) fn differences(cached: &Picture, served: &Picture) -> Vec<Difference> {
    let mut keys: Vec<&String> = cached.keys().chain(served.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter()
        .filter(|key| cached.get(*key) != served.get(*key))
        .map(|key| Difference {
            key: key.clone(),
            cached: cached.get(key).cloned(),
            served: served.get(key).cloned(),
        })
        .collect()
}

#[derive(Debug, Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: Option<String>,
    name: String,
    uid: String,
    resource_version: String,
}

/// The objects that the server has at `path`, in one consistent list.
///
/// # Errors
/// As kube's client.
pub(crate) async fn served(client: &Client, path: &str) -> Result<Picture, kube_client::Error> {
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(kube_client::Error::HttpError)?;
    let list: List = client.request(request).await?;
    Ok(list
        .items
        .into_iter()
        .map(|Item { metadata }| {
            let key = match metadata.namespace {
                Some(namespace) => format!("{namespace}/{}", metadata.name),
                None => metadata.name,
            };
            (
                key,
                State {
                    uid: metadata.uid,
                    resource_version: metadata.resource_version,
                },
            )
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(states: &[(&str, &str, &str)]) -> Picture {
        states
            .iter()
            .map(|(key, uid, version)| {
                let state = State {
                    uid: (*uid).to_owned(),
                    resource_version: (*version).to_owned(),
                };
                ((*key).to_owned(), state)
            })
            .collect()
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let cached = picture(&[
            ("a", "1", "5"),
            ("b", "2", "6"),
            ("c", "3", "7"),
            ("ghost", "4", "8"),
        ]);
        let served = picture(&[
            ("a", "1", "5"),
            ("b", "2", "9"),
            ("c", "x", "7"),
            ("missed", "6", "10"),
        ]);
        let found: Vec<String> = differences(&cached, &served)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "b: cache has version 6 of 2, server has version 9 of 2",
                "c: cache has version 7 of 3, server has version 7 of x",
                "ghost: cache has version 8 of 4, server has nothing",
                "missed: cache has nothing, server has version 10 of 6",
            ]
        );
        assert_eq!(differences(&cached, &cached), []);
    }
}
