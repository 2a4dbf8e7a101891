//! The command line: commands, flags, their defaults and their checks.
//!
//! ```text
//! argv → Cli → Command { Demo | Serve | Watch | Get | Measure }
//! ```
//!
//! Parsing only: this module opens no connection, reads no file and prints nothing. A bare
//! `kinform` is `kinform demo` and never touches a real cluster; flags of the demo work without the
//! command, too.
//!
//! Upstream counterpart: flag names follow kubectl and client-go's clientcmd overrides.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use kinform_apiserver::{AdmissionPlugins, FaultRule};
use kinform_controlplane::Selection;

use crate::output::change::WatchOutput;
use crate::output::custom_columns::CustomColumns;
use crate::output::template::Template;

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
    Demo(DemoArgs),
    /// Run only the embedded API server
    Serve(ServeArgs),
    /// Print every change of some resources, as informers' handlers hear it
    Watch(WatchArgs),
    /// Print resources out of a synced cache
    Get(GetArgs),
    /// Measure the cost of caching a resource: bytes, CPU, memory, time
    Measure(MeasureArgs),
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
    /// Print one summary object on stdout at the end
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<DemoOutput>,
}

/// The output at the end of the demo.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoOutput {
    /// One JSON object on stdout
    Json,
}

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
    /// Format of the changes
    #[arg(short, long, default_value = "wide", value_name = "FORMAT")]
    pub(crate) output: WatchOutput,
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

/// The cluster and the user, named as in kubectl.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ClusterArgs {
    /// Path of the kubeconfig (default: $KUBECONFIG, then ~/.kube/config, then in-cluster)
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Cluster of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// User of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Address of the API server
    #[arg(short, long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Bearer token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// User to impersonate
    #[arg(long = "as", value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// Group to impersonate; for several, repeat the flag
    #[arg(long, value_name = "GROUP")]
    pub(crate) as_group: Vec<String>,
    /// Uid to impersonate
    #[arg(long, value_name = "UID")]
    pub(crate) as_uid: Option<String>,
    /// File with the authorities that may sign the server's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// File with the client's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) client_certificate: Option<PathBuf>,
    /// File with the key of the client's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) client_key: Option<PathBuf>,
    /// Accept any certificate of the server: others can then read and change what is sent
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Name that the server's certificate must have (default: the address's)
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
    /// Time that a server has to begin its reply, e.g. 5s; 0 for any time
    #[arg(long, value_parser = timeout, value_name = "DURATION")]
    pub(crate) request_timeout: Option<Duration>,
    /// Proxy to connect through, as http://HOST:PORT or socks5://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub(crate) proxy_url: Option<String>,
}

/// Selection of objects of a type.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SelectArgs {
    /// Namespace (default: the context's)
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        conflicts_with = "all_namespaces"
    )]
    pub(crate) namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Label selector
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Field selector
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) field_selector: Option<String>,
}

/// Parses an output format of `get`.
fn get_output(text: &str) -> Result<GetOutput, String> {
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

/// Parses a duration as Go and people write it: `10s`, `1m30s`, `500ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "a duration looks like 500ms, 10s or 1m30s".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "a duration must not be negative".to_owned())
}

/// The address at which the webhooks of a service are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceAddress {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
}

/// Parses the address of a service.
fn service_address(text: &str) -> Result<ServiceAddress, String> {
    let parsed = || {
        let (service, address) = text.split_once('=')?;
        let (namespace, name) = service.split_once('/')?;
        let is_name = |name: &str| kinform_api::names::dns_subdomain_errors(name).is_empty();
        (is_name(namespace) && is_name(name)).then_some(())?;
        Some(ServiceAddress {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            address: address.parse().ok()?,
        })
    };
    parsed().ok_or_else(|| {
        "the address of a service looks like namespace/name=127.0.0.1:9443".to_owned()
    })
}

/// Parses a name of a certificate: an IP address or a DNS name, without a port.
fn host_name(text: &str) -> Result<String, String> {
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    if is_address || kinform_api::names::dns_subdomain_errors(text).is_empty() {
        return Ok(text.to_owned());
    }
    Err("a name looks like box.example.com or 192.0.2.7, without a port".to_owned())
}

/// Parses a duration, or whole seconds as kubectl takes them.
fn timeout(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => duration(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_address_of_a_service_names_the_service_and_a_port() {
        for (text, is_address) in [
            ("hooks/checker=127.0.0.1:9443", true),
            ("hooks/checker=[::1]:9443", true),
            ("hooks/checker=127.0.0.1", false),
            ("checker=127.0.0.1:9443", false),
            ("hooks/=127.0.0.1:9443", false),
            ("hooks/checker", false),
        ] {
            assert_eq!(service_address(text).is_ok(), is_address, "{text}");
        }
    }

    #[test]
    fn durations_read_as_go_and_humans_write_them() {
        for (text, expected) in [
            ("10s", Some(10_000)),
            ("1m30s", Some(90_000)),
            ("500ms", Some(500)),
            ("2h", Some(7_200_000)),
            ("0s", Some(0)),
            ("", None),
            ("10", None),
            ("-5s", None),
            ("soon", None),
        ] {
            assert_eq!(
                duration(text).ok().map(|d| d.as_millis()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_timeout_may_be_whole_seconds() {
        assert_eq!(timeout("5"), Ok(Duration::from_secs(5)));
        assert_eq!(timeout("0"), Ok(Duration::ZERO));
        assert_eq!(timeout("1m"), Ok(Duration::from_secs(60)));
        assert!(timeout("-1").is_err());
    }

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

    #[test]
    fn a_bare_command_is_the_demo_and_an_unknown_word_is_an_error() {
        let bare = Cli::try_parse_from(["kinform"]).unwrap();
        assert!(bare.command.is_none());
        assert_eq!(bare.demo.pods, 5_000);
        let flags = Cli::try_parse_from(["kinform", "--for", "10s", "-o", "json"]).unwrap();
        assert_eq!(flags.demo.run_for, Some(Duration::from_secs(10)));
        assert!(Cli::try_parse_from(["kinform", "frobnicate"]).is_err());
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
