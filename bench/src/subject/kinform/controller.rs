//! A controller: from a write on the server to its reconcile.
//!
//! ```text
//! embedded server ─watch─▶ informer ─▶ queue ─▶ reconcile ─▶ latency
//! ```

use std::convert::Infallible;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::InformerFactory;
use kinform::controller::{Action, Controller};
use kinform::source::{ClientOptions, client_for};

use crate::row::Reading;
use crate::subject::latency::Latencies;
use crate::subject::{Failed, Task};

pub(super) async fn run(task: &Task) -> Result<Vec<Reading>, Failed> {
    if task.heap.is_some() {
        return Ok(Vec::new());
    }
    // Without a limit of requests a second, as its peers are run.
    let options = ClientOptions::default().with_rate_limit(0, 0);
    let client = client_for(task.server()?, &options)?;
    let factory = InformerFactory::new(client);
    let maps = factory.informer::<ConfigMap>();
    let latencies = Arc::new(Latencies::new(task.size));
    let (noted, whole) = (Arc::clone(&latencies), latencies.whole.clone());
    let controller = Controller::of(&maps).shutdown_on(whole);
    factory.start()?;
    controller
        .run(move |map: Arc<ConfigMap>, _| {
            noted.note(map.metadata.annotations.as_ref());
            async { Ok::<_, Infallible>(Action::await_change()) }
        })
        .await?;
    Ok(latencies.readings())
}
