//! Compares a store with its server's state at the same version.
//!
//! ```text
//! root at version V + items of a list at exactly V → Audit → nothing | Divergence
//! ```
//!
//! A watch that lost an event leaves a store that looks well. Compared are key, uid and version, so
//! metadata is enough; the store is a root, so that it may go on meanwhile, and no second cache is
//! held. Objects in quarantine are known to differ and are left out.
//! Never panics, never changes what is stored: who asks decides what to do.
//!
//! Upstream counterpart: `client-go:util/consistencydetector`, which holds both lists, compares them
//! decoded, once after a streaming list, and panics. Complexity: O(items), a bit for each object.

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
    /// Objects that are stored and that the server has not.
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
            found: Divergence::default(),
            has_nameless: false,
        }
    }

    /// An item of the server's list.
    pub fn item(&mut self, item: Result<&Object, &Unreadable>) {
        let key = match item {
            Ok(object) => object.key(),
            Err(Unreadable { key: Some(key), .. }) => key.clone(),
            Err(_) => {
                self.has_nameless = true;
                return;
            }
        };
        let is_known = item.is_err() || self.edit.quarantined().contains_key(&key);
        let stored = self.edit.mark(key.key_ref(), &mut self.seen);
        match (stored, item) {
            _ if is_known => return,
            (None, _) => self.found.missing += 1,
            (Some(stored), Ok(object)) if !same_version(stored.object, object) => {
                self.found.different += 1;
            }
            _ => return,
        }
        self.found.example.get_or_insert(key);
    }

    /// The list has ended: the difference, if there is one.
    #[must_use]
    pub fn finish(mut self) -> Option<Divergence> {
        if !self.has_nameless && !mutant!("K1") {
            let mut extra = self.edit.sweep(&self.seen);
            extra.retain(|object| !self.edit.quarantined().contains_key(&object.key()));
            self.found.extra = extra.len();
            if let (None, Some(object)) = (&self.found.example, extra.first()) {
                self.found.example = Some(object.key());
            }
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
