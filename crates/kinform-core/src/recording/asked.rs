//! Requests and failures as JSON.
//!
//! ```text
//! ListOptions │ WatchOptions ──▶ Asked ◀──▶ JSON        failure of a source ──▶ Failed ◀──▶ JSON
//! ```
//!
//! Upstream counterpart: none.

use std::time::Duration;

use kinform_api::{ListOptions, ResourceVersion, Status, VersionMatch, WatchOptions};
use serde::{Deserialize, Serialize};

/// A request for a list or a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A list, or one page of it.
    List(ListOptions),
    /// A watch, or a streaming list.
    Watch(WatchOptions),
}

impl Asked {
    /// Returns whether another request asks for the same. The time after which a watch ends is drawn
    /// at random, and does not count.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(ours), Self::List(theirs)) => ours == theirs,
            (Self::Watch(ours), Self::Watch(theirs)) => {
                let timeout = ours.timeout;
                let theirs = WatchOptions {
                    timeout,
                    ..theirs.clone()
                };
                *ours == theirs
            }
            (Self::List(_), Self::Watch(_)) | (Self::Watch(_), Self::List(_)) => false,
        }
    }

    /// Returns whether it is a watch, or a streaming list.
    #[must_use]
    pub fn is_watch(&self) -> bool {
        matches!(self, Self::Watch(_))
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let written = match self {
            Self::List(options) => Written {
                is_watch: false,
                label_selector: options.label_selector.clone(),
                field_selector: options.field_selector.clone(),
                shard_selector: options.shard_selector.clone(),
                limit: options.limit,
                continue_token: options.continue_token.clone(),
                resource_version: options.resource_version.clone(),
                version_match: options.version_match.map(|how| how.as_str().to_owned()),
                ..Written::default()
            },
            Self::Watch(options) => Written {
                is_watch: true,
                label_selector: options.label_selector.clone(),
                field_selector: options.field_selector.clone(),
                shard_selector: options.shard_selector.clone(),
                resource_version: options.resource_version.clone(),
                version_match: options.version_match.map(|how| how.as_str().to_owned()),
                send_initial_events: options.send_initial_events,
                allow_bookmarks: options.allow_bookmarks,
                timeout_ms: options.timeout.map(super::millis),
                ..Written::default()
            },
        };
        // Texts and numbers: there is JSON of them.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    pub(super) fn from_json(json: &[u8]) -> Option<Self> {
        let written: Written = serde_json::from_slice(json).ok()?;
        let version_match = match written.version_match.as_deref() {
            None => None,
            Some("Exact") => Some(VersionMatch::Exact),
            Some("NotOlderThan") => Some(VersionMatch::NotOlderThan),
            Some(_) => return None,
        };
        Some(match written.is_watch {
            false => Self::List(ListOptions {
                label_selector: written.label_selector,
                field_selector: written.field_selector,
                shard_selector: written.shard_selector,
                limit: written.limit,
                continue_token: written.continue_token,
                resource_version: written.resource_version,
                version_match,
            }),
            true => Self::Watch(WatchOptions {
                label_selector: written.label_selector,
                field_selector: written.field_selector,
                shard_selector: written.shard_selector,
                resource_version: written.resource_version,
                version_match,
                send_initial_events: written.send_initial_events,
                allow_bookmarks: written.allow_bookmarks,
                timeout: written.timeout_ms.map(Duration::from_millis),
            }),
        })
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    is_watch: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard_selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    continue_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<ResourceVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version_match: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    send_initial_events: Option<bool>,
    allow_bookmarks: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

/// The failure of a request, or of a body that was arriving.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Failed {
    /// The kind of failure, in the shell's words.
    pub kind: String,
    /// One line for people.
    pub message: String,
    /// The HTTP code, if there was a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_code: Option<u16>,
    /// The server's description, if it sent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The delay that the server asked for, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}
