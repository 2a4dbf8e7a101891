//! The last comparison: every cache is what the server has, and every parent has its child.
//!
//! ```text
//! list of the server as JSON ─┬─▶ keys, uids, versions, bytes = cache   ──▶ differences, a line each
//!                             └─▶ model of each handler
//! ```
//!
//! The list is read as plain JSON by a request of its own. It is compared again until it is equal or
//! the time is over: handlers and controllers may still be on their way.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::{Informer, ObjectKey};
use kinform_testkit::checks::event_model::Truth;
use kube_client::Client;
use serde_json::Value;

use super::child;
use super::views::View;
use crate::Failure;

/// BOUND: differences that are named of one cache.
const NAMED: usize = 3;
/// The time between two comparisons.
const AGAIN: Duration = Duration::from_secs(1);

/// The caches to compare, and the way to the server.
pub(super) struct Compared<'a> {
    pub(super) client: Client,
    pub(super) views: &'a [View],
    pub(super) parents: &'a Informer<ConfigMap>,
    pub(super) children: &'a Informer<Secret>,
}

impl Compared<'_> {
    /// The differences that are left after `limit`.
    pub(super) async fn differences(&self, limit: Duration) -> Vec<String> {
        let deadline = Instant::now() + limit;
        loop {
            let found = match self.once().await {
                Ok(found) => found,
                Err(error) => vec![format!("the server's lists cannot be read: {error}")],
            };
            if found.is_empty() || Instant::now() >= deadline {
                return found;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn once(&self) -> Result<Vec<String>, Failure> {
        let mut lines = Vec::new();
        for view in self.views {
            let request = Request::get(view.path)
                .header("accept", "application/json")
                .body(Vec::new())?;
            let list: Value = self.client.request(request).await?;
            let truth = Truth::of_list(&list).ok_or("the reply is not a list")?;
            for checker in &view.checkers {
                let equal = checker.converged(&truth, AGAIN).await;
                lines.extend(equal.err().map(|error| error.to_string()));
            }
            let (listed, cached) = (items(list), cached(view)?);
            let found = different(&listed, &cached);
            lines.extend(found.map(|line| format!("{}: {line}", view.name)));
        }
        lines.extend(self.children()?);
        Ok(lines)
    }

    /// Parents without their child, and children without a parent.
    fn children(&self) -> Result<Vec<String>, Failure> {
        let mut expected = BTreeMap::new();
        for parent in &self.parents.store().list() {
            let key = ObjectKey::new(parent.namespace(), &child::name(parent.name()));
            expected.insert(key.to_string(), child::number(&*parent.typed()?));
        }
        let mut found = BTreeMap::new();
        for secret in &self.children.store().list() {
            let typed = secret.typed()?;
            let number = typed.data.as_ref().and_then(|data| data.get(child::NUMBER));
            let number = number.map_or_else(Vec::new, |number| number.0.clone());
            found.insert(secret.key().to_string(), number);
        }
        let lines = different(&expected, &found);
        Ok(lines.map(|line| format!("children: {line}")).collect())
    }
}

/// The first differences of two maps, a line each.
fn different<'a, V: PartialEq>(
    expected: &'a BTreeMap<String, V>,
    found: &'a BTreeMap<String, V>,
) -> impl Iterator<Item = String> + use<'a, V> {
    let missing = expected
        .iter()
        .filter_map(|(key, value)| match found.get(key) {
            None => Some(format!("{key} is missing")),
            Some(other) if other != value => Some(format!("{key} is different")),
            Some(_) => None,
        });
    let extra = found.keys().filter(|key| !expected.contains_key(*key));
    let extra = extra.map(|key| format!("{key} should be gone"));
    missing.chain(extra).take(NAMED)
}

/// The objects of a list by their keys.
fn items(mut list: Value) -> BTreeMap<String, Value> {
    let items = list["items"].as_array_mut().map(std::mem::take);
    let items = items.unwrap_or_default().into_iter().map(plain);
    items.map(|item| (key(&item), item)).collect()
}

/// The objects of a cache by their keys.
fn cached(view: &View) -> Result<BTreeMap<String, Value>, Failure> {
    let mut found = BTreeMap::new();
    for object in &view.informer.store().list() {
        let item = plain(serde_json::from_slice(&object.to_json())?);
        found.insert(key(&item), item);
    }
    Ok(found)
}

/// An object without the fields that a list or a cache leaves out.
fn plain(mut object: Value) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.remove("apiVersion");
        object.remove("kind");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

fn key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_missing_different_and_extra_objects() {
        let map = |entries: &[(&str, u32)]| {
            let entries = entries
                .iter()
                .map(|(key, value)| ((*key).to_owned(), *value));
            entries.collect::<BTreeMap<String, u32>>()
        };
        let expected = map(&[("a", 1), ("b", 2), ("c", 3)]);
        for (found, lines) in [
            (map(&[("a", 1), ("b", 2), ("c", 3)]), &[][..]),
            (map(&[("a", 1), ("b", 4), ("c", 3)]), &["b is different"]),
            (
                map(&[("a", 1), ("b", 2), ("d", 3)]),
                &["c is missing", "d should be gone"],
            ),
            (map(&[]), &["a is missing", "b is missing", "c is missing"]),
        ] {
            let compared: Vec<_> = different(&expected, &found).collect();
            assert_eq!(compared, lines);
        }
    }

    #[test]
    fn what_lists_and_caches_leave_out_is_no_difference() {
        let listed = serde_json::json!({"items": [
            {"metadata": {"namespace": "n", "name": "a", "managedFields": []}, "data": {"x": "1"}},
        ]});
        let cached = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "n", "name": "a"}, "data": {"x": "1"},
        });
        let listed = items(listed);
        assert_eq!(listed.get("n/a"), Some(&plain(cached)));
    }
}
