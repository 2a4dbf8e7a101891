//! Parts of objects, rights and reviews: one story, told to a real server and to ours.
//!
//! Rows are sent as whoever sent them there. Objects of kinds are compared by what happened to them
//! (code, kind, generation, reason): their fields are the other folders' matter. Everything else is
//! compared value by value.

use bytes::Bytes;
use http::{Method, Request};
use kinform_apiserver::{Server, Service, User};
use serde_json::Value;

use super::recorded::{Comparison, Exchange, Objects, exchanges, lines};
use super::{Rows, facts, status};

/// What differs on purpose, and why.
const DIFFERENCES: [(&str, &str); 6] = [
    (
        "life/log-bound.json",
        "a node is not looked up: there is no kubelet to ask, and the log is empty",
    ),
    (
        "life/ephemeral-again.json",
        "upstream's message shows a difference of Go structs",
    ),
    (
        "life/evict-pending-get.json",
        "there is no kubelet to wait for: a pod with a grace period is gone at once",
    ),
    (
        "life/evict-unready-ok.json",
        "as above: it was gone after the first eviction",
    ),
    (
        "life/imp-other.json",
        "the newer rights to impersonate are named first, whatever was allowed before",
    ),
    ("life/imp-self-group.json", "as above"),
];

/// Whole objects, whose fields are not this story's matter.
const OBJECTS: [&str; 8] = [
    "Pod",
    "Namespace",
    "Deployment",
    "Job",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
];

fn server() -> Server {
    let admin = User::new("admin").with_uid("admin-uid");
    Server::builder()
        .rbac()
        .without_garbage_collection()
        .user("admin-token", admin.with_group("system:masters"))
        .user(
            "limited-token",
            User::new("limited").with_uid("limited-uid"),
        )
        .in_process()
}

/// Sends a row as whoever sent it, with our tokens in the places of the recorded ones.
async fn send(
    service: &Service,
    exchange: &Exchange,
    line: &Value,
    tokens: &[(String, String)],
) -> (u16, String) {
    let ours = |text: &str| {
        let put = |text: String, (recorded, ours): &(String, String)| text.replace(recorded, ours);
        tokens.iter().fold(text.to_owned(), put)
    };
    let credential = match line["token"].as_str() {
        None => "Bearer admin-token".to_owned(),
        Some("") => "Basic bm9ib2R5".to_owned(),
        Some(token) => format!("Bearer {}", ours(token)),
    };
    let mut request = Request::builder()
        .method(exchange.method.parse::<Method>().unwrap())
        .uri(&exchange.path)
        .header("authorization", credential)
        .header("accept", &exchange.accept);
    request = request.header("user-agent", "golden/1");
    if let Some(content_type) = &exchange.content_type {
        request = request.header("content-type", content_type);
    }
    for (name, value) in line["requestHeaders"].as_object().into_iter().flatten() {
        request = request.header(name, value.as_str().unwrap());
    }
    let body = ours(&exchange.request.clone().unwrap_or_default());
    let reply = service.call(request.body(Bytes::from(body)).unwrap()).await;
    let code = reply.status().as_u16();
    let retry = reply.headers().get("retry-after").cloned();
    let recorded = line["responseHeaders"]["Retry-After"].as_str();
    assert_eq!(
        retry.as_ref().map(|value| value.to_str().unwrap()),
        recorded,
        "{}",
        exchange.file
    );
    let body = reply.into_body().collect().await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

/// Our body with the recorded tokens, and without the ids of tokens.
fn as_recorded(body: &str, tokens: &[(String, String)]) -> String {
    let put = |text: String, (recorded, ours): &(String, String)| text.replace(ours, recorded);
    let body = tokens.iter().fold(body.to_owned(), put);
    let mut parts = body.split("JTI=");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("JTI=*");
        out.push_str(part.get(36..).unwrap_or_default());
    }
    out
}

#[tokio::test(start_paused = true)]
async fn parts_rights_and_reviews_are_those_of_a_real_server() {
    let server = server();
    let service = server.service();
    let mut rows = Rows::of(&DIFFERENCES);
    let mut comparison = Comparison::new(Objects::Written);
    let mut tokens: Vec<(String, String)> = Vec::new();
    for (exchange, line) in exchanges("life").iter().zip(lines("life")) {
        let (code, body) = send(&service, exchange, &line, &tokens).await;
        let reply: Value = serde_json::from_str(&body).unwrap_or_default();
        if let (Some(token), 201) = (reply["status"]["token"].as_str(), code) {
            let recorded: Value = serde_json::from_str(&exchange.body).unwrap();
            let recorded = recorded["status"]["token"].as_str().unwrap();
            tokens.push((recorded.to_owned(), token.to_owned()));
        }
        let body = as_recorded(&body, &tokens);
        let recorded: Value = serde_json::from_str(&exchange.body).unwrap_or_default();
        let kind = recorded["kind"].as_str().unwrap_or_default();
        let mut differences = if OBJECTS.contains(&kind) {
            let (a, b) = (facts(exchange.status, &exchange.body), facts(code, &body));
            (a != b)
                .then(|| format!("{a} / {b}: {body}"))
                .into_iter()
                .collect()
        } else {
            comparison.bodies(&exchange.body, &body)
        };
        differences.extend(status(exchange.status, code));
        rows.row(exchange, &differences);
    }
    rows.finish(190);
}
