//! The webhook of the recorded conversions: the answers of failing steps are the recorded ones, all
//! others are converted as the recorder did.
//!
//! ```text
//! review ──recorded for these objects?──▶ the recorded answer, with the uids of here : converted here
//! ```
//!
//! The number of calls of a real server depends on its caches, so calls are not compared.

use std::sync::OnceLock;

use kinform_apiserver::Service;
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use crate::support::*;

const GROUP: &str = "/apis/conv.example.com";
/// Unrecorded actions of the recorder: story, step before which it acted, method, name.
const UNRECORDED: [(&str, usize, &str, &str); 4] = [
    ("conversion", 22, "PATCH", "a"),
    ("conversion", 22, "POST", "w"),
    ("conversion", 22, "DELETE", "w"),
    ("conversion", 24, "POST", "b"),
];

/// Returns whether a call is one of a conversion.
pub(super) fn is_review(call: &Value) -> bool {
    call["request"]["kind"] == "ConversionReview" || call["kind"] == "ConversionReview"
}

/// Returns the answer to a review: status and body, or `None` for a connection that is closed.
pub(super) fn answer(expected: &[Value], path: &str, review: &Value) -> Option<(u16, String)> {
    let names = |objects: &Value| -> Vec<Value> {
        let objects = objects.as_array().unwrap().iter();
        objects
            .map(|object| object["metadata"]["name"].clone())
            .collect()
    };
    let request = &review["request"];
    let is_it = |call: &&Value| {
        let recorded = &call["request"]["request"];
        is_review(call)
            && recorded["desiredAPIVersion"] == request["desiredAPIVersion"]
            && names(&recorded["objects"]) == names(&request["objects"])
            && ["/spec", "/status", "/metadata/labels"].iter().all(|part| {
                let of = |objects: &Value| objects[0].pointer(part).cloned();
                of(&recorded["objects"]) == of(&request["objects"])
            })
    };
    let Some(call) = expected.iter().find(is_it) else {
        return Some(match path {
            "/c" => (200, converted(review).to_string()),
            // The recorded webhook was not there.
            _ => (404, String::new()),
        });
    };
    let response = call["response"].as_object()?;
    let mut text = match &response["body"] {
        Value::String(text) => text.clone(),
        body => body.to_string(),
    };
    let recorded = &call["request"]["request"];
    let mut ours = |was: &Value, is: &Value| {
        if let (Some(was), Some(is)) = (was.as_str(), is.as_str()) {
            text = text.replace(was, is);
        }
    };
    ours(&recorded["uid"], &request["uid"]);
    let pairs = recorded["objects"].as_array().unwrap().iter();
    for (was, is) in pairs.zip(request["objects"].as_array().unwrap()) {
        ours(&was["metadata"]["uid"], &is["metadata"]["uid"]);
    }
    Some((response["status"].as_u64().unwrap() as u16, text))
}

fn converted(review: &Value) -> Value {
    let request = &review["request"];
    let to = request["desiredAPIVersion"].as_str().unwrap();
    let mut objects = request["objects"].clone();
    for object in objects.as_array_mut().unwrap() {
        object["apiVersion"] = Value::from(to);
        if let Some(spec) = object["spec"].as_object_mut() {
            convert(to, spec);
        }
    }
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": {
        "uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}})
}

fn convert(to: &str, spec: &mut Map<String, Value>) {
    let text = |value: Option<Value>| match value {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    if to.ends_with("v2") && spec.contains_key("hostPort") {
        let joined = text(spec.remove("hostPort"));
        let (host, port) = joined.split_once(':').unwrap_or((&joined, ""));
        spec.insert("host".to_owned(), Value::from(host));
        spec.insert("port".to_owned(), Value::from(port));
        spec.remove("mode");
    } else if to.ends_with("v1") && spec.contains_key("host") {
        let (host, port) = (text(spec.remove("host")), text(spec.remove("port")));
        spec.insert("hostPort".to_owned(), Value::from(format!("{host}:{port}")));
        spec.remove("extra");
    }
}

/// A body of these stories without versions in messages, tokens and ages.
pub(super) fn plain(story: &str, body: Value) -> Value {
    static CHANGING: OnceLock<Regex> = OnceLock::new();
    if !story.starts_with("conversion") {
        return body;
    }
    let changing = CHANGING
        .get_or_init(|| Regex::new(r#"revision=\d+|"continue":"[^"]+"|,"\d+s"\]"#).unwrap());
    let text = body.to_string();
    let text = changing.replace_all(&text, |found: &Captures<'_>| match &found[0] {
        of if of.starts_with("revision") => "revision=N".to_owned(),
        of if of.starts_with(',') => ",\"AGE\"]".to_owned(),
        _ => "\"continue\":\"TOKEN\"".to_owned(),
    });
    serde_json::from_str(&text).unwrap()
}

/// Makes a step a dry run whose success the recorded server did not have.
pub(super) fn leave_no_trace(step: (&str, usize), request: &mut Value) {
    if step == ("conversion", 14) {
        let path = request["path"].as_str().unwrap();
        request["path"] = Value::from(format!("{path}&dryRun=All"));
    }
}

/// Does what the recorder did before a step without recording it.
pub(super) async fn before(service: &Service, story: &str, step: usize) {
    let of = UNRECORDED
        .iter()
        .filter(|(of, at, ..)| (*of, *at) == (story, step));
    for (_, _, method, name) in of {
        let all = format!("{GROUP}/v1/namespaces/adm-conversion/knots");
        let one = format!("{all}/{name}");
        let made = json!({"apiVersion": "conv.example.com/v1", "kind": "Knot",
            "metadata": {"name": name, "labels": {"l": name}}, "spec": {"hostPort": "h:80"}});
        let (path, body) = match *method {
            "POST" => (all, made),
            "PATCH" => (one, json!({"metadata": {"labels": {"w": "1"}}})),
            _ => (one, Value::Null),
        };
        let sent = http::Request::builder().method(*method).uri(path);
        let media = match *method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let sent = sent
            .header("content-type", media)
            .header("user-agent", "golden");
        let body = match body {
            Value::Null => bytes::Bytes::new(),
            body => bytes::Bytes::from(body.to_string()),
        };
        let reply = service.call(sent.body(body).unwrap()).await;
        assert!(reply.status().is_success(), "{method} {name}");
        settled(service, story).await;
    }
}

/// Waits until the objects that a story converts are converted.
pub(super) async fn settled(service: &Service, story: &str) {
    if story == "conversion" {
        let path = format!("{GROUP}/v2/namespaces/adm-conversion/knots");
        get(service, &path).await;
    }
}
