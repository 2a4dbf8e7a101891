//! The checks that every operator has.
//!
//! ```text
//! informers' states, stop, lease, webhooks → /readyz, /healthz
//! ```
//!
//! Upstream counterpart: none; its checks are the user's, and the scaffold's reply is always `ok`.

use std::sync::Arc;
use std::time::Duration;

use super::{Inner, Operator};
use crate::error::Error;
use crate::probes::{Check, Counts};
use kinform::{InformerFactory, InformerState};

/// The time for which an informer that cannot follow the server is taken as good enough.
const STALE: Duration = Duration::from_secs(120);
/// BOUND: informers that a cause names.
const NAMED: usize = 4;

/// Adds the checks of caches, webhooks and of the stop.
pub(super) fn add(operator: &Operator) -> Result<(), Error> {
    let Inner {
        probes,
        factory,
        leaving,
        ..
    } = &*operator.0;
    let ping: Check = Arc::new(|| Ok(()));
    probes.live.add("ping", Counts::Everywhere, ping)?;
    let leaving = leaving.clone();
    let shutdown: Check = Arc::new(move || match leaving.is_cancelled() {
        true => Err("the process is stopping".to_owned()),
        false => Ok(()),
    });
    probes.ready.add("shutdown", Counts::Everywhere, shutdown)?;
    let factory = factory.clone();
    let informers: Check = Arc::new(move || check(&factory));
    probes
        .ready
        .add("informers", webhooks(operator)?, informers)
}

/// Adds the check of the webhooks, if there are any. Then the caches do not count: they may need the
/// webhooks before they can list.
#[cfg(feature = "webhook")]
fn webhooks(operator: &Operator) -> Result<Counts, Error> {
    let Some((_, certificates)) = operator.0.webhooks.get() else {
        return Ok(Counts::Everywhere);
    };
    let certificates = certificates.clone();
    let check: Check = Arc::new(move || certificates.check());
    let ready = &operator.0.probes.ready;
    ready.add("webhooks", Counts::Everywhere, check)?;
    Ok(Counts::UnderItsName)
}

#[cfg(not(feature = "webhook"))]
fn webhooks(_: &Operator) -> Result<Counts, Error> {
    Ok(Counts::Everywhere)
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
                // One that was read from disk is stale before it is synced.
                InformerState::Stale { since, .. } if informer.has_synced() => {
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
