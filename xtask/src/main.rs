//! Habits as code.

use std::process::ExitCode;

use clap::Parser;

mod schema;

/// The habits of this repository as code.
#[derive(Debug, Parser)]
enum Task {
    /// Makes the table of built-in types.
    Schema(schema::Arguments),
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task's report goes to its caller"
)]
fn main() -> ExitCode {
    let report = match Task::parse() {
        Task::Schema(arguments) => schema::run(&arguments),
    };
    match report {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
