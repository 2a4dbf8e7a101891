//! Discovers the resources of a server.
//!
//! ```text
//! GET /apis, /api, aggregated ──▶ Catalogue ──word──▶ ResourceEntry (waiting for one not installed yet)
//!   └ not offered: GET /api/v1 ──▶ is the word of the core group? no: GET /apis/G/V as needed
//! ```
//!
//! A server that aggregates its discovery is asked twice in all. Another is asked for the core
//! group first, and for other groups only if the word is not a name in it: for one group if the
//! word names it, else for all. A group that does not answer delays only words that may be its own.
//!
//! The first contact with a server is here, so this module also waits (10 s until the first HTTP
//! reply, with a line on stderr) and has the plain messages for first-time users: no listener, a
//! wrong token, no permission, a login page instead of an API.
//!
//! Upstream counterpart: kubernetes/client-go:discovery (`AggregatedDiscoveryInterface`).

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use kinform::source::{SourceError, SourceErrorKind};
use kinform_api::Status;
use kube_client::Client;
use kube_client::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::catalogue::{
    AggregatedList, Catalogue, GroupList, Meaning, ResourceEntry, ResourceList,
};
use crate::exit::Failure;

/// The time without any reply after which discovery fails.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before an unanswered or awaited document is requested again.
const PAUSE: Duration = Duration::from_millis(500);
/// BOUND: bytes of a discovery document; those of real clusters are far smaller.
const MAX_DOCUMENT: usize = 16 << 20;
/// One request's deadline.
const DEADLINE: Duration = Duration::from_secs(10);

const JSON: &str = "application/json";
/// All groups in one document, or the list of groups where the server has no such document.
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
/// BOUND: documents of groups that are requested at a time.
const AT_ONCE: usize = 32;
/// The time that other groups have once one has the word: they may come before it.
const STRAGGLERS: Duration = Duration::from_millis(500);

/// The reply to `/apis` or `/api`.
#[derive(Deserialize)]
#[serde(tag = "kind")]
enum Root {
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated(AggregatedList),
    #[serde(untagged)]
    Groups(GroupList),
}

/// The documents of a server that were read, and the groups that can still be asked for.
#[derive(Debug)]
struct Known {
    /// The resources in the documents, in order of preference.
    catalogue: Catalogue,
    /// The core group, if its document is apart.
    core: Option<ResourceList>,
    groups: Vec<Group>,
}

/// A version of a group with a document of its own.
#[derive(Debug)]
struct Group {
    /// As `apps/v1`.
    version: String,
    is_asked: bool,
    list: Option<ResourceList>,
}

impl Known {
    fn by_group(core: ResourceList, groups: &GroupList) -> Self {
        let groups = groups.group_versions().into_iter().map(|version| Group {
            version,
            is_asked: false,
            list: None,
        });
        let mut known = Self {
            catalogue: Catalogue::default(),
            core: Some(core),
            groups: groups.collect(),
        };
        known.gather();
        known
    }

    /// Puts all that was read into the catalogue, in the server's order.
    fn gather(&mut self) {
        let Some(core) = &self.core else { return };
        let mut catalogue = Catalogue::default();
        catalogue.add(core.clone());
        let read = self.groups.iter().filter_map(|group| group.list.clone());
        read.for_each(|list| catalogue.add(list));
        self.catalogue = catalogue;
    }

    /// The places of the groups that must be asked for to know what a word means.
    fn unread(&self, word: &str) -> Vec<usize> {
        let is_core = |entry: &ResourceEntry| entry.gvr.group.is_empty();
        if self.catalogue.named(word).is_some_and(is_core) {
            return Vec::new();
        }
        let rest = word.split_once('.').map(|(_, rest)| rest);
        let may_have = |group: &Group| {
            let (name, version) = group
                .version
                .split_once('/')
                .unwrap_or(("", &group.version));
            rest.is_none_or(|rest| rest == name || rest.split_once('.') == Some((version, name)))
        };
        let places = self.groups.iter().enumerate();
        let unread = places.filter(|(_, group)| !group.is_asked && may_have(group));
        unread.map(|(at, _)| at).collect()
    }
}

/// The reason why a document could not be fetched.
#[derive(Debug)]
enum Refusal {
    /// No listener, or the connection broke: it may pass.
    Unreachable(String),
    /// The server has no such document.
    Absent,
    /// A reply that waiting will not improve.
    Final(Failure),
}

/// The server to discover.
#[derive(Clone, Copy)]
pub(crate) struct Discovery<'a> {
    client: &'a Client,
    address: &'a str,
}

impl std::fmt::Debug for Discovery<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Discovery")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl<'a> Discovery<'a> {
    /// Discovers through `client`; `address` is for messages.
    pub(crate) fn new(client: &'a Client, address: &'a str) -> Self {
        Self { client, address }
    }

    async fn roots(&self) -> Result<Known, Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut told = false;
        loop {
            let refusal = match self.read_roots().await {
                Ok(known) => return Ok(known),
                Err(refusal) => refusal,
            };
            let why = match refusal {
                Refusal::Final(failure) => return Err(failure),
                Refusal::Absent => return Err(self.not_kubernetes("404 for its discovery")),
                Refusal::Unreachable(why) => why,
            };
            if Instant::now() + PAUSE > deadline {
                return Err(Failure::new(format!("{}: nobody answers: {why}", self.address))
                    .with_hint("is the server running, and is this the right context? --context and --server choose another"));
            }
            if !told {
                crate::progress!(
                    "{}: no answer yet ({why}); trying for {} s",
                    self.address,
                    PATIENCE.as_secs()
                );
                told = true;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Reads what a server says of all its groups.
    async fn read_roots(&self) -> Result<Known, Refusal> {
        let groups = match self.document("/apis", AGGREGATED).await? {
            Root::Aggregated(groups) => groups,
            Root::Groups(groups) => {
                let core = self.document("/api/v1", JSON).await?;
                return Ok(Known::by_group(core, &groups));
            }
        };
        let mut catalogue = Catalogue::default();
        match self.document("/api", AGGREGATED).await? {
            Root::Aggregated(core) => catalogue.add_aggregated(core),
            Root::Groups(_) => catalogue.add(self.document("/api/v1", JSON).await?),
        }
        catalogue.add_aggregated(groups);
        Ok(Known {
            catalogue,
            core: None,
            groups: Vec::new(),
        })
    }

    /// Reads the groups that the word may be of, unless it is a name of the core group.
    async fn read_groups(&self, known: &mut Known, word: &str) {
        let wanted = known.unread(word);
        let lists = wanted.iter().map(|&at| {
            let path = format!("/apis/{}", known.groups[at].version);
            async move { (at, self.document::<ResourceList>(&path, JSON).await) }
        });
        let mut lists = stream::iter(lists.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        let mut read = Vec::new();
        let mut until = None;
        loop {
            let next = lists.next();
            let next = match until {
                None => next.await,
                Some(until) => tokio::time::timeout_at(until, next).await.unwrap_or(None),
            };
            let Some((at, list)) = next else { break };
            if until.is_none() && list.as_ref().is_ok_and(|list| list.names(word)) {
                until = Some(Instant::now() + STRAGGLERS);
            }
            read.push((at, list));
        }
        drop(lists);
        for at in wanted {
            known.groups[at].is_asked = true;
        }
        for (at, list) in read {
            let group = &mut known.groups[at];
            match list {
                Ok(list) => group.list = Some(list),
                // One broken group (an aggregated server that is down, say) hides no other.
                Err(Refusal::Absent) => {}
                Err(Refusal::Unreachable(why)) => {
                    tracing::warn!("discovery of {}: {why}", group.version);
                }
                Err(Refusal::Final(failure)) => {
                    tracing::warn!("discovery of {}: {failure}", group.version);
                }
            }
        }
        known.gather();
    }

    /// The resource type that each word names; waits for a `plural.group` that is not installed
    /// yet.
    ///
    /// # Errors
    /// Unreachable for 10 s, 401, 403, not a Kubernetes API, or a word that names no resource type.
    ///
    /// # Cancel safety
    /// Dropping the future loses no data.
    pub(crate) async fn resolve(&self, words: &[String]) -> Result<Vec<ResourceEntry>, Failure> {
        let mut known = self.roots().await?;
        let mut found = Vec::with_capacity(words.len());
        for word in words {
            let mut told = false;
            loop {
                self.read_groups(&mut known, word).await;
                match known.catalogue.find(word) {
                    Meaning::Known(entry) => {
                        found.push(entry);
                        break;
                    }
                    Meaning::Unknown => return Err(self.unknown(word, &known.catalogue)),
                    Meaning::Awaited { plural, group } => {
                        if !told {
                            crate::progress!(
                                "{plural}.{group} is not installed on {} yet; waiting for its definition",
                                self.address
                            );
                            told = true;
                        }
                        tokio::time::sleep(PAUSE).await;
                        if self.serves(&group).await? {
                            known = self.roots().await?;
                        }
                    }
                }
            }
        }
        Ok(found)
    }

    /// The meaning of a word on the server now, without a wait or a second try.
    ///
    /// # Errors
    /// As of [`Discovery::resolve`], but for words that name no resource type.
    ///
    /// # Cancel safety
    /// Dropping the future loses no data.
    pub(crate) async fn look_up(&self, word: &str) -> Result<Meaning, Failure> {
        let known = self.read_roots().await;
        let mut known = known.map_err(|refusal| self.given_up(refusal))?;
        self.read_groups(&mut known, word).await;
        Ok(known.catalogue.find(word))
    }

    /// All that the server serves, of every group.
    ///
    /// # Errors
    /// As of [`Discovery::resolve`], but for words that name no resource type.
    ///
    /// # Cancel safety
    /// Dropping the future loses no data.
    pub(crate) async fn everything(&self) -> Result<Catalogue, Failure> {
        let mut known = self.roots().await?;
        // A word that no type has makes every group be read.
        self.read_groups(&mut known, "").await;
        Ok(known.catalogue)
    }

    fn given_up(&self, refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Final(failure) => failure,
            Refusal::Absent => self.not_kubernetes("404 for its discovery"),
            Refusal::Unreachable(why) => {
                Failure::new(format!("{}: nobody answers: {why}", self.address))
            }
        }
    }

    /// Returns whether the server has a group: one small request, for the wait.
    async fn serves(&self, group: &str) -> Result<bool, Failure> {
        match self
            .document::<serde::de::IgnoredAny>(&format!("/apis/{group}"), JSON)
            .await
        {
            Ok(_) => Ok(true),
            Err(Refusal::Absent | Refusal::Unreachable(_)) => Ok(false),
            Err(Refusal::Final(failure)) => Err(failure),
        }
    }

    fn unknown(&self, word: &str, catalogue: &Catalogue) -> Failure {
        let failure = Failure::new(format!("{} serves no resource type {word:?}", self.address));
        match catalogue.nearest(word) {
            Some(near) => failure.with_hint(format!("did you mean {near:?}?")),
            None => failure.with_hint("`kubectl api-resources` lists the types; one that a definition will bring is written plural.group"),
        }
    }

    fn not_kubernetes(&self, what: &str) -> Failure {
        Failure::new(format!(
            "{} does not answer as a Kubernetes API server: {what}",
            self.address
        ))
        .with_hint("a proxy or login page in between? check the server's address in the kubeconfig")
    }

    async fn document<T: DeserializeOwned>(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<T, Refusal> {
        match tokio::time::timeout(DEADLINE, self.fetch(path, accept)).await {
            Err(_) => Err(Refusal::Unreachable(format!(
                "no answer to GET {path} within {} s",
                DEADLINE.as_secs()
            ))),
            Ok(Err(refusal)) => Err(refusal),
            Ok(Ok((status, body))) => self.read(path, status, &body),
        }
    }

    async fn fetch(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<(StatusCode, Bytes), Refusal> {
        let request = http::Request::get(path)
            .header(http::header::ACCEPT, accept)
            .body(Body::empty())
            .map_err(|error| Refusal::Final(Failure::new(format!("GET {path}: {error}"))))?;
        let unreachable = |error: &dyn std::error::Error| Refusal::Unreachable(innermost(error));
        let response = self.client.send(request).await.map_err(|error| {
            let error = SourceError::from(error);
            let hint = match error.kind() {
                SourceErrorKind::Certificate => {
                    "--certificate-authority and --tls-server-name choose what is accepted, --client-certificate what is shown"
                }
                SourceErrorKind::NotKubernetes => "check the server's address in the kubeconfig",
                SourceErrorKind::Request => "is the user of this context logged in?",
                _ => return unreachable(&error),
            };
            let failure = Failure::new(format!("{}: {error}", self.address));
            Refusal::Final(failure.with_hint(hint))
        })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_DOCUMENT)
            .collect()
            .await
            .map_err(|error| unreachable(error.as_ref()))?;
        Ok((status, body.to_bytes()))
    }

    fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        status: StatusCode,
        body: &[u8],
    ) -> Result<T, Refusal> {
        let said = || {
            serde_json::from_slice::<Status>(body)
                .map(|status| status.message)
                .unwrap_or_default()
        };
        match status {
            StatusCode::OK => serde_json::from_slice(body)
                .map_err(|_| Refusal::Final(self.not_kubernetes(&format!("GET {path} is not JSON")))),
            StatusCode::NOT_FOUND => Err(Refusal::Absent),
            StatusCode::UNAUTHORIZED => Err(Refusal::Final(
                Failure::new(format!("{} does not know these credentials (401)", self.address))
                    .with_hint("the token or certificate is wrong or has expired; --token gives another"),
            )),
            StatusCode::FORBIDDEN => Err(Refusal::Final(
                Failure::new(format!("{}: GET {path} is forbidden (403): {}", self.address, said()))
                    .with_hint("this user may not even see what the server offers; choose another with --context, --user or --token"),
            )),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Err(Refusal::Unreachable(format!("GET {path}: {status}")))
            }
            _ if status.is_redirection() => Err(Refusal::Final(self.not_kubernetes(&format!("GET {path} is redirected ({status})")))),
            _ => Err(Refusal::Final(Failure::new(format!("{}: GET {path}: {status}: {}", self.address, said())))),
        }
    }
}

/// The innermost cause, which is the informative one ("connection refused").
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
