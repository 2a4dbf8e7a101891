//! The controller that tells kubelets how long they may keep secrets and config maps.
//!
//! ```text
//! number of nodes ─▶ step of its size (with hysteresis) ─▶ annotation node.alpha.kubernetes.io/ttl
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/ttl`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Node;
use kinform::{Action, Controller, Ctx, Informer, Reconciler};
use serde_json::{Value, json};

use crate::frame::Frame;
use crate::json::{annotation, name};
use crate::writer::{Failed, Writer};

const TTL: &str = "node.alpha.kubernetes.io/ttl";

/// The sizes of a cluster: the least and the greatest number of nodes, and the seconds.
const STEPS: [(usize, usize, u32); 5] = [
    (0, 100, 0),
    (90, 500, 15),
    (450, 1_000, 30),
    (900, 2_000, 60),
    (1_800, usize::MAX, 300),
];

/// The context of every reconcile.
struct State {
    nodes: Informer<Value>,
    step: AtomicUsize,
}

/// Makes the controller.
pub(crate) fn controller(frame: &Frame) -> Reconciler {
    let nodes: Informer<Node> = frame.factory.informer();
    let nodes: Informer<Value> = nodes.cast();
    let state = State {
        nodes: nodes.clone(),
        step: AtomicUsize::new(0),
    };
    Controller::of(&nodes)
        .named("ttl-controller")
        .client(frame.client("ttl-controller"))
        .context(state)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile)
}

async fn reconcile(node: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    // One worker: nobody else changes the step in between.
    let step = next_step(cx.step.load(Ordering::Relaxed), cx.nodes.store().len());
    cx.step.store(step, Ordering::Relaxed);
    let wanted = STEPS[step].2;
    let found = annotation(&node, TTL).and_then(|found| found.parse().ok());
    if found != Some(wanted) {
        let patch = json!({"metadata": {"annotations": {TTL: wanted.to_string()}}});
        let writer = Writer::new(cx.client()?, "kube-controller-manager");
        let path = format!("/api/v1/nodes/{}", name(&node));
        writer.patch(&path, &patch).await?;
    }
    Ok(Action::await_change())
}

/// The step for a number of nodes. Sizes overlap, so that a node more or less does not matter.
fn next_step(mut step: usize, nodes: usize) -> usize {
    while nodes > STEPS[step].1 {
        step += 1;
    }
    while nodes < STEPS[step].0 {
        step -= 1;
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    // kubernetes: TestDesiredTTL
    #[test]
    fn larger_clusters_keep_secrets_for_longer() {
        let check = |step: usize, nodes: usize, seconds: u32| {
            assert_eq!(STEPS[next_step(step, nodes)].2, seconds, "{step} {nodes}");
        };
        check(0, 0, 0);
        check(0, 100, 0);
        check(0, 101, 15);
        check(1, 91, 15);
        check(1, 89, 0);
        check(2, 500, 30);
        check(2, 449, 15);
        check(0, 5_000, 300);
        check(4, 1, 0);
    }
}
