//! A controller: from a write on the server to its reconcile.
//!
//! ```text
//! embedded server ─watch─▶ reflector ─▶ scheduler ─▶ reconcile ─▶ latency
//! ```

use std::convert::Infallible;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client};

use crate::row::Reading;
use crate::subject::latency::Latencies;
use crate::subject::{Failed, Task};

pub(super) async fn run(task: &Task) -> Result<Vec<Reading>, Failed> {
    if task.heap.is_some() {
        return Ok(Vec::new());
    }
    let maps: Api<ConfigMap> = Api::all(Client::try_from(task.server()?)?);
    let latencies = Arc::new(Latencies::new(task.size));
    let whole = latencies.whole.clone();
    Controller::new(maps, watcher::Config::default())
        .graceful_shutdown_on(whole.cancelled_owned())
        .run(
            |map: Arc<ConfigMap>, latencies: Arc<Latencies>| async move {
                latencies.note(map.metadata.annotations.as_ref());
                Ok::<_, Infallible>(Action::await_change())
            },
            |_, _, _| Action::await_change(),
            Arc::clone(&latencies),
        )
        .for_each(|_| async {})
        .await;
    Ok(latencies.readings())
}
