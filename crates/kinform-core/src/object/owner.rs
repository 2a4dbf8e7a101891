//! Owner references, read from the bytes of an object.
//!
//! ```text
//! bytes, position of the array → read → OwnerReference ...
//! ```
//!
//! What is no object is skipped, what is missing is empty: garbage collection is the server's
//! work, here they only lead from an object to its controller.
//!
//! Upstream: `apimachinery:pkg/apis/meta/v1` (`OwnerReference`, `GetControllerOf`).

use crate::wire::json::cursor;
use crate::wire::protobuf::fields::{self, Fields};
use crate::wire::protobuf::texts::utf8;

/// The owner of an object.
///
/// Upstream: `metav1.OwnerReference`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnerReference {
    /// Group and version of the owner, as written.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner, in the object's namespace or of the cluster.
    pub name: String,
    /// Uid of the owner.
    pub uid: String,
    /// Marks this owner as the one that manages the object.
    pub controller: bool,
    /// Makes the owner's foreground deletion wait for the object.
    pub block_owner_deletion: bool,
}

/// Reads the array at `at`.
pub(super) fn read(bytes: &[u8], at: usize) -> Vec<OwnerReference> {
    cursor::elements(bytes, at)
        .filter(|element| bytes.get(element.start) == Some(&b'{'))
        .map(|element| one(bytes, element.start))
        .collect()
}

/// Reads the entries of a message, one after the other.
pub(super) fn read_run(run: &[u8]) -> Vec<OwnerReference> {
    let one = |field: fields::Field<'_>| {
        let mut owner = OwnerReference::default();
        for field in Fields::of(field.value.bytes()?) {
            let text = || utf8(field.value.bytes().unwrap_or_default()).to_owned();
            match field.number {
                1 => owner.kind = text(),
                3 => owner.name = text(),
                4 => owner.uid = text(),
                5 => owner.api_version = text(),
                6 => owner.controller = field.value.varint() != Some(0),
                7 => owner.block_owner_deletion = field.value.varint() != Some(0),
                _ => {}
            }
        }
        Some(owner)
    };
    Fields::of(run).filter_map(one).collect()
}

fn one(bytes: &[u8], at: usize) -> OwnerReference {
    let mut owner = OwnerReference::default();
    for member in cursor::members(bytes, at) {
        let key = cursor::unescape(&bytes[member.key]);
        let truth = &bytes[member.value.clone()] == b"true";
        let text = cursor::string_in(bytes, member.value).map(cursor::unescape);
        let text = text.unwrap_or_default().into_owned();
        match &*key {
            "apiVersion" => owner.api_version = text,
            "kind" => owner.kind = text,
            "name" => owner.name = text,
            "uid" => owner.uid = text,
            "controller" => owner.controller = truth,
            "blockOwnerDeletion" => owner.block_owner_deletion = truth,
            _ => {}
        }
    }
    owner
}
