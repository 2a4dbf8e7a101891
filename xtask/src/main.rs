//! Habits as code.
//!
//! ```text
//! cargo xtask TASK ──▶ report, or what is wrong and exit code 1
//! ```

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

mod bench;
mod book;
mod browser;
mod ci;
mod contract;
mod e2e;
mod election;
mod faults;
mod fuzz;
mod map;
mod mutants;
mod new;
mod options;
mod pictures;
mod ports;
mod release;
mod schedules;
mod schema;
mod shards;
mod simulate;
mod soak;
mod suite;
mod terminal;
mod text;
mod tidy;
mod topology;

/// The habits of this repository as code.
#[derive(Debug, Parser)]
enum Task {
    /// Checks layers, sizes, headers, words and prose.
    Tidy(tidy::Arguments),
    /// Measures kinform compared with kube-rs and client-go.
    Bench(bench::Arguments),
    /// Checks the book's contents and links, runs its blocks, and builds its HTML.
    Book(book::Arguments),
    /// Runs what CI runs: tests, formatting, clippy, tidy, documentation.
    Ci,
    /// Runs the tests that docs/contract names.
    Contract(contract::Arguments),
    /// Runs other people's clients and a real API server next to the embedded one, where available.
    E2e(e2e::Arguments),
    /// Runs seeded histories of leader election, kinform's and upstream's.
    Election(election::Arguments),
    /// Compares the table of faults in docs/reliability.md with the tests, or writes it.
    Faults(faults::Arguments),
    /// Gives readers hostile bytes: of the wire, the server and files.
    Fuzz(fuzz::Arguments),
    /// Prints which folders import which, and the circles among them.
    Map(map::Arguments),
    /// Puts known bugs back, one at a time: the tests must notice each.
    Mutants(mutants::Arguments),
    /// Builds and tests the project that `kinform new` writes.
    New(new::Arguments),
    /// Compares the options in docs/book/src/configuration.md with the code, or writes them.
    Options(options::Arguments),
    /// Makes the pictures of the documents anew, by a browser and by tmux.
    Pictures,
    /// Tests and measures public operators that were moved over from kube-runtime.
    Ports(ports::Arguments),
    /// Checks what a release needs and makes its files; publishes nothing.
    Release(release::Arguments),
    /// Runs the concurrent code under many schedules.
    Schedules(schedules::Arguments),
    /// Makes the table of built-in types.
    Schema(schema::Arguments),
    /// Runs seeded histories of sharding, and a crowd of members that one joins.
    Shards(shards::Arguments),
    /// Plays seeded scripts of trouble against kinform itself.
    Simulate(simulate::Arguments),
    /// Runs an operator for a long time under load and trouble.
    Soak(soak::Arguments),
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task's report goes to its caller"
)]
fn main() -> ExitCode {
    if let Some(code) = mutants::wrapped_compiler() {
        return code;
    }
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let report = match Task::parse() {
        Task::Tidy(arguments) => tidy::run(&arguments),
        Task::Bench(arguments) => bench::run(root, &arguments),
        Task::Book(arguments) => return booked(root, &arguments),
        Task::Ci => ci::run(root),
        Task::Contract(arguments) => contract::run(root, &arguments),
        Task::E2e(arguments) => e2e::run(root, &arguments),
        Task::Election(arguments) => election::run(root, &arguments),
        Task::Faults(arguments) => faults::run(root, &arguments),
        Task::Fuzz(arguments) => fuzz::run(root, &arguments),
        Task::Map(arguments) => map::run(&arguments),
        Task::Mutants(arguments) => mutants::run(root, &arguments),
        Task::New(arguments) => new::run(root, &arguments),
        Task::Options(arguments) => options::run(root, &arguments),
        Task::Pictures => pictures::run(root),
        Task::Ports(arguments) => ports::run(root, &arguments),
        Task::Schedules(arguments) => schedules::run(root, &arguments),
        Task::Soak(arguments) => soak::run(root, &arguments),
        Task::Schema(arguments) => schema::run(&arguments).map_err(|e| e.to_string()),
        Task::Shards(arguments) => shards::run(root, &arguments),
        Task::Simulate(arguments) => return coded(simulate::run(root, &arguments)),
        Task::Release(arguments) => return coded(release::run(root, &arguments)),
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

/// The result of a task that has exit codes of its own.
#[expect(clippy::print_stderr, reason = "a task's report goes to its caller")]
fn coded(result: Result<ExitCode, String>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Checks the book, whose exit code says if a tool is missing.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task's report goes to its caller"
)]
fn booked(root: &Path, arguments: &book::Arguments) -> ExitCode {
    match book::run(root, arguments) {
        Ok((report, code)) => {
            println!("{report}");
            code
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
