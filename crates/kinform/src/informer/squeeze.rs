//! An informer's part in the memory budget of its factory: its load, and the form that it is asked for.
//!
//! ```text
//! batch applied ─▶ Squeeze::tell(load) ─▶ Memory ─Wanted─▶ compress │ expand │ reduce ─▶ a piece a turn ─▶ load
//! ```
//!
//! Objects change their form in pieces between which the loop does its other work. A first list that does not
//! fit is compressed while it comes in. Without a budget nothing here runs.
//! BOUND: 512 objects a piece, some 10 ms of compression.
//!
//! Upstream counterpart: none.

use std::sync::Arc;
use std::time::Duration;

use kinform_core::budget::{Form, Load};
use kinform_core::informer::writer::Writer;
use kinform_core::object::budget::value_size;
use kinform_core::time::Instant;
use tokio::sync::watch;

use super::{Core, Storage};
use crate::memory::{MemoryStep, Wanted};
use crate::report::ReportEvent;
use crate::sync::lock;

/// BOUND: objects that change their form before others run.
const PIECE: usize = 512;
/// The time after which the list that brings fields back is asked for again, if it has not begun.
const LIST_AGAIN: Duration = Duration::from_secs(60);
/// The period at which the load is looked at while something is given up: handlers receive changes, which are
/// held until then, whatever the loop does.
const LOOKING: Duration = Duration::from_secs(15);
/// The period at which decoded values are counted: readers keep them, whatever the loop does.
const COUNTING: Duration = Duration::from_secs(5);

/// The part of one loop.
#[derive(Debug)]
pub(super) struct Squeeze {
    core: Arc<Core>,
    wanted: watch::Receiver<Wanted>,
    /// The last request that was carried out.
    known: Wanted,
    /// The time of the last turn.
    turned: Instant,
    told: Load,
    decoded: u64,
    counted: Instant,
    /// Objects have another form than what is wanted.
    is_changing: bool,
    /// Fields were given up that are wanted again: the time to ask again for the list that brings them back.
    list_again: Option<Instant>,
}

impl Squeeze {
    /// The part of this loop; `None` without a budget.
    pub(super) fn of(core: &Arc<Core>) -> Option<Self> {
        let wanted = core.membership.as_ref()?.wanted();
        Some(Self {
            core: Arc::clone(core),
            known: Wanted::NOTHING_GIVEN_UP,
            wanted,
            turned: Instant::ZERO,
            told: Load::default(),
            decoded: 0,
            counted: Instant::ZERO,
            is_changing: false,
            list_again: None,
        })
    }

    /// Waits until something else is wanted, or there is a next piece.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn due(&mut self) {
        if self.is_changing {
            return tokio::task::yield_now().await;
        }
        if self.wanted.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let membership = self.core.membership.as_ref()?;
        let counting = membership.keeps_decoded().then(|| self.counted + COUNTING);
        let gave_up = self.known != Wanted::NOTHING_GIVEN_UP;
        let looking = gave_up.then(|| self.turned + LOOKING);
        [counting, membership.next_wake(), self.list_again, looking]
            .into_iter()
            .flatten()
            .min()
    }

    /// Tells the load, takes what is wanted, and changes a piece. `waiting` are bytes that wait to be applied.
    pub(super) fn turn(&mut self, writer: &mut Writer, waiting: usize) {
        self.turned = self.core.env.now();
        writer.forget_heard();
        // First what was asked for before: values that are dropped must not be told again.
        self.follow(writer);
        self.tell(writer, waiting);
        self.follow(writer);
        if writer.holds().form.is_none() {
            self.is_changing = writer.reform(PIECE);
            // It keeps the root alive that was last read in order, and so the objects as they were.
            *lock(&self.core.order) = None;
            self.tell(writer, waiting);
            self.follow(writer);
        } else {
            self.is_changing = false;
        }
        self.bring_back(writer);
    }

    /// Asks for a list while fields are wanted that only a list brings back. A request that comes while another
    /// list runs is lost, and is repeated.
    fn bring_back(&mut self, writer: &Writer) {
        if !writer.awaits_list() {
            self.list_again = None;
            return;
        }
        let now = self.core.env.now();
        if self.list_again.is_none_or(|at| at <= now) {
            self.list_again = Some(now + LIST_AGAIN);
            self.core.relist();
        }
    }

    /// The compression can begin now: the next turn comes at once.
    pub(super) fn begun(&mut self) {
        self.is_changing = true;
    }

    /// Tells that the loop has ended: what is held stays as it is, but for decoded values, which nobody
    /// could ask it to drop any more.
    pub(super) fn end(&mut self, writer: &Writer) {
        remembered(&self.core, false);
        let held = writer.holds().held as u64;
        let load = Load {
            held,
            whole: held,
            ..Load::default()
        };
        if let Some(membership) = &self.core.membership {
            membership.tell(load, 0, self.core.env.now());
        }
    }

    fn tell(&mut self, writer: &Writer, waiting: usize) {
        let Some(membership) = &self.core.membership else {
            return;
        };
        let now = self.core.env.now();
        let is_counting = membership.keeps_decoded() && now.since(self.counted) >= COUNTING;
        if is_counting {
            self.counted = now;
            if membership.remembers_decoded() {
                self.decoded = remembered(&self.core, self.known.keeps_decoded);
            }
        }
        let holds = writer.holds();
        let beside = waiting as u64 + self.core.reader.ring().kept_bytes();
        let held = holds.held as u64 + beside;
        let load = Load {
            held,
            reached: holds.form,
            whole: holds.plain as u64 + beside,
            compressed: holds.compressed.map(|bytes| bytes as u64 + beside),
            reduced: holds.reduced.map(|bytes| bytes as u64 + beside),
        };
        let load = match self.core.storage {
            Storage::Plain => load,
            #[cfg(feature = "compressed")]
            Storage::Compressed => {
                let has_reduced = self.known.form == Form::Reduced || writer.awaits_list();
                always_compressed(load, has_reduced || self.core.root().reduced().objects > 0)
            }
        };
        let is_due = membership.next_wake().is_some_and(|at| at <= now);
        if load != self.told || is_counting || is_due {
            self.told = load;
            membership.tell(load, self.decoded, now);
        }
    }

    /// Takes what is wanted now.
    fn follow(&mut self, writer: &mut Writer) {
        let wanted = *self.wanted.borrow_and_update();
        if wanted == self.known {
            return;
        }
        let before = std::mem::replace(&mut self.known, wanted);
        if before.keeps_decoded && !wanted.keeps_decoded {
            self.decoded = remembered(&self.core, false);
        }
        match wanted.form {
            // It was asked for, and stays.
            _ if self.core.storage != Storage::Plain => {}
            Form::Whole => writer.expand(),
            Form::Compressed => writer.compress(),
            Form::Reduced => {}
        }
        match (before.form, wanted.form) {
            (Form::Reduced, Form::Reduced) => {}
            (_, Form::Reduced) => writer.reduce(),
            (Form::Reduced, _) => writer.keep_whole(),
            _ => {}
        }
        self.say(before, wanted);
    }

    fn say(&self, before: Wanted, wanted: Wanted) {
        let Some(membership) = &self.core.membership else {
            return;
        };
        let (step, usage) = (MemoryStep::from(wanted), membership.report());
        if wanted.is_over {
            tracing::warn!(%step, %usage, "the memory budget cannot be held");
        } else {
            tracing::info!(%step, %usage, "the memory budget");
        }
        if MemoryStep::from(before) != step || before.is_over != wanted.is_over {
            let event = ReportEvent::Memory { step, usage };
            self.core.reporter.report(event);
        }
    }
}

/// The load of a cache that is compressed whatever the budget says: that is how its objects come.
#[cfg(feature = "compressed")]
fn always_compressed(load: Load, has_reduced: bool) -> Load {
    match has_reduced {
        false => Load {
            reached: Some(Form::Whole),
            whole: load.held,
            compressed: None,
            ..load
        },
        true => Load {
            whole: load.compressed.unwrap_or(load.whole),
            compressed: None,
            ..load
        },
    }
}

/// Counts the decoded values that the objects of a cache remember, or drops them.
///
/// Complexity: O(objects).
fn remembered(core: &Core, keeps: bool) -> u64 {
    let root = core.root();
    let mut bytes = 0;
    for object in root.list().iter() {
        match keeps {
            true if object.has_typed() => bytes += value_size(object) as u64,
            true => {}
            false => _ = object.forget_typed(),
        }
    }
    bytes
}
