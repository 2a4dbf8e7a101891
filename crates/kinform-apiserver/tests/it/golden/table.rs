//! Tables: objects in many states, compared with a real server's.

use http::Method;
use kinform_apiserver::{AdmissionPlugins, Server};
use serde_json::{Value, json};

use super::comparison::{Comparison, Objects};
use super::recorded::{Exchange, exchanges, request, send};
use super::rows::Rows;
use super::status;

/// Content of a table, without the objects in it.
fn shown(table: &str) -> Value {
    let mut table: Value = serde_json::from_str(table).unwrap();
    for row in table["rows"].as_array_mut().unwrap() {
        row.as_object_mut().unwrap().remove("object");
    }
    table.as_object_mut().unwrap().remove("metadata");
    table
}

#[tokio::test(start_paused = true)]
async fn objects_in_many_states_are_shown_as_by_a_real_server() {
    let server = Server::builder()
        .admission(AdmissionPlugins::none())
        .keep_inert_objects()
        .in_process();
    let service = server.service();
    let mut rows = Rows::of("table");
    for exchange in exchanges("table") {
        let recorded: Value = serde_json::from_str(&exchange.body).unwrap();
        let object = recorded["rows"][0]["object"].clone();
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}", exchange.path);
        server.restore(object.clone()).unwrap();
        let (code, body) = send(&service, &asked(Method::GET, &path, Value::Null)).await;
        let (recorded, ours) = (shown(&exchange.body), shown(&body));
        let mut differences =
            Comparison::new(Objects::Written).bodies(recorded.to_string(), ours.to_string());
        differences.extend(status(exchange.status, code));
        rows.row(&exchange, &differences);
    }
    rows.finish();
}

fn asked(method: Method, path: &str, body: Value) -> Exchange {
    Exchange {
        accept: "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned(),
        ..request(method.as_str(), path, body)
    }
}

#[tokio::test(start_paused = true)]
async fn writes_are_answered_by_tables_and_reviews_are_not() {
    let server = Server::builder()
        .admission(AdmissionPlugins::none())
        .in_process();
    let service = server.service();
    let maps = "/api/v1/namespaces/default/configmaps";
    let object = json!({"metadata": {"name": "x"}, "data": {"a": "b"}});
    for (path, version) in [
        (format!("{maps}?dryRun=All"), false),
        (maps.to_owned(), true),
    ] {
        let (code, body) = send(&service, &asked(Method::POST, &path, object.clone())).await;
        let table: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code, &table["kind"]), (201, &json!("Table")));
        assert_eq!(table["rows"][0]["cells"], json!(["x", 1, "0s"]));
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(table["metadata"]["resourceVersion"].is_string(), version);
    }
    let path = format!("{maps}/x?includeObject=Object");
    let (_, body) = send(&service, &asked(Method::GET, &path, Value::Null)).await;
    let table: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(table["rows"][0]["object"]["data"], json!({"a": "b"}));
    let path = format!("{maps}?includeObject=Nope");
    let (code, body) = send(&service, &asked(Method::GET, &path, Value::Null)).await;
    assert_eq!(code, 400, "{body}");
    // kubernetes: test/e2e/apimachinery/table_conversion.go, a backend that does not implement
    // metadata
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, body) = send(&service, &asked(Method::POST, path, json!({"spec": {}}))).await;
    assert_eq!(code, 406, "{body}");
}
