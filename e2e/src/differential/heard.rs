//! The notifications of handlers, as both subjects report them, and the ear that collects them.
//!
//! ```text
//! client-go's lines, kinform's closures ──hear──▶ Ear { (handler, Heard) in order } ◀──when── Stage
//! ```
//!
//! A barrier is a wait for a notification: there is no other way to know that a subject is done.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::history::State;

/// The type of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Add,
    Update,
    Delete,
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) event: Event,
    pub(crate) key: String,
    pub(crate) state: State,
    /// The state before an update.
    pub(crate) old: Option<State>,
    pub(crate) initial: bool,
    pub(crate) final_state_unknown: bool,
}

impl Heard {
    pub(crate) fn add(key: &str, state: &State) -> Self {
        Self {
            event: Event::Add,
            key: key.to_owned(),
            state: state.clone(),
            old: None,
            initial: false,
            final_state_unknown: false,
        }
    }

    pub(crate) fn update(key: &str, old: &State, state: &State) -> Self {
        Self {
            event: Event::Update,
            old: Some(old.clone()),
            ..Self::add(key, state)
        }
    }

    pub(crate) fn delete(key: &str, state: &State) -> Self {
        Self {
            event: Event::Delete,
            ..Self::add(key, state)
        }
    }

    /// Returns whether it is an update to the same state.
    pub(crate) fn is_repeat(&self) -> bool {
        self.old.as_ref() == Some(&self.state)
    }

    /// The object's state after it; `None` after a deletion.
    pub(crate) fn known(&self) -> Option<&State> {
        (self.event != Event::Delete).then_some(&self.state)
    }
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { uid, version } = &self.state;
        match (self.event, &self.old) {
            (Event::Add, _) => write!(f, "add {uid}@{version}")?,
            (Event::Delete, _) => write!(f, "delete {uid}@{version}")?,
            (Event::Update, Some(old)) if old.uid == *uid => {
                write!(f, "update {uid}@{}->{version}", old.version)?;
            }
            (Event::Update, old) => {
                let old = old.as_ref().map(|old| (&old.uid, old.version));
                write!(f, "update {old:?}->{uid}@{version}")?;
            }
        }
        let initial = if self.initial { " initial" } else { "" };
        let unknown = if self.final_state_unknown {
            " final state unknown"
        } else {
            ""
        };
        write!(f, "{initial}{unknown}")
    }
}

/// Notifications with their handlers, in order. Clones share one ear.
#[derive(Clone, Debug)]
pub(crate) struct Ear(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    heard: Mutex<Notes>,
    news: watch::Sender<u64>,
}

/// The notes that an ear has collected.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) heard: Vec<(usize, Heard)>,
    /// Commands obeyed.
    pub(crate) done: usize,
    /// Objects in the store, at the end.
    pub(crate) stored: Vec<(String, State)>,
    pub(crate) failures: Vec<String>,
}

impl Default for Ear {
    fn default() -> Self {
        Self(Arc::new(Inner {
            heard: Mutex::default(),
            news: watch::Sender::new(0),
        }))
    }
}

impl Ear {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.0.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, note: impl FnOnce(&mut Notes)) {
        note(&mut self.lock());
        self.0.news.send_modify(|news| *news += 1);
    }

    pub(crate) fn hear(&self, handler: usize, heard: Heard) {
        self.note(|notes| notes.heard.push((handler, heard)));
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Notes) -> T) -> T {
        read(&self.lock())
    }

    /// Waits until the notes satisfy the condition.
    pub(crate) async fn when(&self, is_so: impl Fn(&Notes) -> bool) {
        let mut news = self.0.news.subscribe();
        // The sender lives as long as we do.
        while !self.read(&is_so) && news.changed().await.is_ok() {}
    }
}
