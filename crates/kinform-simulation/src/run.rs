//! A run of a script: steps at their times, faults that begin and end, and the look after each.
//!
//! ```text
//! Script ─▶ Run { cluster, replicas, agenda } ─ step, look, step, .. ─▶ settle ─▶ Outcome
//! ```
//!
//! One thread, paused time. The first promise that breaks ends the run.
//! INVARIANT: what ends by itself is on the agenda before the step returns.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kinform_api::simulated;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cluster::{Cluster, Revisions};
use crate::finding::{Finding, Invariant};
use crate::history::History;
use crate::reach::Reach;
use crate::replica::Replica;
use crate::script::{Act, Change, Net, Script, Step, Verb};
use crate::settings::{Settings, Style};
use crate::shared::{Order, Shared};
pub use crate::trace::Keep;

/// One look at the caches in this many steps.
const LOOK: u64 = 3;
/// With at most this many steps the caches are looked at after each, so that a script that was made
/// short sees no less.
const FEW_STEPS: usize = 120;
/// The looks after the last step, and the first pause between two; each pause is twice the one before.
const LAST_LOOKS: u32 = 6;
const LAST_PAUSE: Duration = Duration::from_millis(50);

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first promise that broke.
    pub finding: Option<Finding>,
    /// A number that is the same for the same run.
    pub hash: u64,
    /// The events of the trace.
    pub events: u64,
    /// The faults and the states that they met.
    pub reach: Reach,
    /// The writes of users that were done.
    pub writes: u64,
    /// The reconciles.
    pub reconciles: u64,
    /// The caches that went on from what was on disk, without a list.
    pub resumed: u64,
    /// The virtual time.
    pub lasted: Duration,
    /// The trace, if it was kept.
    pub lines: Vec<String>,
}

/// Something that will happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// A process starts.
    Start(usize),
    /// A process moves again.
    Move(usize, u64),
    /// A fault of a network ends.
    Heal(usize, u64, Net),
    /// A process reads from its own server again.
    GoHome(usize, u64),
    /// A server that is down comes back.
    Resume(usize),
    /// The storage is that of the backup.
    Restore(Revisions),
    /// Faults of a server's watches end.
    ServerHeals(usize),
    /// A server has caught up.
    CatchUp(usize),
}

/// A run under way.
pub(crate) struct Run<'a> {
    pub(crate) script: &'a Script,
    pub(crate) shared: Arc<Shared>,
    orders: mpsc::UnboundedReceiver<Order>,
    pub(crate) cluster: Cluster,
    pub(crate) replicas: Vec<Option<Replica>>,
    pub(crate) lives: u64,
    /// Processes that were ever started.
    pub(crate) known: Vec<bool>,
    agenda: BTreeMap<(Instant, u64), Due>,
    planned: u64,
    pub(crate) reach: Reach,
    /// The highest term that wrote.
    pub(crate) term: u64,
    /// Tasks that are there without a process.
    pub(crate) base_tasks: usize,
    /// One look at the caches in this many steps.
    pub(crate) looks: u64,
}

/// True if the runtime's own choices are the script's, too: then a script is one run.
pub const IS_EXACT: bool = cfg!(tokio_unstable);

/// Plays a script on a runtime of its own.
#[must_use]
pub fn play(script: &Script, keep: Keep) -> Outcome {
    on_runtime(script.seed, Run::play(script, keep))
}

/// Runs on a runtime of its own, in paused time.
pub(crate) fn on_runtime(seed: u64, run: impl Future<Output = Outcome>) -> Outcome {
    let _random = simulated::begin(seed);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true);
    // The order in which those are woken that wait for one channel.
    #[cfg(tokio_unstable)]
    runtime.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
    match runtime.build() {
        Ok(runtime) => runtime.block_on(run),
        Err(error) => failed(format!("no runtime: {error}")),
    }
}

fn failed(what: String) -> Outcome {
    Outcome {
        finding: Some(Finding {
            invariant: Invariant::Harness,
            at: Duration::ZERO,
            what,
        }),
        hash: 0,
        events: 0,
        reach: Reach::default(),
        writes: 0,
        reconciles: 0,
        resumed: 0,
        lasted: Duration::ZERO,
        lines: Vec::new(),
    }
}

impl<'a> Run<'a> {
    async fn play(script: &'a Script, keep: Keep) -> Outcome {
        let mut run = match Self::begin(script, keep).await {
            Ok(run) => run,
            Err(failed) => return failed,
        };
        if script.steps.len() <= FEW_STEPS {
            run.looks = 1;
        }
        run.steps(&script.steps, run.shared.start).await;
        run.look_at_the_last().await;
        if run.is_whole() {
            run.settle().await;
        }
        run.outcome().await
    }

    /// A run in which nothing has happened.
    pub(crate) async fn begin(script: &'a Script, keep: Keep) -> Result<Self, Outcome> {
        let cluster = Cluster::start(&script.settings).await;
        let cluster = cluster.map_err(failed)?;
        let history = History::new(cluster.store());
        let disks = disks(&script.settings).map_err(|error| failed(format!("no disk: {error}")))?;
        let (shared, orders) = Shared::new(script.seed, keep, (history, disks));
        Ok(Self {
            script,
            shared,
            orders,
            cluster,
            replicas: script.settings.replicas.iter().map(|_| None).collect(),
            lives: 0,
            known: vec![false; script.settings.replicas.len()],
            agenda: BTreeMap::new(),
            planned: 0,
            reach: Reach::default(),
            term: 0,
            base_tasks: tasks(),
            looks: LOOK,
        })
    }

    /// Makes the steps at their times from a moment on.
    pub(crate) async fn steps(&mut self, steps: &[Step], start: Instant) {
        for Step { at, act } in steps {
            self.until(start + Duration::from_millis(*at)).await;
            if !self.is_whole() {
                return;
            }
            self.perform(act).await;
            let looks_closely = self.shared.below(self.looks) == 0;
            self.look(looks_closely);
        }
    }

    /// Looks at what the last steps lead to, before the faults end.
    async fn look_at_the_last(&mut self) {
        for number in 0..LAST_LOOKS {
            if !self.is_whole() {
                return;
            }
            let pause = LAST_PAUSE * 2_u32.pow(number);
            self.until(Instant::now() + pause).await;
            self.look(true);
        }
    }

    /// Returns whether no promise has broken.
    pub(crate) fn is_whole(&self) -> bool {
        self.shared.first_finding().is_none()
    }

    /// Lets time pass, with what is on the agenda.
    pub(crate) async fn until(&mut self, end: Instant) {
        loop {
            let due = self
                .agenda
                .first_key_value()
                .map_or(end, |((at, _), _)| end.min(*at));
            tokio::select! {
                biased;
                Some(Order::Kill(life)) = self.orders.recv() => {
                    let number = life.0;
                    if self.replicas[number].as_ref().is_some_and(|one| one.life == life) {
                        self.kill(number);
                    }
                }
                () = tokio::time::sleep_until(due) => {}
            }
            while let Some(entry) = self.agenda.first_entry()
                && entry.key().0 <= Instant::now()
            {
                let due = entry.remove();
                self.happen(due).await;
                self.look(false);
            }
            if Instant::now() >= end || !self.is_whole() {
                return;
            }
        }
    }

    pub(crate) fn plan(&mut self, after: Duration, due: Due) {
        self.planned += 1;
        self.agenda
            .insert((Instant::now() + after, self.planned), due);
    }

    /// Forgets what was planned.
    pub(crate) fn clear_agenda(&mut self) {
        self.agenda.clear();
    }

    /// Returns whether the controller can make a change good. Of a storage that was restored it may have
    /// read a copy that no cache of it has: nothing tells it that such a copy is deleted.
    pub(crate) fn may_write(&self, change: &Change) -> bool {
        match change.verb {
            Verb::DeleteCopy => self.shared.history().epoch() == 1,
            // A copy without an owner is no copy any more where its name says nothing.
            Verb::Orphan => {
                self.script.settings.style != Style::Generate && self.shared.history().epoch() == 1
            }
            _ => true,
        }
    }

    async fn perform(&mut self, act: &Act) {
        self.shared.note(format_args!("step {act:?}"));
        match act {
            Act::Write(change) => {
                let done = self.may_write(change) && self.cluster.write(change).await;
                self.shared.note(format_args!("written {done}"));
            }
            act => self.trouble(act).await,
        }
    }

    pub(crate) async fn outcome(mut self) -> Outcome {
        let lasted = self.shared.now();
        for number in 0..self.replicas.len() {
            if self.replicas[number].is_some() {
                self.kill(number);
            }
        }
        self.cluster.end().await;
        let mut trace = self.shared.trace();
        let (hash, events, lines) = (trace.hash(), trace.events(), trace.take_lines());
        drop(trace);
        let counted = |counter: &std::sync::atomic::AtomicU64| {
            counter.load(std::sync::atomic::Ordering::Relaxed)
        };
        Outcome {
            finding: self.shared.first_finding(),
            hash,
            events,
            reach: self.reach,
            writes: self.cluster.writes(),
            reconciles: counted(&self.shared.reconciles),
            resumed: counted(&self.shared.resumed),
            lasted,
            lines,
        }
    }
}

/// The disks of the processes, in memory where the system has such a folder: they are written often.
fn disks(settings: &Settings) -> io::Result<Option<TempDir>> {
    if !settings.replicas.iter().any(|one| one.disk) {
        return Ok(None);
    }
    let mut folder = tempfile::Builder::new();
    folder.prefix("kinform-simulation-");
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => folder.tempdir_in(memory).or_else(|_| folder.tempdir()),
        false => folder.tempdir(),
    };
    made.map(Some)
}

/// The tasks that are alive.
pub(crate) fn tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}
