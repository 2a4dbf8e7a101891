//! Act 7: the server of a validating webhook stops, and writes are refused until it is back.
//!
//! ```text
//! write of a Deployment of a Foo ─▶ API server ─POST review─▶ webhook (HTTPS, loopback) ─▶ allowed
//!                                        └─ nobody listens, failurePolicy Fail ─▶ refused
//! ```
//!
//! The webhook is made when the act is played first: its certificate takes a moment, and the demo
//! starts without it. It is called for Deployments that the sample controller made, and for no others.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kinform_operator::webhook::{
    AdmissionRequest, Certificates, Error as WebhookError, Managed, Verdict, Webhooks,
    validate_path,
};
use kube_client::api::{DeleteParams, Patch, PatchParams};
use kube_client::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Scene;
use crate::demo::stage::ensure;
use crate::exit::Failure;

const NAMESPACE: &str = "default";
/// The name of the configuration, of the Service, and of the Secret with the certificate.
const NAME: &str = "act-webhook";
/// The Deployments that it is called for.
const OF_A_FOO: &str = "object.metadata.name.startsWith('from-')";
/// One of them, which the act writes itself.
const DEPLOYMENT: &str = "from-foo-0";
/// BOUND: the time until the webhook answers.
const READY: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// The webhook.
#[derive(Debug, Default)]
pub(super) struct KilledWebhook {
    made: Option<Made>,
    /// `None` while it is dead.
    serving: Option<Serving>,
    writes: u32,
    /// The reply to a write without the webhook, and the failures of reconciles before it.
    refusal: Option<(String, u64)>,
}

#[derive(Debug)]
struct Made {
    webhooks: Webhooks,
    certificates: Certificates,
    address: SocketAddr,
}

#[derive(Debug)]
struct Serving {
    stop: CancellationToken,
    task: JoinHandle<Result<(), WebhookError>>,
}

impl KilledWebhook {
    /// Serves the webhook, shows that it lets a write pass, and stops it. After a failure it is
    /// removed.
    pub(super) async fn play(&mut self, scene: Scene<'_>) -> Result<String, Failure> {
        let played = self.serve_and_stop(scene).await;
        if played.is_err() {
            self.remove(scene).await;
        }
        played
    }

    async fn serve_and_stop(&mut self, scene: Scene<'_>) -> Result<String, Failure> {
        let client: &Client = &scene.stage.client;
        let made = match self.made.take() {
            Some(made) => made,
            None => make(client).await?,
        };
        // Noted before the configuration is there, so that `remove` finds it after a cancellation.
        let made = self.made.insert(made);
        configure(client, made.address).await?;
        self.serve(client).await?;
        self.stop().await?;
        let failures = scene.pipeline.work().failed;
        match self.write(client).await {
            Err(kube_client::Error::Api(status)) => {
                let text = format!("a write was refused: {}", status.message);
                self.refusal = Some((text, failures));
            }
            Err(error) => return Err(Failure::new(error.to_string())),
            Ok(()) => return Err(Failure::new("a write passed without the webhook")),
        }
        Ok(format!(
            "the server of {NAME} was stopped: Deployments of Foos cannot be written"
        ))
    }

    /// The effect: a write was refused, and a reconcile failed because of it.
    pub(super) fn refused(&self, scene: Scene<'_>) -> Option<String> {
        let (text, failures) = self.refusal.as_ref()?;
        let failed = scene.pipeline.work().failed.saturating_sub(*failures);
        (failed > 0).then(|| format!("{failed} reconciles failed; {text}"))
    }

    /// Serves it again.
    pub(super) async fn end(&mut self, scene: Scene<'_>) -> Result<String, Failure> {
        self.refusal = None;
        self.serve(&scene.stage.client).await?;
        Ok(format!("{NAME} is back, and writes pass again"))
    }

    /// Removes its configuration, so that nobody calls it, and stops it.
    pub(super) async fn remove(&mut self, scene: Scene<'_>) {
        self.refusal = None;
        if self.made.take().is_none() {
            return;
        }
        let client: &Client = &scene.stage.client;
        let configurations = Api::<ValidatingWebhookConfiguration>::all(client.clone());
        let deleted = configurations.delete(NAME, &DeleteParams::default()).await;
        if let Err(error) = deleted {
            tracing::debug!("{NAME}: {error}");
        }
        if let Err(failure) = self.stop().await {
            tracing::debug!("{NAME}: {failure}");
        }
    }

    /// Serves it, unless it is served, and waits until a write passes.
    async fn serve(&mut self, client: &Client) -> Result<(), Failure> {
        let Some(made) = &self.made else {
            return Ok(());
        };
        if self.serving.is_none() {
            let (webhooks, certificates) = (made.webhooks.clone(), made.certificates.clone());
            let (address, stop) = (made.address.to_string(), CancellationToken::new());
            let end = stop.clone();
            let task =
                tokio::spawn(async move { webhooks.serve(&address, &certificates, end).await });
            self.serving = Some(Serving { stop, task });
        }
        let passes = async {
            while let Err(error) = self.write(client).await {
                tracing::debug!("{NAME} is not ready: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        };
        let passed = tokio::time::timeout(READY, passes).await;
        passed.map_err(|_| Failure::new(format!("{NAME} does not answer within {READY:?}")))
    }

    async fn stop(&mut self) -> Result<(), Failure> {
        let Some(Serving { stop, task }) = self.serving.take() else {
            return Ok(());
        };
        stop.cancel();
        match task.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::new(format!("{NAME}: {error}"))),
            Err(error) => Err(Failure::new(format!("{NAME}: {error}"))),
        }
    }

    /// Writes a Deployment that the webhook is called for.
    async fn write(&mut self, client: &Client) -> Result<(), kube_client::Error> {
        self.writes += 1;
        let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
        let patch =
            json!({"metadata": {"annotations": {"kinform.dev/act": self.writes.to_string()}}});
        let params = PatchParams::default();
        let patched = deployments
            .patch_metadata(DEPLOYMENT, &params, &Patch::Merge(&patch))
            .await;
        patched.map(drop)
    }
}

/// Makes Service and certificate of the webhook.
async fn make(client: &Client) -> Result<Made, Failure> {
    // An error means that one was chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // The port is free when the webhook is served, unless another process takes it meanwhile.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = free.local_addr()?;
    drop(free);
    let service = json!({
        "metadata": {"name": NAME},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let services = Api::<Service>::namespaced(client.clone(), NAMESPACE);
    ensure(&services, &object(service)?).await?;
    let managed = Managed::new(NAMESPACE, NAME, NAME).validating(NAME);
    let unusable = |error: WebhookError| Failure::new(format!("{NAME}: {error}"));
    Ok(Made {
        webhooks: Webhooks::new().validate(validate).map_err(unusable)?,
        certificates: Certificates::managed(managed, client.clone()),
        address,
    })
}

/// Makes the configuration of the webhook at `address`, unless it is there.
async fn configure(client: &Client, address: SocketAddr) -> Result<(), Failure> {
    let configuration = json!({
        "metadata": {"name": NAME},
        "webhooks": [{
            "name": "deployments.act-webhook.kinform.dev",
            "clientConfig": {"service": {
                "namespace": NAMESPACE, "name": NAME, "port": address.port(),
                "path": validate_path::<Deployment>(),
            }},
            "rules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
                "operations": ["CREATE", "UPDATE"],
            }],
            "matchConditions": [{"name": "of-a-foo", "expression": OF_A_FOO}],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 2,
            "admissionReviewVersions": ["v1"],
        }],
    });
    let configurations = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    ensure(&configurations, &object(configuration)?).await
}

/// Allows everything but more replicas than the demo ever asks for.
async fn validate(request: AdmissionRequest<Deployment>) -> Result<Verdict, WebhookError> {
    let replicas = request.object.and_then(|object| object.spec.replicas);
    Ok(match replicas {
        Some(replicas) if replicas > 100 => Verdict::deny("more than 100 replicas"),
        _ => Verdict::allow(),
    })
}

fn object<K: DeserializeOwned>(json: Value) -> Result<K, Failure> {
    serde_json::from_value(json).map_err(|error| Failure::new(format!("{NAME}: {error}")))
}
