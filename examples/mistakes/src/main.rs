//! Prints the story of a mistake: `cargo run -p mistakes -- stale-cache`.

use std::process::ExitCode;

use kinform_testkit::simulate::try_simulate;
use mistakes::{ALL, Which};

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people"
)]
fn main() -> ExitCode {
    let names: Vec<&str> = ALL.iter().map(|mistake| mistake.name).collect();
    let asked = std::env::args().nth(1).unwrap_or_default();
    let Some(mistake) = ALL.iter().find(|mistake| mistake.name == asked) else {
        eprintln!("usage: mistakes NAME, one of {}", names.join(", "));
        return ExitCode::from(2);
    };
    match try_simulate(|sim| {
        sim.seeds(1_000);
        (mistake.describe)(sim, Which::Mistaken);
    }) {
        Ok(summary) => println!("not found: {summary:?}"),
        Err(story) => println!("{story}"),
    }
    ExitCode::SUCCESS
}
