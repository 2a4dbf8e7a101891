//! Creating: the stored form of an object, and refused objects.
//!
//! ```text
//! POST collection, object ──▶ 201 with uid, version, time | refusal
//! ```
//!
//! Upstream counterpart: `apiserver:pkg/registry/rest/create.go`,
//! `kubernetes:test/integration/apiserver/apidefinitions` (`fields_wiping_test`).

use serde_json::json;

use super::probe::{Failure, Probe, config_map, holds, same, version};
use super::{Row, refusals, rows};

pub(super) const REFUSALS: &[Row] = refusals![
    an_object_without_a_name_is_refused: "apiserver:pkg/registry/rest/create.go";
        "POST" "~/configmaps" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}"#
        => 422 "Invalid" "name or generateName is required",
    a_name_that_is_none_is_refused: "apimachinery:pkg/api/validation";
        "POST" "~/configmaps" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"Not_A_Name"}}"#
        => 422 "Invalid" "RFC 1123 subdomain",
    a_label_that_is_none_is_refused: "apimachinery:pkg/apis/meta/v1/validation";
        "POST" "~/configmaps" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a b":"c"}}}"#
        => 422 "Invalid" "metadata.labels",
    a_label_value_with_a_space_is_refused: "apimachinery:pkg/apis/meta/v1/validation";
        "POST" "~/configmaps" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b c"}}}"#
        => 422 "Invalid" "metadata.labels",
    an_annotation_key_that_is_none_is_refused: "apimachinery:pkg/api/validation";
        "POST" "~/configmaps" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{"a b":"c"}}}"#
        => 422 "Invalid" "metadata.annotations",
    an_owner_without_a_uid_is_refused: "apimachinery:pkg/api/validation";
        "POST" "~/configmaps" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":""}]}}"#
        => 422 "Invalid" "uid",
    two_controllers_of_one_object_are_refused: "apimachinery:pkg/api/validation";
        "POST" "~/configmaps" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1","controller":true},{"apiVersion":"v1","kind":"Pod","name":"q","uid":"2","controller":true}]}}"#
        => 422 "Invalid" "Only one reference can have Controller set to true",
    a_finalizer_without_a_domain_is_refused: "apimachinery:pkg/api/validation";
        "POST" "~/configmaps" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","finalizers":["hold it"]}}"#
        => 422 "Invalid" "metadata.finalizers",
    a_version_on_a_new_object_is_an_error: "apiserver:pkg/storage/etcd3/store.go";
        "POST" "~/configmaps" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"5"}}"#
        => 500 "" "resourceVersion should not be set on objects to be created",
    another_namespace_than_the_paths_is_refused: "apiserver:pkg/registry/rest/meta.go";
        "POST" "~/configmaps" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"elsewhere"}}"#
        => 400 "BadRequest" "does not match the namespace",
    a_namespace_that_is_not_there_is_not_found: "kubernetes: NamespaceLifecycle";
        "POST" "/api/v1/namespaces/nowhere/configmaps" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#
        => 404 "NotFound" "namespaces \"nowhere\" not found",
    a_pod_without_containers_is_refused: "kubernetes:pkg/apis/core/validation";
        "POST" "~/pods" "application/json" r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}}"#
        => 422 "Invalid" "spec.containers: Required value",
    a_deployment_whose_selector_misses_its_pods_is_refused: "kubernetes:pkg/apis/apps/validation";
        "POST" "~apps/v1/deployments" "application/json" r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"c"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#
        => 422 "Invalid" "does not match template",
    a_service_with_a_bad_port_is_refused: "kubernetes:pkg/apis/core/validation";
        "POST" "~/services" "application/json" r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"ports":[{"port":70000}]}}"#
        => 422 "Invalid" "must be between 1 and 65535",
    a_strict_write_with_an_unknown_field_is_refused: "e2e: field_validation.go";
        "POST" "~/configmaps?fieldValidation=Strict" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"wings":2}"#
        => 400 "BadRequest" "unknown field \"wings\"",
    a_strict_write_with_a_field_twice_is_refused: "e2e: field_validation.go";
        "POST" "~/configmaps?fieldValidation=Strict" "application/json" r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b"},"data":{"a":"c"}}"#
        => 400 "BadRequest" "duplicate field \"data\"",
];

pub(super) const ROWS: &[Row] = rows![
    a_new_object_has_what_the_server_gives: "fields_wiping_test",
    what_only_the_server_says_is_not_taken: "fields_wiping_test",
    a_second_of_the_same_name_already_exists: "RunTestCreateWithKeyExist",
    a_generated_name_begins_as_asked: "apiserver:pkg/storage/names",
    a_name_wins_over_a_generated_one: "apiserver:pkg/storage/names",
    a_long_generated_name_is_cut: "apiserver:pkg/storage/names",
    a_namespace_may_be_left_out_of_the_body: "apiserver:pkg/registry/rest/meta.go",
    a_dry_run_stores_nothing: "e2e: dry run; apiserver:pkg/registry/generic/registry",
    status_is_dropped_from_a_new_object: "kubernetes:pkg/registry/apps/deployment/strategy.go",
    unknown_fields_are_dropped_with_a_warning: "e2e: field_validation.go",
    unknown_fields_are_ignored_if_asked: "e2e: field_validation.go",
    quantities_are_written_the_shortest_way: "apimachinery:pkg/api/resource",
    string_data_becomes_data: "kubernetes:pkg/apis/core/v1/conversion.go",
    null_is_as_if_it_were_not_there: "apimachinery:pkg/runtime/serializer/json",
    a_deployment_is_filled_with_defaults: "kubernetes:pkg/apis/apps/v1/defaults.go",
    a_pod_is_filled_with_defaults: "kubernetes:pkg/apis/core/v1/defaults.go",
    a_service_gets_an_address: "kubernetes:pkg/registry/core/service/storage",
    a_namespace_is_active_and_labelled: "kubernetes:pkg/registry/core/namespace/strategy.go",
    a_job_is_filled_with_defaults: "kubernetes:pkg/apis/batch/v1/defaults.go",
];

async fn a_new_object_has_what_the_server_gives(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let metadata = &made["metadata"];
    let uid = metadata["uid"].as_str().unwrap_or_default();
    holds(
        "the uid is random",
        uid.len() == 36 && uid.as_bytes()[14] == b'4',
    )?;
    let time = metadata["creationTimestamp"].as_str().unwrap_or_default();
    holds(
        "the time is in seconds",
        time.len() == 20 && time.ends_with('Z'),
    )?;
    same(
        "the namespace",
        metadata["namespace"].as_str(),
        Some(&*p.namespace),
    )?;
    same("the kind", made["kind"].as_str(), Some("ConfigMap"))
}

async fn what_only_the_server_says_is_not_taken(p: &Probe) -> Result<(), Failure> {
    let mut map = config_map("a", "1");
    map["metadata"]["uid"] = "mine".into();
    map["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    map["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z".into();
    map["metadata"]["deletionGracePeriodSeconds"] = 5.into();
    map["metadata"]["selfLink"] = "/mine".into();
    let made = p.post("~/configmaps", &map).await?.code(201)?;
    let metadata = &made["metadata"];
    holds("another uid", metadata["uid"] != "mine")?;
    holds(
        "another time",
        metadata["creationTimestamp"] != "2001-01-01T00:00:00Z",
    )?;
    for gone in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        holds(gone, metadata[gone].is_null())?;
    }
    Ok(())
}

async fn a_second_of_the_same_name_already_exists(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let again = p.post("~/configmaps", &config_map("a", "2")).await?;
    again.says(409, "AlreadyExists", "configmaps \"a\" already exists")?;
    Ok(())
}

async fn a_generated_name_begins_as_asked(p: &Probe) -> Result<(), Failure> {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}});
    let made = p.post("~/configmaps", &map).await?.code(201)?;
    p.forget();
    let name = made["metadata"]["name"].as_str().unwrap_or_default();
    let rest = name.strip_prefix("made-").unwrap_or_default();
    let allowed = |c: char| "bcdfghjklmnpqrstvwxz2456789".contains(c);
    holds(name, rest.len() == 5 && rest.chars().all(allowed))?;
    same(
        "what was asked",
        made["metadata"]["generateName"].as_str(),
        Some("made-"),
    )
}

async fn a_name_wins_over_a_generated_one(p: &Probe) -> Result<(), Failure> {
    let mut map = config_map("a", "1");
    map["metadata"]["generateName"] = "made-".into();
    let made = p.post("~/configmaps", &map).await?.code(201)?;
    same("the name", made["metadata"]["name"].as_str(), Some("a"))
}

async fn a_long_generated_name_is_cut(p: &Probe) -> Result<(), Failure> {
    let long = "n".repeat(80);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": long}});
    let made = p.post("~/configmaps", &map).await?.code(201)?;
    p.forget();
    same(
        "the length",
        made["metadata"]["name"].as_str().map(str::len),
        Some(63),
    )
}

async fn a_namespace_may_be_left_out_of_the_body(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    same(
        "the namespace",
        made["metadata"]["namespace"].as_str(),
        Some(&*p.namespace),
    )
}

async fn a_dry_run_stores_nothing(p: &Probe) -> Result<(), Failure> {
    let made = p
        .post("~/configmaps?dryRun=All", &config_map("a", "1"))
        .await?
        .code(201)?;
    holds("it has a uid", made["metadata"]["uid"].is_string())?;
    holds(
        "it has no version",
        made["metadata"]["resourceVersion"].is_null(),
    )?;
    p.get("~/configmaps/a").await?.refused(404, "NotFound")?;
    Ok(())
}

async fn status_is_dropped_from_a_new_object(p: &Probe) -> Result<(), Failure> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.9"}});
    let made = p.post("~/pods", &pod).await?.code(201)?;
    same(
        "the phase",
        made["status"]["phase"].as_str(),
        Some("Pending"),
    )?;
    holds("no address", made["status"]["podIP"].is_null())
}

async fn unknown_fields_are_dropped_with_a_warning(p: &Probe) -> Result<(), Failure> {
    let mut map = config_map("a", "1");
    map["wings"] = 2.into();
    let answer = p.post("~/configmaps", &map).await?;
    let made = answer.code(201)?;
    holds("it is dropped", made["wings"].is_null())?;
    same(
        "the warning",
        answer.header("warning"),
        "299 - \"unknown field \\\"wings\\\"\"",
    )
}

async fn unknown_fields_are_ignored_if_asked(p: &Probe) -> Result<(), Failure> {
    let mut map = config_map("a", "1");
    map["wings"] = 2.into();
    let answer = p.post("~/configmaps?fieldValidation=Ignore", &map).await?;
    answer.code(201)?;
    same("the warning", answer.header("warning"), "")
}

async fn quantities_are_written_the_shortest_way(p: &Probe) -> Result<(), Failure> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000m", "memory": "1024Ki"},
            "limits": {"cpu": "1.5", "memory": "1Gi"}}}]}});
    let made = p.post("~/pods", &pod).await?.code(201)?;
    let wanted = json!({"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "1500m", "memory": "1Gi"}});
    same(
        "the resources",
        &made["spec"]["containers"][0]["resources"],
        &wanted,
    )
}

async fn string_data_becomes_data(p: &Probe) -> Result<(), Failure> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"k": "v"}});
    let made = p.post("~/secrets", &secret).await?.code(201)?;
    same("the data", &made["data"], &json!({"k": "dg=="}))?;
    holds("it is gone", made["stringData"].is_null())?;
    same("the type", made["type"].as_str(), Some("Opaque"))
}

async fn null_is_as_if_it_were_not_there(p: &Probe) -> Result<(), Failure> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": null}, "data": null});
    let made = p.post("~/configmaps", &map).await?.code(201)?;
    holds(
        "no data",
        made.get("data").is_none() && made["metadata"].get("labels").is_none(),
    )
}

fn template() -> serde_json::Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:v1"}]}})
}

async fn a_deployment_is_filled_with_defaults(p: &Probe) -> Result<(), Failure> {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template()}});
    let made = p
        .post("~apps/v1/deployments", &deployment)
        .await?
        .code(201)?;
    let spec = &made["spec"];
    same("replicas", spec["replicas"].as_u64(), Some(1))?;
    same(
        "strategy",
        spec["strategy"]["rollingUpdate"]["maxSurge"].as_str(),
        Some("25%"),
    )?;
    same(
        "generation",
        made["metadata"]["generation"].as_u64(),
        Some(1),
    )
}

async fn a_pod_is_filled_with_defaults(p: &Probe) -> Result<(), Failure> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
            "livenessProbe": {"httpGet": {"port": 80}}}],
        "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}]}});
    let made = p.post("~/pods", &pod).await?.code(201)?;
    let container = &made["spec"]["containers"][0];
    same(
        "the pull policy",
        container["imagePullPolicy"].as_str(),
        Some("Always"),
    )?;
    same(
        "the path",
        container["livenessProbe"]["httpGet"]["path"].as_str(),
        Some("/"),
    )?;
    same(
        "the mode",
        made["spec"]["volumes"][1]["secret"]["defaultMode"].as_u64(),
        Some(420),
    )
}

async fn a_service_gets_an_address(p: &Probe) -> Result<(), Failure> {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}});
    let made = p.post("~/services", &service).await?.code(201)?;
    holds("an address", made["spec"]["clusterIP"].is_string())?;
    same(
        "the target",
        made["spec"]["ports"][0]["targetPort"].as_u64(),
        Some(80),
    )?;
    same("the type", made["spec"]["type"].as_str(), Some("ClusterIP"))
}

async fn a_namespace_is_active_and_labelled(p: &Probe) -> Result<(), Failure> {
    let name = format!("{}-x", p.namespace);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let made = p.post("/api/v1/namespaces", &namespace).await?.code(201)?;
    same(
        "the phase",
        made["status"]["phase"].as_str(),
        Some("Active"),
    )?;
    let label = &made["metadata"]["labels"]["kubernetes.io/metadata.name"];
    same("the label", label.as_str(), Some(&*name))?;
    same(
        "the finalizer",
        &made["spec"]["finalizers"],
        &json!(["kubernetes"]),
    )?;
    holds("a version", version(&made) > 0)
}

async fn a_job_is_filled_with_defaults(p: &Probe) -> Result<(), Failure> {
    let mut template = template();
    template["spec"]["restartPolicy"] = "Never".into();
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": template}});
    let made = p.post("~batch/v1/jobs", &job).await?.code(201)?;
    same("the limit", made["spec"]["backoffLimit"].as_u64(), Some(6))?;
    let label = &made["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"];
    same("the label", label.as_str(), Some("a"))
}
