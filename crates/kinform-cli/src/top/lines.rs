//! `top` without a terminal: a line a second, or a reply a line as JSON.
//!
//! ```text
//! pipeline, problems ─▶ a line of sums        -o json: the view ─▶ its reply, one line
//! ```
//!
//! Upstream counterpart: none.

use std::time::{Duration, Instant};

use kinform_operator::inspect::{Pipeline, Problems, Rate};
use serde_json::Value;
use tokio::time::MissedTickBehavior;

use super::Options;
use super::contact::Contact;
use super::numbers::{byte_rate, bytes, clock, number, rate};
use crate::attach::{Attach, Trouble};
use crate::exit::{Ending, Failure};
use crate::signals::Signals;
use crate::terminal::{Out, escaped_json, visible};
use crate::watch::elapsed;

/// The time between two lines.
const PERIOD: Duration = Duration::from_secs(1);

/// Prints lines until the end. The first reply is waited for, however short the time is.
pub(super) async fn run(
    attach: &Attach,
    signals: &mut Signals,
    options: &Options,
) -> Result<Ending, Failure> {
    let mut out = Out::stdout();
    let mut contact = Contact::default();
    let mut elapsed = Box::pin(elapsed(options.run_for));
    let mut period = tokio::time::interval(PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_asked = false;
    loop {
        tokio::select! {
            biased;
            ending = signals.ending() => return Ok(ending),
            () = &mut elapsed, if has_asked => return Ok(Ending::Done),
            _ = period.tick() => {}
        }
        let asked = tokio::select! {
            biased;
            ending = signals.ending() => return Ok(ending),
            () = &mut elapsed, if has_asked => return Ok(Ending::Done),
            asked = line(attach, options) => asked,
        };
        has_asked = true;
        let now = Instant::now();
        match asked {
            Ok(line) => {
                if contact.words(now).is_some() {
                    crate::progress!("the program answers again");
                }
                contact.answered();
                out.text(&(line + "\n"))?;
                out.flush()?;
            }
            Err(trouble) => {
                let is_first = contact.words(now).is_none();
                contact.failed(&trouble, attach, now)?;
                if is_first {
                    crate::progress!("the program does not answer, trying again");
                }
            }
        }
    }
}

async fn line(attach: &Attach, options: &Options) -> Result<String, Trouble> {
    if options.is_json {
        let (view, query) = (options.place.view(), options.place.query());
        let reply: Value = attach.ask(view, &query).await?;
        return Ok(escaped_json(&reply.to_string()).into_owned());
    }
    let pipeline: Pipeline = attach.ask("pipeline", &[]).await?;
    let problems: Problems = attach.ask("problems", &[]).await?;
    Ok(summed(&pipeline, &problems))
}

/// The sums of a program in one line.
fn summed(pipeline: &Pipeline, problems: &Problems) -> String {
    let (informers, controllers) = (&pipeline.informers, &pipeline.controllers);
    let synced = informers.iter().filter(|of| of.state == "synced").count();
    let objects = informers
        .iter()
        .map(|of| of.objects)
        .fold(0, u64::saturating_add);
    let memory = informers
        .iter()
        .map(|of| of.bytes)
        .fold(0, u64::saturating_add);
    let wire = total(informers.iter().map(|of| &of.wire_bytes));
    let read = total(informers.iter().map(|of| &of.deltas));
    let told = total(informers.iter().map(|of| &of.notifications));
    let lag = informers.iter().map(|of| of.lag).max().unwrap_or(0);
    let mut line = format!(
        "{}  {}  {synced}/{} synced  {} objects  {}  wire {}  read {}  told {}  lag {}",
        clock(&pipeline.head.time),
        pipeline.head.program,
        informers.len(),
        number(objects),
        bytes(memory),
        byte_rate(&wire),
        rate(&read),
        rate(&told),
        number(lag),
    );
    if !controllers.is_empty() {
        let depth = controllers
            .iter()
            .map(|of| of.depth)
            .fold(0, u64::saturating_add);
        let runs = total(controllers.iter().map(|of| &of.runs));
        let failures = total(controllers.iter().map(|of| &of.failures));
        line.push_str(&format!(
            "  queued {}  runs {}  failed {}",
            number(depth),
            rate(&runs),
            number(failures.total)
        ));
    }
    let ongoing = problems.problems.iter().filter(|of| of.is_ongoing).count();
    line.push_str(&format!("  problems {ongoing} now"));
    visible(&line).into_owned()
}

/// The sum of rates.
fn total<'a>(rates: impl Iterator<Item = &'a Rate>) -> Rate {
    rates.fold(Rate::default(), |mut sum, rate| {
        sum.total = sum.total.saturating_add(rate.total);
        if let Some(more) = rate.per_second {
            sum.per_second = Some(sum.per_second.unwrap_or_default() + more);
        }
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_sums() {
        let pipeline = serde_json::from_value(serde_json::json!({
            "time": "2026-01-02T03:04:05.678Z", "program": "shop\u{1b}",
            "informers": [
                {"state": "synced", "objects": 1200, "bytes": 5_000_000, "lag": 2,
                 "wire_bytes": {"per_second": 1500.0}, "deltas": {"per_second": 20.0}},
                {"state": "stale", "objects": 1, "deltas": {"per_second": 1.0}}],
            "controllers": [{"depth": 3, "runs": {"per_second": 12.0}, "failures": {"total": 1}}],
        }));
        let problems = serde_json::from_value(serde_json::json!({
            "problems": [{"is_ongoing": true}, {"is_ongoing": false}]}));
        assert_eq!(
            summed(&pipeline.unwrap(), &problems.unwrap()),
            "03:04:05  shop\u{fffd}  1/2 synced  1,201 objects  5.0 MB  wire 1.5 KB/s  read 21/s  \
             told –  lag 2  queued 3  runs 12/s  failed 1  problems 1 now"
        );
        let none = summed(&Pipeline::default(), &Problems::default());
        assert!(!none.contains("queued"), "{none}");
    }
}
