//! Loops and fights, played as runs and writes of one object.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::object::Object;
use crate::object::projection::Projection;

const SECOND: Duration = Duration::from_secs(1);

/// An object, its key, and the machine that hears of its changes.
struct Play {
    loops: Loops,
    key: ObjectKey,
    state: Object,
    version: u64,
    now: Instant,
    found: Vec<(usize, Finding)>,
    runs: usize,
}

fn object(version: u64, content: &Value) -> Object {
    let mut json = content.clone();
    json["metadata"] =
        json!({"name": "x", "namespace": "a", "resourceVersion": version.to_string()});
    Object::from_json(json.to_string().as_bytes(), &Projection::default()).unwrap()
}

impl Play {
    fn new(content: &Value) -> Self {
        Self {
            loops: Loops::default(),
            key: ObjectKey::new(Some("a"), "x"),
            state: object(1, content),
            version: 1,
            now: Instant::ZERO,
            found: Vec::new(),
            runs: 0,
        }
    }

    /// Stores a state; the event of an own write comes before its reply.
    fn store(&mut self, content: &Value, writer: Origin) {
        self.version += 1;
        let new = object(self.version, content);
        let difference = Difference::between(&self.state, &new);
        self.state = new;
        if writer == Origin::Own {
            self.loops.wrote(&self.key, self.now);
        }
        if let Some(difference) = difference.filter(|_| self.loops.follows(&self.key)) {
            let change = Change {
                source: 0,
                object: self.key.clone(),
                version: self.version,
                origin: if writer == Origin::Own {
                    Origin::Unknown
                } else {
                    writer
                },
                difference,
            };
            self.loops.changed(&self.key, change);
        }
    }

    fn run(&mut self, is_own: bool, writes: &[Value]) {
        self.runs += 1;
        let key = self.key.clone();
        let found = self.loops.began(&key, |_| Origin::Own);
        self.found.extend(found.map(|found| (self.runs, found)));
        for content in writes {
            self.store(content, Origin::Own);
        }
        let found = self.loops.ended(&key, is_own, self.now, |_| Origin::Own);
        self.found.extend(found.map(|found| (self.runs, found)));
    }

    /// The findings: the number of runs before each, its kind and its path.
    fn found(&self) -> Vec<(usize, Kind, &str)> {
        let found = self.found.iter();
        found
            .map(|(runs, found)| (*runs, found.kind, &*found.path))
            .collect()
    }
}

/// Runs that own writes alone cause, each after `pause`, with the writes that `write` makes.
fn looping(pause: Duration, runs: usize, write: impl Fn(usize) -> Vec<Value>) -> Play {
    let mut play = Play::new(&json!({}));
    for run in 0..runs {
        play.now += pause;
        play.run(run > 0, &write(run));
    }
    play
}

fn time(run: usize) -> String {
    format!("2026-01-01T00:00:{:02}.{run:06}Z", run % 60)
}

#[test]
fn loops_are_found_after_ten_runs_that_own_writes_caused() {
    let ms = Duration::from_millis(1);
    type Write = fn(usize) -> Vec<Value>;
    let loops: [(Write, &str); 5] = [
        (
            |run| vec![json!({"status": {"seen": time(run)}})],
            "status.seen",
        ),
        (
            |run| vec![json!({"spec": {"mode": (["", "auto"][run % 2])}})],
            "spec.mode",
        ),
        (
            |run| vec![json!({"spec": {"list": ([["a", "b"], ["b", "a"]][run % 2])}})],
            "spec.list[0]",
        ),
        (|run| vec![json!({"status": {"n": run % 3}})], "status.n"),
        // Two writes a run, of which the second takes the first back.
        (
            |_| {
                vec![
                    json!({"spec": {"mode": ""}}),
                    json!({"spec": {"mode": "auto"}}),
                ]
            },
            "spec.mode",
        ),
    ];
    for (write, path) in loops {
        for pause in [ms, SECOND, 5 * SECOND] {
            let play = looping(pause, 500, write);
            assert_eq!(
                play.found(),
                [(11, Kind::Loop, path)],
                "once, and not again"
            );
        }
    }
}

#[test]
fn q7_a_reconcile_that_goes_on_step_by_step_is_no_loop() {
    type Write = fn(usize) -> Vec<Value>;
    let steps: [Write; 3] = [
        |run| vec![json!({"status": {"step": run.min(12)}})],
        |run| vec![json!({"status": {"step": run.min(12), "at": time(run)}})],
        |run| {
            vec![
                json!({"status": {"n": run}}),
                json!({"status": {"n": run, "also": run}}),
            ]
        },
    ];
    for write in steps {
        let play = looping(Duration::from_millis(1), 13, write);
        assert!(play.found.is_empty(), "{:?}", play.found());
    }
}

#[test]
fn q6_runs_that_write_nothing_are_no_loop() {
    // Pods come and go: another writer's change leads to a status, whose event leads to a run.
    let mut play = Play::new(&json!({}));
    for turn in 0..200u32 {
        play.now += SECOND;
        play.run(false, &[json!({"status": {"ready": turn % 2 == 0}})]);
        play.run(true, &[]);
    }
    assert!(play.found.is_empty(), "{:?}", play.found());
}

#[test]
fn slow_runs_are_no_loop() {
    let write = |run: usize| vec![json!({"status": {"seen": time(run)}})];
    assert!(looping(7 * SECOND, 1_000, write).found.is_empty());
}

#[test]
fn a_fight_is_found_after_five_turns_within_ten_runs() {
    let state = |replicas: u32| json!({"spec": {"replicas": replicas, "other": 7}});
    for (is_echo_heard, runs) in [(true, 7), (false, 4)] {
        let mut play = Play::new(&state(5));
        for _ in 0..50 {
            play.now += SECOND;
            play.run(false, &[state(1)]);
            if is_echo_heard {
                play.run(true, &[]);
            }
            play.store(&state(5), Origin::Foreign);
        }
        let expected = [(runs, Kind::Fight, "spec.replicas")];
        assert!(play.found()[0].0 <= 10, "{:?}", play.found());
        assert_eq!(play.found()[0].1, expected[0].1);
        assert_eq!(play.found()[0].2, expected[0].2);
        assert_eq!(play.found().len(), 1, "once");
    }
}

#[test]
fn q8_one_writer_that_flips_a_field_fights_with_nobody() {
    // Both write, each its own field.
    let state = |replicas: u32, seen: u32| json!({"spec": {"replicas": replicas}, "status": {"seen": seen}});
    let mut play = Play::new(&state(1, 1));
    for turn in 1..100u32 {
        play.now += SECOND;
        play.store(&state(turn % 2, turn - 1), Origin::Foreign);
        play.run(false, &[state(turn % 2, turn)]);
    }
    assert!(play.found.is_empty(), "{:?}", play.found());
}

#[test]
fn a_writer_whose_values_differ_each_time_is_no_fight() {
    let state = |value: u32| json!({"spec": {"request": value}});
    let mut play = Play::new(&state(0));
    for turn in 1..100 {
        play.now += SECOND;
        play.store(&state(turn), Origin::Foreign);
        play.run(false, &[state(0)]);
    }
    assert!(play.found.is_empty(), "{:?}", play.found());
}

#[test]
fn a_key_that_is_quiet_is_not_followed_any_more() {
    let mut play = Play::new(&json!({}));
    for run in 0..5 {
        play.run(true, &[json!({"status": {"n": run % 2}})]);
    }
    assert!(play.loops.follow_some() && play.loops.follows(&play.key));
    play.now += 61 * SECOND;
    play.run(false, &[]);
    assert!(!play.loops.follow_some() && !play.loops.follows(&play.key));
}

#[test]
fn the_keys_that_were_written_for_least_recently_leave() {
    let mut loops = Loops::default();
    let key = |number: usize| ObjectKey::new(None, &format!("x{number}"));
    for number in 0..KEYS + 10 {
        loops.wrote(&key(number), Instant::ZERO);
        loops.wrote(&key(number), Instant::ZERO);
        loops.wrote(&key(3), Instant::ZERO);
    }
    assert_eq!(
        (loops.len(), loops.by_use.len(), loops.followed),
        (KEYS, KEYS, KEYS)
    );
    assert!(loops.follows(&key(3)) && !loops.follows(&key(4)));
    assert!(loops.follows(&key(KEYS + 9)));
}

proptest! {
    #[test]
    fn what_is_kept_is_bounded_and_findings_are_two_at_most(
        steps in proptest::collection::vec((0u8..5, 0u32..3), 1..150),
    ) {
        let mut play = Play::new(&json!({}));
        for (step, value) in steps {
            let state = json!({"spec": {"value": value}});
            match step {
                0 => play.store(&state, Origin::Foreign),
                1 => play.now += SECOND,
                2 => play.run(false, &[]),
                _ => play.run(true, &[state]),
            }
        }
        prop_assert!(play.found.len() <= 2);
        let followed = play.loops.keys.values().filter(|entry| entry.is_followed).count();
        prop_assert_eq!(play.loops.followed, followed);
    }
}
