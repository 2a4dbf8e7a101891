//! Errors of opening a list or a watch, or of reading its body.
//!
//! ```text
//! client's error | reply's status and body → SourceError → the reflector's decision
//! ```
//!
//! One opaque error with questions. The kind is for decisions (is the server there? did it refuse?
//! is it a Kubernetes server at all?); the text is for people. It never holds tokens, headers or
//! object bodies.
//!
//! Upstream counterpart: `apimachinery:pkg/api/errors` and `pkg/util/net/http.go`
//! (`IsConnectionRefused`, `IsProbableEOF`).

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use kinform_api::Status;

/// The kind of failure, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceErrorKind {
    /// No connection was made: refused, unreachable, unknown host, failed handshake.
    Refused,
    /// A certificate was not accepted: the server's by this client, or the client's by the server.
    /// Waiting does not help, replacing a file may.
    Certificate,
    /// The server answered with a failure that it describes.
    Status,
    /// The peer is not a Kubernetes API server.
    NotKubernetes,
    /// The connection broke, or its bytes make no sense.
    Transport,
    /// No bytes came within the time limit.
    Deadline,
    /// The request cannot be made: credentials, an invalid selector or name.
    Request,
}

/// A failed request or a broken body.
pub struct SourceError(Box<Inner>);

struct Inner {
    kind: SourceErrorKind,
    message: String,
    http_code: Option<u16>,
    status: Option<Status>,
    retry_after: Option<Duration>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl SourceError {
    /// An error of `kind` that `message` describes in one line.
    pub fn new(kind: SourceErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            http_code: None,
            status: None,
            retry_after: None,
            cause: None,
        }))
    }

    /// The server's own refusal.
    pub fn from_status(http_code: u16, status: Status) -> Self {
        let mut error = Self::new(SourceErrorKind::Status, one_line(&status.message));
        error.0.retry_after = status.retry_after();
        error.0.http_code = Some(http_code);
        error.0.status = Some(status);
        error
    }

    /// The same error, caused by `cause`.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// The same error with the reply's HTTP code.
    #[must_use]
    pub fn with_http_code(mut self, code: u16) -> Self {
        self.0.http_code = Some(code);
        self
    }

    /// The same error with the delay that the server asks for.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.0.retry_after = retry_after.or(self.0.retry_after);
        self
    }

    /// The kind of failure, as far as decisions depend on it.
    pub fn kind(&self) -> SourceErrorKind {
        self.0.kind
    }

    /// The HTTP code, if there was a reply.
    pub fn http_code(&self) -> Option<u16> {
        self.0.http_code
    }

    /// The server's description of its refusal.
    pub fn status(&self) -> Option<&Status> {
        self.0.status.as_ref()
    }

    /// The delay that the server asks for: from its header, else from its Status.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns whether the credentials are known and have no permission (403).
    pub fn is_forbidden(&self) -> bool {
        self.0.http_code == Some(403)
    }

    /// Returns whether the credentials are not known (401).
    pub fn is_unauthorized(&self) -> bool {
        self.0.http_code == Some(401)
    }

    /// Returns whether there is no such resource type, namespace path or object (404).
    pub fn is_not_found(&self) -> bool {
        self.0.http_code == Some(404)
    }

    /// Returns whether another writer was faster, or an object of that name exists (409).
    pub fn is_conflict(&self) -> bool {
        self.0.http_code == Some(409)
    }

    /// Returns whether the requested history is gone (410, or a Status of that reason).
    pub fn is_expired(&self) -> bool {
        let described = self.status().is_some_and(|s| s.is_expired() || s.is_gone());
        described || self.0.http_code == Some(410)
    }
}

/// BOUND: characters of a server's text in an error.
const MAX_MESSAGE_CHARS: usize = 1024;

/// `text` without line breaks and control characters, shortened.
pub(crate) fn one_line(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_MESSAGE_CHARS)
        .collect();
    line.truncate(line.trim_end().len());
    line
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceError")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("http_code", &self.0.http_code)
            .field("retry_after", &self.0.retry_after)
            .finish_non_exhaustive()
    }
}

impl StdError for SourceError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as _)
    }
}
