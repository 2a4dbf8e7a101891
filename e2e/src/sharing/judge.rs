//! The judgement of each write: its term must be that of the owner of its shard.
//!
//! ```text
//! entries, in the order of their versions ─▶ judge ─▶ Verdict: writes, terms, violations
//! ```
//!
//! A write with the term T to a key is right if, at its version, the lease of the key's shard names T as
//! the owner's, a member holds its lease in T, and no replica of another name has written in T. So two
//! replicas never write to a key under terms that overlap or under one term, and no term writes again
//! after another one took the shard. Pure: it sees only entries.
//!
//! A write that tells no term is counted, and not judged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kinform::Shards;

use super::journal::{Entry, Fact};
use super::{SHARDS, Term};

/// The entries of a violation's key and shard in its report, before it and after it.
const AROUND: usize = 8;
/// BOUND: violations with a report.
const MOST: usize = 5;

/// The judgement of a run.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) writes: usize,
    pub(crate) terms: usize,
    pub(crate) violations: usize,
    /// The first of them, with the entries around them.
    pub(crate) told: Vec<String>,
    /// The longest time between two writes to one key.
    pub(crate) longest_gap: Duration,
    /// The entries around the later of the two.
    pub(crate) around_gap: String,
}

/// Judges the entries of a journal.
pub(crate) fn judge(mut entries: Vec<Entry>) -> Verdict {
    entries.sort_by_key(|entry| entry.version);
    let mut verdict = Verdict::default();
    let (mut members, mut owners) = (BTreeMap::new(), BTreeMap::new());
    // The name under which each term wrote first.
    let mut terms: BTreeMap<&Term, &str> = BTreeMap::new();
    let mut last: BTreeMap<&str, Instant> = BTreeMap::new();
    let mut longest = None;
    for (at, entry) in entries.iter().enumerate() {
        match &entry.fact {
            Fact::Member { lease, term } => drop(members.insert(lease, term.as_ref())),
            Fact::Shard { shard, owner } => drop(owners.insert(*shard, owner.as_ref())),
            Fact::Other => {}
            Fact::Gone { key } => drop(last.remove(key.as_str())),
            Fact::Write {
                key, name, term, ..
            } => {
                verdict.writes += 1;
                if let Some(before) = last.insert(key, entry.at) {
                    let gap = entry.at.saturating_duration_since(before);
                    if gap > verdict.longest_gap {
                        verdict.longest_gap = gap;
                        longest = Some((at, key));
                    }
                }
                let Some(term) = term else { continue };
                let first = *terms.entry(term).or_insert(name);
                let shard = shard_of(key);
                let owner = owners.get(&shard).copied().flatten();
                let is_held = members.values().flatten().any(|held| *held == term);
                if owner == Some(term) && is_held && first == name {
                    continue;
                }
                verdict.violations += 1;
                if verdict.told.len() < MOST {
                    let held = if is_held { "" } else { ", which nobody holds" };
                    let owner = owner.map_or("nobody's".to_owned(), ToString::to_string);
                    verdict.told.push(format!(
                        "a write of {name} to {key} in {first}'s term {term}{held}; shard {shard} is {owner}:\n{}",
                        around(&entries, at, key, shard)
                    ));
                }
            }
        }
    }
    verdict.terms = terms.len();
    verdict.around_gap = longest.map_or_else(String::new, |(at, key)| {
        format!("{key}:\n{}", around(&entries, at, key, shard_of(key)))
    });
    verdict
}

/// The shard of a key.
fn shard_of(key: &str) -> u32 {
    let shards = Shards::by_namespace(SHARDS).expect("the number is in its bounds");
    let namespace = key.split('/').next().unwrap_or_default();
    shards.shard_of(namespace).0
}

/// The last states of a key, and the last of its shard, seen from the end.
pub(crate) fn last_of(entries: &[Entry], key: &str) -> String {
    let shard = shard_of(key);
    let of_shard =
        |entry: &&Entry| matches!(&entry.fact, Fact::Shard { shard: of, .. } if *of == shard);
    let of_key = |entry: &&Entry| match &entry.fact {
        Fact::Write { key: of, .. } | Fact::Gone { key: of } => of == key,
        _ => false,
    };
    let newest = || entries.iter().rev();
    let mut lines: Vec<_> = newest().filter(of_key).take(AROUND).collect();
    lines.extend(newest().filter(of_shard).take(AROUND));
    lines.sort_by_key(|entry| entry.version);
    lines
        .into_iter()
        .map(|entry| line(entry, Instant::now()))
        .collect()
}

/// The entries of a key, its shard and all members before and after one of them.
fn around(entries: &[Entry], at: usize, key: &str, shard: u32) -> String {
    let is_of = |entry: &&Entry| match &entry.fact {
        Fact::Member { .. } => true,
        Fact::Shard { shard: of, .. } => *of == shard,
        Fact::Write { key: of, .. } | Fact::Gone { key: of } => of == key,
        Fact::Other => false,
    };
    let before = entries[..at].iter().rev().filter(is_of).take(AROUND);
    let mut lines: Vec<_> = before.collect();
    lines.reverse();
    lines.extend(entries[at..].iter().filter(is_of).take(AROUND));
    let now = entries[at].at;
    lines.into_iter().map(|entry| line(entry, now)).collect()
}

/// An entry, with its time before or after another one.
fn line(entry: &Entry, now: Instant) -> String {
    let early = now.saturating_duration_since(entry.at).as_secs_f64();
    let late = entry.at.saturating_duration_since(now).as_secs_f64();
    format!(
        "  {:+.3} s {} {:?}\n",
        late - early,
        entry.version,
        entry.fact
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "1-team/a";

    fn term(of: char) -> Term {
        Term {
            uid: "uid".to_owned(),
            transitions: of.to_string(),
        }
    }

    fn write(of: char, by: char) -> Fact {
        Fact::Write {
            key: KEY.to_owned(),
            name: by.to_string(),
            term: Some(term(of)),
            seen: String::new(),
            beat: String::new(),
        }
    }

    /// A letter: `+a` member a holds its lease, `-a` no more; `=a` the shard is a's; `.` nobody's;
    /// `a` a write of a;
    /// `!ab` a write of b in a's term.
    fn entries(script: &str) -> Vec<Entry> {
        let mut letters = script.chars();
        let mut facts = Vec::new();
        while let Some(letter) = letters.next() {
            let mut next = || letters.next().unwrap();
            facts.push(match letter {
                '+' | '-' => {
                    let of = next();
                    Fact::Member {
                        lease: of.to_string(),
                        term: (letter == '+').then(|| term(of)),
                    }
                }
                '=' => Fact::Shard {
                    shard: shard_of(KEY),
                    owner: Some(term(next())),
                },
                '.' => Fact::Shard {
                    shard: shard_of(KEY),
                    owner: None,
                },
                '!' => {
                    let of = next();
                    write(of, next())
                }
                of => write(of, of),
            });
        }
        let at = Instant::now();
        let entry = |(version, fact)| Entry { version, at, fact };
        (1..).zip(facts).map(entry).collect()
    }

    #[test]
    fn a_write_is_right_if_its_term_owns_the_shard_and_runs() {
        for (script, violations) in [
            ("+a=aaa", 0),
            ("+a=aaa+b.=bbb", 0),
            ("+a=aa+b.=bb.=aa", 0),
            ("+aa", 1),
            ("+a=aa.a", 1),
            ("+a+b=aab", 1),
            ("+a+b=aa=bba", 1),
            ("+a=aa-aa", 1),
            ("+a=a-a+b=bbab", 1),
            ("+a=aa!ab", 1),
            ("+a=aa!aba!ab", 2),
        ] {
            let verdict = judge(entries(script));
            assert_eq!(
                verdict.violations, violations,
                "{script}: {:?}",
                verdict.told
            );
        }
    }

    #[test]
    fn entries_of_two_watches_are_judged_in_the_order_of_their_versions() {
        let mut mixed = entries("+a=aaa+b.=bbb");
        mixed.reverse();
        let verdict = judge(mixed);
        assert_eq!(
            (verdict.violations, verdict.writes, verdict.terms),
            (0, 4, 2)
        );
    }
}
