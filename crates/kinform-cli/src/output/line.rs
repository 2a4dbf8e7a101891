//! One notification as one line of JSON, for scripts.
//!
//! ```text
//! add | update | delete | synced | error → {"event":..,"time":..,..}   (every key, absent = null)
//! the end                              → {"event":"summary",..}
//! ```
//!
//! The keys and their order are a contract. `resource` is the plural; a delete carries the
//! deletion's version, or the last one known if `finalStateUnknown`.

use serde::Serialize;

/// The event of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Event {
    /// An object appeared, or was there at the start.
    Add,
    /// An object changed.
    Update,
    /// An object is gone.
    Delete,
    /// A type's first list is complete.
    Synced,
    /// A request failed; it will be tried again.
    Error,
    /// The last line.
    Summary,
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    pub(crate) event: Event,
    /// RFC 3339, microseconds, UTC.
    pub(crate) time: String,
    /// True if an add belongs to the first list.
    pub(crate) initial: Option<bool>,
    pub(crate) group: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) resource: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) old_resource_version: Option<String>,
    pub(crate) final_state_unknown: Option<bool>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) retry_in_ms: Option<u64>,
}

impl Line {
    /// An otherwise empty line.
    pub(crate) fn new(event: Event, time: String) -> Self {
        Self {
            event,
            time,
            initial: None,
            group: None,
            version: None,
            resource: None,
            namespace: None,
            name: None,
            uid: None,
            resource_version: None,
            old_resource_version: None,
            final_state_unknown: None,
            reason: None,
            message: None,
            retry_in_ms: None,
        }
    }
}

/// The last line of `watch -o json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) event: Event,
    pub(crate) objects: u64,
    pub(crate) events: u64,
    pub(crate) relists: u64,
    pub(crate) reopens: u64,
    pub(crate) quarantined: u64,
    pub(crate) seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_there_and_absent_is_null() {
        let mut line = Line::new(Event::Add, "2026-01-01T00:00:00.000000Z".to_owned());
        line.initial = Some(true);
        line.group = Some(String::new());
        assert_eq!(
            serde_json::to_string(&line).unwrap(),
            "{\"event\":\"add\",\"time\":\"2026-01-01T00:00:00.000000Z\",\"initial\":true,\"group\":\"\",\"version\":null,\"resource\":null,\
             \"namespace\":null,\"name\":null,\"uid\":null,\"resourceVersion\":null,\"oldResourceVersion\":null,\
             \"finalStateUnknown\":null,\"reason\":null,\"message\":null,\"retryInMs\":null}"
        );
    }
}
