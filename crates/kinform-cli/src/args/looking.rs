//! The flags of the commands that look at single objects: `wait`, `story`, `tree`, `diff`.
//!
//! ```text
//! argv → WaitArgs | StoryArgs | TreeArgs | DiffArgs
//! ```
//!
//! Upstream counterpart: `wait` has the flags of `kubectl wait`; the others have none.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::cluster::{ClusterArgs, SelectArgs};
use super::reading::{GetOutput, get_output};
use super::values::{duration, patience};
use crate::target::Target;

/// `kinform wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Objects to wait for: TYPE/NAME.., TYPE NAME.., or TYPE with -l, --field-selector or --all
    #[arg(required = true, value_name = "TYPE[/NAME]")]
    pub(crate) words: Vec<String>,
    /// Cluster and user
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Objects to select
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// All objects of the type in the namespace
    #[arg(long)]
    pub(crate) all: bool,
    /// Condition: create, delete, condition=NAME[=VALUE] or jsonpath='{PATH}'[=VALUE]; no duration
    /// as with other commands
    #[arg(
        long = "for",
        value_name = "CONDITION",
        required_unless_present = "expression"
    )]
    pub(crate) target: Option<Target>,
    /// Expression in CEL of the variable `object`, such as "object.status.readyReplicas == 3"
    #[arg(long = "where", value_name = "CEL", conflicts_with = "target")]
    pub(crate) expression: Option<String>,
    /// Time to wait: 0 checks once, a negative one waits for a week
    #[arg(long, value_parser = patience, default_value = "30s", allow_hyphen_values = true,
          value_name = "DURATION")]
    pub(crate) timeout: Duration,
    /// Print each object when its condition is met: json, yaml, name, jsonpath=TEMPLATE, ..
    #[arg(short, long, value_parser = get_output, value_name = "FORMAT")]
    pub(crate) output: Option<GetOutput>,
}

/// One object and the time to look at it: the common flags of `story` and `diff`.
#[derive(Debug, Args)]
pub(crate) struct ObjectArgs {
    /// Object, as deploy/web
    #[arg(value_name = "TYPE/NAME")]
    pub(crate) object: String,
    /// Cluster and user
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Namespace (default: the context's)
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

/// `kinform story`.
#[derive(Debug, Args)]
pub(crate) struct StoryArgs {
    /// Object to follow
    #[command(flatten)]
    pub(crate) of: ObjectArgs,
    /// End after this long, e.g. 10s, 1m30s (default: when interrupted, or the object is gone)
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    pub(crate) run_for: Option<Duration>,
    /// Further types to look for owned objects in, besides those that own or are owned now
    #[arg(long, value_delimiter = ',', value_name = "TYPE")]
    pub(crate) types: Vec<String>,
    /// Format of the facts
    #[arg(short, long, default_value = "wide", value_name = "FORMAT")]
    pub(crate) output: LineOutput,
}

/// `kinform tree`.
#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
    /// Object whose tree is printed
    #[command(flatten)]
    pub(crate) of: ObjectArgs,
    /// Format of the tree
    #[arg(short, long, default_value = "wide", value_name = "FORMAT")]
    pub(crate) output: LineOutput,
}

/// `kinform diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Object to compare with itself
    #[command(flatten)]
    pub(crate) of: ObjectArgs,
    /// Running program whose versions of the object are printed: the address that its inspector
    /// printed, HOST:PORT with the token in KINFORM_TOKEN, or the file that it wrote
    #[arg(long, value_name = "URL|FILE")]
    pub(crate) attach: Option<String>,
    /// Compare after this long, e.g. 10s, 1m30s (default: when interrupted; with --attach, at once)
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    pub(crate) run_for: Option<Duration>,
    /// Format of the changed fields
    #[arg(short, long, default_value = "wide", value_name = "FORMAT")]
    pub(crate) output: LineOutput,
}

/// The output formats of commands that print lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LineOutput {
    /// One JSON object a line
    Json,
    /// Lines for people
    Wide,
}
