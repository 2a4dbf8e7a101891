//! The flags of `record` and `replay`.
//!
//! ```text
//! argv → RecordArgs | ReplayArgs
//! ```
//!
//! Parsing only. No flag records Secrets as they are.
//!
//! Upstream counterpart: none; flags of selections are kubectl's.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::cluster::{ClusterArgs, SelectArgs};
use super::values::duration;
use crate::output::change::WatchOutput;

/// `kinform record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Resource, as kubectl names it: pods, deploy, foos.example.com, configmaps/NAME
    #[arg(value_name = "TYPE[/NAME]")]
    pub(crate) word: String,
    /// File to write, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Cluster and user
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Objects to select
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// End after this long, e.g. 10s, 1m30s (default: when interrupted)
    #[arg(long = "for", value_parser = duration, value_name = "DURATION")]
    pub(crate) run_for: Option<Duration>,
}

/// `kinform replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// File that `kinform record` wrote
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Times the recorded speed, e.g. 10 or 0.5; max for no waiting
    #[arg(long, default_value = "1", value_parser = speed, value_name = "N|max")]
    pub(crate) speed: Speed,
    /// Do not print the objects that exist at the start
    #[arg(long, conflicts_with = "command")]
    pub(crate) watch_only: bool,
    /// Only objects for which this expression in CEL is true, such as "object.status.phase ==
    /// 'Pending'"
    #[arg(long = "where", value_name = "CEL", conflicts_with = "command")]
    pub(crate) expression: Option<String>,
    /// Name changes as a server does: ADDED, MODIFIED, DELETED; with -o json, print a server's
    /// events, with the objects
    #[arg(long, conflicts_with = "command")]
    pub(crate) output_watch_events: bool,
    /// Format of the changes (default: one row an object, in place, on a terminal; else wide)
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "command")]
    pub(crate) output: Option<WatchOutput>,
    /// Command to run against an API server that has the recorded objects; KUBECONFIG names it
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The speed of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// This many times as fast as it was recorded.
    Times(f64),
    /// Without waiting.
    Most,
}

/// Parses a speed.
fn speed(text: &str) -> Result<Speed, String> {
    match text.parse::<f64>() {
        _ if text == "max" => Ok(Speed::Most),
        Ok(factor) if (0.01..=10_000.0).contains(&factor) => Ok(Speed::Times(factor)),
        _ => Err("a speed is a number from 0.01 to 10000, or max".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_factor_or_the_most() {
        let check = |text: &str, expected: Option<Speed>| {
            assert_eq!(speed(text).ok(), expected, "{text}");
        };
        check("1", Some(Speed::Times(1.0)));
        check("0.5", Some(Speed::Times(0.5)));
        check("60", Some(Speed::Times(60.0)));
        check("max", Some(Speed::Most));
        for text in ["0", "-1", "inf", "NaN", "", "fast"] {
            check(text, None);
        }
    }
}
