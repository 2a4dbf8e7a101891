//! Lists and watches over HTTP, through the user's `kube_client::Client`.
//!
//! ```text
//! options → GET path?query, our Accept → code ok → Body (raw chunks, unpacked)
//!                                      → else → SourceError (refusal.rs)
//! ```
//!
//! Uses the client for address, TLS, credentials that expire and proxies, but not for typed calls:
//! those copy a list's text twice and decode all of it before the first object is available. Accept
//! and Accept-Encoding are set here: protobuf for built-in kinds and metadata, JSON for the rest
//! (the reply's content type decides), uncompressed by default, because inflating costs more CPU
//! than all other work on a list. Never: a retry, a deadline, a log line with a body in it.
//!
//! Upstream counterpart: `client-go:rest/request.go` (`Do`, `Watch`).

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap};
use http::{Request, Response};
use kinform_api::{GroupVersionResource, ListOptions, TypeMeta, WatchOptions};
use kinform_core::Encoding;
use kube_client::Client;
use kube_client::client::Body as ReplyBody;

use super::driver::Driven;
use super::gunzip::gunzip;
use super::refusal::{content_type, from_client, from_reply, not_kubernetes};
use super::{Body, ListerWatcher, ResourceInfo};
use crate::error::{SourceError, SourceErrorKind};

/// The part of each object that is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Representation {
    /// The whole object.
    #[default]
    Full,
    /// Its metadata (`PartialObjectMetadata`).
    Metadata,
}

impl Representation {
    /// The type that objects of `kind` state in this representation.
    pub(crate) fn type_of(self, kind: &TypeMeta) -> TypeMeta {
        match self {
            Self::Full => kind.clone(),
            Self::Metadata => TypeMeta {
                api_version: "meta.k8s.io/v1".to_owned(),
                kind: "PartialObjectMetadata".to_owned(),
            },
        }
    }
}

/// The compression that replies may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// As they are: least CPU, right inside a cluster.
    #[default]
    Identity,
    /// Compressed if the server chooses to: less traffic, right over a slow line.
    Gzip,
}

/// The encodings that replies may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wire {
    /// Protobuf of built-in kinds and of metadata, JSON of everything else: least CPU and memory.
    ///
    /// Fields that this version does not know, which a newer server may have, are dropped then, as
    /// in client-go.
    #[default]
    Auto,
    /// JSON only: all fields of the server are visible.
    Json,
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf,application/json";

type ListTweak = Arc<dyn Fn(&mut ListOptions) + Send + Sync>;
type WatchTweak = Arc<dyn Fn(&mut WatchOptions) + Send + Sync>;

/// Lists and watches one resource on a server.
#[derive(Clone)]
#[doc(alias = "ListWatch")]
pub struct HttpSource {
    client: Client,
    info: ResourceInfo,
    representation: Representation,
    compression: Compression,
    wire: Wire,
    list_tweak: Option<ListTweak>,
    watch_tweak: Option<WatchTweak>,
}

impl HttpSource {
    /// A source that lists and watches the resource `info` on the server of `client`.
    pub fn new(client: Client, info: ResourceInfo) -> Self {
        Self {
            client,
            info,
            representation: Representation::default(),
            compression: Compression::default(),
            wire: Wire::default(),
            list_tweak: None,
            watch_tweak: None,
        }
    }

    /// The same source with `representation`.
    #[must_use]
    pub fn with_representation(mut self, representation: Representation) -> Self {
        self.representation = representation;
        self
    }

    /// The same source with `compression`.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// The same source with these encodings.
    #[must_use]
    pub fn with_wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// The same source; `tweak` may change the options of each list last.
    #[must_use]
    pub fn with_list_tweak(
        mut self,
        tweak: impl Fn(&mut ListOptions) + Send + Sync + 'static,
    ) -> Self {
        self.list_tweak = Some(Arc::new(tweak));
        self
    }

    /// The same source; `tweak` may change the options of each watch last.
    #[must_use]
    pub fn with_watch_tweak(
        mut self,
        tweak: impl Fn(&mut WatchOptions) + Send + Sync + 'static,
    ) -> Self {
        self.watch_tweak = Some(Arc::new(tweak));
        self
    }

    /// Returns whether to ask for protobuf: every server has it for metadata, and for built-in
    /// types.
    fn has_protobuf(&self) -> bool {
        let GroupVersionResource { group, version, .. } = &self.info.resource;
        // Looked up last: a program that reads only JSON thus does not load the table of built-in
        // types.
        self.wire == Wire::Auto
            && match self.representation {
                Representation::Full => {
                    kinform_schema::builtin(group, version, &self.info.kind).is_some()
                }
                Representation::Metadata => true,
            }
    }

    async fn open(&self, query: String, accept: &'static str) -> Result<Body, SourceError> {
        let mut uri = self.info.resource.path(self.info.namespace.as_deref());
        if !query.is_empty() {
            uri.push('?');
            uri.push_str(&query);
        }
        let response = send(&self.client, &uri, accept, self.compression).await?;
        let code = response.status().as_u16();
        let headers = response.headers();
        let encoding = encoding_of(headers)
            .ok_or_else(|| not_kubernetes(code, &format!("{:?}", content_type(headers))))?;
        Ok(Body {
            encoding,
            chunks: chunks(response)?,
        })
    }

    fn list_query(&self, options: &ListOptions) -> String {
        let mut options = options.clone();
        fill(&mut options.label_selector, &self.info.label_selector);
        fill(&mut options.field_selector, &self.info.field_selector);
        if let Some(tweak) = &self.list_tweak {
            tweak(&mut options);
        }
        options.to_query()
    }

    fn watch_query(&self, options: &WatchOptions) -> String {
        let mut options = options.clone();
        fill(&mut options.label_selector, &self.info.label_selector);
        fill(&mut options.field_selector, &self.info.field_selector);
        if let Some(tweak) = &self.watch_tweak {
            tweak(&mut options);
        }
        options.to_query()
    }
}

fn fill(option: &mut Option<String>, from: &Option<String>) {
    if option.is_none() {
        option.clone_from(from);
    }
}

impl ListerWatcher for HttpSource {
    fn list<'a>(&'a self, options: &'a ListOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        let accept = match (self.representation, self.has_protobuf()) {
            (Representation::Full, true) => PROTOBUF_OR_JSON,
            (Representation::Full, false) => JSON,
            (Representation::Metadata, true) => {
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
            (Representation::Metadata, false) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            }
        };
        Box::pin(self.open(self.list_query(options), accept))
    }

    fn watch<'a>(&'a self, options: &'a WatchOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        let accept = match (self.representation, self.has_protobuf()) {
            (Representation::Full, true) => PROTOBUF_OR_JSON,
            (Representation::Full, false) => JSON,
            (Representation::Metadata, true) => {
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            }
            (Representation::Metadata, false) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            }
        };
        Box::pin(self.open(self.watch_query(options), accept))
    }

    fn resource(&self) -> &ResourceInfo {
        &self.info
    }

    fn client(&self) -> Option<Client> {
        Some(self.client.clone())
    }
}

impl fmt::Debug for HttpSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSource")
            .field("info", &self.info)
            .field("representation", &self.representation)
            .field("compression", &self.compression)
            .field("wire", &self.wire)
            .finish_non_exhaustive()
    }
}

/// The JSON at `path_and_query`, complete; for small documents such as discovery's.
///
/// # Errors
/// As a list's; also if the reply is longer than `max_bytes`.
///
/// Cancel safety: dropping it closes the connection.
pub async fn fetch(
    client: &Client,
    path_and_query: &str,
    max_bytes: usize,
) -> Result<Bytes, SourceError> {
    let response = send(client, path_and_query, JSON, Compression::Identity).await?;
    let code = response.status().as_u16();
    if encoding_of(response.headers()) != Some(Encoding::Json) {
        let told = format!("{:?}", content_type(response.headers()));
        return Err(not_kubernetes(code, &told));
    }
    let mut chunks = chunks(response)?;
    let mut text = Vec::new();
    while let Some(chunk) = chunks.next().await {
        text.extend_from_slice(&chunk?);
        if text.len() > max_bytes {
            let message = format!("{path_and_query}: the reply is longer than {max_bytes} bytes");
            return Err(SourceError::new(SourceErrorKind::Transport, message));
        }
    }
    Ok(text.into())
}

/// Sends a GET; a reply that is no success is an error.
async fn send(
    client: &Client,
    uri: &str,
    accept: &'static str,
    compression: Compression,
) -> Result<Response<ReplyBody>, SourceError> {
    let packing = match compression {
        Compression::Identity => "identity",
        Compression::Gzip => "gzip",
    };
    let request = Request::get(uri)
        .header(ACCEPT, accept)
        .header(ACCEPT_ENCODING, packing)
        .body(ReplyBody::empty())
        .map_err(|error| {
            let message = format!("the request cannot be made: {error}");
            SourceError::new(SourceErrorKind::Request, message).with_cause(error)
        })?;
    let response = client.send(request).await.map_err(from_client)?;
    if response.status().is_success() {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    Err(from_reply(parts.status.as_u16(), &parts.headers, body).await)
}

fn chunks(
    response: Response<ReplyBody>,
) -> Result<BoxStream<'static, Result<Bytes, SourceError>>, SourceError> {
    let code = response.status().as_u16();
    let packing = response.headers().get(CONTENT_ENCODING).cloned();
    let raw = Driven::new(response)
        .map(|chunk| chunk.map_err(from_client))
        .boxed();
    // The names of compressions and of media types have no case.
    let packing = packing.map(|value| value.as_bytes().trim_ascii().to_ascii_lowercase());
    match packing.as_deref() {
        None | Some(b"" | b"identity") => Ok(raw),
        Some(b"gzip" | b"x-gzip") => Ok(gunzip(raw).boxed()),
        Some(_) => Err(not_kubernetes(code, "a compression that was not asked for")),
    }
}

fn encoding_of(headers: &HeaderMap) -> Option<Encoding> {
    match content_type(headers).to_ascii_lowercase().as_str() {
        JSON => Some(Encoding::Json),
        PROTOBUF => Some(Encoding::Protobuf),
        _ => None,
    }
}
