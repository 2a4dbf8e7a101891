//! Handlers of different pace, that come late or are removed, while batches come.
//!
//! ```text
//! writer ─batches, Core::wake─▶ a prompt handler, and a slow, late or removed one ──▶ what each heard
//! ```
//!
//! Object `a` changes in each batch, so that its versions count the batches; `b` comes and goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use kinform_core::delta::{Change, Delta};
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::Writer;
use kinform_core::store::directory::Seed;
use shuttle::future;

use super::listener::{ListenerParts, RunOn, Sink, SinkCall, listen};
use super::registration::Registration;
use super::{Core, Cores};
use crate::scenarios::{draw, linger, object};

/// Batches after the list.
const BATCHES: u64 = 4;
/// The difference of two versions of `a`.
const STEP: u64 = 10;

/// Two handlers of different pace: each hears every batch once, in order.
///
/// # Panics
/// A handler missed a change, heard one twice or out of order, or was not woken.
pub fn handlers_in_step() {
    run(Cast::Pair, RingLimits::default());
}

/// A ring of two batches: handlers fall behind, and hear differences.
///
/// # Panics
/// As [`handlers_in_step`], but states in between may be left out.
pub fn handlers_behind() {
    let limits = RingLimits {
        batches: 2,
        ..RingLimits::default()
    };
    run(Cast::Pair, limits);
}

/// A handler comes at any moment: it hears the objects of one root, and every batch after it.
///
/// # Panics
/// As [`handlers_in_step`].
pub fn late_handler() {
    run(Cast::Late, RingLimits::default());
}

/// A handler is removed at any moment: no call is under way when that returns, and none follows.
///
/// # Panics
/// A call was under way, or followed.
pub fn removed_handler() {
    run(Cast::Removed, RingLimits::default());
}

/// The handlers of a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cast {
    Pair,
    Late,
    Removed,
}

fn run(cast: Cast, limits: RingLimits) {
    let in_step = limits == RingLimits::default();
    future::block_on(async move {
        let writer = Writer::new([], Seed(7), limits).expect("there is no index");
        let core = Core::new(writer.reader());
        let cores = Cores::new(Arc::clone(&core));
        let heard = |pace| Heard::new(&core, in_step, pace);
        let (first, second) = (heard(0), heard(2));
        // The second one's calls are async in every other schedule.
        let is_async = draw(2) == 0;
        let mut registered = vec![(first.clone(), listen(&cores, first.parts(false)))];
        let second = match cast {
            Cast::Pair => {
                registered.push((second.clone(), listen(&cores, second.parts(is_async))));
                None
            }
            Cast::Late => {
                let cores = cores.clone();
                Some(future::spawn(async move {
                    pause(draw(6)).await;
                    Some((second.clone(), listen(&cores, second.parts(is_async))))
                }))
            }
            Cast::Removed => {
                let leaving = listen(&cores, second.parts(is_async));
                Some(future::spawn(async move {
                    pause(draw(6)).await;
                    leave(leaving, &second).await;
                    None
                }))
            }
        };
        let writes = future::spawn(write(writer, Arc::clone(&core)));
        if let Some(second) = second {
            registered.extend(second.await.expect("it came, or left"));
        }
        for (heard, registration) in &registered {
            assert!(
                registration.synced().await,
                "{} is not synced",
                heard.name()
            );
            assert!(heard.lock().is_synced, "synced before it was told");
        }
        writes.await.expect("all was written");
        for (heard, registration) in registered {
            registration.drain().await;
            heard.check_end();
        }
    });
}

/// The role of the loop: applies a batch, then wakes.
async fn write(mut writer: Writer, core: Arc<Core>) {
    let list = vec![
        Delta::ListBegin,
        Delta::Replaced(object("a", STEP, 0)),
        Delta::Replaced(object("b", STEP + 1, 0)),
        Delta::ListEnd {
            version: (STEP + 1).to_string(),
        },
    ];
    let later = (2..2 + BATCHES).map(|round| {
        let version = round * STEP;
        let other = object("b", version + 1, 0);
        let other = match round % 2 {
            0 => Delta::Deleted(other),
            _ => Delta::Added(other),
        };
        vec![Delta::Updated(object("a", version, 0)), other]
    });
    for deltas in [list].into_iter().chain(later) {
        let published = writer.apply(deltas);
        if published.is_news || published.has_moved {
            core.wake();
        }
        future::yield_now().await;
    }
    core.end_progress();
}

async fn pause(times: usize) {
    for _ in 0..times {
        future::yield_now().await;
    }
}

async fn leave(registration: Registration, heard: &Heard) {
    registration.remove().await;
    let mut state = heard.lock();
    assert!(!state.is_inside, "removed while a call was under way");
    state.is_removed = true;
}

/// The state of one handler, as its calls left it.
#[derive(Clone)]
struct Heard {
    state: Arc<Mutex<State>>,
    core: Arc<Core>,
    in_step: bool,
    pace: usize,
}

#[derive(Default)]
struct State {
    known: BTreeMap<String, u64>,
    is_synced: bool,
    is_inside: bool,
    is_removed: bool,
}

impl Heard {
    fn new(core: &Arc<Core>, in_step: bool, pace: usize) -> Self {
        Self {
            state: Arc::default(),
            core: Arc::clone(core),
            in_step,
            pace,
        }
    }

    fn name(&self) -> String {
        format!("the handler of pace {}", self.pace)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parts(&self, is_async: bool) -> ListenerParts {
        let heard = self.clone();
        let sink = if is_async {
            Sink::Async(Box::new(move |call| {
                let heard = heard.clone();
                let call = Called::of(&call);
                async move {
                    heard.enter();
                    pause(heard.pace).await;
                    heard.hear(call);
                }
                .boxed()
            }))
        } else {
            Sink::Sync(Box::new(move |call| {
                heard.enter();
                linger(heard.pace);
                heard.hear(Called::of(&call));
            }))
        };
        ListenerParts {
            name: None,
            resync: None,
            run_on: RunOn::Task,
            sink,
        }
    }

    fn enter(&self) {
        let mut state = self.lock();
        assert!(!state.is_removed, "called after its removal");
        assert!(!state.is_inside, "two calls at once");
        state.is_inside = true;
    }

    fn hear(&self, called: Called) {
        let stored = called.version().map(|_| self.core.reader.root());
        let mut state = self.lock();
        state.is_inside = false;
        if let (Some(root), Some(version)) = (stored, called.version()) {
            let newest: u64 = root.version().parse().unwrap_or(0);
            assert!(newest >= version, "{version} was heard, {newest} is stored");
        }
        let State {
            known, is_synced, ..
        } = &mut *state;
        match called {
            Called::Synced => {
                assert!(!*is_synced, "synced twice");
                assert!(known.contains_key("a"), "synced before the first object");
                *is_synced = true;
            }
            Called::BatchEnd => {}
            Called::Added(name, version) => {
                let old = known.insert(name.clone(), version);
                assert_eq!(old, None, "{name} was there already");
            }
            Called::Updated(name, old, new) => {
                let heard = known.insert(name.clone(), new);
                assert_eq!(heard, Some(old), "{name} is not what was heard last");
                assert!(new > old, "{name} went back from {old} to {new}");
                if self.in_step && name == "a" {
                    assert_eq!(new, old + STEP, "a batch was left out");
                }
            }
            Called::Deleted(name) => {
                assert!(known.remove(&name).is_some(), "{name} was not there");
            }
        }
    }

    /// Everything was heard.
    fn check_end(&self) {
        let root = self.core.reader.root();
        let stored = root.list();
        let stored = stored.iter().map(|object| {
            let version = object.resource_version().parse().unwrap_or(0);
            (object.name().to_owned(), version)
        });
        let stored: BTreeMap<String, u64> = stored.collect();
        assert_eq!(self.lock().known, stored, "{} at its end", self.name());
    }
}

/// A call of a handler.
enum Called {
    Added(String, u64),
    Updated(String, u64, u64),
    Deleted(String),
    Synced,
    BatchEnd,
}

impl Called {
    fn of(call: &SinkCall<'_>) -> Self {
        let version =
            |object: &kinform_core::Object| object.resource_version().parse().unwrap_or(0);
        match call {
            SinkCall::Change(Change::Added { object, .. }) => {
                Self::Added(object.name().to_owned(), version(object))
            }
            SinkCall::Change(Change::Updated { old, new }) => {
                Self::Updated(new.name().to_owned(), version(old), version(new))
            }
            SinkCall::Change(Change::Deleted { object, .. }) => {
                Self::Deleted(object.name().to_owned())
            }
            SinkCall::Change(Change::Sync(_)) => panic!("no handler asked for a resync"),
            SinkCall::Synced => Self::Synced,
            SinkCall::BatchEnd => Self::BatchEnd,
        }
    }

    fn version(&self) -> Option<u64> {
        match self {
            Self::Added(_, version) | Self::Updated(_, _, version) => Some(*version),
            Self::Deleted(_) | Self::Synced | Self::BatchEnd => None,
        }
    }
}
