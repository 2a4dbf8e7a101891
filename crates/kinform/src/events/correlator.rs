//! Events of `v1`: equal ones are counted, similar ones combined, excess ones dropped.
//!
//! ```text
//! Occurrence → similar ones, ten or more? → "(combined ..)" ─┐
//!                         └── fewer ─────────────────────────┴→ seen before? → POST │ PATCH, if in budget
//! ```
//!
//! Pure: time comes in, requests go out.
//!
//! Upstream counterpart: `client-go:tools/record/events_cache.go` (`EventCorrelator`). Differences:
//! equal events ten minutes apart are two; an event that was not delivered is not counted on; of
//! ten messages the first nine go on to be counted by themselves (there, any nine).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kinform_api::mutant;
use kinform_core::time::Instant;

use super::occurrence::{NOTE_MAX, Names, Occurrence, truncate};
use super::remembered::Remembered;
use super::telling::{Budgets, Heard, Telling, Verb};

/// Events further apart are new ones. Upstream: `defaultAggregateIntervalInSeconds`.
const INTERVAL: Duration = Duration::from_secs(600);
/// BOUND: messages of similar events before they are combined. Upstream:
/// `defaultAggregateMaxEvents`.
const SIMILAR_MAX: usize = 10;
const COMBINED: &str = "(combined from similar events): ";

#[derive(Debug, Default)]
pub(super) struct Correlator {
    /// The messages of similar events.
    similar: Remembered<String, HashSet<String>>,
    seen: Remembered<String, Seen>,
    budgets: Budgets,
    names: Names,
}

/// An event that the server has.
#[derive(Clone, Debug)]
struct Seen {
    name: String,
    count: u32,
    first: Timestamp,
}

impl Correlator {
    pub(super) fn hear(&mut self, occurrence: Occurrence, now: Instant) -> Heard {
        let at = occurrence.at;
        let (key, note) = self.combine(&occurrence, now);
        let seen = match self.seen.get(&key, now, INTERVAL) {
            Some(seen) => Seen {
                count: seen.count.saturating_add(1),
                ..seen.clone()
            },
            None => Seen {
                name: self.names.next(&occurrence),
                count: 1,
                first: at,
            },
        };
        // Upstream: also one that is over budget is counted.
        self.seen.put(key.clone(), seen.clone(), now);
        if !self.budgets.take(&occurrence, now) {
            return Heard::Dropped;
        }
        let Seen { name, count, first } = seen;
        let verb = if count > 1 { Verb::Patch } else { Verb::Create };
        Heard::Tell(vec![Telling {
            key,
            verb,
            name,
            event: Arc::new(occurrence),
            note,
            count,
            first,
            last: at,
            accounts_for: 1,
        }])
    }

    /// The event is no longer there, or its first telling was over budget.
    pub(super) fn begin_anew(&mut self, telling: &mut Telling) {
        telling.verb = Verb::Create;
        telling.name = self.names.next(&telling.event);
        telling.count = 1;
        telling.first = telling.last;
        if let Some((seen, _)) = self.seen.get_mut(&telling.key) {
            seen.name.clone_from(&telling.name);
            (seen.count, seen.first) = (telling.count, telling.first);
        }
    }

    pub(super) fn failed(&mut self, telling: &Telling) {
        self.seen.remove(&telling.key);
    }

    /// The key that an event is counted under, and its note: its own, or that of many similar ones.
    fn combine(&mut self, occurrence: &Occurrence, now: Instant) -> (String, String) {
        let similar_key = occurrence.similar_key();
        let note = &occurrence.note;
        let known = self.similar.get(&similar_key, now, INTERVAL).is_some();
        let messages = self.similar.remove(&similar_key).filter(|_| known);
        let mut messages = messages.unwrap_or_default();
        messages.insert(note.clone());
        let is_combined = messages.len() >= SIMILAR_MAX && !mutant!("E2");
        if messages.len() >= SIMILAR_MAX {
            // It does not grow further.
            messages.remove(note);
        }
        self.similar.put(similar_key.clone(), messages, now);
        if is_combined {
            let mut combined = [COMBINED, note].concat();
            truncate(&mut combined, NOTE_MAX);
            (similar_key, combined)
        } else {
            (occurrence.same_key(), note.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::occurrence::tests::event;
    use super::*;

    fn similar(number: usize) -> Occurrence {
        event("my-pod", "similar", &format!("{number} similar message"))
    }

    fn repeated(times: usize, occurrence: &Occurrence) -> Vec<Occurrence> {
        vec![occurrence.clone(); times]
    }

    /// The telling of the last of several events, some seconds apart.
    fn last(events: impl IntoIterator<Item = Occurrence>, seconds: u64) -> Option<(u32, String)> {
        let mut correlator = Correlator::default();
        let mut last = None;
        for (number, occurrence) in (1..).zip(events) {
            let now = Instant::from_millis(1_000 * seconds * number);
            last = match correlator.hear(occurrence, now) {
                Heard::Tell(mut tellings) => {
                    let telling = tellings.pop().unwrap();
                    assert_eq!(telling.verb == Verb::Patch, telling.count > 1);
                    Some((telling.count, telling.note))
                }
                Heard::Dropped => None,
                Heard::Merged => panic!("nothing is merged"),
            };
        }
        last
    }

    // client-go: TestEventCorrelator, all nine scenarios; TestEventAggregatorByReasonMessageFunc
    #[test]
    fn e2_events_are_counted_combined_and_cut_off_as_upstream_does() {
        let duplicate = event("my-pod", "duplicate", "me again");
        let mut other_part = event("my-pod", "similar", "similar message");
        other_part.about.field_path = Some("spec.containers{container2}".to_owned());
        let this = event("my-pod", "similar", "similar message");
        let combined = "(combined from similar events): similar message";
        let unique = |number| event(&format!("pod-{number}"), &format!("reason-{number}"), "m");
        let similar_then = |number| (0..number).map(similar).chain([this.clone()]);
        let told = |count, note: &str| Some((count, note.to_owned()));
        // A single event.
        assert_eq!(last([duplicate.clone()], 5), told(1, "me again"));
        // The same event counts, also more often than events are combined.
        assert_eq!(last(repeated(2, &duplicate), 5), told(2, "me again"));
        assert_eq!(last(repeated(11, &duplicate), 30), told(11, "me again"));
        // Too frequent.
        assert_eq!(last(repeated(27, &duplicate), 1), None);
        // Many of different objects.
        assert_eq!(last((0..31).map(unique), 5), told(1, "m"));
        // Similar ones are combined, and the combination is counted.
        assert_eq!(last(similar_then(9), 5), told(1, combined));
        assert_eq!(last(similar_then(10), 5), told(2, combined));
        // Another part of the object is another event.
        assert_eq!(
            last([other_part, this.clone()], 5),
            told(1, "similar message")
        );
        // Similar ones that are too far apart are not combined.
        assert_eq!(last(similar_then(9), 601), told(1, "similar message"));
    }

    // client-go: TestEventSpamFilter (the default filter)
    #[test]
    fn a_budget_is_of_an_object_and_a_type_and_comes_back_one_in_five_minutes() {
        let mut correlator = Correlator::default();
        let mut heard = |number: u32, seconds: u64, warning: bool| {
            let mut occurrence = event("my-pod", &format!("reason-{number}"), "noise");
            if warning {
                occurrence.event_type = super::super::EventType::Warning;
            }
            let now = Instant::from_millis(1_000 * seconds);
            matches!(correlator.hear(occurrence, now), Heard::Tell(_))
        };
        assert_eq!(
            (0..40).filter(|&number| heard(number, 1, false)).count(),
            25
        );
        assert!(heard(50, 1, true));
        assert!(heard(51, 301, false));
        assert!(!heard(52, 302, false));
    }

    #[test]
    fn an_event_that_was_not_told_is_not_counted_on() {
        let mut correlator = Correlator::default();
        let heard = |correlator: &mut Correlator, seconds: u64| {
            let now = Instant::from_millis(1_000 * seconds);
            match correlator.hear(event("a", "Seen", "again"), now) {
                Heard::Tell(mut tellings) => tellings.pop().unwrap(),
                other => panic!("{other:?}"),
            }
        };
        let first = heard(&mut correlator, 0);
        correlator.failed(&first);
        let mut second = heard(&mut correlator, 1);
        assert_eq!((second.verb, second.count), (Verb::Create, 1));
        // client-go: TestUpdateExpiredEvent
        let third = heard(&mut correlator, 2);
        assert_eq!((third.verb, &third.name), (Verb::Patch, &second.name));
        second = third;
        correlator.begin_anew(&mut second);
        let fourth = heard(&mut correlator, 3);
        assert_eq!((fourth.count, &fourth.name), (2, &second.name));
        // Ten minutes later it is another one.
        assert_eq!(heard(&mut correlator, 604).count, 1);
    }

    #[test]
    fn a_combined_note_is_as_long_as_a_server_takes_and_not_longer() {
        let long = |number| event("a", "Long", &format!("{number}{}", "ä".repeat(511)));
        let (_, note) = last((0..10).map(long), 5).unwrap();
        assert!(note.starts_with(COMBINED) && (NOTE_MAX - 1..=NOTE_MAX).contains(&note.len()));
    }
}
