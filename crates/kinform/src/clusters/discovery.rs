//! Clusters by the contexts of a kubeconfig, or by Secrets with kubeconfigs.
//!
//! ```text
//! contexts ──load_config──▶ add
//! Secrets (an informer) ──kubeconfig in a key──▶ add │ changed: remove, add │ gone: remove
//! ```
//!
//! A kubeconfig in a Secret is data of whoever may write Secrets there. It may hold addresses and
//! credentials, and nothing that makes this process read a file or run a program: such a one is
//! refused.
//! Never: writes a kubeconfig's text to a log or an error.
//!
//! Upstream counterpart: `multicluster-runtime:providers/kubeconfig`, `providers/file`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kinform_api::ObjectKey;
use kube_client::config::Kubeconfig;
use kube_core::DynamicObject;
use tokio::sync::mpsc;

use super::{Cluster, Clusters};
use crate::error::{Error, ErrorKind};
use crate::handler::{Handlers, Notification};
use crate::informer::{Informer, Registration};
use crate::object::Obj;
use crate::source::{ClientOptions, ConfigOverrides, client_for, config_from, load_config};
use crate::sync::lock;

/// BOUND: bytes of a kubeconfig in a Secret as base64, which itself is at most 1 MiB.
const MAX_BYTES: usize = 256 * 1024;

/// The outcome for a cluster that was discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discovered {
    /// It was added.
    Added {
        /// The cluster's name: that of the Secret.
        cluster: String,
    },
    /// Its Secret is gone.
    Removed {
        /// The cluster's name.
        cluster: String,
    },
    /// Its Secret cannot be used. A cluster that was added for an earlier state of it is removed.
    Refused {
        /// The Secret's name.
        cluster: String,
        /// Why; no text of the kubeconfig.
        reason: String,
    },
}

/// Follows Secrets. Dropping it ends that; the clusters stay.
#[must_use = "dropping it ends the discovery"]
#[derive(Debug)]
pub struct Discovery {
    registration: Registration,
    told: mpsc::Receiver<Discovered>,
}

/// BOUND: outcomes that nobody has read; the discovery goes on without telling further ones.
const MAX_TOLD: usize = 1024;

impl Clusters {
    /// Adds a cluster for each of these contexts of the kubeconfig that `overrides` name, or of
    /// kubectl's.
    ///
    /// # Errors
    /// A context is missing or cannot be used, or its name is taken. Those before it were added.
    ///
    /// # Cancel safety
    /// Dropping the future leaves out the contexts that follow.
    pub async fn add_contexts<N: Into<String>>(
        &self,
        overrides: &ConfigOverrides,
        contexts: impl IntoIterator<Item = N>,
    ) -> Result<(), Error> {
        for context in contexts {
            let context = context.into();
            let mut overrides = overrides.clone();
            overrides.context = Some(context.clone());
            let config = load_config(&overrides).await?;
            let client = client_for(config, &ClientOptions::from_env())?;
            self.add(&context, client)?;
        }
        Ok(())
    }

    /// Adds a cluster for each Secret of this informer, by the kubeconfig under `key` of its data.
    /// The cluster has the Secret's name. It is removed when the Secret is gone, and replaced when
    /// the kubeconfig changes. A cluster of that name that was added otherwise stays as it is, and the
    /// Secret is refused.
    ///
    /// Select the Secrets by a label, and only of a namespace whose writers are trusted with what
    /// the program does in a cluster.
    ///
    /// # Errors
    /// The informer is of another resource, it may [give up](crate::InformerBuilder::reducible_to) fields, or it
    /// runs, and no tokio runtime does here.
    pub fn follow_secrets<K>(
        &self,
        secrets: &Informer<K>,
        key: impl Into<String>,
    ) -> Result<Discovery, Error> {
        if !secrets.resource().is_secrets() {
            let message = format!("clusters are in Secrets, not in {}", secrets.resource());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if secrets.lens().reduction().is_some() {
            let message =
                "the Secrets of clusters are read whole: follow them without reducible_to";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (tell, told) = mpsc::channel(MAX_TOLD);
        let following = Arc::new(Following {
            clusters: self.clone(),
            key: key.into(),
            added: Mutex::default(),
        });
        let hear = move |notification: Notification<DynamicObject>| {
            let (following, tell) = (Arc::clone(&following), tell.clone());
            async move {
                if let Some(outcome) = following.heard(notification).await {
                    let _ = tell.try_send(outcome);
                }
            }
        };
        let handlers = Handlers::new()
            .named("clusters of Secrets")
            .on_event_async(hear);
        Ok(Discovery {
            registration: secrets.cast::<DynamicObject>().add_handler(handlers)?,
            told,
        })
    }
}

/// The state of a discovery.
struct Following {
    clusters: Clusters,
    key: String,
    // INVARIANT: a cluster that it did not add itself is not here, and so is never removed by it.
    added: Mutex<BTreeMap<ObjectKey, Cluster>>,
}

impl Following {
    async fn heard(&self, notification: Notification<DynamicObject>) -> Option<Discovered> {
        match notification {
            Notification::Added(added) => Some(self.discovered(added.object()).await),
            Notification::Updated { old, new } => {
                if text_of(&old, &self.key) == text_of(&new, &self.key) {
                    return None;
                }
                self.remove(&new.key());
                Some(self.discovered(&new).await)
            }
            Notification::Deleted(gone) => self.remove(&gone.key()),
            Notification::Sync(_) | Notification::Synced => None,
        }
    }

    /// Removes the cluster that was added for a Secret. Its end is not waited for: a handler of it may
    /// be slow, and this very handler may be one.
    fn remove(&self, secret: &ObjectKey) -> Option<Discovered> {
        let cluster = lock(&self.added).remove(secret)?;
        if !self.clusters.take(&cluster) {
            return None;
        }
        let (clusters, name) = (self.clusters.clone(), cluster.name().to_owned());
        tokio::spawn(async move { clusters.end(&cluster).await });
        Some(Discovered::Removed { cluster: name })
    }

    async fn discovered(&self, secret: &Obj<DynamicObject>) -> Discovered {
        let cluster = secret.name().to_owned();
        let client = match text_of(secret, &self.key) {
            Ok(text) => client_of(&text).await,
            Err(reason) => Err(reason),
        };
        let added = client.and_then(|client| {
            let added = self.clusters.add(&cluster, client);
            added.map_err(|error| error.to_string())
        });
        match added {
            Ok(added) => {
                lock(&self.added).insert(secret.key(), added);
                Discovered::Added { cluster }
            }
            Err(reason) => {
                tracing::warn!(cluster, reason, "the Secret of a cluster cannot be used");
                Discovered::Refused { cluster, reason }
            }
        }
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        self.registration.cancel();
    }
}

impl Discovery {
    /// The next outcome; `None` once the informer has ended.
    ///
    /// Cancel safety: dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Discovered> {
        self.told.recv().await
    }
}

/// The kubeconfig of a Secret.
fn text_of(secret: &Obj<DynamicObject>, key: &str) -> Result<Vec<u8>, String> {
    let secret = secret
        .typed()
        .map_err(|_| "the Secret does not decode".to_owned())?;
    let text = secret.data["data"][key].as_str();
    let text = text.ok_or_else(|| format!("it has no key {key:?}"))?;
    if text.len() > MAX_BYTES {
        return Err(format!("{} bytes, at most {MAX_BYTES}", text.len()));
    }
    let text = BASE64_STANDARD.decode(text);
    text.map_err(|_| format!("the value of {key:?} is not base64"))
}

async fn client_of(text: &[u8]) -> Result<kube_client::Client, String> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
    // The parser's error may quote the text.
    let document = Kubeconfig::from_yaml(text).map_err(|_| "it is no kubeconfig".to_owned())?;
    harmless(&document).map_err(|error| error.to_string())?;
    let config = config_from(&document, &ConfigOverrides::default()).await;
    let config = config.map_err(|error| error.to_string())?;
    client_for(config, &ClientOptions::from_env()).map_err(|error| error.to_string())
}

/// Refuses what would read a file or run a program here.
fn harmless(document: &Kubeconfig) -> Result<(), Error> {
    let refuse = |what: &str| {
        let message = format!("a kubeconfig in a Secret may not have {what}");
        Err(Error::new(ErrorKind::Config, message))
    };
    for user in document
        .auth_infos
        .iter()
        .filter_map(|named| named.auth_info.as_ref())
    {
        if user.exec.is_some() {
            return refuse("an exec plugin");
        }
        if user.auth_provider.is_some() {
            return refuse("an auth-provider");
        }
        let files = [&user.token_file, &user.client_certificate, &user.client_key];
        if files.iter().any(|file| file.is_some()) {
            return refuse("the path of a file: use the fields that end in -data, and token");
        }
    }
    let mut clusters = document
        .clusters
        .iter()
        .filter_map(|named| named.cluster.as_ref());
    if clusters.any(|cluster| cluster.certificate_authority.is_some()) {
        return refuse("the path of a file: use certificate-authority-data");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_that_reads_files_or_runs_programs_is_refused() {
        let check = |cluster: &str, user: &str, expected: Option<&str>| {
            let text = format!(
                "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {cluster}\n\
                 users:\n- name: u\n  user: {user}\n"
            );
            let document = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
            let refused = harmless(&document).err().map(|error| error.to_string());
            match (refused, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
                other => panic!("{other:?} of {text}"),
            }
        };
        let server = "{server: \"https://127.0.0.1\"}";
        check(server, "{token: t}", None);
        check(
            server,
            "{client-certificate-data: YQ==, client-key-data: YQ==}",
            None,
        );
        check(server, "{tokenFile: /etc/passwd}", Some("path of a file"));
        check(server, "{client-key: /etc/passwd}", Some("path of a file"));
        check(
            server,
            "{client-certificate: /etc/passwd}",
            Some("path of a file"),
        );
        let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}}";
        check(server, exec, Some("an exec plugin"));
        check(
            server,
            "{auth-provider: {name: gcp, config: {}}}",
            Some("an auth-provider"),
        );
        let file = "{server: \"https://127.0.0.1\", certificate-authority: /etc/passwd}";
        check(file, "{token: t}", Some("certificate-authority-data"));
    }
}
