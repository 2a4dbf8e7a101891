//! The flags of the commands about rights, versions and the shell: `doctor`, `rbac`, `version`,
//! `completion`.
//!
//! ```text
//! argv → DoctorArgs | RbacArgs | VersionArgs | CompletionArgs
//! ```
//!
//! Upstream counterpart: `version` and `completion` follow kubectl.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use super::cluster::ClusterArgs;
use super::looking::LineOutput;

/// `kinform doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Types that a program will watch
    #[arg(value_name = "TYPE", default_value = "pods")]
    pub(crate) types: Vec<String>,
    /// Cluster and user
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
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
    /// Format of the checks
    #[arg(short, long, default_value = "wide", value_name = "FORMAT")]
    pub(crate) output: LineOutput,
}

/// `kinform rbac`.
#[derive(Debug, Args)]
pub(crate) struct RbacArgs {
    /// Cluster and user
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Namespace of the command's kubeconfig (default: the context's)
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Name of the role (default: the command's)
    #[arg(long, value_name = "NAME")]
    pub(crate) role: Option<String>,
    /// Restrict rules to the names of objects that the command uses, where a rule allows that
    #[arg(long)]
    pub(crate) resource_names: bool,
    /// Format of the role
    #[arg(short, long, default_value = "yaml", value_name = "FORMAT")]
    pub(crate) output: DocumentOutput,
    /// Command to run, with KUBECONFIG set
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// `kinform version`.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Cluster and user
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Print only the version of this program, without a request
    #[arg(long)]
    pub(crate) client: bool,
    /// Format of the versions (default: lines)
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<DocumentOutput>,
}

/// `kinform completion`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// Shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// The formats of one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentOutput {
    /// JSON
    Json,
    /// YAML
    Yaml,
}
