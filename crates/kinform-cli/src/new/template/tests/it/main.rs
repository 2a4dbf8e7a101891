//! The controller on the embedded API server, and under faults; no cluster is needed.

mod manifests;
mod server;
mod simulation;

use kinform::CancellationToken;
use kinform_operator::{Error, Operator, Settings};
use kube::Client;
use serde_json::json;

use ::gizmo_operator::{NAME, api, controller};

/// The operator as `main` runs it, without a lease, probes and metrics.
async fn operator(client: Client) -> Result<(), Error> {
    let mut settings = Settings::default();
    settings.probe_address = None;
    let builder = Operator::builder(NAME).settings(settings);
    let operator = builder.with_client(client)?;
    operator.add(controller(&operator))?;
    operator.run_until(CancellationToken::new()).await
}

/// The namespace in the keys of the objects, if they have one.
const NAMESPACE: &str = "default/"; // only: namespaced
const NAMESPACE: &str = ""; // only: cluster

/// The key of the object with this name.
fn key(name: &str) -> String {
    format!("{NAMESPACE}{name}")
}

/// The key of its ConfigMap.
fn config_map_key(name: &str) -> String {
    format!("default/{name}")
}

fn example(name: &str, text: &str) -> api::Gizmo {
    let metadata = json!({"name": name, "namespace": "default"}); // only: namespaced
    let metadata = json!({"name": name}); // only: cluster
    let object = json!({
        "apiVersion": "gizmo.example/v1alpha1",
        "kind": "Gizmo",
        "metadata": metadata,
        "spec": {"text": text},
    });
    serde_json::from_value(object).expect("an example fits the type")
}
