//! Everything that requests share, and the views that are a few numbers.
//!
//! ```text
//! Program, Gate, samples, reports, versions, seats ─▶ Shared ─▶ view(name, sight, query) ─▶ JSON
//! ```
//!
//! Upstream counterpart: none.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::journal::Journal;
use super::program::Program;
use super::query::Query;
use super::queues::Asked;
use super::reply::json;
use super::sampler::Sampler;
use super::sight::{Gate, Sight};
use super::versions::Versions;
use super::viewers::Viewers;
use super::{caches, pipeline, problems, queues};

/// BOUND: walks over all objects at a time.
const WALKS: usize = 2;

/// Everything that requests share.
pub(super) struct Shared {
    pub(super) program: Program,
    pub(super) gate: Gate,
    pub(super) sampler: Sampler,
    pub(super) journal: Journal,
    pub(super) versions: Versions,
    pub(super) viewers: Arc<Viewers>,
    pub(super) walks: Arc<Semaphore>,
}

impl Shared {
    pub(super) fn new(program: Program, gate: Gate) -> Arc<Self> {
        let shared = Self {
            program,
            gate,
            sampler: Sampler::default(),
            journal: Journal::default(),
            versions: Versions::default(),
            viewers: Arc::default(),
            walks: Arc::new(Semaphore::new(WALKS)),
        };
        shared.journal.gather(&shared.program);
        Arc::new(shared)
    }

    /// A view that is a few numbers, as JSON; `None` if there is none of this name.
    pub(super) fn view(&self, view: &str, sight: &Sight, query: &Query) -> Option<Bytes> {
        let (program, sampled) = (&self.program, || self.sampler.look(&self.program));
        Some(match view {
            "pipeline" => json(&pipeline::pipeline(program, &sampled(), sight)),
            "caches" => json(&caches::caches(program, &sampled(), sight)),
            "queues" => {
                let asked = Asked {
                    controller: query.text("controller"),
                    q: query.text("q").unwrap_or_default(),
                };
                json(&queues::queues(program, &sampled(), sight, &asked))
            }
            "problems" => {
                self.journal.gather(program);
                let noted = self.journal.read();
                json(&problems::problems(program, &sampled(), sight, &noted))
            }
            _ => return None,
        })
    }

    /// Does what is due without a viewer, twice a minute.
    pub(super) fn keep(&self) {
        self.journal.gather(&self.program);
        self.versions.forget_unseen();
        self.sampler.forget_old();
    }
}
