//! A run from start to verdict: the server, the operator, load, troubles, peace.
//!
//! ```text
//! server, population ─▶ operator synced ─▶ figures before ─▶ load and troubles, a sample each 5 s
//!   ─▶ peace ─▶ figures after, caches compared ─▶ verdict
//! ```
//!
//! The operator is never ended in between: leaks are looked for. Everything else may be.

mod certificate;
mod churn;
mod operator;
mod record;
mod server;
mod trouble;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use self::churn::Churn;
use self::operator::Operator;
use self::record::Record;
use self::trouble::{Deck, Trouble};
use self::world::World;
use crate::Failure;
use crate::sample::{Command, Reply, Sample, Usage};
use crate::verdict::Evidence;

/// The time between two samples.
const EACH: Duration = Duration::from_secs(5);
/// BOUND: the time that the operator has to sync, lead and come to rest.
const START: Duration = Duration::from_secs(120);
/// BOUND: the time that the operator has to come to rest after the load.
const PEACE: Duration = Duration::from_secs(120);
/// The time between two looks at an operator that comes to rest.
const LOOK: Duration = Duration::from_secs(1);
/// Seconds of a run that can wait until the first connections are forgotten.
const LONG: u64 = 300;
/// The time after which a client forgets connections that are not used, and two tasks with them. A
/// short run begins before, and so does not see a leak of two tasks.
const IDLE: Duration = Duration::from_secs(55);
/// The time between two renewals of the lease.
const RENEWAL: Duration = Duration::from_secs(2);
/// BOUND: times that connections are made anew after the load, until they are as few as before: how
/// many there are depends on which request is the first.
const CUTS: usize = 5;
/// Looks in a row at which an operator at rest heard nothing.
const QUIET: usize = 3;
/// The time between two troubles, at least and at most; a run has twenty of them.
const BETWEEN: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(120));

/// The options of a run.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Seconds under load
    #[arg(long)]
    seconds: u64,
    /// The program `kinform`, which is the server
    #[arg(long)]
    server: PathBuf,
    /// The file of the figures
    #[arg(long)]
    output: PathBuf,
    /// Writes a second
    #[arg(long, default_value_t = 200)]
    rate: u32,
    /// The seed of writes and troubles
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A run under way.
struct Run {
    world: Arc<World>,
    churn: Churn,
    operator: Operator,
    record: Record,
    evidence: Evidence,
}

/// Runs a soak; returns its summary.
///
/// # Errors
/// An objection a line, or the reason why there is no verdict.
pub(crate) async fn run(arguments: Arguments) -> Result<String, Failure> {
    tokio::select! {
        biased;
        // What was made for the run is removed in any case.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Err("interrupted".into())
        }
        ended = until_verdict(arguments) => ended,
    }
}

async fn until_verdict(arguments: Arguments) -> Result<String, Failure> {
    let mut record = Record::new(&arguments.output)?;
    let (seconds, seed, rate) = (arguments.seconds, arguments.seed, arguments.rate);
    record.line(
        "run",
        json!({"seconds": seconds, "seed": seed, "rate": rate}),
    )?;
    let world = Arc::new(World::start(&arguments.server, &arguments.output).await?);
    let churn = Churn::populate(world.client()?, seed).await?;
    let operator = Operator::start(&world).await?;
    let mut run = Run {
        world,
        churn,
        operator,
        record,
        evidence: Evidence::default(),
    };
    run.before(seconds).await?;
    run.load(&arguments).await?;
    run.peace().await?;
    let objections = run.evidence.objections();
    run.operator.stop().await?;
    run.record.line("stopped", json!({}))?;
    let summary = record::summary(&run.evidence, &run.record);
    let verdict = json!({"growth": run.evidence.growth().to_json(), "objections": objections});
    run.record.line("verdict", verdict)?;
    match objections.is_empty() {
        true => Ok(format!("{summary}soak: passed\n")),
        false => Err(format!("failed\n{summary}{}", objections.join("\n")).into()),
    }
}

impl Run {
    /// The figures before the load. Connections are made anew: the first ones of all are more than
    /// are needed, until it is known how many replies share one.
    async fn before(&mut self, seconds: u64) -> Result<(), Failure> {
        self.rest(START).await?;
        let mut before = self.rest_after_cut(START).await?;
        if seconds >= LONG {
            tokio::time::sleep(IDLE).await;
            before = self.rest(START).await?;
        }
        self.record.line("before", serde_json::to_value(&before)?)?;
        self.evidence.before = before;
        Ok(())
    }

    /// The figures at rest, after all connections were made anew.
    async fn rest_after_cut(&mut self, limit: Duration) -> Result<Sample, Failure> {
        self.world.proxy.cut();
        // The lease's next request is a connection, too.
        tokio::time::sleep(RENEWAL).await;
        self.rest(limit).await
    }

    /// Waits until the operator has synced and leads, and hears nothing any more.
    async fn rest(&mut self, limit: Duration) -> Result<Sample, Failure> {
        let (deadline, mut quiet, mut last) = (Instant::now() + limit, 0, Sample::default());
        while quiet < QUIET {
            let sample = self.operator.sample().await?;
            let is_quiet = sample.has_synced
                && sample.is_leading
                && (sample.heard, sample.reconciles) == (last.heard, last.reconciles);
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if Instant::now() >= deadline {
                let sample = serde_json::to_string(&sample)?;
                return Err(
                    format!("the operator is not at rest after {limit:?}: {sample}").into(),
                );
            }
            last = sample;
            tokio::time::sleep(LOOK).await;
        }
        Ok(last)
    }

    /// Load and troubles for the wanted time, with a sample each five seconds.
    async fn load(&mut self, arguments: &Arguments) -> Result<(), Failure> {
        self.operator.ask(Command::Load).await?;
        self.churn.start(arguments.rate);
        let length = Duration::from_secs(arguments.seconds);
        let between = (length / 20).clamp(BETWEEN.0, BETWEEN.1);
        let mut deck = Deck::new(arguments.seed, between);
        let (mut trouble, mut next) = (None::<JoinHandle<_>>, between / 2);
        let mut ticks = interval(EACH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is now.
        ticks.tick().await;
        self.record.begin();
        loop {
            ticks.tick().await;
            let at = self.record.at();
            self.sample(at).await?;
            if let Some(made) = trouble.take_if(|made| made.is_finished()) {
                self.troubled(made.await?)?;
            }
            if at >= length {
                break;
            }
            if at >= next && at + between / 2 < length && trouble.is_none() {
                let drawn = deck.draw();
                self.record
                    .line("trouble", json!({"what": drawn.to_string()}))?;
                let world = Arc::clone(&self.world);
                trouble = Some(tokio::spawn(
                    async move { (drawn.make(&world).await, drawn) },
                ));
                next = at + between;
            }
        }
        if let Some(made) = trouble {
            self.troubled(made.await?)?;
        }
        self.evidence.seconds = self.record.at().as_secs_f64();
        let wanted = arguments.seconds * u64::from(arguments.rate);
        self.evidence.writes = (self.churn.counts().made, wanted);
        Ok(())
    }

    fn troubled(&mut self, made: (Result<(), Failure>, Trouble)) -> Result<(), Failure> {
        let (made, trouble) = made;
        made.map_err(|error| format!("{trouble} could not be made: {error}"))?;
        self.record.troubles += 1;
        Ok(())
    }

    async fn sample(&mut self, at: Duration) -> Result<(), Failure> {
        let sample = self.operator.sample().await?;
        let scraped = self.operator.scrape(&self.world, sample.metrics_port).await;
        let seconds = at.as_secs_f64();
        let evidence = &mut self.evidence;
        evidence
            .resident
            .push((seconds, sample.usage.resident_bytes as f64));
        evidence.live.push((seconds, sample.live_bytes as f64));
        // Between two processes there are no figures.
        let server = self.world.server_process().map(|id| Usage::of(Some(id)));
        let line = json!({
            "operator": sample, "server": server, "load": self.churn.counts(),
            "scraped": scraped.is_ok(),
        });
        self.record.line("sample", line)
    }

    /// The end of load and troubles: figures that must be as before, and caches that must be equal.
    async fn peace(&mut self) -> Result<(), Failure> {
        self.churn.stop().await;
        self.world.peace().await?;
        self.operator.ask(Command::Rest).await?;
        let mut after = self.rest(PEACE).await?;
        self.record.line("rest", serde_json::to_value(&after)?)?;
        self.evidence.rest = after.clone();
        for _ in 0..CUTS {
            if is_back(&self.evidence.before, &after) {
                break;
            }
            after = self.rest_after_cut(PEACE).await?;
        }
        self.record.line("after", serde_json::to_value(&after)?)?;
        let compared = self.operator.ask(Command::Compare).await?;
        if let Reply::Compared(differences) = compared {
            self.evidence.differences = differences;
        }
        let found = json!({"differences": self.evidence.differences});
        self.record.line("compared", found)?;
        let scraped = self.operator.scrape(&self.world, after.metrics_port).await;
        if let Err(error) = scraped {
            let line = format!("the metrics are not served with the last certificate: {error}");
            self.evidence.failures.push(line);
        }
        self.evidence.after = after;
        Ok(())
    }
}

/// Returns whether the operator has no more tasks and descriptors than before the load.
fn is_back(before: &Sample, after: &Sample) -> bool {
    after.tasks <= before.tasks && after.usage.descriptors <= before.usage.descriptors
}
