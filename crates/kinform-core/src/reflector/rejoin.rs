//! Going on where another process stopped: from a snapshot's version, without a list.
//!
//! ```text
//! snapshot ─▶ version of the server? ─▶ at the snapshot's version: how many, the newest objects?
//!                  │ older                   │ others │ forgotten        ─▶ watch ─▶ CaughtUp
//!                  └─────────────────────────┴────────┴─────────────────────▶ list
//! ```
//!
//! A server may have been restored to a moment before the snapshot, and may have written on since:
//! then its version says nothing. So it is asked for its state at exactly the snapshot's version: the
//! number of objects, and those of the snapshot that were changed last. If one of them is another, so is
//! the history, and everything is listed. docs/restarts.md names the restored servers that the questions
//! do not find. A server counts its objects only for requests without a selector.
//! The store is synced when the watch has reached the version that the server told first. Until then
//! watches are short, since a server sends a bookmark shortly before it ends one.
//! BOUND: two questions and one a witness, three of them that the server fails to answer, and three short
//! watches; then everything is listed. While the server cannot be reached, it is asked again.
//!
//! Upstream counterpart: none.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use kinform_api::{ListOptions, ResourceVersion, VersionMatch, mutant};

use crate::delta::Delta;
use crate::object::Object;
use crate::time::Instant;
use crate::wire::unreadable::Unreadable;

use super::report::{ProblemKind, ReflectorEvent, RelistReason, State};
use super::verdict::Ask;
use super::{Phase, Reflector, Request};

/// The time after which the server is asked to end a watch; its bookmark comes before.
const SHORT_WATCH: Duration = Duration::from_secs(3);
/// BOUND: the time that such a watch may last.
const SHORT_WATCH_LIMIT: Duration = Duration::from_secs(6);
/// BOUND: watches that do not reach the server's version.
const MAX_WATCHES: u8 = 3;
/// Replies in a row that there is no such type, until it is believed. A server that starts may serve its
/// definitions late; the backoff puts some 25 s between the first reply and the last.
const MAX_MISSING: u8 = 6;
/// BOUND: questions that a server which can be reached fails to answer. A list may succeed where they do
/// not.
const MAX_FAILURES: u8 = 3;

/// The point of a server's history at which a snapshot was taken.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// The version of the snapshot.
    pub version: ResourceVersion,
    /// The number of objects that the server had; `None` if some of them could not be read.
    pub objects: Option<usize>,
    /// The objects that were changed last: at least one. Each costs a question.
    pub witnesses: Vec<Object>,
}

/// The work of going on from a snapshot.
#[derive(Clone, Debug)]
pub(super) struct Rejoin {
    from: ResourceVersion,
    objects: Option<usize>,
    next: Question,
    /// The witnesses that were not asked for yet, and the one that is asked for.
    witnesses: VecDeque<Object>,
    /// The first item of the answer.
    found: Option<Object>,
    /// The version of the server at the start.
    target: Option<ResourceVersion>,
    failures: u8,
    watches: u8,
}

/// The objects of a snapshot that the server has not confirmed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unconfirmed {
    are_there: bool,
    /// Replies in a row that there is no such type.
    missing: u8,
}

/// The question that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// The version of the server.
    Version,
    /// The number of objects at the snapshot's version.
    Count,
    /// The first witness at the snapshot's version.
    Witness,
    /// None any more: every answer was the snapshot's.
    Shown,
}

impl Reflector {
    /// Begins where a snapshot was taken. As [`start`](Self::start) if that cannot be shown to be a
    /// point of the server's history: its version must be a number, and there must be a witness.
    pub fn resume(&mut self, from: Resumption, now: Instant) {
        if self.phase != Phase::Idle {
            return;
        }
        let Resumption {
            version,
            objects,
            witnesses,
        } = from;
        self.unconfirmed.are_there = true;
        if version.parsed().is_none_or(|revision| revision == 0) || witnesses.is_empty() {
            return self.start(now);
        }
        self.position.anchor(&version);
        self.rejoin = Some(Rejoin {
            from: version,
            objects,
            next: Question::Version,
            witnesses: witnesses.into(),
            found: None,
            target: None,
            failures: 0,
            watches: 0,
        });
        self.ask_rejoin(now);
    }

    /// Returns whether a later process could go on from the version that was reached: it is a point of
    /// the server's history, and versions have an order.
    pub fn may_resume_later(&self) -> bool {
        // A list that is wanted is a doubt about what is stored.
        self.has_synced && self.position.is_comparable() && self.cycle.reason.is_none()
    }

    /// Returns whether questions about the server's history are left.
    pub(super) fn is_rejoining(&self) -> bool {
        let rejoin = self.rejoin.as_ref();
        rejoin.is_some_and(|rejoin| rejoin.next != Question::Shown)
    }

    /// Asks the next question; if there is none, watches.
    pub(super) fn ask_rejoin(&mut self, now: Instant) {
        let mut options = ListOptions {
            limit: Some(1),
            ..self.selected()
        };
        let Some(rejoin) = &mut self.rejoin else {
            return;
        };
        rejoin.found = None;
        if rejoin.next != Question::Version {
            options.resource_version = Some(rejoin.from.clone());
            options.version_match = Some(VersionMatch::Exact);
        }
        if rejoin.next == Question::Witness {
            let Some(witness) = rejoin.witnesses.front() else {
                rejoin.next = Question::Shown;
                return self.ask_watch(now);
            };
            let name = selector_of(witness);
            options.field_selector = Some(match options.field_selector {
                Some(own) => format!("{own},{name}"),
                None => name,
            });
        }
        self.ask(Ask::Probe, now, |deadline| Request::Probe {
            options,
            deadline,
        });
    }

    /// An item of the answer.
    pub(super) fn on_rejoin_item(&mut self, item: Result<Object, Unreadable>, now: Instant) {
        self.heard(now);
        // One that cannot be read is none.
        if let (Some(rejoin), Ok(object)) = (&mut self.rejoin, item) {
            rejoin.found.get_or_insert(object);
        }
    }

    /// The answer is whole. `rest` is the number of items that it left out, if the server counts them.
    pub(super) fn on_rejoin_answered(
        &mut self,
        version: &ResourceVersion,
        rest: Option<u64>,
        now: Instant,
    ) {
        if self.phase != Phase::Reading(Ask::Probe) {
            return;
        }
        self.heard(now);
        let Some(rejoin) = &mut self.rejoin else {
            return;
        };
        let found = rejoin.found.take();
        let is_same = match rejoin.next {
            Question::Version => {
                rejoin.next = Question::Count;
                rejoin.target = Some(version.clone());
                match version.compare(&rejoin.from) {
                    Ok(order) => order != Ordering::Less || mutant!("W1"),
                    Err(_) => return self.give_up_rejoin(RelistReason::Unproven, now),
                }
            }
            Question::Count => {
                rejoin.next = Question::Witness;
                let counted = rest.map(|rest| rest as usize + usize::from(found.is_some()));
                let pair = counted.zip(rejoin.objects);
                pair.is_none_or(|(theirs, ours)| theirs == ours)
            }
            Question::Witness => {
                let witness = rejoin.witnesses.pop_front();
                let pair = witness.as_ref().zip(found.as_ref());
                pair.is_some_and(|(ours, theirs)| is_same(ours, theirs)) || mutant!("W2")
            }
            Question::Shown => true,
        };
        match is_same {
            true => self.ask_rejoin(now),
            false => self.give_up_rejoin(RelistReason::ServerWentBack, now),
        }
    }

    /// Counts a failure of any request before the store is synced: objects of a type that is gone are
    /// forgotten.
    pub(super) fn count_missing(&mut self, kind: ProblemKind) {
        if self.has_synced || !self.unconfirmed.are_there {
            return;
        }
        let missing = &mut self.unconfirmed.missing;
        *missing = match kind {
            ProblemKind::NotFound => *missing + 1,
            _ => 0,
        };
        if *missing >= MAX_MISSING {
            self.unconfirmed = Unconfirmed::default();
            self.hand_on(Delta::Forget);
        }
    }

    /// Counts a question that failed. Returns whether no further one is worth it: not while the server
    /// cannot be reached, since the snapshot is all there is then.
    pub(super) fn is_rejoin_hopeless(&mut self, kind: ProblemKind) -> bool {
        let is_asking = self.is_rejoining();
        let Some(rejoin) = self.rejoin.as_mut().filter(|_| is_asking) else {
            return false;
        };
        let is_away = matches!(
            kind,
            ProblemKind::Refused | ProblemKind::Transport | ProblemKind::TooManyRequests
        );
        rejoin.failures += u8::from(!is_away);
        rejoin.failures >= MAX_FAILURES
    }

    /// A question was refused: what is stored is not shown to be of this server.
    pub(super) fn on_rejoin_refused(&mut self, kind: ProblemKind, now: Instant) {
        let reason = match kind {
            ProblemKind::Expired => RelistReason::Expired,
            _ => RelistReason::Unproven,
        };
        self.give_up_rejoin(reason, now);
    }

    /// Lists everything: the snapshot is only what the list is compared with.
    pub(super) fn give_up_rejoin(&mut self, reason: RelistReason, now: Instant) {
        self.rejoin = None;
        self.position.ask_consistent = reason != RelistReason::Expired;
        self.relist_soon(reason, None, now);
    }

    /// The time that the server is asked to end a watch after, while the store is not synced.
    pub(super) fn short_watch(&self) -> Option<Duration> {
        self.rejoin.as_ref().map(|_| SHORT_WATCH)
    }

    /// The time at which a short watch is given up.
    pub(super) fn short_watch_end(&self) -> Option<Instant> {
        self.rejoin.as_ref()?;
        Some(self.clock.opened_at + SHORT_WATCH_LIMIT)
    }

    /// Counts a watch. Returns false if there were enough of them.
    pub(super) fn may_watch_again(&mut self) -> bool {
        let Some(rejoin) = &mut self.rejoin else {
            return true;
        };
        rejoin.watches += 1;
        rejoin.watches <= MAX_WATCHES
    }

    /// The position moved: synced, if it reached the server's version.
    pub(super) fn check_caught_up(&mut self) {
        let reached = self.position.version().zip(self.rejoin.as_ref());
        let Some((reached, rejoin)) = reached else {
            return;
        };
        let is_shown = rejoin.next == Question::Shown;
        let target = rejoin.target.as_ref().filter(|_| is_shown);
        let Some(target) = target else {
            return;
        };
        if matches!(reached.compare(target), Ok(Ordering::Less) | Err(_)) && !mutant!("W3") {
            return;
        }
        let version = reached.clone();
        let from = rejoin.from.clone();
        self.rejoin = None;
        self.has_synced = true;
        self.stats.resumed += 1;
        self.hand_on(Delta::CaughtUp);
        self.report(ReflectorEvent::Resumed {
            from,
            version: version.clone(),
        });
        self.enter(State::Synced { version });
    }
}

fn is_same(ours: &Object, theirs: &Object) -> bool {
    ours.key_ref() == theirs.key_ref()
        && ours.uid() == theirs.uid()
        && ours.resource_version() == theirs.resource_version()
        && ours.same_content(theirs)
}

fn selector_of(witness: &Object) -> String {
    match witness.namespace() {
        Some(namespace) => format!(
            "metadata.name={},metadata.namespace={namespace}",
            witness.name()
        ),
        None => format!("metadata.name={}", witness.name()),
    }
}
