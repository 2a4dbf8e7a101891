//! Applies every notification to a model: of a handler, a stream, or the lines of the CLI.
//!
//! ```text
//! Handlers | Changes | lines → EventChecker { EventModel, first contradiction } → converged(truth) within a bound
//! ```
//!
//! The last notifications are remembered, so that a contradiction is reported with those that led
//! to it. After the first contradiction a checker ignores everything else.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kinform::{Handlers, Notification};
use tokio::sync::watch;

use crate::checks::event_model::{Delivered, EventModel, Line, Truth};

/// BOUND: notifications that are reported with a contradiction.
const REMEMBERED: usize = 40;

/// Builds a model of the notifications it receives. Clones are the same checker.
#[derive(Clone, Debug)]
pub struct EventChecker {
    name: Arc<str>,
    inner: Arc<Mutex<Inner>>,
    heard: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct Inner {
    picture: EventModel,
    past: VecDeque<String>,
    trouble: Option<String>,
    dismissed: bool,
}

/// A checker's objection to the server or its informer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl EventChecker {
    /// A checker that has received no notification. The name is for failures.
    pub fn new(name: &str) -> Self {
        Self {
            name: Arc::from(name),
            inner: Arc::default(),
            heard: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Closures that pass a handler's notifications to the checker.
    pub fn handlers<K: 'static>(&self) -> Handlers<K> {
        let at_end = self.clone();
        let (add, update, delete) = (self.clone(), self.clone(), self.clone());
        let resync = self.clone();
        Handlers::new()
            .named(&*self.name)
            .on_add(move |added| add.hear(&Notification::Added(added.clone())))
            .on_update(move |old, new| {
                let (old, new) = (old.clone(), new.clone());
                update.hear(&Notification::Updated { old, new });
            })
            .on_delete(move |deleted| delete.hear(&Notification::Deleted(deleted.clone())))
            .on_resync(move |object| resync.hear(&Notification::Sync(object.clone())))
            .on_synced(move || at_end.hear::<K>(&Notification::Synced))
    }

    /// An async function that does the same, with a pause before each notification.
    pub fn slow_handlers<K: 'static>(&self, pause: Duration) -> Handlers<K> {
        let witness = self.clone();
        Handlers::new()
            .named(&*self.name)
            .on_event_async(move |notification| {
                let witness = witness.clone();
                async move {
                    tokio::time::sleep(pause).await;
                    witness.hear(&notification);
                }
            })
    }

    /// Receives a notification.
    pub fn hear<K>(&self, notification: &Notification<K>) {
        match Delivered::of(notification) {
            Some(delivered) => self.draw(&delivered),
            None => self.hear_synced(),
        }
    }

    /// Receives a line of `kinform watch -o json`.
    pub fn hear_line(&self, line: &str) {
        match Line::read(line) {
            Ok(Line::Delivered(delivered)) => self.draw(&delivered),
            Ok(Line::Synced) => self.hear_synced(),
            Ok(Line::Trouble(reason, message)) => {
                self.update(format!("trouble {reason}: {message}"), |_| Ok(()));
            }
            Ok(Line::Summary) => {}
            Err(why) => self.update("a line".to_owned(), |_| Err(why)),
        }
    }

    fn draw(&self, delivered: &Delivered) {
        self.update(delivered.to_string(), |picture| {
            picture.draw(delivered).map_err(|error| error.to_string())
        });
    }

    fn hear_synced(&self) {
        self.update("synced".to_owned(), EventModel::synced);
    }

    fn update(&self, what: String, change: impl FnOnce(&mut EventModel) -> Result<(), String>) {
        let mut inner = self.lock();
        if inner.trouble.is_some() {
            return;
        }
        let result = match inner.dismissed {
            true => Err(format!(
                "{what} was delivered after the handler was removed"
            )),
            false => change(&mut inner.picture),
        };
        if inner.past.len() == REMEMBERED {
            inner.past.pop_front();
        }
        inner.past.push_back(what);
        inner.trouble = result.err();
        drop(inner);
        self.heard.send_modify(|heard| *heard += 1);
    }

    /// The server was restored: from now on versions may go back.
    pub fn may_go_back(&self) {
        self.lock().picture.may_go_back();
    }

    /// Namespaces may be added to its informer: their objects are initial adds at any time.
    pub fn may_grow(&self) {
        self.lock().picture.may_grow();
    }

    /// From now on, any notification is a contradiction.
    pub fn stop(&self) {
        self.lock().dismissed = true;
    }

    /// Checks that no notification contradicted an earlier one so far.
    ///
    /// # Errors
    /// The first contradiction, with the notifications before it.
    pub fn check(&self) -> Result<(), Violation> {
        let inner = self.lock();
        match &inner.trouble {
            None => Ok(()),
            Some(why) => Err(self.objection(&inner, why)),
        }
    }

    /// Compares its model with the truth as it is now.
    ///
    /// # Errors
    /// They differ.
    pub fn compare(&self, truth: &Truth) -> Result<(), Violation> {
        let inner = self.lock();
        let compared = inner.picture.compare(truth);
        compared.map_err(|why| self.objection(&inner, &why))
    }

    /// Returns whether the first list was reported complete.
    pub fn has_synced(&self) -> bool {
        self.lock().picture.has_synced()
    }

    /// The number of notifications applied.
    pub fn delivered(&self) -> u64 {
        self.lock().picture.delivered()
    }

    /// Waits until the first list is complete, for at most `limit`.
    ///
    /// # Errors
    /// It was not, or something contradicted.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn synced(&self, limit: Duration) -> Result<(), Violation> {
        let check = |picture: &EventModel| match picture.has_synced() {
            true => Ok(()),
            false => Err("it never heard that the beginning is complete".to_owned()),
        };
        self.reaches(check, limit).await
    }

    /// Waits until its model equals the truth, for at most `limit`.
    ///
    /// # Errors
    /// It was not, or something contradicted.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn converged(&self, truth: &Truth, limit: Duration) -> Result<(), Violation> {
        let check =
            |picture: &EventModel| picture.compare(truth).map_err(|error| error.to_string());
        self.reaches(check, limit).await
    }

    async fn reaches(
        &self,
        check: impl Fn(&EventModel) -> Result<(), String>,
        limit: Duration,
    ) -> Result<(), Violation> {
        let mut heard = self.heard.subscribe();
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            heard.borrow_and_update();
            self.check()?;
            let Err(objection) = self.holds(&check, limit) else {
                return Ok(());
            };
            if tokio::time::timeout_at(deadline, heard.changed())
                .await
                .is_err()
            {
                return Err(objection);
            }
        }
    }

    fn holds(
        &self,
        check: impl Fn(&EventModel) -> Result<(), String>,
        limit: Duration,
    ) -> Result<(), Violation> {
        let inner = self.lock();
        check(&inner.picture)
            .map_err(|why| self.objection(&inner, &format!("not within {limit:?}: {why}")))
    }

    fn objection(&self, inner: &Inner, why: &dyn Display) -> Violation {
        let past: Vec<&str> = inner.past.iter().map(String::as_str).collect();
        let delivered = inner.picture.delivered();
        Violation(format!(
            "{}, after {delivered} notifications: {why}\nheard last:\n  {}",
            self.name,
            past.join("\n  ")
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
