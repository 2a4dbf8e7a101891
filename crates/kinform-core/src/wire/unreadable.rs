//! Why an object could not be read, with as much of its name as there is.
//!
//! ```text
//! bytes that were not read → salvage ┐
//! what was read up to a fault → broken ┴→ Unreadable {key?, version?, path, reason} → quarantine
//! ```
//!
//! Names keys and positions, never values: it goes to logs and events.
//! Upstream: none; a decode error ends a reflector's list in `client-go:tools/cache/reflector.go`.

use std::fmt;
use std::ops::Range;

use kinform_api::{KeyRef, ObjectKey};

use super::json::cursor;
use super::json::head::Layout;
use super::json::path::path_to;
use super::json::validate::{Fault, space};

const MAX_NAME_BYTES: usize = 253;

/// An object that cannot be read; its place is the quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Namespace and name, if they could be read.
    pub key: Option<ObjectKey>,
    /// The version, if it could be read.
    pub resource_version: Option<String>,
    /// Where the fault is, as `spec.containers[0].image`; empty for the object itself. Of more than 32 levels the first 24
    /// and the last 8 are told, `…` between them.
    pub path: String,
    /// What is wrong there, in a few words.
    pub reason: String,
}

impl Unreadable {
    /// Of what has no name to be found.
    pub(crate) fn unknown(reason: impl Into<String>) -> Self {
        named(None, None, None, reason)
    }

    /// Reads what can be read of the name of a broken object.
    #[must_use]
    pub fn salvage(bytes: &[u8], reason: impl Into<String>) -> Self {
        let mut told = Told::default();
        let mut members = cursor::open_members(bytes, space(bytes, 0));
        while let Some((key, value)) = members.next() {
            if cursor::text_is(&bytes[key], "metadata") {
                let end;
                // As in Go the last of two counts.
                (told, end) = Told::of(bytes, value);
                if let Some(end) = end {
                    members.skip_to(end);
                }
            }
        }
        told.unreadable(reason)
    }

    /// Of a document that is no JSON.
    pub(crate) fn broken(bytes: &[u8], fault: Fault) -> Self {
        let mut found = Self::salvage(bytes, reason(fault));
        found.path = path_to(bytes, fault.at);
        found
    }

    /// Of an object that was read, but is none, as this path of it says.
    pub(crate) fn field(bytes: &[u8], layout: &Layout, path: &str, why: &str) -> Self {
        let mut found = Told::by(bytes, layout).unreadable(why);
        path.clone_into(&mut found.path);
        found
    }
}

/// What is wrong and where, in a few words.
pub(super) fn reason(fault: Fault) -> String {
    format!("{} at byte {}", fault.what.text(), fault.at)
}

/// What broken metadata tell.
#[derive(Debug, Default)]
pub(super) struct Told {
    name: Option<String>,
    namespace: Option<String>,
    version: Option<String>,
}

impl Told {
    /// What was read.
    pub(super) fn by(bytes: &[u8], layout: &Layout) -> Self {
        let text = |span: &Option<Range<usize>>| short_text(&bytes[span.clone()?]);
        Self {
            name: text(&layout.name),
            namespace: text(&layout.namespace),
            version: text(&layout.resource_version),
        }
    }

    /// Of the metadata at `at`, and where they end, if that was found.
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

/// The text of the inside of a string, if it may be a name.
fn short_text(raw: &[u8]) -> Option<String> {
    let may_be = raw.len() <= cursor::LONGEST_CHAR * MAX_NAME_BYTES;
    let text = may_be.then(|| cursor::unescape(raw).into_owned());
    text.filter(|text| text.len() <= MAX_NAME_BYTES)
}

/// What is known of an object that cannot be read.
pub(crate) fn named(
    name: Option<&str>,
    namespace: Option<&str>,
    resource_version: Option<&str>,
    reason: impl Into<String>,
) -> Unreadable {
    // BOUND: a name is at most 253 bytes; what is longer is no name.
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

/// Whether `text` can be a path segment of a URL, as names and namespaces must.
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

/// A text of the server's in a message of one line.
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
