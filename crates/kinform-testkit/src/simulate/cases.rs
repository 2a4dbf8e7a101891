//! The runs of a simulation: two without faults, then each plan; the first finding becomes a story.
//!
//! ```text
//! Scenario ─▶ run without faults ─▶ Stops ─▶ plans: one at a time, by seeds ─▶ finding ─▶ fewer faults
//!                    └─ again in another order: the same?                        that still fail ─▶ Story
//! ```

use std::sync::Arc;

use kinform_api::simulated;

use super::alarms::Alarms;
use super::finding::{Finding, Story};
use super::history;
use super::plan::{Extent, Plan};
use super::run::{Report, Run, Stop};
use super::scenario::Scenario;

/// One run in this many is made twice, and must be the same.
const TWICE: u64 = 100;

/// The plans that are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ways {
    pub(crate) seeds: u64,
    pub(crate) is_exhaustive: bool,
}

/// The size of a simulation that found nothing wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The runs with faults.
    pub runs: u64,
    /// The writes of the operator in a run without faults.
    pub writes: usize,
    /// The reads of the operator in a run without faults, watches aside.
    pub reads: usize,
    /// The notifications to the operator in a run without faults.
    pub notifications: usize,
    /// The runs that were made twice and were not the same.
    pub differed: u64,
}

/// Runs all plans, or the one that is named; the error is the story of the first finding.
pub(crate) fn check(
    scenario: &Scenario,
    (ways, only): (Ways, Option<&str>),
    test: &str,
) -> Result<Summary, String> {
    let clean = Plan::clean();
    let first = whole(scenario, &clean, None, test)?;
    if let Some(finding) = not_put_back(scenario, &first.stops) {
        return Err(story(&clean, &finding, &first, test));
    }
    let stops = first.stops;
    let other = Plan {
        seed: 1,
        name: "clean-1".to_owned(),
        ..clean
    };
    whole(scenario, &other, Some(&stops), test)?;
    let extent = first.extent;
    let mut summary = Summary {
        writes: extent.writes,
        reads: extent.reads,
        notifications: extent.notifications,
        ..Summary::default()
    };
    let plans = chosen(extent, ways, only)?;
    for (number, plan) in (0..).zip(plans) {
        let report = play(scenario, &plan, Some(&stops));
        summary.runs += 1;
        if let Some(finding) = &report.finding {
            return Err(told(scenario, (plan, finding, &report), &stops, test));
        }
        if number % TWICE == TWICE - 1 {
            let again = play(scenario, &plan, Some(&stops));
            summary.differed += u64::from(again.hash != report.hash);
        }
    }
    Ok(summary)
}

/// A step that brings the script's objects into the state of an earlier step, and not the others.
fn not_put_back(scenario: &Scenario, stops: &[Stop]) -> Option<Finding> {
    if scenario.keeps_history {
        return None;
    }
    let named = |step: usize| {
        let name = scenario.steps.get(step).map_or("", |step| &step.name);
        format!("step {} ({name})", step + 1)
    };
    let returns = history::returns(&scenario.before, &scenario.steps);
    returns.into_iter().find_map(|one| {
        let (now, then) = (stops.get(one.later)?, stops.get(one.earlier)?);
        let at = format!("after step {}", one.earlier + 1);
        let of = |stop: &Stop| Some(stop.whole.as_ref()?.without_history(&one.deleted));
        let differences = of(now)?.unlike(&of(then)?, &at);
        (!differences.is_empty()).then(|| Finding::NotPutBack {
            steps: (one.earlier, one.later),
            step: named(one.later),
            earlier: named(one.earlier),
            differences,
        })
    })
}

/// The plans of these ways, one after the other.
fn chosen<'a>(
    extent: Extent,
    ways: Ways,
    only: Option<&'a str>,
) -> Result<Box<dyn Iterator<Item = Plan> + 'a>, String> {
    let by_hand = Plan::one_at_a_time(extent);
    let Some(only) = only else {
        let by_hand = by_hand.into_iter().filter(move |_| ways.is_exhaustive);
        let seeds = (0..ways.seeds).map(move |seed| Plan::of_seed(seed, extent));
        return Ok(Box::new(by_hand.chain(seeds)));
    };
    let plan = match only.parse() {
        Ok(seed) => Some(Plan::of_seed(seed, extent)),
        Err(_) => by_hand.into_iter().find(|plan| plan.name == only),
    };
    match plan {
        Some(plan) => Ok(Box::new(std::iter::once(plan))),
        None if only.starts_with("clean") => Ok(Box::new(std::iter::empty())),
        None => Err(format!(
            "KINFORM_SEED={only} is neither a number nor the name of a fault of this simulation"
        )),
    }
}

/// A run without faults, which must be without a finding.
fn whole(
    scenario: &Scenario,
    plan: &Plan,
    expected: Option<&[Stop]>,
    test: &str,
) -> Result<Report, String> {
    let report = play(scenario, plan, expected);
    match &report.finding {
        None => Ok(report),
        Some(finding) => Err(story(plan, finding, &report, test)),
    }
}

/// Plays a plan on a runtime of its own.
fn play(scenario: &Scenario, plan: &Plan, expected: Option<&[Stop]>) -> Report {
    let _random = simulated::begin(plan.seed);
    let _alarms = Alarms::set();
    let progress = Arc::clone(&scenario.progress);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || progress.park());
    // The order in which those are woken that wait for one channel.
    #[cfg(tokio_unstable)]
    runtime.rng_seed(tokio::runtime::RngSeed::from_bytes(
        &plan.seed.to_le_bytes(),
    ));
    // The only resource is memory.
    let runtime = runtime
        .build()
        .expect("a runtime of one thread without sockets can be made");
    runtime.block_on(Run::play(scenario, plan, expected))
}

/// The story of a finding, with only the faults that it takes.
fn told(
    scenario: &Scenario,
    (plan, finding, report): (Plan, &Finding, &Report),
    stops: &[Stop],
    test: &str,
) -> String {
    let mut least = plan;
    let mut found: Option<(Finding, Report)> = None;
    let mut at = 0;
    while at < least.accidents.len() {
        let mut fewer = least.clone();
        fewer.accidents.remove(at);
        let report = play(scenario, &fewer, Some(stops));
        match report.finding.clone() {
            Some(again) if again.kind() == finding.kind() => {
                least = fewer;
                found = Some((again, report));
            }
            _ => at += 1,
        }
    }
    match &found {
        Some((finding, report)) => story(&least, finding, report, test),
        None => story(&least, finding, report, test),
    }
}

fn story(plan: &Plan, finding: &Finding, report: &Report, test: &str) -> String {
    let entries = &report.entries;
    Story {
        finding,
        plan,
        entries,
        test,
    }
    .to_string()
}
