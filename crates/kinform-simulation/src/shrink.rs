//! A failing script becomes a short one that fails in the same way.
//!
//! ```text
//! Script ─▶ halves, quarters, .. single steps left out ─▶ still fails? ─▶ Script
//! ```
//!
//! The method is that of delta debugging. A run that breaks the same promise counts, whatever it
//! says about it.

use std::time::{Duration, Instant};

use crate::finding::Finding;
use crate::run::{Keep, play};
use crate::script::{Act, Script, Step};

/// A failing script, and its finding.
#[derive(Clone, Debug)]
pub struct Failing {
    /// The script.
    pub script: Script,
    /// The promise that it breaks.
    pub finding: Finding,
}

/// Makes a failing script shorter, within a time.
#[must_use]
pub fn shrink(failing: Failing, within: Duration) -> Failing {
    let mut shrinking = Shrinking {
        end: Instant::now() + within,
        best: failing,
    };
    shrinking.cut_the_end();
    let mut before = usize::MAX;
    while shrinking.best.script.steps.len() < before && !shrinking.is_over() {
        before = shrinking.best.script.steps.len();
        shrinking.leave_out();
    }
    shrinking.best
}

struct Shrinking {
    end: Instant,
    best: Failing,
}

impl Shrinking {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Takes a script if it still fails in the same way.
    fn try_one(&mut self, steps: Vec<Step>) -> bool {
        let script = Script {
            steps,
            ..self.best.script.clone()
        };
        let outcome = play(&script, Keep::Hash);
        match outcome.finding {
            Some(finding) if finding.invariant == self.best.finding.invariant => {
                self.best = Failing { script, finding };
                true
            }
            _ => false,
        }
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
                let has_process = kept.iter().any(|step| matches!(step.act, Act::Start(_)));
                if !has_process || !self.try_one(kept) {
                    at = end;
                }
            }
            part /= 2;
        }
    }
}
