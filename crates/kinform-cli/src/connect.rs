//! From flags to informers: the common part of `watch`, `get` and `measure`.
//!
//! ```text
//! ClusterArgs → client;  words → ResourceEntry;  SelectArgs → ResourceInfo → InformerFactory
//! ```
//!
//! One connection to one cluster as one user. Only progress is printed here.

use kinform::source::{ClientOptions, ResourceInfo, client_for};
use kinform_api::Scope;
use kube_client::Client;

use crate::args::cluster::{ClusterArgs, SelectArgs};
use crate::catalogue::ResourceEntry;
use crate::cluster;
use crate::discovery::Discovery;
use crate::exit::Failure;

/// A cluster to talk to.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// For messages.
    pub(crate) address: String,
    namespace: String,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Reads the configuration and makes a client, without a request.
    ///
    /// # Errors
    /// No usable configuration; a line and a hint.
    pub(crate) async fn open(args: &ClusterArgs) -> Result<Self, Failure> {
        let config = cluster::config(args).await?;
        let address = config
            .cluster_url
            .to_string()
            .trim_end_matches('/')
            .to_owned();
        let namespace = config.default_namespace.clone();
        let options = match args.request_timeout {
            Some(timeout) => ClientOptions::from_env().with_request_timeout(timeout),
            None => ClientOptions::from_env(),
        };
        let client = client_for(config, &options)
            .map_err(|error| Failure::new(format!("{address}: {error}")))?;
        Ok(Self {
            client,
            address,
            namespace,
        })
    }

    /// The resource types that the words name on this server.
    ///
    /// # Errors
    /// As [`Discovery::resolve`].
    pub(crate) async fn resolve(&self, words: &[String]) -> Result<Vec<ResourceEntry>, Failure> {
        Discovery::new(&self.client, &self.address)
            .resolve(words)
            .await
    }

    /// The resource, namespace and selectors to list and watch.
    pub(crate) fn info(
        &self,
        entry: &ResourceEntry,
        select: &SelectArgs,
        name: Option<&str>,
    ) -> ResourceInfo {
        let mut info = ResourceInfo::new(entry.gvr.clone(), entry.kind.clone(), entry.scope);
        if entry.scope == Scope::Namespaced && !select.all_namespaces {
            info.namespace = Some(
                select
                    .namespace
                    .clone()
                    .filter(|namespace| !namespace.is_empty())
                    .unwrap_or_else(|| self.namespace.clone()),
            );
        }
        info.label_selector.clone_from(&select.selector);
        let named = name.map(|name| format!("metadata.name={name}"));
        info.field_selector = match (&select.field_selector, named) {
            (Some(fields), Some(named)) => Some(format!("{fields},{named}")),
            (fields, named) => named.or_else(|| fields.clone()),
        };
        info
    }
}

/// The types of words as `TYPE,TYPE`.
pub(crate) fn split_types(words: &[String]) -> Vec<String> {
    let types = words.iter().flat_map(|word| word.split(','));
    types
        .filter(|kind| !kind.is_empty())
        .map(str::to_owned)
        .collect()
}

/// `TYPE` or `TYPE/NAME`.
pub(crate) fn split_name(word: &str) -> (String, Option<String>) {
    match word.split_once('/') {
        Some((kind, name)) if !name.is_empty() => (kind.to_owned(), Some(name.to_owned())),
        _ => (word.trim_end_matches('/').to_owned(), None),
    }
}
