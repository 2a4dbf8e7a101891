//! The `kinform` command (also `kubectl-kinform`): watch, get and measure through informers, serve
//! an embedded API server, or see it all at work in a demo.
//!
//! ```text
//! argv → args → demo | serve | watch | get | measure → stdout (data), stderr (progress), exit code
//! ```
//!
//! stdout is data and stderr is everything else. A bare command never touches a real cluster.

mod args;
mod catalogue;
mod cluster;
mod connect;
mod controllers;
mod demo;
mod discovery;
mod exit;
mod files;
mod get;
mod manifest;
mod measure;
mod output;
mod process;
mod serve;
mod signals;
mod stderr;
mod sync;
mod terminal;
#[cfg(feature = "typed")]
mod typed;
mod watch;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::exit::{Ending, Failure};

fn main() -> ExitCode {
    let cli = Cli::parse();
    stderr::log_from_environment();
    let command = cli.command.unwrap_or(Command::Demo(cli.demo));
    match run(command) {
        Ok(ending) => ExitCode::from(ending.code()),
        Err(failure) => {
            if !failure.is_silent() {
                stderr::failure(&failure);
            }
            ExitCode::from(failure.code())
        }
    }
}

fn run(command: Command) -> Result<Ending, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        match command {
            Command::Demo(args) => demo::run(args).await,
            Command::Serve(args) => serve::run(args).await,
            Command::Watch(args) => watch::run(args).await,
            Command::Get(args) => get::run(args).await,
            Command::Measure(args) => measure::run(args).await,
        }
    })
}
