//! A failing script becomes a short one that fails in the same way.
//!
//! ```text
//! Script ─▶ all but the last steps, all steps of a kind, halves, quarters, .. left out ─▶ still fails? ─▶ Script
//! ```
//!
//! The method is that of delta debugging. A run that breaks the same promise counts, whatever it
//! says about it. A step that is left out moves all delays that are drawn after it, and a finding
//! that needs two things at one time is lost by that alone: so each try is played with other seeds,
//! too, and the seed that still fails is kept in the script.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::finding::Finding;
use crate::run::{Keep, play};
use crate::script::{Act, Script, Step};

/// The seeds of a try: the script's own, and the next ones.
const SEEDS: u64 = 4;
/// A try that leaves out so few steps has half of them.
const FEW: usize = 4;
/// The first number of last steps that is tried alone; the next ones are twice the one before.
const LAST: usize = 8;

/// A failing script, and its finding.
#[derive(Clone, Debug)]
pub struct Failing {
    /// The script.
    pub script: Script,
    /// The promise that it breaks.
    pub finding: Finding,
}

/// Makes a failing script shorter, within a time, on this number of threads.
#[must_use]
pub fn shrink(failing: Failing, within: Duration, threads: usize) -> Failing {
    let mut shrinking = Shrinking {
        end: Instant::now() + within,
        threads: threads.max(1),
        best: failing,
    };
    let mut before = usize::MAX;
    while shrinking.best.script.steps.len() < before && !shrinking.is_over() {
        before = shrinking.best.script.steps.len();
        shrinking.cut_the_end();
        shrinking.keep_the_last();
        shrinking.leave_out_kinds();
        shrinking.leave_out();
    }
    shrinking.best
}

struct Shrinking {
    end: Instant,
    threads: usize,
    best: Failing,
}

impl Shrinking {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Takes a script if it still fails in the same way, with its seed or one of the next.
    fn try_one(&mut self, steps: Vec<Step>) -> bool {
        let has_process = steps.iter().any(|step| matches!(step.act, Act::Start(_)));
        if !has_process {
            return false;
        }
        let left_out = self.best.script.steps.len() - steps.len();
        let seeds = if left_out > FEW { SEEDS } else { SEEDS / 2 };
        let first = self.best.script.seed;
        let scripts: Vec<Script> = (0..seeds)
            .map(|number| Script {
                seed: first.wrapping_add(number),
                steps: steps.clone(),
                ..self.best.script.clone()
            })
            .collect();
        for some in scripts.chunks(self.threads) {
            if self.is_over() {
                return false;
            }
            if let Some(failing) = self.first_of(some) {
                self.best = failing;
                return true;
            }
        }
        false
    }

    /// The first of these scripts that fails in the same way; they are played at the same time.
    fn first_of(&self, scripts: &[Script]) -> Option<Failing> {
        let play = |script: &Script| {
            let finding = play(script, Keep::Hash).finding?;
            let is_same = finding.invariant == self.best.finding.invariant;
            let script = script.clone();
            is_same.then_some(Failing { script, finding })
        };
        let (own, others) = scripts.split_first()?;
        std::thread::scope(|scope| {
            let played: Vec<_> = others
                .iter()
                .map(|script| scope.spawn(move || play(script)))
                .collect();
            let own = play(own);
            let others = played
                .into_iter()
                .map(|thread| thread.join().ok().flatten());
            // All of them have ended before the first is taken: one build shrinks a script in one way.
            let all: Vec<_> = std::iter::once(own).chain(others).collect();
            all.into_iter().flatten().next()
        })
    }

    /// Steps after the finding did not lead to it.
    fn cut_the_end(&mut self) {
        let at = self.best.finding.at;
        let is_before = |step: &Step| Duration::from_millis(step.at) <= at;
        let steps = &self.best.script.steps;
        let kept: Vec<Step> = steps
            .iter()
            .filter(|step| is_before(step))
            .cloned()
            .collect();
        if kept.len() < steps.len() {
            self.try_one(kept);
        }
    }

    /// Most of what led to a finding was just before it: keeps the last steps, as few as still fail,
    /// and those that start processes.
    fn keep_the_last(&mut self) {
        let mut last = LAST;
        while last * 2 < self.best.script.steps.len() && !self.is_over() {
            let steps = &self.best.script.steps;
            let first = steps.len() - last;
            let is_kept = |at: usize, step: &Step| at >= first || matches!(step.act, Act::Start(_));
            let kept: Vec<Step> = steps
                .iter()
                .enumerate()
                .filter(|(at, step)| is_kept(*at, step))
                .map(|(_, step)| step.clone())
                .collect();
            if kept.len() < steps.len() && self.try_one(kept) {
                return;
            }
            last *= 2;
        }
    }

    /// Leaves out all steps of a kind: the most frequent first.
    fn leave_out_kinds(&mut self) {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for step in &self.best.script.steps {
            for kind in kinds_of(&step.act) {
                *kinds.entry(kind).or_default() += 1;
            }
        }
        let mut kinds: Vec<(String, usize)> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (kind, _) in kinds {
            let steps = &self.best.script.steps;
            let is_other = |step: &&Step| !kinds_of(&step.act).contains(&kind);
            let kept: Vec<Step> = steps.iter().filter(is_other).cloned().collect();
            if kept.len() < steps.len() {
                self.try_one(kept);
            }
            if self.is_over() {
                return;
            }
        }
    }

    /// Leaves out ever smaller parts.
    fn leave_out(&mut self) {
        let mut part = self.best.script.steps.len().div_ceil(2);
        while part > 0 {
            let mut at = 0;
            while at < self.best.script.steps.len() {
                if self.is_over() {
                    return;
                }
                let steps = &self.best.script.steps;
                let end = (at + part).min(steps.len());
                let mut kept = steps[..at].to_vec();
                kept.extend_from_slice(&steps[end..]);
                if !self.try_one(kept) {
                    at = end;
                }
            }
            part /= 2;
        }
    }
}

/// The kinds of a step: what happens, to which process, and about which object.
fn kinds_of(act: &Act) -> Vec<String> {
    let first_word = |what: &dyn std::fmt::Debug| {
        let text = format!("{what:?}");
        text.split(['(', ' ']).next().unwrap_or_default().to_owned()
    };
    let process = |number: &usize| format!("process {number}");
    match act {
        Act::Write(change) => vec![
            "write".to_owned(),
            format!("write {:?}", change.verb),
            format!("write {}", change.namespace),
            format!("write {}/{}", change.namespace, change.name),
        ],
        Act::Server(number, trouble) => vec![
            format!("server {number}"),
            "server".to_owned(),
            format!("server {}", first_word(trouble)),
        ],
        Act::Network(number, what, _) => vec![
            process(number),
            "network".to_owned(),
            format!("network {}", first_word(what)),
        ],
        Act::Trap(number, ..)
        | Act::Switch(number, ..)
        | Act::Start(number)
        | Act::Crash(number)
        | Act::Stop(number)
        | Act::Pause(number, _)
        | Act::Handler(number, _)
        | Act::Namespace(number, ..)
        | Act::Relist(number) => vec![process(number), first_word(act)],
        Act::Lease(_) => vec!["lease".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::script;

    #[test]
    fn each_step_has_a_kind_and_no_kind_is_all_steps() {
        let steps = script(5).steps;
        let kinds: Vec<_> = steps.iter().map(|step| kinds_of(&step.act)).collect();
        assert!(kinds.iter().all(|kinds| !kinds.is_empty()));
        for kind in kinds.iter().flatten() {
            assert!(kinds.iter().any(|other| !other.contains(kind)), "{kind}");
        }
    }
}
