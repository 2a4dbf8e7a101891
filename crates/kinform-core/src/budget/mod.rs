//! The memory budget over several informers: what is given up, in which order, and when it returns.
//!
//! ```text
//! Load an informer, bytes of decoded values ─▶ Budget::decide(now) ─▶ [Order] ─▶ informers, which report again
//! ```
//!
//! The order of giving up: decoded values of all informers; then bodies are kept compressed, one informer
//! at a time; then bodies of informers that said which fields they can do without are reduced to the rest.
//! A later step begins when no informer is left for the one before.
//!
//! - Of several informers the one that saves the most goes first. Few switches reach the budget that way,
//!   and no reader has to count its reads, which would make all threads write to one place.
//! - An informer that is changing its form counts with the size that it will have, so that no second one is
//!   asked for the same bytes.
//! - Hysteresis: a step is given up above the budget. It returns when all of it, with the bytes that
//!   come back, has been below 70 % of the budget for [`CALM`] without a break, one order at a time.
//! - Below the last step nothing is dropped: the budget is *over*, and says so.
//!
//! INVARIANT: after `decide`, the expected bytes are within the budget, or no step that saves is left.
//!
//! Upstream counterpart: none. Complexity: O(informers) a decision without orders.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::time::Instant;

/// The time during which there must be room for a step that returns.
pub const CALM: Duration = Duration::from_secs(30);
/// The part of the budget, in percent, that may be in use once a step has returned.
const RETURN_PERCENT: u64 = 70;

/// An informer under a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// The form in which an informer keeps bodies. Each is smaller than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// As they came.
    #[default]
    Whole,
    /// Compressed: reads inflate.
    Compressed,
    /// Without the fields that the informer can do without: reads of those are errors.
    Reduced,
}

/// The memory of one informer, as it last said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The bytes that it holds now.
    pub held: u64,
    /// The form that all of its objects have now; `None` while they change.
    pub reached: Option<Form>,
    /// The bytes that it would hold as they came.
    pub whole: u64,
    /// The bytes that it would hold compressed: an estimate until it is; `None` if it cannot be.
    pub compressed: Option<u64>,
    /// The bytes that it would hold reduced; `None` if it cannot be.
    pub reduced: Option<u64>,
}

/// A decision, for the shell to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Drop all decoded values, and keep no new ones.
    DropDecoded,
    /// Decoded values may be kept again.
    KeepDecoded,
    /// An informer changes to this form.
    Change {
        /// The informer.
        id: MemberId,
        /// The form.
        to: Form,
    },
}

/// The state of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The budget.
    pub limit: u64,
    /// The bytes that are held, those of decoded values included.
    pub held: u64,
    /// Of these, decoded values.
    pub decoded: u64,
    /// Decoded values may be kept.
    pub keeps_decoded: bool,
    /// More is held than the budget has, and no step is left.
    pub is_over: bool,
}

/// Decides what is kept within a number of bytes.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    members: BTreeMap<MemberId, Member>,
    decoded: u64,
    // The bytes of decoded values when they were given up, and of the bodies that they came from.
    decoded_before: (u64, u64),
    keeps_decoded: bool,
    is_over: bool,
    /// The time since which there is room for the next step that returns.
    calm_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    load: Load,
    wanted: Form,
}

impl Form {
    const ALL: [Self; 3] = [Self::Whole, Self::Compressed, Self::Reduced];

    /// One word, for metrics and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Compressed => "compressed",
            Self::Reduced => "reduced",
        }
    }
}

impl Default for Load {
    /// No bytes, as they came.
    fn default() -> Self {
        Self {
            held: 0,
            reached: Some(Form::Whole),
            whole: 0,
            compressed: None,
            reduced: None,
        }
    }
}

impl Load {
    /// The bytes that it would hold in this form.
    fn size(&self, form: Form) -> Option<u64> {
        match form {
            Form::Whole => Some(self.whole),
            Form::Compressed => self.compressed,
            Form::Reduced => self.reduced,
        }
    }
}

impl Member {
    /// Its objects are changing to the form that is wanted.
    fn is_settling(&self) -> bool {
        self.load.reached != Some(self.wanted) && self.load.size(self.wanted).is_some()
    }

    fn expected(&self) -> u64 {
        match self.load.size(self.wanted) {
            Some(size) if self.is_settling() => size,
            _ => self.load.held,
        }
    }

    /// The next form that saves something, with the bytes that it saves.
    fn next(&self) -> Option<(Form, u64)> {
        let forms = Form::ALL.into_iter().filter(|form| *form > self.wanted);
        let saved = forms.filter_map(|form| {
            let saved = self.expected().checked_sub(self.load.size(form)?)?;
            (saved > 0).then_some((form, saved))
        });
        saved.min_by_key(|(form, _)| *form)
    }

    /// The form before that is smaller than all before it, with the bytes that it costs: compressed, a small
    /// cache is larger than as it came.
    fn before(&self) -> Option<(Form, u64)> {
        let forms = Form::ALL.into_iter();
        let forms = forms.filter(|form| *form < self.wanted);
        let sizes = forms.filter_map(|form| Some((form, self.load.size(form)?)));
        let (form, size) =
            sizes.reduce(|least, next| if next.1 < least.1 { next } else { least })?;
        Some((form, size.saturating_sub(self.expected())))
    }
}

impl Budget {
    /// A budget of this many bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            members: BTreeMap::new(),
            decoded: 0,
            decoded_before: (0, 0),
            keeps_decoded: true,
            is_over: false,
            calm_since: None,
        }
    }

    /// Takes the load of an informer; a new one keeps its objects whole.
    pub fn load(&mut self, id: MemberId, load: Load) {
        self.members.entry(id).or_default().load = load;
    }

    /// Takes the bytes of the decoded values of all informers.
    pub fn decoded(&mut self, bytes: u64) {
        self.decoded = bytes;
    }

    /// Forgets an informer whose memory is gone.
    pub fn forget(&mut self, id: MemberId) {
        self.members.remove(&id);
    }

    /// The form that an informer is to have.
    #[must_use]
    pub fn wanted(&self, id: MemberId) -> Form {
        self.members.get(&id).map_or(Form::Whole, |of| of.wanted)
    }

    /// The state.
    #[must_use]
    pub fn report(&self) -> Report {
        let members = self.members.values().map(|member| member.load.held);
        Report {
            limit: self.limit,
            held: members.sum::<u64>() + self.decoded,
            decoded: self.decoded,
            keeps_decoded: self.keeps_decoded,
            is_over: self.is_over,
        }
    }

    /// Returns the time of the next decision, if none is due before it because of other loads.
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        Some(self.calm_since? + CALM)
    }

    /// Decides; the orders count as carried out.
    pub fn decide(&mut self, now: Instant) -> Vec<Order> {
        let mut orders = Vec::new();
        let mut expected = self.expected();
        while expected > self.limit {
            let Some((order, saved)) = self.give_up() else {
                break;
            };
            orders.push(order);
            expected = expected.saturating_sub(saved);
        }
        debug_assert_eq!(expected, self.expected(), "an order saves what it says");
        self.is_over = expected > self.limit;
        if orders.is_empty() && !self.is_over {
            orders.extend(self.settle(expected, now));
        } else {
            self.calm_since = None;
        }
        orders
    }

    fn expected(&self) -> u64 {
        let members = self.members.values().map(Member::expected);
        members.sum::<u64>() + self.decoded
    }

    fn whole(&self) -> u64 {
        self.members.values().map(|member| member.load.whole).sum()
    }

    /// The decoded values that would come back: as many as there were, for the objects that there are.
    fn decoded_to_come(&self) -> u64 {
        let (decoded, of) = self.decoded_before;
        let share = u128::from(decoded) * u128::from(self.whole()) / u128::from(of.max(1));
        u64::try_from(share).map_or(decoded, |share| share.min(decoded))
    }

    /// Gives up the next step; with the bytes that it saves.
    fn give_up(&mut self) -> Option<(Order, u64)> {
        if self.keeps_decoded {
            self.keeps_decoded = false;
            let saved = std::mem::take(&mut self.decoded);
            self.decoded_before = (saved, self.whole());
            return Some((Order::DropDecoded, saved));
        }
        let members = self.members.iter_mut();
        let next = members.filter_map(|(id, member)| Some((*id, member.next()?, member)));
        // The first step of all, and of that the largest.
        let first = next.min_by_key(|(id, (form, saved), _)| (*form, u64::MAX - saved, *id));
        let (id, (form, saved), member) = first?;
        member.wanted = form;
        Some((Order::Change { id, to: form }, saved))
    }

    /// Takes the last step back, if there has been room for it for long enough.
    fn settle(&mut self, expected: u64, now: Instant) -> Option<Order> {
        let back = self.step_back();
        let fits = |cost: u64| {
            let percent = u128::from(self.limit) * u128::from(RETURN_PERCENT);
            (u128::from(expected) + u128::from(cost)) * 100 <= percent
        };
        let (order, _) = back.filter(|(_, cost)| fits(*cost)).or_else(|| {
            self.calm_since = None;
            None
        })?;
        if now.since(*self.calm_since.get_or_insert(now)) < CALM {
            return None;
        }
        self.calm_since = None;
        match order {
            Order::Change { id, to } => {
                if let Some(member) = self.members.get_mut(&id) {
                    member.wanted = to;
                }
            }
            Order::KeepDecoded | Order::DropDecoded => {
                self.keeps_decoded = true;
            }
        }
        Some(order)
    }

    /// The step to take back next, with the bytes that it costs; nothing while objects change their form.
    fn step_back(&self) -> Option<(Order, u64)> {
        if self.members.values().any(Member::is_settling) {
            return None;
        }
        let members = self.members.iter();
        let steps = members.filter_map(|(id, member)| Some((*id, member.before()?, member.wanted)));
        // The last step of all, and of that what costs the least.
        let last = steps.max_by_key(|(id, (_, cost), wanted)| (*wanted, u64::MAX - cost, *id));
        match last {
            Some((id, (to, cost), _)) => Some((Order::Change { id, to }, cost)),
            None if self.keeps_decoded => None,
            None => Some((Order::KeepDecoded, self.decoded_to_come())),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, held, .. } = self;
        let over = if self.is_over {
            ", and nothing is left to give up"
        } else {
            ""
        };
        write!(f, "{held} of {limit} bytes{over}")
    }
}
