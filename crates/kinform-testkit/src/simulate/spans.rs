//! The reconciles of the controllers on this thread, by their spans: how many, and which keys fail.
//!
//! ```text
//! span "reconcile" { controller, resource, key } ─▶ a count
//!     └ event { error, failures } in it ─▶ Failing { key, times, error }; it ends without one ─▶ gone
//! ```
//!
//! Only the errors of kinform's controllers are seen, and of these such as the limiter retries: an
//! operator that returns [`Permanent`](kinform::Permanent) knows what it does.
//!
//! Upstream counterpart: none.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The place of kinform's workers.
const WORKER: &str = "kinform::controller::worker";

thread_local! {
    static RECONCILES: Cell<u64> = const { Cell::new(0) };
    static KEYS: RefCell<Keys> = const { RefCell::new(Keys::new()) };
}

/// A key whose last reconciles failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    /// Its resource and the key.
    pub(crate) of: String,
    /// The failures in a row.
    pub(crate) times: u64,
    pub(crate) error: String,
}

/// The keys of this thread's controllers.
#[derive(Debug)]
struct Keys {
    /// The spans that are open: their key.
    // BOUND: one for each reconcile under way.
    open: BTreeMap<u64, Open>,
    /// Those that are entered, the innermost last.
    entered: Vec<u64>,
    failing: BTreeMap<String, Failing>,
}

/// A reconcile under way.
#[derive(Debug, Default)]
struct Open {
    controller: String,
    resource: String,
    key: String,
    has_failed: bool,
}

impl Open {
    fn name(&self) -> String {
        format!("{} {}", self.controller, self.key)
    }
}

impl Keys {
    const fn new() -> Self {
        Self {
            open: BTreeMap::new(),
            entered: Vec::new(),
            failing: BTreeMap::new(),
        }
    }

    /// An error in the innermost span.
    fn failed(&mut self, failure: Failure) {
        let (Some(error), Some(times)) = (failure.error, failure.times) else {
            return;
        };
        let current = self.entered.last();
        let Some(open) = current.and_then(|id| self.open.get_mut(id)) else {
            return;
        };
        open.has_failed = true;
        let of = format!("{} {}", open.resource, open.key);
        let failing = Failing { of, times, error };
        self.failing.insert(open.name(), failing);
    }

    fn closed(&mut self, id: u64) {
        if let Some(open) = self.open.remove(&id)
            && !open.has_failed
        {
            self.failing.remove(&open.name());
        }
    }
}

/// Counts the spans of reconciles, and reads their errors.
pub(crate) struct Spans(());

impl Spans {
    /// Begins with none.
    pub(crate) fn begin() -> Self {
        RECONCILES.set(0);
        KEYS.set(Keys::new());
        Self(())
    }

    /// The reconciles so far.
    pub(crate) fn reconciles() -> u64 {
        RECONCILES.get()
    }

    /// The first key whose last two reconciles failed, or more of them.
    pub(crate) fn failing() -> Option<Failing> {
        KEYS.with_borrow(|keys| keys.failing.values().find(|one| one.times > 1).cloned())
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        match metadata.is_span() {
            true => matches!(metadata.name(), "reconcile" | "reconciling object"),
            false => metadata.target() == WORKER && *metadata.level() <= tracing::Level::WARN,
        }
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let number = RECONCILES.get() + 1;
        RECONCILES.set(number);
        let mut open = Open::default();
        span.record(&mut open);
        KEYS.with_borrow_mut(|keys| keys.open.insert(number, open));
        Id::from_u64(number)
    }

    fn event(&self, event: &Event<'_>) {
        let mut failure = Failure::default();
        event.record(&mut failure);
        KEYS.with_borrow_mut(|keys| keys.failed(failure));
    }

    fn enter(&self, id: &Id) {
        KEYS.with_borrow_mut(|keys| keys.entered.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        KEYS.with_borrow_mut(|keys| {
            let at = keys.entered.iter().rposition(|one| *one == id.into_u64());
            at.map(|at| keys.entered.remove(at));
        });
    }

    fn try_close(&self, id: Id) -> bool {
        KEYS.with_borrow_mut(|keys| keys.closed(id.into_u64()));
        true
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

impl Visit for Open {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let place = match field.name() {
            "controller" => &mut self.controller,
            "resource" => &mut self.resource,
            "key" => &mut self.key,
            _ => return,
        };
        *place = format!("{value:?}");
    }
}

/// The fields of an event that is a failure.
#[derive(Default)]
struct Failure {
    error: Option<String>,
    times: Option<u64>,
}

impl Visit for Failure {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "error" {
            self.error = Some(value.to_owned());
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "failures" {
            self.times = Some(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}
