//! A soak: an operator and a server as processes of their own, under load and trouble for a long
//! time.
//!
//! ```text
//! drive ──starts──▶ `kinform serve` ◀──proxy: cuts, stalls── operator ◀──starts── drive
//!   │  writes, rotates, restarts ──▶         commands ─▶ stdin, stdout ─▶ samples
//!   └─▶ JSON lines, a summary, exit code 0 or 1
//! ```
//!
//! * `operate/`: the operator under observation.
//! * `drive/`: server, load, troubles, and the run from start to verdict.
//! * `sample.rs`: the figures that the operator sends; `slope.rs`, `verdict.rs`: their judgement.
//!
//! `cargo xtask soak` builds and starts it. It is no part of the product: nothing imports it.

mod drive;
mod operate;
mod sample;
mod slope;
mod verdict;

use std::process::ExitCode;

use clap::Parser;

/// Counts the bytes that are allocated and not yet freed. The allocator is the system's, as in most
/// operators.
#[global_allocator]
static ALLOCATOR: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

/// The processes of a soak.
#[derive(Debug, Parser)]
#[command(name = "kinform-soak")]
enum Process {
    /// Starts the other processes, makes load and trouble, and judges.
    Drive(drive::Arguments),
    /// The operator under observation; commands come by stdin, figures go to stdout.
    Operator(operate::Arguments),
}

/// The error of a process: its message is for the terminal.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program's output"
)]
async fn main() -> ExitCode {
    // An error means that a provider was chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ended = match Process::parse() {
        Process::Drive(arguments) => drive::run(arguments).await,
        Process::Operator(arguments) => operate::run(arguments).await.map(|()| String::new()),
    };
    match ended {
        Ok(summary) => {
            print!("{summary}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Bytes allocated and not freed in this process.
fn live_bytes() -> u64 {
    ALLOCATOR.allocated() as u64
}
