//! Tests of the storage against a naive model that keeps every past state.
//!
//! ```text
//! random steps ──▶ Store and Model ──▶ the same lists and events at every revision, or expired
//! ```

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

type State = BTreeMap<String, u64>;

/// Revision, shelf, key, version before, version after.
type Change = (u64, usize, String, Option<u64>, Option<u64>);

/// The naive model: every revision with its change and the state after it.
struct Model {
    states: Vec<(u64, [State; 2])>,
    changes: Vec<Change>,
}

impl Model {
    fn now(&self) -> (u64, &[State; 2]) {
        let (revision, states) = self.states.last().unwrap();
        (*revision, states)
    }

    fn at(&self, revision: u64, shelf: usize) -> &State {
        let at = self.states.partition_point(|(known, _)| *known <= revision);
        &self.states[at - 1].1[shelf]
    }

    fn change(&mut self, shelf: usize, key: &str, keep: bool) {
        let (revision, states) = self.now();
        let (revision, mut states) = (revision + 1, states.clone());
        let before = if keep {
            states[shelf].insert(key.to_owned(), revision)
        } else {
            states[shelf].remove(key)
        };
        self.changes.push((
            revision,
            shelf,
            key.to_owned(),
            before,
            keep.then_some(revision),
        ));
        self.states.push((revision, states));
    }
}

#[test]
fn a_poll_ends_with_the_object_that_exceeds_its_bytes() {
    let store = Store::new(HistoryLimits::default());
    let shelf = store.shelf("pods");
    for name in ["a/1", "a/2", "a/3", "a/4"] {
        store.put(shelf, draft(name, 0), Expect::Absent).unwrap();
    }
    let length = store
        .view(shelf)
        .snapshot
        .iter()
        .next()
        .unwrap()
        .bytes()
        .len();
    let polled = |after: u64, bytes: usize| {
        let limits = PollLimits {
            bytes,
            ..PollLimits::NONE
        };
        let polled = store.poll(shelf, after, limits);
        let last = polled.events.last().unwrap().revision;
        assert!(polled.upto == last || polled.remaining == 0);
        (polled.events.len(), polled.remaining)
    };
    assert_eq!(polled(FIRST_REVISION, 1), (1, 3));
    assert_eq!(polled(FIRST_REVISION, length + 1), (2, 2));
    assert_eq!(polled(FIRST_REVISION + 2, usize::MAX), (2, 0));
}

fn draft(key: &str, content: u8) -> Draft {
    let (namespace, name) = key.split_once('/').unwrap();
    let value = json!({"metadata": {"namespace": namespace, "name": name}, "data": content});
    Draft::new(&[], value).unwrap()
}

fn state(view: &View) -> State {
    view.snapshot
        .iter()
        .map(|object| (object.key().to_owned(), object.revision()))
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    Put {
        shelf: usize,
        key: u8,
        content: u8,
        expect: u8,
    },
    Remove {
        shelf: usize,
        key: u8,
        expect: u8,
    },
    Advance(u64),
    Compact(u64),
    Look {
        shelf: usize,
        back: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let place = (0usize..2, 0u8..12);
    prop_oneof![
        6 => (place.clone(), 0u8..3, 0u8..5).prop_map(|((shelf, key), content, expect)| {
            Step::Put { shelf, key, content, expect }
        }),
        3 => (place, 0u8..5).prop_map(|((shelf, key), expect)| Step::Remove { shelf, key, expect }),
        1 => (1u64..5).prop_map(Step::Advance),
        1 => (0u64..30).prop_map(Step::Compact),
        4 => (0usize..2, 0u64..40).prop_map(|(shelf, back)| Step::Look { shelf, back }),
    ]
}

fn expectation(number: u8, current: Option<u64>) -> (Expect, bool) {
    match number {
        0 => (Expect::Absent, current.is_none()),
        1 => (Expect::Present, current.is_some()),
        2 => (Expect::Revision(current.unwrap_or(7)), current.is_some()),
        3 => (Expect::Revision(8), false),
        _ => (Expect::Any, true),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn lists_and_watches_agree_with_a_store_that_forgets_nothing(
        steps in prop::collection::vec(step(), 1..200),
        history in 1usize..60,
    ) {
        let store = Store::new(HistoryLimits { events: history, bytes: 100_000 });
        let shelves = [store.shelf("a"), store.shelf("b")];
        let mut contents: BTreeMap<(usize, String), u8> = BTreeMap::new();
        let mut model = Model { states: vec![(FIRST_REVISION, Default::default())], changes: vec![] };
        let mut compacted = FIRST_REVISION;
        for step in steps {
            match step {
                Step::Put { shelf, key, content, expect } => {
                    let key = format!("ns-{}/o-{key}", key % 2);
                    let current = model.now().1[shelf].get(&key).copied();
                    let (expect, holds) = expectation(expect, current);
                    let done = store.put(shelves[shelf], draft(&key, content), expect);
                    prop_assert_eq!(done.is_ok(), holds);
                    let Ok(done) = done else { continue };
                    let same = current.is_some() && contents.get(&(shelf, key.clone())) == Some(&content);
                    prop_assert_eq!(done.changed, !same);
                    if done.changed {
                        contents.insert((shelf, key.clone()), content);
                        model.change(shelf, &key, true);
                    }
                    prop_assert_eq!(Some(&done.revision), model.now().1[shelf].get(&key));
                }
                Step::Remove { shelf, key, expect } => {
                    let key = format!("ns-{}/o-{key}", key % 2);
                    let current = model.now().1[shelf].get(&key).copied();
                    let (expect, holds) = expectation(expect, current);
                    let done = store.remove(shelves[shelf], &key, expect);
                    prop_assert_eq!(done.is_ok(), holds && current.is_some());
                    if done.is_ok() {
                        model.change(shelf, &key, false);
                    }
                }
                Step::Advance(by) => {
                    store.advance(by);
                    let (revision, states) = model.now();
                    let next = (revision + by, states.clone());
                    model.states.push(next);
                }
                Step::Compact(back) => {
                    compacted = compacted.max(model.now().0.saturating_sub(back));
                    store.compact(model.now().0.saturating_sub(back));
                }
                Step::Look { shelf, back } => {
                    let at = model.now().0.saturating_sub(back);
                    look(&store, &model, (shelves[shelf], shelf), at)?;
                }
            }
            let (revision, states) = model.now();
            prop_assert_eq!(store.revision(), revision);
            let kept = model.changes.len().saturating_sub(history);
            let evicted = kept.checked_sub(1).map_or(0, |last| model.changes[last].0);
            prop_assert_eq!(store.floor(), compacted.max(evicted));
            for (number, shelf) in shelves.iter().enumerate() {
                prop_assert_eq!(&state(&store.view(*shelf)), &states[number]);
            }
        }
    }
}

/// Compares the state and the events at a revision.
fn look(
    store: &Store,
    model: &Model,
    (shelf, number): (Shelf, usize),
    at: u64,
) -> Result<(), TestCaseError> {
    let expired = at < store.floor();
    prop_assert_eq!(store.can_resume(at).is_err(), expired);
    match store.view_at(shelf, at) {
        Ok(view) => {
            prop_assert!(!expired);
            prop_assert_eq!(&state(&view), model.at(at, number));
        }
        Err(why) => {
            prop_assert!(expired);
            prop_assert_eq!(why, OutOfReach::Expired);
            return Ok(());
        }
    }
    let (mut cursor, mut heard) = (at, Vec::new());
    loop {
        let polled = store.poll(
            shelf,
            cursor,
            PollLimits {
                events: 7,
                bytes: 300,
                ceiling: None,
            },
        );
        prop_assert!(!polled.lost);
        heard.extend(polled.events.into_iter().map(|event| {
            let version = |object: &Option<Arc<Stored>>| object.as_ref().map(|o| o.revision());
            (
                event.revision,
                version(&event.previous),
                version(&event.current),
            )
        }));
        cursor = polled.upto;
        if polled.remaining == 0 {
            break;
        }
    }
    prop_assert_eq!(cursor, store.revision());
    let want: Vec<_> = model
        .changes
        .iter()
        .filter(|(revision, of, ..)| *revision > at && *of == number)
        .map(|(revision, _, _, before, after)| (*revision, *before, *after))
        .collect();
    prop_assert_eq!(heard, want);
    Ok(())
}
