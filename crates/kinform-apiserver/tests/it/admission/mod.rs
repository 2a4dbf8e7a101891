//! Admission compared with a real server's: the recorded stories are repeated here, webhooks answer as
//! they did, and replies, warnings and calls are compared.
//!
//! ```text
//! testdata/admission ──step by step──▶ Server + Hook ──▶ steps that are alike ──▶ docs/server-differences.md
//! ```
//!
//! Steps that differ on purpose are listed with their reason. A listed step that is alike fails the
//! test, and so does one that differs and is not listed.

mod conversion;
mod hook;
mod normal;
mod stories;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use bytes::Bytes;
use http::{HeaderMap, Request};
use kinform_apiserver::{Record, Server, Service, User};
use serde_json::{Value, json};

use self::hook::Hook;
use self::normal::{events, normal, plain, versions, with_versions};
use self::stories::{
    CLEANED, CLEANED_ONCE, CONFIGURATIONS, CONVERSIONS, DIFFERENCES, EMPTIED, PLUGINS, POLICIES,
    WEBHOOKS,
};
use crate::golden::report;
use crate::support::*;

fn story(name: &str) -> Value {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.push(format!("../../testdata/admission/{name}.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Tells a story. Returns the number of its steps, and those that differ with what differs.
async fn tell(name: &str) -> (usize, Vec<(usize, String)>) {
    let story = story(name);
    let hook = Hook::start().await;
    let mut builder = Server::builder().rbac();
    if name == "serviceaccount" {
        builder = builder.admission("ServiceAccount".parse().unwrap());
    }
    let server = builder.in_process();
    let admin = User::new("admin")
        .with_uid("admin-uid")
        .with_group("system:masters");
    let service = server.service_as(admin);
    let namespace = story["namespace"].as_str().unwrap();
    let made = json!({"metadata": {"name": namespace, "labels": stories::labels(name)}});
    let made = json!({"method": "POST", "path": "/api/v1/namespaces", "contentType": "application/json",
        "body": made});
    perform(&server, &service, &hook, &made).await;
    let mut differing = Vec::new();
    let mut known = HashMap::new();
    let steps = story["steps"].as_array().unwrap();
    for (at, step) in steps.iter().enumerate() {
        let calls = step["webhookCalls"].as_array().cloned().unwrap_or_default();
        conversion::before(&service, name, at).await;
        let prepares = step["setup"] == true || name == "webhook/configurations";
        // A binding follows its policy, a policy what was made for it.
        let before = at.checked_sub(1).map(|before| &steps[before]);
        let goes_on = before.is_some_and(|before| {
            let path = before["request"]["path"].as_str().unwrap();
            let is_part = path.contains("admissionpolic") || name == "policy/mutating";
            before["setup"] == true && is_part
        });
        let is_cleaned = CLEANED.contains(&name) || (name, at) == CLEANED_ONCE;
        if is_cleaned && prepares && !goes_on && step["request"]["method"] == "POST" {
            clean(&service, name, namespace).await;
        }
        prepare((&server, &service), &hook, (name, at)).await;
        hook.expect(&calls);
        let mut request = with_versions(&step["request"], &known);
        conversion::leave_no_trace((name, at), &mut request);
        let (code, headers, body) = perform(&server, &service, &hook, &request).await;
        if request["method"] != "GET" {
            conversion::settled(&service, name).await;
        }
        let body = events(&body);
        versions(&step["response"]["body"], &body, &mut known);
        let expected = &step["response"];
        let wanted = (
            expected["status"].as_u64().unwrap() as u16,
            warnings_of(&expected["headers"]["Warning"]),
            conversion::plain(name, normal(&hook, &events(&expected["body"]))),
        );
        let body = conversion::plain(name, normal(&hook, &body));
        let found = (code, warnings(&headers), body);
        let is_busy = calls.iter().any(|call| {
            let headers = &call["response"]["headers"];
            headers["Retry-After"].is_string()
        });
        let noted = PLUGINS
            .contains(&name)
            .then(|| notes(&server, step))
            .flatten();
        let what = difference(&wanted, &found).or(noted).or_else(|| {
            let called = |calls: &[Value]| {
                let mut calls: Vec<Value> = calls
                    .iter()
                    .filter(|call| !conversion::is_review(call))
                    .map(|call| normal(&hook, &plain(call)))
                    .collect();
                // Validating webhooks are called at the same time.
                calls.sort_by_key(|call| call["path"].to_string());
                if is_busy {
                    // Time decides how often it is asked again.
                    calls.dedup();
                }
                calls
            };
            let (wanted, found) = (called(&calls), called(&hook.came()));
            (wanted != found).then(|| {
                format!(
                    "calls\n  wanted {}\n  found  {}",
                    json!(wanted),
                    json!(found)
                )
            })
        });
        if let Some(what) = what {
            let note = step["note"].as_str().unwrap_or_default();
            differing.push((at, format!("{name}#{at} {note}: {what}")));
        }
    }
    (steps.len(), differing)
}

/// Makes what the recorder made without recording it, before a step.
async fn prepare(
    (server, service): (&Server, &Service),
    hook: &Hook,
    (story, step): (&str, usize),
) {
    let made = stories::unrecorded(story, step);
    hook.expect(&vec![stories::allowing(); made.len()]);
    for (path, object) in made {
        let request = json!({"method": "POST", "path": path, "contentType": "application/json",
            "body": object});
        let (status, _, reply) = perform(server, service, hook, &request).await;
        assert_eq!(status, 201, "{reply}");
    }
}

/// Deletes all configurations of admission, and what the recorder deleted with them.
async fn clean(service: &Service, story: &str, namespace: &str) {
    for plural in CONFIGURATIONS {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        send(service, http::Method::DELETE, &path, Value::Null).await;
    }
    for (_, plural) in EMPTIED.iter().filter(|(of, _)| *of == story) {
        let path = format!("/api/v1/namespaces/{namespace}/{plural}");
        send(service, http::Method::DELETE, &path, Value::Null).await;
    }
}

/// The difference of the annotations that admission made for an audit log.
fn notes(server: &Server, step: &Value) -> Option<String> {
    let recorded = step["auditAnnotations"].as_object();
    let is_ours = |key: &str| key.starts_with("pod-security.kubernetes.io/");
    let recorded = recorded.into_iter().flatten();
    let wanted: BTreeMap<String, String> = recorded
        .filter(|(key, _)| is_ours(key))
        .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
        .collect();
    let clients = |record: &Record| record.controller.is_none();
    let last = server.journal().records().into_iter().rfind(clients);
    let found = last.unwrap().annotations;
    (wanted != found).then(|| format!("notes\n  wanted {wanted:?}\n  found  {found:?}"))
}

type Reply = (u16, Vec<String>, Value);

fn difference(wanted: &Reply, found: &Reply) -> Option<String> {
    (wanted != found).then(|| {
        format!(
            "\n  wanted {} {:?} {}\n  found  {} {:?} {}",
            wanted.0, wanted.1, wanted.2, found.0, found.1, found.2
        )
    })
}

async fn perform(
    server: &Server,
    service: &Service,
    hook: &Hook,
    request: &Value,
) -> (u16, HeaderMap, Value) {
    let text = |name: &str| request[name].as_str();
    let body = match &request["body"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        body => body.to_string(),
    };
    let mut sent = Request::builder()
        .method(text("method").unwrap())
        .uri(text("path").unwrap())
        .header("user-agent", "golden");
    if let Some(media) = text("contentType") {
        sent = sent.header("content-type", media);
    }
    if let Some(accept) = text("accept") {
        sent = sent.header("accept", accept);
    }
    for (name, value) in request["headers"].as_object().into_iter().flatten() {
        sent = sent.header(name.as_str(), value.as_str().unwrap());
    }
    let sent = sent.body(Bytes::from(normal::sent(hook, &body))).unwrap();
    let reply = match text("user") {
        Some(user) => {
            let user = User::new(user).with_uid(format!("{user}-uid"));
            server.service_as(user).call(sent).await
        }
        None => service.call(sent).await,
    };
    let (head, body) = reply.into_parts();
    let body = body.collect().await.unwrap();
    let shown = || Value::from(String::from_utf8_lossy(&body).into_owned());
    let body = serde_json::from_slice(&body).unwrap_or_else(|_| shown());
    (head.status.as_u16(), head.headers, body)
}

fn warnings_of(recorded: &Value) -> Vec<String> {
    match recorded {
        Value::String(one) => vec![one.clone()],
        Value::Array(list) => list
            .iter()
            .map(|one| one.as_str().unwrap().to_owned())
            .collect(),
        _ => Vec::new(),
    }
}

fn warnings(headers: &HeaderMap) -> Vec<String> {
    let all = headers.get_all("warning").into_iter();
    all.map(|of| String::from_utf8_lossy(of.as_bytes()).into_owned())
        .collect()
}

/// Tells stories and compares their differing steps with the list.
async fn compare(folder: &str, stories: &[&str]) {
    let mut wrong = Vec::new();
    let (mut told, mut alike) = (0, 0);
    for name in stories {
        let (steps, mut differing) = tell(name).await;
        let of = DIFFERENCES.iter().filter(|(story, ..)| story == name);
        let listed: Vec<usize> = of.flat_map(|(_, steps, _)| steps.iter().copied()).collect();
        if differing.iter().any(|(at, _)| !listed.contains(at)) {
            // Webhooks have deadlines of a second: on a busy machine, only what differs twice counts.
            let (_, again) = tell(name).await;
            differing.retain(|(at, _)| again.iter().any(|(other, _)| other == at));
        }
        told += steps;
        alike += steps - differing.len();
        for (at, what) in &differing {
            if !listed.contains(at) {
                wrong.push(what.clone());
            }
        }
        let is_alike = |at: &&usize| differing.iter().all(|(differs, _)| differs != *at);
        wrong.extend(
            listed
                .iter()
                .filter(is_alike)
                .map(|at| format!("{name}#{at} is alike")),
        );
    }
    report::tell(folder, told, alike);
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_called_and_answered_as_by_a_real_server() {
    compare("admission/webhook", &WEBHOOKS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_decide_as_those_of_a_real_server() {
    compare("admission/policy", &POLICIES).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_converted_as_by_a_real_server() {
    compare("admission/conversion", &CONVERSIONS).await;
}

// Time stands still: creation times order classes and quotas, to the second.
#[tokio::test(start_paused = true)]
async fn plugins_change_and_refuse_as_those_of_a_real_server() {
    compare("admission/plugins", &PLUGINS).await;
}
