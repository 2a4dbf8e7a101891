//! Work of each cluster: begun when it joins, ended when it leaves.
//!
//! ```text
//! joined ─▶ run(cluster) as a task ──left() cancelled──▶ it ends ─▶ joined again: run anew
//! ```
//!
//! A controller keeps its queue and workers to one cluster: a key is reconciled by one worker at a
//! time in its cluster, and a cluster that is away holds no worker of another.
//! INVARIANT: work of a name begins only after the work of an earlier cluster of that name has ended.
//!
//! Upstream counterpart: `multicluster-runtime:pkg/multicluster` (`Aware.Engage`).

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use tokio::task::{Id, JoinSet};

use super::{Cluster, Clusters};
use crate::error::{Error, ErrorKind};

impl Clusters {
    /// Runs `run` for each cluster, now and later, as a task of its own, until the clusters are
    /// shut down or a run fails.
    ///
    /// A run must end when [`Cluster::left`] is cancelled, as a controller does with
    /// [`shutdown_on`](crate::Controller::shutdown_on). One that ends without an error before is
    /// done: it is not begun again while the cluster is here.
    ///
    /// # Errors
    /// A run failed or panicked: the error names its cluster. The other runs are ended first, by the
    /// drop of their futures.
    ///
    /// # Cancel safety
    /// Dropping the future ends all runs at their next await.
    pub async fn engage<F, R, E>(&self, run: F) -> Result<(), Error>
    where
        F: Fn(Cluster) -> R,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        let mut changed = self.0.changed.subscribe();
        let mut runs = JoinSet::new();
        let mut engaged: BTreeMap<Arc<str>, Engaged> = BTreeMap::new();
        loop {
            changed.mark_unchanged();
            engaged.retain(|_, one| one.task.is_some() || !one.cluster.ended.is_cancelled());
            for cluster in self.all() {
                // It has left, and is about to be taken out.
                if cluster.ended.is_cancelled() {
                    continue;
                }
                let is_known = engaged.get(&cluster.name);
                if is_known.is_some_and(|known| known.task.is_some() || known.is(&cluster)) {
                    continue;
                }
                let task = runs.spawn(run(cluster.clone())).id();
                let task = Some(task);
                engaged.insert(Arc::clone(&cluster.name), Engaged { cluster, task });
            }
            tokio::select! {
                biased;
                Some(ended) = runs.join_next_with_id() => {
                    let (id, result) = match ended {
                        Ok((id, result)) => (id, result.map_err(|error| error.to_string())),
                        Err(error) => (error.id(), Err(error.to_string())),
                    };
                    let one = engaged.values_mut().find(|one| one.task == Some(id));
                    let Some(one) = one else { continue };
                    one.task = None;
                    if let Err(error) = result {
                        let message = format!("cluster {}: {error}", one.cluster.name);
                        runs.shutdown().await;
                        return Err(Error::new(ErrorKind::Failed, message));
                    }
                }
                () = self.0.stop.cancelled(), if runs.is_empty() => return Ok(()),
                _ = changed.changed() => {}
            }
        }
    }
}

/// A cluster whose run was begun.
struct Engaged {
    cluster: Cluster,
    /// `None` after its end.
    task: Option<Id>,
}

impl Engaged {
    /// Returns whether it is the very same cluster, and not one of its name.
    fn is(&self, cluster: &Cluster) -> bool {
        self.cluster.id == cluster.id
    }
}
