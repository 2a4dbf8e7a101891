//! The part of a resource that a store keeps: objects whose hash is in some ranges.
//!
//! ```text
//! object → namespace | uid | uid of the controlling owner → hash → in the ranges, or not
//! ```
//!
//! A root names the scope that it has whole. Of two roots, an object that is missing in the newer one
//! and is outside of its scope has left, which is no deletion.
//!
//! A namespace and a uid are an object's own for as long as it lives; an owner may change.
//!
//! Upstream counterpart: none; the hash is that of `apimachinery:pkg/sharding`.
//! Complexity: a question is O(length of the hashed text + log ranges); for owners, their references are
//! read, and a cold object is inflated.

use std::fmt;
use std::sync::Arc;

use kinform_api::KeyRef;

use crate::object::Object;
use crate::shards::{Ranges, ShardField, key_hash, selector};

/// The text of an object whose hash decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScopeField {
    /// Its namespace; empty for a resource of the cluster.
    Namespace,
    /// Its uid.
    Uid,
    /// The uid of its controlling owner. An object without one is in no scope.
    OwnerUid,
}

/// Objects whose hash is in these ranges.
#[derive(Clone, PartialEq, Eq)]
pub struct Scope {
    field: ScopeField,
    ranges: Ranges,
}

impl Scope {
    /// The objects with a hash of `field` in `ranges`.
    #[must_use]
    pub const fn new(field: ScopeField, ranges: Ranges) -> Self {
        Self { field, ranges }
    }

    /// The text that is hashed.
    #[must_use]
    pub const fn field(&self) -> ScopeField {
        self.field
    }

    /// The ranges of its hashes.
    #[must_use]
    pub const fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// Returns whether no object is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns whether an object is in it.
    #[must_use]
    pub fn has(&self, object: &Object) -> bool {
        match self.field {
            ScopeField::Namespace => self.has_text(object.namespace().unwrap_or_default()),
            ScopeField::Uid => self.has_text(object.uid()),
            ScopeField::OwnerUid => {
                // Reading a cold object in place would keep what is inflated.
                let owners = object.thawed().owner_references();
                let owner = owners.iter().find(|owner| owner.controller);
                owner.is_some_and(|owner| self.has_text(&owner.uid))
            }
        }
    }

    /// Returns whether an object of this key could be in it.
    #[must_use]
    pub fn may_have(&self, key: KeyRef<'_>) -> bool {
        match self.field {
            ScopeField::Namespace => self.has_text(key.namespace),
            ScopeField::Uid | ScopeField::OwnerUid => !self.is_empty(),
        }
    }

    fn has_text(&self, text: &str) -> bool {
        self.ranges.contains(key_hash(text))
    }

    /// The selector that has a server send these objects only. Returns `None` if it is to send all:
    /// for owners, whose hashes no server knows, and where the text would be too long.
    #[must_use]
    pub fn selector(&self) -> Option<String> {
        let field = match self.field {
            ScopeField::Namespace => ShardField::Namespace,
            ScopeField::Uid => ShardField::Uid,
            ScopeField::OwnerUid => return None,
        };
        selector(field, &self.ranges)
    }

    /// Returns whether everything in it is in another one of the same field, too.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.ranges.difference(&other.ranges).is_empty()
    }

    /// The part of it that is in `ranges`, too.
    #[must_use]
    pub fn within(&self, ranges: &Ranges) -> Self {
        let outside = self.ranges.difference(ranges);
        Self::new(self.field, self.ranges.difference(&outside))
    }
}

/// Returns whether a root of this scope would have this object, if the server has it.
pub(crate) fn covers(scope: Option<&Arc<Scope>>, object: &Object) -> bool {
    scope.is_none_or(|scope| scope.has(object))
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in {:?}", self.field, self.ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::projection::Projection;
    use crate::shards::ShardRange;

    fn object(json: &str) -> Object {
        Object::from_json(json.as_bytes(), &Projection::default()).unwrap()
    }

    fn only(field: ScopeField, text: &str) -> Scope {
        let hash = key_hash(text);
        let range = ShardRange::new(hash, u128::from(hash) + 1).unwrap();
        Scope::new(field, range.into())
    }

    #[test]
    fn an_object_is_in_a_scope_by_namespace_uid_or_controlling_owner() {
        let owned = object(
            r#"{"metadata":{"name":"a","namespace":"n","uid":"u","ownerReferences":[
                {"uid":"other"},{"uid":"owner","controller":true}]}}"#,
        );
        let plain = object(r#"{"metadata":{"name":"b","uid":"v"}}"#);
        let table = [
            (ScopeField::Namespace, "n", true, false),
            (ScopeField::Namespace, "", false, true),
            (ScopeField::Uid, "u", true, false),
            (ScopeField::Uid, "v", false, true),
            (ScopeField::OwnerUid, "owner", true, false),
            (ScopeField::OwnerUid, "other", false, false),
            (ScopeField::OwnerUid, "", false, false),
        ];
        for (field, text, has_owned, has_plain) in table {
            let scope = only(field, text);
            let found = (scope.has(&owned), scope.has(&plain));
            assert_eq!(found, (has_owned, has_plain), "{field:?} {text:?}");
            if found.0 {
                assert!(scope.may_have(owned.key_ref()), "{field:?}");
            }
            assert!(!Scope::new(field, Ranges::none()).may_have(owned.key_ref()));
        }
        assert!(!only(ScopeField::Namespace, "m").may_have(owned.key_ref()));
    }

    #[test]
    fn a_server_is_asked_for_namespaces_and_uids_and_never_for_owners() {
        for (field, path) in [
            (ScopeField::Namespace, Some("object.metadata.namespace")),
            (ScopeField::Uid, Some("object.metadata.uid")),
            (ScopeField::OwnerUid, None),
        ] {
            let text = only(field, "x").selector();
            assert_eq!(text.is_some(), path.is_some(), "{field:?}");
            assert!(text.is_none_or(|text| text.contains(path.unwrap())));
            assert_eq!(Scope::new(field, Ranges::all()).selector(), None);
        }
    }
}
