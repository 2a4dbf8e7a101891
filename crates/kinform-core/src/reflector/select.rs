//! The part of a resource that is asked for, while it changes.
//!
//! ```text
//! Extend ─▶ close, abort, list again with the new selector     Narrow ─▶ the next request has it
//! Rest ─▶ close, ask for nothing ──Extend──▶ list              Outside ─▶ the position moves, no more
//! ```
//!
//! A wider selector needs a list: a watch tells nothing of objects that did not change. It begins at
//! once, but for a server that has asked to wait, or has failed. It asks for the most recent state: another
//! replica may have acted on a newer one than this has seen. A narrower one has time: what comes
//! besides is dropped by the shell. A server may not know the selector, so whatever it sends is
//! checked there: of an object outside, the version is all that comes here.
//!
//! A list keeps the selector of its first page.
//!
//! Upstream counterpart: none; the parameter is `shardSelector` of KEP-5866.

use kinform_api::{ResourceVersion, WatchEventKind};

use crate::delta::Delta;
use crate::time::Instant;

use super::input::Outside;
use super::recover::Next;
use super::report::{RelistReason, State};
use super::verdict::Ask;
use super::{Phase, Reflector};

impl Reflector {
    /// More is wanted: everything is listed again, with this selector.
    pub(super) fn on_extended(&mut self, selector: Option<String>, now: Instant) {
        self.config.shard_selector = selector;
        if self.phase == Phase::Stopped {
            return;
        }
        // Whoever had these objects before may have seen a newer state than this one's own.
        self.position.ask_consistent = true;
        if self.has_synced {
            // The reason of a list that did not come to its end is a reason of this one, too.
            self.cycle.reason.get_or_insert(RelistReason::Extended);
        }
        match &mut self.phase {
            // The list that is waited for is this one.
            Phase::Waiting { next, .. } => {
                if *next == Next::Reopen {
                    *next = Next::Cycle;
                }
            }
            _ => {
                self.leave_request();
                self.habits.failed_opens = 0;
                self.begin_cycle(now);
            }
        }
    }

    /// Less is wanted: requests from now on have this selector.
    pub(super) fn on_narrowed(&mut self, selector: Option<String>) {
        self.config.shard_selector = selector;
    }

    /// Nothing is wanted, and so nothing is asked for.
    pub(super) fn on_rest(&mut self) {
        if self.phase == Phase::Stopped {
            return;
        }
        self.config.shard_selector = None;
        self.leave_request();
        self.phase = Phase::Idle;
        self.enter(State::Synced {
            version: self.position.version_or_unset(),
        });
    }

    /// Closes whatever is open, and voids the list that is read.
    fn leave_request(&mut self) {
        if matches!(self.phase, Phase::Opening(_) | Phase::Reading(_)) {
            self.close();
        }
        self.abort_list();
    }

    /// An item of a list that is not wanted.
    pub(super) fn on_item_outside(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Reading(Ask::Page | Ask::NextPage)) {
            self.heard(now);
            self.pager.count_item();
            self.stats.outside += 1;
        }
    }

    /// An event of a streaming list about an object that is not wanted. The stream has named one, so it
    /// is not empty for want of a selector.
    pub(super) fn on_initial_event_outside(&mut self, outside: Outside) {
        self.cycle.has_objects = true;
        self.stats.outside += 1;
        if let Some(object) = outside.object {
            self.hand_on_item(Delta::Deleted(object));
        }
    }

    /// An event of a watch about an object that is not wanted.
    pub(super) fn on_event_outside(&mut self, outside: Outside, now: Instant) {
        self.stats.outside += 1;
        let Outside {
            kind,
            version,
            object,
        } = outside;
        let revision = version.parsed();
        let is_deletion = kind == WatchEventKind::Deleted;
        if !is_deletion && self.lists_after_disorder(revision, now) {
            return;
        }
        // A deletion may carry the object's last version.
        let moves = !(is_deletion && self.position.is_after(revision));
        if moves {
            self.position.advance(version.as_str(), revision);
        }
        if let Some(object) = object {
            return self.hand_on_event(Delta::Deleted(object));
        }
        self.habits.events += 1;
        if moves && self.is_point(&version) {
            self.hand_on(Delta::Bookmark {
                version: version.into(),
            });
        }
    }

    /// Returns whether a watch could go on from this version.
    fn is_point(&self, version: &ResourceVersion) -> bool {
        let is_set = !version.is_unset() && !version.is_zero();
        is_set && self.position.version().is_some()
    }
}
