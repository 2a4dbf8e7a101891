//! Runs a scenario under many schedules.
//!
//! ```text
//! KINFORM_SCHEDULES=N, KINFORM_SCHEDULES_SEED=S ──▶ N/2 random, N/2 by priorities (PCT) ──▶ RESULT line
//! KINFORM_SCHEDULE=FILE ──▶ the schedule in it again
//! ```
//!
//! A schedule that fails is written to a file, or printed if KINFORM_SCHEDULES_FAILED names no folder.
//! Tasks that wait for each other, or for a wake-up that never comes, are a failure too.
//!
//! Upstream counterpart: none.

use std::time::Instant;

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// Schedules of a scenario in `cargo test`, unless the environment says otherwise.
const EACH: usize = 10_000;
/// The number of times that a schedule by priorities changes one of them, less one.
const DEPTH: usize = 3;
/// BOUND: steps of one schedule; one that takes more is taken for a circle.
const STEPS: usize = 50_000;
/// BOUND: bytes of a task's stack.
const STACK: usize = 256 << 10;

/// Runs a scenario as often as the environment says.
///
/// # Panics
/// A schedule failed; its text was printed.
#[expect(clippy::print_stderr, reason = "a line for each scenario")]
pub fn check(name: &str, scenario: fn()) {
    if let Ok(file) = std::env::var("KINFORM_SCHEDULE") {
        let scheduler = ReplayScheduler::new_from_file(&file);
        let mut scheduler = scheduler.unwrap_or_else(|error| panic!("{file}: {error}"));
        // The file ends where the schedule failed: one that goes on there passes.
        scheduler.set_allow_incomplete();
        run(scheduler, scenario);
        eprintln!("RESULT {name}: the schedule passed");
        return;
    }
    let each = number("KINFORM_SCHEDULES", EACH);
    let seed = number("KINFORM_SCHEDULES_SEED", 1);
    let start = Instant::now();
    let by_chance = each.div_ceil(2);
    run(
        RandomScheduler::new_from_seed(seed as u64, by_chance),
        scenario,
    );
    let by_priority = each - by_chance;
    if by_priority > 0 {
        let scheduler = PctScheduler::new_from_seed(seed as u64, DEPTH, by_priority);
        run(scheduler, scenario);
    }
    let seconds = start.elapsed().as_secs_f64();
    eprintln!(
        "RESULT {name}: {by_chance} random, {by_priority} by priorities, seed {seed}, {seconds:.1} s"
    );
}

fn run(scheduler: impl Scheduler + 'static, scenario: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(STEPS);
    config.failure_persistence = match std::env::var("KINFORM_SCHEDULES_FAILED") {
        Ok(folder) => FailurePersistence::File(Some(folder.into())),
        Err(_) => FailurePersistence::Print,
    };
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(scenario);
}

fn number(name: &str, default: usize) -> usize {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}"))
    })
}
