//! The last reports of the informers.
//!
//! ```text
//! Reports of each informer ─▶ gather, when somebody looks and each half minute ─▶ the last 256
//! ```
//!
//! No task follows the reports: an informer keeps its last ones for a subscriber that is late.
//!
//! Upstream counterpart: none.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use futures::{FutureExt, StreamExt};
use kinform::{Report, ReportEvent, Reports};

use super::program::Program;

/// BOUND: reports that are kept.
const KEPT: usize = 256;
/// BOUND: reports of an informer that are taken at a time; it keeps as many.
const AT_ONCE: usize = 256;

/// Reports, and where they come from.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    streams: HashMap<String, Reports>,
    // BOUND: `KEPT`.
    kept: VecDeque<Noted>,
}

/// A report of an informer.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub(super) cache: String,
    pub(super) report: Report,
}

impl Journal {
    /// Takes the reports since the last call, and follows informers that are new.
    pub(super) fn gather(&self, program: &Program) {
        let caches = program.caches();
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { streams, kept } = &mut *inner;
        streams.retain(|id, _| caches.iter().any(|cache| cache.id == *id));
        for cache in caches {
            let reports = streams
                .entry(cache.id.clone())
                .or_insert_with(|| cache.informer.reports());
            for _ in 0..AT_ONCE {
                let Some(Some(report)) = reports.next().now_or_never() else {
                    break;
                };
                if !is_trouble(&report.event) {
                    continue;
                }
                if kept.len() >= KEPT {
                    kept.pop_front();
                }
                kept.push_back(Noted {
                    cache: cache.id.clone(),
                    report,
                });
            }
        }
    }

    /// The reports that are kept, the newest first.
    pub(super) fn read(&self) -> Vec<Noted> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept: Vec<_> = inner.kept.iter().cloned().collect();
        kept.sort_by_key(|noted| std::cmp::Reverse(noted.report.time));
        kept
    }
}

fn is_trouble(event: &ReportEvent) -> bool {
    match event {
        ReportEvent::State(_)
        | ReportEvent::Listed { .. }
        | ReportEvent::Restored { .. }
        | ReportEvent::Resumed { .. }
        | ReportEvent::Reopened { .. } => false,
        ReportEvent::Compared { divergence, .. } => divergence.is_some(),
        _ => true,
    }
}
