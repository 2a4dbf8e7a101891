//! Events of `events.k8s.io/v1`: equal ones are a series.
//!
//! ```text
//! first → POST · second → PATCH (count 2) · further → counted · each half hour → PATCH
//!                                              └── none for six minutes, stop → PATCH, if not told yet
//! ```
//!
//! Pure: time comes in, requests go out.
//!
//! Upstream counterpart: `client-go:tools/events/event_broadcaster.go`. Differences: the version of the
//! object is not in the key, so a series forms for an object that changes; another note ends the
//! series and begins an event (there it is lost), unless the object is noisy; a stop sends the counts
//! that the server does not have; the memory has a bound.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kinform_api::mutant;
use kinform_core::time::Instant;

use super::occurrence::{Names, Occurrence};
use super::remembered::Remembered;
use super::telling::{Budgets, Heard, Telling, Verb};

/// A series ends when there was no event of it for this long. Upstream: `finishTime`.
const FINISH: Duration = Duration::from_secs(6 * 60);
/// A series that goes on is sent this often, so that the server does not forget it. Upstream:
/// `refreshTime`.
const REFRESH: Duration = Duration::from_secs(30 * 60);
/// Series are looked through this often.
const LOOK: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Series {
    /// By the key of a series, with the time of its last event. An evicted series loses the counts that were not sent.
    open: Remembered<String, Open>,
    budgets: Budgets,
    names: Names,
    looked: Instant,
}

/// An event that may become a series, or is one.
#[derive(Debug)]
struct Open {
    event: Arc<Occurrence>,
    name: String,
    count: u32,
    last: Timestamp,
    /// The count that the server has, and the time at which it was sent.
    told: u32,
    told_at: Instant,
}

impl Series {
    pub(super) fn hear(&mut self, occurrence: Occurrence, now: Instant) -> Heard {
        let key = occurrence.series_key();
        let mut tellings = Vec::new();
        if self.open.get(&key, now, FINISH).is_some() {
            let has_note = self
                .open
                .get_mut(&key)
                .is_some_and(|(open, _)| open.event.note == occurrence.note || mutant!("E3"));
            if has_note || !self.budgets.take(&occurrence, now) {
                return self.count(&key, &occurrence, now);
            }
        } else if !self.budgets.take(&occurrence, now) {
            return Heard::Dropped;
        }
        let before = self.open.remove(&key);
        tellings.extend(before.and_then(|open| open.untold(&key)));
        let open = Open {
            name: self.names.next(&occurrence),
            count: 1,
            last: occurrence.at,
            told: 1,
            told_at: now,
            event: Arc::new(occurrence),
        };
        tellings.push(Telling {
            accounts_for: 1,
            ..open.telling(&key)
        });
        self.open.put(key, open, now);
        Heard::Tell(tellings)
    }

    /// Counts an event of a series; the second one leads to a request.
    fn count(&mut self, key: &str, occurrence: &Occurrence, now: Instant) -> Heard {
        let Some((open, seen)) = self.open.get_mut(key) else {
            return Heard::Dropped;
        };
        *seen = now;
        open.count = open.count.saturating_add(1);
        open.last = occurrence.at;
        if open.count > 2 {
            return Heard::Merged;
        }
        (open.told, open.told_at) = (open.count, now);
        Heard::Tell(vec![Telling {
            accounts_for: 1,
            ..open.telling(key)
        }])
    }

    pub(super) fn failed(&mut self, telling: &Telling) {
        if self
            .open
            .get_mut(&telling.key)
            .is_some_and(|(open, _)| open.name == telling.name)
        {
            self.open.remove(&telling.key);
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        (!self.open.is_empty()).then_some(self.looked + LOOK)
    }

    /// Sends the counts of series that ended, or that were not sent for half an hour. O(n), once a minute.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Telling> {
        self.looked = now;
        let mut tellings = Vec::new();
        for (open, seen) in self.open.entries() {
            let is_over = now.since(seen) > FINISH;
            let is_late = open.count > 1 && now.since(open.told_at) >= REFRESH;
            if is_over {
                tellings.extend(open.untold(&open.event.series_key()));
            } else if is_late {
                (open.told, open.told_at) = (open.count, now);
                tellings.push(open.telling(&open.event.series_key()));
            }
        }
        self.open.expire(now, FINISH);
        tellings
    }

    /// The counts that were not sent.
    pub(super) fn end(&mut self) -> Vec<Telling> {
        let untold = self.open.entries();
        untold
            .filter_map(|(open, _)| {
                let untold = open.untold(&open.event.series_key());
                open.told = open.count;
                untold
            })
            .collect()
    }
}

impl Open {
    fn telling(&self, key: &str) -> Telling {
        Telling {
            key: key.to_owned(),
            verb: if self.count > 1 {
                Verb::Patch
            } else {
                Verb::Create
            },
            name: self.name.clone(),
            note: self.event.note.clone(),
            event: Arc::clone(&self.event),
            count: self.count,
            first: self.event.at,
            last: self.last,
            accounts_for: 0,
        }
    }

    fn untold(&self, key: &str) -> Option<Telling> {
        (self.count > self.told && !mutant!("E4")).then(|| self.telling(key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::occurrence::tests::event;
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(1_000 * seconds)
    }

    fn told(tellings: &[Telling]) -> Vec<(Verb, u32, &str)> {
        let told = |telling: &'_ Telling| (telling.verb, telling.count);
        let with_note = tellings.iter().map(|telling| {
            let (verb, count) = told(telling);
            (verb, count, telling.note.as_str())
        });
        with_note.collect()
    }

    fn heard(series: &mut Series, note: &str, seconds: u64) -> Vec<Telling> {
        match series.hear(event("a", "Seen", note), at(seconds)) {
            Heard::Tell(tellings) => tellings,
            Heard::Merged => Vec::new(),
            Heard::Dropped => panic!("{note} is dropped"),
        }
    }

    // client-go: TestEventSeriesf, TestFinishSeries
    #[test]
    fn e4_the_second_event_begins_a_series_which_is_told_at_its_end() {
        let mut series = Series::default();
        let first = heard(&mut series, "n", 0);
        assert_eq!(told(&first), [(Verb::Create, 1, "n")]);
        let second = heard(&mut series, "n", 1);
        assert_eq!(told(&second), [(Verb::Patch, 2, "n")]);
        assert_eq!(second[0].name, first[0].name);
        for seconds in 2..5 {
            assert!(heard(&mut series, "n", seconds).is_empty());
        }
        assert!(series.due(at(364)).is_empty(), "it may go on");
        assert_eq!(told(&series.due(at(365))), [(Verb::Patch, 5, "n")]);
        assert_eq!(series.next_wake(), None, "it is forgotten");
        assert_eq!(
            told(&heard(&mut series, "n", 366)),
            [(Verb::Create, 1, "n")]
        );
        // One that was never more than an event has no end to be told.
        assert!(series.due(at(800)).is_empty());
        assert_eq!(series.next_wake(), None);
    }

    // client-go: TestRefreshExistingEventSeries
    #[test]
    fn a_series_that_goes_on_is_told_each_half_hour() {
        let mut series = Series::default();
        let mut told_at = Vec::new();
        for minute in 0..100 {
            for telling in heard(&mut series, "n", 60 * minute) {
                told_at.push((minute, telling.count));
            }
            let now = series.next_wake().unwrap().max(at(60 * minute));
            for telling in series.due(now) {
                told_at.push((minute, telling.count));
            }
        }
        let counts: Vec<_> = told_at.iter().map(|(_, count)| *count).collect();
        assert_eq!(told_at[..2], [(0, 1), (1, 2)]);
        assert_eq!(counts.len(), 5, "{told_at:?}");
    }

    #[test]
    fn an_event_six_minutes_later_is_a_new_one_also_before_anybody_looked() {
        let mut series = Series::default();
        heard(&mut series, "n", 0);
        heard(&mut series, "n", 1);
        heard(&mut series, "n", 2);
        let again = heard(&mut series, "n", 363);
        let expected = [(Verb::Patch, 3, "n"), (Verb::Create, 1, "n")];
        assert_eq!(told(&again), expected);
        assert_ne!(again[0].name, again[1].name);
    }

    #[test]
    fn e3_another_note_ends_the_series_and_is_an_event_of_its_own() {
        let mut series = Series::default();
        for seconds in 0..4 {
            heard(&mut series, "3 of 5", seconds);
        }
        let changed = heard(&mut series, "4 of 5", 5);
        let expected = [(Verb::Patch, 4, "3 of 5"), (Verb::Create, 1, "4 of 5")];
        assert_eq!(told(&changed), expected);
    }

    #[test]
    fn a_note_that_always_changes_is_counted_when_it_is_too_much() {
        let mut series = Series::default();
        let (mut created, mut counted) = (0, 0);
        for number in 0..100 {
            for telling in heard(&mut series, &number.to_string(), number / 10) {
                created += u32::from(telling.verb == Verb::Create);
            }
        }
        for telling in series.end() {
            counted += telling.count;
        }
        assert_eq!(
            (created, counted),
            (25, 76),
            "25 events, the last of which counts on"
        );
    }

    // fluxcd/kustomize-controller#1621
    #[test]
    fn e1_a_series_forms_for_an_object_that_changes() {
        let mut series = Series::default();
        let mut counts = Vec::new();
        for version in 0..2 {
            let mut occurrence = event("a", "Seen", "n");
            occurrence.about.resource_version = Some(version.to_string());
            if let Heard::Tell(tellings) = series.hear(occurrence, at(version)) {
                counts.extend(tellings.iter().map(|telling| telling.count));
            }
        }
        assert_eq!(counts, [1, 2]);
    }

    #[test]
    fn what_differs_in_more_than_note_and_time_is_another_series() {
        let mut series = Series::default();
        let first = event("a", "Seen", "n");
        let change: [fn(&mut Occurrence); 5] = [
            |it| it.reason = "Lost".to_owned(),
            |it| it.action = "Look".to_owned(),
            |it| it.event_type = super::super::EventType::Warning,
            |it| it.related = Some(event("b", "", "").about),
            |it| it.about.uid = Some("2".to_owned()),
        ];
        series.hear(first.clone(), at(0));
        for change in change {
            let mut other = first.clone();
            change(&mut other);
            let Heard::Tell(tellings) = series.hear(other, at(1)) else {
                panic!("it is told");
            };
            assert_eq!(tellings[0].count, 1);
        }
    }

    #[test]
    fn a_series_that_was_refused_is_forgotten_and_a_newer_one_is_not() {
        let mut series = Series::default();
        let first = heard(&mut series, "n", 0);
        series.failed(&first[0]);
        let second = heard(&mut series, "n", 1);
        assert_eq!(told(&second), [(Verb::Create, 1, "n")]);
        series.failed(&first[0]);
        assert_eq!(told(&heard(&mut series, "n", 2)), [(Verb::Patch, 2, "n")]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

        /// The server's counts at the end are the events that were recorded.
        #[test]
        fn e4_no_event_is_lost_or_counted_twice(
            events in prop::collection::vec((0u8..3, 0u8..3, 0u64..500), 1..80),
        ) {
            let mut series = Series::default();
            let mut server = std::collections::BTreeMap::new();
            let (mut now, mut recorded) = (0, 0);
            let tell = |server: &mut std::collections::BTreeMap<String, u32>, tellings: Vec<Telling>| {
                for Telling { name, count, verb, .. } in tellings {
                    let known = server.insert(name, count);
                    assert_eq!(known.is_some(), verb == Verb::Patch);
                    assert!(known.is_none_or(|known| known <= count));
                }
            };
            for (object, note, pause) in events {
                now += pause;
                let occurrence = event(&format!("o{object}"), "Seen", &format!("n{note}"));
                recorded += 1;
                match series.hear(occurrence, at(now)) {
                    Heard::Tell(tellings) => tell(&mut server, tellings),
                    Heard::Merged => {}
                    Heard::Dropped => recorded -= 1,
                }
                if pause % 3 == 0 && series.next_wake().is_some_and(|wake| wake <= at(now)) {
                    tell(&mut server, series.due(at(now)));
                }
            }
            tell(&mut server, series.end());
            tell(&mut server, series.end());
            prop_assert_eq!(server.values().sum::<u32>(), recorded);
        }
    }
}
