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

use std::collections::HashMap;
use std::path::PathBuf;

use bytes::Bytes;
use http::{HeaderMap, Request};
use kinform_apiserver::{Server, Service, User};
use serde_json::{Value, json};

use self::hook::Hook;
use self::normal::{events, normal, plain, versions, with_versions};
use crate::golden::report;
use crate::support::*;

/// Steps that differ: story, steps, and the reason.
const DIFFERENCES: &[(&str, &[usize], &str)] = &[
    (
        "policy/definitions",
        &[19],
        "the first mistake of an expression is told, there all are",
    ),
    (
        "policy/definitions",
        &[22],
        "an expression of more than 16 KiB is refused here",
    ),
    ("policy/definitions", &[51], "the age of the policy"),
    (
        "policy/mutating",
        &[13],
        "the value of another type is not shown",
    ),
    (
        "policy/validating",
        &[10],
        "the recorder's delete of the objects was still refused by the policy",
    ),
    (
        "conversion",
        &[1, 74, 80],
        "the recorded server has another name as a field manager",
    ),
    (
        "conversion",
        &[14],
        "there the partial objects of an apply are converted, too, and that fails; here they are not",
    ),
    (
        "conversion-broken",
        &[9, 13, 18],
        "the recorded server has another name as a field manager",
    ),
    (
        "conversion-broken",
        &[15],
        "the reason is told, where a real server says that its storage is not ready",
    ),
    (
        "conversion-broken",
        &[16, 17, 19],
        "an object is removed through its own version, and with its definition, without a conversion",
    ),
    (
        "builtin",
        &[2, 3, 4],
        "the recorder made a namespace without recording it",
    ),
    (
        "builtin",
        &[19],
        "not yet: names of priority classes that are the system's",
    ),
    (
        "builtin",
        &[28, 37],
        "both classes are made within one second here: the first by name is taken",
    ),
    (
        "builtin",
        &[35],
        "not yet: the warning about an old annotation",
    ),
    (
        "limitrange",
        &[10],
        "a real server reports errors of several resources in random order",
    ),
    (
        "limitrange",
        &[22, 26],
        "not yet: some checks of a limit range",
    ),
    (
        "resourcequota",
        &[5, 12, 14, 28, 35],
        "the owners wrote within one second here: their order is by name",
    ),
    ("resourcequota", &[22, 24], "addresses are random"),
    ("resourcequota", &[29], "the age depends on the time"),
    (
        "resourcequota",
        &[40, 41, 42],
        "not yet: some checks of a quota",
    ),
    (
        "webhook/configurations",
        &[1, 15, 16, 17, 21, 27, 29, 30, 31],
        "not yet: some checks of a configuration",
    ),
    (
        "webhook/configurations",
        &[47],
        "not yet: the warning about rules that never match",
    ),
    (
        "webhook/custom",
        &[9],
        "what a webhook adds beyond the schema is dropped before the next one is asked",
    ),
    (
        "webhook/custom",
        &[16],
        "another message for another version",
    ),
    (
        "webhook/custom",
        &[23],
        "a scale has no owners of its fields here",
    ),
    (
        "webhook/exempt",
        &[11],
        "the recorded API service is the server's own here",
    ),
    (
        "webhook/exempt",
        &[8],
        "the recorded token is not one of this server",
    ),
    (
        "webhook/failures-validating",
        &[124, 125, 126, 127],
        "not yet: some checks of a configuration",
    ),
    (
        "webhook/match-policy-mutating",
        &[1],
        "the versions of autoscalers are stored apart here",
    ),
    (
        "webhook/match-policy",
        &[2, 4],
        "the versions of autoscalers are stored apart here",
    ),
    (
        "webhook/mutating-workload",
        &[1, 11, 12, 13],
        "the recorded patch is not whole: the recorder took a part of it for a token",
    ),
    (
        "webhook/mutating-workload",
        &[8],
        "a scale has no owners of its fields here",
    ),
    (
        "webhook/mutating",
        &[7],
        "the recorded patch is not whole: the recorder took it for a token",
    ),
    (
        "webhook/mutating",
        &[9],
        "what a parser says of malformed JSON is its own",
    ),
    (
        "webhook/mutating",
        &[20],
        "another message for another kind",
    ),
    (
        "webhook/operations",
        &[3],
        "the rights of the recorded user are not here",
    ),
    (
        "webhook/operations",
        &[15],
        "the collector is here, and nothing depended on the object",
    ),
    (
        "webhook/operations",
        &[17, 19, 20],
        "the recorder made the objects without recording it",
    ),
    (
        "webhook/operations",
        &[23, 32],
        "not yet: the whole metadata of an action's object",
    ),
    (
        "webhook/operations",
        &[26, 27, 28, 31, 33, 34],
        "there is no node behind this server",
    ),
    (
        "webhook/operations",
        &[29, 30],
        "not yet: the path of a proxied request",
    ),
    (
        "webhook/operations",
        &[37],
        "the default account is not made here yet",
    ),
    (
        "webhook/operations",
        &[40, 41],
        "the recorder labelled the namespace in another way",
    ),
    (
        "webhook/selectors",
        &[6],
        "the recorder made a namespace without recording it",
    ),
    (
        "webhook/service",
        &[2, 5, 8, 11],
        "the recorder labelled the namespace in another way",
    ),
];

/// The stories of webhooks.
const WEBHOOKS: [&str; 17] = [
    "webhook/configurations",
    "webhook/custom",
    "webhook/dry-run",
    "webhook/exempt",
    "webhook/failures-mutating",
    "webhook/failures-validating",
    "webhook/match-conditions",
    "webhook/match-policy-mutating",
    "webhook/match-policy",
    "webhook/mutating-workload",
    "webhook/mutating",
    "webhook/operations",
    "webhook/order",
    "webhook/reinvocation",
    "webhook/selectors",
    "webhook/service",
    "webhook/validating",
];

/// The stories of policies.
const POLICIES: [&str; 4] = [
    "policy/definitions",
    "policy/mutating",
    "policy/params",
    "policy/validating",
];

/// The stories of conversion between versions.
const CONVERSIONS: [&str; 4] = [
    "conversion",
    "conversion-broken",
    "conversion-definitions",
    "conversion-none",
];

/// The stories of compiled-in plugins.
const PLUGINS: [&str; 3] = ["builtin", "limitrange", "resourcequota"];

/// Stories between whose steps the recorder removed its configurations.
const CLEANED: [&str; 8] = [
    "policy/mutating",
    "policy/params",
    "policy/validating",
    "webhook/configurations",
    "webhook/failures-mutating",
    "webhook/failures-validating",
    "webhook/match-conditions",
    "webhook/service",
];

/// The step of another story before which it removed them.
const CLEANED_ONCE: (&str, usize) = ("webhook/custom", 31);

/// Stories in which the recorder removed objects, too, and their resource.
const EMPTIED: [(&str, &str); 4] = [
    ("policy/mutating", "configmaps"),
    ("policy/params", "secrets"),
    ("policy/validating", "configmaps"),
    ("webhook/match-conditions", "configmaps"),
];

const CONFIGURATIONS: [&str; 6] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

fn story(name: &str) -> Value {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.push(format!("../../testdata/admission/{name}.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Tells a story. Returns the number of its steps, and those that differ with what differs.
async fn tell(name: &str) -> (usize, Vec<(usize, String)>) {
    let story = story(name);
    let hook = Hook::start().await;
    let server = Server::builder().rbac().in_process();
    let admin = User::new("admin")
        .with_uid("admin-uid")
        .with_group("system:masters");
    let service = server.service_as(admin);
    let namespace = story["namespace"].as_str().unwrap();
    let label = namespace.trim_start_matches("adm-");
    let made = json!({"metadata": {"name": namespace, "labels": {"story": label, "env": "prod"}}});
    let made = json!({"method": "POST", "path": "/api/v1/namespaces", "contentType": "application/json",
        "body": made});
    perform(&server, &service, &hook, &made).await;
    prepare(&service, name, namespace).await;
    let mut differing = Vec::new();
    let mut known = HashMap::new();
    let steps = story["steps"].as_array().unwrap();
    for (at, step) in steps.iter().enumerate() {
        let calls = step["webhookCalls"].as_array().cloned().unwrap_or_default();
        conversion::before(&service, name, at).await;
        hook.expect(&calls);
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
        let what = difference(&wanted, &found).or_else(|| {
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

/// Makes what the recorder made without recording it.
async fn prepare(service: &Service, story: &str, namespace: &str) {
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    let made = match story {
        "policy/validating" => vec![
            (
                format!("{roles}/roles"),
                json!({"metadata": {"name": "lim"}, "rules": [{"apiGroups": [""],
                    "resources": ["configmaps"], "verbs": ["create", "get"]}]}),
            ),
            (
                format!("{roles}/rolebindings"),
                json!({"metadata": {"name": "lim"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lim"},
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
                        "name": "limited"}]}),
            ),
        ],
        "policy/params" => vec![(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            json!({"metadata": {"name": "limits.params.example.com"}, "spec": {
                "group": "params.example.com", "scope": "Namespaced",
                "names": {"kind": "Limit", "plural": "limits"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema":
                    {"openAPIV3Schema": {"type": "object",
                        "properties": {"max": {"type": "integer"}}}}}]}}),
        )],
        _ => Vec::new(),
    };
    for (path, object) in made {
        let (status, reply) = send(service, http::Method::POST, &path, object).await;
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
        let (steps, differing) = tell(name).await;
        told += steps;
        alike += steps - differing.len();
        let of = DIFFERENCES.iter().filter(|(story, ..)| story == name);
        let listed: Vec<usize> = of.flat_map(|(_, steps, _)| steps.iter().copied()).collect();
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

#[tokio::test(flavor = "multi_thread")]
async fn plugins_change_and_refuse_as_those_of_a_real_server() {
    compare("admission/plugins", &PLUGINS).await;
}
