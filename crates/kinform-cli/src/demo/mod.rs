//! `kinform demo`: all parts of kinform at work, on a cluster of their own.
//!
//! ```text
//! stage (server, seeded) → pipeline (informers, handlers, two replicas of a controller) ← churn
//!        └ acts: troubles to try, each undone      └ numbers → view | plain lines → summary
//!                                                  └ page (inspector)     tour: the same, step by step
//! ```
//!
//! It never touches a real cluster. At the end it checks itself: churn stops, and the caches are
//! compared with the server key by key; a difference is a failure.

mod acts;
mod churn;
mod compare;
mod line;
mod mistakes;
mod numbers;
mod page;
mod pipeline;
mod program;
mod replicas;
mod stage;
#[cfg(test)]
mod tests;
mod tour;
mod view;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use crate::args::demo::{DemoArgs, DemoCommand, DemoOutput, DemoVerb};
use crate::exit::{Ending, Failure};
use crate::process;
use crate::signals::Signals;
use crate::terminal::Out;

use self::acts::{Acts, Plan};
use self::numbers::{Sampler, Summary};
use self::program::Program;
use self::view::{View, Wish};

/// The interval at which numbers are taken and shown.
const TICK: Duration = Duration::from_millis(250);
/// Ticks per plain line, which come less often than frames.
const TICKS_A_LINE: u32 = 4;

/// Runs the demo, or its tour.
pub(crate) async fn run(command: DemoCommand) -> Result<Ending, Failure> {
    match command.verb {
        Some(DemoVerb::Tour(args)) => tour::run(args).await,
        None => run_all(command.args).await,
    }
}

async fn run_all(args: DemoArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let mut program = Program::start(args.pods, args.churn).await?;
    if args.web {
        program.open_page().await;
    }
    let mut acts = Acts::new(program.scene());
    let shown = show(&args, &program, &mut acts, &mut signals).await;
    signals.end_at_next();
    acts.undo().await;
    drop(acts);
    let (ending, mut summary) = shown?;
    let differences = program.settle().await?;
    summary.complete(&program.pipeline);
    summary.rss_bytes = process::usage().rss_bytes;
    print(&args, &summary)?;
    program.end(&differences).await?;
    Ok(ending)
}

/// Shows the pipeline until the demo ends; returns its numbers at that time.
async fn show(
    args: &DemoArgs,
    program: &Program,
    acts: &mut Acts<'_>,
    signals: &mut Signals,
) -> Result<(Ending, Summary), Failure> {
    let full_screen = args.output.is_none() && std::io::stdout().is_terminal();
    let mut view = if full_screen {
        View::full_screen()?
    } else {
        View::plain()
    };
    let mut plan = Plan::new(args.run_for, &args.acts);
    let mut sampler = Sampler::new();
    let mut ticks = tokio::time::interval(TICK);
    let started = Instant::now();
    let mut count: u32 = 0;
    let ending = loop {
        tokio::select! {
            biased;
            ending = signals.ending() => break ending,
            _ = ticks.tick() => {}
        }
        let passed = started.elapsed();
        let is_over = args.run_for.is_some_and(|limit| passed >= limit);
        if is_over && !plan.is_open(passed, |number| acts.is_shown(number)) {
            break Ending::Done;
        }
        let wish = view.wish()?;
        if wish == Some(Wish::Quit) {
            break Ending::Done;
        }
        let number = match wish {
            Some(Wish::Play(number)) => Some(number),
            _ => plan.due(passed, |number| acts.is_shown(number)),
        };
        if let Some(number) = number {
            plan.played(number);
            play(&mut view, acts, number).await;
        }
        for notice in acts.tell().await {
            view.notice(&notice.text);
        }
        let numbers = sampler.take(&program.pipeline, &program.tally);
        if full_screen || count.is_multiple_of(TICKS_A_LINE) {
            view.show(&numbers)?;
        }
        count += 1;
    };
    // An early end still has to show the demo's acts.
    for number in plan.rest() {
        play(&mut view, acts, number).await;
    }
    drop(view);
    Ok((ending, sampler.summary(&program.pipeline)))
}

/// Plays an act, with a word before it and where to look after it; or ends it.
async fn play(view: &mut View, acts: &mut Acts<'_>, number: u8) {
    let begins = acts.next(number);
    if let Some(act) = begins {
        view.notice(&format!("[{}] {}", act.number, act.happens));
    }
    view.notice(&acts.play(number).await.text);
    if let Some(act) = begins {
        view.notice(&format!("look at {}", act.look));
    }
}

fn print(args: &DemoArgs, summary: &Summary) -> Result<(), Failure> {
    let mut out = Out::stdout();
    match args.output {
        Some(DemoOutput::Json) => {
            let line =
                serde_json::to_string(summary).map_err(|error| Failure::new(error.to_string()))?;
            out.text(&format!("{line}\n"))?;
        }
        None => out.text(&summary.to_string())?,
    }
    out.flush()?;
    Ok(())
}
