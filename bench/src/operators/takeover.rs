//! The time from the end of a leader to the first reconcile of its standby.
//!
//! ```text
//! leader idle, standby synced ─▶ SIGTERM | SIGKILL at T ─▶ standby: reconciled at U ─▶ U - T
//!        ▲── the standby leads, a new one is started ◀──────────────┘
//! ```

use std::time::Duration;

use nix::sys::signal::Signal;

use super::Timings;
use super::cluster::Cluster;
use super::process::Process;
use crate::subject::Failed;

/// The rest before an end: every object is reconciled, the lease's watch of the standby is open.
const REST: Duration = Duration::from_secs(3);

/// One kind of end, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Takeover {
    /// `SIGTERM` or `SIGKILL`.
    pub signal: Signal,
    /// The lease.
    pub timings: Timings,
    /// Take-overs.
    pub runs: usize,
    /// Objects in the cluster, and so in each replica's cache.
    pub objects: usize,
}

impl Takeover {
    /// Seconds of each take-over.
    ///
    /// # Errors
    /// A replica fails.
    pub async fn seconds(self, cluster: &Cluster) -> Result<Vec<f64>, Failed> {
        let objects = self.objects.to_string();
        let words = ["replica", self.timings.name(), &objects];
        let start = || Process::start(Some(&cluster.kubeconfig), &words);
        let mut leader = start()?;
        leader.wait_for("idle").await?;
        let mut seconds = Vec::new();
        for _ in 0..self.runs {
            let mut standby = start()?;
            standby.wait_for("synced").await?;
            tokio::time::sleep(REST).await;
            let ended = leader.signal(self.signal)?;
            let reconciled = standby.wait_for("reconciled").await?;
            seconds.push((reconciled - ended) / 1e6);
            leader.ended().await?;
            standby.wait_for("idle").await?;
            leader = standby;
        }
        leader.signal(Signal::SIGTERM)?;
        leader.ended().await?;
        Ok(seconds)
    }
}
