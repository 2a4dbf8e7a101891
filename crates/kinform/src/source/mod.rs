//! Sources of lists and watches: one seam, several implementations.
//!
//! ```text
//! ListOptions | WatchOptions → ListerWatcher → Body { chunks of bytes } | SourceError
//! ```
//!
//! A source opens a list or a watch and hands on the reply's bytes as they arrive. It never parses
//! objects, never retries, never waits on purpose and keeps no deadline: those are decisions, made
//! by the reflector and kept by the informer's task, the same for every source.
//! [`HttpSource`] talks to a server through `kube_client::Client`; the testkit has a scripted one
//! and one that reaches an embedded server without a socket.
//!
//! Upstream counterpart: `client-go:tools/cache/listwatch.go` (`ListerWatcher`, `ListWatch`).

mod client;
mod client_options;
mod connections;
mod credentials;
mod driver;
mod exec;
mod gunzip;
mod http;
mod kubeconfig;
mod multiplex;
mod pool;
mod protocol;
mod proxy;
mod refusal;
mod throttle;
mod token_file;

use std::fmt;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use kinform_api::{GroupVersionResource, ListOptions, Scope, TypeMeta, WatchOptions};
use kinform_core::Encoding;
use kube_client::Client;

pub use self::client::{
    Transport, TransportBody, client_for, client_through, client_with, default_client,
};
pub use self::client_options::ClientOptions;
pub use self::http::{Compression, HttpSource, Representation, Wire, fetch};
pub use self::kubeconfig::{ConfigOverrides, config_from, load_config};
pub use crate::error::{SourceError, SourceErrorKind};

/// Opens lists and watches of one resource.
///
/// Both calls may be dropped at any await; a dropped call or body closes its connection.
pub trait ListerWatcher: Send + Sync + 'static {
    /// Starts one list request (one page, if the options have a limit).
    fn list<'a>(&'a self, options: &'a ListOptions) -> BoxFuture<'a, Result<Body, SourceError>>;

    /// Starts one watch, or one streaming list if the options ask for initial events.
    fn watch<'a>(&'a self, options: &'a WatchOptions) -> BoxFuture<'a, Result<Body, SourceError>>;

    /// The resource that is listed and watched, for messages, metrics and identity.
    fn resource(&self) -> &ResourceInfo;

    /// The client that it uses, if it has one. A controller writes with it by default.
    fn client(&self) -> Option<Client> {
        None
    }
}

impl<L: ListerWatcher + ?Sized> ListerWatcher for std::sync::Arc<L> {
    fn list<'a>(&'a self, options: &'a ListOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        (**self).list(options)
    }

    fn watch<'a>(&'a self, options: &'a WatchOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        (**self).watch(options)
    }

    fn resource(&self) -> &ResourceInfo {
        (**self).resource()
    }

    fn client(&self) -> Option<Client> {
        (**self).client()
    }
}

/// A successful reply that is still arriving.
pub struct Body {
    encoding: Encoding,
    chunks: BoxStream<'static, Result<Bytes, SourceError>>,
}

impl Body {
    /// A reply in `encoding` with the bytes of `chunks`, cut anywhere.
    pub fn new(
        encoding: Encoding,
        chunks: impl futures::Stream<Item = Result<Bytes, SourceError>> + Send + 'static,
    ) -> Self {
        Self {
            encoding,
            chunks: Box::pin(chunks),
        }
    }

    /// The encoding of the objects inside.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The bytes, decompressed, in order.
    pub fn into_chunks(self) -> BoxStream<'static, Result<Bytes, SourceError>> {
        self.chunks
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("encoding", &self.encoding)
            .finish_non_exhaustive()
    }
}

/// The resource and namespace that a source lists and watches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceInfo {
    /// Group, version and plural name.
    pub resource: GroupVersionResource,
    /// The kind of its objects.
    pub kind: String,
    /// The scope: objects live in namespaces, or belong to the whole cluster.
    pub scope: Scope,
    /// The one namespace; `None` means all of them, or a cluster-scoped resource.
    pub namespace: Option<String>,
    /// Label selector as sent.
    pub label_selector: Option<String>,
    /// Field selector as sent.
    pub field_selector: Option<String>,
}

impl ResourceInfo {
    /// All objects of `resource`, in all namespaces.
    pub fn new(resource: GroupVersionResource, kind: impl Into<String>, scope: Scope) -> Self {
        Self {
            resource,
            kind: kind.into(),
            scope,
            namespace: None,
            label_selector: None,
            field_selector: None,
        }
    }

    /// Returns whether its objects are Secrets.
    pub fn is_secrets(&self) -> bool {
        let is_named = self.resource.group.is_empty() && self.resource.resource == "secrets";
        is_named || self.kind == "Secret"
    }

    /// `apiVersion` and `kind` of its objects.
    pub fn type_meta(&self) -> TypeMeta {
        TypeMeta {
            api_version: self.resource.api_version(),
            kind: self.kind.clone(),
        }
    }
}

/// `deployments.apps in namespace "a" with labels app=web`: for people.
impl fmt::Display for ResourceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupVersionResource {
            group, resource, ..
        } = &self.resource;
        f.write_str(resource)?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if let Some(namespace) = &self.namespace {
            write!(f, " in namespace {namespace:?}")?;
        }
        if let Some(labels) = &self.label_selector {
            write!(f, " with labels {labels}")?;
        }
        if let Some(fields) = &self.field_selector {
            write!(f, " with fields {fields}")?;
        }
        Ok(())
    }
}
