//! An API server for tests of certificates: the embedded one, with the webhooks of an operator.
//!
//! ```text
//! client ─▶ Secret, two webhook configurations, a definition ─▶ their bundles
//! ```
//!
//! The server stores configurations and does not call them. A manifest has put a placeholder into
//! each bundle, as scaffolds do.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinform_apiserver::Server;
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(in crate::webhook) struct Stage(Arc<Server>);

impl Stage {
    pub(in crate::webhook) async fn start() -> Self {
        let server = Server::builder().keep_inert_objects().in_process();
        let stage = Self(Arc::new(server));
        stage.apply_manifest(ByteString(b"\n".to_vec())).await;
        stage
    }

    pub(in crate::webhook) fn client(&self) -> Client {
        let server = self.0.clone();
        let service = tower::service_fn(move |request: Request<kube_client::client::Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body: Bytes = body.collect().await?.to_bytes();
                let request = Request::from_parts(head, body);
                let (head, body) = server.service().call(request).await.into_parts();
                let body = body.collect().await.map_err(std::io::Error::other)?;
                let reply = Response::from_parts(head, Full::from(body));
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(reply)
            }
        });
        Client::new(service, "default")
    }

    /// Applies the manifest of the operator with this bundle everywhere.
    pub(in crate::webhook) async fn apply_manifest(&self, bundle: ByteString) {
        let client = self.client();
        let config = |path: &str| {
            json!({
                "service": { "namespace": "default", "name": "hooks", "path": path },
                "caBundle": bundle,
            })
        };
        let webhook = |name: &str| {
            json!({
                "name": name, "clientConfig": config("/w"), "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["configmaps"] }],
            })
        };
        let webhooks = json!([webhook("a.example.com"), webhook("b.example.com")]);
        let version = |name: &str, is_stored: bool| {
            json!({
                "name": name, "served": true, "storage": is_stored,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            })
        };
        let definition = json!({
            "group": "conv.example.com", "scope": "Namespaced",
            "names": { "plural": "knots", "singular": "knot", "kind": "Knot",
                "listKind": "KnotList" },
            "versions": [version("v1", true), version("v2", false)],
            "conversion": { "strategy": "Webhook", "webhook": {
                "clientConfig": config("/convert"), "conversionReviewVersions": ["v1"] } },
        });
        let params = PatchParams::apply("kubectl").force();
        let object = |kind: &str, name: &str, member: &str, value: &Value| {
            let group = match member {
                "spec" => "apiextensions.k8s.io/v1",
                _ => "admissionregistration.k8s.io/v1",
            };
            Patch::Apply(json!({
                "apiVersion": group, "kind": kind, "metadata": { "name": name }, member: value,
            }))
        };
        let checks = object(
            "ValidatingWebhookConfiguration",
            "checks",
            "webhooks",
            &webhooks,
        );
        let api = Api::<ValidatingWebhookConfiguration>::all(client.clone());
        api.patch("checks", &params, &checks).await.unwrap();
        let defaults = object(
            "MutatingWebhookConfiguration",
            "defaults",
            "webhooks",
            &webhooks,
        );
        let api = Api::<MutatingWebhookConfiguration>::all(client.clone());
        api.patch("defaults", &params, &defaults).await.unwrap();
        let name = "knots.conv.example.com";
        let knots = object("CustomResourceDefinition", name, "spec", &definition);
        let api = Api::<CustomResourceDefinition>::all(client);
        api.patch(name, &params, &knots).await.unwrap();
    }

    /// The bundles of all webhooks; that of the definition is the last.
    pub(in crate::webhook) async fn bundles(&self) -> Vec<Vec<u8>> {
        let mut bundles = Vec::new();
        let checks = Api::<ValidatingWebhookConfiguration>::all(self.client());
        for webhook in checks.get("checks").await.unwrap().webhooks.unwrap() {
            assert_eq!(webhook.rules.map(|rules| rules.len()), Some(1));
            bundles.push(webhook.client_config.ca_bundle);
        }
        let defaults = Api::<MutatingWebhookConfiguration>::all(self.client());
        for webhook in defaults.get("defaults").await.unwrap().webhooks.unwrap() {
            assert!(webhook.client_config.service.is_some());
            bundles.push(webhook.client_config.ca_bundle);
        }
        let knots = Api::<CustomResourceDefinition>::all(self.client());
        let knots = knots.get("knots.conv.example.com").await.unwrap();
        let webhook = knots.spec.conversion.unwrap().webhook.unwrap();
        bundles.push(webhook.client_config.unwrap().ca_bundle);
        assert_eq!(bundles.len(), 5);
        let bundles = bundles
            .into_iter()
            .map(|bundle| bundle.unwrap_or_default().0);
        bundles.collect()
    }
}
