//! Finds the name and version of a malformed JSON object.
//!
//! ```text
//! bytes ─▶ salvage ─▶ Identity {name?, namespace?, version?} ─▶ Unreadable
//! ```
//!
//! The bytes may end or be malformed anywhere; what stands before that is enough.
//!
//! Upstream: none; a decode error ends a reflector's list in `client-go:tools/cache/reflector.go`.

use std::ops::Range;

use super::cursor;
use super::path::path_to;
use super::validate::{Fault, space};
use crate::wire::layout::Layout;
use crate::wire::unreadable::{MAX_NAME_BYTES, Unreadable, named};

/// Reports a malformed object, with its name and version if these are readable.
pub(in crate::wire) fn salvage(bytes: &[u8], reason: impl Into<String>) -> Unreadable {
    let mut identity = Identity::default();
    let mut members = cursor::open_members(bytes, space(bytes, 0));
    while let Some((key, value)) = members.next() {
        if cursor::text_is(&bytes[key], "metadata") {
            let end;
            // As in Go, the last of several members `metadata` counts.
            (identity, end) = Identity::of(bytes, value);
            if let Some(end) = end {
                members.skip_to(end);
            }
        }
    }
    identity.unreadable(reason)
}

/// Reports a document that is not JSON.
pub(in crate::wire) fn report_fault(bytes: &[u8], fault: Fault) -> Unreadable {
    let mut found = salvage(bytes, reason(fault));
    found.path = path_to(bytes, fault.at);
    found
}

/// Reports an object that was parsed, but whose field at `path` is invalid.
pub(crate) fn invalid_field(bytes: &[u8], layout: &Layout, path: &str, why: &str) -> Unreadable {
    let mut found = Identity::at_spans(bytes, layout).unreadable(why);
    path.clone_into(&mut found.path);
    found
}

/// Describes a fault and its offset in a few words.
pub(super) fn reason(fault: Fault) -> String {
    format!("{} at byte {}", fault.what.text(), fault.at)
}

/// The name and version found in malformed metadata.
#[derive(Debug, Default)]
pub(super) struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    version: Option<String>,
}

impl Identity {
    /// Reads the name and version at the spans of a layout.
    pub(super) fn at_spans(bytes: &[u8], layout: &Layout) -> Self {
        let text = |span: &Option<Range<usize>>| short_text(&bytes[span.clone()?]);
        Self {
            name: text(&layout.name),
            namespace: text(&layout.namespace),
            version: text(&layout.resource_version),
        }
    }

    /// Reads the metadata at `at`; also returns the position after them, if they have an end.
    pub(super) fn of(bytes: &[u8], at: usize) -> (Self, Option<usize>) {
        let mut identity = Self::default();
        let mut members = cursor::open_members(bytes, at);
        for (key, value) in members.by_ref() {
            let text = || {
                let end = cursor::value_end(bytes, value)?;
                short_text(cursor::string_in(bytes, value..end)?)
            };
            match &*cursor::key_text(&bytes[key]) {
                b"name" => identity.name = text(),
                b"namespace" => identity.namespace = text(),
                b"resourceVersion" => identity.version = text(),
                _ => {}
            }
        }
        (identity, members.end())
    }

    pub(super) fn unreadable(&self, reason: impl Into<String>) -> Unreadable {
        named(
            self.name.as_deref(),
            self.namespace.as_deref(),
            self.version.as_deref(),
            reason,
        )
    }
}

/// Unescapes the inside of a string, unless it is too long for a name.
fn short_text(raw: &[u8]) -> Option<String> {
    let may_be = raw.len() <= cursor::LONGEST_CHAR * MAX_NAME_BYTES;
    let text = may_be.then(|| cursor::unescape(raw).into_owned());
    text.filter(|text| text.len() <= MAX_NAME_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinform_api::ObjectKey;

    #[test]
    fn of_two_metadata_the_last_names_what_is_broken() {
        let check = |text: &str, expected: Option<&str>| {
            let found = salvage(text.as_bytes(), "broken");
            let key = found.key.as_ref().map(ObjectKey::as_str);
            assert_eq!(key, expected, "{text}");
        };
        check(
            r#"{"metadata":{"name":"a","namespace":"n"} , "x":!"#,
            Some("n/a"),
        );
        check(r#"{"metadata":{"name":"a","x":{"name":"b"}"#, Some("a"));
        check(
            r#"{"metadata":{"name":"a" !},"metadata":{"name":"b"}}"#,
            Some("b"),
        );
        check(r#"{"metadata":{"name":"a"},"metadata":{"nome":"b""#, None);
        check(r#"{"metadata":["name","a"],"x":!"#, None);
        check(
            r#"{"metadata":{"name":"a"}},"metadata":{"name":"b"}"#,
            Some("a"),
        );
        let long = |times| format!(r#"{{"metadata":{{"name":"{}"#, r"\u0061".repeat(times)) + "\"";
        check(&long(MAX_NAME_BYTES), Some(&"a".repeat(MAX_NAME_BYTES)));
        check(&long(MAX_NAME_BYTES + 1), None);
    }
}
