//! The parts that run at one time: as long as a term lasts, or always.
//!
//! ```text
//! Parts → one task each → stop | loss | the failure of one → all joined
//! ```
//!
//! INVARIANT: no part runs when [`Team::run`] returns.
//!
//! Upstream counterpart: `controller-runtime:pkg/manager/runnable_group.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Operator;
use super::parts::{self, Need, When};
use crate::error::{Error, ErrorKind};

/// The parts that run at one time.
pub(super) struct Team<'a> {
    operator: &'a Operator,
    when: When,
    /// Cancelled to stop the parts in order.
    halt: CancellationToken,
    lost: CancellationToken,
    changes: watch::Receiver<u64>,
    // BOUND: one task for each part.
    running: JoinSet<(usize, Result<(), Error>)>,
    /// The parts that were started, by their address: a name can be used again.
    started: BTreeMap<usize, Arc<parts::Inner>>,
}

impl<'a> Team<'a> {
    pub(super) fn new(
        operator: &'a Operator,
        when: When,
        halt: CancellationToken,
        lost: CancellationToken,
    ) -> Self {
        Self {
            changes: operator.0.parts.changes(),
            operator,
            when,
            halt,
            lost,
            running: JoinSet::new(),
            started: BTreeMap::new(),
        }
    }

    /// Runs the parts, also those that are added later, until the stop, a loss or a failure; joins
    /// them all.
    pub(super) async fn run(&mut self, stop: &CancellationToken) -> Result<(), Error> {
        let outcome = loop {
            self.start();
            tokio::select! {
                biased;
                () = self.lost.cancelled() => break Ok(()),
                () = stop.cancelled() => break Ok(()),
                Some(ended) = self.running.join_next() => {
                    if let Err(error) = self.ended(ended) {
                        break Err(error);
                    }
                }
                // The sender lives as long as the operator.
                _ = self.changes.changed() => {}
            }
        };
        if !self.lost.is_cancelled() {
            self.operator.0.leave();
        }
        self.halt.cancel();
        let mut outcome = outcome;
        while let Some(ended) = self.running.join_next().await {
            outcome = match (outcome, self.ended(ended)) {
                (Err(first), Err(drain)) if drain.is_drain() && !first.is_drain() => Err(drain),
                (first, next) => first.and(next),
            };
        }
        outcome
    }

    /// Starts the parts that are new.
    fn start(&mut self) {
        // An informer that was made since belongs to one of them.
        if let Err(error) = self.operator.0.factory.start() {
            tracing::warn!("{error}");
        }
        for part in self.operator.0.parts.all() {
            let id = Arc::as_ptr(&part) as usize;
            let is_ours = part.when == self.when && !part.is_removed();
            if !is_ours || self.started.contains_key(&id) {
                continue;
            }
            if !part.begin() {
                continue;
            }
            self.started.insert(id, Arc::clone(&part));
            let (halt, lost) = (self.halt.clone(), self.lost.clone());
            self.running
                .spawn(async move { part.run(halt, lost).await }.map(move |ended| (id, ended)));
        }
    }

    fn ended(
        &mut self,
        ended: Result<(usize, Result<(), Error>), tokio::task::JoinError>,
    ) -> Result<(), Error> {
        let (id, ended) = ended
            .map_err(|error| Error::new(ErrorKind::Part, "a part was aborted").with_cause(error))?;
        let part = self.started.get(&id);
        let is_optional = part.is_some_and(|part| part.need == Need::Optional);
        let is_removed = part.is_some_and(|part| part.is_removed());
        if is_removed && let Some(part) = self.started.remove(&id) {
            self.operator.0.parts.forget(&part);
        }
        match ended {
            Err(error) if is_removed || (is_optional && !error.is_drain()) => {
                tracing::error!("{error}");
                Ok(())
            }
            ended => ended,
        }
    }
}
