//! The main function of an operator's program: flags, log, one line an error, exit code.
//!
//! ```text
//! argv → flags (2 if they make no sense) → log → TLS provider → run → exit code
//! ```
//!
//! Upstream counterpart: the `main.go` of kubebuilder's scaffold, whose exit code is always 1.

use std::future::Future;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{FromArgMatches, Parser};
use tracing_subscriber::EnvFilter;

use crate::error::Error;
use crate::flags::{Flags, LogFormat};
use crate::signals;

/// The exit code of a command line that makes no sense.
const USAGE: u8 = 2;

/// Runs an operator's program: parses its flags, which flatten [`Flags`], sets the log up, and
/// reports the error in one line.
///
/// Exit codes: 0 stopped in order; 1 a part failed, or the configuration cannot be used; 2 the
/// command line makes no sense; 3 the lease was lost, or reconciles did not end in time.
///
/// A program that sets its own log up before keeps it.
///
/// # Cancel safety
/// As of `run`.
pub async fn main<A, F, R>(run: F) -> ExitCode
where
    A: Parser,
    F: FnOnce(A) -> R,
    R: Future<Output = Result<(), Error>>,
{
    let parsed = A::command().try_get_matches().and_then(|matches| {
        let flags = Flags::from_arg_matches(&matches)?;
        Ok((flags, A::from_arg_matches(&matches)?))
    });
    let (flags, arguments) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage(&error),
    };
    if let Err(message) = start_log(&flags) {
        return refuse(&message, USAGE);
    }
    if let Err(error) = signals::listen_early() {
        return refuse(&error.to_string(), error.exit_code());
    }
    let ended = tokio::select! {
        biased;
        ended = run(arguments) => ended,
        () = signals::before_the_run() => return ExitCode::SUCCESS,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if tracing::enabled!(tracing::Level::ERROR) => {
            tracing::error!("{error}");
            ExitCode::from(error.exit_code())
        }
        Err(error) => refuse(&error.to_string(), error.exit_code()),
    }
}

/// Help and version go to the standard output; an error is its first line and a hint.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is no failure of ours.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty());
    let line = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    refuse(&format!("{line} (see --help)"), USAGE)
}

fn refuse(message: &str, code: u8) -> ExitCode {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{message}");
    ExitCode::from(code)
}

fn start_log(flags: &Flags) -> Result<(), String> {
    let filter = EnvFilter::try_new(&flags.log_level)
        .map_err(|error| format!("error: --log-level {:?}: {error}", flags.log_level))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    // An error means that the program has a log already.
    let _ = match flags.log_format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    Ok(())
}
