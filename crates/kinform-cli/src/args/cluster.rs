//! The flags of a connection and of a selection: the same for each command, named as in kubectl.
//!
//! ```text
//! argv → ClusterArgs { kubeconfig, context, .. } ;  SelectArgs { namespace, selectors }
//! ```
//!
//! Parsing only. `cluster.rs` of the crate makes a configuration of them, `connect.rs` a selection.
//!
//! Upstream counterpart: client-go's clientcmd overrides.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::timeout;

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
