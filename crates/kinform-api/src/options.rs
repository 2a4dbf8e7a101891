//! The options of a list or a watch, and the query string that encodes them.
//!
//! ```text
//! ListOptions │ WatchOptions ──to_query──▶ "limit=500&resourceVersion=0"
//! ```
//!
//! The options are not validated here: a server answers 422 for a wrong combination, and the
//! reflector decides which combination to request. Parameters come in alphabetical order, as Go
//! clients send them; an option that is not set is not sent.
//! Upstream: `apimachinery:pkg/apis/meta/v1/types.go` (`ListOptions`).

use std::time::Duration;

use form_urlencoded::Serializer;

use crate::version::ResourceVersion;

/// The meaning of a requested version.
///
/// Upstream: `metav1.ResourceVersionMatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VersionMatch {
    /// The state at that version, or an error if it is no longer known.
    Exact,
    /// A state at least as new.
    NotOlderThan,
}

/// The options of a list.
///
/// Upstream: `metav1.ListOptions` without those of a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ListOptions {
    /// Only objects whose labels match.
    pub label_selector: Option<String>,
    /// Only objects whose fields match; the server decides which fields it supports.
    pub field_selector: Option<String>,
    /// The maximum number of items in one reply; some servers' caches ignore it.
    pub limit: Option<u32>,
    /// Continues where an earlier reply ended.
    pub continue_token: Option<String>,
    /// The version to list at; `None` is the most recent one, read consistently.
    pub resource_version: Option<ResourceVersion>,
    /// The meaning of the version; only with a version.
    pub version_match: Option<VersionMatch>,
    /// Only objects whose hash is in these ranges. A server that does not know it ignores it.
    pub shard_selector: Option<String>,
}

/// The options of a watch.
///
/// Upstream: `metav1.ListOptions` with `Watch`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct WatchOptions {
    /// Only objects whose labels match.
    pub label_selector: Option<String>,
    /// Only objects whose fields match; the server decides which fields it supports.
    pub field_selector: Option<String>,
    /// The version to start after.
    pub resource_version: Option<ResourceVersion>,
    /// The meaning of the version; only with `send_initial_events`.
    pub version_match: Option<VersionMatch>,
    /// True if the state comes first as events, ended by a marked bookmark. Either value needs
    /// [`VersionMatch::NotOlderThan`].
    pub send_initial_events: Option<bool>,
    /// Only objects whose hash is in these ranges. A server that does not know it ignores it.
    pub shard_selector: Option<String>,
    /// True if the server may send bookmarks.
    pub allow_bookmarks: bool,
    /// The time after which the server ends the watch; sent in whole seconds, rounded up.
    pub timeout: Option<Duration>,
}

impl VersionMatch {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "Exact",
            Self::NotOlderThan => "NotOlderThan",
        }
    }
}

impl ListOptions {
    /// The query string, without a question mark; empty if no option is set.
    #[must_use]
    pub fn to_query(&self) -> String {
        let mut query = Query::default();
        query.push("continue", self.continue_token.as_deref());
        query.push("fieldSelector", self.field_selector.as_deref());
        query.push("labelSelector", self.label_selector.as_deref());
        query.push("limit", self.limit.map(|l| l.to_string()).as_deref());
        query.push_version(self.resource_version.as_ref(), self.version_match);
        query.push("shardSelector", self.shard_selector.as_deref());
        query.0.finish()
    }
}

impl WatchOptions {
    /// The query string, without a question mark; always contains `watch=true`.
    #[must_use]
    pub fn to_query(&self) -> String {
        let seconds = self
            .timeout
            .map(|t| t.as_secs() + u64::from(t.subsec_nanos() > 0));
        let mut query = Query::default();
        query.push(
            "allowWatchBookmarks",
            self.allow_bookmarks.then_some("true"),
        );
        query.push("fieldSelector", self.field_selector.as_deref());
        query.push("labelSelector", self.label_selector.as_deref());
        query.push_version(self.resource_version.as_ref(), self.version_match);
        query.push("sendInitialEvents", self.send_initial_events.map(bool_word));
        query.push("shardSelector", self.shard_selector.as_deref());
        query.push("timeoutSeconds", seconds.map(|s| s.to_string()).as_deref());
        query.push("watch", Some("true"));
        query.0.finish()
    }
}

/// Writes parameters into a string.
struct Query(Serializer<'static, String>);

impl Default for Query {
    fn default() -> Self {
        Self(Serializer::new(String::new()))
    }
}

impl Query {
    fn push(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            self.0.append_pair(name, value);
        }
    }

    fn push_version(&mut self, version: Option<&ResourceVersion>, how: Option<VersionMatch>) {
        self.push("resourceVersion", version.map(ResourceVersion::as_str));
        self.push("resourceVersionMatch", how.map(VersionMatch::as_str));
    }
}

fn bool_word(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_only_what_is_set() {
        assert_eq!(ListOptions::default().to_query(), "");
        let options = ListOptions {
            label_selector: Some("app in (a,b),!c".into()),
            field_selector: Some("spec.nodeName=n1".into()),
            limit: Some(500),
            continue_token: Some("eyJ2Ij09".into()),
            resource_version: Some("0".into()),
            version_match: Some(VersionMatch::NotOlderThan),
            shard_selector: Some("shardRange(object.metadata.uid, '0x0', '0x1')".into()),
        };
        assert_eq!(
            options.to_query(),
            "continue=eyJ2Ij09&fieldSelector=spec.nodeName%3Dn1&\
             labelSelector=app+in+%28a%2Cb%29%2C%21c&limit=500&resourceVersion=0&\
             resourceVersionMatch=NotOlderThan&\
             shardSelector=shardRange%28object.metadata.uid%2C+%270x0%27%2C+%270x1%27%29"
        );
    }

    #[test]
    fn an_unset_version_is_not_sent() {
        let options = ListOptions {
            resource_version: Some(ResourceVersion::UNSET),
            ..ListOptions::default()
        };
        assert_eq!(options.to_query(), "");
    }

    #[test]
    fn a_watch_rounds_its_timeout_up() {
        assert_eq!(WatchOptions::default().to_query(), "watch=true");
        let options = WatchOptions {
            resource_version: Some("12".into()),
            version_match: Some(VersionMatch::NotOlderThan),
            send_initial_events: Some(false),
            allow_bookmarks: true,
            timeout: Some(Duration::from_millis(1_001)),
            ..WatchOptions::default()
        };
        assert_eq!(
            options.to_query(),
            "allowWatchBookmarks=true&resourceVersion=12&resourceVersionMatch=NotOlderThan&\
             sendInitialEvents=false&timeoutSeconds=2&watch=true"
        );
    }
}
