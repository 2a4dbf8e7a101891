//! The loop of troubles, and what it took to be over them.
//!
//! ```text
//! four replicas, idle ─▶ each once, then dice: kill | pause | add | remove ─▶ all owned, balanced ─▶ again ─▶ stop ─▶ judge
//! ```
//!
//! One trouble at a time, two to six replicas. Changes come all the time. A run fails where a write is
//! no owner's, where an answer or a takeover is late, where a cleanup ran for an object that existed,
//! and where shards are not owned and balanced a minute after a trouble.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use kinform_testkit::checks::stage::StageError;
use kube::Client;

use super::fleet::Fleet;
use super::fork::Fork;
use super::journal::{Fact, Journal};
use super::judge::judge;
use super::told::Told;
use super::world::{self, World};
use super::{Work, now_ms};
use crate::dice::Dice;

/// BOUND: the time for the replicas to be balanced.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// Replicas at the start.
const START: usize = 4;
/// BOUND: replicas at a time.
const BETWEEN: (usize, usize) = (2, 6);
/// The time for a change to be answered, and for a key to be worked on again.
const LIMIT: Duration = Duration::from_secs(20);
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
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Kill,
    Pause,
    Add,
    Remove,
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
    let mut world = World::make(client, journal.clone(), plan.work, plan.seed).await?;
    let mut story = Story {
        plan,
        journal,
        fleet,
        dice: Dice::new(plan.seed),
        told: Told::default(),
        first: match plan.work {
            Work::Careless => vec![Trouble::Pause],
            _ if plan.length.is_zero() => Vec::new(),
            _ => vec![Trouble::Pause, Trouble::Add, Trouble::Remove, Trouble::Kill],
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
    let world = living.await??;
    if let Err(error) = troubles {
        story.told.failures.push(error.to_string());
    }
    story.fleet.stop().await?;
    story.judged(&world);
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
                Trouble::Pause => self.pause().await?,
                Trouble::Add => self.add().await?,
                Trouble::Remove => self.remove().await?,
            }
            self.balanced().await?;
        }
        Ok(())
    }

    fn next(&mut self) -> Trouble {
        if !self.first.is_empty() {
            let at = self.dice.below(self.first.len() as u64) as usize;
            return self.first.swap_remove(at);
        }
        let running = self.fleet.running.len();
        let mut of = vec![Trouble::Pause];
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

    /// Pauses a replica, for longer than its lease or not.
    async fn pause(&mut self) -> Result<(), StageError> {
        let (at, name) = self.victim();
        let keys = self.journal.keys_of(&name);
        let lease = self.plan.lease;
        let is_long = self.dice.one_in(2) || self.plan.work == Work::Careless;
        let part = lease.as_millis() as u64 / 2;
        let more = Duration::from_millis(self.dice.below(part));
        let began = Instant::now();
        self.fleet.running[at].process.signal("STOP")?;
        self.told.pauses += 1;
        if is_long {
            self.told.long_pauses += 1;
            self.owned(began, self.fleet.running.len() - 1).await?;
            let taken = self.taken(&name, keys, began).await?;
            self.told.after_pause.extend(taken);
        }
        tokio::time::sleep(more).await;
        self.fleet.running[at].process.signal("CONT")
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
        let told = &mut self.told;
        told.failures.extend(hole);
        told.failures.extend(self.fleet.panics());
        told.answers = world.answers;
        if let Some((took, key)) = &world.slowest {
            told.slowest_answer = *took;
            if *took > LIMIT {
                told.failures
                    .push(format!("{key} was answered after {took:?}"));
            }
        }
        for (key, late) in &world.unanswered {
            told.failures
                .push(format!("{key} was not answered within {late:?}"));
        }
        let mut gone = self.fleet.gone();
        if self.plan.work == Work::Sample {
            // Its cleanup deletes the Deployment, once somebody deleted the Foo.
            let deleted = entries.iter().filter_map(|entry| match &entry.fact {
                Fact::Gone { key } => {
                    let at = now_ms().saturating_sub(entry.at.elapsed().as_millis());
                    Some((key.clone(), at))
                }
                _ => None,
            });
            gone.extend(deleted);
        }
        told.gone = gone.len();
        for (key, at) in gone {
            if world.deleted.get(&key).is_none_or(|asked| *asked > at) {
                let failure = format!("a cleanup of {key} ran, which existed");
                told.failures.push(failure);
                told.wrongly_gone += 1;
            }
        }
        let verdict = judge(entries);
        told.writes = verdict.writes;
        told.terms = verdict.terms;
        told.violations = verdict.violations;
        told.longest_gap = verdict.longest_gap;
        if verdict.violations > 0 {
            let count = verdict.violations;
            told.failures
                .push(format!("{count} writes were no owner's"));
            told.failures.extend(verdict.told);
        }
        if let Some(fork) = self.plan.fork {
            (told.turns, told.served) = (fork.turns(), fork.served());
            if told.served.contains(&0) {
                let failure = "one of two servers had no connection";
                told.failures.push(failure.to_owned());
            }
        }
        if told.failures.len() > MOST {
            let more = told.failures.len() - MOST;
            told.failures.truncate(MOST);
            told.failures.push(format!("and {more} more"));
        }
    }
}
