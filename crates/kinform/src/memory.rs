//! The memory budget of a factory: what its informers hold, and what they give up to hold it.
//!
//! ```text
//! loops ─load─▶ Memory (the machine, under a lock) ─Wanted─▶ loops: compress, expand, reduce
//! handles ─▶ may decoded values be kept?            └──────▶ decoded values: dropped
//! ```
//!
//! The machine of `kinform-core` decides; an informer's loop tells its load after each batch and carries out
//! what it is asked to. Decoded values are dropped by whoever asked for the decision.
//! INVARIANT: an informer that was stopped counts until it is dropped, and gives nothing up.
//!
//! Upstream counterpart: none; client-go keeps every object decoded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use kinform_core::budget::{Budget, Form, Load, MemberId, Order, Report};
use kinform_core::object::budget::TypedBudget;
use kinform_core::time::Instant;
use tokio::sync::watch;

use crate::sync::lock;

/// The memory that a factory's informers hold, and its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// The budget, in bytes.
    pub budget: u64,
    /// The bytes that are held: objects, tables, indexes, waiting changes and decoded values, with
    /// what an allocator adds. An estimate.
    pub held: u64,
    /// Of these, decoded values.
    pub decoded: u64,
    /// Decoded values may be kept.
    pub keeps_decoded: bool,
    /// More is held than the budget has, and nothing is left to give up.
    pub is_over: bool,
}

/// The things that an informer has given up to hold the memory budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MemoryStep {
    /// Nothing.
    #[default]
    Normal,
    /// Decoded values: each `typed()` decodes.
    NoDecodedValues,
    /// Also plain bodies: objects are kept compressed, and reads inflate them.
    Compressed,
    /// Also the fields that an informer can do without
    /// ([`reducible_to`](crate::InformerBuilder::reducible_to)): reads of them are errors.
    Reduced,
}

/// The budget of one factory.
#[derive(Debug)]
pub(crate) struct Memory {
    books: Mutex<Books>,
    drops_decoded: AtomicBool,
    /// Some handle keeps every decoded value: they are counted in the caches.
    keeps_all: AtomicBool,
    within: Mutex<Vec<Weak<TypedBudget>>>,
}

#[derive(Debug)]
struct Books {
    machine: Budget,
    members: BTreeMap<MemberId, Place>,
    next: u64,
    /// The time of the last decision.
    now: Instant,
}

#[derive(Debug)]
struct Place {
    wanted: watch::Sender<Wanted>,
    /// Bytes of decoded values that its objects remember.
    decoded: u64,
}

/// The form and the state that an informer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) form: Form,
    pub(crate) keeps_decoded: bool,
    pub(crate) is_over: bool,
}

/// An informer's place in the budget of its factory.
#[derive(Debug)]
pub(crate) struct Membership {
    memory: Arc<Memory>,
    id: MemberId,
    wanted: watch::Receiver<Wanted>,
}

impl Wanted {
    pub(crate) const NOTHING_GIVEN_UP: Self = Self {
        form: Form::Whole,
        keeps_decoded: true,
        is_over: false,
    };
}

impl MemoryStep {
    /// One word for machines.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::NoDecodedValues => "no-decoded-values",
            Self::Compressed => "compressed",
            Self::Reduced => "reduced",
        }
    }
}

impl fmt::Display for MemoryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "nothing is given up",
            Self::NoDecodedValues => "decoded values are not kept",
            Self::Compressed => "objects are kept compressed, and decoded values are not kept",
            Self::Reduced => "only metadata and declared fields of objects are kept",
        })
    }
}

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { budget, held, .. } = self;
        write!(f, "{held} bytes are held, and the budget is {budget}")?;
        match self.is_over {
            true => f.write_str("; nothing is left to give up"),
            false => Ok(()),
        }
    }
}

impl MemoryUse {
    fn of(report: Report) -> Self {
        Self {
            budget: report.limit,
            held: report.held,
            decoded: report.decoded,
            keeps_decoded: report.keeps_decoded,
            is_over: report.is_over,
        }
    }
}

impl From<Wanted> for MemoryStep {
    fn from(wanted: Wanted) -> Self {
        match wanted.form {
            Form::Whole if wanted.keeps_decoded => Self::Normal,
            Form::Whole => Self::NoDecodedValues,
            Form::Compressed => Self::Compressed,
            Form::Reduced => Self::Reduced,
        }
    }
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            books: Mutex::new(Books {
                machine: Budget::new(bytes),
                members: BTreeMap::new(),
                next: 0,
                now: Instant::ZERO,
            }),
            drops_decoded: AtomicBool::new(false),
            keeps_all: AtomicBool::new(false),
            within: Mutex::default(),
        })
    }

    /// A place for one more informer.
    pub(crate) fn join(self: &Arc<Self>) -> Membership {
        let mut books = lock(&self.books);
        let id = MemberId(books.next);
        books.next += 1;
        let report = books.machine.report();
        let (sender, wanted) = watch::channel(Wanted {
            form: Form::Whole,
            keeps_decoded: report.keeps_decoded,
            is_over: report.is_over,
        });
        let place = Place {
            wanted: sender,
            decoded: 0,
        };
        books.members.insert(id, place);
        drop(books);
        Membership {
            memory: Arc::clone(self),
            id,
            wanted,
        }
    }

    /// Returns whether decoded values may be kept.
    pub(crate) fn may_keep_decoded(&self) -> bool {
        !self.drops_decoded.load(Ordering::Relaxed)
    }

    /// Counts the decoded values of a handle that keeps some.
    pub(crate) fn count_within(&self, budget: &Arc<TypedBudget>) {
        let mut within = lock(&self.within);
        within.retain(|known| known.strong_count() > 0);
        within.push(Arc::downgrade(budget));
    }

    /// Counts the decoded values that objects remember.
    pub(crate) fn count_all(&self) {
        self.keeps_all.store(true, Ordering::Relaxed);
    }

    /// The state.
    pub(crate) fn report(&self) -> MemoryUse {
        MemoryUse::of(lock(&self.books).machine.report())
    }

    fn each_within(&self) -> Vec<Arc<TypedBudget>> {
        lock(&self.within)
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Decides, and tells each informer.
    fn decide(&self, now: Instant) {
        let within = self.each_within();
        let kept: usize = within.iter().map(|budget| budget.values_size()).sum();
        let mut books = lock(&self.books);
        books.now = now;
        let remembered: u64 = books.members.values().map(|place| place.decoded).sum();
        books.machine.decoded(kept as u64 + remembered);
        let orders = books.machine.decide(now);
        let report = books.machine.report();
        let drops = !report.keeps_decoded;
        self.drops_decoded.store(drops, Ordering::Relaxed);
        if orders.contains(&Order::DropDecoded) {
            // Those that objects remember are dropped by the loops.
            books
                .members
                .values_mut()
                .for_each(|place| place.decoded = 0);
        }
        let Books {
            machine, members, ..
        } = &mut *books;
        for (id, place) in members {
            let wanted = Wanted {
                form: machine.wanted(*id),
                keeps_decoded: report.keeps_decoded,
                is_over: report.is_over,
            };
            place.wanted.send_if_modified(|known| {
                let changed = *known != wanted;
                *known = wanted;
                changed
            });
        }
        drop(books);
        if drops && kept > 0 {
            // Values may be many: they are dropped outside of the lock. A reader that was faster than
            // the decision kept one more: it is dropped at the next one.
            within.iter().for_each(|budget| budget.clear());
        }
    }
}

impl Membership {
    /// Tells the load of the informer, and lets the machine decide.
    pub(crate) fn tell(&self, load: Load, decoded: u64, now: Instant) {
        let mut books = lock(&self.memory.books);
        books.machine.load(self.id, load);
        if let Some(place) = books.members.get_mut(&self.id) {
            place.decoded = decoded;
        }
        drop(books);
        self.memory.decide(now);
    }

    /// The time at which there is something to decide, whatever happens.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        lock(&self.memory.books).machine.next_wake()
    }

    /// A receiver that wakes when something else is asked for.
    pub(crate) fn wanted(&self) -> watch::Receiver<Wanted> {
        self.wanted.clone()
    }

    /// The step that the informer is at, or on its way to.
    pub(crate) fn step(&self) -> MemoryStep {
        (*self.wanted.borrow()).into()
    }

    /// Returns whether there are handles that keep decoded values.
    pub(crate) fn keeps_decoded(&self) -> bool {
        self.remembers_decoded() || !lock(&self.memory.within).is_empty()
    }

    /// Returns whether objects may remember decoded values without a budget of their own.
    pub(crate) fn remembers_decoded(&self) -> bool {
        self.memory.keeps_all.load(Ordering::Relaxed)
    }

    /// The state of the whole.
    pub(crate) fn report(&self) -> MemoryUse {
        self.memory.report()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut books = lock(&self.memory.books);
        books.members.remove(&self.id);
        books.machine.forget(self.id);
        let now = books.now;
        drop(books);
        // There may be room for others.
        self.memory.decide(now);
    }
}
