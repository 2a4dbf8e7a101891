//! The checks that every operator has.
//!
//! ```text
//! informers' states, stop, lease, webhooks → /readyz, /healthz
//! ```
//!
//! Upstream counterpart: none; its checks are the user's, and the scaffold's reply is always `ok`.

use std::sync::Arc;
use std::time::Duration;

use kinform::{InformerFactory, InformerState};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::probes::{Check, Counts, Probes};

/// The time for which an informer that cannot follow the server is taken as good enough.
const STALE: Duration = Duration::from_secs(120);
/// BOUND: informers that a cause names.
const NAMED: usize = 4;

/// Adds the checks of caches and of the stop.
pub(super) fn add(
    probes: &Probes,
    (factory, counts): (&InformerFactory, Counts),
    leaving: &CancellationToken,
) -> Result<(), Error> {
    let ping: Check = Arc::new(|| Ok(()));
    probes.live.add("ping", Counts::Everywhere, ping)?;
    let factory = factory.clone();
    let informers: Check = Arc::new(move || check(&factory));
    probes.ready.add("informers", counts, informers)?;
    let leaving = leaving.clone();
    let shutdown: Check = Arc::new(move || match leaving.is_cancelled() {
        true => Err("the process is stopping".to_owned()),
        false => Ok(()),
    });
    probes.ready.add("shutdown", Counts::Everywhere, shutdown)
}

fn check(factory: &InformerFactory) -> Result<(), String> {
    let now = kinform::env::wall_clock();
    let causes: Vec<_> = factory
        .informers()
        .iter()
        .filter_map(|informer| {
            let state = informer.state();
            let is_well = match &state {
                InformerState::Synced { .. } => true,
                InformerState::Stale { since, .. } => {
                    let stale = now.duration_since(*since);
                    stale.unsigned_abs() <= STALE
                }
                // A type that is not installed keeps nobody from working on the others.
                InformerState::NoSuchKind(_) => true,
                _ => false,
            };
            (!is_well).then(|| format!("{}: {state}", informer.resource()))
        })
        .collect();
    if causes.is_empty() {
        return Ok(());
    }
    let more = causes.len().saturating_sub(NAMED);
    let mut cause = causes[..causes.len() - more].join("; ");
    if more > 0 {
        cause = format!("{cause}; and {more} more");
    }
    Err(cause)
}
