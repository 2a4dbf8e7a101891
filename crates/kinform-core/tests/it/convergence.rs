//! Reflector, fifo, store and handlers against a model of a server, in virtual time.
//!
//! ```text
//! seed → writes, faults, time → Server ⇄ Reflector → DeltaFifo → Writer → Listener
//! ```
//!
//! When writes and faults end, what is stored and what handlers heard equals what the server has, soon;
//! on the way no handler hears what contradicts what it heard before.

use std::collections::VecDeque;
use std::time::Duration;

use kinform_api::ObjectKey;
use kinform_core::delta::Delta;
use kinform_core::fifo::{DeltaFifo, FifoPolicy};
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::tier::Tier;
use kinform_core::informer::writer::Writer;
use kinform_core::reflector::config::ReflectorConfig;
use kinform_core::reflector::input::{Ending, Input};
use kinform_core::reflector::report::State;
use kinform_core::reflector::{Reflector, Request, Step};
use kinform_core::time::Instant;

use crate::cluster::{Chance, Connection, Server, StreamingLists, object};
use crate::listeners::{Listener, Model, stored, writer};
use crate::ranges::Wanted;

/// The quiet time after which everything must agree: the longest wait, a silent stream, a
/// streaming list that never ends.
const SOON: Duration = Duration::from_secs(300);

/// A tier that has learnt what objects of this world repeat.
fn learnt() -> Tier {
    let mut tier = Tier::new();
    for version in 0..40 {
        tier.keep(&object("a", 1, version));
    }
    tier.list_ended();
    let training = tier.training().unwrap();
    assert!(tier.trained(training.run()));
    assert!(tier.keep(&object("b", 1, 7)).unwrap().is_cold());
    tier
}

struct World {
    seed: u64,
    chance: Chance,
    now: Instant,
    server: Server,
    connection: Option<Connection>,
    /// A streaming list beside a probe.
    beside: Option<Connection>,
    machine: Reflector,
    fifo: DeltaFifo,
    refused: VecDeque<Delta>,
    writer: Writer,
    listeners: Vec<Listener>,
    down_until: Instant,
    epochs: u64,
    /// The part that is kept; all, if there is none.
    wanted: Option<Wanted>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let streaming = [
            StreamingLists::Served,
            StreamingLists::Refused,
            StreamingLists::Ignored,
        ][chance.below(3) as usize];
        let policy = [FifoPolicy::InOrder, FifoPolicy::Coalescing][chance.below(2) as usize];
        let page_size = [None, Some(3)][chance.below(2) as usize];
        let config = ReflectorConfig {
            page_size,
            ..ReflectorConfig::default()
        };
        let mut server = Server::new(streaming);
        server.sends_bookmarks = !chance.one_in(5);
        let mut writer = writer(RingLimits {
            batches: 16,
            changes: 40,
            bytes: 1 << 20,
        });
        // Drawn from the seed alone: the same worlds, whatever is kept of their objects.
        if seed.is_multiple_of(3) {
            writer = writer.with_tier(learnt());
        }
        let listeners = vec![Listener::new(&writer.reader())];
        Self {
            seed,
            chance,
            now: Instant::from_millis(5_000),
            server,
            connection: None,
            beside: None,
            machine: Reflector::new(config, seed),
            fifo: DeltaFifo::new(policy, 8),
            refused: VecDeque::new(),
            writer,
            listeners,
            down_until: Instant::ZERO,
            epochs: 0,
            wanted: None,
        }
    }

    /// A world that keeps ranges of hashes, which come and go. Its server never goes back: each deletion
    /// that is heard is one.
    fn sharded(seed: u64) -> Self {
        let wanted = Some(Wanted::default());
        Self {
            wanted,
            ..Self::new(seed)
        }
    }

    /// Wants other ranges from now on.
    fn select(&mut self) {
        let Some(wanted) = &mut self.wanted else {
            return;
        };
        let (input, deltas) = wanted.change(&mut self.chance);
        let left = (0..=self.server.next_uid).map(|uid| format!("u{uid}"));
        let left: Vec<_> = left.filter(|uid| !wanted.has_uid(uid)).collect();
        for listener in &mut self.listeners {
            listener.left.extend(left.iter().cloned());
        }
        if let Some(input) = input {
            self.machine.handle(input, self.now);
        }
        self.settle();
        for delta in deltas {
            self.refused.push_back(delta);
            self.push();
        }
    }

    /// Checks that no object which was heard as deleted is there.
    fn check_deletions(&mut self) {
        if self.wanted.is_none() {
            return;
        }
        for uid in self.listeners.iter_mut().flat_map(|l| l.deleted.drain(..)) {
            let mut there = self.server.objects.values();
            let is_there = there.any(|(there, _)| format!("u{there}") == uid);
            assert!(!is_there, "seed {}: {uid} left", self.seed);
        }
    }

    /// A write, a fault, or nothing.
    fn disturb(&mut self) {
        if self.server.is_up && self.may_write() && self.chance.one_in(2) {
            (0..=self.chance.below(3)).for_each(|_| self.server.write(&mut self.chance));
        }
        match self.chance.below(120) {
            0..3 => self.cut(),
            3..5 => self.stall(),
            5..7 => self.server.expire(),
            7..9 => self.go_down(),
            9 => self.server.failures = 3,
            10..13 => self.server.failures = 0,
            20..26 => self.select(),
            13..15 if self.wanted.is_some() => {}
            13 => {
                let back = self.chance.below(6);
                self.server
                    .restore(self.server.revision.saturating_sub(back));
                self.cut();
            }
            14 if self.chance.one_in(3) => {
                self.server.wipe();
                if self.chance.one_in(2) {
                    self.cut()
                } else {
                    self.stall()
                }
            }
            15..18 => {
                let mut new = Listener::new(&self.writer.reader());
                // What leaves may still be stored when it comes.
                new.left.clone_from(&self.listeners[0].left);
                self.listeners.push(new);
            }
            18 => {
                self.machine.handle(Input::Relist, self.now);
                self.settle();
            }
            _ => {}
        }
        self.listeners.truncate(4);
    }

    /// A server that went back and wrote as much again, unseen, cannot be told from one that did
    /// not: no client can. So it does not.
    fn may_write(&self) -> bool {
        let seen = self
            .machine
            .version()
            .and_then(|version| version.parsed())
            .unwrap_or(0);
        seen <= self.server.revision || seen > self.server.revision + 8
    }

    fn cut(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.end(&mut self.chance);
        }
    }

    fn stall(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.is_stalled = connection.is_watch();
        }
    }

    fn go_down(&mut self) {
        self.server.is_up = false;
        self.down_until = self.now + Duration::from_secs(self.chance.below(200));
        if self.chance.one_in(2) {
            self.cut()
        } else {
            self.stall()
        }
    }

    /// Time goes on; what is due happens.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(wake) = self.machine.next_wake().filter(|wake| *wake <= until) {
            self.now = self.now.max(wake);
            self.machine.handle(Input::Timer, self.now);
            self.settle();
            self.read(u64::MAX);
        }
        self.now = until;
        if self.now >= self.down_until {
            self.server.is_up = true;
        }
    }

    /// Reads at most `most` inputs.
    fn read(&mut self, most: u64) {
        for _ in 0..most {
            let Some(connection) = &mut self.connection else {
                return;
            };
            self.server.go_on(connection, self.now);
            if connection.is_stalled {
                return;
            }
            let Some(input) = connection.pending.pop_front() else {
                return;
            };
            if matches!(
                input,
                Input::Failed(_)
                    | Input::PageEnd { .. }
                    | Input::Ended(Ending::Clean | Ending::Cut { .. })
            ) {
                self.connection = None;
            }
            let input = match &self.wanted {
                Some(wanted) => wanted.seen(input),
                None => input,
            };
            self.machine.handle(input, self.now);
            self.settle();
        }
    }

    /// Does what the machine wants.
    fn settle(&mut self) {
        while let Some(step) = self.machine.poll() {
            match step {
                Step::CloseRequest => (self.connection, self.beside) = (None, None),
                Step::Resume => self.connection = self.beside.take(),
                Step::Request(request) => {
                    if matches!(request, Request::Probe { .. }) {
                        self.beside = self.connection.take();
                    }
                    assert!(self.connection.is_none(), "seed {}", self.seed);
                    let answer = self.server.answer(&request, self.now, &mut self.chance);
                    self.connection = Some(answer);
                }
                Step::Delta(delta) => {
                    self.refused.push_back(delta);
                    self.push();
                }
                Step::Report(_) => {}
            }
        }
    }

    fn push(&mut self) {
        while let Some(delta) = self.refused.pop_front() {
            if let Err(full) = self.fifo.push(delta) {
                self.refused.push_front(full.0);
                self.apply();
            }
        }
    }

    fn apply(&mut self) {
        let batch = self.fifo.pop_batch(1 + self.chance.below(5) as usize);
        self.writer.apply(batch);
        let reader = self.writer.reader();
        for listener in &mut self.listeners {
            if self.chance.one_in(2) {
                listener.hear(&reader);
            }
        }
        self.check_deletions();
    }

    fn truth(&self) -> Model {
        let objects = self.server.objects.iter();
        let named = |(name, (uid, version)): (&String, &(u64, u64))| {
            (
                ObjectKey::new(Some("n"), name),
                (format!("u{uid}"), *version),
            )
        };
        let is_wanted = |(uid, _): &(String, u64)| {
            self.wanted
                .as_ref()
                .is_none_or(|wanted| wanted.has_uid(uid))
        };
        let objects = objects.map(named);
        objects.filter(|(_, state)| is_wanted(state)).collect()
    }

    fn agrees(&mut self) -> bool {
        while !self.fifo.is_empty() {
            self.apply();
        }
        let (reader, truth) = (self.writer.reader(), self.truth());
        let has_heard = |listener: &mut Listener| {
            while listener.hear(&reader) {}
            // Nobody said that what left is gone.
            let mut heard = listener.heard.clone();
            heard.retain(|key, (uid, _)| truth.contains_key(key) || !listener.left.contains(uid));
            heard == truth
        };
        let all_heard = self.listeners.iter_mut().all(has_heard);
        self.check_deletions();
        let is_synced = matches!(self.machine.state(), State::Synced { .. });
        all_heard && is_synced && stored(&reader) == truth
    }

    fn run(&mut self) -> Duration {
        match self.wanted {
            Some(_) => self.select(),
            None => self.machine.start(self.now),
        }
        self.settle();
        for _ in 0..600 {
            self.disturb();
            let millis = [0, 20, 500, 3_000, 40_000][self.chance.below(5) as usize];
            self.pass(Duration::from_millis(millis));
            let most = self.chance.below(12);
            self.read(most);
        }
        self.server.failures = 0;
        self.down_until = self.now;
        let quiet_since = self.now;
        while !self.agrees() {
            self.pass(Duration::from_secs(1));
            self.read(u64::MAX);
            let quiet = self.now.since(quiet_since);
            let (found, truth) = (stored(&self.writer.reader()), self.truth());
            assert!(
                quiet < SOON,
                "seed {}: {:?} at {:?}, stored {found:?} is not {truth:?} at {}",
                self.seed,
                self.machine.state(),
                self.machine.version(),
                self.server.revision,
            );
        }
        self.epochs = self.machine.stats().epochs;
        self.now.since(quiet_since)
    }
}

#[test]
fn what_is_stored_and_heard_becomes_what_the_server_has() {
    let (mut relists, mut reopens, mut epochs, mut silences) = (0, 0, 0, 0);
    for seed in 0..200 {
        let mut world = World::new(seed);
        world.run();
        let stats = world.machine.stats();
        relists += stats.relists;
        reopens += stats.reopens;
        silences += stats.silences;
        epochs += stats.epochs;
    }
    // The runs are worth something: all of this happened, often.
    assert!(
        relists > 400 && reopens > 400,
        "{relists} relists, {reopens} reopens"
    );
    assert!(
        epochs > 100 && silences > 100,
        "{epochs} epochs, {silences} silences"
    );
}

#[test]
fn ranges_that_come_and_go_become_what_the_server_has_in_them() {
    let (mut outside, mut lists, mut moved, mut aborted) = (0, 0, 0, 0);
    for seed in 0..300 {
        let mut world = World::sharded(seed);
        world.run();
        let stats = world.machine.stats();
        outside += stats.outside;
        lists += stats.relists;
        aborted += stats.aborted_lists;
        moved += world.wanted.map_or(0, |wanted| wanted.changes);
    }
    assert!(moved > 3_000, "{moved} changes of ranges");
    assert!(
        outside > 3_000 && lists > 3_000 && aborted > 100,
        "{outside} outside, {lists} lists, {aborted} void"
    );
}
