//! Warnings to clients: deprecated resources, and deletions that leave dependents behind.
//!
//! ```text
//! any request for it ──▶ Warning: 299 - "what will go, and what there is instead"
//! ```
//!
//! Upstream counterpart: `apiserver:pkg/endpoints/deprecation`,
//! `apiserver:pkg/endpoints/installer.go`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::probe::{Answer, Failure, Probe, same};
use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    every_request_for_endpoints_is_warned_of: "TestAPIDeprecationWarnings",
    of_what_is_served_these_are_deprecated: "apiserver:pkg/endpoints/deprecation",
    a_job_deleted_without_a_word_leaves_its_pods: "pkg/registry/batch/job/strategy.go",
];

const ENDPOINTS: &str =
    r#"299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice""#;
const COMPONENTS: &str = r#"299 - "v1 ComponentStatus is deprecated in v1.19+""#;
const JOBS: &str = "299 - \"child pods are preserved by default when jobs are deleted; set \
                    propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress \
                    this warning\"";

fn warned(what: &str, answer: &Answer, wanted: &str) -> Result<(), Failure> {
    same(what, answer.header("warning"), wanted)
}

async fn every_request_for_endpoints_is_warned_of(p: &Probe) -> Result<(), Failure> {
    let object = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"}});
    warned(
        "a create",
        &p.post("~/endpoints", &object).await?,
        ENDPOINTS,
    )?;
    let again = p.post("~/endpoints", &object).await?;
    warned("a create of what is there", &again, ENDPOINTS)?;
    warned("a list", &p.get("~/endpoints").await?, ENDPOINTS)?;
    warned("a get", &p.get("~/endpoints/a").await?, ENDPOINTS)?;
    warned(
        "a get of nothing",
        &p.get("~/endpoints/b").await?,
        ENDPOINTS,
    )?;
    warned(
        "an update",
        &p.put("~/endpoints/a", &object).await?,
        ENDPOINTS,
    )?;
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    let patched = p.merge("~/endpoints/a", &change).await?;
    warned("a patch", &patched, ENDPOINTS)?;
    let watch = p.watch("~/endpoints?watch=1").await?;
    let said = watch
        .headers
        .get("warning")
        .and_then(|said| said.to_str().ok());
    same("a watch", said, Some(ENDPOINTS))?;
    warned("a delete", &p.delete("~/endpoints/a").await?, ENDPOINTS)?;
    warned("a collection", &p.delete("~/endpoints").await?, ENDPOINTS)?;
    p.forget();
    Ok(())
}

async fn of_what_is_served_these_are_deprecated(p: &Probe) -> Result<(), Failure> {
    let groups = p.get("/apis").await?.code(200)?;
    let mut paths = vec!["/api/v1".to_owned()];
    let versions = groups["groups"].as_array().into_iter().flatten();
    let versions = versions.flat_map(|group| group["versions"].as_array().into_iter().flatten());
    // Other rows' definitions come and go.
    let built_in = versions
        .filter_map(|version| version["groupVersion"].as_str())
        .filter(|version| !version.contains("example.com"));
    paths.extend(built_in.map(|version| format!("/apis/{version}")));
    let mut said = BTreeMap::new();
    for path in paths {
        let list = p.get(&path).await?.code(200)?;
        for resource in list["resources"].as_array().into_iter().flatten() {
            let can_list = resource["verbs"]
                .as_array()
                .is_some_and(|verbs| verbs.contains(&Value::from("list")));
            let name = resource["name"].as_str().unwrap_or_default();
            let answer = match can_list {
                true => p.get(&format!("{path}/{name}?limit=1")).await?,
                false => continue,
            };
            if !answer.header("warning").is_empty() {
                said.insert(name.to_owned(), answer.header("warning").to_owned());
            }
        }
    }
    p.forget();
    let wanted = [("componentstatuses", COMPONENTS), ("endpoints", ENDPOINTS)];
    let wanted = wanted.map(|(name, words)| (name.to_owned(), words.to_owned()));
    same("what is deprecated", said, BTreeMap::from(wanted))
}

async fn a_job_deleted_without_a_word_leaves_its_pods(p: &Probe) -> Result<(), Failure> {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template":
        {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    p.post("~batch/v1/jobs", &job).await?.code(201)?;
    let path = "~batch/v1/jobs/a?propagationPolicy=Background&dryRun=All";
    warned("a delete that says it", &p.delete(path).await?, "")?;
    let path = "~batch/v1/jobs/a?orphanDependents=true&dryRun=All";
    warned("a delete in old words", &p.delete(path).await?, "")?;
    let options = json!({"gracePeriodSeconds": 0, "dryRun": ["All"]});
    let said = p.delete_by("~batch/v1/jobs/a", &options).await?;
    warned("a delete by other options", &said, JOBS)?;
    warned("a delete", &p.delete("~batch/v1/jobs/a").await?, JOBS)?;
    warned(
        "a delete of nothing",
        &p.delete("~batch/v1/jobs/b").await?,
        JOBS,
    )?;
    warned("a collection", &p.delete("~batch/v1/jobs").await?, JOBS)?;
    // Whether pods delay the deletion does not matter here.
    p.forget();
    Ok(())
}
