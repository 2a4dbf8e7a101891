//! kubectl's rules for finding a cluster and a user.
//!
//! ```text
//! file of the caller │ $KUBECONFIG │ ~/.kube/config ──files──▶ one document, merged
//! nothing there, and in a pod: its service account ──▶ a document like theirs
//!      ──select(overrides)──▶ Cluster, AuthInfo, namespace ──▶ kube_client::Config
//! ```
//!
//! kube-client loads kubeconfigs, too, and differs from kubectl where files are missing, fields are
//! empty or data is folded over lines. Here both agree; docs/contract names the cases.
//!
//! Upstream counterpart: `client-go:tools/clientcmd` (`ClientConfigLoadingRules`,
//! `ConfigOverrides`, `DirectClientConfig`).

mod files;
mod select;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use kube_client::Config;
use kube_client::config::{Cluster, Kubeconfig};

use self::files::Sources;
pub(super) use self::files::read_regular;
use crate::error::{Error, ErrorKind};

/// Choices that win over the kubeconfig's: kubectl's flags of the same names.
///
/// The default overrides nothing.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConfigOverrides {
    /// The only kubeconfig to read; by default the files in `$KUBECONFIG`, then `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// The context, in place of the current one.
    pub context: Option<String>,
    /// The cluster, in place of the context's.
    pub cluster: Option<String>,
    /// The user, in place of the context's.
    pub user: Option<String>,
    /// The address of the API server. It also clears the kubeconfig's `tls-server-name`.
    pub server: Option<String>,
    /// A bearer token, in place of the user's token and token file.
    pub token: Option<String>,
    /// The user to impersonate.
    pub impersonate: Option<String>,
    /// The uid to impersonate.
    pub impersonate_uid: Option<String>,
    /// The groups to impersonate.
    pub impersonate_groups: Vec<String>,
    /// A file with the authorities that may sign the server's certificate.
    pub certificate_authority: Option<PathBuf>,
    /// A file with the client's certificate.
    pub client_certificate: Option<PathBuf>,
    /// A file with the key of the client's certificate.
    pub client_key: Option<PathBuf>,
    /// Accepts any certificate of the server: others can then read and change what is sent.
    pub insecure_skip_tls_verify: bool,
    /// The name that the server's certificate must have, in place of the address's.
    pub tls_server_name: Option<String>,
    /// The proxy, in place of the kubeconfig's and the environment's.
    pub proxy_url: Option<String>,
}

/// Reads the configuration that kubectl would use, with `overrides`.
///
/// Proxies of the environment are in it: `HTTPS_PROXY` and `HTTP_PROXY` for other hosts than this
/// one, without those in `NO_PROXY`. Credentials are left out for an address of plain HTTP, as in
/// kubectl, unless it is an address of this host.
///
/// # Errors
/// No configuration is found, a file cannot be read or is not a kubeconfig, a name in it leads
/// nowhere, or settings contradict each other.
///
/// # Cancel safety
/// Dropping the future has no effect.
pub async fn load_config(overrides: &ConfigOverrides) -> Result<Config, Error> {
    let environment = |name: &str| std::env::var_os(name);
    let sources = Sources::find(overrides.kubeconfig.as_deref(), &environment);
    let document = sources.read()?;
    let mut selection = select::select(&document, overrides)?;
    if selection.is_none() && overrides.kubeconfig.is_none() {
        let account = Config::incluster().map_err(|error| {
            let message = "no Kubernetes configuration: neither a kubeconfig (KUBECONFIG, \
                           ~/.kube/config) nor a pod's service account was found";
            Error::new(ErrorKind::Config, message).with_cause(error)
        })?;
        selection = select::select(&service_account(account), overrides)?;
    }
    match selection {
        Some(selection) => selection.config(&environment).await,
        None => Err(incomplete(&sources)),
    }
}

/// Makes a configuration of a kubeconfig that was read elsewhere, as [`load_config`] does of files.
///
/// [`Config::from_custom_kubeconfig`] uses the environment's proxy also for this host and for those
/// in `NO_PROXY`.
///
/// # Errors
/// It names no server, a name in it leads nowhere, or settings contradict each other.
///
/// # Cancel safety
/// Dropping the future has no effect.
pub async fn config_from(
    document: &Kubeconfig,
    overrides: &ConfigOverrides,
) -> Result<Config, Error> {
    let selection = select::select(document, overrides)?.ok_or_else(|| {
        let message = "the kubeconfig names no server: choose a context or a cluster of it";
        Error::new(ErrorKind::Config, message)
    })?;
    selection.config(&|name| std::env::var_os(name)).await
}

/// A kubeconfig for the service account of a pod, which overrides apply to as to any other.
fn service_account(account: Config) -> Kubeconfig {
    let authority = account.root_cert_file;
    let cluster = Cluster {
        server: Some(account.cluster_url.to_string()),
        certificate_authority: authority.map(|path| path.to_string_lossy().into_owned()),
        ..Cluster::default()
    };
    select::one_context(cluster, account.auth_info, account.default_namespace)
}

fn incomplete(sources: &Sources) -> Error {
    let path = sources
        .paths()
        .first()
        .map_or(Path::new(""), PathBuf::as_path);
    let message = format!(
        "kubeconfig {}: it names no server: choose a context or a cluster of it",
        path.display()
    );
    Error::new(ErrorKind::Config, message)
}
