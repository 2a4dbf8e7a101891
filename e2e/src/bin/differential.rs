//! Compares kinform with the real client-go on scripted histories.
//!
//! ```text
//! differential [--histories N] [--seed FIRST] [--width SIDE_BY_SIDE] ──▶ report, exit code
//! ```
//!
//! Exit code 0 if every difference is explained, or if there is no Go here (with a message); 1
//! otherwise; 2 for invalid arguments.

use std::process::ExitCode;

use kinform_e2e::differential::{Plan, is_possible, run};

fn plan(mut arguments: impl Iterator<Item = String>) -> Option<Plan> {
    let mut plan = Plan::default();
    let mut is_one = false;
    let mut has_count = false;
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--histories" => (plan.histories, has_count) = (value.parse().ok()?, true),
            "--seed" => (plan.first, is_one) = (value.parse().ok()?, true),
            "--width" => plan.width = value.parse().ok()?,
            _ => return None,
        }
    }
    if is_one && !has_count {
        plan.histories = 1;
    }
    Some(plan)
}

fn main() -> ExitCode {
    let Some(plan) = plan(std::env::args().skip(1)) else {
        eprintln!("usage: differential [--histories N] [--seed FIRST] [--width SIDE_BY_SIDE]");
        return ExitCode::from(2);
    };
    if !is_possible() {
        let count = plan.histories;
        println!(
            "SKIPPED: no Go here to build client-go with; {count} histories were not compared"
        );
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(run(plan)));
    match outcome {
        Ok(outcome) => {
            print!("{outcome}");
            ExitCode::from(u8::from(!outcome.is_good()))
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
