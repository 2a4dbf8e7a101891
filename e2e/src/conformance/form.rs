//! The forms of answers: tables, metadata only, protobuf, compressed, pretty-printed.
//!
//! ```text
//! Accept ──▶ Table | PartialObjectMetadata | protobuf | YAML | JSON
//! ```
//!
//! Upstream counterpart: `kubernetes:test/e2e/apimachinery/table_conversion.go`,
//! `apiserver:pkg/endpoints/handlers/response.go`.

use serde_json::json;

use super::probe::{Failure, Probe, Question, holds, same};
use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    pods_come_as_a_table: "e2e: table_conversion.go",
    a_table_comes_in_pages: "e2e: table_conversion.go, chunked",
    a_table_of_the_old_version_comes_too: "e2e: table_conversion.go",
    nodes_come_as_a_table: "e2e: table_conversion.go",
    a_review_is_no_table: "e2e: table_conversion.go, 406",
    a_table_may_hold_whole_objects: "apiserver:pkg/endpoints/handlers/response.go",
    a_table_may_hold_no_objects: "apiserver:pkg/endpoints/handlers/response.go",
    a_watch_of_tables_has_columns_once: "TestWatchTable",
    metadata_alone_comes_for_an_object: "TestMetadataClient",
    metadata_alone_comes_for_a_list: "TestMetadataClient",
    metadata_alone_comes_for_a_watch: "TestMetadataClient",
    protobuf_comes_where_it_is_asked_for: "apiserver:pkg/endpoints/handlers/negotiation",
    a_watch_comes_as_protobuf: "apiserver:pkg/endpoints/handlers/watch.go",
    the_first_form_that_can_be_had_comes: "apiserver:pkg/endpoints/handlers/negotiation",
    no_accept_is_json: "apiserver:pkg/endpoints/handlers/negotiation",
    yaml_comes_where_it_is_asked_for: "apiserver:pkg/endpoints/handlers/negotiation",
    a_body_in_yaml_is_taken: "apiserver:pkg/endpoints/handlers/negotiation",
    a_large_answer_is_compressed_if_wanted: "TestListCompression",
    an_answer_is_indented_if_wanted: "apiserver:pkg/endpoints/handlers/negotiation",
    answers_are_not_cached: "TestCacheControl",
];

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn pod(p: &Probe, name: &str) -> Result<(), Failure> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    p.post("~/pods", &pod).await?.code(201)?;
    Ok(())
}

/// The cells but the age, which is the moment's.
fn cells(row: &serde_json::Value) -> Vec<serde_json::Value> {
    let cells = row["cells"].as_array().into_iter().flatten();
    cells.take(4).cloned().collect()
}

async fn pods_come_as_a_table(p: &Probe) -> Result<(), Failure> {
    pod(p, "a").await?;
    let table = p.get_as("~/pods", TABLE).await?.code(200)?;
    p.forget();
    same("the kind", table["kind"].as_str(), Some("Table"))?;
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    let columns: Vec<_> = columns
        .filter_map(|column| column["name"].as_str())
        .collect();
    let wanted = [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    ];
    same("the columns", columns, wanted)?;
    same(
        "the cells",
        cells(&table["rows"][0]),
        [json!("a"), json!("0/1"), json!("Pending"), json!("0")],
    )
    .or_else(|_| {
        same(
            "the cells",
            cells(&table["rows"][0]),
            [json!("a"), json!("0/1"), json!("Pending"), json!(0)],
        )
    })?;
    same(
        "the object",
        table["rows"][0]["object"]["kind"].as_str(),
        Some("PartialObjectMetadata"),
    )
}

async fn a_table_comes_in_pages(p: &Probe) -> Result<(), Failure> {
    for name in ["a", "b", "c"] {
        pod(p, name).await?;
    }
    let first = p.get_as("~/pods?limit=2", TABLE).await?.code(200)?;
    same(
        "what remains",
        first["metadata"]["remainingItemCount"].as_u64(),
        Some(1),
    )?;
    let token = first["metadata"]["continue"].as_str().unwrap_or_default();
    let rest = p
        .get_as(&format!("~/pods?limit=2&continue={token}"), TABLE)
        .await?
        .code(200)?;
    p.forget();
    same("the rows", rest["rows"].as_array().map(Vec::len), Some(1))?;
    same("the name", rest["rows"][0]["cells"][0].as_str(), Some("c"))
}

async fn a_table_of_the_old_version_comes_too(p: &Probe) -> Result<(), Failure> {
    let accept = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
    let table = p.get_as("~/configmaps", accept).await?.code(200)?;
    same(
        "the version",
        table["apiVersion"].as_str(),
        Some("meta.k8s.io/v1beta1"),
    )
}

async fn nodes_come_as_a_table(p: &Probe) -> Result<(), Failure> {
    let table = p
        .get_as("/api/v1/nodes?labelSelector=of%3Dnobody", TABLE)
        .await?
        .code(200)?;
    let first = table["columnDefinitions"][0]["name"].as_str();
    same("the first column", first, Some("Name"))?;
    holds(
        "status follows",
        table["columnDefinitions"][1]["name"] == "Status",
    )
}

async fn a_review_is_no_table(p: &Probe) -> Result<(), Failure> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}});
    let body = review.to_string();
    let question = Question {
        accept: Some(TABLE),
        media: Some("application/json"),
        body: body.as_bytes(),
        ..Question::new(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        )
    };
    p.ask(question).await?.refused(406, "NotAcceptable")?;
    Ok(())
}

async fn a_table_may_hold_whole_objects(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let table = p
        .get_as("~/configmaps?includeObject=Object", TABLE)
        .await?
        .code(200)?;
    let object = &table["rows"][0]["object"];
    p.forget();
    same("the kind", object["kind"].as_str(), Some("ConfigMap"))?;
    same("the data", object["data"]["k"].as_str(), Some("1"))
}

async fn a_table_may_hold_no_objects(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let table = p
        .get_as("~/configmaps?includeObject=None", TABLE)
        .await?
        .code(200)?;
    p.forget();
    holds("no object", table["rows"][0]["object"].is_null())?;
    p.get_as("~/configmaps?includeObject=Half", TABLE)
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn a_watch_of_tables_has_columns_once(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    p.map("b", "1").await?;
    let mut watch = p.watch_as("~/configmaps?watch=1", TABLE).await?;
    let (first, second) = (watch.next().await?, watch.next().await?);
    p.forget();
    same("the kind", first["object"]["kind"].as_str(), Some("Table"))?;
    holds(
        "columns come first",
        first["object"]["columnDefinitions"].is_array(),
    )?;
    holds("and once", second["object"]["columnDefinitions"].is_null())?;
    same(
        "the row",
        second["object"]["rows"][0]["cells"][0].as_str(),
        Some("b"),
    )
}

async fn metadata_alone_comes_for_an_object(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let part = p.get_as("~/configmaps/a", METADATA).await?.code(200)?;
    let seen = (part["kind"].as_str(), part["apiVersion"].as_str());
    same(
        "the kind",
        seen,
        (Some("PartialObjectMetadata"), Some("meta.k8s.io/v1")),
    )?;
    holds("no data", part["data"].is_null())
}

async fn metadata_alone_comes_for_a_list(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let part = p.get_as("~/configmaps", METADATA_LIST).await?.code(200)?;
    same(
        "the kind",
        part["kind"].as_str(),
        Some("PartialObjectMetadataList"),
    )?;
    let item = &part["items"][0];
    same(
        "the item",
        item["kind"].as_str(),
        Some("PartialObjectMetadata"),
    )?;
    holds("no data", item["data"].is_null())
}

async fn metadata_alone_comes_for_a_watch(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let mut watch = p.watch_as("~/configmaps?watch=1", METADATA).await?;
    let part = watch.sees("ADDED", "a").await?;
    same(
        "the kind",
        part["kind"].as_str(),
        Some("PartialObjectMetadata"),
    )?;
    holds("no data", part["data"].is_null())
}

async fn protobuf_comes_where_it_is_asked_for(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    for path in ["~/configmaps", "~/configmaps/a"] {
        let answer = p
            .get_as(path, "application/vnd.kubernetes.protobuf")
            .await?;
        answer.code(200)?;
        same(
            "the type",
            answer.header("content-type"),
            "application/vnd.kubernetes.protobuf",
        )?;
        holds("the mark", answer.body.starts_with(b"k8s\0"))?;
    }
    Ok(())
}

async fn a_watch_comes_as_protobuf(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let watch = p
        .watch_as(
            "~/configmaps?watch=1",
            "application/vnd.kubernetes.protobuf",
        )
        .await?;
    let media = watch
        .headers
        .get("content-type")
        .and_then(|media| media.to_str().ok());
    same(
        "the type",
        media,
        Some("application/vnd.kubernetes.protobuf;stream=watch"),
    )
}

async fn the_first_form_that_can_be_had_comes(p: &Probe) -> Result<(), Failure> {
    let answer = p
        .get_as("~/configmaps", "application/xml,application/json;q=0.5")
        .await?;
    answer.code(200)?;
    same(
        "the type",
        answer.header("content-type"),
        "application/json",
    )?;
    let unknown = "application/json;as=Feather;v=v1;g=meta.k8s.io,application/json";
    let list = p.get_as("~/configmaps", unknown).await?.code(200)?;
    same("the kind", list["kind"].as_str(), Some("ConfigMapList"))
}

async fn no_accept_is_json(p: &Probe) -> Result<(), Failure> {
    for accept in ["*/*"] {
        let answer = p.get_as("~/configmaps", accept).await?;
        answer.code(200)?;
        same(
            "the type",
            answer.header("content-type"),
            "application/json",
        )?;
    }
    Ok(())
}

async fn yaml_comes_where_it_is_asked_for(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let answer = p.get_as("~/configmaps/a", "application/yaml").await?;
    answer.code(200)?;
    same(
        "the type",
        answer.header("content-type"),
        "application/yaml",
    )?;
    holds(
        "it is YAML",
        String::from_utf8_lossy(&answer.body).contains("kind: ConfigMap\n"),
    )
}

async fn a_body_in_yaml_is_taken(p: &Probe) -> Result<(), Failure> {
    let body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: \"1\"\n";
    let media = Some("application/yaml");
    let made = p
        .ask(Question {
            media,
            body,
            ..Question::new("POST", "~/configmaps")
        })
        .await?;
    same("the data", made.code(201)?["data"]["k"].as_str(), Some("1"))
}

async fn a_large_answer_is_compressed_if_wanted(p: &Probe) -> Result<(), Failure> {
    p.map("a", &"x".repeat(200 << 10)).await?;
    let small = p.compressed("~/configmaps/none").await?;
    let large = p.compressed("~/configmaps/a").await?;
    p.forget();
    same("the small one", small, String::new())?;
    same("the large one", large, "gzip".to_owned())
}

async fn an_answer_is_indented_if_wanted(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let answer = p.get("~/configmaps/a?pretty=true").await?;
    answer.code(200)?;
    holds(
        "it is indented",
        String::from_utf8_lossy(&answer.body).contains("\n  \"kind\""),
    )
}

async fn answers_are_not_cached(p: &Probe) -> Result<(), Failure> {
    for path in ["~/configmaps", "/api/v1", "/apis"] {
        let answer = p.get(path).await?;
        answer.code(200)?;
        if path.starts_with('~') {
            same(
                "the header",
                answer.header("cache-control"),
                "no-cache, private",
            )?;
        }
    }
    p.forget();
    Ok(())
}
