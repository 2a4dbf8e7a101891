//! The name of an object inside one resource: namespace and name.
//!
//! ```text
//! (namespace, name) ──▶ ObjectKey "ns/name" (owned, one pointer to share) ──▶ KeyRef (borrowed)
//! ```
//!
//! Both forms are equal, ordered and hashed by (namespace, name), bytewise, with the cluster scope
//! before every namespace. An API server lists in nearly the same order: by `namespace/name`, in
//! which `a-b/x` comes before `a/x`. The text is validated only by the parser; a key made of
//! hostile parts keeps these parts.
//! Upstream: `client-go:tools/cache/object-names.go` (`ObjectName`) and
//! `client-go:tools/cache/store.go` (`MetaNamespaceKeyFunc`, `SplitMetaNamespaceKey`).

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Noun};

/// Namespace and name of an object; cheap to clone.
///
/// # Order guarantees
/// Bytewise by namespace, then by name; objects without a namespace first.
///
/// Upstream: the string key `namespace/name` of every store, and `ObjectName`.
#[derive(Clone)]
pub struct ObjectKey {
    text: Arc<str>,
    // INVARIANT: `text` is the name if this is 0, else `text[..len]` is the namespace,
    // `text[len]` a slash, and the rest the name.
    namespace_len: usize,
}

/// Namespace and name of an object, borrowed.
///
/// Upstream: none; Go's strings are borrowed by nature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRef<'a> {
    /// The namespace; empty for an object of the cluster.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

impl ObjectKey {
    /// A key from its parts. An empty namespace means no namespace.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        KeyRef {
            namespace: namespace.unwrap_or_default(),
            name,
        }
        .to_key()
    }

    /// The namespace, or `None` for an object of the cluster.
    #[must_use]
    #[inline]
    pub fn namespace(&self) -> Option<&str> {
        match self.namespace_len {
            0 => None,
            len => Some(&self.text[..len]),
        }
    }

    /// The name.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &str {
        match self.namespace_len {
            0 => &self.text,
            len => &self.text[len + 1..],
        }
    }

    /// `namespace/name`, or the name alone for an object of the cluster.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same key, borrowed.
    #[must_use]
    #[inline]
    pub fn key_ref(&self) -> KeyRef<'_> {
        KeyRef {
            namespace: self.namespace().unwrap_or_default(),
            name: self.name(),
        }
    }
}

impl<'a> KeyRef<'a> {
    /// The same key, owned.
    #[must_use]
    pub fn to_key(self) -> ObjectKey {
        let text: Arc<str> = match self.namespace {
            "" => Arc::from(self.name),
            namespace => Arc::from([namespace, "/", self.name].concat()),
        };
        ObjectKey {
            text,
            namespace_len: self.namespace.len(),
        }
    }

    /// A hash that is the same in every process: a folded multiplication of each eight bytes.
    ///
    /// Well spread, but not keyed: names can be chosen to collide. A table that must not
    /// degrade under chosen names hashes the key with a seeded hasher instead.
    ///
    /// # Complexity
    /// One multiplication for eight bytes.
    #[must_use]
    pub fn hash64(self) -> u64 {
        let namespace = mix_bytes(0x9e37_79b9_7f4a_7c15, self.namespace.as_bytes());
        mix_bytes(namespace, self.name.as_bytes())
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(self.name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.text)
    }
}

impl FromStr for ObjectKey {
    type Err = Error;

    /// Parses `namespace/name` or `name`.
    ///
    /// # Errors
    /// More than one slash.
    ///
    /// Upstream: `SplitMetaNamespaceKey`, with its message.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        if name.contains('/') {
            let quoted = crate::quote::quote(text);
            return Err(Error::new(
                Noun::Key,
                format!("unexpected key format: {quoted}"),
            ));
        }
        Ok(Self::new(Some(namespace), name))
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.namespace_len == other.namespace_len && self.text == other.text
    }
}

impl Eq for ObjectKey {}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key_ref().cmp(&other.key_ref())
    }
}

impl Hash for ObjectKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let text = self.text.as_bytes();
        let (namespace, name) = match self.namespace_len {
            0 => text.split_at(0),
            len => (&text[..len], &text[len + 1..]),
        };
        hash_parts(namespace, name, state);
    }
}

impl Hash for KeyRef<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_parts(self.namespace.as_bytes(), self.name.as_bytes(), state);
    }
}

/// Both forms hash alike, and different pairs feed the hasher differently: the length of one part
/// marks where the other begins.
#[inline]
fn hash_parts<H: Hasher>(namespace: &[u8], name: &[u8], state: &mut H) {
    state.write(namespace);
    state.write(name);
    state.write_usize(namespace.len());
}

impl PartialEq<KeyRef<'_>> for ObjectKey {
    fn eq(&self, other: &KeyRef<'_>) -> bool {
        self.key_ref() == *other
    }
}

impl From<KeyRef<'_>> for ObjectKey {
    fn from(key: KeyRef<'_>) -> Self {
        key.to_key()
    }
}

/// Folds bytes into a state: length last, so that `("a", "bc")` and `("ab", "c")` differ.
fn mix_bytes(mut state: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    fold(fold(state ^ u64::from_le_bytes(last)) ^ bytes.len() as u64)
}

/// The two halves of a product, folded: every bit of the input reaches every bit of the output.
fn fold(word: u64) -> u64 {
    let product = u128::from(word ^ 0xa076_1d64_78bd_642f) * 0xe703_7ed1_a0b4_28db_u128;
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[track_caller]
    fn check(text: &str, namespace: Option<&str>, name: &str) {
        let key: ObjectKey = text.parse().unwrap();
        assert_eq!((key.namespace(), key.name()), (namespace, name));
        assert_eq!(key, ObjectKey::new(namespace, name));
    }

    #[test]
    fn a_key_reads_as_namespace_and_name() {
        // client-go: TestSplitMetaNamespaceKey
        check("shop/cart", Some("shop"), "cart");
        check("cart", None, "cart");
        check("", None, "");
        check("/cart", None, "cart");
        check("shop/", Some("shop"), "");
    }

    #[test]
    fn more_than_one_slash_is_an_error() {
        let error = "a/b/c".parse::<ObjectKey>().unwrap_err();
        assert_eq!(error.to_string(), "unexpected key format: \"a/b/c\"");
    }

    #[test]
    fn cluster_objects_come_first_and_namespaces_sort_before_names() {
        let mut keys = ["b/a", "a-b/a", "z", "a/b", "a/a"].map(|t| t.parse::<ObjectKey>().unwrap());
        keys.sort();
        assert_eq!(
            keys.map(|k| k.to_string()),
            ["z", "a/a", "a/b", "a-b/a", "b/a"]
        );
    }

    #[test]
    fn hash64_spreads_neighbouring_names() {
        let mut low = HashSet::new();
        let mut all = HashSet::new();
        for i in 0..10_000 {
            let hash = KeyRef {
                namespace: "ns",
                name: &format!("pod-{i}"),
            }
            .hash64();
            all.insert(hash);
            low.insert(hash & 0xff_ffff);
        }
        assert_eq!(all.len(), 10_000);
        assert!(low.len() > 9_980, "{}", low.len());
    }

    proptest! {
        #[test]
        fn owned_and_borrowed_agree(ns in "[a-c]{0,2}", name in "[a-c/]{0,3}", ns2 in "[a-c]{0,2}", name2 in "[a-c/]{0,3}") {
            let (a, b) = (KeyRef { namespace: &ns, name: &name }, KeyRef { namespace: &ns2, name: &name2 });
            let (x, y) = (a.to_key(), b.to_key());
            prop_assert_eq!(x.key_ref(), a);
            prop_assert_eq!(a == b, x == y);
            prop_assert_eq!(a.cmp(&b), x.cmp(&y));
            prop_assert_eq!(a == b, a.hash64() == b.hash64());
            let state = std::hash::RandomState::new();
            prop_assert_eq!(state.hash_one(a), state.hash_one(&x));
            prop_assert_eq!(a.to_string(), x.as_str());
        }
    }
}
