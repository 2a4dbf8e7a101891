//! Completion indexes as a Job's status states them: intervals in order.
//!
//! ```text
//! "0,2-4,7" + completions ─▶ Intervals ─▶ has, total, with more indexes ─▶ "0,2-4,7"
//! ```
//!
//! INVARIANT: intervals are in order and do not touch each other. Costs grow with their number, never
//! with the number of indexes.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/job/indexed_job_utils.go` (`orderedIntervals`).

use std::fmt;

/// A set of indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Intervals(Vec<(i32, i32)>);

impl Intervals {
    /// Parses the indexes below `completions`; an interval that cannot be read is left out.
    pub(super) fn parse(text: &str, completions: i32) -> Self {
        let mut parsed = Self::default();
        for interval in text.split(',').filter(|interval| !interval.is_empty()) {
            let (first, last) = interval.split_once('-').unwrap_or((interval, interval));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else {
                continue;
            };
            if first >= completions {
                break;
            }
            parsed.push((first, last.min(completions - 1)));
        }
        parsed
    }

    /// Adds an interval that begins behind the one before it, or within it.
    fn push(&mut self, (first, last): (i32, i32)) {
        match self.0.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => self.0.push((first, last)),
        }
    }

    /// The indexes of both sets.
    pub(super) fn merged(&self, other: &Self) -> Self {
        let mut all: Vec<(i32, i32)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut merged = Self::default();
        all.into_iter().for_each(|interval| merged.push(interval));
        merged
    }

    /// The number of indexes.
    pub(super) fn total(&self) -> i32 {
        let lengths = self.0.iter().map(|(first, last)| last - first + 1);
        lengths.fold(0, i32::saturating_add)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an index is in the set.
    pub(super) fn has(&self, index: i32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// The number of indexes that are in both sets.
    pub(super) fn common(&self, other: &Self) -> i32 {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0;
        while let (Some(our), Some(their)) = (ours.peek(), theirs.peek()) {
            common += (our.1.min(their.1) - our.0.max(their.0) + 1).max(0);
            match our.1 <= their.1 {
                true => drop(ours.next()),
                false => drop(theirs.next()),
            }
        }
        common
    }

    /// The first `count` indexes below `completions` that are not in the set.
    pub(super) fn missing(&self, count: usize, completions: i32) -> Vec<i32> {
        let ends = self.0.iter().copied();
        let mut missing = Vec::new();
        let mut candidate = 0;
        for (first, last) in ends.chain([(completions, completions)]) {
            let room = count - missing.len();
            missing.extend((candidate..first.min(completions)).take(room));
            candidate = candidate.max(last.saturating_add(1));
        }
        missing
    }
}

impl FromIterator<i32> for Intervals {
    fn from_iter<I: IntoIterator<Item = i32>>(indexes: I) -> Self {
        let mut indexes: Vec<i32> = indexes.into_iter().collect();
        indexes.sort_unstable();
        let mut intervals = Self::default();
        for index in indexes {
            intervals.push((index, index));
        }
        intervals
    }
}

impl fmt::Display for Intervals {
    /// Two indexes in a row are two, not an interval.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // kubernetes: TestCalculateSucceededIndexes, TestParseIndexesFromString
    #[test]
    fn indexes_are_read_and_written() {
        let check = |text: &str, completions: i32, expected: &str, total: i32| {
            let parsed = Intervals::parse(text, completions);
            assert_eq!(
                (parsed.to_string().as_str(), parsed.total()),
                (expected, total),
                "{text}"
            );
        };
        check("", 5, "", 0);
        check("0", 5, "0", 1);
        check("0,1", 5, "0,1", 2);
        check("0,1,2", 5, "0-2", 3);
        check("0-2,4", 5, "0-2,4", 4);
        check("0-2,4-7,9", 5, "0-2,4", 4);
        check("0-2,4-7,9", 6, "0-2,4,5", 5);
        check("5", 5, "", 0);
        check("1,x,3-y,4", 9, "1,4", 2);
    }

    #[test]
    fn sets_are_merged_in_order() {
        let check = |one: &str, other: &str, expected: &str, common: i32| {
            let (one, other) = (Intervals::parse(one, 100), Intervals::parse(other, 100));
            for (one, other) in [(&one, &other), (&other, &one)] {
                assert_eq!(one.merged(other).to_string(), expected, "{one} {other}");
                assert_eq!(one.common(other), common, "{one} {other}");
            }
        };
        check("", "", "", 0);
        check("1-3", "", "1-3", 0);
        check("1-3", "4-6", "1-6", 0);
        check("1-3,8", "2-5", "1-5,8", 2);
        check("0-9", "2,4,6-8", "0-9", 5);
        check("0-4,6-9", "3-7", "0-9", 4);
    }

    #[test]
    fn members_and_those_that_are_missing() {
        let some = Intervals::parse("1-3,5", 100);
        let members = (0..7).filter(|index| some.has(*index));
        assert_eq!(members.collect::<Vec<_>>(), [1, 2, 3, 5]);
        assert_eq!(some.missing(10, 8), [0, 4, 6, 7]);
        assert_eq!(some.missing(2, 8), [0, 4]);
        assert_eq!(some.missing(0, 8), [0; 0]);
        assert_eq!(Intervals::default().missing(2, 1), [0]);
        assert_eq!(
            [7, 2, 3, 3].into_iter().collect::<Intervals>().to_string(),
            "2,3,7"
        );
    }
}
