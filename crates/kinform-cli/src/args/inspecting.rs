//! The flags of the commands that look at a running program: `top`, `why`.
//!
//! ```text
//! argv → TopArgs | WhyArgs
//! ```
//!
//! Never a flag for a token, which other users of the machine would see.
//!
//! Upstream counterpart: none.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use super::looking::LineOutput;
use super::values::duration;

/// The names of the views, in the order of their keys.
pub(crate) const VIEWS: [&str; 6] = [
    "pipeline", "caches", "queues", "objects", "memory", "problems",
];

/// `kinform top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// View to begin with
    #[arg(default_value = "pipeline", value_parser = PossibleValuesParser::new(VIEWS), value_name = "VIEW")]
    pub(crate) view: String,
    /// Program to look at: the address that its inspector printed, HOST:PORT with the token in
    /// KINFORM_TOKEN, or the file that it wrote (default: the only program that wrote one)
    #[arg(long, value_name = "URL|FILE")]
    pub(crate) attach: Option<String>,
    /// End after this long, e.g. 10s, 1m30s (default: by a key, or with the program)
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    pub(crate) run_for: Option<Duration>,
    /// Format: a screen, or lines where there is no terminal; or the replies of the view as JSON
    #[arg(short, long, default_value = "wide", value_name = "FORMAT")]
    pub(crate) output: TopOutput,
}

/// `kinform why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// Object, as deployments/web; TYPE is a plural or a kind that the program caches
    #[arg(value_name = "TYPE/NAME")]
    pub(crate) object: String,
    /// Program to ask: the address that its inspector printed, HOST:PORT with the token in
    /// KINFORM_TOKEN, or the file that it wrote (default: the only program that wrote one)
    #[arg(long, value_name = "URL|FILE")]
    pub(crate) attach: Option<String>,
    /// Namespace (default: the only one with such a name)
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Format of the reasons
    #[arg(short, long, default_value = "wide", value_name = "FORMAT")]
    pub(crate) output: LineOutput,
}

/// The output formats of `top`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopOutput {
    /// One JSON object a line, each second
    Json,
    /// A screen or lines for people
    Wide,
}
