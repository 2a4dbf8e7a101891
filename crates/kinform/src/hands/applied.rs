//! The applies of a term, so that none is sent that would change nothing, or take an owner its object.
//!
//! ```text
//! sent bytes + the object in the answer ──▶ Applied (digests) ◀──same bytes, same object── cached
//!                                            ├─▶ the cached object, no request
//!                  the cached object's controlling owner is another ─▶ an error, no request
//! ```
//!
//! One controller is one field manager. Its apply for a second owner would give up the reference to the
//! first, and the server would let it: only here is it known that the two are not one.
//! Only equal bytes count: an apply of fewer fields may still have fields to give up. An object is
//! the same if its uid, its generation (without one, its version), labels, annotations, owners and
//! finalizers are as they were answered: others change its status only.
//! Never: decides by a cache that lacks a write of this controller to the object.
//!
//! Upstream counterpart: none; server-side apply finds out on the server.
//! Complexity: O(bytes of the request and of the cached object).

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kinform_api::{GroupVersionResource, KeyRef, mutant};
use kube_core::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::owner::Owner;
use super::place::Place;
use crate::sync::lock;

/// BOUND: objects that are remembered, some 150 bytes each. The least recently used one is
/// forgotten.
const MAX_OBJECTS: usize = 65_536;

/// The caches of a controller, as an apply needs them.
pub(crate) trait Caches: Send + Sync {
    /// The whole object as JSON, if a cache has it, and lacks no write of this controller to it.
    fn whole(&self, resource: &GroupVersionResource, object: KeyRef<'_>) -> Option<Vec<u8>>;
    /// The controlling owner of the object, if a cache has it, and lacks no write of this controller
    /// to it.
    fn controller(
        &self,
        resource: &GroupVersionResource,
        object: KeyRef<'_>,
    ) -> Option<OwnerReference>;
    /// An apply was not sent.
    fn elided(&self);
}

/// The knowledge by which an apply finds out that it changes nothing, or that it must not be sent.
pub(crate) struct Memory {
    /// `None` if each apply is sent.
    pub(crate) applied: Option<Arc<Applied>>,
    pub(crate) caches: Box<dyn Caches>,
}

/// An apply that is about to be sent.
#[derive(Clone, Copy)]
pub(super) struct Sending {
    place: u128,
    bytes: u128,
}

impl Memory {
    /// This apply, if applies are remembered.
    pub(super) fn sending(
        &self,
        place: &Place,
        manager: &str,
        force: bool,
        body: &Value,
    ) -> Option<Sending> {
        self.applied.as_ref()?;
        Some(Sending::new(place, manager, force, &body.to_string()))
    }

    /// The object, if this apply was sent before and would change nothing. Otherwise forgets what
    /// was applied before.
    pub(super) fn elided<K>(&self, place: &Place, sending: Sending) -> Option<K>
    where
        K: Resource + DeserializeOwned,
    {
        let applied = self.applied.as_ref()?;
        let known = applied.take(sending)?;
        let (resource, key) = place.object();
        let cached = self.caches.whole(resource, key.key_ref())?;
        let object: K = serde_json::from_slice(&cached).ok()?;
        if state(object.meta())? != known && !mutant!("R7") {
            return None;
        }
        applied.put(sending, known);
        self.caches.elided();
        Some(object)
    }

    /// Remembers the object in the answer.
    pub(super) fn answered(&self, sending: Sending, meta: &ObjectMeta) {
        if let (Some(applied), Some(state)) = (&self.applied, state(meta)) {
            applied.put(sending, state);
        }
    }

    /// The controlling owner of the object, if that is another than `owner`.
    pub(super) fn other_controller(&self, place: &Place, owner: &Owner) -> Option<OwnerReference> {
        let (resource, key) = place.object();
        let known = self.caches.controller(resource, key.key_ref())?;
        (!owner.is_named_by(&known)).then_some(known)
    }
}

impl Sending {
    fn new(place: &Place, manager: &str, force: bool, body: &str) -> Self {
        Self {
            place: digest(&(place.to_string(), manager)),
            bytes: digest(&(force, body)),
        }
    }
}

/// The applies of a term.
#[derive(Default)]
pub(crate) struct Applied(Mutex<Known>);

#[derive(Default)]
struct Known {
    entries: HashMap<u128, Entry>,
    // INVARIANT: one for each entry.
    by_use: BTreeMap<u64, u128>,
    uses: u64,
}

/// An apply of a place.
struct Entry {
    bytes: u128,
    state: u128,
    used: u64,
}

impl Applied {
    /// The end of a term.
    pub(crate) fn clear(&self) {
        *lock(&self.0) = Known::default();
    }

    /// Takes the entry of a place out. Returns its state if the same bytes were sent.
    fn take(&self, sending: Sending) -> Option<u128> {
        let mut known = lock(&self.0);
        let entry = known.entries.remove(&sending.place)?;
        known.by_use.remove(&entry.used);
        (entry.bytes == sending.bytes).then_some(entry.state)
    }

    fn put(&self, sending: Sending, state: u128) {
        let mut known = lock(&self.0);
        known.uses += 1;
        let (used, place) = (known.uses, sending.place);
        let entry = Entry {
            bytes: sending.bytes,
            state,
            used,
        };
        if let Some(before) = known.entries.insert(place, entry) {
            known.by_use.remove(&before.used);
        }
        known.by_use.insert(used, place);
        if known.entries.len() > MAX_OBJECTS
            && let Some((_, oldest)) = known.by_use.pop_first()
        {
            known.entries.remove(&oldest);
        }
    }
}

/// The digest of what an apply can change of an object, except its status.
fn state(meta: &ObjectMeta) -> Option<u128> {
    let uid = meta.uid.as_ref()?;
    let version = match meta.generation {
        Some(_) => None,
        None => Some(meta.resource_version.as_ref()?),
    };
    let owned = (&meta.owner_references, &meta.finalizers);
    let named = (&meta.labels, &meta.annotations);
    let whole = (uid, meta.generation, version, named, owned);
    Some(digest(&serde_json::to_string(&whole).ok()?))
}

/// 128 bits of a value, the same for equal values in one process.
fn digest(value: &impl Hash) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        value.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sending(place: u128) -> Sending {
        Sending { place, bytes: 0 }
    }

    #[test]
    fn the_least_recently_used_object_is_forgotten_beyond_the_bound() {
        let applied = Applied::default();
        (0..MAX_OBJECTS as u128).for_each(|place| applied.put(sending(place), place));
        // Used again: then it is not the oldest.
        let first = applied.take(sending(0));
        applied.put(sending(0), first.expect("it is known"));
        applied.put(sending(u128::MAX), 7);
        assert_eq!(applied.take(sending(1)), None);
        assert_eq!(applied.take(sending(0)), Some(0));
        assert_eq!(applied.take(sending(0)), None, "it was taken out");
        let known = lock(&applied.0);
        assert_eq!(known.entries.len(), MAX_OBJECTS - 1);
        assert_eq!(known.by_use.len(), MAX_OBJECTS - 1);
    }

    #[test]
    fn a_state_is_of_uid_generation_or_version_and_metadata() {
        let meta = |json: &str| serde_json::from_str::<ObjectMeta>(json).unwrap();
        let with = |change: &str| state(&meta(&format!(r#"{{"uid": "u", {change}}}"#)));
        let base = with(r#""generation": 1, "resourceVersion": "7""#);
        assert!(base.is_some());
        assert_eq!(with(r#""generation": 1, "resourceVersion": "8""#), base);
        for other in [
            r#""generation": 2"#,
            r#""generation": 1, "labels": {"a": "b"}"#,
            r#""generation": 1, "annotations": {"a": "b"}"#,
            r#""generation": 1, "finalizers": ["a/b"]"#,
            r#""generation": 1, "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "o"}]"#,
            r#""resourceVersion": "7""#,
        ] {
            assert_ne!(with(other), base, "{other}");
        }
        assert_ne!(
            with(r#""resourceVersion": "7""#),
            with(r#""resourceVersion": "8""#)
        );
        assert_eq!(state(&meta(r#"{"generation": 1}"#)), None);
    }
}
