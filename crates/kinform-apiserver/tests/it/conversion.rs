//! Conversion webhooks as functions of the test, under paused time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use kinform_apiserver::{Server, Service};
use serde_json::{Value, json};

use crate::support::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MERGE: &str = "application/merge-patch+json";

fn objects(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/a/cups")
}

/// Cups: `v1` has `size` in words, `v2` in numbers. `v1` is stored.
fn definition() -> Value {
    let version = |name: &str, of: &str, more: Value| {
        let mut properties = json!({"size": {"type": of}, "note": {"type": "string"}});
        for (name, value) in more.as_object().unwrap() {
            properties[name] = value.clone();
        }
        let spec = json!({"type": "object", "properties": properties});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": schema}})
    };
    json!({"metadata": {"name": "cups.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "cups", "kind": "Cup"},
        "versions": [
            version("v1", "string", json!({"lid": {"type": "boolean", "default": false}})),
            version("v2", "integer", json!({"hue": {"type": "string", "default": "red"}})),
        ],
        "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "hooks", "name": "cups"}}}}}})
}

/// The webhook: what it was asked, and whether it is down.
#[derive(Clone, Default)]
struct Hook {
    batches: Arc<Mutex<Vec<(String, usize)>>>,
    mood: Arc<AtomicUsize>,
}

const UP: usize = 0;
const DOWN: usize = 1;
const RENAMING: usize = 2;
const SILENT: usize = 3;

impl Hook {
    fn is(&self, mood: usize) {
        self.mood.store(mood, Ordering::SeqCst);
    }

    fn calls(&self) -> usize {
        self.batches.lock().unwrap().len()
    }

    fn on(server: &Server) -> Self {
        let hook = Self::default();
        let ours = hook.clone();
        server.webhook("hooks", "cups", move |request: Request<Bytes>| {
            let review: Value = serde_json::from_slice(request.body()).unwrap();
            let mood = ours.mood.load(Ordering::SeqCst);
            let asked = &review["request"];
            let to = asked["desiredAPIVersion"].as_str().unwrap().to_owned();
            let count = asked["objects"].as_array().unwrap().len();
            ours.batches.lock().unwrap().push((to, count));
            async move {
                if mood == SILENT {
                    std::future::pending::<()>().await;
                }
                Response::new(Bytes::from(answered(&review, mood).to_string()))
            }
        });
        hook
    }
}

fn answered(review: &Value, mood: usize) -> Value {
    let asked = &review["request"];
    if mood == DOWN {
        let result = json!({"status": "Failed", "message": "down"});
        return json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview",
            "response": {"uid": asked["uid"], "result": result}});
    }
    let to = &asked["desiredAPIVersion"];
    let mut converted = asked["objects"].clone();
    for object in converted.as_array_mut().unwrap() {
        assert!(object["metadata"].get("resourceVersion").is_none());
        object["apiVersion"] = to.clone();
        let size = object["spec"]["size"].clone();
        object["spec"]["size"] = match &size {
            Value::String(word) => Value::from(word.len()),
            Value::Number(number) => Value::from("x".repeat(number.as_u64().unwrap() as usize)),
            _ => size,
        };
        object["metadata"]["generation"] = json!(77);
        object["spec"]["unknown"] = json!("pruned");
        if mood == RENAMING {
            object["metadata"]["name"] = json!("other");
        }
    }
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": {
        "uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": converted}})
}

async fn cups() -> (Server, Service, Hook) {
    let (server, service) = server().await;
    let hook = Hook::on(&server);
    let (code, reply) = send(&service, Method::POST, DEFINITIONS, definition()).await;
    assert_eq!(code, 201, "{reply}");
    assert_eq!(
        reply["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"],
        443
    );
    (server, service, hook)
}

async fn make(service: &Service, version: &str, name: &str, size: Value) -> (u16, Value) {
    let body = json!({"apiVersion": format!("example.com/{version}"), "kind": "Cup",
        "metadata": {"name": name}, "spec": {"size": size}});
    send(service, Method::POST, &objects(version), body).await
}

async fn patch(service: &Service, path: &str, media: &str, body: Value) -> (u16, Value) {
    let request = Request::patch(path).header("content-type", media);
    let request = request.body(Bytes::from(body.to_string())).unwrap();
    let reply = service.call(request).await;
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap();
    (code, serde_json::from_slice(&body).unwrap())
}

fn sizes(list: &Value) -> Vec<Value> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["spec"]["size"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_verb_of_the_other_version_converts_and_the_stored_one_calls_nobody() {
    let (_server, service, hook) = cups().await;
    let (code, made) = make(&service, "v1", "one", json!("xx")).await;
    assert_eq!((code, hook.calls()), (201, 0), "{made}");
    let (_, seen) = get(&service, &format!("{}/one", objects("v2"))).await;
    // Neither validated nor given defaults of the version; the metadata is the original's.
    assert_eq!(seen["spec"], json!({"size": 2}));
    assert_eq!(seen["apiVersion"], "example.com/v2");
    assert_eq!(seen["metadata"]["generation"], 1);
    assert_eq!(seen["metadata"]["uid"], made["metadata"]["uid"]);
    let (code, made) = make(&service, "v2", "two", json!(3)).await;
    assert_eq!((code, &made["spec"]), (201, &json!({"size": 3})), "{made}");
    let (code, refused) = make(&service, "v2", "bad", json!("word")).await;
    assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")));
    let before = hook.calls();
    let (_, seen) = get(&service, &format!("{}/two", objects("v1"))).await;
    assert_eq!(seen["spec"], json!({"size": "xxx", "lid": false}));
    assert_eq!(hook.calls(), before);
    let two = format!("{}/two", objects("v2"));
    let (code, seen) = patch(&service, &two, MERGE, json!({"spec": {"size": 4}})).await;
    assert_eq!((code, &seen["spec"]["size"]), (200, &json!(4)), "{seen}");
    let mut changed = seen.clone();
    changed["spec"]["size"] = json!(5);
    let (code, seen) = send(&service, Method::PUT, &two, changed).await;
    assert_eq!((code, &seen["spec"]["size"]), (200, &json!(5)), "{seen}");
    let applied = json!({"apiVersion": "example.com/v2", "kind": "Cup",
        "metadata": {"name": "two"}, "spec": {"note": "mine"}});
    let apply = "application/apply-patch+yaml";
    let path = format!("{two}?fieldManager=me");
    let (code, seen) = patch(&service, &path, apply, applied).await;
    assert_eq!(
        (code, &seen["spec"]["note"]),
        (200, &json!("mine")),
        "{seen}"
    );
    let (_, seen) = get(&service, &format!("{}/two", objects("v1"))).await;
    assert_eq!(
        seen["spec"],
        json!({"size": "xxxxx", "lid": false, "note": "mine"})
    );
    let (code, _) = send(&service, Method::DELETE, &two, Value::Null).await;
    assert_eq!(code, 200);
    let (code, gone) = send(&service, Method::DELETE, &objects("v2"), Value::Null).await;
    assert_eq!((code, sizes(&gone)), (200, vec![json!(2)]));
}

#[tokio::test(start_paused = true)]
async fn lists_convert_in_batches_and_watches_go_on_from_any_version() {
    let (server, service, hook) = cups().await;
    let mut first = 0;
    for n in 0..300 {
        let (code, made) = make(&service, "v1", &format!("c{n:03}"), json!("x")).await;
        assert_eq!(code, 201);
        first = if n == 0 { version(&made) } else { first };
    }
    let (code, list) = get(&service, &format!("{}?limit=2", objects("v2"))).await;
    assert_eq!((code, sizes(&list)), (200, vec![json!(1), json!(1)]));
    assert_eq!(list["metadata"]["remainingItemCount"], 298);
    let counts: Vec<usize> = hook
        .batches
        .lock()
        .unwrap()
        .iter()
        .map(|(_, of)| *of)
        .collect();
    assert_eq!(counts.iter().sum::<usize>(), 300);
    assert!(counts.len() <= 3, "{counts:?}");
    let token = list["metadata"]["continue"].as_str().unwrap();
    let next = format!("{}?limit=2&continue={token}", objects("v2"));
    let (_, list) = get(&service, &next).await;
    assert_eq!(list["items"][0]["metadata"]["name"], "c002");
    assert_eq!(hook.calls(), counts.len(), "a page is no call");
    // The mirror was made long after this version.
    let path = format!("{}?watch=true&resourceVersion={first}", objects("v2"));
    let mut watch = Watch::open(&service, &path).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["object"]["metadata"]["name"], "c001");
    assert_eq!(event["object"]["spec"]["size"], 1);
    for _ in 2..300 {
        watch.next().await.unwrap();
    }
    make(&service, "v1", "late", json!("xxxx")).await;
    let event = watch.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["spec"]["size"]),
        (&json!("ADDED"), &json!(4))
    );
    let path = format!("{}/late", objects("v1"));
    send(&service, Method::DELETE, &path, Value::Null).await;
    let event = watch.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["spec"]["size"]),
        (&json!("DELETED"), &json!(4))
    );
    server.expire_history();
    let (code, _) = get(&service, &next).await;
    assert_eq!(code, 410);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_is_down_fails_gets_and_writes_but_not_lists_and_watches() {
    let (_server, service, hook) = cups().await;
    make(&service, "v1", "one", json!("x")).await;
    let path = format!("{}?watch=true&resourceVersion=0", objects("v2"));
    let mut watch = Watch::open(&service, &path).await;
    assert_eq!(watch.next().await.unwrap()["object"]["spec"]["size"], 1);
    hook.is(DOWN);
    let one = format!("{}/one", objects("v2"));
    let (code, refused) = get(&service, &one).await;
    assert_eq!((code, &refused["reason"]), (500, &json!("InternalError")));
    let why = "conversion webhook for example.com/v1, Kind=Cup failed: down";
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("Internal error occurred: StorageError: corrupt object, Code: 7"));
    assert!(message.ends_with(why), "{message}");
    let (code, refused) = make(&service, "v2", "two", json!(3)).await;
    let why = "conversion webhook for example.com/v2, Kind=Cup failed: down";
    assert_eq!((code, &refused["message"]), (500, &json!(why)));
    let (code, refused) = patch(&service, &one, MERGE, json!({"spec": {"size": 4}})).await;
    assert_eq!((code, &refused["message"]), (500, &json!(why)));
    let (code, _) = send(&service, Method::DELETE, &one, Value::Null).await;
    assert_eq!(code, 500);
    let (code, list) = get(&service, &objects("v2")).await;
    assert_eq!((code, sizes(&list)), (200, vec![json!(1)]));
    // What is written meanwhile is not there yet: a consistent list waits for it, and gives up.
    make(&service, "v1", "late", json!("xx")).await;
    let (code, refused) = get(&service, &objects("v2")).await;
    assert_eq!(
        (code, &refused["reason"]),
        (500, &json!("StorageReadError")),
        "{refused}"
    );
    let stale = format!("{}?resourceVersion=0", objects("v2"));
    let (code, list) = get(&service, &stale).await;
    assert_eq!((code, sizes(&list)), (200, vec![json!(1)]));
    hook.is(UP);
    let event = watch.next().await.unwrap();
    assert_eq!(event["object"]["spec"]["size"], 2, "no event was lost");
    let (code, list) = get(&service, &objects("v2")).await;
    assert_eq!((code, sizes(&list)), (200, vec![json!(2), json!(1)]));
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_lasts_ends_the_watches_and_they_begin_anew() {
    let (_server, service, hook) = cups().await;
    make(&service, "v1", "one", json!("x")).await;
    let path = format!("{}?watch=true&resourceVersion=0", objects("v2"));
    let mut watch = Watch::open(&service, &path).await;
    watch.next().await.unwrap();
    hook.is(DOWN);
    let one = format!("{}/one", objects("v1"));
    let (code, _) = patch(&service, &one, MERGE, json!({"spec": {"size": "xxx"}})).await;
    assert_eq!(code, 200);
    tokio::time::sleep(Duration::from_secs(60)).await;
    hook.is(UP);
    assert!(
        watch.next().await.is_none(),
        "it would have to skip what was history"
    );
    let mut watch = Watch::open(&service, &path).await;
    assert_eq!(watch.next().await.unwrap()["object"]["spec"]["size"], 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_another_object_is_refused_and_nothing_is_stored() {
    let (server, service, hook) = cups().await;
    hook.is(RENAMING);
    let (code, refused) = make(&service, "v2", "two", json!(3)).await;
    let why = "conversion webhook for example.com/v2, Kind=Cup returned invalid object: must have the \
               same name: two != other";
    assert_eq!((code, &refused["message"]), (500, &json!(why)));
    assert!(server.objects("cups.example.com").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_never_answers_ends_a_request_after_its_thirty_seconds() {
    let (_server, service, hook) = cups().await;
    make(&service, "v1", "one", json!("x")).await;
    hook.is(SILENT);
    let begun = tokio::time::Instant::now();
    let (code, refused) = get(&service, &format!("{}/one", objects("v2"))).await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(code, 500);
    assert!(message.ends_with("context deadline exceeded"), "{message}");
    assert_eq!(begun.elapsed().as_secs(), 30);
    let (code, refused) = get(&service, &objects("v2")).await;
    assert_eq!(
        (code, &refused["reason"]),
        (500, &json!("StorageReadError"))
    );
    let path = format!(
        "{}?watch=true&resourceVersion=0&timeoutSeconds=60",
        objects("v2")
    );
    let mut watch = Watch::open(&service, &path).await;
    assert!(watch.within(Duration::from_secs(5)).await.is_empty());
    hook.is(UP);
    assert_eq!(watch.next().await.unwrap()["object"]["spec"]["size"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_storage_version_leaves_objects_as_they_are_until_they_are_written() {
    let (_server, service, hook) = cups().await;
    make(&service, "v1", "old", json!("xx")).await;
    get(&service, &objects("v2")).await;
    let definition = format!("{DEFINITIONS}/cups.example.com");
    let swap = json!([{"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true}]);
    let (code, reply) = patch(&service, &definition, "application/json-patch+json", swap).await;
    assert_eq!(code, 200, "{reply}");
    assert_eq!(reply["status"]["storedVersions"], json!(["v1", "v2"]));
    make(&service, "v2", "new", json!(4)).await;
    let before = hook.calls();
    let old = format!("{}/old", objects("v1"));
    let (_, seen) = get(&service, &old).await;
    assert_eq!(seen["spec"]["size"], "xx");
    let (_, seen) = get(&service, &format!("{}/new", objects("v2"))).await;
    assert_eq!((&seen["spec"]["size"], hook.calls()), (&json!(4), before));
    for (version, wanted) in [("v1", json!(["xxxx", "xx"])), ("v2", json!([4, 2]))] {
        let (code, list) = get(&service, &objects(version)).await;
        assert_eq!((code, Value::from(sizes(&list))), (200, wanted));
    }
    let (_, before) = get(&service, &old).await;
    let (code, after) = patch(&service, &old, MERGE, json!({})).await;
    assert_eq!(code, 200, "{after}");
    assert_ne!(
        version(&after),
        version(&before),
        "it was stored in the new version"
    );
    let calls = hook.calls();
    let old = format!("{}/old", objects("v2"));
    let (_, seen) = get(&service, &old).await;
    assert_eq!((&seen["spec"]["size"], hook.calls()), (&json!(2), calls));
    let (_, again) = patch(&service, &old, MERGE, json!({})).await;
    assert_eq!(version(&again), version(&after), "once is enough");
    // No reader sees how the server remembers a version.
    assert!(!seen.to_string().contains("kinform.dev"), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_of_admission_for_one_version_is_asked_about_writes_of_the_other() {
    let (server, service, _hook) = cups().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    server.webhook("hooks", "admission", move |request: Request<Bytes>| {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        kept.lock()
            .unwrap()
            .push(review["request"]["object"]["spec"]["size"].clone());
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        let body = json!({"apiVersion": review["apiVersion"], "kind": review["kind"],
            "response": response});
        async move { Response::new(Bytes::from(body.to_string())) }
    });
    let configuration = json!({"metadata": {"name": "v"}, "webhooks": [{"name": "v.example.com",
        "clientConfig": {"service": {"namespace": "hooks", "name": "admission"}},
        "rules": [{"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"],
            "resources": ["cups"]}],
        "admissionReviewVersions": ["v1"], "sideEffects": "None"}]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let (code, reply) = send(&service, Method::POST, path, configuration).await;
    assert_eq!(code, 201, "{reply}");
    let (code, reply) = make(&service, "v2", "two", json!(3)).await;
    assert_eq!(code, 201, "{reply}");
    assert_eq!(*seen.lock().unwrap(), [json!("xxx")]);
}

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

#[tokio::test(start_paused = true)]
async fn a_parameter_of_another_version_is_converted_for_its_policy() {
    let (_server, service, _hook) = cups().await;
    let (code, reply) = make(&service, "v1", "limit", json!("xxx")).await;
    assert_eq!(code, 201, "{reply}");
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "paramKind": {"apiVersion": "example.com/v2", "kind": "Cup"},
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "size(object.data) < params.spec.size"}]}});
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p",
        "validationActions": ["Deny"],
        "paramRef": {"namespace": "a", "name": "limit", "parameterNotFoundAction": "Deny"}}});
    for (plural, object) in [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ] {
        let path = format!("{ADMISSION}/{plural}");
        let (code, reply) = send(&service, Method::POST, &path, object).await;
        assert_eq!(code, 201, "{reply}");
    }
    let maps = "/api/v1/namespaces/a/configmaps";
    let map = |data: Value| json!({"metadata": {"generateName": "m-"}, "data": data});
    let two = map(json!({"a": "1", "b": "2"}));
    let (code, reply) = send(&service, Method::POST, maps, two).await;
    assert_eq!(code, 201, "{reply}");
    let three = map(json!({"a": "1", "b": "2", "c": "3"}));
    let (code, reply) = send(&service, Method::POST, maps, three).await;
    assert_eq!(code, 422, "{reply}");
}

#[tokio::test(start_paused = true)]
async fn what_a_mutating_policy_only_looks_at_is_not_converted_back() {
    let (_server, service, hook) = cups().await;
    let (code, reply) = make(&service, "v2", "first", json!(3)).await;
    assert_eq!(code, 201, "{reply}");
    let calls = hook.calls();
    let policy = json!({"metadata": {"name": "p"}, "spec": {"reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [{"apiGroups": ["example.com"],
            "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["cups"]}]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression":
            "object.spec.size == 'x' ? [JSONPatch{op: 'add', path: '/spec/size', value: 'xx'}] \
             : []"}}]}});
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p"}});
    for (plural, object) in [
        ("mutatingadmissionpolicies", policy),
        ("mutatingadmissionpolicybindings", binding),
    ] {
        let path = format!("{ADMISSION}/{plural}");
        let (code, reply) = send(&service, Method::POST, &path, object).await;
        assert_eq!(code, 201, "{reply}");
    }
    let before = hook.calls();
    let (code, reply) = make(&service, "v2", "second", json!(3)).await;
    assert_eq!((code, &reply["spec"]["size"]), (201, &json!(3)), "{reply}");
    // As many as without the policy, and one to look.
    assert_eq!(hook.calls() - before, calls + 1);
    let before = hook.calls();
    let (code, reply) = make(&service, "v2", "third", json!(1)).await;
    assert_eq!((code, &reply["spec"]["size"]), (201, &json!(2)), "{reply}");
    assert_eq!(hook.calls() - before, calls + 2);
}

#[tokio::test(start_paused = true)]
async fn a_changed_definition_is_converted_by_its_new_webhook_and_a_deleted_one_ends_its_watches() {
    let (server, service, hook) = cups().await;
    make(&service, "v1", "one", json!("x")).await;
    let path = format!("{}?watch=true&resourceVersion=0", objects("v2"));
    let mut watch = Watch::open(&service, &path).await;
    watch.next().await.unwrap();
    hook.is(DOWN);
    let other = Hook::default();
    let ours = other.clone();
    server.webhook("hooks", "others", move |request: Request<Bytes>| {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        ours.batches.lock().unwrap().push((String::new(), 0));
        async move { Response::new(Bytes::from(answered(&review, UP).to_string())) }
    });
    let definition = format!("{DEFINITIONS}/cups.example.com");
    let client = json!({"service": {"namespace": "hooks", "name": "others"}});
    let change = json!({"spec": {"conversion": {"webhook": {"clientConfig": client}}}});
    let (code, reply) = patch(&service, &definition, MERGE, change).await;
    assert_eq!(code, 200, "{reply}");
    assert!(watch.next().await.is_none());
    let mut watch = Watch::open(&service, &path).await;
    assert_eq!(watch.next().await.unwrap()["object"]["spec"]["size"], 1);
    assert_eq!(other.calls(), 1);
    let (code, _) = send(&service, Method::DELETE, &definition, Value::Null).await;
    assert_eq!(code, 200);
    assert_eq!(watch.next().await.unwrap()["type"], "DELETED");
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_dump_keeps_its_version_and_asks_no_webhook() {
    let (server, service, hook) = cups().await;
    let object = json!({"apiVersion": "example.com/v2", "kind": "Cup", "metadata": {
        "name": "old", "namespace": "a", "uid": "u"}, "spec": {"size": 3}});
    server.restore(object).unwrap();
    assert_eq!(hook.calls(), 0);
    let definition = format!("{DEFINITIONS}/cups.example.com");
    let (_, definition) = get(&service, &definition).await;
    assert_eq!(definition["status"]["storedVersions"], json!(["v1", "v2"]));
    let (_, seen) = get(&service, &format!("{}/old", objects("v2"))).await;
    assert_eq!((&seen["spec"]["size"], hook.calls()), (&json!(3), 0));
    let (_, seen) = get(&service, &format!("{}/old", objects("v1"))).await;
    assert_eq!(seen["spec"]["size"], "xxx");
    let (_, list) = get(&service, &objects("v1")).await;
    assert_eq!(sizes(&list), [json!("xxx")]);
}
