//! The queue against a model that is too simple to be wrong, and upstream's tests by name.
//!
//! ```text
//! random operations → Queue and Model → the same answers, hand-outs and sizes
//! ```
//!
//! The model keeps one record a key in a map and sorts whatever it needs sorted.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug, Default)]
struct Record {
    ready: bool,
    /// The tick until which it is delayed.
    delayed: Option<u64>,
    /// The tick of its wake-up time.
    wake: Option<u64>,
    /// Order in which it began to wait for the earlier of the two.
    entered: u64,
    running: bool,
    again: bool,
    failures: u32,
    priority: Priority,
    handed_out_as: Priority,
}

/// Groups in the order of their turns, each with its keys.
type ModelLane = VecDeque<(u8, VecDeque<u8>)>;

impl Record {
    /// When its time comes, if it waits for that.
    fn due(&self) -> Option<(u64, u64)> {
        let wake = self
            .wake
            .filter(|_| !self.running || self.delayed.is_some());
        let tick = self.delayed.into_iter().chain(wake).min();
        let tick = tick.filter(|_| !self.ready && !self.again);
        tick.map(|tick| (tick, self.entered))
    }
}

#[derive(Debug)]
struct Model {
    records: BTreeMap<u8, Record>,
    lanes: [ModelLane; 3],
    groups: u8,
    passed_over: [u32; 3],
    arrivals: u64,
    /// Ticks never go back, even for what is due in the past.
    reached: u64,
    life: Life,
}

const BASE: Duration = Duration::from_millis(5);

impl Model {
    fn new(groups: u8) -> Self {
        Self {
            groups,
            records: BTreeMap::new(),
            lanes: Default::default(),
            passed_over: [0; 3],
            arrivals: 0,
            reached: 0,
            life: Life::Open,
        }
    }

    fn record(&mut self, key: u8) -> &mut Record {
        let fresh = Record {
            priority: Priority::Low,
            ..Record::default()
        };
        self.records.entry(key).or_insert(fresh)
    }

    fn add(&mut self, key: u8, priority: Priority) -> AddOutcome {
        if self.life != Life::Open {
            return AddOutcome::Refused;
        }
        self.ready(key, priority)
    }

    fn ready(&mut self, key: u8, priority: Priority) -> AddOutcome {
        let record = self.record(key);
        let raised = priority.max(record.priority);
        let before = std::mem::replace(&mut record.priority, raised);
        if record.ready {
            if raised > before {
                self.dequeue(key);
                self.enqueue(key, raised);
            }
            return AddOutcome::Merged;
        }
        if record.again {
            return AddOutcome::Merged;
        }
        record.delayed = None;
        if record.running {
            record.again = true;
        } else {
            record.ready = true;
            self.enqueue(key, raised);
        }
        AddOutcome::Queued
    }

    fn enqueue(&mut self, key: u8, priority: Priority) {
        let group = key % self.groups;
        let lane = &mut self.lanes[2 - priority as usize];
        match lane.iter_mut().find(|(other, _)| *other == group) {
            Some((_, keys)) => keys.push_back(key),
            None => lane.push_back((group, [key].into())),
        }
    }

    fn dequeue(&mut self, key: u8) {
        for lane in &mut self.lanes {
            for (_, keys) in lane.iter_mut() {
                keys.retain(|&other| other != key);
            }
            lane.retain(|(_, keys)| !keys.is_empty());
        }
    }

    fn add_after(&mut self, key: u8, delay: Duration, now: Instant) -> AddOutcome {
        if self.life != Life::Open {
            return AddOutcome::Refused;
        }
        self.delay(key, delay, Priority::Normal, now)
    }

    fn delay(&mut self, key: u8, delay: Duration, priority: Priority, now: Instant) -> AddOutcome {
        if delay.is_zero() {
            return self.ready(key, priority);
        }
        let due = (now + delay).since_start();
        let tick = (due.as_micros().div_ceil(1000) as u64).max(self.reached);
        let record = self.record(key);
        let earlier = record.delayed.is_none_or(|other| tick < other);
        if record.ready || record.again {
            return AddOutcome::Merged;
        }
        record.priority = record.priority.max(priority);
        if !earlier {
            return AddOutcome::Merged;
        }
        record.delayed = Some(tick);
        self.enter(key);
        AddOutcome::Delayed
    }

    fn enter(&mut self, key: u8) {
        self.arrivals += 1;
        self.record(key).entered = self.arrivals;
    }

    fn wake_after(&mut self, key: u8, delay: Duration, now: Instant) -> AddOutcome {
        if self.life != Life::Open {
            return AddOutcome::Refused;
        }
        let due = (now + delay).since_start();
        self.set_wake(key, Some(due.as_micros().div_ceil(1000) as u64));
        AddOutcome::Delayed
    }

    fn set_wake(&mut self, key: u8, wake: Option<u64>) {
        let record = self.record(key);
        let before = record.due().map(|(tick, _)| tick);
        record.wake = wake;
        if record.due().map(|(tick, _)| tick) != before {
            self.enter(key);
        }
    }

    fn cancel_wake(&mut self, key: u8) -> bool {
        let had_one = self.record(key).wake.is_some();
        self.set_wake(key, None);
        had_one
    }

    fn cancel(&mut self, key: u8) -> bool {
        let cancelled = self.record(key).delayed.take().is_some();
        if cancelled {
            self.record(key).priority = Priority::Low;
            self.enter(key);
        }
        cancelled
    }

    fn fail(&mut self, key: u8) -> Duration {
        let record = self.record(key);
        let delay = BASE * 2u32.pow(record.failures.min(8));
        record.failures += 1;
        delay
    }

    fn advance(&mut self, now: Instant) {
        let now = now.since_start().as_millis() as u64;
        self.reached = self.reached.max(now);
        let due = |(&key, record): (&u8, &Record)| {
            let order = record.due().filter(|&(tick, _)| tick <= now);
            order.map(|order| (order, key))
        };
        let mut due: Vec<_> = self.records.iter().filter_map(due).collect();
        due.sort_unstable();
        for (_, key) in due {
            let record = self.record(key);
            record.delayed = None;
            let woken = record.wake.is_some_and(|tick| tick <= now);
            let priority = if woken {
                Priority::Normal
            } else {
                Priority::Low
            };
            self.ready(key, priority);
        }
    }

    fn take(&mut self, now: Instant) -> Option<u8> {
        self.advance(now);
        let first = (0..3).find(|&lane| !self.lanes[lane].is_empty())?;
        let starving = |&lane: &usize| !self.lanes[lane].is_empty() && self.passed_over[lane] >= 15;
        let chosen = (first + 1..3).find(starving).unwrap_or(first);
        for lane in first..3 {
            let passed = lane != chosen && !self.lanes[lane].is_empty();
            self.passed_over[lane] = if passed {
                self.passed_over[lane] + 1
            } else {
                0
            };
        }
        let lane = &mut self.lanes[chosen];
        let (group, mut keys) = lane.pop_front()?;
        let key = keys.pop_front()?;
        if !keys.is_empty() {
            lane.push_back((group, keys));
        }
        let record = self.record(key);
        record.handed_out_as = record.priority;
        assert!(record.ready && !record.running, "one worker a key");
        (record.ready, record.running, record.priority) = (false, true, Priority::Low);
        let reached = now.since_start().as_millis() as u64;
        record.wake = record.wake.filter(|&tick| tick > reached);
        Some(key)
    }

    fn settle(&mut self, key: u8, verdict: Verdict, now: Instant) -> Next {
        let delay = match verdict {
            Verdict::Done => None,
            Verdict::Forget => {
                self.record(key).failures = 0;
                None
            }
            Verdict::Again(delay) => {
                self.record(key).failures = 0;
                Some(delay)
            }
            Verdict::WakeAfter(delay) => {
                self.record(key).failures = 0;
                let due = (now + delay).since_start();
                self.set_wake(key, Some(due.as_micros().div_ceil(1000) as u64));
                None
            }
            Verdict::Gone => {
                self.record(key).failures = 0;
                self.set_wake(key, None);
                None
            }
            Verdict::Later(delay) => Some(delay),
            Verdict::Retry => Some(self.fail(key)),
        };
        let is_open = self.life == Life::Open;
        let record = self.record(key);
        let wanted = delay.is_some() || record.wake.is_some();
        let refused = !is_open && !record.again && wanted;
        if refused {
            let record = self.record(key);
            (record.failures, record.wake) = (0, None);
        } else if let Some(delay) = delay {
            let priority = self.record(key).handed_out_as;
            self.delay(key, delay, priority, now);
        }
        let reached = now.since_start().as_millis() as u64;
        if self.record(key).wake.is_some_and(|tick| tick <= reached) {
            self.ready(key, Priority::Normal);
        }
        let record = self.record(key);
        record.running = false;
        if std::mem::take(&mut record.again) {
            record.ready = true;
            let priority = record.priority;
            self.enqueue(key, priority);
            return Next::Ready;
        }
        if record.delayed.is_none() {
            self.enter(key);
        }
        match self.record(key).due() {
            Some((tick, _)) => Next::After(Instant::from_millis(tick).since(now)),
            None if refused => Next::Refused,
            None => Next::Nothing,
        }
    }

    fn shut_down(&mut self, now: Instant) -> Vec<u8> {
        self.advance(now);
        if self.life == Life::Open {
            self.life = Life::HandingOut;
        }
        self.reached = u64::MAX;
        let delayed = |(&key, record): (&u8, &mut Record)| {
            record.due()?;
            (record.delayed, record.wake) = (None, None);
            Some(key)
        };
        self.records.iter_mut().filter_map(delayed).collect()
    }

    fn close(&mut self, now: Instant) -> Vec<u8> {
        let mut given_up = self.shut_down(now);
        self.life = Life::Closed;
        self.lanes = Default::default();
        for (&key, record) in &mut self.records {
            if std::mem::take(&mut record.ready) || std::mem::take(&mut record.again) {
                record.wake = None;
                given_up.push(key);
            }
        }
        given_up.sort_unstable();
        given_up
    }

    fn depth(&self, lane: usize) -> usize {
        self.lanes[lane].iter().map(|(_, keys)| keys.len()).sum()
    }

    fn sizes(&self) -> (usize, usize, usize, usize) {
        let count = |test: fn(&Record) -> bool| self.records.values().filter(|r| test(r)).count();
        (
            count(|record| record.ready),
            count(|record| record.due().is_some()),
            count(|record| record.running),
            count(|r| r.ready || r.due().is_some() || r.running || r.failures > 0),
        )
    }
}

#[derive(Clone, Debug)]
enum Op {
    Add(u8, Priority),
    AddAfter(u8, Duration),
    ReplaceAfter(u8, Duration),
    AddRateLimited(u8),
    WakeAfter(u8, Duration),
    CancelWake(u8),
    Cancel(u8),
    Forget(u8),
    Take,
    Settle(usize, Verdict),
    Pass(Duration),
    ShutDown,
    Close,
}

fn delays() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        (1u64..200_000).prop_map(Duration::from_micros),
        (1u64..10_000_000).prop_map(Duration::from_millis),
        (1u64..100_000_000).prop_map(Duration::from_secs),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    let priorities = prop_oneof![
        Just(Priority::Low),
        Just(Priority::Normal),
        Just(Priority::High)
    ];
    let verdicts = prop_oneof![
        Just(Verdict::Done),
        Just(Verdict::Forget),
        delays().prop_map(Verdict::Again),
        delays().prop_map(Verdict::WakeAfter),
        Just(Verdict::Gone),
        delays().prop_map(Verdict::Later),
        Just(Verdict::Retry),
    ];
    prop_oneof![
        8 => (0u8..24, priorities).prop_map(|(key, priority)| Op::Add(key, priority)),
        4 => (0u8..24, delays()).prop_map(|(key, delay)| Op::AddAfter(key, delay)),
        2 => (0u8..24, delays()).prop_map(|(key, delay)| Op::ReplaceAfter(key, delay)),
        2 => (0u8..24).prop_map(Op::AddRateLimited),
        2 => (0u8..24, delays()).prop_map(|(key, delay)| Op::WakeAfter(key, delay)),
        1 => (0u8..24).prop_map(Op::CancelWake),
        2 => (0u8..24).prop_map(Op::Cancel),
        1 => (0u8..24).prop_map(Op::Forget),
        10 => Just(Op::Take),
        8 => (0usize..8, verdicts).prop_map(|(which, verdict)| Op::Settle(which, verdict)),
        6 => delays().prop_map(Op::Pass),
    ]
}

/// A run, with its end at a random place.
fn runs() -> impl Strategy<Value = Vec<Op>> {
    let ends = prop_oneof![Just(Op::ShutDown), Just(Op::Close)];
    (
        prop::collection::vec(ops(), 1..200),
        ends,
        prop::collection::vec(ops(), 0..40),
    )
        .prop_map(|(mut run, end, rest)| {
            run.push(end);
            run.extend(rest);
            run
        })
}

fn check(run: Vec<Op>, groups: u8) {
    let limiter = Limiter::exponential(BASE, BASE * 256);
    let fairness = match groups {
        1 => Fairness::none(),
        _ => Fairness::by(move |key: &u8| key % groups),
    };
    let mut queue = Queue::new(limiter).with_fairness(fairness);
    let mut model = Model::new(groups);
    let mut now = Instant::from_millis(3);
    let mut out: Vec<(u8, Ticket)> = Vec::new();
    for op in run {
        match op {
            Op::Add(key, priority) => {
                assert_eq!(queue.add(key, priority, now), model.add(key, priority));
            }
            Op::AddAfter(key, delay) => {
                assert_eq!(
                    queue.add_after(key, delay, now),
                    model.add_after(key, delay, now)
                );
            }
            Op::ReplaceAfter(key, delay) => {
                if model.life == Life::Open {
                    model.record(key).delayed = None;
                }
                assert_eq!(
                    queue.replace_after(key, delay, now),
                    model.add_after(key, delay, now)
                );
            }
            Op::AddRateLimited(key) => {
                let expected = match model.life {
                    Life::Open => {
                        let delay = model.fail(key);
                        model.delay(key, delay, Priority::Normal, now)
                    }
                    _ => AddOutcome::Refused,
                };
                assert_eq!(queue.add_rate_limited(key, now), expected);
            }
            Op::Cancel(key) => {
                assert_eq!(queue.cancel(&key), model.cancel(key));
            }
            Op::WakeAfter(key, delay) => {
                assert_eq!(
                    queue.wake_after(key, delay, now),
                    model.wake_after(key, delay, now)
                );
            }
            Op::CancelWake(key) => {
                assert_eq!(queue.cancel_wake(&key), model.cancel_wake(key));
            }
            Op::Forget(key) => {
                model.record(key).failures = 0;
                queue.forget(&key);
            }
            Op::Take => {
                let taken = queue.take(now);
                assert_eq!(taken.as_ref().map(|taken| taken.key), model.take(now));
                out.extend(taken.map(|taken| (taken.key, taken.ticket)));
            }
            Op::Settle(which, verdict) if which < out.len() => {
                let (key, ticket) = out.swap_remove(which);
                assert_eq!(
                    queue.settle(ticket, verdict, now),
                    model.settle(key, verdict, now)
                );
                assert_eq!(queue.num_requeues(&key), model.record(key).failures);
            }
            Op::Settle(..) => {}
            Op::Pass(time) => now += time,
            Op::ShutDown | Op::Close => {
                let (mut given_up, expected) = match op {
                    Op::Close => (queue.close(now), model.close(now)),
                    _ => (queue.shut_down(now), model.shut_down(now)),
                };
                given_up.sort_unstable();
                assert_eq!(given_up, expected);
            }
        }
        let stats = queue.stats(now);
        let sizes = (stats.depth, stats.delayed, stats.processing, stats.known);
        assert_eq!(sizes, model.sizes(), "ready, delayed, running, known");
        assert_eq!(
            (stats.depth_high, stats.depth_low),
            (model.depth(0), model.depth(2))
        );
        let turns = model.lanes.iter().map(VecDeque::len).sum::<usize>();
        assert_eq!(queue.lanes.groups().0, turns, "groups with waiting keys");
        let first = model.records.values().filter_map(Record::due).min();
        let wake = queue.next_wake();
        assert_eq!(wake.is_some(), first.is_some());
        if let (Some(wake), Some((tick, _))) = (wake, first) {
            assert!(
                wake <= Instant::from_millis(tick.max(model.reached)),
                "a wake-up that comes too late"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_queue_does_what_the_model_does(run in runs(), groups in 1u8..6) {
        check(run, groups);
    }
}
