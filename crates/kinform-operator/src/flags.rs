//! Flags of an operator's process, named as upstream's scaffold names them.
//!
//! ```text
//! #[command(flatten)] Flags → Settings → OperatorBuilder
//! ```
//!
//! A flag that is a yes or no takes a value, too: `--metrics-secure=false`.
//!
//! Upstream counterpart: the `main.go` of kubebuilder's scaffold; the timings of the lease as in
//! `component-base:config/options`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};

use kinform::{DiskCache, Shards};

use crate::leader::LeaseOptions;
use crate::quantity::bytes;
use crate::settings::{
    CertificateFiles, Fencing, LeaseSettings, MetricsAccess, Settings, ShardSettings,
};

/// The heading of these flags in a program's help. Each flag names it: a heading for all of them
/// would be that of the program's own flags, too, which are declared after them.
const HEADING: &str = "Operator";

/// The flags of an operator, to be flattened into those of a program.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct Flags {
    /// Address of the metrics, as :8443; 0 turns them off.
    #[arg(long, help_heading = HEADING, value_name = "ADDRESS", default_value = "0")]
    pub metrics_bind_address: String,
    /// Serves the metrics over HTTPS to callers who may read them; =false: over HTTP, to everybody.
    #[arg(long, help_heading = HEADING, value_name = "BOOL", default_value = "true", num_args = 0..=1,
          default_missing_value = "true", require_equals = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    pub metrics_secure: bool,
    /// Directory of the metrics' certificate; without it one is made at start.
    #[arg(long, help_heading = HEADING, value_name = "DIRECTORY")]
    pub metrics_cert_path: Option<PathBuf>,
    /// File of the metrics' certificate in its directory.
    #[arg(long, help_heading = HEADING, value_name = "FILE", default_value = "tls.crt")]
    pub metrics_cert_name: String,
    /// File of the metrics' key in their directory.
    #[arg(long, help_heading = HEADING, value_name = "FILE", default_value = "tls.key")]
    pub metrics_cert_key: String,
    /// Address of the webhooks.
    #[arg(long, help_heading = HEADING, value_name = "ADDRESS", default_value = ":9443")]
    pub webhook_bind_address: String,
    /// Directory of the webhooks' certificate.
    #[arg(long, help_heading = HEADING, value_name = "DIRECTORY")]
    pub webhook_cert_path: Option<PathBuf>,
    /// File of the webhooks' certificate in its directory.
    #[arg(long, help_heading = HEADING, value_name = "FILE", default_value = "tls.crt")]
    pub webhook_cert_name: String,
    /// File of the webhooks' key in its directory.
    #[arg(long, help_heading = HEADING, value_name = "FILE", default_value = "tls.key")]
    pub webhook_cert_key: String,
    /// Address of the probes; 0 turns them off.
    #[arg(long, help_heading = HEADING, value_name = "ADDRESS", default_value = ":8081")]
    pub health_probe_bind_address: String,
    /// Serves the inspector on this address of loopback, by default 127.0.0.1:8082: what the program
    /// does, as a page and as JSON, to callers who may read it. Reached with kubectl port-forward.
    #[cfg(feature = "inspect")]
    #[arg(long, help_heading = HEADING, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:8082",
          require_equals = true)]
    pub inspect: Option<String>,
    /// Works only while this replica holds a lease, so that one of several works at a time.
    #[arg(long, help_heading = HEADING, value_name = "BOOL", default_value = "false", num_args = 0..=1,
          default_missing_value = "true", require_equals = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    pub leader_elect: bool,
    /// Time after its last renewal at which others take the lease, as 15s.
    #[arg(long, help_heading = HEADING, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub leader_elect_lease_duration: Duration,
    /// Time in which the leader tries to renew the lease before it reports trouble.
    #[arg(long, help_heading = HEADING, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub leader_elect_renew_deadline: Duration,
    /// Pause between two attempts to take or renew the lease.
    #[arg(long, help_heading = HEADING, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub leader_elect_retry_period: Duration,
    /// Stamps each write of the leader with its term, for an admission policy that refuses older
    /// terms.
    #[arg(long, help_heading = HEADING, value_name = "BOOL", default_value = "false", num_args = 0..=1,
          default_missing_value = "true", require_equals = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    pub leader_elect_hard_fence: bool,
    /// Name of the lease; the operator's by default.
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    pub leader_elect_resource_name: Option<String>,
    /// Namespace of the lease; by default the pod's, and outside of a pod that of the kubeconfig's
    /// context.
    #[arg(long, help_heading = HEADING, value_name = "NAMESPACE")]
    pub leader_elect_resource_namespace: Option<String>,
    /// Divides the keys into this number of shards, 1 to 16384, which all replicas share: each works on
    /// its part.
    #[arg(long, help_heading = HEADING, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub shards: Option<u32>,
    /// The field by which keys are divided.
    #[arg(long, help_heading = HEADING, value_name = "FIELD", default_value = "namespace")]
    pub shard_by: ShardBy,
    /// Namespace to work in; may be given several times. All of them by default.
    #[arg(long, help_heading = HEADING, value_name = "NAMESPACE")]
    pub namespace: Vec<String>,
    /// Directory in which caches are kept, but for Secrets, so that the next start lists nothing. One
    /// process at a time may use it.
    #[arg(long, help_heading = HEADING, value_name = "DIRECTORY")]
    pub cache_dir: Option<PathBuf>,
    /// Memory that all caches may take together, as 64Mi: above it they keep no decoded values, then
    /// compress their objects.
    #[arg(long, help_heading = HEADING, value_name = "BYTES", value_parser = bytes)]
    pub memory_budget: Option<u64>,
    /// Requests a second to the API server, for caches and for the leader's work each; leases are
    /// apart. 0 is no limit.
    #[arg(long, help_heading = HEADING, value_name = "NUMBER", default_value_t = 50)]
    pub kube_api_qps: u32,
    /// Requests at once before the limit holds.
    #[arg(long, help_heading = HEADING, value_name = "NUMBER", default_value_t = 100)]
    pub kube_api_burst: u32,
    /// Time that running reconciles have to end after a signal.
    #[arg(long, help_heading = HEADING, value_name = "DURATION", default_value = "25s", value_parser = duration)]
    pub graceful_shutdown_timeout: Duration,
    /// kubeconfig; by default $KUBECONFIG, ~/.kube/config or the pod's service account.
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, help_heading = HEADING, value_name = "NAME")]
    pub context: Option<String>,
    /// Messages to log, as info or kinform=debug,info.
    #[arg(long, help_heading = HEADING, value_name = "FILTER", default_value = "info", env = "RUST_LOG")]
    pub log_level: String,
    /// Form of the log.
    #[arg(long, help_heading = HEADING, value_name = "FORM", default_value = "text")]
    pub log_format: LogFormat,
}

/// BOUND: the margin and the request timeout of a lease, which have no flags.
const MIN_MARGIN: Duration = Duration::from_millis(500);
const MAX_TIMEOUT: Duration = Duration::from_secs(2);

/// The field by which keys are divided into shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShardBy {
    /// The namespace: an object and those that it owns are in one shard.
    Namespace,
    /// The uid of the object.
    Uid,
}

/// The form of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// An object a line.
    Json,
}

/// Parses a duration as Go writes it, as `1m30s` or `500ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is not a duration as 15s, 500ms or 1m30s");
    let span: jiff::SignedDuration = text.parse().map_err(|_| refused())?;
    Duration::try_from(span).map_err(|_| refused())
}

/// An address, unless it is turned off.
fn address(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| text != "0")
}

fn files(path: Option<&Path>, certificate: &str, key: &str) -> Option<CertificateFiles> {
    path.map(|path| CertificateFiles::new(path.join(certificate), path.join(key)))
}

/// The lease that the flags name.
fn lease(flags: &Flags) -> LeaseSettings {
    let lease = flags.leader_elect_lease_duration;
    let options = LeaseOptions {
        lease_duration: lease,
        renew_deadline: flags.leader_elect_renew_deadline,
        retry_period: flags.leader_elect_retry_period,
        // Shorter leases have shorter requests; 2 s and 1 s of 15 s.
        request_timeout: (lease * 2 / 15).clamp(MIN_MARGIN, MAX_TIMEOUT),
        margin: (lease / 15).max(MIN_MARGIN),
        ..LeaseOptions::default()
    };
    LeaseSettings {
        name: flags.leader_elect_resource_name.clone(),
        namespace: flags.leader_elect_resource_namespace.clone(),
        options,
        fencing: if flags.leader_elect_hard_fence {
            Fencing::Hard
        } else {
            Fencing::Guard
        },
        ..LeaseSettings::default()
    }
}

/// The division of keys that the flags ask for.
fn sharding(flags: &Flags) -> Option<ShardSettings> {
    let count = flags.shards?;
    let shards = match flags.shard_by {
        ShardBy::Namespace => Shards::by_namespace(count),
        ShardBy::Uid => Shards::by_uid(count),
    };
    let LeaseSettings {
        name,
        namespace,
        options,
        ..
    } = lease(flags);
    Some(ShardSettings {
        shards: shards?,
        name,
        namespace,
        options,
    })
}

impl From<&Flags> for Settings {
    fn from(flags: &Flags) -> Self {
        let mut settings = Self {
            sharding: sharding(flags),
            metrics_address: address(&flags.metrics_bind_address),
            metrics_access: if flags.metrics_secure {
                MetricsAccess::Reviewed
            } else {
                MetricsAccess::Open
            },
            metrics_certificate: files(
                flags.metrics_cert_path.as_deref(),
                &flags.metrics_cert_name,
                &flags.metrics_cert_key,
            ),
            probe_address: address(&flags.health_probe_bind_address),
            #[cfg(feature = "inspect")]
            inspect_address: flags.inspect.clone(),
            webhook_address: flags.webhook_bind_address.clone(),
            webhook_certificate: files(
                flags.webhook_cert_path.as_deref(),
                &flags.webhook_cert_name,
                &flags.webhook_cert_key,
            ),
            leader_election: flags.leader_elect.then(|| lease(flags)),
            namespaces: flags.namespace.clone(),
            disk_cache: flags.cache_dir.as_ref().map(DiskCache::in_dir),
            memory_budget: flags.memory_budget,
            request_rate: (flags.kube_api_qps, flags.kube_api_burst),
            grace_period: flags.graceful_shutdown_timeout,
            ..Self::default()
        };
        settings.connection.kubeconfig.clone_from(&flags.kubeconfig);
        settings.connection.context.clone_from(&flags.context);
        settings
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        operator: Flags,
    }

    fn settings(arguments: &[&str]) -> Result<Settings, String> {
        let arguments = std::iter::once(&"operator").chain(arguments);
        let program = Program::try_parse_from(arguments).map_err(|error| error.to_string())?;
        Ok(Settings::from(&program.operator))
    }

    #[test]
    fn the_defaults_of_the_flags_are_the_defaults_of_the_settings() {
        let by_flags = settings(&[]).unwrap();
        assert_eq!(
            format!("{by_flags:?}"),
            format!("{:?}", Settings::default())
        );
    }

    #[test]
    fn flags_of_the_program_stand_under_its_own_heading_wherever_they_are_declared() {
        #[derive(Debug, Parser)]
        struct Between {
            /// Declared before.
            #[arg(long)]
            before: bool,
            #[command(flatten)]
            operator: Flags,
            /// Declared after.
            #[arg(long)]
            after: bool,
        }
        let help = <Between as clap::CommandFactory>::command()
            .render_long_help()
            .to_string();
        let (own, operators) = help.split_once("\nOperator:\n").unwrap();
        for flag in ["--before", "--after", "--help"] {
            assert!(own.contains(flag) && !operators.contains(flag), "{help}");
        }
        for flag in ["--metrics-bind-address", "--log-format"] {
            assert!(operators.contains(flag) && !own.contains(flag), "{help}");
        }
    }

    // The flags that kubebuilder's manifests pass.
    #[test]
    fn flags_of_the_scaffold_are_understood() {
        let found = settings(&[
            "--metrics-bind-address=:8443",
            "--leader-elect",
            "--health-probe-bind-address=:8081",
            "--metrics-cert-path=/certs",
            "--webhook-cert-path=/tmp/k8s-webhook-server/serving-certs",
            "--namespace=a",
            "--namespace=b",
        ])
        .unwrap();
        assert_eq!(found.metrics_address.as_deref(), Some(":8443"));
        assert_eq!(found.metrics_access, MetricsAccess::Reviewed);
        let files = CertificateFiles::new("/certs/tls.crt", "/certs/tls.key");
        assert_eq!(found.metrics_certificate, Some(files));
        assert!(found.webhook_certificate.is_some());
        let lease = found.leader_election.unwrap();
        assert_eq!(lease.options, LeaseOptions::default());
        let quick = settings(&[
            "--leader-elect",
            "--leader-elect-lease-duration=4s",
            "--leader-elect-renew-deadline=2s",
            "--leader-elect-retry-period=500ms",
            "--leader-elect-hard-fence",
        ]);
        let quick = quick.unwrap().leader_election.unwrap();
        assert_eq!(
            (quick.fencing, lease.fencing),
            (Fencing::Hard, Fencing::Guard)
        );
        let options = quick.options;
        options.validate().unwrap();
        assert_eq!(options.margin, LeaseOptions::quick().margin);
        assert_eq!(found.namespaces, ["a", "b"]);
        #[cfg(feature = "inspect")]
        {
            assert_eq!(found.inspect_address, None);
            let inspected = settings(&["--inspect"]).unwrap().inspect_address;
            assert_eq!(inspected.as_deref(), Some("127.0.0.1:8082"));
            let elsewhere = settings(&["--inspect=127.0.0.1:1"]).unwrap();
            assert_eq!(elsewhere.inspect_address.as_deref(), Some("127.0.0.1:1"));
        }
    }

    #[test]
    fn yes_and_no_durations_and_zero_addresses_are_read_as_upstream_reads_them() {
        let found = settings(&[
            "--metrics-secure=false",
            "--leader-elect=true",
            "--metrics-bind-address=127.0.0.1:8080",
            "--health-probe-bind-address=0",
            "--leader-elect-lease-duration=1m30s",
            "--leader-elect-retry-period=500ms",
        ])
        .unwrap();
        assert_eq!(found.metrics_access, MetricsAccess::Open);
        assert_eq!(found.probe_address, None);
        let options = found.leader_election.unwrap().options;
        assert_eq!(options.lease_duration, Duration::from_secs(90));
        assert_eq!(options.retry_period, Duration::from_millis(500));
        for nonsense in [
            "--leader-elect-lease-duration=15",
            "--leader-elect-lease-duration=-5s",
            "--metrics-secure=maybe",
            "--kube-api-qps=-1",
            "--nosuch",
        ] {
            assert!(settings(&[nonsense]).is_err(), "{nonsense}");
        }
    }
}
