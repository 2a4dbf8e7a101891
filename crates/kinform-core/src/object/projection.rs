//! Selects the fields kept of each object: the transform on bytes.
//!
//! ```text
//! checked JSON → Projection::apply → smaller JSON, if something went
//! ```
//!
//! Two informers are the same only if their projections are equal. `metadata.managedFields` goes
//! unless it is asked for; other paths stay unless they are dropped or others are kept only. An
//! object that lost something to a path [is projected](super::Object::is_projected).
//!
//! INVARIANT: recursion is as deep as the longest path, and never deeper than the checked bytes.
//! Upstream: `SharedInformer.SetTransform`, which decodes and mutates.

use kinform_api::{FieldPath, PathSegment};
use kinform_schema::Type;

use super::Object;
use super::prune_json::{self, Unmatched};
use super::prune_message;
use crate::wire::layout::ManagedFields;

/// The fields kept of each object. The default drops `metadata.managedFields` only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Projection {
    keeps_managed_fields: bool,
    drops: Vec<FieldPath>,
    keeps: Option<Vec<FieldPath>>,
}

impl Projection {
    /// Everything but `metadata.managedFields`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps `metadata.managedFields`, too.
    #[must_use]
    pub fn keep_managed_fields(mut self) -> Self {
        self.keeps_managed_fields = true;
        self
    }

    /// Drops what is at the path, in addition to what is dropped already.
    ///
    /// Key, uid and version stay known whatever is dropped.
    #[must_use]
    pub fn drop_path(mut self, path: FieldPath) -> Self {
        add(&mut self.drops, path);
        self
    }

    /// Keeps only what is at the paths and, always, `metadata.name`, `namespace`, `uid` and
    /// `resourceVersion`. Drops apply to what is kept; asked again, more is kept.
    #[must_use]
    pub fn keep_only(mut self, paths: impl IntoIterator<Item = FieldPath>) -> Self {
        let keeps = self.keeps.get_or_insert_default();
        for path in paths {
            add(keeps, path);
        }
        self
    }

    /// Returns whether objects keep all their fields, except for `metadata.managedFields`.
    #[must_use]
    pub fn keeps_all_else(&self) -> bool {
        self.drops.is_empty() && self.keeps.is_none()
    }

    /// Returns whether objects keep their owners: the uid of each, and which of them controls.
    #[must_use]
    pub fn keeps_owners(&self) -> bool {
        const OWNED: &[u8] =
            br#"{"metadata":{"name":"a","ownerReferences":[{"uid":"u","controller":true}]}}"#;
        let kept = Object::from_json(OWNED, self).map(|object| object.owner_references());
        kept.is_ok_and(|owners| owners.iter().any(|o| o.controller && o.uid == "u"))
    }

    pub(super) fn managed_fields(&self) -> ManagedFields {
        if self.keeps_managed_fields {
            ManagedFields::Keep
        } else {
            ManagedFields::Drop
        }
    }

    /// Returns the rest of a checked message; `None` if no field is dropped.
    pub(super) fn apply_message(&self, of: &'static Type, bytes: &[u8]) -> Option<Vec<u8>> {
        let kept = self.keeps.as_ref().and_then(|keeps| {
            let paths = keeps.iter().map(FieldPath::segments);
            let identity = identity_paths();
            let paths: Vec<_> = paths.chain(identity.iter().map(Vec::as_slice)).collect();
            prune_message::prune(of, bytes, &paths, Unmatched::Cut)
        });
        let paths: Vec<_> = self.drops.iter().map(FieldPath::segments).collect();
        let bytes = kept.as_deref().unwrap_or(bytes);
        prune_message::prune(of, bytes, &paths, Unmatched::Keep).or(kept)
    }

    /// Returns the rest of a checked object; `None` if no field is dropped.
    pub(super) fn apply(&self, json: &[u8]) -> Option<Vec<u8>> {
        let kept = self.keeps.as_ref().and_then(|keeps| {
            let paths = keeps.iter().map(FieldPath::segments);
            let identity = identity_paths();
            let paths: Vec<_> = paths.chain(identity.iter().map(Vec::as_slice)).collect();
            prune_json::prune(json, &paths, Unmatched::Cut)
        });
        let paths: Vec<_> = self.drops.iter().map(FieldPath::segments).collect();
        let json = kept.as_deref().unwrap_or(json);
        prune_json::prune(json, &paths, Unmatched::Keep).or(kept)
    }
}

/// Sorted and without repeats, so that equal projections are equal however they were made.
fn add(paths: &mut Vec<FieldPath>, path: FieldPath) {
    if let Err(at) = paths.binary_search(&path) {
        paths.insert(at, path);
    }
}

fn identity_paths() -> [Vec<PathSegment>; 4] {
    ["name", "namespace", "uid", "resourceVersion"].map(|name| {
        ["metadata", name]
            .map(|name| PathSegment::Field(name.to_owned()))
            .to_vec()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOO: &str = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"1","labels":{"x":"y"}},"spec":{"list":[{"p":1,"q":2},{"p":3},{"q":4}],"big":"..."},"status":{}}"#;

    fn path(text: &str) -> FieldPath {
        text.parse().unwrap()
    }

    #[test]
    fn owners_are_kept_whole_or_not() {
        let only = |path_of: &str| Projection::new().keep_only([path(path_of)]);
        let without = |path_of: &str| Projection::new().drop_path(path(path_of));
        let table = [
            (Projection::new(), true),
            (only("spec"), false),
            (only("metadata"), true),
            (only("metadata.ownerReferences"), true),
            (without("metadata.ownerReferences"), false),
            (without("metadata.labels"), true),
        ];
        for (projection, expected) in table {
            assert_eq!(projection.keeps_owners(), expected, "{projection:?}");
        }
    }

    fn check(projection: &Projection, expected: &str) {
        let object = Object::from_json(FOO.as_bytes(), projection).unwrap();
        assert_eq!(std::str::from_utf8(object.bytes()).unwrap(), expected);
        assert_eq!(object.is_projected(), expected != FOO);
        assert_eq!(object.key().as_str(), "n/a");
        assert_eq!((object.uid(), object.revision()), ("u", Some(1)));
    }

    #[test]
    fn dropped_paths_go_and_the_identity_stays_known() {
        check(&Projection::new().drop_path(path("nothing.here")), FOO);
        check(
            &Projection::new()
                .drop_path(path("spec.list[*].p"))
                .drop_path(path("status")),
            r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"1","labels":{"x":"y"}},"spec":{"list":[{"q":2},{},{"q":4}],"big":"..."}}"#,
        );
        check(
            &Projection::new()
                .drop_path(path("metadata"))
                .drop_path(path("spec.list[0]")),
            r#"{"spec":{"list":[{"p":3},{"q":4}],"big":"..."},"status":{}}"#,
        );
    }

    #[test]
    fn only_kept_paths_stay_beside_the_identity() {
        let identity = r#""name":"a","namespace":"n","uid":"u","resourceVersion":"1""#;
        check(
            &Projection::new().keep_only([]),
            &format!(r#"{{"metadata":{{{identity}}}}}"#),
        );
        check(
            &Projection::new()
                .keep_only([path("metadata.labels"), path("spec.list[*].p")])
                .drop_path(path("metadata.uid")),
            r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"1","labels":{"x":"y"}},"spec":{"list":[{"p":1},{"p":3},{}]}}"#,
        );
    }

    #[test]
    fn equal_projections_are_equal_however_they_were_made() {
        let one = Projection::new().drop_path(path("a")).drop_path(path("b"));
        assert_eq!(
            one,
            Projection::new()
                .drop_path(path("b"))
                .drop_path(path("a"))
                .drop_path(path("b"))
        );
        assert_ne!(one, Projection::new().drop_path(path("a")));
    }

    #[test]
    fn a_transform_changes_content_and_nothing_else() {
        let object = Object::from_json(FOO.as_bytes(), &Projection::new()).unwrap();
        let changed = object
            .with_payload(br#"{"metadata":{"name":"z","labels":{"k":"v"}},"spec":{}}"#)
            .unwrap();
        assert_eq!((changed.key(), changed.uid()), (object.key(), "u"));
        assert_eq!(changed.revision(), Some(1));
        assert_eq!(changed.label("k").as_deref(), Some("v"));
        assert!(changed.is_projected() && changed.bytes().ends_with(b"}"));
        let error = object.with_payload(b"{]").unwrap_err();
        assert_eq!(error.key, Some(object.key()));
    }
}
