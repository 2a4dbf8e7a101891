//! The loop of troubles, and what it took to be over them.
//!
//! ```text
//! four replicas, idle ─▶ each once, then dice: kill | pause | add | remove ─▶ all owned, balanced ─▶ again ─▶ stop ─▶ judge
//! ```
//!
//! One trouble at a time, two to six replicas: the next one comes once the changes that waited are
//! answered, and a paused replica's keys are written again, or a change could wait for two. Changes
//! come all the time. A run fails where a write is no owner's, where an answer or a takeover is late,
//! where a cleanup ran for an object that existed, and where shards are not owned and balanced a
//! minute after a trouble. A run of a minute or longer fails over the limits of its figures, too.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kinform_testkit::checks::stage::StageError;
use kube::Client;
use tokio::sync::watch;

use super::fleet::Fleet;
use super::fork::Fork;
use super::journal::{Entry, Fact, Journal};
use super::judge::{judge, last_of};
use super::told::{LIMIT, Told};
use super::world::{self, World};
use super::{Work, now_ms};
use crate::dice::Dice;

/// BOUND: the time for the replicas to be balanced, and for what a trouble held up to be done.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// Replicas at the start.
const START: usize = 4;
/// BOUND: replicas at a time.
const BETWEEN: (usize, usize) = (2, 6);
/// Shorter runs are made beside other work: their figures are printed, and not compared with limits.
const LONG: Duration = Duration::from_secs(60);
/// BOUND: failures in a report.
const MOST: usize = 10;

/// A run.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The replicas' program.
    pub work: Work,
    /// Its path.
    pub binary: &'a str,
    /// The way of the replicas to the server.
    pub kubeconfig: PathBuf,
    /// The address of the replicas, where it leads to two servers.
    pub fork: Option<&'a Fork>,
    /// The duration of the troubles; zero for a run without any.
    pub length: Duration,
    /// The duration of leases; renewals are in proportion.
    pub lease: Duration,
    /// The seed of troubles and changes.
    pub seed: u64,
}

struct Story<'a> {
    plan: &'a Plan<'a>,
    journal: Journal,
    fleet: Fleet,
    dice: Dice,
    told: Told,
    /// Troubles that come first, so that a short run has each of them.
    first: Vec<Trouble>,
    /// Since when the oldest change that is not answered waits.
    oldest: watch::Receiver<Option<Instant>>,
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Kill,
    Pause(Pause),
    Add,
    Remove,
}

#[derive(Clone, Copy, Debug)]
enum Pause {
    /// Up to half of the lease: nobody notices.
    Short,
    /// From half of the lease to one and a half: it ends while the others may be taking the shards.
    Near,
    /// Until the others have the shards, and longer.
    Long,
}

/// Runs a plan; `client` leads to the server itself.
///
/// # Errors
/// The run could not be made. What it found is in its figures.
pub async fn run(plan: &Plan<'_>, client: Client) -> Result<Told, StageError> {
    let journal = Journal::default();
    let _following = journal.follow(&client, plan.work).await?;
    let lease = plan.lease;
    let fleet = Fleet::new(plan.work, plan.binary, plan.kubeconfig.clone(), lease);
    let mut world = World::make(client.clone(), journal.clone(), plan.work, plan.seed).await?;
    let mut story = Story {
        oldest: world.oldest(),
        plan,
        journal,
        fleet,
        dice: Dice::new(plan.seed),
        told: Told::default(),
        first: match plan.work {
            Work::Careless => vec![Trouble::Pause(Pause::Long)],
            _ if plan.length.is_zero() => Vec::new(),
            _ => vec![
                Trouble::Pause(Pause::Long),
                Trouble::Pause(Pause::Near),
                Trouble::Add,
                Trouble::Remove,
                Trouble::Kill,
            ],
        },
    };
    for _ in 0..START {
        story.fleet.start()?;
    }
    story.balanced().await?;
    world.settled(PATIENCE).await?;
    story.idle().await?;
    let (end, ended) = tokio::sync::oneshot::channel();
    let living = tokio::spawn(world.live(ended, LIMIT));
    let began = Instant::now();
    let troubles = story.troubles().await;
    story.told.elapsed = began.elapsed();
    drop(end);
    let world = living.await?;
    let stopped = story.fleet.stop().await;
    let drained = story.journal.drained(&client, plan.work).await;
    // The first cause comes first.
    let errors = [
        troubles.err(),
        world.as_ref().err().map(|error| error.to_string().into()),
    ];
    let errors = errors.into_iter().chain([stopped.err(), drained.err()]);
    let errors = errors.flatten().map(|error: StageError| error.to_string());
    story.told.failures.extend(errors);
    if let Ok(world) = world {
        story.judged(&world);
    }
    Ok(story.told)
}

impl Story<'_> {
    /// Counts the writes to leases, and what replicas read, while nothing happens.
    async fn idle(&mut self) -> Result<(), StageError> {
        let window = self.plan.lease;
        let (began, read) = (Instant::now(), self.fleet.read().await?);
        let before = self.journal.lock().lease_writes;
        tokio::time::sleep(window).await;
        let writes = self.journal.lock().lease_writes - before;
        let read = self.fleet.read().await? - read;
        let seconds = began.elapsed().as_secs_f64();
        self.told.lease_writes_a_second = writes as f64 / window.as_secs_f64();
        self.told.read_a_second = read / self.fleet.running.len() as f64 / seconds;
        Ok(())
    }

    async fn troubles(&mut self) -> Result<(), StageError> {
        let began = Instant::now();
        while began.elapsed() < self.plan.length || !self.first.is_empty() {
            let pause = self.dice.below(3_000);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let trouble = self.next();
            if std::env::var_os("KINFORM_TELL").is_some() {
                let (at, running) = (began.elapsed().as_secs_f64(), self.fleet.running.len());
                println!(
                    "{at:.1} s: {trouble:?} with {running} replicas, at {}",
                    now_ms()
                );
            }
            match trouble {
                Trouble::Kill => self.kill().await?,
                Trouble::Pause(pause) => self.pause(pause).await?,
                Trouble::Add => self.add().await?,
                Trouble::Remove => self.remove().await?,
            }
            self.balanced().await?;
            self.answered_all().await?;
        }
        Ok(())
    }

    /// Waits until the changes of the last trouble's time are answered: a second one must not make
    /// them wait again.
    async fn answered_all(&self) -> Result<(), StageError> {
        let now = Instant::now();
        while self.oldest.borrow().is_some_and(|since| since <= now) {
            self.patient(now, "changes are not answered")?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits until each of these keys is written again, or is gone.
    async fn worked_on(&self, mut keys: Vec<String>, since: Instant) -> Result<(), StageError> {
        while !keys.is_empty() {
            let is_to_come = |key: &String| {
                let inner = self.journal.lock();
                inner.last.get(key).is_some_and(|last| last.at <= since)
            };
            keys.retain(is_to_come);
            self.patient(since, "keys are not worked on after a pause")?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    fn next(&mut self) -> Trouble {
        if !self.first.is_empty() {
            let at = self.dice.below(self.first.len() as u64) as usize;
            return self.first.swap_remove(at);
        }
        let running = self.fleet.running.len();
        let pause = self.dice.pick(&[Pause::Short, Pause::Near, Pause::Long]);
        let mut of = vec![Trouble::Pause(pause)];
        if running > BETWEEN.0 {
            of.extend([Trouble::Kill, Trouble::Remove]);
        }
        if running < BETWEEN.1 {
            of.extend([Trouble::Add, Trouble::Add]);
        }
        self.dice.pick(&of)
    }

    fn victim(&mut self) -> (usize, String) {
        let at = self.dice.below(self.fleet.running.len() as u64) as usize;
        (at, self.fleet.running[at].name.clone())
    }

    async fn kill(&mut self) -> Result<(), StageError> {
        let (at, name) = self.victim();
        let keys = self.journal.keys_of(&name);
        let began = Instant::now();
        self.fleet.kill(at).await?;
        self.told.kills += 1;
        let owned = self.owned(began, self.fleet.running.len()).await?;
        self.told.owned_after_kill.push(owned);
        let taken = self.taken(&name, keys, began).await?;
        self.told.after_kill.extend(taken);
        Ok(())
    }

    /// Pauses a replica.
    async fn pause(&mut self, pause: Pause) -> Result<(), StageError> {
        let (at, name) = self.victim();
        let keys = self.journal.keys_of(&name);
        let began = Instant::now();
        self.fleet.running[at].process.signal("STOP")?;
        self.told.pauses += 1;
        let paused = self.paused(pause, &name, keys.clone(), began).await;
        // After a failure as well: a replica that is paused cannot end.
        let resumed = self.fleet.running[at].process.signal("CONT");
        paused.and(resumed)?;
        self.worked_on(keys, Instant::now()).await?;
        if matches!(pause, Pause::Near) {
            // The leases may be those from before the pause: what comes of it comes within two renewals.
            tokio::time::sleep(self.plan.lease / 3).await;
        }
        Ok(())
    }

    async fn paused(
        &mut self,
        pause: Pause,
        name: &str,
        keys: Vec<String>,
        began: Instant,
    ) -> Result<(), StageError> {
        let lease = self.plan.lease;
        let rest = match pause {
            Pause::Short => self.up_to(lease / 2),
            Pause::Near => {
                self.told.near_pauses += 1;
                lease / 2 + self.up_to(lease)
            }
            Pause::Long => {
                self.owned(began, self.fleet.running.len() - 1).await?;
                let taken = self.taken(name, keys, began).await?;
                self.told.after_pause.extend(taken);
                self.told.long_pauses += 1;
                self.up_to(lease / 2)
            }
        };
        tokio::time::sleep(rest).await;
        Ok(())
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_millis(self.dice.below(most.as_millis() as u64))
    }

    async fn add(&mut self) -> Result<(), StageError> {
        let began = Instant::now();
        self.fleet.start()?;
        self.told.adds += 1;
        self.balanced().await?;
        self.told.balanced_after_add.push(began.elapsed());
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), StageError> {
        let (at, _) = self.victim();
        let began = Instant::now();
        self.fleet.remove(at)?;
        self.told.removes += 1;
        let owned = self.owned(began, self.fleet.running.len()).await?;
        self.told.owned_after_term.push(owned);
        self.fleet.ended().await
    }

    /// Waits until this number of members owns all shards.
    async fn owned(&self, began: Instant, members: usize) -> Result<Duration, StageError> {
        while !self.journal.is_owned(members) {
            self.patient(began, "not all shards are owned")?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(began.elapsed())
    }

    /// Waits until each replica that runs has its part.
    async fn balanced(&self) -> Result<(), StageError> {
        let began = Instant::now();
        while !self.journal.is_balanced(self.fleet.running.len()) {
            self.patient(began, "not balanced")?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits until each of these keys is written by another replica; returns the times that it took.
    async fn taken(
        &mut self,
        name: &str,
        mut keys: Vec<String>,
        began: Instant,
    ) -> Result<Vec<Duration>, StageError> {
        let all = keys.clone();
        // A key that is deleted has no last write.
        let is_by_it = |journal: &Journal, key: &String| {
            let inner = journal.lock();
            inner.last.get(key).is_some_and(|last| last.name == name)
        };
        while !keys.is_empty() {
            keys.retain(|key| is_by_it(&self.journal, key));
            self.patient(began, "keys are not worked on again")?;
            tokio::time::sleep(LOOK).await;
        }
        let first = self.journal.first_since(began, name);
        let times: Vec<_> = all
            .iter()
            .filter_map(|key| first.get(key).copied())
            .collect();
        let late = times.iter().filter(|time| **time > LIMIT).count();
        if late > 0 {
            let failure = format!("{late} keys of {name} were worked on again after {LIMIT:?}");
            self.told.failures.push(failure);
        }
        Ok(times)
    }

    fn patient(&self, since: Instant, what: &str) -> Result<(), StageError> {
        if since.elapsed() < PATIENCE {
            return Ok(());
        }
        let running = self.fleet.running.len();
        let (picture, logs) = (self.journal.picture(), self.fleet.logs());
        let message = format!("{what} after {PATIENCE:?}, with {running} replicas");
        Err(format!("{message}\n{picture}\n{logs}").into())
    }

    /// Judges everything that happened.
    fn judged(&mut self, world: &world::Told) {
        let (entries, hole) = {
            let inner = self.journal.lock();
            (inner.entries.clone(), inner.hole.clone())
        };
        self.told.failures.extend(hole);
        match self.fleet.panics() {
            Ok(panics) => self.told.failures.extend(panics),
            Err(error) => self.told.failures.push(error.to_string()),
        }
        self.answered(world, &entries);
        match self.cleanups(&entries) {
            Ok(cleanups) => self.cleaned(world, &cleanups),
            Err(error) => self.told.failures.push(error.to_string()),
        }
        let (verdict, told) = (judge(entries), &mut self.told);
        told.writes = verdict.writes;
        told.terms = verdict.terms;
        told.violations = verdict.violations;
        (told.longest_gap, told.around_gap) = (verdict.longest_gap, verdict.around_gap);
        if verdict.violations > 0 {
            let count = verdict.violations;
            told.failures
                .push(format!("{count} writes were no owner's"));
            told.failures.extend(verdict.told);
        }
        self.complete();
        let failures = &mut self.told.failures;
        if failures.len() > MOST {
            let more = failures.len() - MOST;
            failures.truncate(MOST);
            failures.push(format!("and {more} more"));
        }
    }

    fn answered(&mut self, world: &world::Told, entries: &[Entry]) {
        let (told, fleet) = (&mut self.told, &self.fleet);
        told.answers = world.answers;
        if let Some((took, key)) = &world.slowest {
            told.slowest_answer = *took;
            if *took > LIMIT {
                let (last, lines) = (last_of(entries, key), fleet.lines(key));
                told.failures
                    .push(format!("{key} was answered after {took:?}:\n{last}{lines}"));
            }
        }
        for (key, (wish, late)) in &world.unanswered {
            let (last, lines) = (last_of(entries, key), fleet.lines(key));
            told.failures.push(format!(
                "{key}: the wish for {wish} was not answered within {late:?}:\n{last}{lines}"
            ));
        }
    }

    /// Every cleanup: the key, and when.
    fn cleanups(&self, entries: &[Entry]) -> Result<Vec<(String, u128)>, StageError> {
        if self.plan.work != Work::Sample {
            return self.fleet.gone();
        }
        // Its cleanup deletes the Deployment, once somebody deleted the Foo.
        let deleted = entries.iter().filter_map(|entry| match &entry.fact {
            Fact::Gone { key } => {
                let at = now_ms().saturating_sub(entry.at.elapsed().as_millis());
                Some((key.clone(), at))
            }
            _ => None,
        });
        Ok(deleted.collect())
    }

    /// Each cleanup must come after the deletion of its object, a key's second one as its first.
    fn cleaned(&mut self, world: &world::Told, cleanups: &[(String, u128)]) {
        let told = &mut self.told;
        let keys: BTreeSet<_> = cleanups.iter().map(|(key, _)| key).collect();
        told.gone = keys.len();
        for (key, at) in cleanups {
            if world.deleted.get(key).is_none_or(|asked| asked > at) {
                let failure = format!("a cleanup of {key} ran, which existed");
                told.failures.push(failure);
                told.wrongly_gone += 1;
            }
        }
        let deleted = world.deleted.len();
        if deleted > 0 && keys.is_empty() {
            let failure = format!("{deleted} objects were deleted, and no cleanup was seen");
            told.failures.push(failure);
        }
    }

    /// Checks that the run had all that it needs to mean something, and the limits of a long one.
    fn complete(&mut self) {
        let told = &mut self.told;
        let has_troubles = !self.plan.length.is_zero() || self.plan.work == Work::Careless;
        if has_troubles && told.long_pauses == 0 {
            let failure = "no replica was paused for longer than its lease";
            told.failures.push(failure.to_owned());
        }
        if let Some(fork) = self.plan.fork {
            (told.turns, told.served) = (fork.turns(), fork.served());
            if told.turns == 0 || told.served.contains(&0) {
                let failure = "one of two servers had no turn or no connection";
                told.failures.push(failure.to_owned());
            }
        }
        if self.plan.length >= LONG {
            told.failures.extend(told.over());
        }
    }
}
