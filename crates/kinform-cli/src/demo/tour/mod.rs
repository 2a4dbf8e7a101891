//! `kinform demo tour`: the pipeline step by step, for newcomers.
//!
//! ```text
//! step → (act) → its fact, polled until it is true → paragraph → answer, or --yes → next step
//! ```
//!
//! Nothing is said before it is true: a fact that does not come within 15 s is a failure with exit
//! code 1. `steps.rs` has the steps, `text.rs` makes lines of 80 columns.
//!
//! Upstream counterpart: none.

mod steps;
mod text;

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::acts::Acts;
use super::program::Program;
use crate::args::demo::TourArgs;
use crate::exit::{Ending, Failure};
use crate::signals::Signals;
use crate::terminal::Out;

use self::steps::{Before, Look, STEPS, Step};
use self::text::paragraph;

/// BOUND: the time until the fact of a step is true.
const TRUE_WITHIN: Duration = Duration::from_secs(15);
/// The time from one look at a fact to the next.
const TICK: Duration = Duration::from_millis(50);
/// Changes a second: enough for numbers that move, and little enough for small machines.
const CHURN: u32 = 100;

/// The reader's wish after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Next,
    End(Ending),
}

/// Runs the tour.
pub(super) async fn run(args: TourArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let mut program = Program::start(args.pods, CHURN).await?;
    if args.web {
        program.open_page().await;
    }
    let mut acts = Acts::new(program.scene());
    let mut guide = Guide {
        program: &program,
        acts: &mut acts,
        lines: (!args.yes).then(lines),
        out: Out::stdout(),
    };
    let walked = guide.walk(&mut signals).await;
    signals.end_at_next();
    acts.undo().await;
    drop(acts);
    let differences = program.settle().await?;
    program.end(&differences).await?;
    walked
}

struct Guide<'a, 'p> {
    program: &'p Program,
    acts: &'a mut Acts<'p>,
    /// The lines of the reader; `None` if the tour goes on by itself.
    lines: Option<mpsc::Receiver<String>>,
    out: Out,
}

impl Guide<'_, '_> {
    /// All steps, until the reader ends the tour.
    async fn walk(&mut self, signals: &mut Signals) -> Result<Ending, Failure> {
        for (step, number) in STEPS.iter().zip(1..) {
            let title = format!("\n{number} of {}: {}\n", STEPS.len(), step.title);
            self.say(&title)?;
            let text = tokio::select! {
                biased;
                ending = signals.ending() => return Ok(ending),
                text = self.seen(step) => text?,
            };
            self.say(&paragraph(&text))?;
            let answer = self.answer(signals, number == STEPS.len()).await?;
            self.acts.undo().await;
            if let Answer::End(ending) = answer {
                return Ok(ending);
            }
        }
        self.say(&paragraph(
            "That was the whole way. The demo itself is `kinform demo`; docs/cli.md has its acts.",
        ))?;
        Ok(Ending::Done)
    }

    /// The text of a step, once it is true.
    async fn seen(&mut self, step: &Step) -> Result<String, Failure> {
        let before = Before::take(self.program);
        if let Some(act) = step.act {
            self.say(&paragraph(step.intro))?;
            self.acts.play(act).await?;
        }
        let deadline = Instant::now() + TRUE_WITHIN;
        let mut told = None;
        loop {
            let notices = self.acts.tell().await?;
            let of_act = notices
                .into_iter()
                .find(|notice| Some(notice.act) == step.act);
            told = told.or(of_act.map(|notice| notice.text));
            let look = Look {
                program: self.program,
                before: &before,
                told: told.as_deref(),
            };
            if let Some(text) = (step.fact)(&look) {
                return Ok(text);
            }
            if Instant::now() >= deadline {
                return Err(late(step));
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Waits for the reader.
    async fn answer(&mut self, signals: &mut Signals, is_last: bool) -> Result<Answer, Failure> {
        if self.lines.is_none() {
            return Ok(Answer::Next);
        }
        self.say(match is_last {
            true => "\n[Enter] ends\n",
            false => "\n[Enter] goes on  [q, Enter] ends\n",
        })?;
        let Some(lines) = &mut self.lines else {
            return Ok(Answer::Next);
        };
        loop {
            tokio::select! {
                biased;
                ending = signals.ending() => return Ok(Answer::End(ending)),
                line = lines.recv() => return Ok(match line {
                    Some(line) if !line.trim().starts_with(['q', 'Q']) => Answer::Next,
                    _ => Answer::End(Ending::Done),
                }),
                () = tokio::time::sleep(TICK) => {
                    self.acts.tell().await?;
                }
            }
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.out.text(text)?;
        self.out.flush()?;
        Ok(())
    }
}

/// The failure of a step whose fact did not come.
fn late(step: &Step) -> Failure {
    Failure::new(format!(
        "the step {:?} did not come true within {} s: {}",
        step.title,
        TRUE_WITHIN.as_secs(),
        step.claim
    ))
}

/// The lines of stdin. The thread ends with the process: a read of a terminal cannot be interrupted.
fn lines() -> mpsc::Receiver<String> {
    // BOUND: lines that were typed ahead.
    let (told, lines) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let Ok(line) = line else { return };
            if told.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_does_not_come_true_fails_with_its_claim_and_exit_code_1() {
        let failure = late(&STEPS[8]);
        assert_eq!(failure.code(), 1);
        let (message, _) = failure.parts();
        assert!(
            message.contains("within 15 s") && message.contains("listed again"),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1);
    }
}
