//! The versions of a definition between which a webhook converts, and the version of a stored object.
//!
//! ```text
//! object of a version ──mark──▶ stored object that tells its version ──unmark──▶ version + object
//! ```
//!
//! An object stays in the version in which it was written, also when the definition names another
//! one for storage. Objects of the first stored version have no mark: most definitions never have
//! another one.
//!
//! Upstream: `apiVersion` of objects in etcd; `apiextensions-apiserver:pkg/apiserver/conversion`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ResourceInfo, Shape};
use crate::object::text;

/// The member of a stored object that names its version. No schema declares it, and no reader sees it.
const MARK: &str = "kinform.dev/stored-version";

/// A conversion webhook, as its definition describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Conversion {
    /// The client configuration: a URL or a service, and the authority's bundle.
    pub(crate) client: Value,
    /// The version of its reviews.
    pub(crate) review: String,
    /// The schemas of all versions.
    pub(crate) schemas: BTreeMap<String, Value>,
}

/// The versions in which the objects of a definition are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredVersions {
    /// The version in which objects are written.
    pub(crate) now: String,
    /// The version of objects without a mark: the first of `status.storedVersions`.
    pub(crate) first: String,
    /// Set if all objects are stored in the version in which they are written.
    pub(crate) is_only: bool,
}

impl StoredVersions {
    /// Marks an object that is stored in this version.
    pub(crate) fn mark(&self, version: &str, object: &mut Value) {
        if version == self.first {
            return;
        }
        if let Some(members) = object.as_object_mut() {
            members.insert(MARK.to_owned(), Value::from(version));
        }
    }

    /// Takes the mark of a stored object. Returns the object's version.
    pub(crate) fn unmark(&self, object: &mut Value) -> String {
        let marked = object.as_object_mut().and_then(|of| of.remove(MARK));
        match marked {
            Some(Value::String(version)) => version,
            _ => self.first.clone(),
        }
    }

    /// Returns the version of a stored object.
    pub(crate) fn of<'a>(&'a self, object: &'a Value) -> &'a str {
        match text(object, &[MARK]) {
            "" => &self.first,
            version => version,
        }
    }
}

impl ResourceInfo {
    /// Returns the webhook that converts objects of this resource between versions, and the versions
    /// in which they are stored.
    pub(crate) fn conversion(&self) -> Option<(&Conversion, &StoredVersions)> {
        match &self.shape {
            Shape::Custom(custom) => Some((custom.conversion.as_deref()?, &custom.stored)),
            Shape::Builtin(_) => None,
        }
    }

    /// Returns whether a webhook is called to show some of the stored objects.
    pub(crate) fn is_converted(&self) -> bool {
        let of = self.conversion();
        of.is_some_and(|(_, stored)| !stored.is_only || stored.now != self.version)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stored_object_tells_its_version() {
        let stored = StoredVersions {
            now: "v2".to_owned(),
            first: "v1".to_owned(),
            is_only: false,
        };
        for (version, is_marked) in [("v1", false), ("v2", true)] {
            let mut object = json!({"spec": {}});
            stored.mark(version, &mut object);
            assert_eq!(object.get(MARK).is_some(), is_marked);
            assert_eq!(stored.of(&object), version);
            assert_eq!(stored.unmark(&mut object), version);
            assert_eq!(object, json!({"spec": {}}));
        }
    }
}
