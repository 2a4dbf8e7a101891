//! The demo's program: its cluster, pipeline, page and churn, started and ended in order.
//!
//! ```text
//! Stage → Pipeline (synced) → inspector → churn      end: churn → controllers → comparison → server
//! ```
//!
//! The screen, the plain lines and the tour run on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kinform_operator::Inspector;
use tokio::task::JoinHandle;

use super::acts::Scene;
use super::churn::{self, SendClock, Tally};
use super::compare::Difference;
use super::page;
use super::pipeline::Pipeline;
use super::stage::Stage;
use crate::exit::Failure;

/// The time within which the caches must agree with the server once churn has stopped.
const SETTLE: Duration = Duration::from_secs(5);
/// BOUND: differences that are printed.
const PRINTED: usize = 20;

/// The running demo.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) stage: Stage,
    pub(crate) pipeline: Pipeline,
    tally: Arc<Tally>,
    inspector: Inspector,
    churn: JoinHandle<()>,
}

impl Program {
    /// Starts everything, and tells the addresses on stderr.
    pub(crate) async fn start(pods: usize, churn: u32) -> Result<Self, Failure> {
        let clock = SendClock::start();
        let stage = Stage::set(pods).await?;
        stage.announce();
        let pipeline = Pipeline::start(&stage, clock).await?;
        crate::progress!(
            "synced {} objects in {:.2} s, {:.2} s after the start",
            pipeline.objects(),
            pipeline.sync_seconds,
            clock.elapsed().as_secs_f64()
        );
        let inspector = page::serve(&pipeline).await?;
        crate::progress!("the same as a page: {}", inspector.url());
        let tally = Arc::new(Tally::default());
        let churn = tokio::spawn(churn::churn(
            (*stage.client).clone(),
            clock,
            stage.targets.clone(),
            churn,
            Arc::clone(&tally),
        ));
        Ok(Self {
            stage,
            pipeline,
            tally,
            inspector,
            churn,
        })
    }

    /// The parts that acts play on.
    pub(crate) fn scene(&self) -> Scene<'_> {
        Scene {
            stage: &self.stage,
            pipeline: &self.pipeline,
        }
    }

    /// The address of the page.
    pub(crate) fn url(&self) -> &str {
        self.inspector.url()
    }

    /// Opens the page in a browser, or says that there is none.
    pub(crate) async fn open_page(&self) {
        if !page::open(self.url()).await {
            crate::progress!("no browser was found; open the address above");
        }
    }

    /// Ends churn and controllers; returns the keys that differ between caches and server.
    pub(crate) async fn settle(&mut self) -> Result<Vec<Difference>, Failure> {
        self.churn.abort();
        // It was aborted.
        let _ = (&mut self.churn).await;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        crate::progress!(
            "the server accepted {} changes and refused {}",
            count(&self.tally.accepted),
            count(&self.tally.refused)
        );
        let controllers = self.pipeline.replicas.stop().await;
        let differences = self.pipeline.settle(&self.stage, SETTLE).await?;
        controllers.map(|()| differences)
    }

    /// Ends the rest. Differences are a failure.
    pub(crate) async fn end(self, differences: &[Difference]) -> Result<(), Failure> {
        self.inspector.stop().await;
        self.pipeline.shut_down().await;
        self.stage.server.stop().await;
        if differences.is_empty() {
            crate::progress!("every key of every cache agrees with the server");
            return Ok(());
        }
        for difference in differences.iter().take(PRINTED) {
            crate::progress!("  {difference}");
        }
        Err(Failure::new(format!(
            "{} keys differ between caches and server",
            differences.len()
        )))
    }
}
