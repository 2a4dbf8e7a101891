//! The flags of `serve`.
//!
//! ```text
//! argv → ServeArgs
//! ```
//!
//! Parsing only: a file that a flag names is read by the command.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use kinform_apiserver::{AdmissionPlugins, FaultRule, FeatureGates};
use kinform_controlplane::Selection;

use super::values::{ServiceAddress, duration, host_name, service_address};

/// `kinform serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub(crate) listen: SocketAddr,
    /// Name or address under which clients reach the server, for its certificate; others are
    /// refused
    #[arg(long, value_parser = host_name, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Serve plain HTTP (loopback only) instead of HTTPS
    #[arg(long)]
    pub(crate) http: bool,
    /// Authorize users by roles and bindings; without this, every authenticated user may do
    /// everything
    #[arg(long)]
    pub(crate) rbac: bool,
    /// Authenticate users by bearer tokens: lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Write a kubeconfig (mode 0600) here once the server answers
    #[arg(long, value_name = "FILE")]
    pub(crate) write_kubeconfig: Option<PathBuf>,
    /// Load manifests (YAML or JSON, several documents a file) or dumps of another server; of a
    /// folder, its .yaml, .yml, .json and .jsonl files; - reads stdin
    #[arg(long, value_name = "FILE|DIR|-")]
    pub(crate) load: Vec<PathBuf>,
    /// Also load the files of the folders in a folder
    #[arg(short = 'R', long, requires = "load")]
    pub(crate) recursive: bool,
    /// Store aggregated APIs, although this server never passes a request on; without this, it refuses
    /// them, and --load skips them with a line each
    #[arg(long)]
    pub(crate) keep_inert: bool,
    /// Turn compiled-in admission plugins on, or off by -NAME (LimitRanger, PodSecurity, ..); -*
    /// turns all of them off
    #[arg(long, allow_hyphen_values = true, value_name = "NAME,-NAME")]
    pub(crate) admission: Option<AdmissionPlugins>,
    /// Turn on features that are off by default: ShardedListAndWatch
    #[arg(long, value_name = "NAME=BOOL,..")]
    pub(crate) feature_gates: Option<FeatureGates>,
    /// Call the webhooks of a service at this address, which must be on this machine or in its
    /// network: namespace/name=127.0.0.1:9443
    #[arg(long, value_parser = service_address, value_name = "NS/NAME=ADDRESS")]
    pub(crate) service_address: Vec<ServiceAddress>,
    /// Call webhooks at any address; without this, only addresses of loopback are called, and those
    /// of --service-address
    #[arg(long)]
    pub(crate) webhooks_anywhere: bool,
    /// Run Kubernetes' built-in controllers, a scheduler and scripted pods, or only those named
    #[arg(long, value_name = "NAMES", num_args = 0..=1, require_equals = true,
          default_missing_value = "*")]
    pub(crate) controllers: Option<Selection>,
    /// Choose who plays the nodes and ends deleted pods; default: the kubelet of --controllers
    #[arg(
        long,
        value_enum,
        value_name = "WHO",
        requires_if("scripted", "controllers")
    )]
    pub(crate) kubelet: Option<KubeletMode>,
    /// Seed a cluster with this many pods
    #[arg(long, value_name = "N")]
    pub(crate) pods: Option<usize>,
    /// Keep the state in this folder, over restarts: a write is acknowledged when it is on disk
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// With =false, a write is acknowledged when the operating system has it: faster, and safe if
    /// the process is killed, but not if the machine loses power
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set,
        requires = "data_dir")]
    pub(crate) fsync: bool,
    /// Events kept over all resources; older versions are 410
    #[arg(long, value_name = "N")]
    pub(crate) history: Option<usize>,
    /// Interval between bookmarks on idle watches
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) bookmark_period: Option<Duration>,
    /// Inject a fault, as verb=watch,resource=pods,nth=2,status=429 (kinform's command line page
    /// lists all keys); for further faults while the server runs, use the admin path
    #[arg(long, value_name = "RULE")]
    pub(crate) fault: Vec<FaultRule>,
    /// Append a line of JSON for each completed request
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Run this command with KUBECONFIG set, and end with its exit code
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The players of nodes and pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KubeletMode {
    /// The kubelet of --controllers: by a script of annotations
    Scripted,
    /// Another program, such as kwok: deleted pods wait for it, and it serves logs and exec
    External,
    /// Nobody: a deleted pod is gone at once
    None,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::{Cli, Command};

    #[test]
    fn an_unknown_feature_gate_is_refused_with_a_line_that_names_the_known_ones() {
        let parse =
            |gates: &str| Cli::try_parse_from(["kinform", "serve", "--feature-gates", gates]);
        assert!(parse("ShardedListAndWatch=true").is_ok());
        for gates in ["WatchList=true", "ShardedListAndWatch=maybe", "nonsense"] {
            let error = parse(gates).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{gates}");
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            assert!(first.ends_with(": ShardedListAndWatch"), "{text}");
        }
    }

    #[test]
    fn what_follows_two_dashes_is_the_command_to_run() {
        let cli = Cli::try_parse_from(["kinform", "serve", "--http", "--", "kubectl", "get", "-A"]);
        let Some(Command::Serve(serve)) = cli.unwrap().command else {
            panic!("serve expected")
        };
        assert_eq!(serve.command, ["kubectl", "get", "-A"]);
    }
}
