//! The command line of `kinform demo` and `kinform demo tour`.
//!
//! ```text
//! demo FLAGS → DemoArgs      demo tour FLAGS → TourArgs
//! ```

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::values::duration;

/// `kinform demo`, with or without a verb.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DemoCommand {
    /// The part of the demo; the whole by default.
    #[command(subcommand)]
    pub(crate) verb: Option<DemoVerb>,
    /// Flags of the demo.
    #[command(flatten)]
    pub(crate) args: DemoArgs,
}

/// The parts of the demo.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DemoVerb {
    /// Walk through the pipeline in about three minutes: a paragraph a step, with its live numbers
    Tour(TourArgs),
}

/// `kinform demo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Pods in the seeded cluster
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    pub(crate) pods: usize,
    /// Changes a second
    #[arg(long, default_value_t = 200, value_name = "PER_SECOND")]
    pub(crate) churn: u32,
    /// End after this long, e.g. 10s, 1m30s (default: when interrupted)
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    pub(crate) run_for: Option<Duration>,
    /// Play this act, from 1 to 8, after the start; several play in turn
    #[arg(long = "act", value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) acts: Vec<u8>,
    /// Open the page of the pipeline in a browser
    #[arg(long)]
    pub(crate) web: bool,
    /// Print one summary object on stdout at the end
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<DemoOutput>,
}

/// `kinform demo tour`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TourArgs {
    /// Go on by itself, as soon as a step has been seen to be true
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Pods in the seeded cluster
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    pub(crate) pods: usize,
    /// Open the page of the pipeline in a browser
    #[arg(long)]
    pub(crate) web: bool,
}

/// The output at the end of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoOutput {
    /// One JSON object on stdout
    Json,
}

impl From<DemoArgs> for DemoCommand {
    fn from(args: DemoArgs) -> Self {
        Self { verb: None, args }
    }
}
