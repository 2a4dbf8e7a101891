//! Selectors on watches: objects that begin or cease to match.
//!
//! ```text
//! matched before, matches now ──▶ ADDED | MODIFIED | DELETED (as it was last) | nothing
//! ```
//!
//! Upstream counterpart: `kubernetes:test/e2e/apimachinery/watch.go`,
//! `apiserver:pkg/storage/cacher` (`TestCacheWatcherHandlesFiltering`).

use serde_json::json;

use super::probe::{Failure, Probe, config_map, holds, same, version};
use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    watches_of_different_labels_see_exactly_theirs: "e2e: watch.go, multiple watchers",
    a_changed_label_leaves_and_comes_back: "e2e: watch.go, label value changed",
    what_leaves_is_told_as_it_was_last_seen: "TestCacheWatcherHandlesFiltering",
    what_never_matched_is_never_told: "TestCacheWatcherHandlesFiltering",
    a_deletion_of_what_had_left_is_not_told: "TestCacheWatcherHandlesFiltering",
    a_changed_field_leaves_the_selector: "RunTestWatch",
    a_resumed_watch_with_a_selector_tells_what_left_meanwhile: "TestCachingDeleteEvents",
    the_namespace_in_the_path_selects: "RunTestNamespaceScopedWatch",
];

async fn watches_of_different_labels_see_exactly_theirs(p: &Probe) -> Result<(), Failure> {
    let start = p.map("start", "1").await?;
    let at = version(&start);
    let path = |selector: &str| {
        format!("~/configmaps?watch=1&resourceVersion={at}&labelSelector={selector}")
    };
    let mut a = p.watch(&path("w%3DA")).await?;
    let mut b = p.watch(&path("w%3DB")).await?;
    let mut both = p.watch(&path("w%20in%20(A,B)")).await?;
    for label in ["A", "B"] {
        let name = label.to_lowercase();
        let mut map = config_map(&name, "1");
        map["metadata"]["labels"]["w"] = label.into();
        p.post("~/configmaps", &map).await?.code(201)?;
    }
    p.merge("~/configmaps/a", &json!({"data": {"k": "2"}}))
        .await?
        .code(200)?;
    p.delete("~/configmaps/b").await?.code(200)?;
    a.sees("ADDED", "a").await?;
    a.sees("MODIFIED", "a").await?;
    b.sees("ADDED", "b").await?;
    b.sees("DELETED", "b").await?;
    both.sees("ADDED", "a").await?;
    both.sees("ADDED", "b").await?;
    both.sees("MODIFIED", "a").await?;
    both.sees("DELETED", "b").await?;
    a.is_quiet().await
}

async fn a_changed_label_leaves_and_comes_back(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let at = version(&made);
    let path = format!("~/configmaps?watch=1&resourceVersion={at}&labelSelector=of%3Drow");
    let mut watch = p.watch(&path).await?;
    let label = |value: &str, data: &str| json!({"metadata": {"labels": {"of": value}}, "data": {"k": data}});
    p.merge("~/configmaps/a", &label("row", "2"))
        .await?
        .code(200)?;
    let left = p
        .merge("~/configmaps/a", &label("other", "3"))
        .await?
        .code(200)?;
    p.merge("~/configmaps/a", &label("other", "4"))
        .await?
        .code(200)?;
    p.merge("~/configmaps/a", &label("row", "5"))
        .await?
        .code(200)?;
    p.merge("~/configmaps/a", &label("row", "6"))
        .await?
        .code(200)?;
    p.delete("~/configmaps/a").await?.code(200)?;
    watch.sees("MODIFIED", "a").await?;
    let gone = watch.sees("DELETED", "a").await?;
    same("the version", version(&gone), version(&left))?;
    let back = watch.sees("ADDED", "a").await?;
    same("the data", back["data"]["k"].as_str(), Some("5"))?;
    watch.sees("MODIFIED", "a").await?;
    watch.sees("DELETED", "a").await?;
    Ok(())
}

async fn what_leaves_is_told_as_it_was_last_seen(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "old").await?;
    let at = version(&made);
    let path = format!("~/configmaps?watch=1&resourceVersion={at}&labelSelector=of%3Drow");
    let mut watch = p.watch(&path).await?;
    let patch = json!({"metadata": {"labels": {"of": "other"}}, "data": {"k": "new"}});
    let left = p.merge("~/configmaps/a", &patch).await?.code(200)?;
    let gone = watch.sees("DELETED", "a").await?;
    same("the data", gone["data"]["k"].as_str(), Some("old"))?;
    same(
        "the label",
        gone["metadata"]["labels"]["of"].as_str(),
        Some("row"),
    )?;
    same("the version", version(&gone), version(&left))
}

async fn what_never_matched_is_never_told(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let at = version(&made);
    let path = format!("~/configmaps?watch=1&resourceVersion={at}&labelSelector=of%3Dnobody");
    let mut watch = p.watch(&path).await?;
    p.merge("~/configmaps/a", &json!({"data": {"k": "2"}}))
        .await?
        .code(200)?;
    p.delete("~/configmaps/a").await?.code(200)?;
    watch.is_quiet().await
}

async fn a_deletion_of_what_had_left_is_not_told(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let at = version(&made);
    let path = format!("~/configmaps?watch=1&resourceVersion={at}&labelSelector=of%3Drow");
    let mut watch = p.watch(&path).await?;
    p.merge("~/configmaps/a", &json!({"metadata": {"labels": null}}))
        .await?
        .code(200)?;
    watch.sees("DELETED", "a").await?;
    p.delete("~/configmaps/a").await?.code(200)?;
    watch.is_quiet().await
}

async fn a_changed_field_leaves_the_selector(p: &Probe) -> Result<(), Failure> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = p.post("~/pods", &pod).await?.code(201)?;
    let at = version(&made);
    let path = format!("~/pods?watch=1&resourceVersion={at}&fieldSelector=status.phase%3DPending");
    let mut watch = p.watch(&path).await?;
    let status = json!({"status": {"phase": "Running"}});
    let running = p.merge("~/pods/a/status", &status).await?.code(200)?;
    let gone = watch.sees("DELETED", "a").await?;
    same(
        "the phase",
        gone["status"]["phase"].as_str(),
        Some("Pending"),
    )?;
    same("the version", version(&gone), version(&running))
}

async fn a_resumed_watch_with_a_selector_tells_what_left_meanwhile(
    p: &Probe,
) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    p.map("b", "1").await?;
    p.merge(
        "~/configmaps/a",
        &json!({"metadata": {"labels": {"of": "other"}}}),
    )
    .await?
    .code(200)?;
    p.delete("~/configmaps/b").await?.code(200)?;
    let at = version(&made);
    let path = format!("~/configmaps?watch=1&resourceVersion={at}&labelSelector=of%3Drow");
    let mut watch = p.watch(&path).await?;
    watch.sees("ADDED", "b").await?;
    watch.sees("DELETED", "a").await?;
    watch.sees("DELETED", "b").await?;
    Ok(())
}

async fn the_namespace_in_the_path_selects(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let at = version(&made);
    let mut watch = p
        .watch(&format!("~/configmaps?watch=1&resourceVersion={at}"))
        .await?;
    let elsewhere = config_map(&p.namespace, "1");
    p.post("/api/v1/namespaces/default/configmaps", &elsewhere)
        .await?
        .code(201)?;
    let made = p.map("b", "1").await?;
    let seen = watch.sees("ADDED", "b").await?;
    holds("it is mine", version(&seen) == version(&made))
}
