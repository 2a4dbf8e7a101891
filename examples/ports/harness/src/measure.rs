//! The measurement of one column: starts at several sizes, rest, churn, troubles.
//!
//! ```text
//! sizes ─▶ start: first run, memory, requests ─▶ (the largest) rest ─▶ churn
//! another cluster ─▶ writes, cuts and expiries ─▶ missed, duplicates
//! ```
//!
//! The server is in this process and the program in its own, so the program's memory is its own. Each
//! column gets new clusters with the same objects and the same writes.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::cluster::Requests;
use crate::port::Writes;
use crate::{Cluster, Column, Port, Program, StageError, trace};

/// The pause between two runs of an object: upstream's.
const CHECK_BACK: Duration = Duration::from_secs(300);
/// BOUND: the time in which all objects have had their first run.
const FIRST_RUNS: Duration = Duration::from_secs(300);
/// Without runs for so long, a program has nothing left to do.
const QUIET: Duration = Duration::from_secs(3);
/// BOUND: the time in which it becomes so.
const BUSY: Duration = Duration::from_secs(240);
/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// The pause between two writes.
const WRITE: Duration = Duration::from_millis(50);

/// Runs at one time in both columns: the workers of kinform's.
const WORKERS: u16 = 64;

/// The parts of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Starts, rest, churn and trouble.
    All,
    /// Starts alone.
    Starts,
}

/// The amounts of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Numbers of objects, rising.
    pub sizes: Vec<usize>,
    /// Runs at one time on kube-runtime; 0 is no limit.
    pub concurrency: u16,
    /// The parts that are measured.
    pub parts: Parts,
    /// The time at rest.
    pub rest: Duration,
    /// The time of churn.
    pub churn: Duration,
    /// The objects under trouble.
    pub troubled: usize,
    /// The time of trouble.
    pub trouble: Duration,
    /// The time between two cuts.
    pub cut: Duration,
    /// The number of cuts between two expiries.
    pub cuts: u32,
    /// The time in which watchers come back. kube-runtime pauses after each error of each watch, for up
    /// to 30 seconds and longer each time.
    pub patience: Duration,
    /// The pause between two runs of an object under trouble, also after a write that was cut off.
    pub check_back: Duration,
}

impl Plan {
    /// The amounts of a table in the README.
    #[must_use]
    pub fn full(sizes: &[usize], troubled: usize) -> Self {
        Self {
            sizes: sizes.to_vec(),
            concurrency: WORKERS,
            parts: Parts::All,
            rest: Duration::from_secs(360),
            churn: Duration::from_secs(120),
            troubled,
            trouble: Duration::from_secs(90),
            cut: Duration::from_secs(3),
            cuts: 4,
            patience: Duration::from_secs(180),
            check_back: Duration::from_secs(30),
        }
    }

    /// Small amounts, which show that it works at all.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            sizes: vec![500],
            concurrency: WORKERS,
            parts: Parts::All,
            rest: Duration::from_secs(10),
            churn: Duration::from_secs(10),
            troubled: 200,
            trouble: Duration::from_secs(10),
            cut: Duration::from_secs(1),
            cuts: 3,
            patience: Duration::from_secs(20),
            check_back: Duration::from_secs(5),
        }
    }
}

/// The figures of one column.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// One of each size.
    pub starts: Vec<Start>,
    /// Requests at rest.
    pub rest: Requests,
    /// Requests during churn, and until there is nothing left to do.
    pub churn: Requests,
    /// Writes during churn.
    pub churn_writes: usize,
    /// Runs that they led to.
    pub churn_runs: usize,
    /// Kibibytes after churn, of the largest size.
    pub resident_after: u64,
    /// The effects of trouble.
    pub trouble: Trouble,
}

/// A start with objects that need nothing.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The number of objects.
    pub objects: usize,
    /// The time from the start of the process to the begin of its first run.
    pub first_run: Duration,
    /// Kibibytes when all is quiet.
    pub resident: u64,
    /// Kibibytes at most.
    pub peak: u64,
    /// Requests until all is quiet.
    pub requests: Requests,
    /// Runs that failed.
    pub failed: usize,
}

/// Writes under cuts and expiries.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// The number of writes.
    pub writes: usize,
    /// The number of cuts of all connections.
    pub cuts: u32,
    /// The number of times that the history was forgotten.
    pub expiries: u32,
    /// Objects that are not as they should be, at last.
    pub missed: Vec<String>,
    /// Runs in all.
    pub runs: usize,
    /// Runs without a reason.
    pub duplicates: usize,
    /// Requests in all.
    pub requests: Requests,
}

/// Measures the column whose program is at `binary`; `tell` hears of each step.
///
/// # Errors
/// A program or a server does not work.
pub async fn measure<P: Port>(
    column: Column,
    binary: &Path,
    plan: &Plan,
    tell: impl Fn(&str),
) -> Result<Figures, StageError> {
    let mut figures = Figures::default();
    for (at, size) in plan.sizes.iter().enumerate() {
        let cluster = Cluster::start_without_lag::<P::Object>().await?;
        P::seed(&cluster, column, *size).await?;
        tell(&format!("{}: {size} objects", column.name()));
        let (mut program, start) = start(&cluster, column, binary, *size, plan).await?;
        figures.starts.push(start);
        if plan.parts == Parts::All && at + 1 == plan.sizes.len() {
            tell(&format!("{}: rest and churn", column.name()));
            rest_and_churn::<P>(&cluster, &program, *size, plan, &mut figures).await?;
        }
        program.stop().await?;
    }
    if plan.parts == Parts::All {
        tell(&format!("{}: trouble", column.name()));
        figures.trouble = trouble::<P>(column, binary, plan).await?;
    }
    Ok(figures)
}

async fn start(
    cluster: &Cluster,
    column: Column,
    binary: &Path,
    size: usize,
    plan: &Plan,
) -> Result<(Program, Start), StageError> {
    let before = cluster.requests();
    let (kubeconfig, home) = (cluster.kubeconfig(), cluster.home());
    let program = Program::start(
        column,
        binary,
        &kubeconfig,
        home,
        CHECK_BACK,
        plan.concurrency,
    )?;
    let began = Instant::now();
    while program.runs().len() < size {
        if began.elapsed() > FIRST_RUNS {
            let (runs, log) = (program.runs().len(), program.log());
            return Err(format!("{runs} of {size} objects had a run:\n{log}").into());
        }
        tokio::time::sleep(LOOK).await;
    }
    quiet(cluster, &program).await?;
    let (resident, peak) = program.memory()?;
    let start = Start {
        objects: size,
        first_run: program.first_run().ok_or("no run")?,
        resident,
        peak,
        requests: cluster.requests().since(&before),
        failed: program.runs().iter().filter(|run| !run.succeeded).count(),
    };
    Ok((program, start))
}

async fn rest_and_churn<P: Port>(
    cluster: &Cluster,
    program: &Program,
    size: usize,
    plan: &Plan,
    figures: &mut Figures,
) -> Result<(), StageError> {
    let before = cluster.requests();
    tokio::time::sleep(plan.rest).await;
    figures.rest = cluster.requests().since(&before);
    // What of a rest has begun is not of the churn.
    quiet(cluster, program).await?;
    let (before, runs) = (cluster.requests(), program.runs().len());
    let (mut writes, began) = (Writes::<P>::new(size), Instant::now());
    let mut ticks = tokio::time::interval(WRITE);
    while began.elapsed() < plan.churn {
        ticks.tick().await;
        writes.toggle(cluster).await?;
    }
    quiet(cluster, program).await?;
    figures.churn = cluster.requests().since(&before);
    figures.churn_writes = writes.done();
    figures.churn_runs = program.runs().len() - runs;
    figures.resident_after = program.memory()?.0;
    Ok(())
}

async fn trouble<P: Port>(
    column: Column,
    binary: &Path,
    plan: &Plan,
) -> Result<Trouble, StageError> {
    let cluster = Cluster::start_without_lag::<P::Object>().await?;
    P::seed(&cluster, column, plan.troubled).await?;
    let (kubeconfig, home) = (cluster.kubeconfig(), cluster.home());
    let before = cluster.requests();
    let mut program = Program::start(
        column,
        binary,
        &kubeconfig,
        home,
        plan.check_back,
        plan.concurrency,
    )?;
    let has_begun = || std::future::ready(program_has_runs(home, plan.troubled));
    program.until("a run of each object", has_begun).await?;
    let mut told = Trouble::default();
    let mut writes = Writes::<P>::new(plan.troubled);
    let (began, mut ticks) = (Instant::now(), tokio::time::interval(WRITE));
    let mut next_cut = plan.cut;
    while began.elapsed() < plan.trouble {
        ticks.tick().await;
        match writes.done() % 10 {
            9 => writes.come_or_go(&cluster).await?,
            _ => writes.toggle(&cluster).await?,
        }
        if began.elapsed() < next_cut {
            continue;
        }
        next_cut += plan.cut;
        if (told.cuts + told.expiries + 1).is_multiple_of(plan.cuts) {
            told.expiries += 1;
            let away = async {
                // Written while nobody listens, and forgotten before somebody does.
                writes.toggle(&cluster).await?;
                writes.come_or_go(&cluster).await
            };
            let ((), written) = tokio::join!(cluster.expire(Duration::from_millis(500)), away);
            written?;
        } else {
            told.cuts += 1;
            cluster.cut();
        }
    }
    told.writes = writes.done();
    // Each write that was cut off is tried again after the pause; twice that is enough.
    let (waiting, patience) = (Instant::now(), plan.check_back * 2 + plan.patience);
    loop {
        told.missed = P::unsettled(&cluster).await?;
        if told.missed.is_empty() || waiting.elapsed() > patience {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let runs = program.runs();
    told.runs = runs.len();
    told.duplicates = trace::duplicates(&runs, plan.check_back);
    told.requests = cluster.requests().since(&before);
    program.stop().await?;
    Ok(told)
}

fn program_has_runs(home: &Path, count: usize) -> bool {
    let text = std::fs::read_to_string(home.join("trace")).unwrap_or_default();
    trace::parse(&text).len() >= count
}

/// Waits until there are neither runs nor requests for a while.
async fn quiet(cluster: &Cluster, program: &Program) -> Result<(), StageError> {
    let began = Instant::now();
    let look = || (program.runs().len(), cluster.requests().total());
    let (mut last, mut since) = (look(), Instant::now());
    while since.elapsed() < QUIET {
        if began.elapsed() > BUSY {
            return Err(format!("it does not come to rest:\n{}", program.log()).into());
        }
        tokio::time::sleep(LOOK).await;
        let now = look();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(())
}
