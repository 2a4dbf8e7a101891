//! Expired history: lists and watches of versions that the server has forgotten.
//!
//! ```text
//! compact ──▶ 410 with or without a token to go on ──▶ an inconsistent list
//! ```
//!
//! Forgetting affects every row, so these rows run last, one after the other. They ask for events:
//! a real server keeps no cache of them, and compaction shows in no other resource.
//!
//! Upstream counterpart: `kubernetes:test/e2e/apimachinery/chunking.go`,
//! `apiserver:pkg/storage/etcd3`.

use serde_json::{Value, json};

use super::probe::{Failure, Probe, holds, names, same, version};
use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    a_token_of_a_forgotten_version_brings_another: "e2e: chunking.go, after compaction",
    a_list_at_a_forgotten_version_is_refused: "RunTestListInconsistentContinuation",
    a_watch_from_a_forgotten_version_is_told_so: "RunTestWatchError",
    an_open_watch_goes_on_after_history_is_forgotten: "apiserver:pkg/storage/cacher",
];

async fn events(p: &Probe, count: usize) -> Result<Vec<Value>, Failure> {
    let mut made = Vec::new();
    for number in 0..count {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e-{number}")},
            "involvedObject": {"namespace": p.namespace, "name": "x"}});
        made.push(p.post("~/events", &event).await?.code(201)?);
    }
    p.forget();
    Ok(made)
}

/// Makes the server forget everything before this moment.
async fn forget_all(p: &Probe) -> Result<(), Failure> {
    let last = events_end(p).await?;
    p.compact(last).await?;
    p.forget();
    Ok(())
}

/// The version of a write that was just made.
async fn events_end(p: &Probe) -> Result<u64, Failure> {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "end-"}});
    let made = p.post("~/configmaps", &map).await?.code(201)?;
    Ok(version(&made))
}

async fn a_token_of_a_forgotten_version_brings_another(p: &Probe) -> Result<(), Failure> {
    events(p, 4).await?;
    let first = p.get("~/events?limit=2").await?.code(200)?;
    let token = first["metadata"]["continue"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    forget_all(p).await?;
    let gone = p.get(&format!("~/events?limit=2&continue={token}")).await?;
    let status = gone.says(410, "Expired", "The provided continue parameter is too old")?;
    let fresh = status["metadata"]["continue"].as_str().unwrap_or_default();
    let rest = p
        .get(&format!("~/events?limit=2&continue={fresh}"))
        .await?
        .code(200)?;
    same("the names", names(&rest), ["e-2", "e-3"])?;
    holds("it is of now", version(&rest) > version(&first))
}

async fn a_list_at_a_forgotten_version_is_refused(p: &Probe) -> Result<(), Failure> {
    let made = events(p, 2).await?;
    forget_all(p).await?;
    let at = version(&made[0]);
    let path = format!("~/events?resourceVersion={at}&resourceVersionMatch=Exact");
    let words = "The resourceVersion for the provided list is too old.";
    p.get(&path).await?.says(410, "Expired", words)?;
    Ok(())
}

async fn a_watch_from_a_forgotten_version_is_told_so(p: &Probe) -> Result<(), Failure> {
    let made = events(p, 2).await?;
    forget_all(p).await?;
    let at = version(&made[0]);
    let mut watch = p
        .watch(&format!("~/events?watch=1&resourceVersion={at}"))
        .await?;
    let event = watch.any().await?;
    same("the event", event["type"].as_str(), Some("ERROR"))?;
    same("the code", event["object"]["code"].as_u64(), Some(410))?;
    watch.ends().await
}

async fn an_open_watch_goes_on_after_history_is_forgotten(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let at = version(&made);
    let mut watch = p
        .watch(&format!(
            "~/configmaps?watch=1&resourceVersion={at}&labelSelector=of"
        ))
        .await?;
    forget_all(p).await?;
    p.map("b", "1").await?;
    watch.sees("ADDED", "b").await?;
    Ok(())
}
