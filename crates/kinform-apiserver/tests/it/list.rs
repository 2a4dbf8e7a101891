use serde_json::{Value, json};

use crate::support::*;

const ALL: &str = "/api/v1/configmaps";

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn items_come_in_key_order_without_kind() {
    let (_server, service) = server().await;
    for (namespace, name) in [("b", "x"), ("a", "z"), ("a", "y")] {
        create(&service, namespace, name, json!({})).await;
    }
    let (code, list) = get(&service, ALL).await;
    assert_eq!((code, &list["kind"]), (200, &json!("ConfigMapList")));
    assert_eq!(names(&list), ["y", "z", "x"]);
    assert!(list["items"][0].get("kind").is_none());
    let (_, list) = get(&service, "/api/v1/namespaces/none/configmaps").await;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn s2_pages_keep_the_version_of_the_first_one() {
    let (_server, service) = server().await;
    for name in ["c", "d", "e", "f", "g"] {
        create(&service, "a", name, json!({})).await;
    }
    let (_, first) = get(&service, &format!("{ALL}?limit=2")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    delete(&service, "a", "f").await;
    create(&service, "a", "ee", json!({})).await;
    let (mut seen, mut page) = (names(&first), first.clone());
    while let Some(token) = page["metadata"]["continue"].as_str() {
        let (code, next) = get(&service, &format!("{ALL}?limit=2&continue={token}")).await;
        assert_eq!(code, 200);
        assert_eq!(version(&next), version(&first));
        seen.extend(names(&next));
        page = next;
    }
    assert_eq!(seen, ["c", "d", "e", "f", "g"]);
}

// e2e: chunking.go "should support continue listing from the last key if the original version has
// been compacted away, though the list is inconsistent"
#[tokio::test]
async fn an_expired_page_offers_to_go_on_inconsistently() {
    let (server, service) = server().await;
    for name in ["c", "d", "e"] {
        create(&service, "a", name, json!({})).await;
    }
    let (_, first) = get(&service, &format!("{ALL}?limit=1")).await;
    create(&service, "a", "dd", json!({})).await;
    server.expire_history();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (code, status) = get(&service, &format!("{ALL}?limit=1&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let token = status["metadata"]["continue"].as_str().unwrap();
    let (code, page) = get(&service, &format!("{ALL}?limit=2&continue={token}")).await;
    assert_eq!(code, 200);
    assert_eq!(names(&page), ["d", "dd"]);
    assert_eq!(version(&page), server.store().revision());
}

#[tokio::test(start_paused = true)]
async fn versions_are_matched_as_documented() {
    let (server, service) = server().await;
    let first = create(&service, "a", "x", json!({})).await;
    let second = create(&service, "a", "y", json!({})).await;
    let cases = [
        (String::new(), 200, Some((2, second))),
        ("resourceVersion=0&limit=1".into(), 200, Some((2, second))),
        (format!("resourceVersion={first}"), 200, Some((2, second))),
        (
            format!("resourceVersion={first}&limit=5"),
            200,
            Some((1, first)),
        ),
        (
            format!("resourceVersion={first}&resourceVersionMatch=NotOlderThan&limit=5"),
            200,
            Some((2, second)),
        ),
        (
            format!("resourceVersion={first}&resourceVersionMatch=Exact"),
            200,
            Some((1, first)),
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Exact".into(),
            410,
            None,
        ),
        ("resourceVersion=1".into(), 200, Some((2, second))),
        ("resourceVersion=99999".into(), 504, None),
        (
            "resourceVersion=99999&resourceVersionMatch=Exact".into(),
            504,
            None,
        ),
        ("resourceVersion=abc".into(), 400, None),
    ];
    for (query, code, want) in cases {
        let (got, list) = get(&service, &format!("{ALL}?{query}")).await;
        assert_eq!(got, code, "{query}: {list}");
        if let Some((items, at)) = want {
            assert_eq!((names(&list).len(), version(&list)), (items, at), "{query}");
        }
    }
    assert_eq!(server.journal().count("list", "configmaps"), 11);
}

#[tokio::test]
async fn selectors_choose_by_labels_fields_and_place() {
    let (_server, service) = server().await;
    create(&service, "a", "x", json!({"app": "web", "tier": "front"})).await;
    create(&service, "a", "y", json!({"app": "web"})).await;
    create(&service, "b", "x", json!({"app": "db"})).await;
    for (query, want) in [
        ("labelSelector=app%3Dweb", vec!["x", "y"]),
        ("labelSelector=app%3Dweb,!tier", vec!["y"]),
        ("labelSelector=app+in+(db)", vec!["x"]),
        ("fieldSelector=metadata.name%3Dx", vec!["x", "x"]),
        (
            "fieldSelector=metadata.name%3Dx,metadata.namespace!%3Da",
            vec!["x"],
        ),
    ] {
        let (code, list) = get(&service, &format!("{ALL}?{query}")).await;
        assert_eq!(code, 200, "{query}");
        assert_eq!(names(&list), want, "{query}");
    }
}

// apiserver: TestListCompression
#[tokio::test]
async fn long_lists_are_compressed_for_those_who_take_it() {
    let (_server, service) = server().await;
    let ask = |path: &'static str| {
        let request = http::Request::get(path)
            .header("accept-encoding", "gzip")
            .body(bytes::Bytes::new())
            .unwrap();
        service.call(request)
    };
    for number in 0..40 {
        let path = "/api/v1/namespaces/a/configmaps";
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("m-{number}")}, "data": {"k": "v".repeat(5000)}});
        assert_eq!(send(&service, http::Method::POST, path, body).await.0, 201);
    }
    let short = ask("/api/v1/configmaps?limit=5").await;
    assert!(!short.headers().contains_key("content-encoding"));
    let long = ask("/api/v1/configmaps").await;
    assert_eq!(long.headers()["content-encoding"], "gzip");
    let packed = long.into_body().collect().await.unwrap();
    let plain = std::io::read_to_string(flate2::read::GzDecoder::new(&*packed)).unwrap();
    let (_, list) = get(&service, ALL).await;
    assert_eq!(serde_json::from_str::<Value>(&plain).unwrap(), list);
    assert!(packed.len() * 10 < plain.len());
}

#[tokio::test]
async fn a_seeded_cluster_is_listed_whole_in_bounded_chunks() {
    use futures::StreamExt;
    let (server, service) = server().await;
    server.seed(kinform_apiserver::Seed {
        seed: 3,
        nodes: 5,
        deployments: 20,
        pods: 500,
    });
    let request = http::Request::get("/api/v1/pods")
        .body(bytes::Bytes::new())
        .unwrap();
    let mut body = service.call(request).await.into_body();
    let mut all = Vec::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.unwrap();
        assert!(chunk.len() <= 128 << 10, "{}", chunk.len());
        all.extend_from_slice(&chunk);
    }
    let list: Value = serde_json::from_slice(&all).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 500);
    let query = "fieldSelector=spec.nodeName%3Dnode-3&limit=500";
    let (_, on_node) = get(&service, &format!("/api/v1/pods?{query}")).await;
    let items = on_node["items"].as_array().unwrap();
    assert_eq!(items.len(), 100);
    assert!(items.iter().all(|pod| pod["spec"]["nodeName"] == "node-3"));
}
