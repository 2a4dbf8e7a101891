//! One run: a server, copies of the operator, the script, and the faults of a plan.
//!
//! ```text
//! Scenario + Plan ─▶ server, processes ─▶ step, settle, step, .. ─▶ rest ─▶ Report { stops, finding }
//!                        ▲ orders of the wires, agenda of faults ┘
//! ```
//!
//! Everything happens on one thread under paused time. The waits are in `rest.rs`.
//! INVARIANT: the changes of the server are read before its history is forgotten.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kinform_apiserver::{Server, ShelfEvent};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::alarms::Alarms;
use super::census::{Census, Counts, Of, Tally};
use super::finding::Finding;
use super::hub::{Hub, Order};
use super::picture::Picture;
use super::plan::{Accident, Extent, Mishap, Pace, Plan, When};
use super::process::{End, Process, Standing};
use super::scenario::Scenario;
use super::script::Effect;
use super::stranger;
use super::trace::Who;
use super::world::World;
use crate::control::{Network, ProxyMode};
use crate::link::Link;

/// The time between two steps that are rushed, at most.
const RUSH: Duration = Duration::from_secs(10);
/// BOUND: the changes of a run.
const CHANGES: u64 = 10_000;
/// BOUND: the requests of a run.
const REQUESTS: u64 = 500_000;
/// BOUND: the times that an operator may end by itself in a faulty run.
const ENDS: u32 = 50;

/// The state after a step.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) picture: Picture,
    /// The same with what nobody has written since the start; in the run that is not compared.
    pub(crate) whole: Option<Picture>,
    pub(crate) tally: Tally,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) stops: Vec<Stop>,
    pub(crate) extent: Extent,
    pub(crate) finding: Option<Finding>,
    pub(crate) entries: Vec<super::trace::Entry>,
    pub(crate) hash: u64,
}

/// Something that will happen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    Begin(Mishap),
    /// The process connects again.
    Pass(usize),
    /// The same, without the history.
    PassExpired(usize),
    CatchUp,
    Move(usize),
    Start(usize),
    /// Another client takes back what it has left.
    Leave(usize),
}

/// A run under way.
pub(crate) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) hub: std::sync::Arc<Hub>,
    orders: mpsc::UnboundedReceiver<Order>,
    // BOUND: one for each start of a copy.
    pub(super) ends: (mpsc::UnboundedSender<End>, mpsc::UnboundedReceiver<End>),
    pub(super) server: Option<Server>,
    #[cfg(feature = "controllers")]
    pub(super) controllers: Option<kinform_controlplane::Running>,
    /// The way of the script, without faults.
    pub(super) direct: Link,
    pub(super) processes: Vec<Option<Process>>,
    pub(super) starts: u64,
    own_ends: u32,
    agenda: BTreeMap<(Instant, u64), Due>,
    planned: u64,
    pub(super) start: Instant,
    pub(super) epoch: Timestamp,
    pub(super) jump: i64,
    /// The server's revision before the script.
    begun: u64,
    /// The revision up to which changes were read.
    read: u64,
    /// The revision before the present step.
    pub(super) before_step: u64,
    /// The operator's writes that were answered before it.
    before: usize,
    /// Those that were answered.
    pub(super) answered: usize,
    pub(super) census: Census,
    pub(super) changes: u64,
    /// Those of them that are about children of owners that were gone.
    late: u64,
    pub(super) changed: Instant,
}

impl<'a> Run<'a> {
    /// Plays a plan, in a runtime of its own whose time is paused.
    pub(crate) async fn play(
        scenario: &'a Scenario,
        plan: &Plan,
        expected: Option<&[Stop]>,
    ) -> Report {
        let (hub, orders) = Hub::new(plan.clone());
        let start = Instant::now();
        let epoch = Timestamp::now();
        let server = scenario.server(None, epoch);
        let direct = Link::new(server.service(), 0);
        hub.serve(Some((server.service(), server.store().clone())));
        let mut run = Run {
            scenario,
            hub,
            orders,
            ends: mpsc::unbounded_channel(),
            server: Some(server),
            #[cfg(feature = "controllers")]
            controllers: None,
            direct,
            processes: Vec::new(),
            starts: 0,
            own_ends: 0,
            agenda: BTreeMap::new(),
            planned: 0,
            start,
            epoch,
            jump: 0,
            begun: 0,
            read: 0,
            before_step: 0,
            before: 0,
            answered: 0,
            census: Census::default(),
            changes: 0,
            late: 0,
            changed: start,
        };
        let mut stops = Vec::new();
        let played = run.script(expected, &mut stops).await;
        let finding = played.err();
        run.end().await;
        let extent = Extent {
            steps: scenario.steps.len(),
            // Those before the last step.
            hurried: run.before,
            starts: scenario.starts,
            keeps_history: scenario.keeps_history,
            ..run.hub.extent()
        };
        let trace = run.hub.trace();
        Report {
            stops,
            extent,
            finding,
            entries: trace.entries().to_vec(),
            hash: trace.hash(),
        }
    }

    async fn script(
        &mut self,
        expected: Option<&[Stop]>,
        stops: &mut Vec<Stop>,
    ) -> Result<(), Finding> {
        let prepared = self.scenario.prepare(&self.direct.client()).await;
        prepared.map_err(|why| Finding::Step {
            step: "the preparation".to_owned(),
            why,
        })?;
        self.look()?;
        self.begun = self.read;
        self.census.restart();
        self.begin_controllers().await?;
        for number in 0..self.scenario.replicas {
            self.processes.push(None);
            self.spawn(number);
        }
        let last = self.scenario.steps.len().saturating_sub(1);
        let mut has_hurried = false;
        for number in 0..=last {
            self.step(number).await?;
            let can_rush = number < last && !self.scenario.foreign.contains(&(number + 1));
            let until = match self.hub.plan().pace {
                Pace::Rushed if can_rush => {
                    let pause = self.hub.spread(RUSH);
                    self.pass(pause).await?;
                    continue;
                }
                Pace::AfterWrite(write) if can_rush && self.before < write => Some(write),
                _ => None,
            };
            // A step that was not seen may rightly leave its mark until the end.
            let is_alike = !has_hurried || number == last;
            let stop = self.settle(number, expected.filter(|_| is_alike), until);
            let stop = stop.await?;
            has_hurried |= stop.is_none();
            stops.extend(stop);
        }
        self.rest(expected).await?;
        for (name, holds) in &self.scenario.in_the_end {
            self.world(|world| holds(world))
                .map_err(|why| Finding::End {
                    name: name.clone(),
                    why,
                })?;
        }
        Ok(())
    }

    /// Performs a step, and plans the accidents after it.
    async fn step(&mut self, number: usize) -> Result<(), Finding> {
        self.before_step = self.revision();
        self.before = self.answered;
        self.census.restart();
        let accidents = self.hub.plan().accidents.clone();
        for Accident { when, what } in accidents {
            if let When::Step(step, after) = when
                && step == number
            {
                self.plan(after, Due::Begin(what));
            }
        }
        let Some(step) = self.scenario.steps.get(number) else {
            return Ok(());
        };
        if let Effect::Delete(path) = &step.effect
            && let Some(Mishap::Hold(lasts)) = self.hub.deletion()
            && stranger::hold(&self.hub, path, lasts).await
        {
            self.hub.note(Who::Fault, Mishap::Hold(lasts).to_string());
        }
        self.hub.note(Who::User, step.name.clone());
        let client = self.direct.client();
        let mut work = Box::pin(step.perform(&client));
        loop {
            // The faults go on while the step waits to be possible.
            tokio::select! {
                biased;
                done = &mut work => {
                    let failed = |why| Finding::Step { step: self.named(number), why };
                    return done.map_err(failed);
                }
                turned = self.turn(Duration::from_millis(100)) => turned?,
            }
        }
    }

    pub(super) fn named(&self, step: usize) -> String {
        match self.scenario.steps.get(step) {
            Some(found) => format!("step {} ({})", step + 1, found.name),
            None => "the start".to_owned(),
        }
    }

    /// Returns whether no fault is under way or planned, and every copy runs.
    pub(super) fn is_peaceful(&self) -> bool {
        self.agenda.is_empty() && self.processes.iter().all(Option::is_some)
    }

    /// Lets time pass.
    async fn pass(&mut self, lasts: Duration) -> Result<(), Finding> {
        let until = Instant::now() + lasts;
        while Instant::now() < until {
            self.turn(until - Instant::now()).await?;
        }
        Ok(())
    }

    /// Lets time pass until something happens, but not longer than this.
    pub(super) async fn turn(&mut self, longest: Duration) -> Result<(), Finding> {
        let mut until = Instant::now() + longest;
        if let Some(((due, _), _)) = self.agenda.first_key_value() {
            until = until.min(*due);
        }
        tokio::select! {
            biased;
            Some(order) = self.orders.recv() => match order {
                Order::Look => self.answered += 1,
                Order::Meet(process, mishap) => self.meet(process, mishap).await?,
                Order::Leave(number, after) => self.plan(after, Due::Leave(number)),
            },
            Some(end) = self.ends.1.recv() => self.ended(end)?,
            () = self.scenario.progress.busy.notified() => return Err(Finding::AlwaysBusy),
            () = tokio::time::sleep_until(until) => {}
        }
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= Instant::now()
        {
            let due = entry.remove();
            self.happen(due).await?;
        }
        self.look()
    }

    pub(super) fn plan(&mut self, after: Duration, due: Due) {
        self.planned += 1;
        let at = (Instant::now() + after, self.planned);
        self.agenda.insert(at, due);
    }

    async fn happen(&mut self, due: Due) -> Result<(), Finding> {
        match due {
            Due::Begin(mishap) => {
                self.hub.note(Who::Fault, mishap.to_string());
                let process = self.hub.below(self.processes.len() as u64);
                self.meet(usize::try_from(process).unwrap_or_default(), mishap)
                    .await
            }
            Due::Pass(number) => {
                self.with(number, |process| process.wire.link().set(ProxyMode::Pass));
                Ok(())
            }
            Due::PassExpired(number) => {
                self.expire()?;
                self.with(number, |process| process.wire.link().set(ProxyMode::Pass));
                Ok(())
            }
            Due::CatchUp => {
                if let Some(server) = &self.server {
                    server.catch_up();
                }
                Ok(())
            }
            Due::Move(number) => {
                self.with(number, |process| {
                    process.stand(Standing::Not);
                    process.wire.link().set(ProxyMode::Pass);
                });
                Ok(())
            }
            Due::Start(number) => {
                self.spawn(number);
                Ok(())
            }
            Due::Leave(number) => self.take_back(number).await,
        }
    }

    pub(super) fn with(&self, number: usize, act: impl FnOnce(&Process)) {
        if let Some(Some(process)) = self.processes.get(number) {
            act(process);
        }
    }

    /// A copy has ended by itself.
    fn ended(&mut self, end: End) -> Result<(), Finding> {
        let is_current = self.processes.get(end.number).is_some_and(|place| {
            place
                .as_ref()
                .is_some_and(|process| process.start == end.start)
        });
        if !is_current {
            return Ok(());
        }
        let how = end.how.map_err(Finding::Panicked)?;
        self.own_ends += 1;
        if self.hub.plan().is_clean() || self.own_ends > ENDS {
            return Err(Finding::Ended(how));
        }
        // As a container that ends is started again.
        self.hub
            .note(Who::Operator(end.number), format!("ends: {how}"));
        self.kill(end.number);
        Ok(())
    }

    /// Reads the changes of the server since the last look, and what went wrong.
    pub(super) fn look(&mut self) -> Result<(), Finding> {
        if let Some(panic) = Alarms::panic() {
            return Err(Finding::Panicked(panic));
        }
        if self.hub.requests() > REQUESTS {
            return Err(Finding::Unbounded(format!("more than {REQUESTS} requests")));
        }
        let Some(server) = &self.server else {
            return Ok(());
        };
        let Some((changes, upto)) = server.store().changes_after(self.read) else {
            return Err(Finding::Unbounded(
                "more changes than the history keeps".to_owned(),
            ));
        };
        self.read = upto;
        let before = self.changes;
        for ShelfEvent { shelf, event } in &changes {
            if let Some((about, mark)) = stranger::lost(&self.hub, shelf, event) {
                return Err(Finding::Lost { about, mark });
            }
            if let Some((about, path)) = self.scenario.lens.redrawn(shelf, event) {
                return Err(Finding::Redrawn { about, path });
            }
            let lens = &self.scenario.lens;
            let counts = match lens.shows(shelf) && lens.sees(event) {
                true => Counts::Yes,
                false => Counts::No,
            };
            let of = self.census.note(shelf, event, counts);
            self.changes += u64::from(counts == Counts::Yes);
            self.late += u64::from(of == Of::Gone);
        }
        if self.changes == before {
            return Ok(());
        }
        self.changed = Instant::now();
        if self.changes - self.late > CHANGES {
            let mut how = format!("more than {CHANGES} changes");
            if let Some((write, times)) = self.hub.trace().most_frequent(0) {
                how.push_str(&format!("; {times} times {write}"));
            }
            return Err(Finding::Unbounded(how));
        }
        for (name, holds) in &self.scenario.invariants {
            self.world(|world| holds(world))
                .map_err(|why| Finding::Invariant {
                    name: name.clone(),
                    why,
                })?;
        }
        Ok(())
    }

    fn world(&self, check: impl FnOnce(&World<'_>) -> Result<(), String>) -> Result<(), String> {
        match &self.server {
            Some(server) => check(&World::new(server.store())),
            None => Ok(()),
        }
    }

    fn revision(&self) -> u64 {
        self.server
            .as_ref()
            .map_or(0, |server| server.store().revision())
    }

    /// The objects that were written since the start.
    pub(super) fn picture(&self) -> Picture {
        self.picture_after(self.begun)
    }

    /// The objects that were written after a revision.
    pub(super) fn picture_after(&self, revision: u64) -> Picture {
        match &self.server {
            Some(server) => Picture::of(server.store(), revision, &self.scenario.lens),
            None => Picture::default(),
        }
    }

    async fn end(&mut self) {
        self.processes.clear();
        self.end_controllers().await;
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
    }
}
