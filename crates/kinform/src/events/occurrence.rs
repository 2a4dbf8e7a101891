//! One event as it was recorded, and the keys of equal and similar events.
//!
//! ```text
//! object, type, reason, action, note → Occurrence → keys: the same, similar, of one source
//! ```
//!
//! The version of an object is in no key: events about an object that changes are still the same.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kinform_api::mutant;

/// BOUND: bytes of a note. The server refuses longer ones.
pub(super) const NOTE_MAX: usize = 1024;
/// BOUND: bytes of a reason, an action, an instance. The server refuses longer ones.
pub(super) const WORD_MAX: usize = 128;

/// The type of an event: normal, or a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Normal operation.
    Normal,
    /// A problem that may need attention.
    Warning,
}

impl EventType {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One event.
#[derive(Clone, Debug)]
pub(super) struct Occurrence {
    pub(super) about: ObjectReference,
    pub(super) related: Option<ObjectReference>,
    pub(super) event_type: EventType,
    pub(super) reason: String,
    /// Empty if none was given.
    pub(super) action: String,
    pub(super) note: String,
    pub(super) at: Timestamp,
}

/// Separates the parts of a key; in no name.
const SEPARATOR: &str = "\u{1f}";

impl Occurrence {
    /// The same with its texts cut to what a server takes.
    pub(super) fn cut(mut self) -> Self {
        truncate(&mut self.reason, WORD_MAX);
        truncate(&mut self.action, WORD_MAX);
        truncate(&mut self.note, NOTE_MAX);
        self
    }

    /// The key of events that are counted as one. Upstream: `getEventKey`.
    pub(super) fn same_key(&self) -> String {
        let field = self.about.field_path.as_deref().unwrap_or_default();
        [&self.similar_key(), field, &self.note].join(SEPARATOR)
    }

    /// The key of events that differ in their note, or the part of the object, only. Upstream:
    /// `EventAggregatorByReasonFunc`.
    pub(super) fn similar_key(&self) -> String {
        [&self.source_key(), self.reason.as_str()].join(SEPARATOR)
    }

    /// The key of events that share a budget. Upstream: `getSpamKey`.
    pub(super) fn source_key(&self) -> String {
        let object = object_key(&self.about);
        [&object, self.event_type.as_str()].join(SEPARATOR)
    }

    /// The key of a series: all but note and time. Upstream: `eventKey`, with the object's version.
    pub(super) fn series_key(&self) -> String {
        let field = self.about.field_path.as_deref().unwrap_or_default();
        let related = self.related.as_ref().map(object_key).unwrap_or_default();
        let similar = self.similar_key();
        [&similar, field, self.action.as_str(), &related].join(SEPARATOR)
    }

    /// The namespace of the event: `default` for an object of the cluster.
    pub(super) fn namespace(&self) -> &str {
        let namespace = self.about.namespace.as_deref();
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        namespace.unwrap_or("default")
    }
}

fn object_key(about: &ObjectReference) -> String {
    let ObjectReference {
        api_version,
        kind,
        namespace,
        name,
        uid,
        ..
    } = about;
    let version = &about.resource_version;
    let version = version.as_ref().filter(|_| mutant!("E1")).cloned();
    let parts = [api_version, kind, namespace, name, uid, &version];
    let parts = parts.map(|part| part.as_deref().unwrap_or_default());
    parts.join(SEPARATOR)
}

/// Cuts a text between characters.
pub(super) fn truncate(text: &mut String, max: usize) {
    if text.len() > max {
        let at = (0..=max).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(at.unwrap_or(0));
    }
}

/// Names of events: of the object and the time, each once.
#[derive(Debug, Default)]
pub(super) struct Names {
    last_nanos: i128,
}

impl Names {
    /// Upstream: `GenerateEventName`.
    pub(super) fn next(&mut self, occurrence: &Occurrence) -> String {
        // kube#2122: two events of one instant had one name.
        self.last_nanos = occurrence.at.as_nanosecond().max(self.last_nanos + 1);
        let object = occurrence.about.name.as_deref().unwrap_or_default();
        // Not every object's name may be part of an event's (RBAC has colons).
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        let object = if object.is_empty() || object.len() > 230 || !object.chars().all(fits) {
            "event"
        } else {
            object
        };
        format!("{object}.{:x}", self.last_nanos)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An event about a pod, some seconds after the start.
    pub(in crate::events) fn event(name: &str, reason: &str, note: &str) -> Occurrence {
        Occurrence {
            about: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some("ns".to_owned()),
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            },
            related: None,
            event_type: EventType::Normal,
            reason: reason.to_owned(),
            action: String::new(),
            note: note.to_owned(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    // client-go: TestEventAggregatorByReasonFunc
    #[test]
    fn events_are_similar_if_they_differ_in_their_note_only() {
        let fun = event("pod1", "end-of-world", "it was fun");
        let awful = event("pod1", "end-of-world", "it was awful");
        let bug = event("pod1", "nevermind", "it was a bug");
        assert_eq!(fun.similar_key(), awful.similar_key());
        assert_ne!(fun.same_key(), awful.same_key());
        assert_ne!(fun.similar_key(), bug.similar_key());
    }

    // fluxcd/kustomize-controller#1621: the version was in the key, so no series was formed.
    #[test]
    fn e1_the_version_of_an_object_is_in_no_key() {
        let first = event("pod", "Seen", "again");
        let mut second = first.clone();
        second.about.resource_version = Some("12".to_owned());
        let keys = |event: &Occurrence| [event.same_key(), event.series_key(), event.source_key()];
        assert_eq!(keys(&first), keys(&second));
        second.about.uid = Some("another".to_owned());
        assert_ne!(keys(&first), keys(&second));
    }

    // kube#2122
    #[test]
    fn no_two_events_have_one_name_and_no_name_is_refused() {
        let mut names = Names::default();
        let odd = event("system:node:x", "Named", "oddly");
        let [first, second] = [(); 2].map(|()| names.next(&odd));
        assert_ne!(first, second);
        assert!(first.starts_with("event.") && second.starts_with("event."));
        let long = event(&"x".repeat(253), "Named", "long");
        assert!(names.next(&long).len() <= 253);
    }
}
