//! An API server for tests of certificates: the embedded one, with webhook configurations.
//!
//! ```text
//! client ─▶ configurations of this file: get, apply at a version
//!       └─▶ all else: the embedded server, which refuses what it would not act on
//! ```
//!
//! An apply merges webhooks by name, as the real server does, and is a conflict at another version.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use k8s_openapi::ByteString;
use kinform_apiserver::Server;
use kube_client::Client;
use serde_json::{Value, json};

const CHECKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/checks";
const DEFAULTS: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/defaults";
const KNOTS: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/knots.conv.example.com";

#[derive(Clone, Debug)]
pub(in crate::webhook) struct Fake {
    server: Arc<Server>,
    configurations: Arc<Mutex<BTreeMap<&'static str, Value>>>,
}

impl Fake {
    /// A server with two webhooks in each configuration, and bundles that are placeholders.
    pub(in crate::webhook) fn new() -> Self {
        let config = json!({ "caBundle": ByteString(b"\n".to_vec()) });
        let webhooks = json!([
            { "name": "a.example.com", "sideEffects": "None", "clientConfig": config },
            { "name": "b.example.com", "sideEffects": "None", "clientConfig": config },
        ]);
        let named = |name: &str| json!({ "name": name, "uid": name, "resourceVersion": "1" });
        let knots = json!({
            "metadata": named("knots.conv.example.com"),
            "spec": { "conversion": { "webhook": { "clientConfig": config } } },
        });
        let configurations = BTreeMap::from([
            (
                CHECKS,
                json!({ "metadata": named("checks"), "webhooks": webhooks }),
            ),
            (
                DEFAULTS,
                json!({ "metadata": named("defaults"), "webhooks": webhooks }),
            ),
            (KNOTS, knots),
        ]);
        Self {
            server: Arc::new(Server::builder().in_process()),
            configurations: Arc::new(Mutex::new(configurations)),
        }
    }

    pub(in crate::webhook) fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<kube_client::client::Body>| {
            let fake = fake.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                Ok::<_, Infallible>(fake.answer(Request::from_parts(head, body)).await)
            }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Bytes>) -> Response<Full<Bytes>> {
        if let Some((code, body)) = self.own(&request) {
            let body = Full::from(body.to_string());
            return Response::builder().status(code).body(body).unwrap();
        }
        let reply = self.server.service().call(request).await;
        let (head, body) = reply.into_parts();
        let body = body.collect().await.unwrap();
        Response::from_parts(head, Full::from(body))
    }

    fn own(&self, request: &Request<Bytes>) -> Option<(u16, Value)> {
        let mut all = self
            .configurations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let present = all.get_mut(request.uri().path())?;
        if request.method() == Method::GET {
            return Some((200, present.clone()));
        }
        assert_eq!(request.method(), Method::PATCH);
        assert_eq!(
            request.headers()["content-type"],
            "application/apply-patch+yaml"
        );
        let applied: Value = serde_json::from_slice(request.body()).unwrap();
        for name in ["uid", "resourceVersion"] {
            if applied["metadata"][name] != present["metadata"][name] {
                let status = json!({ "kind": "Status", "status": "Failure", "code": 409,
                    "reason": "Conflict", "message": "changed" });
                return Some((409, status));
            }
        }
        let bundle = |config: &Value| config["clientConfig"]["caBundle"].clone();
        for webhook in applied["webhooks"].as_array().into_iter().flatten() {
            let mut known = present["webhooks"].as_array_mut().unwrap().iter_mut();
            let known = known
                .find(|known| known["name"] == webhook["name"])
                .unwrap();
            known["clientConfig"]["caBundle"] = bundle(webhook);
        }
        let of_definition = &applied["spec"]["conversion"]["webhook"];
        if of_definition.is_object() {
            let config = &mut present["spec"]["conversion"]["webhook"]["clientConfig"];
            config["caBundle"] = bundle(of_definition);
        }
        bump(present);
        Some((200, present.clone()))
    }

    /// Removes the bundles, as a user would who applies a manifest anew.
    pub(in crate::webhook) fn remove_bundles(&self) {
        let mut all = self
            .configurations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let checks = all.get_mut(CHECKS).unwrap();
        for webhook in checks["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]["caBundle"] = Value::Null;
        }
        bump(checks);
    }

    /// The bundles of all webhooks; that of the definition is the last.
    pub(in crate::webhook) fn bundles(&self) -> Vec<Vec<u8>> {
        let all = self
            .configurations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let webhooks = [CHECKS, DEFAULTS].map(|path| all[path]["webhooks"].as_array().unwrap());
        let webhooks = webhooks.into_iter().flatten();
        let definition = &all[KNOTS]["spec"]["conversion"]["webhook"];
        let bundles = webhooks.chain([definition]).map(|webhook| {
            let bundle = webhook["clientConfig"]["caBundle"].clone();
            serde_json::from_value::<ByteString>(bundle)
                .unwrap_or_default()
                .0
        });
        bundles.collect()
    }
}

fn bump(object: &mut Value) {
    let version = &mut object["metadata"]["resourceVersion"];
    let number: u64 = version.as_str().unwrap().parse().unwrap();
    *version = (number + 1).to_string().into();
}
