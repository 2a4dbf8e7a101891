//! The steps that are no writes: processes, networks, servers, and what users change.
//!
//! ```text
//! Act ─▶ counted (fault × state of the process) ─▶ begins now; its end on the agenda
//! ```

use std::time::Duration;

use kinform_apiserver::{Fault, FaultRule, WatchLag};

use crate::cluster::Revisions;
use crate::finding::Invariant;
use crate::generate::NAMESPACES;
use crate::listener::Manner;
use crate::network::status;
use crate::reach::State;
use crate::replica::Replica;
use crate::run::{Due, Run};
use crate::script::{Act, Asks, Follow, Hand, Handling, LEADER, Net, On, Trap, Trouble};
use crate::shared::lock;

/// The time after which a process that was killed or stopped starts again.
const AGAIN: Duration = Duration::from_secs(3);
/// The time between two tries to start a process while its server is down.
const RETRY: Duration = Duration::from_secs(1);

/// BOUND: the time that the removal of a handler takes.
const REMOVAL: Duration = Duration::from_secs(30);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Run<'_> {
    /// Something happens that is no write.
    pub(crate) async fn trouble(&mut self, act: &Act) {
        let act = self.aimed(act);
        if self.is_left_out(&act) {
            return;
        }
        self.count(&act);
        match act {
            Act::Write(_) => {}
            Act::Start(number) => self.spawn(number),
            Act::Crash(number) => self.kill(number),
            Act::Stop(number) => {
                if let Some(replica) = &self.replicas[number] {
                    replica.stop.cancel();
                }
            }
            Act::Pause(number, lasts) => {
                if let Some(replica) = &self.replicas[number] {
                    replica.wire.freeze(true);
                    let start = replica.life.1;
                    self.plan(millis(lasts), Due::Move(number, start));
                }
            }
            Act::Trap(number, on, what) => {
                if let Some(replica) = &self.replicas[number] {
                    replica.wire.trap(on, what);
                }
            }
            Act::Network(number, what, lasts) => {
                if let Some(replica) = &self.replicas[number] {
                    replica.wire.begin(what);
                    let start = replica.life.1;
                    self.plan(millis(lasts), Due::Heal(number, start, what));
                }
            }
            Act::Switch(number, behind, lasts) => self.switch(number, behind, millis(lasts)),
            Act::Server(number, what) => self.server(number, what).await,
            Act::Lease(hand) => self.cluster.write_lease(hand).await,
            Act::Handler(number, what) => self.handler(number, what).await,
            Act::Namespace(number, namespace, follow) => self.namespace(number, namespace, follow),
            Act::Relist(number) => {
                if let Some(replica) = &self.replicas[number] {
                    replica.caches[0].informer.relist();
                }
            }
        }
    }

    /// Something on the agenda happens.
    pub(crate) async fn happen(&mut self, due: Due) {
        self.shared.note(format_args!("due {due:?}"));
        let lives = |replica: &&Replica, start: u64| replica.life.1 == start;
        match due {
            Due::Start(number) => self.spawn(number),
            Due::Move(number, start) => {
                if let Some(replica) = self.replicas[number]
                    .as_ref()
                    .filter(|one| lives(one, start))
                {
                    replica.wire.freeze(false);
                }
            }
            Due::Heal(number, start, what) => {
                let replica = self.replicas[number].as_ref();
                if let Some(replica) = replica.filter(|one| one.life.1 == start) {
                    replica.wire.heal(what);
                }
            }
            Due::GoHome(number, start) => {
                let replica = self.replicas[number].as_mut();
                if let Some(replica) = replica.filter(|one| one.life.1 == start) {
                    replica.read_from(replica.home(), &self.cluster);
                }
            }
            Due::Resume(number) => self.resume(number),
            Due::Restore(revisions) => {
                for number in 0..2 {
                    self.lose(number).await;
                }
                self.cluster.restore(revisions);
                let store = self.cluster.store();
                self.shared.history().begin(store);
                let caches = self.replicas.iter().flatten().flat_map(|one| &one.caches);
                let listeners = caches.flat_map(|cache| &cache.listeners);
                listeners.for_each(|listener| listener.checker.may_go_back());
                self.resume(0);
                self.resume(1);
            }
            Due::ServerHeals(number) => {
                self.cluster.heal(number);
            }
            Due::CatchUp(number) => {
                self.cluster.catch_up(number);
            }
        }
    }

    /// The reads of a process go to the other server for a time.
    fn switch(&mut self, number: usize, behind: u64, lasts: Duration) {
        let Some(replica) = &mut self.replicas[number] else {
            return;
        };
        let (other, start) = (1 - replica.home(), replica.life.1);
        self.cluster.fall_behind(other, behind);
        replica.read_from(other, &self.cluster);
        self.plan(lasts, Due::GoHome(number, start));
        if behind > 0 {
            self.plan(lasts, Due::CatchUp(other));
        }
    }

    pub(crate) fn spawn(&mut self, number: usize) {
        if self.replicas[number].is_some() {
            return;
        }
        self.known[number] = true;
        self.lives += 1;
        let life = (number, self.lives);
        match Replica::start(&self.shared, &self.cluster, (life, &self.script.settings)) {
            Ok(Some(replica)) => self.replicas[number] = Some(replica),
            Ok(None) => self.plan(RETRY, Due::Start(number)),
            Err(why) => self
                .shared
                .find(Invariant::Harness, format!("no process: {why}")),
        }
    }

    pub(crate) fn kill(&mut self, number: usize) {
        if let Some(replica) = self.replicas[number].take() {
            self.shared.note(format_args!("process {number} is killed"));
            replica.kill(&self.shared);
            self.plan(AGAIN, Due::Start(number));
        }
    }

    /// Buries the processes that have stopped as they were asked to.
    pub(crate) fn bury(&mut self) {
        for number in 0..self.replicas.len() {
            let Some(replica) = self.replicas[number].take_if(|one| one.task.is_finished()) else {
                continue;
            };
            let was_asked = replica.stop.is_cancelled();
            self.shared.note(format_args!("process {number} has ended"));
            let at_work = lock(&self.shared.busy)
                .iter()
                .find(|(_, life)| **life == replica.life)
                .map(|(key, _)| key.to_string());
            if let Some(key) = at_work {
                let what =
                    format!("process {number} has stopped, and {key} is still in a reconcile");
                self.shared.find(Invariant::I20, what);
            }
            if !was_asked {
                self.shared
                    .find(Invariant::I26, format!("process {number} ended by itself"));
            }
            replica.kill(&self.shared);
            self.plan(AGAIN, Due::Start(number));
        }
    }

    async fn lose(&mut self, number: usize) {
        for replica in self.replicas.iter().flatten() {
            if replica.reads == number {
                replica.wire.lose_server(true);
            }
            if number == 0 {
                replica.wire.lose_server(false);
            }
        }
        self.cluster.stop(number).await;
    }

    pub(crate) fn resume(&mut self, number: usize) {
        if !self.cluster.resume(number) {
            return;
        }
        for replica in self.replicas.iter().flatten() {
            let reads = (replica.reads == number).then(|| self.cluster.service(number));
            let writes = (number == 0).then(|| self.cluster.service(0));
            replica.wire.connect(reads.flatten(), writes.flatten());
        }
    }

    async fn server(&mut self, number: usize, what: Trouble) {
        match what {
            Trouble::Restart(lasts) => {
                self.lose(number).await;
                self.plan(millis(lasts), Due::Resume(number));
            }
            Trouble::RestartWithoutHistory(lasts) => {
                self.lose(number).await;
                drop(self.shared.history());
                self.cluster.forget(number);
                self.plan(millis(lasts), Due::Resume(number));
            }
            Trouble::Restore(lasts) | Trouble::GoBack(lasts) => {
                if !self.cluster.has_backup() {
                    return;
                }
                self.lose(0).await;
                self.lose(1).await;
                let revisions = match what {
                    Trouble::GoBack(_) => Revisions::GoBack,
                    _ => Revisions::GoOn,
                };
                self.plan(millis(lasts), Due::Restore(revisions));
            }
            Trouble::Backup => {
                drop(self.shared.history());
                self.cluster.back_up();
            }
            Trouble::Clock(minutes) => {
                self.lose(number).await;
                self.cluster.jump(minutes);
                self.plan(Duration::from_secs(1), Due::Resume(number));
            }
            Trouble::Expire => {
                drop(self.shared.history());
                self.cluster.store().compact(u64::MAX);
            }
            other => self.misbehave(number, other),
        }
    }

    /// Faults of a server that goes on.
    fn misbehave(&mut self, number: usize, what: Trouble) {
        let seed = self.shared.below(u64::MAX);
        let Some(server) = self.cluster.server(number) else {
            return;
        };
        let faults = server.faults();
        if let Some(rule) = rule(what) {
            faults.inject(rule);
            return;
        }
        let ends = match what {
            Trouble::CutWatches => {
                server.cut_watches();
                return;
            }
            Trouble::StallWatches(lasts) => {
                faults.stall_watches();
                lasts
            }
            Trouble::LateWatches(most, lasts) => {
                faults.delay_watches(Some(WatchLag::up_to(millis(most), seed)));
                lasts
            }
            Trouble::NoBookmarks(lasts) => {
                faults.without_bookmarks();
                lasts
            }
            Trouble::NoInitialEventsEnd(lasts) => {
                faults.without_initial_events_end();
                lasts
            }
            Trouble::Lag(lasts) => {
                server.lag();
                self.plan(millis(lasts), Due::CatchUp(number));
                return;
            }
            Trouble::NoInitialEvents(lasts) => {
                faults.without_initial_events();
                lasts
            }
            Trouble::LateInitialEventsEnd(lasts) => {
                faults.delay_initial_events_end();
                lasts
            }
            _ => return,
        };
        self.plan(millis(ends), Due::ServerHeals(number));
    }

    /// The same with the number of a process: that of the leader, if it is aimed at.
    fn aimed(&self, act: &Act) -> Act {
        let leads = |one: &Option<Replica>| {
            one.as_ref()
                .is_some_and(|one| one.operator.term().is_some())
        };
        let number = |number: usize| match number {
            LEADER => self.replicas.iter().position(leads).unwrap_or_default(),
            number => number,
        };
        match act.clone() {
            Act::Crash(of) => Act::Crash(number(of)),
            Act::Stop(of) => Act::Stop(number(of)),
            Act::Pause(of, lasts) => Act::Pause(number(of), lasts),
            Act::Trap(of, on, what) => Act::Trap(number(of), on, what),
            Act::Network(of, what, lasts) => Act::Network(number(of), what, lasts),
            Act::Switch(of, behind, lasts) => Act::Switch(number(of), behind, lasts),
            other => other,
        }
    }

    /// The lease is not deleted while its holder hears nothing: a process that starts then and has
    /// never seen it makes another one, and neither of the two can know of the other.
    fn is_left_out(&self, act: &Act) -> bool {
        let hears_nothing = |one: &Replica| one.operator.term().is_some() && one.wire.is_dark();
        matches!(act, Act::Lease(Hand::Delete)) && self.replicas.iter().flatten().any(hears_nothing)
    }

    async fn handler(&mut self, number: usize, what: Handling) {
        let shared = self.shared.clone();
        let Some(replica) = &mut self.replicas[number] else {
            return;
        };
        let wire = replica.wire.clone();
        let cache = &mut replica.caches[0];
        match what {
            Handling::Add => cache.listen(&shared, &wire, Manner::Quick),
            Handling::AddSlow(pause) => cache.listen(&shared, &wire, Manner::Slow(millis(pause))),
            Handling::Remove => {
                if cache.listeners.len() < 2 {
                    return;
                }
                let mut gone = cache.listeners.remove(1);
                let Some(registration) = gone.registration.take() else {
                    return;
                };
                // A frozen process would hold the whole run up.
                let removed = tokio::time::timeout(REMOVAL, registration.remove());
                if removed.await.is_ok() {
                    gone.checker.stop();
                } else if !wire.is_frozen() {
                    let what = format!("{} is not removed after {REMOVAL:?}", gone.name);
                    self.shared.find(Invariant::I10, what);
                }
            }
        }
    }

    fn namespace(&mut self, number: usize, namespace: u8, follow: Follow) {
        let Some(replica) = &self.replicas[number] else {
            return;
        };
        let name = NAMESPACES[usize::from(namespace) % NAMESPACES.len()];
        let informer = &replica.caches[2].informer;
        match follow {
            Follow::Watch => {
                if let Err(error) = informer.add_namespace(name)
                    && !informer.state().is_stopped()
                {
                    self.shared.find(Invariant::Harness, error.to_string());
                }
            }
            Follow::Leave => drop(informer.remove_namespace(name)),
        }
    }

    /// Counts which states a fault meets.
    fn count(&mut self, act: &Act) {
        let Some(fault) = name(act) else {
            return;
        };
        let of = match act {
            Act::Crash(number) | Act::Stop(number) | Act::Pause(number, _) => Some(*number),
            Act::Trap(number, ..) | Act::Network(number, ..) | Act::Switch(number, ..) => {
                Some(*number)
            }
            _ => None,
        };
        let busy: Vec<_> = lock(&self.shared.busy).values().copied().collect();
        for replica in self.replicas.iter().flatten() {
            if of.is_some_and(|number| number != replica.life.0) {
                continue;
            }
            use kinform::InformerState;
            let state = match replica.caches[0].informer.state() {
                InformerState::Synced { .. } => State::Synced,
                InformerState::Listing { .. } | InformerState::Pending => State::Listing,
                _ => State::Stale,
            };
            self.reach.count(fault, state);
            let leads = replica.operator.term().is_some();
            self.reach.count(
                fault,
                if leads {
                    State::Leading
                } else {
                    State::Standing
                },
            );
            if busy.contains(&replica.life) {
                self.reach.count(fault, State::Working);
            }
        }
    }
}

/// The rule of a fault of the next requests; `None` for a fault of another kind.
fn rule(what: Trouble) -> Option<FaultRule> {
    let (asks, fault, times) = match what {
        Trouble::Reply(asks, code, times) => (asks, Fault::Reply(status(code)), times),
        Trouble::Foreign(asks, times) => {
            let fault = Fault::Foreign {
                code: 502,
                media: "text/html",
                body: "<html><body>Bad Gateway</body></html>",
                retry_after: None,
            };
            (asks, fault, times)
        }
        Trouble::ExpiredEvent(times) => (Asks::Watch, Fault::ErrorEvent(status(410)), times),
        Trouble::EmptyStream(times) => (Asks::Watch, Fault::EmptyStream, times),
        Trouble::Truncate(asks, bytes) => (asks, Fault::TruncateAfter(bytes), 1),
        Trouble::ShortWatches(bytes, times) => (Asks::Watch, Fault::TruncateAfter(bytes), times),
        Trouble::StallBody(asks, bytes) => (asks, Fault::StallAfter(bytes), 1),
        Trouble::Delay(asks, by) => (asks, Fault::Delay(millis(by)), 1),
        _ => return None,
    };
    let rule = FaultRule::new(fault).on_verb(asks.verb()).times(times);
    Some(match asks {
        Asks::Update => rule.on_resource("leases"),
        _ => rule,
    })
}

/// The name of a fault among [`crate::reach::FAULTS`].
fn name(act: &Act) -> Option<&'static str> {
    Some(match act {
        Act::Crash(_) => "crash",
        Act::Stop(_) => "stop",
        Act::Pause(..) => "pause",
        Act::Trap(_, on, trap) => match (on, trap) {
            (On::Write, Trap::CrashBefore) => "crashBefore",
            (On::Write, Trap::CrashAfter) => "crashAfter",
            (On::Write, Trap::LoseReply) => "loseReply",
            (On::Write, Trap::SendLate(_)) => "sendLate",
            (On::Write, Trap::Refuse(_)) => "refuseWrite",
            (On::Lease, Trap::CrashBefore | Trap::CrashAfter) => "crashAtLease",
            (On::Lease, Trap::LoseReply) => "loseLeaseReply",
            (On::Lease, Trap::SendLate(_)) => "sendLeaseLate",
            (On::Lease, Trap::Refuse(_)) => "refuseLease",
        },
        Act::Lease(Hand::Delete) => "deleteLease",
        Act::Lease(Hand::Label) => "labelLease",
        Act::Network(_, net, _) => match net {
            Net::Cut => "cut",
            Net::CutAfter(_) => "cutAfter",
            Net::Refuse => "refuse",
            Net::BlackHole => "blackHole",
            Net::HalfOpen => "halfOpen",
            Net::OneWay => "oneWay",
            Net::Trickle => "trickle",
            Net::Slow(_) => "slow",
            Net::Duplicate => "duplicate",
            Net::Again => "again",
            Net::Drop => "drop",
            Net::Deaf(_) => "deaf",
            Net::NoWrites => "noWrites",
        },
        Act::Switch(..) => "switch",
        Act::Server(_, trouble) => match trouble {
            Trouble::Restart(_) => "restart",
            Trouble::RestartWithoutHistory(_) => "restartWithoutHistory",
            Trouble::Restore(_) => "restore",
            Trouble::GoBack(_) => "goBack",
            Trouble::Clock(_) => "clock",
            Trouble::CutWatches => "cutWatches",
            Trouble::StallWatches(_) => "stallWatches",
            Trouble::LateWatches(..) => "lateWatches",
            Trouble::NoBookmarks(_) => "noBookmarks",
            Trouble::NoInitialEventsEnd(_) => "noInitialEventsEnd",
            Trouble::NoInitialEvents(_) => "noInitialEvents",
            Trouble::LateInitialEventsEnd(_) => "lateInitialEventsEnd",
            Trouble::Lag(_) => "lag",
            Trouble::Expire => "expire",
            Trouble::Reply(_, 410, _) => "reply410",
            Trouble::Reply(_, 429, _) => "reply429",
            Trouble::Reply(..) => "reply5xx",
            Trouble::Foreign(..) => "foreign",
            Trouble::ExpiredEvent(_) => "expiredEvent",
            Trouble::EmptyStream(_) => "emptyStream",
            Trouble::Truncate(..) => "truncate",
            Trouble::ShortWatches(..) => "shortWatches",
            Trouble::StallBody(..) => "stallBody",
            Trouble::Delay(..) => "delay",
            Trouble::Backup => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::generate::script;
    use crate::reach::FAULTS;

    #[test]
    fn scripts_draw_each_fault_that_is_counted_and_no_other() {
        let scripts = (0..1_000).map(script);
        let acts = scripts.flat_map(|script| script.steps).map(|step| step.act);
        let drawn: BTreeSet<&str> = acts.filter_map(|act| name(&act)).collect();
        assert_eq!(drawn, BTreeSet::from(FAULTS));
    }
}
