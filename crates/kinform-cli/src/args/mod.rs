//! The command line: commands, their flags, defaults and checks.
//!
//! ```text
//! argv → Cli → Command { Demo | Serve | Watch | Get | Measure | Wait | .. }
//! ```
//!
//! Parsing only: this module opens no connection, reads no file and prints nothing. A bare
//! `kinform` is `kinform demo` and never touches a real cluster; flags of the demo work without the
//! command, too.
//!
//! * `cluster.rs`: the flags of a connection and a selection; `values.rs`: durations and names;
//! * `demo.rs`: the demo and its tour;
//! * `serve.rs`, `reading.rs` (`watch`, `get`, `measure`), `looking.rs` (`wait`, `story`, `tree`,
//!   `diff`), `recording.rs` (`record`, `replay`), `inspecting.rs` (`top`, `why`), `checking.rs`
//!   (`doctor`, `rbac`, `version`, `completion`), `creating.rs` (`new`);
//! * `reference.rs`: the pages of the book that are made of all of them (tests).
//!
//! Upstream counterpart: flag names follow kubectl and client-go's clientcmd overrides.

pub(crate) mod checking;
pub(crate) mod cluster;
pub(crate) mod creating;
pub(crate) mod demo;
pub(crate) mod inspecting;
pub(crate) mod looking;
pub(crate) mod reading;
pub(crate) mod recording;
#[cfg(test)]
mod reference;
pub(crate) mod serve;
mod values;

use clap::{Parser, Subcommand};

use self::checking::{CompletionArgs, DoctorArgs, RbacArgs, VersionArgs};
use self::creating::NewArgs;
use self::demo::{DemoArgs, DemoCommand};
use self::inspecting::{TopArgs, WhyArgs};
use self::looking::{DiffArgs, StoryArgs, TreeArgs, WaitArgs};
use self::reading::{GetArgs, MeasureArgs, WatchArgs};
use self::recording::{RecordArgs, ReplayArgs};
use self::serve::ServeArgs;

/// Informers for Kubernetes: watch, cache and index any resource; or try it all on an embedded
/// API server.
#[derive(Debug, Parser)]
#[command(
    name = "kinform",
    version,
    about,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Cli {
    /// The command to run; the demo by default.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Flags of the demo, for a call without a command.
    #[command(flatten)]
    pub(crate) demo: DemoArgs,
}

/// The commands of the binary.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an embedded server, a seeded cluster, churn and the sample controller; show the pipeline
    Demo(DemoCommand),
    /// Run only the embedded API server
    Serve(ServeArgs),
    /// Print every change of some resources, as informers' handlers hear it
    Watch(WatchArgs),
    /// Print resources out of a synced cache
    Get(GetArgs),
    /// Measure the cost of caching a resource: bytes, CPU, memory, time
    Measure(MeasureArgs),
    /// Wait for a condition of objects, for their creation or their deletion
    Wait(WaitArgs),
    /// Tell what happens to an object and to what it owns, one line a fact
    Story(StoryArgs),
    /// Print the owners of an object and what it owns, with readiness
    Tree(TreeArgs),
    /// Print what changes in an object from now on: exit code 0 if nothing, 1 if something does
    Diff(DiffArgs),
    /// Look at the informers and controllers of a running program, through its inspector
    Top(TopArgs),
    /// Print the reasons for which a running program reconciles an object
    Why(WhyArgs),
    /// Check the rights, the server and the way to it; name what is wrong, and a remedy
    Doctor(DoctorArgs),
    /// Run a command and print the least role that it needs
    Rbac(RbacArgs),
    /// Record what a server sends about a resource, in a file; secret values as digests
    Record(RecordArgs),
    /// Replay a recording: as changes, or as an API server for a command
    Replay(ReplayArgs),
    /// Write the project of an operator: a custom resource, its controller, tests and manifests
    New(NewArgs),
    /// Print the versions of this program and of the server
    Version(VersionArgs),
    /// Print a script that completes words of the command line in a shell
    Completion(CompletionArgs),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_bare_command_is_the_demo_and_an_unknown_word_is_an_error() {
        let bare = Cli::try_parse_from(["kinform"]).unwrap();
        assert!(bare.command.is_none());
        assert_eq!(bare.demo.pods, 5_000);
        let flags = Cli::try_parse_from(["kinform", "--for", "10s", "-o", "json"]).unwrap();
        assert_eq!(flags.demo.run_for, Some(Duration::from_secs(10)));
        assert!(Cli::try_parse_from(["kinform", "frobnicate"]).is_err());
    }
}
