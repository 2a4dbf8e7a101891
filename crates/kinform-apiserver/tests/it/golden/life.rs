//! Subresources, authorization and reviews: one story, run against a real server and ours.
//!
//! Rows are sent as the recorded user. Objects of kinds are compared by the outcome (code, kind,
//! generation, reason): other folders cover their fields. Everything else is compared value by
//! value.

use kinform_apiserver::{AdmissionPlugins, Server, User};
use serde_json::{Value, json};

use super::comparison::{Comparison, Objects};
use super::recorded::{Exchange, exchanges, lines, reply};
use super::rows::Rows;
use super::status;

/// Whole objects, whose fields this story does not cover.
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
        .admission(AdmissionPlugins::none())
        .rbac()
        .without_garbage_collection()
        .user("admin-token", admin.with_group("system:masters"))
        .user(
            "limited-token",
            User::new("limited").with_uid("limited-uid"),
        )
        .in_process()
}

/// A row as its user sends it, with our tokens in the places of the recorded ones.
fn as_sent(exchange: &Exchange, line: &Value, tokens: &[(String, String)]) -> Exchange {
    let ours = |text: &str| {
        let put = |text: String, (recorded, ours): &(String, String)| text.replace(recorded, ours);
        tokens.iter().fold(text.to_owned(), put)
    };
    let credential = match line["token"].as_str() {
        None => "Bearer admin-token".to_owned(),
        Some("") => "Basic bm9ib2R5".to_owned(),
        Some(token) => format!("Bearer {}", ours(token)),
    };
    let mut exchange = exchange.clone().header("authorization", &credential);
    let request = exchange.request.take();
    exchange.request = request.map(|body| ours(std::str::from_utf8(&body).unwrap()).into_bytes());
    exchange
}

/// Managed fields, without their times.
fn owners(body: &Value) -> Value {
    let mut entries = body["metadata"]["managedFields"].clone();
    for entry in entries.as_array_mut().into_iter().flatten() {
        entry.as_object_mut().unwrap().remove("time");
    }
    entries
}

/// Facts that a write establishes about an object of any kind: its presence, generation and owners.
fn facts(code: u16, body: &str) -> Value {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    json!([
        code,
        body["kind"],
        body["metadata"]["generation"],
        owners(&body),
        body["reason"]
    ])
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
    let mut rows = Rows::of("life");
    let mut comparison = Comparison::new(Objects::Written);
    let mut tokens: Vec<(String, String)> = Vec::new();
    for (exchange, line) in exchanges("life").iter().zip(lines("life")) {
        let reply = reply(&service, &as_sent(exchange, &line, &tokens)).await;
        let recorded = line["responseHeaders"]["Retry-After"].as_str();
        let retry = reply.all("retry-after").join(", ");
        assert_eq!(retry, recorded.unwrap_or_default(), "{}", exchange.file);
        let (code, body) = (reply.code, reply.text());
        let reply: Value = serde_json::from_str(body).unwrap_or_default();
        if let (Some(token), 201) = (reply["status"]["token"].as_str(), code) {
            let recorded: Value = serde_json::from_str(&exchange.body).unwrap();
            let recorded = recorded["status"]["token"].as_str().unwrap();
            tokens.push((recorded.to_owned(), token.to_owned()));
        }
        let body = as_recorded(body, &tokens);
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
    rows.finish();
}
