//! Requests that kubectl and a program on client-go sent to a real server, and its replies. The
//! test sends them to our server in the same order, from the recorder's initial state.
//!
//! ```text
//! lists ── story, writes, a definition ──▶ kubectl ──▶ client-go
//! ```
//!
//! Some replies were not kept, mostly for their size (OpenAPI documents, a table, streams): only
//! their code and media type are compared.

use kinform_apiserver::{Server, Service};
use serde_json::Value;

use super::comparison::Comparison;
use super::recorded::{Exchange, exchanges, put, reach, reply, server};
use super::rows::Rows;
use super::streams::{self, story};
use super::writes::{definition, writes};

/// Number of replies that were not kept.
pub(crate) const NOT_KEPT: usize = 11;

/// An exchange with our versions. A JSON patch has the version as a value.
fn as_ours(comparison: &Comparison, exchange: &Exchange) -> Exchange {
    let mut exchange = exchange.clone().in_ours(&comparison.learned);
    let request = exchange.request.as_deref().unwrap_or_default();
    if let Ok(Value::Array(mut operations)) = serde_json::from_slice(request) {
        for operation in &mut operations {
            let said = operation["value"].as_str().unwrap_or_default();
            if operation["path"] == "/metadata/resourceVersion"
                && let Some(ours) = comparison.learned.get(said)
            {
                operation["value"] = Value::from(ours.as_str());
            }
        }
        exchange.request = Some(Value::from(operations).to_string().into_bytes());
    }
    // An index of documents has the path of each, with a hash of its server.
    if exchange.path.starts_with("/openapi/v3/") {
        exchange.path = comparison.in_ours(&exchange.path);
    }
    exchange
}

async fn replay(service: &Service, folder: &'static str, comparison: &mut Comparison) -> Rows {
    let mut rows = Rows::of(folder);
    for exchange in exchanges(folder) {
        let exchange = as_ours(comparison, &exchange);
        let reply = reply(service, &exchange).await;
        let mut differences = match exchange.bytes.as_slice() {
            b"" => Vec::new(),
            recorded if exchange.path.contains("watch=true") => {
                streams::compare_begun(comparison, recorded, &reply.bytes)
            }
            recorded => comparison.bodies(recorded, &reply.bytes),
        };
        differences.extend(comparison.head(&exchange, &reply));
        rows.row(&exchange, &differences);
    }
    rows
}

/// Restores a pod that waits for its kubelet, as recorded: here, a deleted pod is gone immediately.
fn restore_terminating(server: &Server) {
    let recorded = |folder: &str, file: &str| {
        let mut all = exchanges(folder).into_iter();
        let exchange = all.find(|exchange| exchange.file == file).unwrap();
        serde_json::from_slice::<Value>(&exchange.bytes).unwrap()
    };
    let minimal = recorded("write", "write/delete-pod-graceful.json");
    let pods = recorded("list", "list/pods.json");
    let mut pods = pods["items"].as_array().unwrap().iter();
    let mut cart = pods
        .find(|pod| pod["metadata"]["name"] == "cart-00042")
        .unwrap()
        .clone();
    for name in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        cart["metadata"][name] = minimal["metadata"][name].clone();
    }
    for pod in [minimal, cart] {
        put(server, &["api", "v1", "pods"].map(str::to_owned), pod);
    }
}

#[tokio::test(start_paused = true)]
async fn kubectl_and_a_program_on_client_go_are_answered_as_by_a_real_server() {
    let server = server().await;
    reach(&server, 725);
    let service = server.service();
    story(&service).await;
    let mut comparison = writes(&service, &mut Rows::of("write")).await;
    restore_terminating(&server);
    definition(&service, &mut Rows::of("crd")).await;
    reach(&server, 827);
    let kubectl = replay(&service, "kubectl", &mut comparison).await;
    let clientgo = replay(&service, "clientgo", &mut comparison).await;
    let all = exchanges("kubectl")
        .into_iter()
        .chain(exchanges("clientgo"));
    let not_kept = all.filter(|exchange| exchange.bytes.is_empty());
    assert_eq!(not_kept.count(), NOT_KEPT);
    kubectl.finish();
    clientgo.finish();
}
