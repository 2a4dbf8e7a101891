//! The record of what came over the wire: requests, bytes of bodies, errors and their times, as a file.
//!
//! ```text
//! notes of requests ──Writing (protobuf → JSON, digests for secrets)──▶ mark │ header │ blocks │ end
//! bytes of a file ──Reading──▶ Recording: exchanges, each with its answer step by step
//! ```
//!
//! A recording is of one resource. An exchange is a request and its answer; several may be open at
//! once. Bodies are JSON, cut as they arrived; one that was protobuf is translated first. Secret values
//! are digests before they reach a block, see [`Redactor`].
//! A file that was not written to its end is read up to its last whole block.
//!
//! * `record.rs`: what a block holds, as bytes; `asked.rs`: requests and failures as JSON;
//! * `redact.rs`, `digest.rs`: secrets; `translate.rs`: protobuf;
//! * `write.rs`, `read.rs`: the two directions; `unusable.rs`: why a file is no recording.
//!
//! INVARIANT: reading never panics and asks for no memory that the file does not fill, whatever its
//! bytes are.
//!
//! Upstream counterpart: none.

mod asked;
mod digest;
mod read;
mod record;
mod redact;
mod translate;
mod unusable;
mod write;

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::asked::{Asked, Failed};
pub use self::digest::{DIGEST_PREFIX, DigestKey};
pub use self::read::{Exchange, Reading, Recording, Span, Step, StepKind};
pub use self::redact::{Contents, Redactor};
pub use self::unusable::Unusable;
pub use self::write::{Note, Writing};

/// The first bytes of a recording. The last one is the number of the format.
const MARK: &[u8; 8] = b"kin-rec\x01";
/// BOUND: bytes of a header.
const MAX_HEADER: usize = 64 << 10;
/// Bytes of a block before it is closed.
const BLOCK: usize = 256 << 10;
/// BOUND: bytes of one record's content. A longer chunk becomes several records.
const MAX_CONTENT: usize = 256 << 10;
/// BOUND: bytes of a block: it was not full when the last record was added.
const MAX_BLOCK: usize = BLOCK + MAX_CONTENT + record::HEAD;

/// The subject of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The kind of its objects.
    pub kind: String,
    /// True if the objects live in namespaces.
    pub is_namespaced: bool,
    /// The one namespace that was asked; `None` for all, or for a cluster's own resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The label selector, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// The field selector, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
    /// The time of day at the start, as RFC 3339: for people.
    #[serde(default)]
    pub started: String,
    /// The release of kinform that wrote it: for people.
    #[serde(default)]
    pub release: String,
}

impl Subject {
    /// Returns whether the objects are Secrets.
    #[must_use]
    pub fn contents(&self) -> Contents {
        let is_named = self.group.is_empty() && self.resource == "secrets";
        match is_named || self.kind == "Secret" {
            true => Contents::Secrets,
            false => Contents::Other,
        }
    }
}

/// A time since the start, in the file's unit.
fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}
