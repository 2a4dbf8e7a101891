//! Tests of the two marks against the naive model, with a disk that fails by a script.
//!
//! ```text
//! random writes, commits, failures ──▶ Store and History ──▶ the same lists, events and versions on disk
//! ```

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;

use super::committer::{Backing, Failure};
use super::history::History;
use super::shelves::Batch;
use super::*;

/// The fate of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Written,
    Lost,
    /// The disk reports a failure, and has the batch all the same.
    Doubtful,
}

#[derive(Debug)]
struct Script {
    /// The fate of the next batch; later ones are written.
    next: Fate,
    is_down: bool,
    reached: u64,
    /// The revisions of the versions on disk.
    versions: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
struct Scripted(Arc<Mutex<Script>>);

impl Backing for Scripted {
    fn commit(&mut self, batch: &Batch) -> Result<(), Failure> {
        let mut script = self.0.lock().unwrap();
        let fate = std::mem::replace(&mut script.next, Fate::Written);
        if fate != Fate::Lost {
            assert!(batch.upto >= script.reached);
            script.reached = batch.upto;
            for (_, event) in &batch.events {
                assert!(script.versions.insert(event.revision));
            }
            for dead in &batch.dead {
                assert!(script.versions.remove(dead), "{dead} is not there");
            }
        }
        match fate {
            Fate::Written => Ok(()),
            _ => Err("by the script".into()),
        }
    }

    fn reopen(&mut self) -> Result<u64, Failure> {
        let script = self.0.lock().unwrap();
        match script.is_down {
            true => Err("it is down".into()),
            false => Ok(script.reached),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u8, Option<u64>),
    Commit(Fate),
    /// The disk is down, or up again, and time passes.
    Down(bool),
    Compact(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        6 => Just(Fate::Written),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Doubtful),
    ];
    prop_oneof![
        9 => (0u8..6, prop::option::weighted(0.7, any::<u64>())).prop_map(|(key, content)| Step::Write(key, content)),
        4 => fate.prop_map(Step::Commit),
        1 => any::<bool>().prop_map(Step::Down),
        1 => (0u64..20).prop_map(Step::Compact),
    ]
}

/// The versions that the disk has to have: those of the current state, and of the history.
fn needed(store: &Store, shelf: Shelf, kept_from: u64) -> BTreeSet<u64> {
    let view = store.shown(shelf);
    let mut needed: BTreeSet<u64> = view.snapshot.iter().map(|it| it.revision()).collect();
    for (revision, before, _) in super::history::heard(store, shelf, kept_from) {
        needed.insert(revision);
        needed.extend(before);
    }
    needed
}

/// A store on a scripted disk, and the model.
struct Pair {
    store: Store,
    shelf: Shelf,
    script: Scripted,
    model: History,
    /// The model as it is if the failed batch turns out to be on disk.
    doubtful: Option<History>,
}

impl Pair {
    fn new(events: usize) -> Self {
        let script = Scripted(Arc::new(Mutex::new(Script {
            next: Fate::Written,
            is_down: false,
            reached: FIRST_REVISION,
            versions: BTreeSet::new(),
        })));
        let limits = HistoryLimits {
            events,
            bytes: 100_000,
        };
        let mut store = Store::new(limits);
        let shelf = store.shelf("a");
        let start = (FIRST_REVISION, FIRST_REVISION);
        store.fill(start, Vec::new(), Box::new(script.clone()));
        Self {
            store,
            shelf,
            script,
            model: History::new(),
            doubtful: None,
        }
    }

    /// Commits what is staged; the store says what became of it, and the model whether it may.
    fn commit(&mut self, fate: Fate) -> bool {
        let is_down = {
            let mut script = self.script.0.lock().unwrap();
            script.next = fate;
            script.is_down
        };
        let begun = self.store.begin();
        let head = self.model.head();
        let done = self.store.commit_staged();
        let (now, reached) = (self.store.revision(), self.script.0.lock().unwrap().reached);
        if let Some(doubtful) = self.doubtful.take_if(|of| of.head() == now) {
            assert!(!is_down || now == self.model.durable);
            self.model.take(doubtful);
        } else if done.is_ok() {
            self.doubtful = None;
            assert_eq!((now, reached), (head, head));
        } else {
            if reached == head && head > self.model.durable {
                self.doubtful = Some(self.model.clone());
            }
            self.model.lost();
        }
        self.model.reached(now);
        let settled = futures::FutureExt::now_or_never(self.store.settled(begun));
        let is_acknowledged = settled.expect("nothing is staged after a commit").is_ok();
        assert!(
            !is_acknowledged || now == head,
            "a lost write was acknowledged"
        );
        is_acknowledged
    }
}

/// One history of a store.
async fn run(steps: Vec<Step>, events: usize) {
    let mut pair = Pair::new(events);
    for step in steps {
        match step {
            Step::Write(key, content) => {
                let key = format!("n/o-{key}");
                pair.model.write(&pair.store, pair.shelf, &key, content);
            }
            Step::Commit(fate) => drop(pair.commit(fate)),
            Step::Down(is_down) => {
                pair.script.0.lock().unwrap().is_down = is_down;
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            Step::Compact(back) => {
                let at = pair.store.revision().saturating_sub(back);
                pair.store.compact(at);
            }
        }
        pair.model.check(&pair.store, pair.shelf);
    }
    // A disk that is up again accepts writes, and has exactly what is needed.
    pair.script.0.lock().unwrap().is_down = false;
    tokio::time::advance(Duration::from_secs(1)).await;
    pair.commit(Fate::Written);
    pair.model.write(&pair.store, pair.shelf, "n/last", Some(0));
    assert!(pair.commit(Fate::Written));
    pair.model.check(&pair.store, pair.shelf);
    let on_disk = pair.script.0.lock().unwrap().versions.clone();
    let kept = pair.model.kept(events);
    assert_eq!(on_disk, needed(&pair.store, pair.shelf, kept));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn readers_see_what_is_on_disk_and_writers_what_is_staged(
        steps in prop::collection::vec(step(), 1..80),
        events in 1usize..30,
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(steps, events));
    }
}
