//! The cluster, the user and the namespace that a kubeconfig and its overrides select.
//!
//! ```text
//! Kubeconfig + ConfigOverrides ──▶ context ──▶ Cluster, AuthInfo ──checked──▶ Selection ──▶ Config
//! ```
//!
//! Upstream counterpart: `client-go:tools/clientcmd/client_config.go` (`DirectClientConfig`),
//! `validation.go`.

use std::ffi::OsString;
use std::path::PathBuf;

use http::Uri;
use kube_client::Config;
use kube_client::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster,
    NamedContext,
};

use super::ConfigOverrides;
use crate::error::{Error, ErrorKind};
use crate::source::proxy;

/// A cluster and a user whose settings do not contradict each other.
pub(super) struct Selection {
    address: Uri,
    cluster: Cluster,
    user: AuthInfo,
    namespace: String,
}

/// Selects a cluster and a user. `None` if neither names a server.
///
/// # Errors
/// A name leads nowhere, or settings contradict each other.
pub(super) fn select(
    document: &Kubeconfig,
    overrides: &ConfigOverrides,
) -> Result<Option<Selection>, Error> {
    let context = context(document, overrides)?;
    let mut cluster = cluster(document, overrides, &context)?;
    let mut user = user(document, overrides, &context)?;
    override_cluster(&mut cluster, overrides);
    override_user(&mut user, overrides)?;
    let Some(server) = &cluster.server else {
        return Ok(None);
    };
    let (address, login) = address(server)?;
    // A login in the address is used where the user has no credentials.
    if let Some((name, password)) = login
        && user.username.is_none()
        && user.token.is_none()
        && user.token_file.is_none()
        && user.exec.is_none()
    {
        let login = serde_json::json!({ "username": name, "password": password });
        let login: AuthInfo = serde_json::from_value(login).map_err(not_text)?;
        (user.username, user.password) = (login.username, login.password);
    }
    cluster.server = Some(address.to_string());
    let is_clear = address.scheme() == Some(&http::uri::Scheme::HTTP);
    if is_clear && !proxy::is_this_host(address.host().unwrap_or_default()) {
        // Others on the way could read them.
        user = without_credentials(user);
    }
    check(&cluster, &user)?;
    Ok(Some(Selection {
        address,
        cluster,
        user,
        namespace: context.namespace.unwrap_or_else(|| "default".to_owned()),
    }))
}

#[cfg(test)]
impl Selection {
    pub(super) fn address(&self) -> &Uri {
        &self.address
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(super) fn user(&self) -> &AuthInfo {
        &self.user
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Selection {
    /// Makes a client's configuration of it.
    ///
    /// # Errors
    /// A certificate in it cannot be parsed, or the proxy's address is none.
    pub(super) async fn config(
        self,
        environment: &(dyn Fn(&str) -> Option<OsString> + Sync),
    ) -> Result<Config, Error> {
        let proxy = proxy::choose(
            self.cluster.proxy_url.as_deref(),
            &self.address,
            environment,
        )
        .map_err(|why| wrong(format!("proxy: {why}")))?;
        // kube-client asks the environment for a proxy if it is given none, so it is given one,
        // which is replaced.
        let mut cluster = self.cluster;
        // A file is read again as it is replaced.
        let authority = cluster.certificate_authority.as_ref().map(PathBuf::from);
        cluster.proxy_url = Some("http://localhost".to_owned());
        let document = one_context(cluster, self.user, self.namespace);
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(document, &options).await;
        let mut config = config.map_err(|error| wrong(error.to_string()).with_cause(error))?;
        config.proxy_url = proxy;
        config.root_cert_file = authority;
        Ok(config)
    }
}

/// A kubeconfig that selects this cluster and this user.
pub(super) fn one_context(cluster: Cluster, user: AuthInfo, namespace: String) -> Kubeconfig {
    let name = || "selected".to_owned();
    Kubeconfig {
        clusters: vec![NamedCluster {
            name: name(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: name(),
            context: Some(Context {
                cluster: name(),
                user: Some(name()),
                namespace: Some(namespace),
                ..Context::default()
            }),
            ..NamedContext::default()
        }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    }
}

fn context(document: &Kubeconfig, overrides: &ConfigOverrides) -> Result<Context, Error> {
    let asked = filled(overrides.context.as_ref());
    let Some(name) = asked.or(document.current_context.as_ref()) else {
        return Ok(Context::default());
    };
    let named = document.contexts.iter().find(|of| of.name == *name);
    match named {
        Some(named) => Ok(named.context.clone().unwrap_or_default()),
        None => Err(wrong(format!("there is no context {name:?}"))),
    }
}

fn cluster(
    document: &Kubeconfig,
    overrides: &ConfigOverrides,
    context: &Context,
) -> Result<Cluster, Error> {
    let asked = filled(overrides.cluster.as_ref());
    let name = asked.unwrap_or(&context.cluster);
    let named = document.clusters.iter().find(|of| of.name == *name);
    match named {
        Some(named) => Ok(named.cluster.clone().unwrap_or_default()),
        None if asked.is_none() && (name.is_empty() || overrides.server.is_some()) => {
            Ok(Cluster::default())
        }
        None => Err(wrong(format!("there is no cluster {name:?}"))),
    }
}

fn user(
    document: &Kubeconfig,
    overrides: &ConfigOverrides,
    context: &Context,
) -> Result<AuthInfo, Error> {
    let asked = filled(overrides.user.as_ref());
    let name = asked.or(context.user.as_ref());
    let named = name.and_then(|name| document.auth_infos.iter().find(|of| of.name == *name));
    match (named, asked) {
        (Some(named), _) => Ok(named.auth_info.clone().unwrap_or_default()),
        // A context may name a user that is not there: then requests carry no credentials.
        (None, None) => Ok(AuthInfo::default()),
        (None, Some(name)) => Err(wrong(format!("there is no user {name:?}"))),
    }
}

fn override_cluster(cluster: &mut Cluster, overrides: &ConfigOverrides) {
    if let Some(server) = filled(overrides.server.as_ref()) {
        cluster.server = Some(server.clone());
    }
    if overrides.insecure_skip_tls_verify || overrides.certificate_authority.is_some() {
        let authority = overrides.certificate_authority.as_ref();
        cluster.insecure_skip_tls_verify = Some(overrides.insecure_skip_tls_verify);
        cluster.certificate_authority = authority.map(|path| path.to_string_lossy().into_owned());
        cluster.certificate_authority_data = None;
    }
    // A name in the kubeconfig is that of the kubeconfig's server.
    if overrides.server.is_some() || overrides.tls_server_name.is_some() {
        cluster.tls_server_name = filled(overrides.tls_server_name.as_ref()).cloned();
    }
    if let Some(proxy) = filled(overrides.proxy_url.as_ref()) {
        cluster.proxy_url = Some(proxy.clone());
    }
}

fn override_user(user: &mut AuthInfo, overrides: &ConfigOverrides) -> Result<(), Error> {
    // A token file is read again as it changes; the token beside it is the first one.
    if user.token_file.is_some() {
        user.token = None;
    }
    if let Some(token) = filled(overrides.token.as_ref()) {
        user.token = bearer(token)?.token;
        user.token_file = None;
    }
    if let Some(path) = &overrides.client_certificate {
        user.client_certificate = Some(path.to_string_lossy().into_owned());
        user.client_certificate_data = None;
    }
    if let Some(path) = &overrides.client_key {
        user.client_key = Some(path.to_string_lossy().into_owned());
        user.client_key_data = None;
    }
    if let Some(name) = filled(overrides.impersonate.as_ref()) {
        user.impersonate = Some(name.clone());
    }
    if let Some(uid) = filled(overrides.impersonate_uid.as_ref()) {
        user.impersonate_uid = Some(uid.clone());
    }
    if !overrides.impersonate_groups.is_empty() {
        user.impersonate_groups = Some(overrides.impersonate_groups.clone());
    }
    Ok(())
}

/// The credentials of a bearer token.
///
/// # Errors
/// The token cannot be sent in a header.
fn bearer(token: &str) -> Result<AuthInfo, Error> {
    if http::HeaderValue::from_str(token).is_err() {
        return Err(wrong(
            "the token has characters that no header can have".to_owned(),
        ));
    }
    // The field's type is a secret of another crate; its kubeconfig form is the public way in.
    serde_json::from_value(serde_json::json!({ "token": token })).map_err(not_text)
}

fn without_credentials(user: AuthInfo) -> AuthInfo {
    AuthInfo {
        impersonate: user.impersonate,
        impersonate_uid: user.impersonate_uid,
        impersonate_groups: user.impersonate_groups,
        impersonate_user_extra: user.impersonate_user_extra,
        ..AuthInfo::default()
    }
}

/// Refuses settings that contradict each other.
fn check(cluster: &Cluster, user: &AuthInfo) -> Result<(), Error> {
    let has_authority =
        cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
    let refuse = |why: &str| Err(wrong(why.to_owned()));
    if cluster.insecure_skip_tls_verify == Some(true) && has_authority {
        return refuse(
            "insecure-skip-tls-verify and a certificate authority exclude each other: with the \
             first the second would not be asked",
        );
    }
    if cluster.certificate_authority.is_some() && cluster.certificate_authority_data.is_some() {
        return refuse("certificate-authority and certificate-authority-data are both set");
    }
    let certificates = [&user.client_certificate, &user.client_certificate_data];
    let has_key = user.client_key.is_some() || user.client_key_data.is_some();
    match certificates.iter().filter(|of| of.is_some()).count() {
        2 => refuse("client-certificate and client-certificate-data are both set"),
        1 if !has_key => refuse("a client certificate is set without its key"),
        1 if user.client_key.is_some() && user.client_key_data.is_some() => {
            refuse("client-key and client-key-data are both set")
        }
        _ if user.username.is_some() && (user.token.is_some() || user.token_file.is_some()) => {
            refuse("a user name and a token are both set")
        }
        _ => Ok(()),
    }
}

/// A login that is part of an address.
type Login = (String, String);

/// Parses the address of a server; one without a scheme is of plain HTTP.
fn address(server: &str) -> Result<(Uri, Option<Login>), Error> {
    let (scheme, rest) = server.split_once("://").unwrap_or(("http", server));
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, authority),
    };
    // What stands before the host may be a password.
    let no_address = |why: &str| {
        let shown = format!("{scheme}://{host}{path}");
        wrong(format!("the server {shown:?} {why}"))
    };
    if !matches!(scheme, "http" | "https") {
        return Err(no_address("has another scheme than http and https"));
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let uri: Uri = format!("{scheme}://{host}{path}")
        .parse()
        .map_err(|_| no_address("is no address such as https://10.0.0.1:6443"))?;
    if uri.host().is_none_or(str::is_empty) {
        return Err(no_address("has no host"));
    }
    let login = login.map(|login| {
        let (name, password) = login.split_once(':').unwrap_or((login, ""));
        let text = |part: &str| proxy::percent_decode(part);
        (text(name), text(password))
    });
    Ok((uri, login))
}

fn filled(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.is_empty())
}

fn wrong(why: String) -> Error {
    Error::new(ErrorKind::Config, format!("kubeconfig: {why}"))
}

fn not_text(error: serde_json::Error) -> Error {
    wrong("the credentials are no text".to_owned()).with_cause(error)
}
