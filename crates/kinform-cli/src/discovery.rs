//! Discovers the resources of a server.
//!
//! ```text
//! GET /api/v1, /apis, /apis/G/V  → Catalogue;  words → ResourceEntry (waiting for one not installed yet)
//! ```
//!
//! The first contact with a server is here, so this module also waits (10 s until the first HTTP
//! reply, with a line on stderr) and has the plain messages for first-time users: no listener, a
//! wrong token, no permission, a login page instead of an API.
//!
//! Upstream counterpart: kubernetes/client-go:discovery (legacy documents).

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use kinform::source::{SourceError, SourceErrorKind};
use kinform_api::Status;
use kube_client::Client;
use kube_client::client::Body;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::catalogue::{Catalogue, GroupList, Meaning, ResourceEntry, ResourceList};
use crate::exit::Failure;

/// The time without any reply after which discovery fails.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before an unanswered or awaited document is requested again.
const PAUSE: Duration = Duration::from_millis(500);
/// BOUND: bytes of a discovery document; those of real clusters are far smaller.
const MAX_DOCUMENT: usize = 16 << 20;
/// One request's deadline.
const DEADLINE: Duration = Duration::from_secs(10);

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

    /// Everything that is served now; waits up to 10 s for the first HTTP reply.
    ///
    /// # Errors
    /// Unreachable, 401, 403, or not a Kubernetes API.
    pub(crate) async fn catalogue(&self) -> Result<Catalogue, Failure> {
        let (core, groups) = self.roots().await?;
        let mut catalogue = Catalogue::default();
        catalogue.add(core);
        let versions = groups.group_versions();
        let paths: Vec<String> = versions.iter().map(|gv| format!("/apis/{gv}")).collect();
        let lists = join_all(paths.iter().map(|path| self.document::<ResourceList>(path))).await;
        for (version, list) in versions.iter().zip(lists) {
            match list {
                Ok(list) => catalogue.add(list),
                // One broken group (an aggregated server that is down, say) hides no other.
                Err(Refusal::Absent) => {}
                Err(Refusal::Unreachable(why)) => tracing::warn!("discovery of {version}: {why}"),
                Err(Refusal::Final(failure)) => tracing::warn!("discovery of {version}: {failure}"),
            }
        }
        Ok(catalogue)
    }

    async fn roots(&self) -> Result<(ResourceList, GroupList), Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut told = false;
        loop {
            let refusal = match self.document("/api/v1").await {
                Ok(core) => match self.document("/apis").await {
                    Ok(groups) => return Ok((core, groups)),
                    Err(refusal) => refusal,
                },
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

    /// The resource type that each word names; waits for a `plural.group` that is not installed
    /// yet.
    ///
    /// # Errors
    /// As [`Self::catalogue`]; and a word that names no resource type here.
    ///
    /// # Cancel safety
    /// Dropping the future loses no data.
    pub(crate) async fn resolve(&self, words: &[String]) -> Result<Vec<ResourceEntry>, Failure> {
        let mut catalogue = self.catalogue().await?;
        let mut found = Vec::with_capacity(words.len());
        for word in words {
            let mut told = false;
            loop {
                match catalogue.find(word) {
                    Meaning::Known(entry) => {
                        found.push(entry);
                        break;
                    }
                    Meaning::Unknown => return Err(self.unknown(word, &catalogue)),
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
                            catalogue = self.catalogue().await?;
                        }
                    }
                }
            }
        }
        Ok(found)
    }

    /// Returns whether the server has a group: one small request, for the wait.
    async fn serves(&self, group: &str) -> Result<bool, Failure> {
        match self
            .document::<serde::de::IgnoredAny>(&format!("/apis/{group}"))
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

    async fn document<T: DeserializeOwned>(&self, path: &str) -> Result<T, Refusal> {
        match tokio::time::timeout(DEADLINE, self.fetch(path)).await {
            Err(_) => Err(Refusal::Unreachable(format!(
                "no answer to GET {path} within {} s",
                DEADLINE.as_secs()
            ))),
            Ok(Err(refusal)) => Err(refusal),
            Ok(Ok((status, body))) => self.read(path, status, &body),
        }
    }

    async fn fetch(&self, path: &str) -> Result<(StatusCode, Bytes), Refusal> {
        let request = http::Request::get(path)
            .header(http::header::ACCEPT, "application/json")
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
