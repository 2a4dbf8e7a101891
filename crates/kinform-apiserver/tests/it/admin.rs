//! The admin path, the listener of the journal, restored objects, and many servers side by side.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use kinform_apiserver::{Server, Service};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Watch, create, get, namespace, send, without_maps};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn act(service: &Service, method: Method, word: &str, body: &str) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(format!("/__kinform/{word}"))
        .body(Bytes::from(body.to_owned()))
        .unwrap();
    let reply = service.call(request).await;
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap();
    (code, serde_json::from_slice(&body).unwrap())
}

#[tokio::test(start_paused = true)]
async fn faults_come_and_go_by_the_admin_path_and_never_meet_it() {
    let server = Server::builder().admin_path().in_process();
    let service = server.service();
    let rules = "verb=list,resource=configmaps,times=always,status=403\n\ntimes=always,hang\n";
    let (code, state) = act(&service, Method::POST, "faults", rules).await;
    assert_eq!(
        (code, state["faults"].as_array().map(Vec::len)),
        (200, Some(2))
    );
    assert_eq!(get(&service, MAPS).await.0, 403);
    let mixed = "hang\nnonsense=1\n";
    let (code, status) = act(&service, Method::POST, "faults", mixed).await;
    assert_eq!(code, 400);
    assert!(
        status["message"].as_str().unwrap().contains("nonsense"),
        "{status}"
    );
    let (_, state) = act(&service, Method::GET, "", "").await;
    assert_eq!(
        state["faults"].as_array().map(Vec::len),
        Some(2),
        "all rules of a text, or none"
    );
    let (_, state) = act(&service, Method::DELETE, "faults", "").await;
    assert_eq!(state["faults"], json!([]));
    assert_eq!(get(&service, MAPS).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn history_expires_and_watches_are_cut_by_the_admin_path() {
    let server = Server::builder().admin_path().in_process();
    let service = server.service();
    let version = create(&service, "default", "x", json!({})).await;
    create(&service, "default", "y", json!({})).await;
    let mut watch = Watch::open(
        &service,
        &format!("{MAPS}?watch=1&resourceVersion={version}"),
    )
    .await;
    assert!(watch.tell().await.starts_with("ADDED default/y"));
    let (_, state) = act(&service, Method::GET, "", "").await;
    assert_eq!(state["openWatches"], 1);
    let before = state["revision"].as_u64().unwrap();
    let (_, state) = act(&service, Method::POST, "advance?by=7", "").await;
    assert_eq!(state["revision"], before + 7);
    let (_, state) = act(
        &service,
        Method::POST,
        &format!("compact?revision={before}"),
        "",
    )
    .await;
    assert_eq!(state["floor"], before);
    let (_, state) = act(&service, Method::POST, "expire", "").await;
    assert_eq!(state["floor"], state["revision"]);
    let path = format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(get(&service, &path).await.0, 410);
    act(&service, Method::POST, "stall", "").await;
    create(&service, "default", "z", json!({})).await;
    assert_eq!(
        watch.within(Duration::from_secs(60)).await,
        Vec::<String>::new()
    );
    act(&service, Method::POST, "resume", "").await;
    assert!(watch.tell().await.starts_with("ADDED default/z"));
    act(&service, Method::POST, "cut", "").await;
    assert_eq!(watch.tell().await, "END");
}

#[tokio::test(start_paused = true)]
async fn the_journal_is_read_and_cleared_by_the_admin_path() {
    let server = Server::builder().admin_path().in_process();
    let service = server.service();
    get(&service, &format!("{MAPS}?limit=5")).await;
    get(&service, &format!("{MAPS}/nope")).await;
    let _watch = Watch::open(&service, &format!("{MAPS}?watch=1")).await;
    let (_, journal) = act(&service, Method::GET, "journal?resource=configmaps", "").await;
    let records = journal["records"].as_array().unwrap();
    let told: Vec<Value> = records
        .iter()
        .map(|it| json!([it["verb"], it["code"], it["query"], it["seconds"].is_null()]))
        .collect();
    let expected = json!([
        ["list", 200, "limit=5", false],
        ["get", 404, "", false],
        ["watch", 200, "watch=1", true]
    ]);
    assert_eq!(Value::from(told), expected);
    let (_, open) = act(&service, Method::GET, "journal?open=true&verb=watch", "").await;
    assert_eq!(open["records"].as_array().map(Vec::len), Some(1));
    act(&service, Method::DELETE, "journal", "").await;
    let (_, journal) = act(&service, Method::GET, "journal", "").await;
    assert_eq!(
        journal["records"],
        json!([]),
        "the path itself stands in no journal"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_valid_token_leave_little_in_the_journal() {
    let server = Server::builder().admin_path().in_process();
    let service = server.service();
    for at in 0..500 {
        let path = format!("/api/v1/pods?limit={at}&continue={}", "x".repeat(60_000));
        let request = Request::get(path).header("authorization", "Bearer nope");
        let reply = service.call(request.body(Bytes::new()).unwrap()).await;
        assert_eq!(reply.status(), 401);
    }
    get(
        &service,
        &format!("{MAPS}?fieldSelector={}", "x".repeat(300)),
    )
    .await;
    let records = server.journal().records();
    assert_eq!(records.len(), 501);
    assert!(records[499].query.starts_with("limit=499&continue=xxx"));
    assert_eq!(records[499].query.len(), 256 + 3);
    assert_eq!(records[500].query.len(), "fieldSelector=".len() + 300);
    let (_, journal) = act(&service, Method::GET, "journal", "").await;
    assert!(journal.to_string().len() < 500 * 600);
}

#[tokio::test(start_paused = true)]
async fn the_admin_path_is_there_only_where_it_was_asked_for() {
    let server = Server::builder().in_process();
    let service = server.service();
    assert_eq!(get(&service, "/__kinform/").await.0, 404);
    let server = Server::builder().admin_path().in_process();
    let service = server.service();
    assert_eq!(act(&service, Method::GET, "", "").await.0, 200);
    assert_eq!(act(&service, Method::GET, "nope", "").await.0, 404);
    assert_eq!(act(&service, Method::GET, "cut", "").await.0, 405);
    assert_eq!(act(&service, Method::POST, "compact", "").await.0, 400);
    assert_eq!(
        act(&service, Method::POST, "compact?revision=-1", "")
            .await
            .0,
        400
    );
    assert_eq!(get(&service, "/__kinformers").await.0, 404);
}

/// The status of a request over a socket.
async fn over_socket(server: &Server, authorization: &str) -> String {
    let mut socket = tokio::net::TcpStream::connect(server.address().unwrap())
        .await
        .unwrap();
    let request = format!(
        "POST /__kinform/cut HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n{authorization}\r\n"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).await.unwrap();
    reply.split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn the_admin_path_takes_the_token_and_nothing_less() {
    let server = Server::builder()
        .plain()
        .admin_path()
        .start()
        .await
        .unwrap();
    assert_eq!(over_socket(&server, "").await, "403");
    assert_eq!(
        over_socket(&server, "Authorization: Bearer wrong\r\n").await,
        "401"
    );
    let right = format!("Authorization: Bearer {}\r\n", server.token());
    assert_eq!(over_socket(&server, &right).await, "200");
}

#[tokio::test(start_paused = true)]
async fn a_listener_hears_of_each_request_once_it_has_ended() {
    let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
    let told = heard.clone();
    let server = Server::builder()
        .on_record(move |record| told.lock().unwrap().push(record.to_json()))
        .in_process();
    let service = server.service();
    let watch = Watch::open(&service, &format!("{MAPS}?watch=1")).await;
    // More requests than the ring holds.
    for _ in 0..10_001 {
        get(&service, "/healthz").await;
    }
    assert_eq!(heard.lock().unwrap().len(), 10_001);
    drop(watch);
    let heard = heard.lock().unwrap();
    let last = heard.last().unwrap();
    assert_eq!(
        (&last["verb"], &last["resource"]),
        (&json!("watch"), &json!("configmaps"))
    );
    assert!(
        last["seconds"].is_number() && last["time"].is_string(),
        "{last}"
    );
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_dump_are_stored_as_they_are() {
    let server = Server::builder().in_process();
    let service = server.service();
    namespace(&service, "a").await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a",
        "uid": "11111111-2222-3333-4444-555555555555", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}]},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
        "status": {"phase": "Running", "podIP": "10.0.0.1"}});
    server.restore(pod.clone()).unwrap();
    let (_, stored) = get(&service, "/api/v1/namespaces/a/pods/p").await;
    for path in [
        "/metadata/uid",
        "/metadata/creationTimestamp",
        "/metadata/ownerReferences",
        "/metadata/generation",
        "/status/phase",
        "/spec/nodeName",
    ] {
        assert_eq!(stored.pointer(path), pod.pointer(path), "{path}");
    }
    assert_ne!(stored["metadata"]["resourceVersion"], "7");
    let found = "/api/v1/namespaces/a/pods?fieldSelector=spec.nodeName=n,status.podIP=10.0.0.1";
    assert_eq!(
        get(&service, found).await.1["items"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "text",
        "metadata": {"name": "e", "namespace": "a", "uid": "u"}, "regarding": {"name": "p"}});
    server.restore(event).unwrap();
    let (_, seen) = get(&service, "/api/v1/namespaces/a/events/e").await;
    assert_eq!(
        (&seen["message"], &seen["involvedObject"]["name"]),
        (&json!("text"), &json!("p"))
    );
    for (object, code) in [
        (
            json!({"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": "x"}}),
            404,
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}),
            400,
        ),
        (
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {}}),
            400,
        ),
        (
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": 7}}),
            400,
        ),
        (json!(null), 404),
    ] {
        assert_eq!(
            server.restore(object.clone()).unwrap_err().code,
            code,
            "{object}"
        );
    }
}

#[tokio::test]
async fn many_servers_in_a_process_know_nothing_of_each_other() {
    let mut servers = Vec::new();
    for _ in 0..8 {
        servers.push(Server::builder().plain().start().await.unwrap());
    }
    for (at, server) in servers.iter().enumerate() {
        without_maps(server);
        for number in 0..=at {
            create(
                &server.service(),
                "default",
                &format!("x{number}"),
                json!({}),
            )
            .await;
        }
    }
    let tokens: std::collections::HashSet<_> = servers.iter().map(|it| it.token()).collect();
    let places: std::collections::HashSet<_> = servers.iter().map(Server::address).collect();
    assert_eq!((tokens.len(), places.len()), (8, 8));
    servers[0].expire_history();
    for (at, server) in servers.iter().enumerate() {
        assert_eq!(server.objects("configmaps").len(), at + 1);
        assert_eq!(server.store().floor() == server.store().revision(), at == 0);
        let (code, _) = send(&server.service(), Method::DELETE, MAPS, Value::Null).await;
        assert_eq!(code, 200);
    }
}
