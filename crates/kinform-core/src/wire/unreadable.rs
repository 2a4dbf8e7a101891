//! The report on an object that cannot be read: its key, if that is readable, and the fault.
//!
//! ```text
//! json::salvage | json::broken | protobuf::head
//!                   └▶ Unreadable {key?, version?, path, reason} ─▶ quarantine
//! ```
//!
//! Reports contain keys and positions, never values, because they go to logs and events.
//!
//! Upstream: none; a decode error ends a reflector's list in `client-go:tools/cache/reflector.go`.

use std::fmt;

use kinform_api::{KeyRef, ObjectKey};

/// The length of the longest name.
pub(super) const MAX_NAME_BYTES: usize = 253;

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

/// The path and the fault of an object that was read and has no name.
pub(crate) const NAME: &str = "metadata.name";
pub(crate) const MISSING: &str = "is missing";

impl Unreadable {
    /// Reports an object without a readable name.
    pub(crate) fn unknown(reason: impl Into<String>) -> Self {
        named(None, None, None, reason)
    }

    /// Reports the missing member at `path` of a frame or an object.
    pub(super) fn missing(path: &str) -> Self {
        let mut missing = Self::unknown(MISSING);
        path.clone_into(&mut missing.path);
        missing
    }
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
