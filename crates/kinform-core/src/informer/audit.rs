//! Compares a store with its server's state at the same version.
//!
//! ```text
//! root at version V + items of a list at exactly V → Audit → nothing | Divergence
//! ```
//!
//! A watch that lost an event leaves a store that looks well. Compared are key, uid and version, so
//! metadata is enough; the store is a root, so that it may go on meanwhile, and no second cache is
//! held. An object in quarantine is known to differ, and is left out while the server has the
//! version that could not be read. If it has another one, or no such object, an event was lost.
//! Never panics, never changes what is stored: who asks decides what to do.
//!
//! Upstream counterpart: `client-go:util/consistencydetector`, which holds both lists, compares them
//! decoded, once after a streaming list, and panics. Complexity: O(items), a bit for each object.

use std::collections::BTreeSet;

use kinform_api::{ObjectKey, mutant};

use crate::object::Object;
use crate::store::diff::same_version;
use crate::store::edit::{Edit, Seen};
use crate::store::root::Root;
use crate::wire::unreadable::Unreadable;

/// A comparison under way.
#[derive(Debug)]
pub struct Audit {
    edit: Edit,
    seen: Seen,
    /// Keys in quarantine that the server has not named yet.
    unnamed: BTreeSet<ObjectKey>,
    found: Divergence,
    /// An item may be anyone's.
    has_nameless: bool,
}

/// The differences between a store and its server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Divergence {
    /// Objects that the server has and the store has not.
    pub missing: usize,
    /// Objects whose uid or version is another one.
    pub different: usize,
    /// Objects that are stored or in quarantine and that the server has not.
    pub extra: usize,
    /// One of them.
    pub example: Option<ObjectKey>,
}

impl Audit {
    /// A comparison with this root.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        Self {
            edit: Edit::new(root),
            seen: Seen::default(),
            unnamed: root.quarantined().keys().cloned().collect(),
            found: Divergence::default(),
            has_nameless: false,
        }
    }

    /// An item of the server's list.
    pub fn item(&mut self, item: Result<&Object, &Unreadable>) {
        let (key, object) = match item {
            Ok(object) => (object.key(), Some(object)),
            Err(Unreadable { key: Some(key), .. }) => (key.clone(), None),
            Err(_) => {
                self.has_nameless = true;
                return;
            }
        };
        self.unnamed.remove(&key);
        let is_known = object.is_none_or(|object| self.is_apart(&key, object));
        let stored = self.edit.mark(key.key_ref(), &mut self.seen);
        match (stored, object) {
            (Some(stored), Some(object)) if same_version(stored.object, object) => return,
            _ if is_known => return,
            (None, _) => self.found.missing += 1,
            (Some(_), _) => self.found.different += 1,
        }
        self.found.example.get_or_insert(key);
    }

    /// Returns whether this is the object that is in quarantine, as far as that can be said.
    fn is_apart(&self, key: &ObjectKey, object: &Object) -> bool {
        let Some(apart) = self.edit.quarantined().get(key) else {
            return false;
        };
        let version = apart.version.as_deref();
        mutant!("K27") || version.is_none_or(|version| version == object.resource_version())
    }

    /// The list has ended: the difference, if there is one.
    #[must_use]
    pub fn finish(mut self) -> Option<Divergence> {
        if !self.has_nameless && !mutant!("K1") {
            let extra = self.edit.sweep(&self.seen);
            let mut apart = self.unnamed;
            for object in extra
                .iter()
                .take_while(|_| !self.edit.quarantined().is_empty())
            {
                apart.remove(&object.key());
            }
            self.found.extra = extra.len() + apart.len();
            let first = extra.first().map(Object::key);
            let first = first.or_else(|| apart.pop_first());
            self.found.example = self.found.example.or(first);
        }
        let Divergence {
            missing,
            different,
            extra,
            ..
        } = self.found;
        (missing + different + extra > 0).then_some(self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::{Quarantine, QuarantineOrigin};
    use crate::object::projection::Projection;
    use crate::store::directory::Seed;

    fn object(name: &str, uid: &str, version: u64) -> Object {
        let body = format!(
            r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        Object::from_json(body.as_bytes(), &Projection::default()).unwrap()
    }

    fn stored() -> Root {
        let mut edit = Edit::new(&Root::empty(Seed(7)));
        for name in ["a", "b", "c"] {
            edit.insert(object(name, name, 1));
        }
        edit.commit(0)
    }

    fn audit(items: &[Object]) -> Option<Divergence> {
        let mut audit = Audit::new(&stored());
        items.iter().for_each(|item| audit.item(Ok(item)));
        audit.finish()
    }

    #[test]
    fn k1_a_store_is_compared_by_key_uid_and_version() {
        // client-go: TestDataConsistencyChecker
        let [a, b, c] = ["a", "b", "c"].map(|name| object(name, name, 1));
        let check = |items: &[&Object], expected: Option<(usize, usize, usize, &str)>| {
            let items: Vec<Object> = items.iter().copied().cloned().collect();
            let expected = expected.map(|(missing, different, extra, name)| Divergence {
                missing,
                different,
                extra,
                example: Some(ObjectKey::new(None, name)),
            });
            assert_eq!(audit(&items), expected, "{items:?}");
        };
        check(&[&a, &b, &c], None);
        check(&[&c, &a, &b, &b], None);
        check(&[&a, &b], Some((0, 0, 1, "c")));
        check(&[&a, &b, &object("c", "c", 2)], Some((0, 1, 0, "c")));
        check(&[&a, &b, &object("c", "d", 1)], Some((0, 1, 0, "c")));
        check(&[&a, &b, &c, &object("d", "d", 1)], Some((1, 0, 0, "d")));
        check(&[&object("d", "d", 1), &a, &b], Some((1, 0, 1, "d")));
    }

    #[test]
    fn k27_an_object_in_quarantine_is_known_to_differ_at_that_version_only() {
        let version = |version: Option<&str>| Quarantine {
            key: None,
            version: version.map(str::to_owned),
            path: String::new(),
            reason: String::new(),
            origin: QuarantineOrigin::Watch,
        };
        let mut edit = Edit::new(&stored());
        // A new state of a, and two objects of which no state could be read.
        let apart = [("a", Some("5")), ("d", Some("6")), ("e", None)];
        for (name, unread) in apart {
            let key = ObjectKey::new(None, name);
            edit.quarantined_mut().insert(key, version(unread));
        }
        let root = edit.commit(0);
        let check = |items: [Option<(&str, u64)>; 3], expected: Option<(usize, usize, usize)>| {
            let mut audit = Audit::new(&root);
            let rest = [("b", 1), ("c", 1)];
            for (name, version) in items.into_iter().flatten().chain(rest) {
                audit.item(Ok(&object(name, name, version)));
            }
            let found = audit.finish();
            let found = found.map(|found| (found.missing, found.different, found.extra));
            assert_eq!(found, expected, "{items:?}");
        };
        let [a, d, e] = [Some(("a", 5)), Some(("d", 6)), Some(("e", 9))];
        check([a, d, e], None);
        check([Some(("a", 7)), d, e], Some((0, 1, 0)));
        check([a, Some(("d", 7)), e], Some((1, 0, 0)));
        check([None, d, e], Some((0, 0, 1)));
        check([a, None, None], Some((0, 0, 2)));
        check([None, None, None], Some((0, 0, 3)));
    }

    #[test]
    fn what_cannot_be_read_is_no_difference() {
        let mut audit = Audit::new(&stored());
        let unreadable = |key: Option<&str>| Unreadable {
            key: key.map(|name| ObjectKey::new(None, name)),
            resource_version: None,
            path: String::new(),
            reason: String::new(),
        };
        audit.item(Ok(&object("a", "a", 1)));
        audit.item(Err(&unreadable(Some("b"))));
        audit.item(Err(&unreadable(None)));
        assert_eq!(audit.finish(), None, "the one without a name may be c");
    }
}
