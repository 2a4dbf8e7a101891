//! One key of a small tenant, behind very many of a large one, on one worker.
//!
//! ```text
//! events: the large tenant's keys ─▶ one worker, fair by namespace ◀─ one key of the small tenant
//! ```

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::Fairness;
use kinform::controller::{Action, Controller};
use tokio_util::sync::CancellationToken;

use super::source::Fed;
use crate::subject::Failed;

/// The time of one reconcile.
const SERVICE: Duration = Duration::from_millis(2);
/// Reconciles of the large tenant before the small one's key comes.
const BEFORE: usize = 50;

/// Reconciles of the large tenant that began between the arrival of the small tenant's key in the
/// queue and its reconcile.
///
/// # Errors
/// The informer does not start.
pub async fn service_times(large: usize) -> Result<f64, Failed> {
    let mut fed = Fed::new(0);
    let stop = CancellationToken::new();
    let (begun, waited) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let controller = Controller::of(&fed.maps);
    let controller = controller.workers(1).fair_by(Fairness::by_namespace());
    let controller = controller.shutdown_on(stop.clone());
    let (counted, told) = (Arc::clone(&begun), Arc::clone(&waited));
    let queue = controller.queue();
    let (done, token) = (stop.clone(), stop.clone());
    let running = tokio::spawn(controller.run(move |map: Arc<ConfigMap>, _| {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        if map.metadata.namespace.as_deref() == Some("small") {
            told.store(number, Ordering::Relaxed);
            done.cancel();
        }
        async {
            tokio::time::sleep(SERVICE).await;
            Ok::<_, Infallible>(Action::await_change())
        }
    }));
    fed.factory.start()?;
    // Events, not a first list, whose keys have a lower priority.
    fed.send("ADDED", "large", large);
    // The large tenant's keys are all in the queue, and its worker is busy.
    while queue.len() + begun.load(Ordering::Relaxed) < large
        || begun.load(Ordering::Relaxed) < BEFORE
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let depth = queue.len() + begun.load(Ordering::Relaxed);
    fed.send("ADDED", "small", 1);
    while queue.len() + begun.load(Ordering::Relaxed) <= depth && !token.is_cancelled() {
        tokio::task::yield_now().await;
    }
    let arrived = begun.load(Ordering::Relaxed);
    running.await??;
    let number = waited.load(Ordering::Relaxed);
    // Its own is not counted, the one under way is.
    Ok((number + 1).saturating_sub(arrived) as f64)
}
