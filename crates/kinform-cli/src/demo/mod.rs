//! `kinform demo`: all parts of kinform at work, on a cluster of their own.
//!
//! ```text
//! stage (server, seeded) → pipeline (informers, handlers, two replicas of a controller) ← churn
//!        └ acts: troubles to try, each undone      └ numbers → plain lines → summary
//!        └ inspector → page, and the screen of `top` on a terminal;   tour: the same, step by step
//! ```
//!
//! It never touches a real cluster. At the end it checks itself: churn stops, and the caches are
//! compared with the server key by key; a difference is a failure.

mod acts;
mod churn;
mod compare;
mod desk;
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

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use crate::args::demo::{DemoArgs, DemoCommand, DemoOutput, DemoVerb};
use crate::attach::Attach;
use crate::exit::{Ending, Failure};
use crate::process;
use crate::signals::Signals;
use crate::terminal::Out;
use crate::top;

use self::acts::{Acts, Plan};
use self::desk::Desk;
use self::numbers::{Sampler, Summary};
use self::program::Program;

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
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let is_screen = args.output.is_none() && is_terminal;
    let desk = if is_screen {
        Desk::default()
    } else {
        Desk::plain()
    };
    let mut sampler = Sampler::new();
    let mut plan = Plan::new(args.run_for, &args.acts);
    let ending = {
        let watching = async {
            match is_screen {
                true => {
                    let attach = Attach::parse(program.url())?;
                    let options = top::Options::default();
                    top::run(&attach, &mut desk.clone(), signals, &options).await
                }
                false => Ok(signals.ending().await),
            }
        };
        tokio::select! {
            biased;
            ending = watching => ending?,
            () = perform(args, program, acts, &mut plan, (&mut sampler, &desk)) => Ending::Done,
        }
    };
    // An early end still has to show the demo's acts.
    let desk = Desk::plain();
    for number in plan.rest() {
        play(&desk, acts, number).await;
    }
    Ok((ending, sampler.summary(&program.pipeline)))
}

/// Plays the acts of the plan and those that keys choose, and takes numbers, until the time is over.
async fn perform(
    args: &DemoArgs,
    program: &Program,
    acts: &mut Acts<'_>,
    plan: &mut Plan,
    (sampler, desk): (&mut Sampler, &Desk),
) {
    let mut ticks = tokio::time::interval(TICK);
    let started = Instant::now();
    let mut count: u32 = 0;
    loop {
        ticks.tick().await;
        let passed = started.elapsed();
        let is_over = args.run_for.is_some_and(|limit| passed >= limit);
        if is_over && !plan.is_open(passed, |number| acts.is_shown(number)) {
            return;
        }
        let number = match desk.chosen() {
            Some(number) => Some(number),
            None => plan.due(passed, |number| acts.is_shown(number)),
        };
        if let Some(number) = number {
            plan.played(number);
            play(desk, acts, number).await;
        }
        for notice in acts.tell().await {
            desk.notice(&notice.text);
        }
        let numbers = sampler.take(&program.pipeline);
        if desk.is_plain() && count.is_multiple_of(TICKS_A_LINE) {
            crate::progress!("{numbers}");
        }
        count += 1;
    }
}

/// Plays an act, with a word before it and where to look after it; or ends it.
async fn play(desk: &Desk, acts: &mut Acts<'_>, number: u8) {
    let begins = acts.next(number);
    if let Some(act) = begins {
        desk.notice(&format!("[{}] {}", act.number, act.happens));
    }
    desk.notice(&acts.play(number).await.text);
    if let Some(act) = begins {
        desk.notice(&format!("look at {}", act.look));
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
