//! Handlers that check every notification: against the one before, and against what was committed.
//!
//! ```text
//! Notification ─▶ EventChecker (order, no delete lost) ─▶ history: was it ever? did one come between?
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinform::{Handlers, Notification, Obj, Registration};
use kinform_testkit::checks::event_checker::EventChecker;
use tokio::time::Instant;

use crate::finding::Invariant;
use crate::network::Wire;
use crate::shared::{Shared, lock};

/// The manner in which a listener treats its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It returns at once.
    Quick,
    /// It takes this long.
    Slow(Duration),
    /// It panics now and then, after it has heard.
    Panics,
}

/// Handlers that check.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) checker: EventChecker,
    pub(crate) registration: Option<Registration>,
    /// An update that left a committed version out, if the queue is in order.
    pub(crate) gap: Arc<Mutex<Option<String>>>,
    /// It takes no time for a notification.
    pub(crate) is_quick: bool,
    /// The times at which it last heard of each object.
    pub(crate) told: Told,
}

/// The times at which objects were heard of, by key.
pub(crate) type Told = Arc<Mutex<BTreeMap<String, Instant>>>;

/// The part that runs in the handler.
#[derive(Clone)]
struct Ear {
    shared: Arc<Shared>,
    checker: EventChecker,
    shelf: &'static str,
    name: Arc<str>,
    gap: Arc<Mutex<Option<String>>>,
    told: Told,
}

impl Listener {
    /// A listener, and the handlers to be added.
    pub(crate) fn new<K: Send + Sync + 'static>(
        shared: &Arc<Shared>,
        wire: &Wire,
        (name, shelf): (String, &'static str),
        manner: Manner,
    ) -> (Self, Handlers<K>) {
        let checker = EventChecker::new(&name);
        if shared.history().epoch() > 1 {
            checker.may_go_back();
        }
        let gap = Arc::default();
        let told = Told::default();
        let ear = Ear {
            shared: Arc::clone(shared),
            checker: checker.clone(),
            shelf,
            name: name.as_str().into(),
            gap: Arc::clone(&gap),
            told: Arc::clone(&told),
        };
        let wire = wire.clone();
        let handlers = Handlers::new().named(&*name);
        let handlers = handlers.on_event_async(move |notification: Notification<K>| {
            let (ear, wire) = (ear.clone(), wire.clone());
            async move {
                wire.moving().await;
                if let Manner::Slow(pause) = manner {
                    tokio::time::sleep(pause).await;
                }
                ear.hear(&notification);
                if manner == Manner::Panics && ear.shared.strikes(10) {
                    std::panic::resume_unwind(Box::new("a handler that panics"));
                }
            }
        });
        let listener = Self {
            name,
            checker,
            registration: None,
            gap,
            is_quick: !matches!(manner, Manner::Slow(_)),
            told,
        };
        (listener, handlers)
    }
}

impl Ear {
    fn hear<K>(&self, notification: &Notification<K>) {
        self.checker.hear(notification);
        if let Err(why) = self.checker.check() {
            self.shared.find(Invariant::I4, why.to_string());
        }
        let (object, old) = match notification {
            Notification::Added(added) => (added.object(), None),
            Notification::Updated { old, new } => (new, Some(old)),
            Notification::Deleted(deleted) => (deleted.object(), None),
            Notification::Sync(object) => (object, None),
            Notification::Synced => return,
            _ => return,
        };
        let shared = &self.shared;
        let (key, version) = (object.key().to_string(), object.resource_version());
        shared.note(format_args!(
            "{} hears {} {key} {version}",
            self.name,
            kind(notification)
        ));
        lock(&self.told).insert(key.clone(), Instant::now());
        // A tombstone has the version that was seen last, a deletion that of the deletion.
        if matches!(notification, Notification::Deleted(_)) {
            return;
        }
        let Ok(revision) = version.parse::<u64>() else {
            shared.find(
                Invariant::I2,
                format!("{}: {key} has version {version:?}", self.name),
            );
            return;
        };
        let history = shared.history();
        let Some(fact) = history.version(self.shelf, &key, object.uid(), revision) else {
            let uid = object.uid();
            let what = format!(
                "{}: {key} {uid} at {version} was never committed",
                self.name
            );
            drop(history);
            shared.find(Invariant::I2, what);
            return;
        };
        if object.label("tier").as_deref() != fact.tier.as_deref() {
            let what = format!(
                "{}: {key} at {version} has another label than was committed",
                self.name
            );
            drop(history);
            shared.find(Invariant::I2, what);
            return;
        }
        if let Some(old) = old {
            self.look_between(&history, old, (&key, revision));
        }
    }

    /// Notes a version between two that were heard.
    fn look_between<K>(
        &self,
        history: &crate::history::History,
        old: &Obj<K>,
        (key, revision): (&str, u64),
    ) {
        let Ok(before) = old.resource_version().parse::<u64>() else {
            return;
        };
        let next = history.next_after(self.shelf, key, before);
        if let Some(next) = next.filter(|next| next.revision < revision) {
            let what = format!(
                "{}: {key} went from {before} to {revision}, {} was left out",
                self.name, next.revision
            );
            lock(&self.gap).get_or_insert(what);
        }
    }
}

fn kind<K>(notification: &Notification<K>) -> &'static str {
    match notification {
        Notification::Added(_) => "add",
        Notification::Updated { .. } => "update",
        Notification::Deleted(_) => "delete",
        Notification::Sync(_) => "sync",
        _ => "other",
    }
}
