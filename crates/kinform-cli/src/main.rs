//! The `kinform` command (also `kubectl-kinform`): watch, get and measure through informers, serve
//! an embedded API server, or see it all at work in a demo.
//!
//! ```text
//! argv → args → demo | serve | watch | get | wait | doctor | .. → stdout (data), stderr (progress), exit code
//! ```
//!
//! stdout is data and stderr is everything else. A bare command never touches a real cluster.

mod args;
mod attach;
mod catalogue;
mod cluster;
mod completion;
mod connect;
mod controllers;
mod demo;
mod diff;
mod discovery;
mod doctor;
mod exit;
mod expression;
mod files;
mod full_screen;
mod get;
mod manifest;
mod measure;
mod new;
mod one;
mod output;
mod process;
mod progress;
mod rbac;
mod record;
mod replay;
mod request;
mod serve;
mod signals;
mod stderr;
mod story;
mod sync;
mod target;
mod terminal;
mod top;
mod tree;
#[cfg(feature = "typed")]
mod typed;
mod version;
mod wait;
mod watch;
mod why;

use std::process::ExitCode;

use crate::args::Command;
use crate::exit::{Ending, Failure};
use crate::process::SmallPages;

fn main() -> ExitCode {
    // Before anything else, since a page that was taken stays as it is.
    let pages = SmallPages::take();
    let cli = completion::parse();
    stderr::log_from_environment();
    let command = cli.command.unwrap_or(Command::Demo(cli.demo.into()));
    match run(command, pages) {
        Ok(ending) => ExitCode::from(ending.code()),
        Err(failure) => {
            if !failure.is_silent() {
                stderr::failure(&failure);
            }
            ExitCode::from(failure.code())
        }
    }
}

fn run(command: Command, pages: SmallPages) -> Result<Ending, Failure> {
    let mut runtime = match command {
        // It runs for long, holds little and waits most of the time. Each thread has memory of its own.
        Command::Top(_) => tokio::runtime::Builder::new_current_thread(),
        _ => {
            pages.give_back();
            tokio::runtime::Builder::new_multi_thread()
        }
    };
    let runtime = runtime
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
            Command::Wait(args) => wait::run(args).await,
            Command::Story(args) => story::run(args).await,
            Command::Tree(args) => tree::run(args).await,
            Command::Diff(args) => diff::run(args).await,
            Command::Top(args) => top::command(args).await,
            Command::Why(args) => why::run(args).await,
            Command::Doctor(args) => doctor::run(args).await,
            Command::Rbac(args) => rbac::run(args).await,
            Command::Record(args) => record::run(args).await,
            Command::Replay(args) => replay::run(args).await,
            Command::New(args) => new::run(args).await,
            Command::Version(args) => version::run(args).await,
            Command::Completion(args) => completion::run(&args),
        }
    })
}
