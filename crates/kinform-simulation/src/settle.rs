//! The end of a run: faults end, everything converges, twice; then all processes stop.
//!
//! ```text
//! heal ─▶ caches, handlers, copies = server? ─▶ more writes ─▶ again? ─▶ stop ─▶ tasks as before?
//! ```
//!
//! The second time is for watches that are dead and do not know it.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::time::Instant;

use crate::finding::Invariant;
use crate::generate;
use crate::invariants::uncopied;
use crate::replica::OWN_CACHES;
use crate::run::{Run, tasks};
use crate::shared::lock;

/// BOUND: the time within which everything must agree after the faults: silence, backoff, the
/// deadline of a list and the limit of a streaming one together, and retries of a key.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// The time without work after which the state is final.
const QUIET: Duration = Duration::from_secs(5);
/// BOUND: the time that an orderly stop takes.
const STOP: Duration = Duration::from_secs(120);
/// The writes before the second look.
const WRITES: usize = 6;
/// A resync may be this late: it comes in pieces.
const SLACK: Duration = Duration::from_secs(5);
/// A key that asked to be reconciled again may be this late.
const LATE: Duration = Duration::from_secs(15);

impl Run<'_> {
    pub(crate) async fn settle(&mut self) {
        self.agree().await;
        if self.is_whole() {
            self.stop_all().await;
        }
    }

    /// Ends all faults, and waits until everything agrees, twice.
    pub(crate) async fn agree(&mut self) {
        self.heal().await;
        self.converge().await;
        if !self.is_whole() {
            return;
        }
        let mut random = SmallRng::seed_from_u64(self.script.seed);
        for _ in 0..WRITES {
            let change = generate::change(&mut random);
            if self.may_write(&change) {
                self.cluster.write(&change).await;
            }
        }
        self.converge().await;
        if self.is_whole() {
            self.on_time();
            self.resynced().await;
        }
    }

    /// Each period handlers hear of every object again.
    async fn resynced(&mut self) {
        let periods = self.script.settings.replicas.iter().map(|one| one.resync);
        let Some(longest) = periods.max().filter(|longest| *longest > 0) else {
            return;
        };
        let since = Instant::now();
        self.until(since + Duration::from_secs(longest) + SLACK)
            .await;
        for replica in self.replicas.iter().flatten() {
            let period = self.script.settings.replicas[replica.life.0].resync;
            if period == 0 {
                continue;
            }
            let within = Duration::from_secs(period) + SLACK;
            // The operator's own caches have no resyncs.
            let mut caches = replica.caches.iter().take(OWN_CACHES);
            if let Some(what) = caches.find_map(|cache| cache.untold(Instant::now() - within)) {
                let what = format!("{what} for {within:?}, and its period is {period} s");
                self.shared.find(Invariant::I9, what);
            }
        }
    }

    /// Ends all faults.
    async fn heal(&mut self) {
        self.shared.note(format_args!("the faults end"));
        self.shared.calm();
        // A restore that is under way comes to its end.
        self.until(Instant::now() + Duration::from_secs(31)).await;
        self.clear_agenda();
        for number in 0..2 {
            self.resume(number);
            self.cluster.heal(number);
        }
        for replica in self.replicas.iter_mut().flatten() {
            replica.wire.heal_all();
            replica.read_from(replica.home(), &self.cluster);
        }
        for number in 0..self.replicas.len() {
            if self.known[number] {
                self.spawn(number);
            }
        }
    }

    /// Waits until everything agrees.
    async fn converge(&mut self) {
        let begun = Instant::now();
        let mut tick = Duration::from_millis(500);
        loop {
            self.until(Instant::now() + tick).await;
            self.look(false);
            if !self.is_whole() {
                return;
            }
            let behind = self.behind();
            let Some((invariant, what)) = behind else {
                self.look(true);
                return;
            };
            if begun.elapsed() > PATIENCE {
                let minutes = PATIENCE.as_secs() / 60;
                self.shared.find(
                    invariant,
                    format!("{minutes} minutes after the last fault: {what}"),
                );
                return;
            }
            tick = (tick * 5 / 4).min(Duration::from_secs(20));
        }
    }

    /// The first thing that does not agree yet.
    fn behind(&self) -> Option<(Invariant, String)> {
        let missing = self
            .replicas
            .iter()
            .zip(&self.known)
            .position(|(one, known)| *known && one.is_none());
        if let Some(number) = missing {
            return Some((Invariant::I26, format!("process {number} does not run")));
        }
        if !self.cluster.is_up() {
            return Some((Invariant::Harness, "a server is down".to_owned()));
        }
        if !self.known.contains(&true) {
            return None;
        }
        let history = self.shared.history();
        let of_processes = self.replicas.iter().flatten().flat_map(|one| &one.caches);
        let mut behind = of_processes.filter_map(|cache| cache.behind(&history));
        if let Some(what) = behind.next() {
            return Some((Invariant::I1, what));
        }
        if let Some(what) = uncopied(&history) {
            return Some((Invariant::I18, what));
        }
        drop(history);
        let leaders = self.shared.leaders();
        if leaders.len() != 1 {
            return Some((Invariant::I25, format!("the leaders are {leaders:?}")));
        }
        let idle = self.shared.idle();
        (idle < QUIET).then(|| {
            (
                Invariant::I26,
                format!("a controller was at work {idle:?} ago"),
            )
        })
    }

    /// Keys that asked to be reconciled again were.
    fn on_time(&self) {
        let now = Instant::now();
        for replica in self.replicas.iter().flatten() {
            if replica.operator.term().is_none() {
                continue;
            }
            let due = lock(&replica.due);
            let late = due.iter().find(|(_, at)| **at + LATE < now);
            if let Some((key, at)) = late {
                let by = now - *at;
                let history = self.shared.history();
                let lives = history
                    .now(crate::history::MAPS)
                    .any(|(one, _)| one == key.to_string());
                drop(history);
                if lives {
                    self.shared.find(
                        Invariant::I19,
                        format!("{key} asked to be reconciled again, {by:?} ago"),
                    );
                }
            }
        }
    }

    /// Stops all processes as a roll-out does; nothing of them may be left.
    pub(crate) async fn stop_all(&mut self) {
        for replica in self.replicas.iter().flatten() {
            replica.stop.cancel();
        }
        let begun = Instant::now();
        while self.replicas.iter().any(Option::is_some) {
            self.until(Instant::now() + Duration::from_millis(500))
                .await;
            self.look(false);
            self.clear_agenda();
            if !self.is_whole() {
                return;
            }
            if begun.elapsed() > STOP {
                let left: Vec<usize> = (0..self.replicas.len())
                    .filter(|one| self.replicas[*one].is_some())
                    .collect();
                self.shared
                    .find(Invariant::I20, format!("processes {left:?} do not stop"));
                return;
            }
        }
        if let Some(holder) = self.cluster.holder() {
            let what = format!("all processes have stopped, and the lease still names {holder}");
            self.shared.find(Invariant::I25, what);
            return;
        }
        let wait = Instant::now() + Duration::from_secs(90);
        self.until(wait).await;
        let left = tasks().saturating_sub(self.base_tasks);
        if left > 0 {
            self.shared.find(
                Invariant::I23,
                format!("{left} tasks are left when no process is"),
            );
        }
    }
}
