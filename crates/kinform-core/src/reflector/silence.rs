//! Watches that bring nothing while the server's version moves on.
//!
//! ```text
//! silence ─▶ probe: ahead ─▶ watch, silent ─▶ probe: ahead ─▶ .. ─▶ list ─▶ a newer object: again soon
//!                                                                      └─▶ none: more rarely each time
//! ```
//!
//! A proxy may hold a watch back for ever and let lists pass, and a server may have lost a watch. That
//! cannot be told from a quiet resource of a busy server that sends no bookmarks, until a list has an
//! object that the watch should have brought. So the lists of a quiet resource double their distance,
//! whatever events come in between; a bookmark, after which silence means something, starts anew.
//! A watch counts only if probes before and after it were answered by a server that is ahead: a network
//! that is dead both ways is no reason for a list.
//!
//! Upstream counterpart: none; client-go opens the next watch, for ever.

use crate::delta::Delta;

use super::Reflector;
use super::report::RelistReason;

/// Silent watches before the first list, and from one to the next while lists show that something was
/// missing: with the watch whose silence leads to the first probe, four and a half minutes.
const MISSED: u8 = 2;
/// BOUND: the same if no list shows it: 32 of 90 s are 48 minutes.
const QUIET: u8 = 32;

/// The record of silent watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Silence {
    /// The server was ahead when the watch under way was opened.
    is_behind: bool,
    /// The last watch said nothing, and the server was not asked since.
    was_silent: bool,
    /// Watches in a row that said nothing although the server was ahead.
    watches: u8,
    /// The number of them that leads to the next list.
    patience: u8,
}

impl Default for Silence {
    fn default() -> Self {
        Self {
            is_behind: false,
            was_silent: false,
            watches: 0,
            patience: MISSED,
        }
    }
}

impl Silence {
    /// A watch has said nothing from its beginning to its end.
    pub(super) fn was_silent(&mut self) {
        self.was_silent = true;
    }

    /// A watch has brought an event.
    fn heard(&mut self) {
        self.forget_version();
        self.watches = 0;
    }

    /// The server's version is not known any more: there was a list, or a failure.
    pub(super) fn forget_version(&mut self) {
        self.is_behind = false;
        self.was_silent = false;
    }

    /// Returns whether a probe was answered by a server that is ahead, and nothing came since.
    pub(super) const fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// A probe was answered; `is_ahead` if the server is ahead of us. Returns whether it is time for a
    /// list.
    pub(super) fn leads_to_list(&mut self, is_ahead: bool) -> bool {
        let counts = std::mem::take(&mut self.was_silent) && self.is_behind && is_ahead;
        self.is_behind = is_ahead;
        self.watches += u8::from(counts);
        if self.watches < self.patience {
            return false;
        }
        self.watches = 0;
        self.patience = (self.patience * 2).min(QUIET);
        true
    }

    /// The list that it led to has an object that no watch has brought.
    fn missed(&mut self) {
        self.patience = self.patience.min(MISSED);
    }
}

impl Reflector {
    /// A watch is over: its events are evidence against silence.
    pub(super) fn judge_last_watch(&mut self) {
        if std::mem::take(&mut self.habits.events) > 0 {
            self.silence.heard();
        }
    }

    /// An item of a list: should a silent watch have brought it?
    pub(super) fn compare_with_silence(&mut self, item: &Delta) {
        if let Delta::Replaced(object) | Delta::Updated(object) = item
            && self.cycle.reason == Some(RelistReason::SilentWatch)
            && self.position.is_before(object.revision())
        {
            self.silence.missed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of silent watches from list to list.
    fn distances(silence: &mut Silence, lists: usize) -> Vec<usize> {
        let mut distance = || {
            let mut watches = 1..=1_000;
            watches.find(|_| {
                silence.was_silent();
                silence.leads_to_list(true)
            })
        };
        (0..lists).filter_map(|_| distance()).collect()
    }

    #[test]
    fn lists_are_rarer_each_time_unless_they_show_that_something_is_missing() {
        let mut silence = Silence::default();
        // The first probe after a list, or after an event, tells that the server is ahead.
        assert_eq!(distances(&mut silence, 1), [3]);
        assert_eq!(distances(&mut silence, 6), [4, 8, 16, 32, 32, 32]);
        silence.heard();
        assert_eq!(distances(&mut silence, 1), [33], "an event is no bookmark");
        silence.missed();
        assert_eq!(distances(&mut silence, 2), [2, 4]);
        silence.missed();
        assert_eq!(distances(&mut silence, 1), [2]);
        silence = Silence::default();
        silence.forget_version();
        assert_eq!(distances(&mut silence, 1), [3]);
    }

    #[test]
    fn only_watches_between_two_probes_that_are_ahead_count() {
        let mut silence = Silence::default();
        for _ in 0..1_000 {
            silence.was_silent();
            assert!(!silence.leads_to_list(false), "the server does not move");
            assert!(!silence.leads_to_list(true), "no watch in between");
            silence.was_silent();
            silence.forget_version();
            assert!(!silence.leads_to_list(true), "there was a failure");
            silence.heard();
            assert!(!silence.leads_to_list(true), "it says something");
        }
    }
}
