//! The objects of watch events that are not resources: bookmarks and statuses.
//!
//! ```text
//! object of a BOOKMARK event → bookmark → Bookmark
//! object of an ERROR event, or a bare frame → status → Status
//! ```
//!
//! Upstream: `apimachinery:pkg/watch`, `metav1.Status`.

use kinform_api::{INITIAL_EVENTS_END, Status};

use super::cursor;
use super::salvage::report_fault;
use super::validate::{self, space};
use crate::wire::bookmark::Bookmark;
use crate::wire::unreadable::Unreadable;

/// Reads the object of a bookmark.
///
/// # Errors
/// Malformed JSON, or no version.
pub fn bookmark(object: &[u8]) -> Result<Bookmark, Unreadable> {
    validate::document(object).map_err(|fault| report_fault(object, fault))?;
    let member = |at: usize, name: &str| {
        cursor::members(object, at)
            .filter(|member| member.is(object, name))
            .last()
    };
    let text = |member: Option<cursor::Member>| {
        let value = cursor::string_in(object, member?.value)?;
        Some(cursor::unescape(value).into_owned())
    };
    let metadata = member(space(object, 0), "metadata").map_or(object.len(), |m| m.value.start);
    let resource_version = text(member(metadata, "resourceVersion")).unwrap_or_default();
    if resource_version.is_empty() {
        return Err(Unreadable::missing("metadata.resourceVersion"));
    }
    let annotations = member(metadata, "annotations").map_or(object.len(), |m| m.value.start);
    let end = text(member(annotations, INITIAL_EVENTS_END));
    Ok(Bookmark {
        resource_version,
        initial_events_end: end.as_deref() == Some("true"),
    })
}

/// Reads a `Status`: the object of an `ERROR` event, or a frame that is one.
///
/// # Errors
/// Malformed JSON, or JSON that is not a `Status`.
pub fn status(object: &[u8]) -> Result<Status, Unreadable> {
    validate::document(object).map_err(|fault| report_fault(object, fault))?;
    serde_json::from_slice(object).map_err(|_| Unreadable::unknown("is not a Status"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_and_statuses_are_read() {
        let end = br#"{"kind":"Pod","metadata":{"resourceVersion":"12","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null}}"#;
        assert_eq!(
            bookmark(end),
            Ok(Bookmark {
                resource_version: "12".to_owned(),
                initial_events_end: true
            })
        );
        let plain =
            bookmark(br#"{"metadata":{"annotations":null,"resourceVersion":"12"}}"#).unwrap();
        assert!(!plain.initial_events_end);
        assert_eq!(
            bookmark(b"{\"metadata\":null}").unwrap_err().path,
            "metadata.resourceVersion"
        );
        assert!(bookmark(b"{\"metadata\":}").is_err() && bookmark(b"7").is_err());
        let gone = status(br#"{"kind":"Status","reason":"Expired","code":410}"#).unwrap();
        assert!(gone.is_expired());
        assert!(status(b"[").is_err() && status(b"7").is_err());
    }
}
