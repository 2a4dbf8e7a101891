//! The position of a reflector in the server's history, and the versions it asks for from there.
//!
//! ```text
//! whole lists, events, bookmarks → Position → version of the next list, of the next watch
//! ```
//!
//! INVARIANT: the version moves only with an object or bookmark that was handed on (or an object
//! that was quarantined), forward within a stream, and to the version of every complete list.
//! The ladder of lists: `"0"` (any state) or unset (the most recent one) at first, as configured, the
//! last version seen afterwards, unset after a server said that this version is too old or too new.
//! A list without a version of its own (unset or `"0"`) is never a point to resume from: the
//! position is then *unanchored*, the watch that follows starts from nowhere, moves no version (its
//! first events are in the order of keys), and when it ends, everything is listed again.
//! Versions are compared where they are numbers. A server whose numbers go back from event to event,
//! again and again, counts by other rules (one counter an object): nothing is compared any more, and
//! the last version heard is the point to resume from, as upstream has it for all servers.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector.go` (`relistResourceVersion`,
//! `rewatchResourceVersion`, `lastSyncResourceVersion`).

use std::cmp::Ordering;
use std::time::Duration;

use kinform_api::{ResourceVersion, mutant};

use crate::time::Instant;

use super::config::FirstList;

/// Events from the past within `DISORDER_WINDOW` that mean that numbers say nothing.
const MAX_DISORDERS: u8 = 3;
const DISORDER_WINDOW: Duration = Duration::from_secs(600);

/// The position of a reflector.
#[derive(Clone, Debug, Default)]
pub(super) struct Position {
    /// The last version seen, if it is a point to resume from.
    version: Option<ResourceVersion>,
    /// The same as a number, where it is one: events are compared by it.
    revision: Option<u64>,
    /// The next list asks for the most recent state.
    pub(super) ask_consistent: bool,
    /// Versions are numbers that say nothing about order.
    is_unordered: bool,
    /// Events from the past, and when the first of them came.
    disorders: u8,
    disorder_began: Instant,
}

impl Position {
    /// The point to resume from.
    pub(super) fn version(&self) -> Option<&ResourceVersion> {
        self.version.as_ref()
    }

    /// The point to resume from, unset if there is none.
    pub(super) fn version_or_unset(&self) -> ResourceVersion {
        self.version.clone().unwrap_or_default()
    }

    /// Returns the version that a list in pages asks for.
    pub(super) fn for_pages(&self, first: FirstList) -> ResourceVersion {
        self.for_list(match first {
            FirstList::ByMode | FirstList::AnyVersion => ResourceVersion::zero(),
            FirstList::MostRecent => ResourceVersion::UNSET,
        })
    }

    /// Returns the version that a streaming list asks for.
    pub(super) fn for_streaming(&self, first: FirstList) -> ResourceVersion {
        if mutant!("D8") {
            return ResourceVersion::zero();
        }
        self.for_list(match first {
            FirstList::ByMode | FirstList::MostRecent => ResourceVersion::UNSET,
            FirstList::AnyVersion => ResourceVersion::zero(),
        })
    }

    fn for_list(&self, first: ResourceVersion) -> ResourceVersion {
        if self.ask_consistent {
            return ResourceVersion::UNSET;
        }
        self.version.clone().unwrap_or(first)
    }

    /// Returns whether a new version of the server can be compared with the last one.
    pub(super) fn is_comparable(&self) -> bool {
        self.revision.is_some() && !self.is_unordered
    }

    /// Returns whether an event's version lies before this one; false if they do not compare.
    pub(super) fn is_after(&self, revision: Option<u64>) -> bool {
        self.order_of(revision) == Some(Ordering::Less)
    }

    /// Returns whether an object's version is newer than this one; false if they do not compare.
    pub(super) fn is_before(&self, revision: Option<u64>) -> bool {
        self.order_of(revision) == Some(Ordering::Greater)
    }

    /// The order of a version against this one, if they compare.
    fn order_of(&self, revision: Option<u64>) -> Option<Ordering> {
        let mine = self.revision.filter(|_| !self.is_unordered)?;
        Some(revision?.cmp(&mine))
    }

    /// Returns whether a list's or a bookmark's version lies before this one.
    pub(super) fn is_after_version(&self, version: &ResourceVersion) -> bool {
        let mine = self.version.as_ref().filter(|_| !self.is_unordered);
        mine.is_some_and(|mine| matches!(version.compare(mine), Ok(Ordering::Less)))
    }

    /// An event came from the past. Returns whether that is the server's way.
    pub(super) fn count_disorder(&mut self, now: Instant) -> bool {
        if self.disorders == 0 || now.since(self.disorder_began) >= DISORDER_WINDOW {
            self.disorder_began = now;
            self.disorders = 0;
        }
        self.disorders += 1;
        self.is_unordered = self.disorders > MAX_DISORDERS;
        self.is_unordered
    }

    /// An event or a bookmark was handed on.
    pub(super) fn advance(&mut self, version: &str, revision: Option<u64>) {
        debug_assert!(!self.is_after(revision), "a position moves forward");
        if self.version.is_some() && !version.is_empty() && version != "0" {
            self.version = Some(version.into());
            self.revision = revision;
        }
    }

    /// A whole list was handed on. Returns the old version if the new one lies before it.
    pub(super) fn anchor(&mut self, version: &ResourceVersion) -> Option<ResourceVersion> {
        let went_back = self.is_after_version(version);
        let usable = !version.is_unset() && !version.is_zero();
        let before = std::mem::replace(&mut self.version, usable.then(|| version.clone()));
        self.revision = version.parsed();
        self.ask_consistent = false;
        before.filter(|_| went_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_of_versions() {
        let mut position = Position::default();
        let check = |position: &Position, expected: [&str; 2]| {
            let first = FirstList::ByMode;
            let found = [position.for_pages(first), position.for_streaming(first)];
            assert_eq!(found, expected.map(ResourceVersion::from));
        };
        check(&position, ["0", ""]);
        assert_eq!(position.anchor(&"7".into()), None);
        position.advance("9", Some(9));
        check(&position, ["9", "9"]);
        position.ask_consistent = true;
        check(&position, ["", ""]);
        assert_eq!(position.anchor(&"5".into()), Some("9".into()));
        assert!(!position.ask_consistent);
        assert_eq!(position.version(), Some(&"5".into()));
    }

    #[test]
    fn a_list_without_a_version_is_no_anchor() {
        for nothing in ["", "0"] {
            let mut position = Position::default();
            position.anchor(&"7".into());
            position.anchor(&nothing.into());
            position.advance("9", Some(9));
            assert_eq!(position.version(), None, "{nothing:?}");
            assert!(!position.is_comparable());
        }
    }

    #[test]
    fn versions_that_are_no_numbers_are_kept_and_not_compared() {
        let mut position = Position::default();
        position.anchor(&"7".into());
        position.advance("abc", None);
        assert_eq!(position.version(), Some(&"abc".into()));
        assert!(!position.is_after(Some(1)) && !position.is_after_version(&"1".into()));
    }
}
