//! Replies of admission webhooks: what is stored is the object, or the object as they patched it.
//!
//! ```text
//! bytes ──▶ reply of a mutating webhook ──▶ POST dryRun ──▶ 201 with the object │ patched │ a refusal
//!                                     └──▶ evaluator of RFC 6902 ──▶ the same
//! ```
//!
//! Input is a reply as text, in which `UID` is replaced by the uid of the request, or is drawn: an
//! allowed patch, a denial, or a reply with a fault. A webhook that misbehaves is a failed request,
//! never a changed object.
//! Upstream: `apiserver:pkg/admission/plugin/webhook`.

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use serde_json::{Map, Value, json};

use crate::draw::Draw;
use crate::in_process::{Cluster, JSON, Once, THINGS, anything, thing};
use crate::json_patch::{Unfit, drawn_operations, evaluated};
use crate::shape::Shape;

/// Pieces of replies.
pub const WORDS: &[&[u8]] = &[
    b"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":\"UID\",",
    b"\"allowed\":true", b"\"allowed\":false", b"\"patchType\":\"JSONPatch\"", b"\"patch\":\"W10=\"",
    b"\"patch\":\"eyJ9\"", b"\"status\":{\"code\":", b"\"message\":\"", b"\"warnings\":[\"", b"UID", b"null",
    b"admission.k8s.io/v1beta1", b"{", b"}", b",", b"[", b"]", b"\n", b"&a ", b"*a", b"---\n",
];

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

thread_local! {
    static SERVER: Once = const { Once::new() };
    static REPLY: Arc<Mutex<Vec<u8>>> = Arc::default();
}

/// Reads the bytes as a reply.
pub fn run(bytes: &[u8]) -> Shape {
    SERVER.with(|server| {
        let cluster = server.get(hook);
        match bytes.first() {
            Some(b' '..=b'~') => of_text(cluster, bytes),
            _ => drawn(cluster, &mut Draw::new(bytes)),
        }
    })
}

fn hook(cluster: &Cluster) {
    cluster.serve_things(&anything());
    let said = REPLY.with(Arc::clone);
    cluster
        .server
        .webhook("default", "hook", move |request: Request<Bytes>| {
            let review: Value = serde_json::from_slice(request.body()).expect("a review");
            let uid = review["request"]["uid"].as_str().expect("a uid").to_owned();
            let reply = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
            async move { Response::new(Bytes::from(with_uid(&reply, &uid))) }
        });
    cluster.create(CONFIGURATIONS, &json!({"metadata": {"name": "hook"}, "webhooks": [{
        "name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
        "rules": [{"operations": ["*"], "apiGroups": ["fuzz.example.com"], "apiVersions": ["*"], "resources": ["things"]}]}]}));
}

/// The reply with the request's uid in the place of `UID`.
fn with_uid(reply: &[u8], uid: &str) -> Vec<u8> {
    let mut made = Vec::with_capacity(reply.len() + uid.len());
    let mut rest = reply;
    while let Some(at) = rest.windows(3).position(|three| three == b"UID") {
        made.extend_from_slice(&rest[..at]);
        made.extend_from_slice(uid.as_bytes());
        rest = &rest[at + 3..];
    }
    made.extend_from_slice(rest);
    made
}

fn post(cluster: &Cluster, (spec, reply): (&Value, Vec<u8>)) -> (u16, Value) {
    REPLY.with(|said| *said.lock().unwrap_or_else(PoisonError::into_inner) = reply);
    let path = format!("{THINGS}?dryRun=All");
    cluster.ask(Method::POST, &path, (JSON, &thing("b", spec)))
}

fn of_text(cluster: &Cluster, bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    let spec = json!({"a": {"b": [1, 2]}, "list": []});
    let (code, object) = post(cluster, (&spec, bytes.to_vec()));
    shape.saw(code);
    shape.text(object["message"].as_str().unwrap_or_default());
    if code != 201 {
        // The code of a denial is the webhook's own, as upstream's, whether HTTP has a name for it or not.
        assert!(
            (400..1000).contains(&code) && object["kind"] == "Status",
            "{code} {object}"
        );
        assert_eq!(object["code"], code);
        return shape;
    }
    // What allows must say so, whatever notation it is in.
    let text = String::from_utf8_lossy(bytes);
    assert!(text.contains("allowed") && text.contains("UID"), "{text}");
    if !text.contains("patch") && !text.contains('\\') {
        assert_eq!(object["spec"], spec, "unchanged by {text}");
    }
    let Ok(review) = serde_json::from_slice::<Value>(bytes) else {
        return shape;
    };
    let response = &review["response"];
    assert!(
        response["allowed"] == true && response["uid"] == "UID",
        "{text}"
    );
    let patch = response["patch"].as_str().map(|it| STANDARD.decode(it));
    let operations = patch.and_then(|it| serde_json::from_slice::<Value>(&it.ok()?).ok());
    let operations = operations.unwrap_or_else(|| json!([]));
    if let Some(expected) = evaluated(&thing("b", &spec), &operations) {
        let expected = expected.unwrap_or_else(|Unfit| panic!("{operations} does not apply"));
        assert_eq!(object["spec"], expected["spec"], "{operations}");
    }
    shape
}

fn drawn(cluster: &Cluster, draw: &mut Draw<'_>) -> Shape {
    let mut shape = Shape::default();
    let spec = Value::Object(draw.members(3));
    let object = thing("b", &spec);
    let operations = drawn_operations(draw, (&object, "/spec"));
    let mut response = json!({"uid": "UID", "allowed": true, "patchType": "JSONPatch",
        "patch": STANDARD.encode(operations.to_string())});
    let fault = draw.below(12);
    let is_denied = fault == 1;
    match fault {
        1 => {
            response = json!({"uid": "UID", "allowed": false, "status": {
            "code": draw.pick(&[0, 200, 403, 418, 599, 99_999, -1]), "message": draw.pick(&["no", "", "\n\u{1b}[2J"])}})
        }
        2 => response["uid"] = draw.pick(&["", "other"]).into(),
        3 => response["patchType"] = draw.pick(&["", "MergePatch", "jsonpatch"]).into(),
        4 => response["patch"] = draw.pick(&["%%%", "e30", "eyJ9", "bnVsbA=="]).into(),
        5 => response["allowed"] = draw.json(1),
        6 => response = draw.json(2),
        _ => {}
    }
    response["warnings"] = match (&response, draw.below(3)) {
        (Value::Object(_), 1) => json!(["w", "", "a\nb", "é\u{7f}"]),
        (Value::Object(_), _) => Value::Null,
        _ => return shape,
    };
    let mut review = Map::new();
    review.insert("apiVersion".to_owned(), "admission.k8s.io/v1".into());
    review.insert("kind".to_owned(), "AdmissionReview".into());
    review.insert("response".to_owned(), response.clone());
    let (code, reply) = post(
        cluster,
        (&spec, Value::Object(review).to_string().into_bytes()),
    );
    shape.saw((code, fault));
    shape.text(reply["message"].as_str().unwrap_or_default());
    // A drawn `allowed` may be true all the same.
    let is_sound = matches!(fault, 0 | 7..) || fault == 5 && response["allowed"] == true;
    if is_sound {
        match evaluated(&object, &operations) {
            None => {}
            Some(Ok(expected))
                if expected["spec"].is_object() || expected.get("spec").is_none() =>
            {
                assert_eq!(code, 201, "{operations} of {spec}: {reply}");
                assert_eq!(reply["spec"], expected["spec"], "{operations} of {spec}");
            }
            Some(Ok(expected)) if expected["spec"].is_null() && code == 201 => {
                assert_eq!(
                    reply.get("spec"),
                    None,
                    "a null that the schema does not allow"
                );
            }
            Some(_) => assert!(code >= 400, "{operations} of {spec}: {reply}"),
        }
    } else if is_denied || response["allowed"] != true {
        assert!((400..600).contains(&code), "{response}: {code} {reply}");
    } else if code == 201 {
        // Allowed in spite of a fault: only a patch that was not read as one.
        assert_eq!(reply["spec"], spec, "{response}");
    }
    shape
}
