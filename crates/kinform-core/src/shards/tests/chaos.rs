//! The faults of a world, the events of its scenarios, and the checks at the end.
//!
//! ```text
//! dice → pause │ partition │ watch without news │ kill │ stop, then the next after 0.3 to 5 s
//! ```

use super::world::{Event, Happening, SCENE_AT, SECOND, Scenario, World};
use super::*;

impl World {
    pub(super) fn chaos(&mut self) {
        if !self.has_faults() {
            return;
        }
        let at = self.below(self.replicas.len());
        let last = self.faults_until;
        let until = |now: u64, span: u64| (now + span).min(last);
        let now = self.now;
        match self.below(20) {
            0..5 => {
                let awake = until(now, self.between(100, 40_000));
                let replica = &mut self.replicas[at];
                replica.asleep_until = replica.asleep_until.max(awake);
            }
            5..9 => self.replicas[at].cut_until = until(now, self.between(500, 25_000)),
            9..12 => self.replicas[at].unwatched_until = until(now, self.between(500, 25_000)),
            12 => {
                let span = self.between(500, 20_000);
                for replica in &mut self.replicas {
                    replica.cut_until = until(now, span);
                }
            }
            13..16 if !self.replicas[at].is_dead => self.kill(at),
            16..18 if !self.replicas[at].is_dead => self.push_for(0, at, Event::Stop),
            18 if self.scenario == Scenario::Hands && !self.server.members.is_empty() => {
                let before = self.server.log.len();
                let member = self.below(self.server.members.len());
                self.server.delete_member(member, now);
                self.tell(before);
            }
            19 if self.scenario == Scenario::Hands => {
                let before = self.server.log.len();
                let shard = self.below(self.work.len()) as u32;
                self.server.delete_shard(shard, now);
                self.touched.insert(shard);
                self.tell(before);
            }
            _ => {}
        }
        let next = self.between(300, 5_000);
        self.push(next, Happening::Chaos);
    }

    /// A member that starts after the lease of a shard was deleted does not know its owner: this
    /// shard, and no other, is exempt from then on.
    pub(super) fn is_touched(&self, shard: u32) -> bool {
        self.touched.contains(&shard)
    }

    /// Faults happen, or the one event has: work takes its time. Before and after it is short, so
    /// that a distribution is reached soon.
    pub(super) fn is_scene(&self) -> bool {
        self.has_faults() || self.scene.is_some()
    }

    /// The one event of a scenario without faults.
    pub(super) fn play(&mut self) {
        self.check_distribution();
        let records = self.server.shards.iter();
        self.before = records.map(|(_, record)| record.owner.clone()).collect();
        self.tally.moves = 0;
        self.scene = Some(self.now);
        self.scene_member = Arc::clone(&self.replicas[0].name);
        match self.scenario {
            Scenario::Crash => self.kill(0),
            Scenario::Drain => self.push_for(0, 0, Event::Stop),
            Scenario::Join => self.push(0, Happening::Restart(0)),
            Scenario::Chaos | Scenario::Hands => {}
        }
    }

    /// A write of a shard's lease was stored.
    pub(super) fn stored(&mut self, write: &Write) {
        let shard = write.shard.0 as usize;
        match write.purpose {
            Purpose::Acquire => {
                self.tally.moves += 1;
                let released_at = self.work[shard].released_at;
                // A shard that was released since the crash is counted from its release.
                let is_orphan = self.scene.is_some_and(|scene| released_at < scene);
                let since = match self.scenario {
                    Scenario::Crash if is_orphan => self.scene,
                    _ => self.scene.map(|_| released_at),
                };
                if let Some(since) = since.filter(|since| *since > 0) {
                    let span = self.now - since;
                    self.tally.longest = self.tally.longest.max(span);
                    let limit = match self.scenario {
                        Scenario::Crash if is_orphan => 17 * SECOND,
                        Scenario::Crash | Scenario::Drain | Scenario::Join => SECOND,
                        Scenario::Chaos | Scenario::Hands => u64::MAX,
                    };
                    if span > limit {
                        self.fail(format!("#{shard} had no owner for {span} us"));
                    }
                }
            }
            Purpose::Release => self.work[shard].released_at = self.now,
            Purpose::Claim | Purpose::Withdraw => {}
        }
    }

    /// The members that should have shards, by their index: those that run.
    fn running(&self) -> Vec<usize> {
        let all = self.replicas.iter().enumerate();
        all.filter(|(_, replica)| !replica.is_dead && !replica.is_stopping)
            .map(|(at, _)| at)
            .collect()
    }

    fn is_living(&self, holder: &Holder) -> bool {
        self.replicas.iter().any(|replica| {
            let term = replica.election.term();
            let is_term = term.is_some_and(|term| {
                (&*term.uid, term.transitions) == (&*holder.term.uid, holder.term.transitions)
            });
            !replica.is_dead && replica.name == holder.member && is_term
        })
    }

    pub(super) fn check_distribution(&mut self) {
        let running = self.running();
        let total: u32 = running.iter().map(|at| self.replicas[*at].weight).sum();
        let mut counts = vec![0_u32; self.replicas.len()];
        for shard in 0..self.work.len() {
            let by = self.work[shard].by.map(|(at, _)| at);
            let (_, record) = &self.server.shards[shard];
            let owner = record.owner.as_ref().map(|owner| Arc::clone(&owner.member));
            match by {
                Some(at) if owner.as_ref() == Some(&self.replicas[at].name) => counts[at] += 1,
                _ => return self.fail(format!("#{shard} of {owner:?} is worked on by {by:?}")),
            }
            if record
                .claim
                .as_ref()
                .is_some_and(|claim| self.is_living(claim))
            {
                return self.fail(format!("#{shard} is claimed in the end: {record:?}"));
            }
        }
        for at in running {
            let parts = self.shards.count() * self.replicas[at].weight;
            let bounds = parts / total..=parts.div_ceil(total);
            if !bounds.contains(&counts[at]) {
                return self.fail(format!("{at} has {} shards, not {bounds:?}", counts[at]));
            }
        }
    }

    pub(super) fn check_end(&mut self) {
        if self.violation.is_some() {
            return;
        }
        let stuck = self
            .replicas
            .iter()
            .position(|r| r.is_stopping && !r.is_dead);
        if let Some(at) = stuck {
            self.fail(format!("{at} never stopped"));
        }
        self.check_distribution();
        let quiet = self.now - self.server.last_shard_write;
        if quiet < 8 * SECOND {
            self.fail(format!("leases of shards were written {quiet} us ago"));
        }
        let shards = f64::from(self.shards.count());
        let running = self.running().len() as f64;
        let is_even = self.replicas.iter().all(|replica| replica.weight == 100);
        let moves = self.tally.moves as f64;
        let left = self.before.iter().flatten();
        let left = left
            .filter(|owner| *owner.member == *self.scene_member)
            .count();
        let limit = match self.scenario {
            Scenario::Join => (1.2 * shards / running).max((shards / running).ceil()),
            // All that it had. Members whose views differ may take one too many, which moves on.
            Scenario::Crash | Scenario::Drain => (1.2 * left as f64).ceil() + 1.0,
            Scenario::Chaos | Scenario::Hands => return,
        };
        if is_even && moves > limit {
            self.fail(format!("{moves} shards moved, {limit} would do"));
        }
        let gap = self.work.iter().filter(|work| work.opened_at > SCENE_AT);
        let gap = gap.map(|work| work.gap).max().unwrap_or(0);
        if self.scenario == Scenario::Join && gap > SECOND {
            self.fail(format!("nobody worked on a shard for {gap} us"));
        }
    }
}
