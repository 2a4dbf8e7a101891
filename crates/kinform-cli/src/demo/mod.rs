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
mod extras;
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

use std::time::{Duration, Instant};

use crate::args::demo::{DemoArgs, DemoCommand, DemoOutput, DemoVerb};
use crate::attach::Attach;
use crate::exit::{Ending, Failure};
use crate::full_screen::FullScreen;
use crate::process;
use crate::signals::Signals;
use crate::terminal::Out;
use crate::top;

use self::acts::{Act, Acts, Plan};
use self::extras::DemoExtras;
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
    let mut plan = Plan::new(args.run_for, &args.acts);
    let shown = show(&args, &program, (&mut acts, &mut plan), &mut signals).await;
    signals.end_at_next();
    if shown.is_ok() {
        // An early end still has to show the demo's acts.
        for act in plan.rest() {
            play(&DemoExtras::plain(), &mut acts, act).await;
        }
    }
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

/// Shows the pipeline until the demo ends; returns its numbers at that time. An act that is played
/// then stays in the plan.
async fn show(
    args: &DemoArgs,
    program: &Program,
    (acts, plan): (&mut Acts<'_>, &mut Plan),
    signals: &mut Signals,
) -> Result<(Ending, Summary), Failure> {
    let is_screen = args.output.is_none() && FullScreen::is_possible();
    let extras = match is_screen {
        true => DemoExtras::default(),
        false => DemoExtras::plain(),
    };
    let mut sampler = Sampler::new();
    let ending = {
        let watching = async {
            match is_screen {
                true => {
                    let attach = Attach::parse(program.url())?;
                    let options = top::Options::default();
                    top::run(&attach, &mut extras.clone(), signals, &options).await
                }
                false => Ok(signals.ending().await),
            }
        };
        tokio::select! {
            biased;
            ending = watching => ending?,
            performed = perform(args, program, (acts, plan), (&mut sampler, &extras)) => {
                performed.map(|()| Ending::Done)?
            }
        }
    };
    Ok((ending, sampler.summary(&program.pipeline)))
}

/// Plays the acts of the plan and those that keys choose, and takes numbers, until the time is over.
async fn perform(
    args: &DemoArgs,
    program: &Program,
    (acts, plan): (&mut Acts<'_>, &mut Plan),
    (sampler, extras): (&mut Sampler, &DemoExtras),
) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(TICK);
    let started = Instant::now();
    let mut count: u32 = 0;
    loop {
        ticks.tick().await;
        // Before the next act, so that its effect is not taken for that of the one before.
        for notice in acts.tell().await? {
            extras.notice(&notice.text);
        }
        let passed = started.elapsed();
        let is_over = args.run_for.is_some_and(|limit| passed >= limit);
        if is_over && !plan.is_open(passed, |act| acts.is_shown(act)) {
            return Ok(());
        }
        let act = match extras.chosen() {
            Some(act) => Some(act),
            None => plan.due(passed, |act| acts.is_shown(act)),
        };
        if let Some(act) = act {
            let is_played = play(extras, acts, act).await;
            plan.played(act, passed);
            if !is_played {
                plan.failed(act);
            }
        }
        let numbers = sampler.take(&program.pipeline);
        if extras.is_plain() && count.is_multiple_of(TICKS_A_LINE) {
            crate::progress!("{numbers}");
        }
        count += 1;
    }
}

/// Plays an act, with a word before it and where to look after it; or ends it. Returns whether that
/// succeeded; a failure is a notice.
async fn play(extras: &DemoExtras, acts: &mut Acts<'_>, act: Act) -> bool {
    let script = acts.begins(act).then(|| act.script());
    if let Some(script) = script {
        extras.notice(&format!("[{}] {}", act.number(), script.happens));
    }
    match acts.play(act).await {
        Ok(notice) => extras.notice(&notice.text),
        Err(failure) => {
            extras.notice(&format!("{}: {failure}", act.script().title));
            return false;
        }
    }
    if let Some(script) = script {
        extras.notice(&format!("look at {}", script.look));
    }
    true
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
