//! The objects that a story is about: one object, and all that it owns, as they come and go.
//!
//! ```text
//! uid, uids of owners ──▶ does it belong?        a new member ──▶ those that wait for it
//! ```
//!
//! Pure. Types are watched apart, so an object may be heard of before its owner: it waits until the
//! owner comes.
//!
//! BOUND: 100,000 objects that wait; further ones are not told of if their owner comes later.

use std::collections::{HashMap, HashSet};

const MAX_WAITING: usize = 100_000;

/// The members, and the objects whose owners are none.
#[derive(Debug)]
pub(crate) struct Family<T> {
    members: HashSet<String>,
    /// The uid of an owner, and the objects that wait for it.
    waiting: HashMap<String, Vec<(String, T)>>,
    waiting_count: usize,
}

impl<T> Family<T> {
    /// The family of one object.
    pub(crate) fn of(uid: &str) -> Self {
        Self {
            members: HashSet::from([uid.to_owned()]),
            waiting: HashMap::new(),
            waiting_count: 0,
        }
    }

    /// Returns whether an object belongs to it.
    pub(crate) fn has(&self, uid: &str) -> bool {
        self.members.contains(uid)
    }

    /// Hears of an object. Returns it, if it belongs, and those that waited for it, owners first.
    pub(crate) fn hear(&mut self, uid: &str, owners: &[String], item: T) -> Vec<T> {
        let belongs = self.has(uid) || owners.iter().any(|owner| self.has(owner));
        if !belongs {
            // Under its first owner: that is the one that controls it.
            if let Some(owner) = owners.first().filter(|_| self.waiting_count < MAX_WAITING) {
                let waiting = self.waiting.entry(owner.clone()).or_default();
                waiting.retain(|(waiting, _)| waiting != uid);
                waiting.push((uid.to_owned(), item));
                self.waiting_count += 1;
            }
            return Vec::new();
        }
        let mut told = Vec::new();
        let mut next = vec![(uid.to_owned(), item)];
        while let Some((uid, item)) = next.pop() {
            if let Some(waiting) = self.waiting.remove(&uid) {
                self.waiting_count = self.waiting_count.saturating_sub(waiting.len());
                next.extend(waiting);
            }
            self.members.insert(uid);
            told.push(item);
        }
        told
    }

    /// Forgets an object that is gone. Returns whether it belonged.
    pub(crate) fn forget(&mut self, uid: &str) -> bool {
        self.members.remove(uid)
    }

    /// The number of members.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(uids: &[&str]) -> Vec<String> {
        uids.iter().map(|uid| (*uid).to_owned()).collect()
    }

    #[test]
    fn objects_belong_by_their_owners_in_any_order() {
        let mut family = Family::of("d");
        assert_eq!(family.hear("p", &owners(&["r"]), "pod"), [""; 0]);
        assert_eq!(family.hear("q", &owners(&["other"]), "other pod"), [""; 0]);
        assert_eq!(family.hear("r", &owners(&["d"]), "set"), ["set", "pod"]);
        assert_eq!(family.hear("p2", &owners(&["r"]), "pod 2"), ["pod 2"]);
        assert_eq!(
            family.hear("x", &owners(&["other", "d"]), "shared"),
            ["shared"]
        );
        assert_eq!(family.hear("n", &[], "unowned"), [""; 0]);
        assert_eq!(family.len(), 5);
        assert!(family.forget("p") && !family.has("p"));
        assert!(!family.forget("q"));
    }

    #[test]
    fn an_object_that_waits_is_told_of_once_in_its_last_state() {
        let mut family = Family::of("d");
        family.hear("p", &owners(&["r"]), "old");
        family.hear("p", &owners(&["r"]), "new");
        assert_eq!(family.hear("r", &owners(&["d"]), "set"), ["set", "new"]);
    }
}
