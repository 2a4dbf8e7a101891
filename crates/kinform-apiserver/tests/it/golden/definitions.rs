//! Definitions with odd schemas and their objects: refused ones, values of every type and format, lists,
//! combinations, defaults, rules, ratcheting, several versions, names that are taken, deletion.
//!
//! A real server tells several errors of one object in any order, so they are compared sorted.

use bytes::Bytes;
use http::{Method, Request};
use kinform_apiserver::{Server, Service};
use serde_json::{Value, json};

use super::Rows;
use super::recorded::{Comparison, Exchange, Objects, exchanges, recorded_warnings, request};

/// Sends a request; gives code, body and warnings.
async fn send(service: &Service, exchange: &Exchange) -> (u16, String, Vec<String>) {
    let mut request = Request::builder()
        .method(exchange.method.parse::<Method>().unwrap())
        .uri(&exchange.path)
        .header("user-agent", "golden/1")
        .header("accept", &exchange.accept);
    if let Some(content_type) = &exchange.content_type {
        request = request.header("content-type", content_type);
    }
    let body = exchange.request.clone().unwrap_or_default();
    let reply = service.call(request.body(Bytes::from(body)).unwrap()).await;
    let code = reply.status().as_u16();
    let warnings = reply.headers().get_all("warning").into_iter();
    let warnings = warnings.map(|value| value.to_str().unwrap().to_owned());
    let warnings = warnings.collect();
    let body = reply.into_body().collect().await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap(), warnings)
}

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
    let server = Server::builder().in_process();
    let service = server.service();
    let namespace = json!({"metadata": {"name": "odd"}});
    send(&service, &request("POST", "/api/v1/namespaces", namespace)).await;
    let mut rows = Rows::default();
    let mut comparison = Comparison::new(Objects::Written);
    for (exchange, recorded) in exchanges("definitions")
        .iter()
        .zip(recorded_warnings("definitions"))
    {
        let (code, body, warnings) = send(&service, exchange).await;
        let mut differences = comparison.bodies(&sorted(&exchange.body), &sorted(&body));
        differences.extend(super::status(exchange.status, code));
        if recorded != warnings {
            differences.push(format!("warnings: {recorded:?} / {warnings:?}"));
        }
        rows.row(exchange, &differences);
    }
    rows.finish(450);
}
