//! Compares two performances: equal, different on purpose, or different by mistake.
//!
//! ```text
//! Performance of client-go + of kinform ──segment by segment, handler by handler──▶ rules | Difference
//! ```
//!
//! In a segment without a list, both subjects must have heard exactly the log, event by event and,
//! in order, over keys as well. After a list by either subject, they are compared key by key, and
//! consecutive updates of one uid count as one. Any remaining difference must be explained by a
//! [`Rule`]. A store must hold at the end the objects of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kinform::FifoPolicy;

use super::heard::{Event, Heard};
use super::history::{Entry, Kind, State};
use super::stage::{Performance, Segment, Told};
use super::subject::Resyncs;

/// An intended difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// A list with an object as it was heard: client-go reports an update of equal versions,
    /// kinform none.
    Unchanged,
    /// A list with another uid under a name: client-go reports an update, kinform a delete whose
    /// final state is unknown, and an add.
    Recreated,
    /// An event sent twice: client-go reports an update of equal versions, kinform none.
    SaidTwice,
    /// A deletion of an object that is not stored: client-go reports it, kinform does not.
    UnknownDelete,
    /// An object that a list no longer has, whose deletion came to kinform as an event, in a
    /// streaming list or after it: kinform reports the deleted state, client-go the last state it
    /// knew, as unknown.
    DeletionSeen,
    /// Changes inside a streaming list, before its end: kinform reports each of them, client-go the
    /// remaining ones.
    ToldInside,
    /// A new list of client-go where kinform resumes the watch: kinform reports each change as the
    /// log has it, client-go only their result.
    Resumed,
}

impl Rule {
    pub(crate) const ALL: [Self; 7] = [
        Self::Unchanged,
        Self::Recreated,
        Self::SaidTwice,
        Self::UnknownDelete,
        Self::DeletionSeen,
        Self::ToldInside,
        Self::Resumed,
    ];
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unchanged => "unchanged",
            Self::Recreated => "recreated",
            Self::SaidTwice => "said-twice",
            Self::UnknownDelete => "unknown-delete",
            Self::DeletionSeen => "deletion-seen",
            Self::ToldInside => "told-inside",
            Self::Resumed => "resumed",
        })
    }
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) rules: BTreeSet<Rule>,
    /// Differences that no rule explains.
    pub(crate) differences: Vec<String>,
    /// Notifications of client-go and of kinform that were compared.
    pub(crate) heard: (usize, usize),
}

/// Compares a performance of kinform with client-go's of the same script.
pub(crate) fn compare(theirs: &Performance, ours: &Performance, policy: FifoPolicy) -> Verdict {
    let mut verdict = Verdict::default();
    let order = match policy {
        FifoPolicy::InOrder => Order::OverKeys,
        FifoPolicy::Coalescing => Order::OfEachKey,
    };
    for (who, performance, order) in [
        ("client-go", theirs, Order::OverKeys),
        ("kinform", ours, order),
    ] {
        if performance.stored != *performance.history.objects() {
            let (stored, there) = (&performance.stored, performance.history.objects());
            let text = format!("{who} stores {stored:?}, the server {there:?}");
            verdict.differences.push(text);
        }
        verdict.follow_the_log(who, performance, order);
    }
    for (handler, (theirs_told, ours_told)) in theirs.told.iter().zip(&ours.told).enumerate() {
        let pair = Pair {
            handler,
            theirs: (theirs, theirs_told),
            ours: (ours, ours_told),
        };
        verdict.hear(&pair);
    }
    if (theirs.segments.len(), theirs.told.len()) != (ours.segments.len(), ours.told.len()) {
        let text = "they did not play the same script".to_owned();
        verdict.differences.push(text);
    }
    verdict
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    OverKeys,
    OfEachKey,
}

struct Pair<'a> {
    handler: usize,
    theirs: (&'a Performance, &'a Told),
    ours: (&'a Performance, &'a Told),
}

type ByKey = BTreeMap<String, Vec<Heard>>;

fn by_key(heard: &[Heard]) -> ByKey {
    let mut keys = ByKey::new();
    for heard in heard {
        keys.entry(heard.key.clone())
            .or_default()
            .push(heard.clone());
    }
    keys
}

/// The notifications that a lossless handler receives: the objects stored when it was added, then
/// the segment's events.
fn expected(performance: &Performance, segment: &Segment, has_joined: bool) -> (ByKey, Vec<Heard>) {
    let mut known = performance.history.objects_at(segment.from);
    let initial = known.iter().filter(|_| has_joined).map(|(key, state)| {
        let initial = true;
        let heard = Heard::add(key, state);
        (key.clone(), vec![Heard { initial, ..heard }])
    });
    let initial = initial.collect();
    let mut live = Vec::new();
    let log = &performance.history.log()[segment.log.clone()];
    for entry in log.iter().filter(|entry| !entry.is_stray) {
        let (key, state) = (&entry.key, &entry.state);
        match entry.kind {
            Kind::Added => live.push(Heard::add(key, state)),
            Kind::Modified => live.extend(known.get(key).map(|old| Heard::update(key, old, state))),
            Kind::Deleted => live.push(Heard::delete(key, state)),
            Kind::Bookmark => continue,
        }
        match entry.kind {
            Kind::Deleted => known.remove(key),
            _ => known.insert(key.clone(), state.clone()),
        };
    }
    (initial, live)
}

fn without_repeats(heard: &[Heard], resyncs: Resyncs) -> Vec<Heard> {
    let keeps = |heard: &&Heard| resyncs == Resyncs::Never || !heard.is_repeat();
    heard.iter().filter(keeps).cloned().collect()
}

/// Consecutive updates of one uid as one.
fn merged(heard: Vec<Heard>) -> Vec<Heard> {
    let mut merged: Vec<Heard> = Vec::new();
    for heard in heard {
        match merged.last_mut() {
            Some(last)
                if last.event == Event::Update
                    && heard.event == Event::Update
                    && last.state.uid == heard.state.uid
                    && heard.old.as_ref() == Some(&last.state) =>
            {
                last.state = heard.state;
            }
            _ => merged.push(heard),
        }
    }
    merged
}

impl Verdict {
    /// Checks that handlers heard the log wherever the subject did not list; records differences.
    fn follow_the_log(&mut self, who: &str, performance: &Performance, order: Order) {
        for (handler, told) in performance.told.iter().enumerate() {
            for (at, heard) in told.segments.iter().enumerate() {
                let number = told.joined + at;
                let Some(segment) = performance.segments.get(number) else {
                    continue;
                };
                let was_removed = told.segments.len() == at + 1;
                if segment.listed || segment.stray || was_removed {
                    continue;
                }
                let heard = without_repeats(heard, told.resyncs);
                let (initial, live) = expected(performance, segment, at == 0);
                let count: usize = initial.values().map(Vec::len).sum();
                let (first, then) = heard.split_at(count.min(heard.len()));
                let is_same = by_key(first) == initial
                    && match order {
                        Order::OverKeys => then == live,
                        Order::OfEachKey => by_key(then) == by_key(&live),
                    };
                if !is_same {
                    let mut expected: Vec<_> = initial.into_values().flatten().collect();
                    expected.extend(live);
                    self.differences.push(format!(
                        "{who}, handler {handler}, segment {number}, which has no list\n{}{}",
                        lines("the log", &expected),
                        lines(who, &heard)
                    ));
                }
            }
        }
    }

    /// Compares the notifications of one handler of both subjects.
    fn hear(&mut self, pair: &Pair<'_>) {
        let (theirs, theirs_told) = pair.theirs;
        let (ours, ours_told) = pair.ours;
        let count = theirs_told.segments.len().max(ours_told.segments.len());
        let mut known: BTreeMap<String, State> = BTreeMap::new();
        for at in 0..count {
            let number = theirs_told.joined + at;
            let heard = |told: &Told| {
                let heard = told.segments.get(at).map_or(&[][..], Vec::as_slice);
                without_repeats(heard, told.resyncs)
            };
            let (there, here) = (heard(theirs_told), heard(ours_told));
            self.heard.0 += there.len();
            self.heard.1 += here.len();
            let none = Segment::default();
            let segment = ours.segments.get(number).unwrap_or(&none);
            let facts = Facts {
                theirs: theirs.segments.get(number).unwrap_or(&none),
                ours: segment,
                log: &ours.history.log()[segment.log.clone()],
            };
            let (there, here) = (by_key(&there), by_key(&here));
            let keys: BTreeSet<_> = there.keys().chain(here.keys()).collect();
            for key in keys {
                let part = |heard: &ByKey| heard.get(key).cloned().unwrap_or_default();
                let (there, here) = (part(&there), part(&here));
                match facts.judge(known.get(key), &there, &here) {
                    Some(rules) => self.rules.extend(rules),
                    None => self.differences.push(format!(
                        "handler {}, segment {number}, {key}; client-go {}, kinform {}\n{}{}",
                        pair.handler,
                        facts.theirs.says(),
                        facts.ours.says(),
                        lines("client-go", &there),
                        lines("kinform", &here)
                    )),
                }
                match there.last().map(Heard::known) {
                    Some(Some(state)) => drop(known.insert(key.clone(), state.clone())),
                    Some(None) => drop(known.remove(key)),
                    None => {}
                }
            }
        }
    }
}

impl Segment {
    fn says(&self) -> &'static str {
        if self.listed { "listed" } else { "went on" }
    }
}

/// The facts of a segment.
struct Facts<'a> {
    theirs: &'a Segment,
    ours: &'a Segment,
    /// The events in it.
    log: &'a [Entry],
}

impl Facts<'_> {
    /// The rules that explain the difference; `None` if no rule does.
    fn judge(
        &self,
        known: Option<&State>,
        there: &[Heard],
        here: &[Heard],
    ) -> Option<BTreeSet<Rule>> {
        let mut rules = BTreeSet::new();
        // The common beginning of both is skipped; `known` is the state after it.
        let pairs = there.iter().zip(here);
        let same = pairs.take_while(|(there, here)| there == here).count();
        let known = match there[..same].last() {
            Some(last) => last.known(),
            None => known,
        };
        let (there, here) = (&there[same..], &here[same..]);
        if there == here {
            return Some(rules);
        }
        let translated = self.translate(known, there, &mut rules);
        if translated == here {
            return Some(rules);
        }
        if !self.theirs.listed && !self.ours.listed {
            return None;
        }
        let (mut translated, merged_here) = (merged(translated), merged(here.to_vec()));
        for (told, heard) in translated.iter_mut().zip(&merged_here) {
            if self.is_deletion_seen(told, heard) {
                rules.insert(Rule::DeletionSeen);
                told.clone_from(heard);
            }
        }
        if translated == merged_here {
            return Some(rules);
        }
        let after = |heard: &[Heard]| match heard.last() {
            Some(last) => last.known().cloned(),
            None => known.cloned(),
        };
        if !self.theirs.listed || after(there) != after(here) {
            return None;
        }
        if !self.ours.listed {
            // Whether kinform heard the log is checked for each segment without a list.
            return Some(BTreeSet::from([Rule::Resumed]));
        }
        let happened = |heard: &Heard| {
            let state = &heard.state;
            known == Some(state) || self.log.iter().any(|entry| entry.state == *state)
        };
        let is_inside = self.ours.changed_inside && here.iter().all(happened);
        is_inside.then(|| BTreeSet::from([Rule::ToldInside]))
    }

    /// Returns whether kinform reports the deleted state of an object, which client-go does not
    /// know.
    fn is_deletion_seen(&self, there: &Heard, here: &Heard) -> bool {
        let both_delete = there.event == Event::Delete && here.event == Event::Delete;
        let mut log = self.log.iter();
        both_delete
            && there.final_state_unknown
            && !here.final_state_unknown
            && there.state.uid == here.state.uid
            && log.any(|e| e.kind == Kind::Deleted && e.key == here.key && e.state == here.state)
    }

    /// A notification of client-go as kinform would report it.
    fn translate(
        &self,
        known: Option<&State>,
        there: &[Heard],
        rules: &mut BTreeSet<Rule>,
    ) -> Vec<Heard> {
        let mut translated = Vec::new();
        let mut known = known.cloned();
        for heard in there {
            let key = &heard.key;
            match (&heard.event, &heard.old) {
                (Event::Update, _) if heard.is_repeat() && self.theirs.listed => {
                    rules.insert(Rule::Unchanged);
                }
                (Event::Update, _) if heard.is_repeat() && self.theirs.stray => {
                    rules.insert(Rule::SaidTwice);
                }
                (Event::Update, Some(old)) if old.uid != heard.state.uid && self.theirs.listed => {
                    rules.insert(Rule::Recreated);
                    let gone = Heard::delete(key, old);
                    translated.push(Heard {
                        final_state_unknown: true,
                        ..gone
                    });
                    translated.push(Heard::add(key, &heard.state));
                }
                (Event::Delete, _) if known.is_none() && self.theirs.stray => {
                    rules.insert(Rule::UnknownDelete);
                }
                _ => translated.push(heard.clone()),
            }
            known = heard.known().cloned();
        }
        translated
    }
}

fn lines(who: &str, heard: &[Heard]) -> String {
    let mut text = format!("    {who}:\n");
    for heard in heard {
        text.push_str(&format!("      {} {heard}\n", heard.key));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(uid: &str, version: u64) -> State {
        let uid = uid.to_owned();
        State { uid, version }
    }

    fn add(uid: &str, version: u64) -> Heard {
        Heard::add("a/x", &state(uid, version))
    }

    fn update(from: (&str, u64), to: (&str, u64)) -> Heard {
        Heard::update("a/x", &state(from.0, from.1), &state(to.0, to.1))
    }

    fn delete(uid: &str, version: u64) -> Heard {
        Heard::delete("a/x", &state(uid, version))
    }

    fn unknown(uid: &str, version: u64) -> Heard {
        let final_state_unknown = true;
        Heard {
            final_state_unknown,
            ..delete(uid, version)
        }
    }

    fn entry(kind: Kind, uid: &str, version: u64) -> Entry {
        Entry {
            at: version,
            kind,
            key: "a/x".to_owned(),
            state: state(uid, version),
            is_stray: false,
        }
    }

    /// Judges with an object u at version 1 known, which changed at 2 and was deleted at 3.
    fn check(there: &[Heard], here: &[Heard], listed: [bool; 2], expected: Option<&[Rule]>) {
        let log = [
            entry(Kind::Modified, "u", 2),
            entry(Kind::Deleted, "u", 3),
            entry(Kind::Added, "v", 4),
        ];
        let segment = |listed| Segment {
            listed,
            ..Segment::default()
        };
        let (theirs, ours) = (segment(listed[0]), segment(listed[1]));
        let facts = Facts {
            theirs: &theirs,
            ours: &ours,
            log: &log,
        };
        let rules = facts.judge(Some(&state("u", 1)), there, here);
        let expected = expected.map(|rules| rules.iter().copied().collect());
        assert_eq!(rules, expected, "{there:?}\n{here:?}");
    }

    #[test]
    fn each_rule_explains_its_own_shape() {
        let (both, theirs_only) = ([true, true], [true, false]);
        let same = update(("u", 1), ("u", 2));
        check(
            std::slice::from_ref(&same),
            std::slice::from_ref(&same),
            [false; 2],
            Some(&[]),
        );
        let repeat = update(("u", 1), ("u", 1));
        check(&[repeat], &[], both, Some(&[Rule::Unchanged]));
        let one = update(("u", 1), ("v", 4));
        let two = [unknown("u", 1), add("v", 4)];
        check(
            std::slice::from_ref(&one),
            &two,
            both,
            Some(&[Rule::Recreated]),
        );
        let seen = [delete("u", 3)];
        check(&[unknown("u", 1)], &seen, both, Some(&[Rule::DeletionSeen]));
        let each = [update(("u", 1), ("u", 2)), delete("u", 3), add("v", 4)];
        check(&[one], &each, theirs_only, Some(&[Rule::Resumed]));
    }

    #[test]
    fn what_both_begin_with_is_known_to_what_follows() {
        let initial = |heard: &[Heard]| {
            let first = Heard {
                initial: true,
                ..add("u", 1)
            };
            [&[first], heard].concat()
        };
        let one = initial(&[update(("u", 1), ("v", 4))]);
        let two = initial(&[unknown("u", 1), add("v", 4)]);
        check(&one, &two, [true; 2], Some(&[Rule::Recreated]));
        check(&one, &initial(&[add("v", 4)]), [true; 2], None);
    }

    #[test]
    fn updates_are_merged_where_somebody_listed_and_only_there() {
        let each = [update(("u", 1), ("u", 2)), update(("u", 2), ("u", 3))];
        let both = [update(("u", 1), ("u", 3))];
        check(&each, &both, [true; 2], Some(&[]));
        check(&each, &both, [false; 2], None);
    }

    #[test]
    fn what_is_lost_or_made_up_is_not_explained() {
        let one = update(("u", 1), ("v", 4));
        // Neither a delete nor an add.
        check(std::slice::from_ref(&one), &[add("v", 4)], [true; 2], None);
        check(
            std::slice::from_ref(&one),
            &[unknown("u", 1)],
            [true; 2],
            None,
        );
        check(&[one], &[], [true; 2], None);
        check(&[unknown("u", 1)], &[], [true; 2], None);
        check(&[], &[add("w", 9)], [true; 2], None);
        // A deletion that is not in the log, and a repeat where no subject listed.
        check(&[unknown("u", 1)], &[delete("u", 2)], [true; 2], None);
        check(&[update(("u", 1), ("u", 1))], &[], [false; 2], None);
    }
}
