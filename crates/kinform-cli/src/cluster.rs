//! The cluster and the user: flags and kubeconfig become a client configuration.
//!
//! ```text
//! ClusterArgs + $KUBECONFIG | ~/.kube/config | in-cluster → kube_client::Config
//! ```
//!
//! Loading, merging, exec credentials and token reload are kube-client's; here are only kubectl's
//! overrides and the messages for wrong configurations. This module opens no connection.
//!
//! Upstream counterpart: kubernetes/client-go:tools/clientcmd (flag names, order of sources).

use std::path::Path;

use kube_client::Config;
use kube_client::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::args::ClusterArgs;
use crate::exit::Failure;

/// Reads the configuration that `args` select.
///
/// # Errors
/// A line and a hint for the user: no kubeconfig, an unreadable one, an unknown context, a bad
/// address.
pub(crate) async fn config(args: &ClusterArgs) -> Result<Config, Failure> {
    let mut config = match load(args).await {
        Ok(config) => config,
        Err(Missing::Kubeconfig(_)) if args.server.is_some() => {
            let url = address(args.server.as_deref().unwrap_or_default())?;
            Config::new(url)
        }
        Err(Missing::Kubeconfig(failure) | Missing::Other(failure)) => return Err(failure),
    };
    if let Some(server) = &args.server {
        config.cluster_url = address(server)?;
    }
    if let Some(token) = &args.token {
        config.auth_info = bearer(token, &config.auth_info)?;
    }
    if let Some(user) = &args.impersonate {
        config.auth_info.impersonate = Some(user.clone());
    }
    Ok(config)
}

/// The error of a missing or invalid kubeconfig.
enum Missing {
    Kubeconfig(Failure),
    Other(Failure),
}

async fn load(args: &ClusterArgs) -> Result<Config, Missing> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        cluster: args.cluster.clone(),
        user: args.user.clone(),
    };
    if let Some(path) = &args.kubeconfig {
        let kubeconfig = Kubeconfig::read_from(path).map_err(|error| read_failure(path, &error))?;
        return Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| Missing::Other(explain(&error, args)));
    }
    match Config::from_kubeconfig(&options).await {
        Ok(config) => Ok(config),
        Err(error) if is_absent(&error) => Config::incluster().map_err(|_| {
            Missing::Kubeconfig(
                Failure::new("no kubeconfig: neither --kubeconfig, $KUBECONFIG nor ~/.kube/config names one, and this is no pod of a cluster")
                    .with_hint("start an embedded server with `kinform serve --write-kubeconfig kc -- sh` and try there, or `kinform demo`"),
            )
        }),
        Err(error) => Err(Missing::Other(explain(&error, args))),
    }
}

fn read_failure(path: &Path, error: &KubeconfigError) -> Missing {
    Missing::Other(
        Failure::new(format!(
            "kubeconfig {}: {}",
            path.display(),
            first_line(error)
        ))
        .with_hint("--kubeconfig names a file that kubectl would read"),
    )
}

/// Returns whether there is no file at all, rather than an invalid one.
fn is_absent(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(io, _) => io.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

fn explain(error: &KubeconfigError, args: &ClusterArgs) -> Failure {
    match error {
        KubeconfigError::LoadContext(_) | KubeconfigError::CurrentContextNotSet => {
            let asked = args.context.as_deref();
            let message = match asked {
                Some(context) => format!("the kubeconfig has no context {context:?}"),
                None => "the kubeconfig has no current context".to_owned(),
            };
            Failure::new(message).with_hint(
                "`kubectl config get-contexts` lists them; choose one with --context NAME",
            )
        }
        KubeconfigError::LoadClusterOfContext(_) => {
            Failure::new(format!("kubeconfig: {}", first_line(error)))
                .with_hint("the context names a cluster that the file does not have")
        }
        _ => Failure::new(format!("kubeconfig: {}", first_line(error))),
    }
}

fn first_line(error: &dyn std::fmt::Display) -> String {
    error
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn address(server: &str) -> Result<http::Uri, Failure> {
    let wrong = || {
        Failure::usage(format!("--server {server:?} is no address"))
            .with_hint("it looks like https://10.0.0.1:6443")
    };
    let uri: http::Uri = server.parse().map_err(|_| wrong())?;
    if uri.scheme().is_none() || uri.authority().is_none() {
        Err(wrong())
    } else {
        Ok(uri)
    }
}

/// Sets a bearer token in place of the credentials of the kubeconfig's user; impersonation stays.
fn bearer(token: &str, old: &AuthInfo) -> Result<AuthInfo, Failure> {
    // The field's type is a secret of another crate; its kubeconfig form is the public way in.
    let mut auth: AuthInfo = serde_json::from_value(serde_json::json!({ "token": token }))
        .map_err(|_| Failure::usage("--token is no text"))?;
    auth.impersonate.clone_from(&old.impersonate);
    Ok(auth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(dir: &tempfile::TempDir) -> std::path::PathBuf {
        let path = dir.path().join("kc");
        std::fs::write(
            &path,
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
             users: [{name: u, user: {token: secret}}]\n\
             contexts: [{name: a, context: {cluster: c, user: u, namespace: shop}}]\n",
        )
        .unwrap();
        path
    }

    #[tokio::test]
    async fn a_plain_http_server_and_a_namespace_are_taken_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let args = ClusterArgs {
            kubeconfig: Some(kubeconfig(&dir)),
            ..Default::default()
        };
        let config = config(&args).await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "http://127.0.0.1:1/");
        assert_eq!(config.default_namespace, "shop");
    }

    #[tokio::test]
    async fn an_unknown_context_is_named_with_a_hint() {
        let dir = tempfile::tempdir().unwrap();
        let args = ClusterArgs {
            kubeconfig: Some(kubeconfig(&dir)),
            context: Some("prod".to_owned()),
            ..Default::default()
        };
        let failure = config(&args).await.unwrap_err();
        assert_eq!(failure.code(), 1);
        let text = failure.to_string();
        assert!(
            text.starts_with("error: the kubeconfig has no context \"prod\"\n"),
            "{text}"
        );
        assert!(text.contains("hint: "), "{text}");
    }

    #[tokio::test]
    async fn a_missing_file_that_was_named_is_an_error_with_its_path() {
        let args = ClusterArgs {
            kubeconfig: Some("/nonexistent/kc".into()),
            ..Default::default()
        };
        let failure = config(&args).await.unwrap_err();
        assert!(failure.to_string().contains("/nonexistent/kc"), "{failure}");
    }

    #[tokio::test]
    async fn flags_win_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let args = ClusterArgs {
            kubeconfig: Some(kubeconfig(&dir)),
            server: Some("https://10.0.0.1:6443".to_owned()),
            token: Some("other".to_owned()),
            impersonate: Some("jane".to_owned()),
            ..Default::default()
        };
        let config = config(&args).await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://10.0.0.1:6443/");
        assert_eq!(config.auth_info.impersonate.as_deref(), Some("jane"));
        assert!(config.auth_info.token.is_some());
        assert!(address("10.0.0.1").is_err());
    }
}
