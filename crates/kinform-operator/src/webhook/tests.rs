//! Whole calls: bodies that a real API server sent, and bodies that nobody should send.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_core::DynamicObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::testing::{Asked, post};
use super::*;

/// A line of the recordings.
#[derive(Deserialize)]
pub(super) struct Recorded {
    pub(super) note: String,
    pub(super) query: String,
    pub(super) request: Value,
    pub(super) response: Option<Value>,
}

pub(super) fn recorded() -> Vec<Recorded> {
    let packed = include_bytes!("../../../../testdata/webhooks/reviews.jsonl.gz");
    let mut text = String::new();
    let mut reader = flate2::read::GzDecoder::new(&packed[..]);
    reader.read_to_string(&mut text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The reviews of admission among the recordings.
fn reviews() -> Vec<Recorded> {
    let mut all = recorded();
    all.retain(|line| line.request["kind"] == "AdmissionReview");
    assert!(all.len() > 25);
    all
}

async fn allow<K>(_: AdmissionRequest<K>) -> Result<Verdict, Error> {
    Ok(Verdict::allow())
}

#[tokio::test]
async fn each_review_of_a_real_server_is_read_and_answered() {
    // controller-runtime: "should decode a valid admission request"
    let seen = Arc::new(std::sync::Mutex::new(None));
    let into = seen.clone();
    let webhooks = Webhooks::new()
        .validate_at("/w", move |request: AdmissionRequest<DynamicObject>| {
            *into.lock().unwrap() = Some(request);
            async { Ok::<_, Error>(Verdict::allow()) }
        })
        .unwrap();
    for line in reviews() {
        let sent = &line.request["request"];
        let uri = format!("/w?{}", line.query);
        let (code, reply) = post(&webhooks, &uri, line.request.to_string())
            .await
            .unwrap();
        assert_eq!(code, 200, "{}: {reply}", line.note);
        let expected = json!({ "uid": sent["uid"], "allowed": true });
        assert_eq!(reply["response"], expected, "{}", line.note);
        let read = seen.lock().unwrap().take().unwrap();
        let text = |value: &Option<String>| json!(value);
        let is_connect = sent["operation"] == "CONNECT";
        assert_eq!(json!(read.kind.kind), sent["kind"]["kind"]);
        assert_eq!(json!(read.request_kind.kind), sent["requestKind"]["kind"]);
        assert_eq!(json!(read.resource.resource), sent["resource"]["resource"]);
        assert_eq!(text(&read.sub_resource), sent["subResource"]);
        assert_eq!(text(&read.request_sub_resource), sent["requestSubResource"]);
        assert_eq!(text(&read.namespace), sent["namespace"]);
        assert_eq!(json!(read.user), sent["userInfo"]);
        assert_eq!(json!(read.dry_run), sent["dryRun"]);
        let options = if is_connect {
            &sent["object"]
        } else {
            &sent["options"]
        };
        assert_eq!(json!(read.options), *options, "{}", line.note);
        assert_eq!(
            read.object.is_some(),
            !sent["object"].is_null() && !is_connect
        );
        assert_eq!(json!(read.old_object), sent["oldObject"], "{}", line.note);
    }
}

#[tokio::test]
async fn a_typed_webhook_gets_its_kind_and_fails_for_another() {
    let webhooks = Webhooks::new().validate(allow::<ConfigMap>).unwrap();
    let mut kinds = [0, 0];
    for line in reviews() {
        let (code, reply) = post(
            &webhooks,
            "/validate--v1-configmap",
            line.request.to_string(),
        )
        .await
        .unwrap();
        let sent = &line.request["request"];
        let is_its = sent["kind"]["kind"] == "ConfigMap" || sent["operation"] == "CONNECT";
        kinds[usize::from(is_its)] += 1;
        if is_its {
            assert_eq!(code, 200, "{}: {reply}", line.note);
        } else {
            assert_eq!(code, 400, "{}", line.note);
            let message = reply["message"].as_str().unwrap();
            let start = "this webhook is for ConfigMap of v1, and was called for ";
            assert!(message.starts_with(start), "{message}");
            assert_eq!(reply["details"]["uid"], sent["uid"]);
        }
    }
    assert!(kinds[0] > 10 && kinds[1] > 5, "{kinds:?}");
}

/// A review of a ConfigMap whose request is changed.
fn review(change: impl FnOnce(&mut Value)) -> String {
    let line = reviews().into_iter().find(|line| {
        let request = &line.request["request"];
        request["operation"] == "CREATE" && request["kind"]["kind"] == "ConfigMap"
    });
    let mut review = line.unwrap().request;
    review["request"]["uid"] = "u1".into();
    change(&mut review);
    review.to_string()
}

#[tokio::test]
async fn a_body_that_is_no_review_is_a_bad_request_of_one_line() {
    // controller-runtime: "should return bad-request when given an empty body" and its neighbours
    let webhooks = Webhooks::new()
        .validate(allow::<ConfigMap>)
        .unwrap()
        .mutate(allow::<ConfigMap>)
        .unwrap();
    let deep = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let good = review(|_| ());
    let doubled = good.replace(
        "\"operation\":\"CREATE\"",
        "\"operation\":\"x\",\"operation\":\"CREATE\"",
    );
    let no = "not an AdmissionReview: ";
    for (body, uid, line) in [
        (String::new(), None, format!("{no}the body is empty")),
        (
            "null".into(),
            None,
            format!("{no}invalid type, expected struct"),
        ),
        ("[]".into(), None, no.to_owned()),
        ("{".into(), None, format!("{no}EOF while parsing")),
        (
            "{}".into(),
            None,
            format!("{no}the body is of another kind"),
        ),
        ("hello".into(), None, format!("{no}expected value")),
        (
            format!("{good}{good}"),
            None,
            format!("{no}trailing characters"),
        ),
        (
            deep(100_000),
            None,
            format!("{no}the body is of another kind"),
        ),
        (
            format!("{{\"request\":{}", "[".repeat(100_000)),
            None,
            format!("{no}EOF"),
        ),
        (
            doubled,
            None,
            format!("{no}request: duplicate field `operation`"),
        ),
        (
            review(|review| review["kind"] = "Review".into()),
            Some("u1"),
            format!("{no}the body is of another kind"),
        ),
        (
            review(|review| review["apiVersion"] = "admission.k8s.io/v1beta1".into()),
            Some("u1"),
            "only admission.k8s.io/v1 is spoken".into(),
        ),
        (
            review(|review| review["request"] = Value::Null),
            None,
            format!("{no}it has no request"),
        ),
        (
            review(|review| review["request"]["uid"] = "".into()),
            None,
            format!("{no}the request has no uid"),
        ),
        (
            review(|review| review["request"]["uid"] = 5.into()),
            None,
            format!("{no}request: invalid type"),
        ),
        (
            review(|review| review["request"]["operation"] = "PATCH".into()),
            Some("u1"),
            "the operation is not known".into(),
        ),
        (
            review(|review| review["request"]["object"] = Value::Null),
            Some("u1"),
            "the request has no object".into(),
        ),
        (
            review(|review| review["request"]["operation"] = "UPDATE".into()),
            Some("u1"),
            "the request has no oldObject".into(),
        ),
        (
            review(|review| review["request"]["object"]["data"] = json!({ "k": 1 })),
            Some("u1"),
            "object cannot be decoded: invalid type, expected a string".into(),
        ),
    ] {
        let start: String = body.chars().take(60).collect();
        for path in ["/validate--v1-configmap", "/mutate--v1-configmap"] {
            let (code, reply) = post(&webhooks, path, body.clone()).await.unwrap();
            let message = reply["message"].as_str().unwrap_or("-");
            assert_eq!(code, 400, "{start}: {message}");
            assert!(message.starts_with(&line), "{start}: {message}");
            assert!(!message.contains('\n') && message.len() < 300);
            if uid.is_some() {
                assert_eq!(reply["details"]["uid"].as_str(), uid, "{message}");
            }
        }
    }
    let mut broken = good.into_bytes();
    let at = broken
        .windows(4)
        .position(|window| window == b"\"u1\"")
        .unwrap();
    broken[at + 1] = 0xff;
    let (code, reply) = post(&webhooks, "/validate--v1-configmap", broken)
        .await
        .unwrap();
    assert_eq!(
        (code, reply["message"].is_string()),
        (StatusCode::BAD_REQUEST, true)
    );
}

#[tokio::test]
async fn an_object_that_is_too_deep_is_refused_where_it_is_read() {
    let webhooks = Webhooks::new()
        .validate(allow::<ConfigMap>)
        .unwrap()
        .validate_at("/w", allow::<DynamicObject>)
        .unwrap();
    let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let body = review(|review| review["request"]["object"] = "HERE".into());
    let body = body.replace("\"HERE\"", &deep);
    let (code, reply) = post(&webhooks, "/w", body.clone()).await.unwrap();
    assert_eq!(code, 400);
    let message = reply["message"].as_str().unwrap();
    let start = "object cannot be decoded: recursion limit exceeded";
    assert!(message.starts_with(start), "{message}");
    // Fields that a type does not know are skipped.
    let (code, _) = post(&webhooks, "/validate--v1-configmap", body)
        .await
        .unwrap();
    assert_eq!(code, 200);
}

#[tokio::test]
async fn a_call_in_another_form_is_refused() {
    let webhooks = Webhooks::new().validate(allow::<ConfigMap>).unwrap();
    let call = async |method: &str, path: &str, kind: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header(CONTENT_TYPE, kind)
            .body(review(|_| ()).into());
        webhooks.handler()(request.unwrap()).await.status().as_u16()
    };
    let path = "/validate--v1-configmap";
    assert_eq!(call("POST", path, "application/json").await, 200);
    assert_eq!(
        call("POST", path, "Application/JSON; charset=utf-8").await,
        200
    );
    assert_eq!(call("POST", path, "text/plain").await, 415);
    assert_eq!(call("POST", path, "application/json-patch+json").await, 415);
    assert_eq!(call("GET", path, "application/json").await, 405);
    assert_eq!(call("POST", "/validate", "application/json").await, 404);
}

#[tokio::test]
async fn allow_deny_and_fail_are_three_outcomes() {
    // controller-runtime: "should recover panic if RecoverPanic is true by default"
    async fn by_name(request: AdmissionRequest<ConfigMap>) -> Result<Verdict, Error> {
        match request.name.as_str() {
            "deny" => Ok(Verdict::deny("not this").with_code(422).with_warning("w")),
            "fail" => Ok(Verdict::fail("no idea")),
            "error" => Err(Error::new("broken")),
            "panic" => panic!("planted"),
            "change" => Ok(Verdict::change(&ConfigMap::default())),
            "late" => std::future::pending().await,
            _ => Ok(Verdict::allow().with_audit_annotation("k", "v")),
        }
    }
    let webhooks = Webhooks::new().validate(by_name).unwrap();
    let path = validate_path::<ConfigMap>();
    let named = |name: &str| {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        Asked::create(&object).within("50ms")
    };
    let allowed = named("allow").call(&webhooks, &path).await.unwrap();
    assert_eq!(
        (allowed.is_allowed(), allowed.audit_annotation("k")),
        (true, Some("v"))
    );
    let denied = named("deny").call(&webhooks, &path).await.unwrap();
    assert!(!denied.is_allowed());
    assert_eq!(
        (denied.message(), denied.code()),
        (Some("not this"), Some(422))
    );
    assert_eq!(denied.warnings(), ["w"]);
    for (name, line) in [
        ("fail", "500: no idea"),
        ("error", "500: broken"),
        ("panic", "500: the webhook panicked"),
        (
            "change",
            "500: a validating webhook cannot change the object",
        ),
        ("late", "504: the webhook gave no answer within 45ms"),
    ] {
        let error = named(name).call(&webhooks, &path).await.unwrap_err();
        assert_eq!(error.to_string(), line);
    }
    let stats = webhooks.stats();
    let of_path = &stats.paths[&path];
    let replies: Vec<_> = of_path.replies.clone().into_iter().collect();
    assert_eq!(replies, [(200, 2), (500, 4), (504, 1)]);
    assert_eq!(
        (of_path.panics, stats.admission_panics, of_path.in_flight),
        (1, 1, 0)
    );
    assert_eq!(of_path.latency.count(), 7);
}

#[tokio::test]
async fn a_call_that_is_given_up_is_in_flight_no_longer() {
    // controller-runtime: "should present the Context from the HTTP request, if any"
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    let webhooks = Webhooks::new()
        .validate(move |_: AdmissionRequest<ConfigMap>| {
            let guard = CountsDrops(count.clone());
            async move {
                let _guard = guard;
                std::future::pending::<Result<Verdict, Error>>().await
            }
        })
        .unwrap();
    let path = validate_path::<ConfigMap>();
    let asked = Asked::create(&ConfigMap::default());
    let mut call = Box::pin(asked.call(&webhooks, &path));
    assert!(futures::poll!(call.as_mut()).is_pending());
    assert_eq!(webhooks.stats().paths[&path].in_flight, 1);
    drop(call);
    assert_eq!(webhooks.stats().paths[&path].in_flight, 0);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

struct CountsDrops(Arc<AtomicUsize>);

impl Drop for CountsDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn defaults_leave_the_unknown_fields_of_a_real_pod() {
    // controller-runtime: "should preserve unknown fields by default"
    async fn default(request: AdmissionRequest<Pod>) -> Result<Verdict, Error> {
        let mut pod = request.object.unwrap_or_default();
        let spec = pod.spec.get_or_insert_default();
        spec.priority_class_name
            .get_or_insert_with(|| "low".to_owned());
        spec.containers[0].image_pull_policy = Some("Always".to_owned());
        Ok(Verdict::change(&pod).with_warning("defaulted"))
    }
    let webhooks = Webhooks::new().mutate(default).unwrap();
    let is_pod = |line: &Recorded| {
        let request = &line.request["request"];
        request["kind"]["kind"] == "Pod" && request["operation"] == "CREATE"
    };
    let mut review = reviews().into_iter().find(is_pod).unwrap().request;
    let object = &mut review["request"]["object"];
    object["spec"]["newField"] = json!({ "a": [1] });
    object["spec"]["containers"][0]["newField"] = true.into();
    let mut expected = object.clone();
    expected["spec"]["priorityClassName"] = "low".into();
    expected["spec"]["containers"][0]["imagePullPolicy"] = "Always".into();

    let (_, reply) = post(&webhooks, "/mutate--v1-pod", review.to_string())
        .await
        .unwrap();
    let response = &reply["response"];
    assert_eq!(response["patchType"], "JSONPatch", "{reply}");
    assert_eq!(response["warnings"], json!(["defaulted"]));
    let ByteString(patch) = serde_json::from_value(response["patch"].clone()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    let object = &mut review["request"]["object"];
    json_patch::patch(object, &patch).unwrap();
    assert_eq!(*object, expected);
    // A second run changes nothing, so it sends no patch.
    let (_, reply) = post(&webhooks, "/mutate--v1-pod", review.to_string())
        .await
        .unwrap();
    assert_eq!(reply["response"]["allowed"], true);
    assert!(reply["response"].get("patch").is_none(), "{reply}");
    assert!(reply["response"].get("patchType").is_none(), "{reply}");
}

#[tokio::test]
async fn a_deletion_is_not_defaulted() {
    // controller-runtime: "should return ok if received delete verb in defaulter handler"
    async fn change(request: AdmissionRequest<ConfigMap>) -> Result<Verdict, Error> {
        assert!(request.operation != Operation::Delete);
        Ok(Verdict::change(&ConfigMap::default()))
    }
    let webhooks = Webhooks::new().mutate(change).unwrap();
    let path = mutate_path::<ConfigMap>();
    let mut object = ConfigMap::default();
    let answered = Asked::delete(&object).call(&webhooks, &path).await.unwrap();
    assert!(answered.is_allowed() && !answered.is_patched());
    object.immutable = Some(true);
    let asked = Asked::update(&object, &object)
        .as_dry_run()
        .of_sub_resource("status");
    let answered = asked.call(&webhooks, &path).await.unwrap();
    assert!(answered.is_patched());
    assert_eq!(answered.object::<ConfigMap>().unwrap().immutable, None);
}

#[test]
fn a_path_is_taken_once_and_begins_with_a_slash() {
    // controller-runtime: "should panic if a duplicate path is registered"
    let webhooks = || Webhooks::new().validate(allow::<ConfigMap>).unwrap();
    let error = webhooks().validate(allow::<ConfigMap>).unwrap_err();
    assert_eq!(
        error.to_string(),
        "two webhooks have the path /validate--v1-configmap"
    );
    for path in ["", "w", "/a b", "/w?x", "/w#x"] {
        let error = webhooks().validate_at(path, allow::<Pod>).unwrap_err();
        let line = format!("{path:?} is no path of a webhook: it begins with \"/\"");
        assert_eq!(error.to_string(), line);
    }
}

#[test]
fn paths_are_those_that_kubebuilder_writes() {
    use k8s_openapi::api::networking::v1::IngressClass;
    let paths = [mutate_path::<Pod>(), validate_path::<IngressClass>()];
    assert_eq!(
        paths,
        [
            "/mutate--v1-pod",
            "/validate-networking-k8s-io-v1-ingressclass"
        ]
    );
}
