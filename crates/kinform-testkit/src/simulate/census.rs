//! Counts of how often each object was created and deleted.
//!
//! ```text
//! changes of the server ─▶ Census { who lives } ─▶ Tally { object ─▶ created, deleted } ─▶ differences
//! ```
//!
//! An object whose owners are all gone, or being deleted, when it is created does not count: its
//! creator had not heard of their end yet, which no controller can avoid, and the garbage collector
//! removes it again. Nor does an object of another client (see [`super::stranger`]), until the
//! operator has made it its own.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kinform_apiserver::{Event, Stored};
use serde_json::Value;

use super::picture::generic;
use super::stranger::is_made_by_another;

/// The times that objects were created and deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(BTreeMap<String, (u32, u32)>);

/// A difference of a tally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Miscount {
    pub(crate) about: String,
    pub(crate) verb: &'static str,
    pub(crate) found: u32,
    pub(crate) expected: u32,
}

impl Tally {
    /// The differences from what is expected.
    pub(crate) fn differences(&self, expected: &Self) -> Vec<Miscount> {
        let names: BTreeSet<&String> = self.0.keys().chain(expected.0.keys()).collect();
        let mut all = Vec::new();
        for name in names {
            let of = |tally: &Self| tally.0.get(name).copied().unwrap_or_default();
            let (found, wanted) = (of(self), of(expected));
            let both = [
                ("created", found.0, wanted.0),
                ("deleted", found.1, wanted.1),
            ];
            for (verb, found, expected) in both {
                if found != expected {
                    let about = name.clone();
                    all.push(Miscount {
                        about,
                        verb,
                        found,
                        expected,
                    });
                }
            }
        }
        all
    }
}

/// The objects that live, and the counts of those that do not.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// The uids of stored objects, and whether they are being deleted.
    living: HashMap<String, Ending>,
    /// The uids of objects that were created when their owners were gone, or by another client.
    late: HashSet<String>,
    tally: Tally,
}

/// The state of a stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Not,
    Begun,
}

impl Census {
    /// The counts so far.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Forgets the counts, not who lives.
    pub(crate) fn restart(&mut self) {
        self.tally = Tally::default();
    }

    /// Takes note of a change, which is counted if `counts`.
    pub(crate) fn note(&mut self, shelf: &str, event: &Event, counts: Counts) -> Of {
        match (&event.previous, &event.current) {
            (previous, Some(object)) => {
                let value = object.value();
                let ending = match value["metadata"]["deletionTimestamp"].is_string() {
                    true => Ending::Begun,
                    false => Ending::Not,
                };
                self.living.insert(object.uid().to_owned(), ending);
                if previous.is_some() || counts == Counts::No {
                    return Of::Others;
                }
                if self.is_late(&value) || is_made_by_another(&value) {
                    self.late.insert(object.uid().to_owned());
                    return Of::Gone;
                }
                self.count(shelf, object).0 += 1;
            }
            (Some(object), None) => {
                self.living.remove(object.uid());
                if self.late.remove(object.uid()) {
                    return Of::Gone;
                }
                if counts == Counts::Yes {
                    self.count(shelf, object).1 += 1;
                }
            }
            (None, None) => {}
        }
        Of::Others
    }

    /// An object that another client had made is the operator's now: its creation counts.
    pub(crate) fn adopt(&mut self, shelf: &str, object: &Stored) {
        if self.late.remove(object.uid()) {
            self.count(shelf, object).0 += 1;
        }
    }

    fn count(&mut self, shelf: &str, object: &Stored) -> &mut (u32, u32) {
        let name = format!("{shelf} {}", generic(object.key(), &object.value()));
        self.tally.0.entry(name).or_default()
    }

    /// Returns whether an object has owners, and none of them stays.
    fn is_late(&self, value: &Value) -> bool {
        let owners = value["metadata"]["ownerReferences"].as_array();
        let owners = owners.map_or(&[][..], Vec::as_slice);
        let stays = |owner: &Value| {
            let uid = owner["uid"].as_str().unwrap_or_default();
            self.living.get(uid) == Some(&Ending::Not)
        };
        !owners.is_empty() && !owners.iter().any(stays)
    }
}

/// The object of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// It was created when its owners were gone, or by another client.
    Gone,
    Others,
}

/// The treatment of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use kinform_apiserver::{Draft, Expect, HistoryLimits, Store};
    use serde_json::json;

    use super::*;

    fn object(name: &str, base: &str, owner: &str) -> Draft {
        let mut object = json!({"metadata": {"name": name, "namespace": "d", "uid": name}});
        if !base.is_empty() {
            object["metadata"]["generateName"] = json!(base);
        }
        if !owner.is_empty() {
            object["metadata"]["ownerReferences"] = json!([{"uid": owner}]);
        }
        Draft::new(&[], object).unwrap()
    }

    /// Puts objects (name, start of a generated name, owner), removes what begins with `-`.
    fn counted(changes: &[(&str, &str, &str)]) -> Vec<Miscount> {
        let store = Store::new(HistoryLimits::default());
        let shelf = store.shelf("foos.g");
        for (name, base, owner) in changes {
            match name.strip_prefix('-') {
                Some(name) => drop(store.remove(shelf, &format!("d/{name}"), Expect::Any)),
                None => drop(store.put(shelf, object(name, base, owner), Expect::Any)),
            }
        }
        let mut census = Census::default();
        let (changes, _) = store.changes_after(0).unwrap();
        for change in &changes {
            census.note(&change.shelf, &change.event, Counts::Yes);
        }
        census.tally().differences(&Tally::default())
    }

    fn miscount(about: &str, verb: &'static str, found: u32) -> Miscount {
        Miscount {
            about: format!("foos.g {about}"),
            verb,
            found,
            expected: 0,
        }
    }

    #[test]
    fn objects_are_counted_by_generated_name() {
        let found = counted(&[("a-x", "a-", ""), ("a-y", "a-", ""), ("-a-x", "", "")]);
        assert_eq!(
            found,
            [
                miscount("d/a-*", "created", 2),
                miscount("d/a-*", "deleted", 1)
            ]
        );
    }

    #[test]
    fn a_child_that_is_created_after_the_end_of_its_owner_does_not_count() {
        let changes = [
            ("owner", "", ""),
            ("child", "", "owner"),
            ("-owner", "", ""),
            ("-child", "", ""),
            ("child", "", "owner"),
            ("-child", "", ""),
        ];
        let found = counted(&changes);
        assert!(
            found.contains(&miscount("d/child", "created", 1)),
            "{found:?}"
        );
        assert!(
            found.contains(&miscount("d/child", "deleted", 1)),
            "{found:?}"
        );
    }
}
