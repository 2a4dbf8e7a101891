//! Admission webhooks as functions of the test, under paused time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use kinform_apiserver::{Server, Service};
use serde_json::{Value, json};

use crate::support::*;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The reviews that a webhook was sent.
type Reviews = Arc<Mutex<Vec<Value>>>;

/// Answers the calls of the service `hooks/NAME`, and keeps their requests.
fn answer(
    server: &Server,
    name: &str,
    response: impl Fn(&Value) -> Value + Send + Sync + 'static,
) -> Reviews {
    let reviews = Reviews::default();
    let kept = reviews.clone();
    server.webhook("hooks", name, move |request: Request<Bytes>| {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        kept.lock().unwrap().push(review["request"].clone());
        let mut said = response(&review["request"]);
        said["uid"] = review["request"]["uid"].clone();
        let body =
            json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": said});
        async move { Response::new(Bytes::from(body.to_string())) }
    });
    reviews
}

fn webhook(name: &str, operations: Value, more: Value) -> Value {
    let mut webhook = json!({
        "name": format!("{name}.example.com"),
        "clientConfig": {"service": {"namespace": "hooks", "name": name, "path": "/w"}},
        "rules": [{"operations": operations, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
        "admissionReviewVersions": ["v1"], "sideEffects": "None",
    });
    for (key, value) in more.as_object().unwrap() {
        webhook[key] = value.clone();
    }
    webhook
}

async fn configure(service: &Service, kind: &str, name: &str, webhooks: Vec<Value>) {
    let body = json!({"metadata": {"name": name}, "webhooks": webhooks});
    let path = format!("{CONFIGURATIONS}/{kind}webhookconfigurations");
    let (code, reply) = send(service, Method::POST, &path, body).await;
    assert_eq!(code, 201, "{reply}");
}

fn patch(operations: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

fn count(reviews: &Reviews) -> usize {
    reviews.lock().unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn s14_a_validating_webhook_is_asked_about_every_write_and_its_denial_counts() {
    let (server, service) = server().await;
    let reviews = answer(&server, "v", |request| {
        let object = match request["operation"].as_str() {
            Some("DELETE") => &request["oldObject"],
            _ => &request["object"],
        };
        let bad = object["data"]["bad"] == "yes";
        json!({"allowed": !bad, "status": {"code": 403, "reason": "Forbidden", "message": "bad data"},
            "warnings": ["seen"]})
    });
    let (code, _) = send(
        &service,
        Method::POST,
        MAPS,
        json!({"metadata": {"name": "before"}, "data": {"bad": "yes"}}),
    )
    .await;
    assert_eq!(code, 201);
    configure(
        &service,
        "validating",
        "v",
        vec![webhook("v", json!(["*"]), json!({}))],
    )
    .await;
    let (code, reply) = send(
        &service,
        Method::POST,
        MAPS,
        json!({"metadata": {"name": "a"}, "data": {"bad": "yes"}}),
    )
    .await;
    assert_eq!(code, 403);
    assert_eq!(
        reply["message"],
        "admission webhook \"v.example.com\" denied the request: bad data"
    );
    let (code, _) = get(&service, &format!("{MAPS}/a")).await;
    assert_eq!(code, 404);
    let (code, made) = send(
        &service,
        Method::POST,
        MAPS,
        json!({"metadata": {"generateName": "g-"}}),
    )
    .await;
    assert_eq!(code, 201);
    let request = reviews.lock().unwrap().last().unwrap().clone();
    assert_eq!(request["name"], made["metadata"]["name"]);
    assert_eq!(
        request["object"]["metadata"]["uid"],
        made["metadata"]["uid"]
    );
    assert_eq!(
        (&request["oldObject"], &request["dryRun"]),
        (&Value::Null, &json!(false))
    );
    // A delete of many asks about each object, without its name, and ends at the first refusal.
    let asked = count(&reviews);
    let (code, _) = send(&service, Method::DELETE, MAPS, Value::Null).await;
    assert_eq!((code, count(&reviews) - asked), (403, 1));
    let request = reviews.lock().unwrap().last().unwrap().clone();
    assert_eq!(
        (
            request["name"].as_str(),
            request["oldObject"]["metadata"]["name"].as_str()
        ),
        (None, Some("before"))
    );
    let (code, _) = send(
        &service,
        Method::DELETE,
        &format!("{MAPS}/before?dryRun=All"),
        Value::Null,
    )
    .await;
    let request = reviews.lock().unwrap().last().unwrap().clone();
    assert_eq!(
        (
            code,
            request["dryRun"].as_bool(),
            request["object"].is_null()
        ),
        (403, Some(true), true)
    );
    // The configuration itself is never asked about.
    let asked = count(&reviews);
    let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/v");
    assert_eq!(
        send(&service, Method::DELETE, &path, Value::Null).await.0,
        200
    );
    let path = format!("{MAPS}/before");
    assert_eq!(
        send(&service, Method::DELETE, &path, Value::Null).await.0,
        200
    );
    assert_eq!(count(&reviews), asked);
}

#[tokio::test(start_paused = true)]
async fn mutating_webhooks_change_the_object_before_its_defaults_and_its_validation() {
    let (server, service) = server().await;
    let reviews = answer(&server, "m", |_| {
        patch(
            &json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "x"}},
            {"op": "add", "path": "/frobs", "value": 1}]),
        )
    });
    configure(
        &service,
        "mutating",
        "m",
        vec![webhook("m", json!(["CREATE"]), json!({}))],
    )
    .await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "y"}]}});
    let (code, made) = send(&service, Method::POST, pods, pod).await;
    assert_eq!(code, 201, "{made}");
    let request = reviews.lock().unwrap().last().unwrap().clone();
    assert!(request.get("name").is_none() && request["object"]["metadata"].get("uid").is_none());
    assert_eq!(made["spec"]["containers"][1]["imagePullPolicy"], "Always");
    assert!(made.get("frobs").is_none());
    // What a webhook adds belongs to no manager.
    let owners = made["metadata"]["managedFields"].to_string();
    assert!(
        owners.contains(r#"\"name\":\"c\""#) && !owners.contains("side"),
        "{owners}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_asked_again_once_if_a_later_one_changed_the_object() {
    let (server, service) = server().await;
    let label = |name: &'static str| {
        move |request: &Value| match request["object"]["metadata"]["labels"][name].is_null() {
            true => patch(
                &json!([{"op": "add", "path": format!("/metadata/labels/{name}"), "value": "1"}]),
            ),
            false => json!({"allowed": true}),
        }
    };
    let [a, b, c] = ["a", "b", "c"].map(|name| answer(&server, name, label(name)));
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let webhooks = vec![
        webhook("a", json!(["CREATE"]), again.clone()),
        webhook("b", json!(["CREATE"]), again),
        webhook("c", json!(["CREATE"]), json!({})),
    ];
    configure(&service, "mutating", "all", webhooks).await;
    let map = json!({"metadata": {"name": "x", "labels": {"z": "1"}}});
    let (code, made) = send(&service, Method::POST, MAPS, map).await;
    assert_eq!(
        (code, made["metadata"]["labels"].as_object().unwrap().len()),
        (201, 4)
    );
    assert_eq!([&a, &b, &c].map(count), [2, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_answer_costs_its_timeout_and_its_policy_decides() {
    let (server, service) = server().await;
    server.webhook("hooks", "v", |_| async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Response::new(Bytes::new())
    });
    for (policy, expected) in [("Fail", 500), ("Ignore", 201)] {
        let more = json!({"failurePolicy": policy, "timeoutSeconds": 3});
        let name = policy.to_lowercase();
        let webhooks = vec![webhook("v", json!(["CREATE"]), more)];
        configure(&service, "validating", &name, webhooks).await;
        let begun = tokio::time::Instant::now();
        let (code, reply) = send(
            &service,
            Method::POST,
            MAPS,
            json!({"metadata": {"name": "x"}}),
        )
        .await;
        assert_eq!((code, begun.elapsed().as_secs()), (expected, 3), "{reply}");
        if policy == "Fail" {
            let text = "failed calling webhook \"v.example.com\": failed to call webhook: Post \
                        \"https://v.hooks.svc:443/w?timeout=3s\": context deadline exceeded";
            assert_eq!(reply["details"]["causes"][0]["message"], text);
        }
        let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/{name}");
        send(&service, Method::DELETE, &path, Value::Null).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_may_write_while_it_is_asked_and_a_lost_race_is_asked_about_again() {
    let (server, service) = server().await;
    create(&service, "default", "x", json!({})).await;
    let inner = server.service();
    let asked = Arc::new(Mutex::new(0));
    let counted = asked.clone();
    server.webhook("hooks", "v", move |request: Request<Bytes>| {
        let inner = inner.clone();
        let first = {
            let mut asked = counted.lock().unwrap();
            *asked += 1;
            *asked == 1
        };
        async move {
            let review: Value = serde_json::from_slice(request.body()).unwrap();
            if first {
                // The status of nothing: this write is asked about, too.
                let patch = json!({"data": {"racer": "1"}});
                let request = Request::patch(format!("{MAPS}/x"))
                    .header("content-type", "application/merge-patch+json")
                    .body(Bytes::from(patch.to_string()));
                assert_eq!(inner.call(request.unwrap()).await.status(), 200);
            }
            let uid = &review["request"]["uid"];
            let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": uid, "allowed": true}});
            Response::new(Bytes::from(body.to_string()))
        }
    });
    configure(
        &service,
        "validating",
        "v",
        vec![webhook("v", json!(["UPDATE"]), json!({}))],
    )
    .await;
    let patch = Request::patch(format!("{MAPS}/x"))
        .header("content-type", "application/merge-patch+json")
        .body(Bytes::from(json!({"data": {"mine": "1"}}).to_string()));
    assert_eq!(service.call(patch.unwrap()).await.status(), 200);
    let (_, now) = get(&service, &format!("{MAPS}/x")).await;
    assert_eq!(
        (&now["data"]["mine"], &now["data"]["racer"]),
        (&json!("1"), &json!("1"))
    );
    // Once, once for the write within, and once more because that one was faster.
    assert_eq!(*asked.lock().unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_busy_webhook_is_asked_eleven_times_at_most_and_never_at_once() {
    let (server, service) = server().await;
    let asked = Arc::new(Mutex::new(0));
    let counted = asked.clone();
    server.webhook("hooks", "v", move |_| {
        *counted.lock().unwrap() += 1;
        let busy = Response::builder().status(503).header("retry-after", "0");
        let busy = busy.body(Bytes::from_static(b"busy")).unwrap();
        async move { busy }
    });
    let more = json!({"timeoutSeconds": 30});
    let webhooks = vec![webhook("v", json!(["CREATE"]), more)];
    configure(&service, "validating", "v", webhooks).await;
    let begun = tokio::time::Instant::now();
    let map = json!({"metadata": {"name": "x"}});
    let (code, reply) = send(&service, Method::POST, MAPS, map).await;
    assert_eq!((code, *asked.lock().unwrap()), (500, 11), "{reply}");
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    let text = "an error on the server (\"busy\") has prevented the request from succeeding";
    assert!(
        reply["message"].as_str().unwrap().ends_with(text),
        "{reply}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_redirect_by_a_path_stays_at_the_webhook_and_others_reach_loopback_only() {
    let (server, service) = server().await;
    server.webhook("hooks", "v", |request: Request<Bytes>| {
        let location = match request.uri().path() {
            "/w" => "/next",
            _ => "https://192.0.2.7/elsewhere",
        };
        let reply = Response::builder().status(307).header("location", location);
        let reply = reply.body(Bytes::new()).unwrap();
        async move { reply }
    });
    let webhooks = vec![webhook("v", json!(["CREATE"]), json!({}))];
    configure(&service, "validating", "v", webhooks).await;
    let map = json!({"metadata": {"name": "x"}});
    let (code, reply) = send(&service, Method::POST, MAPS, map).await;
    assert_eq!(code, 500);
    let message = reply["message"].as_str().unwrap();
    assert!(
        message.contains("192.0.2.7:443 is not on loopback"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_while_a_delete_of_many_is_judged_is_judged_again() {
    let (server, service) = server().await;
    create(&service, "default", "x", json!({})).await;
    let inner = server.service();
    let reviews = Reviews::default();
    let kept = reviews.clone();
    server.webhook("hooks", "v", move |request: Request<Bytes>| {
        let inner = inner.clone();
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let old = review["request"]["oldObject"].clone();
        kept.lock().unwrap().push(old.clone());
        async move {
            if old["metadata"]["labels"]["locked"].is_null() {
                update(&inner, "default", "x", json!({"locked": "yes"})).await;
            }
            let allowed = old["metadata"]["labels"]["locked"].is_null();
            let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": review["request"]["uid"], "allowed": allowed}});
            Response::new(Bytes::from(body.to_string()))
        }
    });
    let webhooks = vec![webhook("v", json!(["DELETE"]), json!({}))];
    configure(&service, "validating", "v", webhooks).await;
    let (code, _) = send(&service, Method::DELETE, MAPS, Value::Null).await;
    assert_eq!((code, count(&reviews)), (400, 2));
    assert_eq!(get(&service, &format!("{MAPS}/x")).await.0, 200);
}

/// Names and users of reviews.
fn asked(reviews: &Reviews) -> Vec<(String, String)> {
    let reviews = reviews.lock().unwrap();
    let of = |review: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let user = text(&review["userInfo"]["username"]);
        let user = user.rsplit(':').next().unwrap().to_owned();
        (text(&review["oldObject"]["metadata"]["name"]), user)
    };
    reviews.iter().map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn the_collectors_deletes_are_asked_about_and_may_be_refused() {
    let (server, service) = server().await;
    let reviews = answer(
        &server,
        "h",
        |request| json!({"allowed": request["oldObject"]["metadata"]["name"] != "kept"}),
    );
    let hook = webhook("h", json!(["DELETE"]), json!({}));
    configure(&service, "validating", "v", vec![hook]).await;
    let owner = json!({"metadata": {"name": "owner"}});
    let (_, owner) = send(&service, Method::POST, MAPS, owner).await;
    let of = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
        "uid": owner["metadata"]["uid"]}]);
    for name in ["free", "kept"] {
        let map = json!({"metadata": {"name": name, "ownerReferences": of}});
        assert_eq!(send(&service, Method::POST, MAPS, map).await.0, 201);
    }
    let path = format!("{MAPS}/owner");
    assert_eq!(
        send(&service, Method::DELETE, &path, Value::Null).await.0,
        200
    );
    assert_eq!(get(&service, &format!("{MAPS}/free")).await.0, 404);
    assert_eq!(get(&service, &format!("{MAPS}/kept")).await.0, 200);
    let mut found = asked(&reviews);
    let first = found.remove(0);
    assert_eq!(first.0, "owner");
    found.sort();
    let collector = "generic-garbage-collector".to_owned();
    let wanted = ["free", "kept"].map(|name| (name.to_owned(), collector.clone()));
    assert_eq!(found, wanted);
    let options = reviews.lock().unwrap()[1]["options"].clone();
    assert_eq!(options["propagationPolicy"], "Background");
    assert!(options["preconditions"]["uid"].is_string(), "{options}");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_may_keep_a_namespace_from_ending() {
    let (server, service) = server().await;
    let may = Arc::new(Mutex::new(false));
    let reviews = {
        let may = may.clone();
        answer(
            &server,
            "h",
            move |_| json!({"allowed": *may.lock().unwrap()}),
        )
    };
    let mut hook = webhook("h", json!(["DELETE"]), json!({}));
    hook["rules"][0]["resources"] = json!(["configmaps"]);
    configure(&service, "validating", "v", vec![hook]).await;
    let namespace = json!({"metadata": {"name": "n"}});
    let namespaces = "/api/v1/namespaces";
    assert_eq!(
        send(&service, Method::POST, namespaces, namespace).await.0,
        201
    );
    let (maps, path) = (
        format!("{namespaces}/n/configmaps"),
        format!("{namespaces}/n"),
    );
    for name in ["a", "b"] {
        let map = json!({"metadata": {"name": name}});
        assert_eq!(send(&service, Method::POST, &maps, map).await.0, 201);
    }
    assert_eq!(
        send(&service, Method::DELETE, &path, Value::Null).await.0,
        200
    );
    let controller = "namespace-controller".to_owned();
    let wanted = ["a", "b"].map(|name| (name.to_owned(), controller.clone()));
    assert_eq!(asked(&reviews), wanted);
    assert!(reviews.lock().unwrap()[0]["name"].is_null());
    let (code, left) = get(&service, &path).await;
    assert_eq!(
        (code, &left["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    *may.lock().unwrap() = true;
    // A write in the namespace makes its controller look again.
    let change = json!({"metadata": {"name": "a"}, "data": {"x": "y"}});
    let one = format!("{maps}/a");
    assert_eq!(send(&service, Method::PUT, &one, change).await.0, 200);
    assert_eq!(get(&service, &path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_deletes_before_it_answers_holds_up_no_reply() {
    let (server, service) = server().await;
    let maps = |name: &str| format!("{MAPS}/{name}");
    let inner = service.clone();
    let done = Arc::new(Mutex::new(Vec::new()));
    let kept = done.clone();
    // It deletes an owner with a dependent, before it answers about another dependent.
    let handler = move |request: Request<Bytes>| {
        let (inner, kept) = (inner.clone(), kept.clone());
        async move {
            let review: Value = serde_json::from_slice(request.body()).unwrap();
            if review["request"]["oldObject"]["metadata"]["name"] == "child-a" {
                let path = format!("{MAPS}/b");
                let (code, _) = send(&inner, Method::DELETE, &path, Value::Null).await;
                kept.lock().unwrap().push(code);
            }
            let response = json!({"uid": review["request"]["uid"], "allowed": true});
            let body = json!({"apiVersion": review["apiVersion"], "kind": review["kind"],
                "response": response});
            Response::new(Bytes::from(body.to_string()))
        }
    };
    server.webhook("hooks", "h", handler);
    for name in ["a", "b"] {
        let owner = json!({"metadata": {"name": name}});
        let (_, owner) = send(&service, Method::POST, MAPS, owner).await;
        let child = json!({"metadata": {"name": format!("child-{name}"), "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": name,
                "uid": owner["metadata"]["uid"]}]}});
        assert_eq!(send(&service, Method::POST, MAPS, child).await.0, 201);
    }
    let hook = webhook("h", json!(["DELETE"]), json!({}));
    configure(&service, "validating", "v", vec![hook]).await;
    let deleted = send(&service, Method::DELETE, &maps("a"), Value::Null).await;
    assert_eq!(deleted.0, 200);
    // The reply may be earlier than the last delete: a later write waits for none of its own.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    for name in ["child-a", "child-b", "b"] {
        assert_eq!(get(&service, &maps(name)).await.0, 404, "{name}");
    }
    assert_eq!(*done.lock().unwrap(), [200]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_loses_no_delete_of_the_garbage_collector() {
    let (server, service) = server().await;
    let handler = |request: Request<Bytes>| async move {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        let body = json!({"apiVersion": review["apiVersion"], "kind": review["kind"],
            "response": response});
        Response::new(Bytes::from(body.to_string()))
    };
    let (_, owner) = send(
        &service,
        Method::POST,
        MAPS,
        json!({"metadata": {"name": "o"}}),
    )
    .await;
    for name in ["one", "two"] {
        let child = json!({"metadata": {"name": name, "labels": {"slow": "yes"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o",
                "uid": owner["metadata"]["uid"]}]}});
        assert_eq!(send(&service, Method::POST, MAPS, child).await.0, 201);
    }
    server.webhook("hooks", "h", handler);
    let only = json!({"objectSelector": {"matchLabels": {"slow": "yes"}}});
    configure(
        &service,
        "validating",
        "v",
        vec![webhook("h", json!(["DELETE"]), only)],
    )
    .await;
    let path = format!("{MAPS}/o");
    let hung_up = send(&service, Method::DELETE, &path, Value::Null);
    let hung_up = tokio::time::timeout(Duration::from_secs(1), hung_up).await;
    assert!(hung_up.is_err(), "the reply waits for the webhook");
    assert_eq!(get(&service, &format!("{MAPS}/one")).await.0, 200);
    tokio::time::sleep(Duration::from_secs(20)).await;
    for name in ["o", "one", "two"] {
        assert_eq!(
            get(&service, &format!("{MAPS}/{name}")).await.0,
            404,
            "{name}"
        );
    }
}
