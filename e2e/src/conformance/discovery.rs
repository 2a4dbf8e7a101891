//! The documents that a server serves: groups, versions, resources, documents, health, reviews.
//!
//! ```text
//! /api, /apis, /version, /openapi, /healthz ──▶ documents
//! ```
//!
//! Upstream counterpart: `kubernetes:test/e2e/apimachinery` (`discovery.go`,
//! `aggregated_discovery.go`, `openapiv3.go`), `kubernetes:test/e2e/auth`.

use serde_json::{Value, json};

use super::probe::{Failure, Probe, holds, same};
use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    the_core_version_is_named: "e2e: discovery.go",
    groups_have_a_preferred_version: "e2e: discovery.go",
    a_group_is_described: "e2e: discovery.go",
    core_resources_have_their_verbs: "e2e: discovery.go",
    apps_resources_have_their_verbs: "e2e: discovery.go",
    discovery_comes_in_one_piece: "e2e: aggregated_discovery.go",
    discovery_that_has_not_changed_is_not_repeated: "apiserver:pkg/endpoints/discovery/aggregated",
    the_version_is_that_of_a_kubernetes: "apiserver:pkg/server/routes/version.go",
    health_is_ok: "apiserver:pkg/server/healthz",
    openapi_has_an_index: "e2e: openapiv3.go",
    openapi_describes_a_version: "e2e: openapiv3.go",
    the_administrator_may_do_anything: "kubernetes:test/integration/auth",
    who_asks_is_told: "kubernetes:test/integration/auth (SelfSubjectReview)",
    both_versions_of_an_event_are_one: "e2e: events.go",
];

async fn the_core_version_is_named(p: &Probe) -> Result<(), Failure> {
    let versions = p.get("/api").await?.code(200)?;
    p.forget();
    same("the versions", &versions["versions"], &json!(["v1"]))
}

async fn groups_have_a_preferred_version(p: &Probe) -> Result<(), Failure> {
    let list = p.get("/apis").await?.code(200)?;
    p.forget();
    let groups: Vec<_> = list["groups"].as_array().into_iter().flatten().collect();
    for name in [
        "apps",
        "batch",
        "coordination.k8s.io",
        "rbac.authorization.k8s.io",
        "apiextensions.k8s.io",
    ] {
        let group = groups.iter().find(|group| group["name"] == name);
        let preferred = group.map(|group| group["preferredVersion"]["groupVersion"].clone());
        same(name, preferred, Some(json!(format!("{name}/v1"))))?;
    }
    Ok(())
}

async fn a_group_is_described(p: &Probe) -> Result<(), Failure> {
    let group = p.get("/apis/apps").await?.code(200)?;
    same("the kind", group["kind"].as_str(), Some("APIGroup"))
}

fn resource<'a>(list: &'a Value, name: &str) -> &'a Value {
    let mut all = list["resources"].as_array().into_iter().flatten();
    all.find(|resource| resource["name"] == name)
        .unwrap_or(&Value::Null)
}

async fn core_resources_have_their_verbs(p: &Probe) -> Result<(), Failure> {
    let list = p.get("/api/v1").await?.code(200)?;
    p.forget();
    let pods = resource(&list, "pods");
    let verbs = json!([
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch"
    ]);
    same("the verbs", &pods["verbs"], &verbs)?;
    same("the short names", &pods["shortNames"], &json!(["po"]))?;
    let namespaces = &resource(&list, "namespaces")["verbs"];
    let verbs = json!([
        "create", "delete", "get", "list", "patch", "update", "watch"
    ]);
    same("the verbs of namespaces", namespaces, &verbs)?;
    for subresource in [
        "pods/status",
        "pods/log",
        "pods/eviction",
        "pods/binding",
        "namespaces/finalize",
    ] {
        holds(subresource, !resource(&list, subresource).is_null())?;
    }
    Ok(())
}

async fn apps_resources_have_their_verbs(p: &Probe) -> Result<(), Failure> {
    let list = p.get("/apis/apps/v1").await?.code(200)?;
    let scale = resource(&list, "deployments/scale");
    same(
        "the scale",
        (scale["group"].as_str(), scale["kind"].as_str()),
        (Some("autoscaling"), Some("Scale")),
    )
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn discovery_comes_in_one_piece(p: &Probe) -> Result<(), Failure> {
    for (path, group) in [("/api", None), ("/apis", Some("apps"))] {
        let answer = p.get_as(path, AGGREGATED).await?;
        let list = answer.code(200)?;
        same("the type", answer.header("content-type"), AGGREGATED)?;
        let mut items = list["items"].as_array().into_iter().flatten();
        let is_it = |item: &&Value| item["metadata"]["name"].as_str() == group;
        let item = items
            .find(is_it)
            .ok_or_else(|| super::probe::failure("no such group"))?;
        same(
            "fresh",
            item["versions"][0]["freshness"].as_str(),
            Some("Current"),
        )?;
    }
    p.forget();
    Ok(())
}

async fn discovery_that_has_not_changed_is_not_repeated(p: &Probe) -> Result<(), Failure> {
    // Definitions come and go while this row runs: only the core group stays the same.
    let answer = p.get_as("/api", AGGREGATED).await?;
    answer.code(200)?;
    let tag = answer.header("etag").to_owned();
    p.forget();
    holds("it has a tag", !tag.is_empty())?;
    same(
        "the second answer",
        p.unless_it_is(&tag, "/api", AGGREGATED).await?,
        304,
    )
}

async fn the_version_is_that_of_a_kubernetes(p: &Probe) -> Result<(), Failure> {
    let version = p.get("/version").await?.code(200)?;
    p.forget();
    same("major", version["major"].as_str(), Some("1"))?;
    let git = version["gitVersion"].as_str().unwrap_or_default();
    holds(git, git.starts_with("v1."))?;
    for member in [
        "minor",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ] {
        holds(member, version[member].is_string())?;
    }
    Ok(())
}

async fn health_is_ok(p: &Probe) -> Result<(), Failure> {
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = p.get(path).await?;
        answer.code(200)?;
        same(path, &answer.body[..], b"ok")?;
    }
    let verbose = p.get("/readyz?verbose").await?;
    verbose.code(200)?;
    p.forget();
    holds(
        "it lists",
        String::from_utf8_lossy(&verbose.body).contains("[+]ping ok"),
    )
}

async fn openapi_has_an_index(p: &Probe) -> Result<(), Failure> {
    let index = p.get("/openapi/v3").await?.code(200)?;
    p.forget();
    for path in ["api/v1", "apis/apps/v1"] {
        let url = index["paths"][path]["serverRelativeURL"]
            .as_str()
            .unwrap_or_default();
        holds(url, url.starts_with(&format!("/openapi/v3/{path}?hash=")))?;
    }
    Ok(())
}

async fn openapi_describes_a_version(p: &Probe) -> Result<(), Failure> {
    let document = p.get("/openapi/v3/apis/apps/v1").await?.code(200)?;
    p.forget();
    let deployment = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    let kind = &deployment["x-kubernetes-group-version-kind"][0];
    same(
        "the kind",
        kind,
        &json!({"group": "apps", "version": "v1", "kind": "Deployment"}),
    )?;
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let patch = &document["paths"][path]["patch"];
    same(
        "the verb",
        patch["x-kubernetes-action"].as_str(),
        Some("patch"),
    )
}

async fn the_administrator_may_do_anything(p: &Probe) -> Result<(), Failure> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"namespace": "default", "verb": "delete", "resource": "nodes"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let done = p.post(path, &review).await?.code(201)?;
    p.forget();
    same("allowed", done["status"]["allowed"].as_bool(), Some(true))
}

async fn who_asks_is_told(p: &Probe) -> Result<(), Failure> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let done = p.post(path, &review).await?.code(201)?;
    p.forget();
    let groups = done["status"]["userInfo"]["groups"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    holds(
        "in the group",
        groups.contains(&"system:authenticated".into()),
    )
}

async fn both_versions_of_an_event_are_one(p: &Probe) -> Result<(), Failure> {
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": p.namespace, "name": "x"},
        "reason": "Seen", "message": "it was seen", "type": "Normal", "count": 3,
        "source": {"component": "row"}});
    p.post("~/events", &event).await?.code(201)?;
    let other = p.get("~events.k8s.io/v1/events/a").await?.code(200)?;
    same("the note", other["note"].as_str(), Some("it was seen"))?;
    same("about", other["regarding"]["name"].as_str(), Some("x"))?;
    same("the count", other["deprecatedCount"].as_u64(), Some(3))
}
