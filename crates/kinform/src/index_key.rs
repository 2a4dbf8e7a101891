//! Values of indexes: texts, or any bytes.
//!
//! ```text
//! index function → IndexKey ◀─ IndexReader::values        get(text or bytes) → objects under it
//! ```
//!
//! Upstream counterpart: the strings of `client-go:tools/cache/index.go` (`IndexFunc`).

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A value under which an index finds objects: a text, or any bytes.
///
/// An unsigned number may be given as its big-endian bytes, all of the same length: keys then have
/// the order of the numbers. Signed numbers do not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexKey(Arc<[u8]>);

impl IndexKey {
    pub(crate) fn new(bytes: Arc<[u8]>) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if it is valid UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl AsRef<[u8]> for IndexKey {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for IndexKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for IndexKey {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl PartialEq<str> for IndexKey {
    fn eq(&self, text: &str) -> bool {
        *self.0 == *text.as_bytes()
    }
}

impl fmt::Display for IndexKey {
    /// The text; bytes that are not valid UTF-8 are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_str() {
            Some(text) => f.write_str(text),
            None => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

impl fmt::Debug for IndexKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
