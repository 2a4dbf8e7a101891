//! The promises that are looked at after each step, beside those that listeners and reconciles check.
//!
//! ```text
//! after each step: leaders, commits (terms, children, finalizers), caches, honest states ─▶ findings
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use crate::finding::Invariant;
use crate::history::{Commit, History, MAPS, SECRETS};
use crate::run::Run;
use crate::settings::{Fence, Style};
use crate::shared::{Shared, lock};

/// The time after which a process that hears nothing must say so: two bookmarks and a half of silence,
/// and a watch that is tried once more.
const DARK: Duration = Duration::from_secs(200);
/// BOUND: requests of a process a second, watches and leases left out, over its life.
const REQUESTS: u64 = 60;

impl Run<'_> {
    /// Looks at everything that can be told at once; at the caches, too, if closely.
    pub(crate) fn look(&mut self, closely: bool) {
        self.bury();
        one_leader(&self.shared);
        self.commits();
        if self.cluster.has_lost_label() {
            let what = "the lease has lost the label of somebody else";
            self.shared.find(Invariant::I25, what);
        }
        let seconds = self.shared.now().as_secs() + 10;
        let requests = self
            .shared
            .requests
            .load(std::sync::atomic::Ordering::Relaxed);
        let most = seconds * REQUESTS * self.replicas.len() as u64;
        if requests > most {
            let what = format!("{requests} requests in {seconds} s");
            self.shared.find(Invariant::I26, what);
        }
        for replica in self.replicas.iter_mut().flatten() {
            if replica.wire.dark_for() > DARK {
                for cache in &replica.caches {
                    let state = cache.informer.state();
                    if state.is_synced() {
                        let dark = replica.wire.dark_for();
                        let what =
                            format!("{}: {state}, and nothing has come for {dark:?}", cache.name);
                        self.shared.find(Invariant::I26, what);
                    }
                }
            }
            if closely && !replica.wire.is_lied_to() {
                for cache in &mut replica.caches {
                    cache.look(&self.shared);
                }
            }
        }
    }

    /// Looks at what was committed since.
    fn commits(&mut self) {
        let (commits, is_torn) = lock_fresh(&self.shared);
        if is_torn {
            self.shared.find(
                Invariant::Harness,
                "changes were forgotten before they were read",
            );
        }
        let is_restored = self.shared.history().epoch() > 1;
        for commit in commits {
            if is_restored {
                continue;
            }
            if self.script.settings.fencing == Fence::Hard {
                self.in_term(&commit);
            }
            if self.script.settings.style == Style::Generate {
                self.one_child(&commit);
            }
            if self.script.settings.finalizer {
                self.cleaned(&commit);
            }
        }
    }

    /// With a hard fence, no write of a term comes after one of a newer term.
    fn in_term(&mut self, commit: &Commit) {
        let Some(term) = commit.after.as_ref().and_then(|fact| fact.term.as_deref()) else {
            return;
        };
        let is_same = commit
            .before
            .as_ref()
            .is_some_and(|before| before.term.as_deref() == Some(term));
        let Some(number) = term
            .split(' ')
            .nth(2)
            .and_then(|number| number.parse::<u64>().ok())
        else {
            return;
        };
        // The object may carry its last stamp through the write of another.
        if !is_same && number < self.term {
            let what = format!(
                "{} was written in term {number}, after one of term {}",
                commit.key, self.term
            );
            self.shared.find(Invariant::I25, what);
        }
        self.term = self.term.max(number);
    }

    /// A config map has one copy.
    fn one_child(&self, commit: &Commit) {
        let (SECRETS, None, Some(made)) = (commit.shelf, &commit.before, &commit.after) else {
            return;
        };
        let Some(owner) = &made.owner else {
            return;
        };
        let history = self.shared.history();
        let children = history
            .now(SECRETS)
            .filter(|(_, fact)| fact.owner.as_ref() == Some(owner));
        let children: Vec<String> = children.map(|(key, _)| key.to_owned()).collect();
        let lives = history.now(MAPS).any(|(_, fact)| fact.uid == *owner);
        drop(history);
        if children.len() > 1 && lives {
            let what = format!("one config map has the copies {children:?}");
            self.shared.find(Invariant::I27, what);
        }
    }

    /// An object with the finalizer goes after its cleanup.
    fn cleaned(&self, commit: &Commit) {
        let (MAPS, Some(before), after) = (commit.shelf, &commit.before, &commit.after) else {
            return;
        };
        if before.has_finalizer && !before.is_terminating && after.is_none() {
            let what = format!("{} went at once, with its finalizer", commit.key);
            self.shared.find(Invariant::I17, what);
        }
        let is_released = after.as_ref().is_none_or(|after| !after.has_finalizer);
        if before.has_finalizer && before.is_terminating && is_released {
            let is_clean = lock(&self.shared.cleaned).contains(&before.uid);
            if !is_clean {
                let what = format!(
                    "the finalizer of {} was removed before its cleanup",
                    commit.key
                );
                self.shared.find(Invariant::I17, what);
            }
        }
    }
}

fn lock_fresh(shared: &Shared) -> (Vec<Commit>, bool) {
    shared.history().take_fresh()
}

/// At most one process leads.
pub(crate) fn one_leader(shared: &Shared) {
    let leaders = shared.leaders();
    if leaders.len() > 1 && shared.history().epoch() == 1 {
        shared.find(
            Invariant::I25,
            format!("processes {leaders:?} lead at once"),
        );
    }
}

/// The copies that are wrong at the end, in words; `None` if there are none.
///
/// A storage that was restored may have the children of several lives of an object: a name of the
/// server's choice is no protection then.
pub(crate) fn uncopied(history: &History) -> Option<String> {
    let mut copies: BTreeMap<&str, Vec<(&str, Option<&str>)>> = BTreeMap::new();
    for (key, fact) in history.now(SECRETS) {
        if let Some(owner) = &fact.owner {
            copies
                .entry(owner)
                .or_default()
                .push((key, fact.number.as_deref()));
        }
    }
    for (key, fact) in history.now(MAPS) {
        let own = copies.remove(fact.uid.as_str()).unwrap_or_default();
        match own[..] {
            _ if fact.is_terminating => return Some(format!("{key} is still being deleted")),
            [(_, number)] if number == fact.number.as_deref() => {}
            [_, _, ..] if history.epoch() > 1 => {}
            _ => {
                let number = fact.number.as_deref();
                return Some(format!("{key} has {number:?}, its copies are {own:?}"));
            }
        }
    }
    let left = copies.values().flatten().next()?;
    Some(format!("{left:?} is the copy of a config map that is gone"))
}
