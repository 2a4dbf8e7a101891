//! The report on an object that cannot be read: its key, if that is readable, and the fault.
//!
//! ```text
//! bytes not parsed ─▶ salvage ──────────┐
//! parsed up to a fault ─▶ json::broken ─┴▶ Unreadable {key?, version?, path, reason} ─▶ quarantine
//! ```
//!
//! Reports contain keys and positions, never values, because they go to logs and events.
//!
//! Upstream: none; a decode error ends a reflector's list in `client-go:tools/cache/reflector.go`.

use std::fmt;
use std::ops::Range;

use kinform_api::{KeyRef, ObjectKey};

use super::json::cursor;
use super::json::head::Layout;
use super::json::path::path_to;
use super::json::validate::{Fault, space};

const MAX_NAME_BYTES: usize = 253;

/// An object that cannot be read, and is quarantined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Namespace and name, if they are readable.
    pub key: Option<ObjectKey>,
    /// The resource version, if it is readable.
    pub resource_version: Option<String>,
    /// The path of the fault, as `spec.containers[0].image`; empty for the object itself.
    ///
    /// A path of more than 32 levels has its first 24 and last 8, with `…` between them.
    pub path: String,
    /// The fault at that path, in a few words.
    pub reason: String,
}

impl Unreadable {
    /// Reports an object without a readable name.
    pub(crate) fn unknown(reason: impl Into<String>) -> Self {
        named(None, None, None, reason)
    }

    /// Reports a malformed object, with its name and version if these are readable.
    #[must_use]
    pub fn salvage(bytes: &[u8], reason: impl Into<String>) -> Self {
        let mut told = Told::default();
        let mut members = cursor::open_members(bytes, space(bytes, 0));
        while let Some((key, value)) = members.next() {
            if cursor::text_is(&bytes[key], "metadata") {
                let end;
                // As in Go, the last of several members `metadata` counts.
                (told, end) = Told::of(bytes, value);
                if let Some(end) = end {
                    members.skip_to(end);
                }
            }
        }
        told.unreadable(reason)
    }

    /// Reports a document that is not JSON.
    pub(crate) fn broken(bytes: &[u8], fault: Fault) -> Self {
        let mut found = Self::salvage(bytes, reason(fault));
        found.path = path_to(bytes, fault.at);
        found
    }

    /// Reports an object that was parsed, but whose field at `path` is invalid.
    pub(crate) fn field(bytes: &[u8], layout: &Layout, path: &str, why: &str) -> Self {
        let mut found = Told::by(bytes, layout).unreadable(why);
        path.clone_into(&mut found.path);
        found
    }
}

/// Describes a fault and its offset in a few words.
pub(super) fn reason(fault: Fault) -> String {
    format!("{} at byte {}", fault.what.text(), fault.at)
}

/// The name and version found in malformed metadata.
#[derive(Debug, Default)]
pub(super) struct Told {
    name: Option<String>,
    namespace: Option<String>,
    version: Option<String>,
}

impl Told {
    /// Reads the name and version at the spans of a layout.
    pub(super) fn by(bytes: &[u8], layout: &Layout) -> Self {
        let text = |span: &Option<Range<usize>>| short_text(&bytes[span.clone()?]);
        Self {
            name: text(&layout.name),
            namespace: text(&layout.namespace),
            version: text(&layout.resource_version),
        }
    }

    /// Reads the metadata at `at`; also returns the position after them, if they have an end.
    pub(super) fn of(bytes: &[u8], at: usize) -> (Self, Option<usize>) {
        let mut told = Self::default();
        let mut members = cursor::open_members(bytes, at);
        for (key, value) in members.by_ref() {
            let text = || {
                let end = cursor::value_end(bytes, value)?;
                short_text(cursor::string_in(bytes, value..end)?)
            };
            match &*cursor::key_text(&bytes[key]) {
                b"name" => told.name = text(),
                b"namespace" => told.namespace = text(),
                b"resourceVersion" => told.version = text(),
                _ => {}
            }
        }
        (told, members.end())
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

/// Reports an object that cannot be read, with those of its names that are valid.
pub(crate) fn named(
    name: Option<&str>,
    namespace: Option<&str>,
    resource_version: Option<&str>,
    reason: impl Into<String>,
) -> Unreadable {
    // BOUND: a name is at most 253 bytes; a longer text is not a name.
    let short = |text: &&str| text.len() <= MAX_NAME_BYTES;
    let namespace = namespace.filter(short).unwrap_or_default();
    let name = name.filter(short).filter(|name| is_name(name));
    let has_key = namespace.is_empty() || is_name(namespace);
    Unreadable {
        key: name
            .filter(|_| has_key)
            .map(|name| KeyRef { namespace, name }.to_key()),
        resource_version: resource_version.filter(short).map(str::to_owned),
        path: String::new(),
        reason: reason.into(),
    }
}

/// Returns whether `text` can be a path segment of a URL, as names and namespaces must.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{}", OneLine(key.as_str()))?,
            None => f.write_str("an object without a readable name")?,
        }
        if let Some(version) = &self.resource_version {
            write!(f, " at version {}", OneLine(version))?;
        }
        f.write_str(" cannot be read: ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Unreadable {}

/// A text from the server in a message of one line: control characters become `?`.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pieces = self.0.split(char::is_control);
        f.write_str(pieces.next().unwrap_or_default())?;
        pieces.try_for_each(|piece| write!(f, "?{piece}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_metadata_the_last_names_what_is_broken() {
        let check = |text: &str, expected: Option<&str>| {
            let found = Unreadable::salvage(text.as_bytes(), "broken");
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
