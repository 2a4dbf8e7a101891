//! Custom resources: from the definition to its end.
//!
//! ```text
//! CustomResourceDefinition ──▶ served ──▶ objects: defaulted, pruned, validated ──▶ gone
//! ```
//!
//! Each row has a group of its own, so that they can run side by side.
//!
//! Upstream counterpart: `kubernetes:test/e2e/apimachinery` (`custom_resource_definition.go`,
//! `crd_watch.go`, `crd_selectable_fields.go`), `apiextensions-apiserver:test/integration`.

use std::time::Duration;

use serde_json::{Value, json};

use super::probe::{Failure, Probe, Question, failure, holds, names, same, version};
use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    a_definition_is_established_and_served: "e2e: custom_resource_definition.go",
    a_definition_with_a_wrong_name_is_refused: "apiextensions-apiserver:pkg/apis/apiextensions/validation",
    a_definition_without_a_schema_is_refused: "apiextensions-apiserver:pkg/apis/apiextensions/validation",
    a_definition_with_two_storage_versions_is_refused: "apiextensions-apiserver:pkg/apis/apiextensions/validation",
    items_of_custom_resources_have_a_kind: "apiserver:pkg/endpoints/handlers/response.go",
    unknown_fields_of_custom_resources_are_pruned: "apiextensions-apiserver:test/integration/pruning_test.go",
    custom_resources_are_defaulted: "e2e: custom_resource_definition.go, defaulting",
    custom_resources_are_validated: "apiextensions-apiserver:test/integration/validation_test.go",
    custom_resources_obey_their_rules: "apiextensions-apiserver:test/integration (CEL)",
    a_custom_update_must_have_a_version: "apiextensions-apiserver:pkg/registry/customresource",
    a_custom_status_is_split: "apiextensions-apiserver:test/integration/subresources_test.go",
    a_custom_scale_is_served: "apiextensions-apiserver:test/integration/subresources_test.go",
    without_a_status_subresource_there_is_none: "apiextensions-apiserver:test/integration/subresources_test.go",
    a_strategic_merge_of_a_custom_resource_is_refused: "apiextensions-apiserver:pkg/apiserver",
    protobuf_alone_of_a_custom_resource_is_refused: "apiextensions-apiserver:pkg/apiserver",
    fields_are_selectable_as_defined: "e2e: crd_selectable_fields.go",
    unknown_fields_of_custom_resources_are_not_selectable: "e2e: crd_selectable_fields.go",
    columns_are_as_defined: "apiextensions-apiserver:test/integration/table_test.go",
    versions_show_the_same_objects: "apiextensions-apiserver:test/integration/versioning_test.go",
    a_deleted_definition_deletes_its_objects: "e2e: crd_watch.go",
    a_custom_watch_tells_of_changes: "e2e: crd_watch.go",
    a_custom_resource_is_applied: "test/integration/apiserver/apply",
    large_numbers_survive: "apiextensions-apiserver:test/integration",
    discovery_shows_the_custom_resource: "e2e: custom_resource_definition.go",
];

fn schema() -> Value {
    json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            "x-kubernetes-validations": [{"rule": "self.size != 13", "message": "thirteen is unlucky"}]},
        "status": {"type": "object", "properties": {
            "ready": {"type": "integer"}, "selector": {"type": "string"}}}}}})
}

/// The definition of widgets in a group of the row's own.
fn definition(p: &Probe) -> Value {
    let group = group(p);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema(),
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
                    "statusReplicasPath": ".status.ready", "labelSelectorPath": ".status.selector"}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1}]}]}})
}

fn group(p: &Probe) -> String {
    format!("{}.example.com", p.namespace)
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Makes a definition and waits until its objects can be made.
async fn defined(p: &Probe, definition: &Value) -> Result<(), Failure> {
    p.post(DEFINITIONS, definition).await?.code(201)?;
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let version = definition["spec"]["versions"][0]["name"]
        .as_str()
        .unwrap_or_default();
    for _ in 0..100 {
        let read = p.get(&format!("{DEFINITIONS}/{name}")).await?.code(200)?;
        let conditions = read["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let is_established = conditions
            .filter(|condition| condition["type"] == "Established")
            .any(|condition| condition["status"] == "True");
        if is_established {
            let list = format!("/apis/{}/{version}/widgets", group(p));
            if p.get(&list).await?.code(200).is_ok() {
                p.forget();
                return Ok(());
            }
        }
        // A real server's controllers are asynchronous; this is its time, not a test's.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(failure("the definition is not established"))
}

fn path(p: &Probe) -> String {
    format!("~{}/v1/widgets", group(p))
}

fn widget(p: &Probe, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{}/v1", group(p)), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// A widget of a definition, both made.
async fn made(p: &Probe, spec: Value) -> Result<Value, Failure> {
    defined(p, &definition(p)).await?;
    p.post(&path(p), &widget(p, "a", spec)).await?.code(201)
}

async fn a_definition_is_established_and_served(p: &Probe) -> Result<(), Failure> {
    let definition = definition(p);
    let name = definition["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    defined(p, &definition).await?;
    let read = p.get(&format!("{DEFINITIONS}/{name}")).await?.code(200)?;
    p.forget();
    same(
        "the list kind",
        read["spec"]["names"]["listKind"].as_str(),
        Some("WidgetList"),
    )?;
    same(
        "the conversion",
        read["spec"]["conversion"]["strategy"].as_str(),
        Some("None"),
    )?;
    same(
        "what is stored",
        &read["status"]["storedVersions"],
        &json!(["v1"]),
    )?;
    same(
        "the name",
        read["status"]["acceptedNames"]["plural"].as_str(),
        Some("widgets"),
    )
}

async fn a_definition_with_a_wrong_name_is_refused(p: &Probe) -> Result<(), Failure> {
    let mut definition = definition(p);
    definition["metadata"]["name"] = "things.example.com".into();
    let answer = p.post(DEFINITIONS, &definition).await?;
    answer.says(422, "Invalid", "spec.names.plural+\".\"+spec.group")?;
    Ok(())
}

async fn a_definition_without_a_schema_is_refused(p: &Probe) -> Result<(), Failure> {
    let mut definition = definition(p);
    definition["spec"]["versions"][0]["schema"] = Value::Null;
    definition["spec"]["versions"][0]["selectableFields"] = Value::Null;
    let answer = p.post(DEFINITIONS, &definition).await?;
    answer.says(422, "Invalid", "schema.openAPIV3Schema: Required value")?;
    Ok(())
}

async fn a_definition_with_two_storage_versions_is_refused(p: &Probe) -> Result<(), Failure> {
    let mut definition = definition(p);
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    definition["spec"]["versions"]
        .as_array_mut()
        .into_iter()
        .for_each(|all| all.push(second.clone()));
    let answer = p.post(DEFINITIONS, &definition).await?;
    answer.says(
        422,
        "Invalid",
        "must have exactly one version marked as storage version",
    )?;
    Ok(())
}

async fn items_of_custom_resources_have_a_kind(p: &Probe) -> Result<(), Failure> {
    made(p, json!({"size": 1})).await?;
    let list = p.get(&path(p)).await?.code(200)?;
    same(
        "the kind",
        list["items"][0]["kind"].as_str(),
        Some("Widget"),
    )?;
    same("the list", list["kind"].as_str(), Some("WidgetList"))
}

async fn unknown_fields_of_custom_resources_are_pruned(p: &Probe) -> Result<(), Failure> {
    let made = made(p, json!({"size": 1, "wings": 2, "free": {"any": [1]}})).await?;
    holds("it is pruned", made["spec"]["wings"].is_null())?;
    same(
        "what is free is kept",
        &made["spec"]["free"],
        &json!({"any": [1]}),
    )
}

async fn custom_resources_are_defaulted(p: &Probe) -> Result<(), Failure> {
    let made = made(p, json!({"size": 1})).await?;
    same("the color", made["spec"]["color"].as_str(), Some("red"))?;
    same(
        "the generation",
        made["metadata"]["generation"].as_u64(),
        Some(1),
    )
}

async fn custom_resources_are_validated(p: &Probe) -> Result<(), Failure> {
    defined(p, &definition(p)).await?;
    for (spec, words) in [
        (json!({}), "spec.size: Required value"),
        (json!({"size": 0}), "should be greater than or equal to 1"),
        (json!({"size": "1"}), "must be of type integer"),
        (
            json!({"size": 1, "color": "green"}),
            "supported values: \"red\", \"blue\"",
        ),
        (json!({"size": 1, "tags": ["a", "a"]}), "Duplicate value"),
    ] {
        p.post(&path(p), &widget(p, "a", spec))
            .await?
            .says(422, "Invalid", words)?;
    }
    Ok(())
}

async fn custom_resources_obey_their_rules(p: &Probe) -> Result<(), Failure> {
    defined(p, &definition(p)).await?;
    let answer = p
        .post(&path(p), &widget(p, "a", json!({"size": 13})))
        .await?;
    answer.says(422, "Invalid", "thirteen is unlucky")?;
    Ok(())
}

async fn a_custom_update_must_have_a_version(p: &Probe) -> Result<(), Failure> {
    made(p, json!({"size": 1})).await?;
    let answer = p
        .put(
            &format!("{}/a", path(p)),
            &widget(p, "a", json!({"size": 2})),
        )
        .await?;
    answer.says(422, "Invalid", "must be specified for an update")?;
    Ok(())
}

async fn a_custom_status_is_split(p: &Probe) -> Result<(), Failure> {
    made(p, json!({"size": 1})).await?;
    let body = json!({"spec": {"size": 5}, "status": {"ready": 1}});
    let done = p
        .merge(&format!("{}/a/status", path(p)), &body)
        .await?
        .code(200)?;
    same("the spec", done["spec"]["size"].as_u64(), Some(1))?;
    same("the status", done["status"]["ready"].as_u64(), Some(1))?;
    let done = p.merge(&format!("{}/a", path(p)), &body).await?.code(200)?;
    same("the spec", done["spec"]["size"].as_u64(), Some(5))?;
    same(
        "the generation",
        done["metadata"]["generation"].as_u64(),
        Some(2),
    )
}

async fn a_custom_scale_is_served(p: &Probe) -> Result<(), Failure> {
    made(p, json!({"size": 3})).await?;
    let path = format!("{}/a", path(p));
    p.merge(
        &format!("{path}/status"),
        &json!({"status": {"ready": 2, "selector": "a=b"}}),
    )
    .await?
    .code(200)?;
    let scale = p.get(&format!("{path}/scale")).await?.code(200)?;
    same("asked", scale["spec"]["replicas"].as_u64(), Some(3))?;
    same(
        "there",
        &scale["status"],
        &json!({"replicas": 2, "selector": "a=b"}),
    )?;
    p.merge(&format!("{path}/scale"), &json!({"spec": {"replicas": 7}}))
        .await?
        .code(200)?;
    let read = p.get(&path).await?.code(200)?;
    same("the size", read["spec"]["size"].as_u64(), Some(7))
}

async fn without_a_status_subresource_there_is_none(p: &Probe) -> Result<(), Failure> {
    let mut definition = definition(p);
    definition["spec"]["versions"][0]["subresources"] = Value::Null;
    defined(p, &definition).await?;
    p.post(&path(p), &widget(p, "a", json!({"size": 1})))
        .await?
        .code(201)?;
    p.get(&format!("{}/a/status", path(p))).await?.code(404)?;
    let kept = json!({"status": {"ready": 1}});
    let done = p.merge(&format!("{}/a", path(p)), &kept).await?.code(200)?;
    same("the status", done["status"]["ready"].as_u64(), Some(1))
}

async fn a_strategic_merge_of_a_custom_resource_is_refused(p: &Probe) -> Result<(), Failure> {
    made(p, json!({"size": 1})).await?;
    let media = "application/strategic-merge-patch+json";
    let answer = p
        .write("PATCH", &format!("{}/a", path(p)), media, &json!({}))
        .await?;
    answer.refused(415, "UnsupportedMediaType")?;
    Ok(())
}

async fn protobuf_alone_of_a_custom_resource_is_refused(p: &Probe) -> Result<(), Failure> {
    defined(p, &definition(p)).await?;
    let answer = p
        .get_as(&path(p), "application/vnd.kubernetes.protobuf")
        .await?;
    answer.code(406)?;
    let both = "application/vnd.kubernetes.protobuf,application/json";
    p.get_as(&path(p), both).await?.code(200)?;
    Ok(())
}

async fn fields_are_selectable_as_defined(p: &Probe) -> Result<(), Failure> {
    let first = made(p, json!({"size": 1})).await?;
    p.post(
        &path(p),
        &widget(p, "b", json!({"size": 1, "color": "blue"})),
    )
    .await?
    .code(201)?;
    let path = path(p);
    let list = p
        .get(&format!("{path}?fieldSelector=spec.color%3Dblue"))
        .await?
        .code(200)?;
    same("the names", names(&list), ["b"])?;
    let at = version(&first);
    let watch = format!("{path}?watch=1&resourceVersion={at}&fieldSelector=spec.color%3Dred");
    let mut watch = p.watch(&watch).await?;
    p.merge(&format!("{path}/a"), &json!({"spec": {"color": "blue"}}))
        .await?
        .code(200)?;
    watch.sees("DELETED", "a").await?;
    Ok(())
}

async fn unknown_fields_of_custom_resources_are_not_selectable(p: &Probe) -> Result<(), Failure> {
    defined(p, &definition(p)).await?;
    let answer = p
        .get(&format!("{}?fieldSelector=spec.size%3D1", path(p)))
        .await?;
    answer.says(400, "BadRequest", "field label not supported")?;
    Ok(())
}

async fn columns_are_as_defined(p: &Probe) -> Result<(), Failure> {
    made(p, json!({"size": 4})).await?;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = p.get_as(&path(p), accept).await?.code(200)?;
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    let columns: Vec<_> = columns
        .filter_map(|column| column["name"].as_str())
        .collect();
    same("the columns", columns, ["Name", "Size", "Color"])?;
    same(
        "the cells",
        &table["rows"][0]["cells"],
        &json!(["a", 4, "red"]),
    )
}

async fn versions_show_the_same_objects(p: &Probe) -> Result<(), Failure> {
    let mut definition = definition(p);
    let mut second = definition["spec"]["versions"][0].clone();
    (second["name"], second["storage"]) = ("v2".into(), false.into());
    definition["spec"]["versions"]
        .as_array_mut()
        .into_iter()
        .for_each(|all| all.push(second.clone()));
    defined(p, &definition).await?;
    let made = p
        .post(&path(p), &widget(p, "a", json!({"size": 1})))
        .await?
        .code(201)?;
    let group = group(p);
    let other = p.get(&format!("~{group}/v2/widgets/a")).await?.code(200)?;
    same(
        "the version",
        other["apiVersion"].as_str(),
        Some(&*format!("{group}/v2")),
    )?;
    same(
        "the object",
        &other["metadata"]["uid"],
        &made["metadata"]["uid"],
    )
}

async fn a_deleted_definition_deletes_its_objects(p: &Probe) -> Result<(), Failure> {
    let made = made(p, json!({"size": 1})).await?;
    let at = version(&made);
    let mut watch = p
        .watch(&format!("{}?watch=1&resourceVersion={at}", path(p)))
        .await?;
    let name = format!("{DEFINITIONS}/widgets.{}", group(p));
    p.delete(&name).await?.code(200)?;
    watch.sees("DELETED", "a").await?;
    watch.ends().await?;
    p.forget();
    for _ in 0..100 {
        if p.get(&path(p)).await?.code(404).is_ok() {
            p.forget();
            p.get(&path(p)).await?.code(404)?;
            return Ok(());
        }
        // The definition is removed after its objects.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(failure("the resource is still served"))
}

async fn a_custom_watch_tells_of_changes(p: &Probe) -> Result<(), Failure> {
    let made = made(p, json!({"size": 1})).await?;
    let at = version(&made);
    let mut watch = p
        .watch(&format!("{}?watch=1&resourceVersion={at}", path(p)))
        .await?;
    let named = format!("{}/a", path(p));
    p.merge(&named, &json!({"spec": {"size": 2}}))
        .await?
        .code(200)?;
    p.merge(&named, &json!({"spec": {"size": 2}}))
        .await?
        .code(200)?;
    p.delete(&named).await?.code(200)?;
    let changed = watch.sees("MODIFIED", "a").await?;
    same("the size", changed["spec"]["size"].as_u64(), Some(2))?;
    watch.sees("DELETED", "a").await?;
    Ok(())
}

async fn a_custom_resource_is_applied(p: &Probe) -> Result<(), Failure> {
    defined(p, &definition(p)).await?;
    let (media, named) = ("application/apply-patch+yaml", format!("{}/a", path(p)));
    let apply = async |manager: &str, spec: Value| {
        let path = format!("{named}?fieldManager={manager}");
        p.write("PATCH", &path, media, &widget(p, "a", spec)).await
    };
    apply("one", json!({"size": 1, "tags": ["x"]}))
        .await?
        .code(201)?;
    let done = apply("two", json!({"size": 1, "tags": ["y"]}))
        .await?
        .code(200)?;
    same("the set", &done["spec"]["tags"], &json!(["x", "y"]))?;
    apply("two", json!({"size": 2}))
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn large_numbers_survive(p: &Probe) -> Result<(), Failure> {
    let free = json!({"big": 9_007_199_254_740_993_i64, "half": 0.5});
    let made = made(p, json!({"size": 1, "free": free})).await?;
    same("the numbers", &made["spec"]["free"], &free)
}

async fn discovery_shows_the_custom_resource(p: &Probe) -> Result<(), Failure> {
    defined(p, &definition(p)).await?;
    let group = group(p);
    let mut seen = Vec::new();
    for _ in 0..100 {
        let question = Question::new("GET", "/apis");
        let groups = p.ask(question).await?.code(200)?;
        let is_there = groups["groups"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|g| g["name"] == *group);
        let list = p.get(&format!("/apis/{group}/v1")).await?;
        p.forget();
        if let (true, Ok(list)) = (is_there, list.code(200)) {
            let resources = list["resources"].as_array().into_iter().flatten();
            seen = resources
                .filter_map(|r| r["name"].as_str().map(str::to_owned))
                .collect();
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    seen.sort();
    same(
        "the resources",
        seen,
        ["widgets", "widgets/scale", "widgets/status"],
    )
}
