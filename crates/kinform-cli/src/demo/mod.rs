//! `kinform demo`: all parts of kinform at work, on a cluster of their own.
//!
//! ```text
//! stage (server, seeded) → pipeline (informers, handlers, sample controller) ← churn
//!        └ acts: cut every watch, expire history       └ numbers → view | plain lines → summary
//! ```
//!
//! It never touches a real cluster. At the end it checks itself: churn stops, and the caches are
//! compared with the server key by key; a difference is a failure.

mod acts;
mod churn;
mod compare;
mod numbers;
mod pipeline;
mod stage;
mod view;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::args::{DemoArgs, DemoOutput};
use crate::exit::{Ending, Failure};
use crate::process;
use crate::signals::Signals;
use crate::terminal::Out;

use self::acts::Acts;
use self::churn::{SendClock, Tally};
use self::numbers::{Numbers, Sampler, Summary};
use self::pipeline::Pipeline;
use self::stage::Stage;
use self::view::View;

/// The time within which the caches must agree with the server once churn has stopped.
const SETTLE: Duration = Duration::from_secs(5);
/// The interval at which numbers are taken and shown.
const TICK: Duration = Duration::from_millis(250);
/// Ticks per plain line, which come less often than frames.
const TICKS_A_LINE: u32 = 4;

/// Runs the demo.
pub(crate) async fn run(args: DemoArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let clock = SendClock::start();
    let stage = Stage::set(&args).await?;
    stage.announce();
    let pipeline = Pipeline::start(&stage, clock).await?;
    crate::progress!(
        "synced {} objects in {:.2} s, {:.2} s after the start",
        pipeline.objects(),
        pipeline.sync_seconds,
        clock.elapsed().as_secs_f64()
    );

    let tally = Arc::new(Tally::default());
    let churn = tokio::spawn(churn::churn(
        (*stage.client).clone(),
        clock,
        stage.targets.clone(),
        args.churn,
        Arc::clone(&tally),
    ));
    let shown = show(&args, &stage, &pipeline, &tally, &mut signals).await;
    churn.abort();
    let _ = churn.await;
    let (ending, mut summary) = shown?;
    signals.end_at_next();

    let controller = pipeline.stop_controller().await;
    let differences = pipeline.settle(&stage, SETTLE).await?;
    controller?;
    summary.complete(&pipeline);
    summary.rss_bytes = process::usage().rss_bytes;
    print(&args, &summary)?;
    pipeline.shut_down().await;
    stage.server.stop().await;
    if differences.is_empty() {
        crate::progress!("every key of every cache agrees with the server");
        return Ok(ending);
    }
    for difference in differences.iter().take(20) {
        crate::progress!("  {difference}");
    }
    Err(Failure::new(format!(
        "{} keys differ between caches and server",
        differences.len()
    )))
}

/// Shows the pipeline until the demo ends; returns its numbers at that time.
async fn show(
    args: &DemoArgs,
    stage: &Stage,
    pipeline: &Pipeline,
    tally: &Tally,
    signals: &mut Signals,
) -> Result<(Ending, Summary), Failure> {
    let full_screen = args.output.is_none() && std::io::stdout().is_terminal();
    let mut view = if full_screen {
        View::full_screen()?
    } else {
        View::plain()
    };
    let mut acts = Acts::new(args.run_for);
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
        if args.run_for.is_some_and(|limit| started.elapsed() >= limit) {
            break Ending::Done;
        }
        let wish = view.wish()?;
        if wish == Some(view::Wish::Quit) {
            break Ending::Done;
        }
        if let Some(notice) = acts.play(started.elapsed(), wish, stage).await {
            view.notice(&notice);
        }
        let numbers: Numbers = sampler.take(pipeline, tally);
        if full_screen || count.is_multiple_of(TICKS_A_LINE) {
            view.show(&numbers)?;
        }
        count += 1;
    };
    // An early end still has to show the demo's acts.
    if let Some(notice) = acts.play_the_rest(stage).await {
        view.notice(&notice);
    }
    drop(view);
    Ok((ending, sampler.summary(pipeline)))
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
