//! The cluster and the user: flags and kubeconfig become a client configuration.
//!
//! ```text
//! ClusterArgs ──▶ ConfigOverrides ──kinform::source::load_config──▶ kube_client::Config │ Failure
//! ```
//!
//! Loading and merging are the library's, so that a program and the command line connect alike;
//! here are only the flags and the hints. This module opens no connection.
//!
//! Upstream counterpart: kubernetes/client-go:tools/clientcmd (flag names, order of sources).

use kinform::source::{ConfigOverrides, load_config};
use kube_client::Config;

use crate::args::cluster::ClusterArgs;
use crate::exit::Failure;

/// Reads the configuration that `args` select.
///
/// # Errors
/// A line and a hint for the user: no kubeconfig, an unreadable one, an unknown context, a bad
/// address.
pub(crate) async fn config(args: &ClusterArgs) -> Result<Config, Failure> {
    let config = load_config(&overrides(args)).await;
    config.map_err(|error| {
        let message = error.to_string();
        let hint = hint(&message);
        let failure = Failure::new(message);
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    })
}

fn overrides(args: &ClusterArgs) -> ConfigOverrides {
    let mut overrides = ConfigOverrides::default();
    overrides.kubeconfig.clone_from(&args.kubeconfig);
    overrides.context.clone_from(&args.context);
    overrides.cluster.clone_from(&args.cluster);
    overrides.user.clone_from(&args.user);
    overrides.server.clone_from(&args.server);
    overrides.token.clone_from(&args.token);
    overrides.impersonate.clone_from(&args.impersonate);
    overrides.impersonate_uid.clone_from(&args.as_uid);
    overrides.impersonate_groups.clone_from(&args.as_group);
    overrides
        .certificate_authority
        .clone_from(&args.certificate_authority);
    overrides
        .client_certificate
        .clone_from(&args.client_certificate);
    overrides.client_key.clone_from(&args.client_key);
    overrides.insecure_skip_tls_verify = args.insecure_skip_tls_verify;
    overrides.tls_server_name.clone_from(&args.tls_server_name);
    overrides.proxy_url.clone_from(&args.proxy_url);
    overrides
}

/// The hint for an error of the library, by its words.
fn hint(message: &str) -> Option<&'static str> {
    let hints = [
        (
            "no Kubernetes configuration",
            "start an embedded server with `kinform serve --write-kubeconfig kc -- sh` and try there, or `kinform demo`",
        ),
        (
            "there is no context",
            "`kubectl config get-contexts` lists them; choose one with --context NAME",
        ),
        (
            "there is no cluster",
            "the context or --cluster names a cluster that the kubeconfig does not have",
        ),
        (
            "the server \"",
            "an address looks like https://10.0.0.1:6443",
        ),
        (
            "names no server",
            "`kubectl config get-contexts` lists the contexts; choose one with --context NAME",
        ),
    ];
    let found = hints.iter().find(|(words, _)| message.contains(words));
    found.map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn failure(args: ClusterArgs) -> String {
        let failure = config(&args).await.unwrap_err();
        assert_eq!(failure.code(), 1);
        failure.to_string()
    }

    #[tokio::test]
    async fn an_error_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kc");
        std::fs::write(&path, "current-context: a\ncontexts: []\n").unwrap();
        let of = |context: &str| ClusterArgs {
            kubeconfig: Some(path.clone()),
            context: Some(context.to_owned()),
            ..Default::default()
        };
        let unknown = failure(of("prod")).await;
        assert!(
            unknown.starts_with("error: kubeconfig: there is no context \"prod\"\n  hint: "),
            "{unknown}"
        );
        std::fs::write(&path, "").unwrap();
        let empty = failure(of("")).await;
        assert!(
            empty.contains("names no server") && empty.contains("hint: "),
            "{empty}"
        );
        let address = failure(ClusterArgs {
            server: Some("ftp://a".to_owned()),
            ..of("")
        });
        let address = address.await;
        assert!(
            address.contains("ftp://a") && address.contains("hint: "),
            "{address}"
        );
        let missing = failure(ClusterArgs {
            kubeconfig: Some("/nonexistent/kc".into()),
            ..Default::default()
        });
        let missing = missing.await;
        assert!(missing.contains("/nonexistent/kc"), "{missing}");
    }

    #[tokio::test]
    async fn flags_become_overrides() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kc");
        std::fs::write(&path, "").unwrap();
        let args = ClusterArgs {
            kubeconfig: Some(path),
            server: Some("https://10.0.0.1:6443".to_owned()),
            token: Some("other".to_owned()),
            impersonate: Some("jane".to_owned()),
            as_group: vec!["g".to_owned()],
            insecure_skip_tls_verify: true,
            proxy_url: Some("http://proxy".to_owned()),
            ..Default::default()
        };
        let config = config(&args).await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://10.0.0.1:6443/");
        assert_eq!(config.auth_info.impersonate.as_deref(), Some("jane"));
        assert_eq!(
            config.auth_info.impersonate_groups,
            Some(vec!["g".to_owned()])
        );
        assert!(config.auth_info.token.is_some() && config.accept_invalid_certs);
        assert!(config.proxy_url.is_some());
    }
}
