//! Compares a store with its server's state at the same version.
//!
//! ```text
//! root at version V + items of a list at exactly V → Audit → nothing | Divergence
//! ```
//!
//! A watch that lost an event leaves a store that looks well. Compared are key, uid and version, so
//! metadata is enough; the store is a root, so that it may go on meanwhile, and no second cache is
//! held. An object in quarantine is known to differ, and is left out while the server has the
//! version that could not be read. If the server has another version of it, or no such object, an
//! event was lost. Where that version is not known, and of two objects of one name, nothing can be
//! said, and they are left out.
//! Never panics, never changes what is stored: who asks decides what to do.
//!
//! Upstream counterpart: `client-go:util/consistencydetector`, which holds both lists, compares them
//! decoded, once after a streaming list, and panics. Complexity: O(items), a bit for each object.

use std::collections::{BTreeMap, BTreeSet};

use kinform_api::{ObjectKey, mutant};

use crate::delta::{Quarantine, QuarantineOrigin};
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
    /// Keys in quarantine whose version is known, and that the server has not named so far.
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
            unnamed: named_at_a_version(root.quarantined()),
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
        let apart = self.edit.quarantined().get(key);
        apart.is_some_and(|apart| {
            let version = version_apart(apart);
            mutant!("K27") || version.is_none_or(|version| version == object.resource_version())
        })
    }

    /// The list has ended: the difference, if there is one.
    #[must_use]
    pub fn finish(mut self) -> Option<Divergence> {
        if !self.has_nameless && !mutant!("K1") {
            let (mut apart, edit) = (self.unnamed, &mut self.edit);
            // What is stored under such a key is found with the others.
            apart.retain(|key| edit.get(key.key_ref()).is_none());
            let extra = edit.sweep(&self.seen);
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

/// The version that could not be read; `None` where an audit cannot judge: it is not known, or the
/// list had another object of this name.
fn version_apart(apart: &Quarantine) -> Option<&str> {
    match apart.origin {
        QuarantineOrigin::Duplicate => None,
        _ => apart.version.as_deref(),
    }
}

fn named_at_a_version(quarantined: &BTreeMap<ObjectKey, Quarantine>) -> BTreeSet<ObjectKey> {
    let known = quarantined.iter();
    let known = known.filter(|(_, apart)| version_apart(apart).is_some());
    known.map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn apart(name: &str, version: Option<&str>, origin: QuarantineOrigin) -> Quarantine {
        Quarantine {
            key: Some(ObjectKey::new(None, name)),
            version: version.map(str::to_owned),
            path: String::new(),
            reason: String::new(),
            origin,
        }
    }

    fn with_quarantine(rows: &[Quarantine]) -> Root {
        let mut edit = Edit::new(&stored());
        for row in rows {
            let key = row.key.clone().unwrap();
            edit.quarantined_mut().insert(key, row.clone());
        }
        edit.commit(0)
    }

    #[test]
    fn k27_an_object_in_quarantine_is_known_to_differ_at_that_version_only() {
        // A new state of a, and two objects of which no state could be read.
        let root = with_quarantine(&[
            apart("a", Some("5"), QuarantineOrigin::Watch),
            apart("d", Some("6"), QuarantineOrigin::List),
            apart("e", None, QuarantineOrigin::Watch),
        ]);
        let check = |items: [Option<(&str, u64)>; 3],
                     expected: Option<(usize, usize, usize, &str)>| {
            let mut audit = Audit::new(&root);
            let rest = [("b", 1), ("c", 1)];
            for (name, version) in items.into_iter().flatten().chain(rest) {
                audit.item(Ok(&object(name, name, version)));
            }
            let expected = expected.map(|(missing, different, extra, name)| Divergence {
                missing,
                different,
                extra,
                example: Some(ObjectKey::new(None, name)),
            });
            assert_eq!(audit.finish(), expected, "{items:?}");
        };
        let [a, d, e] = [Some(("a", 5)), Some(("d", 6)), Some(("e", 9))];
        check([a, d, e], None);
        check([Some(("a", 7)), d, e], Some((0, 1, 0, "a")));
        check([a, Some(("d", 7)), e], Some((1, 0, 0, "d")));
        check([None, d, e], Some((0, 0, 1, "a")));
        check([a, None, e], Some((0, 0, 1, "d")));
        check([a, d, None], None);
        check([None, None, None], Some((0, 0, 2, "a")));
    }

    #[test]
    fn of_two_objects_of_one_name_neither_is_a_difference() {
        let root = with_quarantine(&[apart("a", Some("2"), QuarantineOrigin::Duplicate)]);
        let mut audit = Audit::new(&root);
        // A third one, whose version was not kept.
        for (uid, version) in [("a", 1), ("x", 2), ("y", 3)] {
            audit.item(Ok(&object("a", uid, version)));
        }
        audit.item(Ok(&object("b", "b", 1)));
        audit.item(Ok(&object("c", "c", 1)));
        assert_eq!(audit.finish(), None);
    }

    #[test]
    fn what_cannot_be_read_is_no_difference() {
        let root = with_quarantine(&[
            apart("b", Some("5"), QuarantineOrigin::Watch),
            apart("d", Some("6"), QuarantineOrigin::Watch),
        ]);
        let mut audit = Audit::new(&root);
        let unreadable = |key: Option<&str>| Unreadable {
            key: key.map(|name| ObjectKey::new(None, name)),
            resource_version: None,
            path: String::new(),
            reason: String::new(),
        };
        audit.item(Ok(&object("a", "a", 1)));
        audit.item(Err(&unreadable(Some("b"))));
        audit.item(Err(&unreadable(None)));
        assert_eq!(audit.finish(), None, "those without a name may be c and d");
    }
}
