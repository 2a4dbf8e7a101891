//! Definitions with odd schemas and their objects: refused ones, values of every type and format,
//! lists, combinations, defaults, rules, ratcheting, several versions, names that are taken,
//! deletion.
//!
//! A real server reports several errors of one object in any order, so they are compared sorted.

use kinform_apiserver::{AdmissionPlugins, Server};
use serde_json::{Value, json};

use super::comparison::{Comparison, Objects};
use super::recorded::{exchanges, recorded_warnings, reply, request, send};
use super::rows::Rows;

/// A failure with its causes sorted, and without the message that repeats them.
fn sorted(body: &str) -> String {
    // The recorded server is a program of another name.
    let body = body.replace(r#""manager":"apiserver""#, r#""manager":"kube-apiserver""#);
    let Ok(mut body) = serde_json::from_str::<Value>(&body) else {
        return body;
    };
    let Some(causes) = body["details"]["causes"].as_array_mut() else {
        return body.to_string();
    };
    causes.sort_by_key(ToString::to_string);
    if causes.len() > 1 {
        body["message"] = Value::Null;
    }
    body.to_string()
}

#[tokio::test(start_paused = true)]
async fn odd_definitions_and_their_objects_live_as_on_a_real_server() {
    let server = Server::builder()
        .admission(AdmissionPlugins::none())
        .in_process();
    let service = server.service();
    let namespace = json!({"metadata": {"name": "odd"}});
    send(&service, &request("POST", "/api/v1/namespaces", namespace)).await;
    let mut rows = Rows::of("definitions");
    let mut comparison = Comparison::new(Objects::Written);
    for (exchange, recorded) in exchanges("definitions")
        .iter()
        .zip(recorded_warnings("definitions"))
    {
        let reply = reply(&service, exchange).await;
        let warnings = reply.all("warning");
        let mut differences = comparison.bodies(sorted(&exchange.body), sorted(reply.text()));
        differences.extend(comparison.head(exchange, &reply));
        if recorded != warnings {
            differences.push(format!("warnings: {recorded:?} / {warnings:?}"));
        }
        rows.row(exchange, &differences);
    }
    rows.finish();
}
