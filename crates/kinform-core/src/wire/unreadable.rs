//! Why an object could not be read, with as much of its name as there is.
//!
//! ```text
//! broken bytes → salvage → Unreadable {key?, version?, path, reason} → quarantine
//! ```
//!
//! Names keys and positions, never values: it goes to logs and events.
//! Upstream: none; a decode error ends a reflector's list in `client-go:tools/cache/reflector.go`.

use std::fmt;

use kinform_api::{KeyRef, ObjectKey};

use super::cursor;
use super::head::HeadFault;
use super::json::space;

const MAX_NAME_BYTES: usize = 253;

/// An object that cannot be read; its place is the quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Namespace and name, if they could be read.
    pub key: Option<ObjectKey>,
    /// The version, if it could be read.
    pub resource_version: Option<String>,
    /// Where the fault is, as `spec.containers[0].image`; empty for the object itself.
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
        let mut found = Self {
            key: None,
            resource_version: None,
            path: String::new(),
            reason: reason.into(),
        };
        let (mut name, mut namespace) = (None, None);
        let Some(metadata) = cursor::open_members(bytes, space(bytes, 0))
            .filter(|(key, _)| cursor::text_is(&bytes[key.clone()], "metadata"))
            .map(|(_, value)| value)
            .last()
        else {
            return found;
        };
        for (key, value) in cursor::open_members(bytes, metadata) {
            let text = || {
                let end = cursor::value_end(bytes, value)?;
                let text = cursor::unescape(cursor::string_in(bytes, value..end)?).into_owned();
                (text.len() <= MAX_NAME_BYTES).then_some(text)
            };
            match &*cursor::unescape(&bytes[key]) {
                "name" => name = text(),
                "namespace" => namespace = text(),
                "resourceVersion" => found.resource_version = text(),
                _ => {}
            }
        }
        let version = found.resource_version.take();
        named(
            name.as_deref(),
            namespace.as_deref(),
            version.as_deref(),
            found.reason,
        )
    }

    pub(crate) fn at(bytes: &[u8], fault: HeadFault) -> Self {
        match fault {
            HeadFault::Broken(fault) => {
                let mut found =
                    Self::salvage(bytes, format!("{} at byte {}", fault.what.text(), fault.at));
                found.path = cursor::path_to(bytes, fault.at);
                found
            }
            HeadFault::Field { path, why, .. } => {
                let mut found = Self::salvage(bytes, why);
                path.clone_into(&mut found.path);
                found
            }
        }
    }
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
