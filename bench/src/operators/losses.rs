//! The memory of a process that loses leases again and again, while its server is another process.
//!
//! ```text
//! elections, each on its lease ─won N─▶ the bench edits lease N ─▶ lost ─▶ idle ─▶ won again ..
//!                                └── rounds of losses ─▶ memory BYTES
//! ```

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kinform_operator::leader::{LeaderElection, LeaseOptions};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::Barrier;

use super::cluster::{Cluster, NAMESPACE};
use super::process::{Process, tell};
use crate::meter::resident_bytes;
use crate::subject::Failed;

/// Elections side by side: each waits a second or two after a loss.
pub const LEASES: usize = 20;

/// Rounds before the first figure: allocators and pools take what they keep.
const WARM: usize = 10;

/// As short as a lease of one second can be.
fn options() -> LeaseOptions {
    LeaseOptions {
        lease_duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(300),
        retry_period: Duration::from_millis(100),
        request_timeout: Duration::from_millis(400),
        margin: Duration::from_millis(100),
        ..LeaseOptions::default()
    }
}

/// Loses each lease `rounds` times; reports resident memory after each round.
///
/// # Errors
/// An election does not start, or ends.
pub async fn run(rounds: usize) -> Result<(), Failed> {
    let config = kube::Config::infer().await?;
    let round = Arc::new(Barrier::new(LEASES));
    let mut elections = tokio::task::JoinSet::new();
    for number in 0..LEASES {
        let election = LeaderElection::new(NAMESPACE, format!("lost-{number}"));
        let leadership = election.options(options()).start(config.clone())?;
        let round = Arc::clone(&round);
        elections.spawn(async move {
            for _ in 0..rounds {
                let term = leadership.won().await?;
                tell("won", number);
                leadership.lost(&term).await;
                leadership.idle();
                if round.wait().await.is_leader() {
                    tell("memory", resident_bytes().0);
                }
            }
            leadership.stop().await;
            Ok::<_, kinform_operator::Error>(())
        });
    }
    while let Some(ended) = elections.join_next().await {
        ended??;
    }
    tell("memory", resident_bytes().0);
    Ok(())
}

/// Bytes that the process grew by for each loss after the first rounds, and each round's memory.
///
/// # Errors
/// The process fails.
pub async fn bytes_a_loss(cluster: &Cluster, losses: usize) -> Result<(f64, Vec<f64>), Failed> {
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let rounds = losses.div_ceil(LEASES).max(WARM + 2);
    let mut process = Process::start(Some(&cluster.kubeconfig), &["losses", &rounds.to_string()])?;
    let (mut memory, mut edits) = (Vec::new(), 1_i32);
    while let Some((word, number)) = process.next().await? {
        if word == "memory" {
            memory.push(number);
            continue;
        }
        edits += 1;
        let name = format!("lost-{number}");
        let patch = json!({"spec": {"leaseTransitions": 1_000 + edits}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        leases.patch(&name, &params, &patch).await?;
    }
    process.ended().await?;
    let after_rounds = memory.get(WARM..rounds).unwrap_or_default();
    let (Some(first), Some(last)) = (after_rounds.first(), after_rounds.last()) else {
        return Err("too few rounds of losses".into());
    };
    let counted = (after_rounds.len() - 1) * LEASES;
    Ok(((last - first) / counted as f64, memory))
}
