//! The flags of the commands that read through informers: `watch`, `get`, `measure`.
//!
//! ```text
//! argv → WatchArgs | GetArgs | MeasureArgs
//! ```
//!
//! Upstream counterpart: flag names follow `kubectl get`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::cluster::{ClusterArgs, SelectArgs};
use super::values::duration;
use crate::output::change::WatchOutput;
use crate::output::custom_columns::CustomColumns;
use crate::output::template::Template;

/// `kinform watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Resources, as kubectl names them: pods, deploy, foos.example.com, configmaps/NAME
    #[arg(required = true, value_name = "TYPE[/NAME]")]
    pub(crate) types: Vec<String>,
    /// Cluster and user
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Objects to select
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Do not print the objects that exist at the start
    #[arg(long)]
    pub(crate) watch_only: bool,
    /// End after this long, e.g. 10s, 1m30s (default: when interrupted)
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    pub(crate) run_for: Option<Duration>,
    /// Only objects for which this expression in CEL is true, such as "object.status.phase ==
    /// 'Pending'"
    #[arg(long = "where", value_name = "CEL")]
    pub(crate) expression: Option<String>,
    /// Name changes as a server does: ADDED, MODIFIED, DELETED; with -o json, print a server's
    /// events, with the objects
    #[arg(long)]
    pub(crate) output_watch_events: bool,
    /// Format of the changes (default: one row an object, in place, on a terminal; else wide)
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<WatchOutput>,
    /// Keep the cache in this directory, but for Secrets: the next call lists nothing
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Reopen a watch that was silent for this long
    #[arg(long, value_parser = duration, value_name = "DURATION", hide = true)]
    pub(crate) silence_limit: Option<Duration>,
}

/// `kinform get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Resources, as kubectl names them, and objects of them: TYPE, TYPE,TYPE, TYPE NAME.., or
    /// TYPE/NAME..
    #[arg(required = true, value_name = "TYPE [NAME]")]
    pub(crate) words: Vec<String>,
    /// Cluster and user
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Objects to select
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Look up by an index: namespace, label:KEY, owner, or a path as spec.nodeName
    #[arg(long, value_name = "INDEX=VALUE")]
    pub(crate) by: Option<String>,
    /// Only objects for which this expression in CEL is true, such as "object.spec.replicas > 3"
    #[arg(long = "where", value_name = "CEL")]
    pub(crate) expression: Option<String>,
    /// Keep the cache in this directory, but for Secrets: the next call lists nothing
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Output format: json, yaml, wide, name, jsonpath=TEMPLATE or custom-columns=HEADER:PATH,..
    #[arg(short, long, value_parser = get_output, value_name = "FORMAT")]
    pub(crate) output: Option<GetOutput>,
}

/// The output formats of `get`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GetOutput {
    /// One object, or a List of them.
    Json,
    /// The same as YAML.
    Yaml,
    /// A table with more columns.
    Wide,
    /// type/name lines.
    Name,
    /// Text with values at paths.
    JsonPath(Template),
    /// A table of values at paths.
    CustomColumns(CustomColumns),
}

/// `kinform measure`.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    /// Resources, as kubectl names them
    #[arg(required = true, value_name = "TYPE")]
    pub(crate) types: Vec<String>,
    /// Cluster and user
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Objects to select
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Encoding to request from the server
    #[arg(long, default_value = "auto", value_name = "ENCODING")]
    pub(crate) encoding: EncodingArg,
    /// Kind of the first list
    #[arg(long, default_value = "auto", value_name = "MODE")]
    pub(crate) mode: ModeArg,
    /// Decode every object into its type, and keep the values (needs the feature `typed`)
    #[arg(long)]
    pub(crate) typed: bool,
    /// Keep the objects compressed, with a dictionary of their common content (needs the feature
    /// `compressed`)
    #[arg(long)]
    pub(crate) compressed: bool,
    /// Output format
    #[arg(short, long, default_value = "wide", value_name = "FORMAT")]
    pub(crate) output: MeasureOutput,
    /// Measure in this process: how a parent calls its child
    #[arg(long, hide = true)]
    pub(crate) in_process: bool,
}

/// The wire's encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EncodingArg {
    /// The best that the server supports
    Auto,
    /// JSON
    Json,
    /// Protobuf, for built-in types
    Protobuf,
}

/// The kind of the first list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// Streaming, or paged where the server has no streaming lists
    Auto,
    /// Paged list
    List,
    /// Streaming list
    Stream,
}

/// The output formats of `measure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MeasureOutput {
    /// One JSON object a type
    Json,
    /// A table
    Wide,
}

/// Parses an output format of `get`.
pub(super) fn get_output(text: &str) -> Result<GetOutput, String> {
    let unknown = || {
        "expected json, yaml, wide, name, jsonpath=TEMPLATE or custom-columns=HEADER:PATH,.."
            .to_owned()
    };
    let (format, spec) = match text.split_once('=') {
        Some((format, spec)) => (format, Some(spec)),
        None => (text, None),
    };
    match (format, spec) {
        ("json", None) => Ok(GetOutput::Json),
        ("yaml", None) => Ok(GetOutput::Yaml),
        ("wide", None) => Ok(GetOutput::Wide),
        ("name", None) => Ok(GetOutput::Name),
        ("jsonpath", Some(spec)) => spec.parse().map(GetOutput::JsonPath),
        ("custom-columns", Some(spec)) => spec.parse().map(GetOutput::CustomColumns),
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_formats_of_get_are_parsed() {
        for (text, is_known) in [
            ("json", true),
            ("jsonpath={.kind}", true),
            ("custom-columns=A", false),
            ("custom-columns=A:.a", true),
            ("jsonpath", false),
            ("jsonpath={", false),
            ("json=x", false),
            ("xml", false),
        ] {
            assert_eq!(get_output(text).is_ok(), is_known, "{text}");
        }
    }
}
