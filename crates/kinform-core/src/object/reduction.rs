//! The reduced form of objects: their metadata and the fields that were declared, without the rest.
//!
//! ```text
//! object ──Reduction::reduce──▶ a twin of the same key and version, marked │ none, if it is no smaller
//! ```
//!
//! A reduced object is the same version of the same object. Its metadata can be read as before, but for
//! `managedFields`; whether a field is still there is asked of its reduction. It never decodes, since a value
//! without the rest of its fields would be a wrong one.
//!
//! Upstream counterpart: none. Complexity: a pass over the bytes, and a copy of what is left.

use kinform_api::{FieldPath, PathSegment};
use triomphe::ThinArc;

use super::projection::Projection;
use super::{Flags, Head, Object};

/// The fields that are left of reduced objects, besides their metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reduction {
    // INVARIANT: sorted, each once.
    kept: Vec<FieldPath>,
    projection: Projection,
}

/// The reduced objects of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reduced {
    /// The number of them.
    pub objects: usize,
    /// Their bytes uncompressed.
    pub bytes: usize,
}

impl Reduction {
    /// Keeps metadata, except for `managedFields`, and what is at these paths. Of an element of a list, it keeps
    /// that of every element: an element alone would be the first.
    #[must_use]
    pub fn keeping(paths: impl IntoIterator<Item = FieldPath>) -> Self {
        let mut kept: Vec<_> = paths.into_iter().map(of_each).collect();
        kept.sort_unstable();
        kept.dedup();
        let all = kept.iter().cloned().chain([metadata()]);
        Self {
            projection: Projection::new().keep_only(all),
            kept,
        }
    }

    /// Returns whether everything at this path is left of reduced objects.
    #[must_use]
    pub fn has(&self, path: &FieldPath) -> bool {
        if let [first, second, ..] = path.segments()
            && *first == metadata().segments()[0]
        {
            return *second != PathSegment::Field("managedFields".to_owned());
        }
        self.kept.iter().any(|kept| covers(kept, path))
    }

    /// The reduced twin of an object that is not compressed; `None` if it is reduced, or would not be smaller.
    #[must_use]
    pub fn reduce(&self, object: &Object) -> Option<Object> {
        // Without a version, only the content shows that it is the same state.
        if object.is_reduced() || object.resource_version().is_empty() {
            return None;
        }
        // What a projection left without its key stays as it is.
        let left = object.narrowed(&self.projection).ok()?;
        if left.byte_len() >= object.byte_len() {
            return None;
        }
        Some(left.marked())
    }
}

/// Returns whether two states have the same content, as far as both of them have it: `reduction` is that of
/// their store.
#[must_use]
pub fn agree(reduction: Option<&Reduction>, one: &Object, other: &Object) -> bool {
    if one.is_reduced() == other.is_reduced() {
        return one.same_content(other);
    }
    let (reduced, whole) = match one.is_reduced() {
        true => (one, other),
        false => (other, one),
    };
    let twin = reduction.and_then(|reduction| reduction.reduce(&whole.thawed()));
    twin.is_some_and(|twin| twin.same_content(reduced))
}

/// Returns whether all that is at `path` is at `kept`, too.
fn covers(kept: &FieldPath, path: &FieldPath) -> bool {
    let (kept, path) = (kept.segments(), path.segments());
    let is_within = |(kept, segment): (&PathSegment, &PathSegment)| {
        let is_element = matches!(segment, PathSegment::Index(_));
        kept == segment || (*kept == PathSegment::Each && is_element)
    };
    kept.len() <= path.len() && kept.iter().zip(path).all(is_within)
}

fn of_each(path: FieldPath) -> FieldPath {
    let segments = path.segments().iter().map(|segment| match segment {
        PathSegment::Index(_) => PathSegment::Each,
        other => other.clone(),
    });
    FieldPath::new(segments).unwrap_or(path)
}

fn metadata() -> FieldPath {
    let metadata = PathSegment::Field("metadata".to_owned());
    FieldPath::new([metadata]).expect("one segment is a path")
}

impl Object {
    /// Returns whether only its metadata and the fields of a [`Reduction`] are left.
    #[must_use]
    pub fn is_reduced(&self) -> bool {
        self.head().flags.has(Flags::REDUCED)
    }

    /// The same object, marked as reduced.
    pub(super) fn marked(&self) -> Self {
        let head = self.head();
        let flags = head.flags.with(Flags::PROJECTED, true);
        let head = Head {
            flags: flags.with(Flags::REDUCED, true),
            ..head.twin(None)
        };
        Self(ThinArc::from_header_and_slice(head, &self.0.slice))
    }
}

#[cfg(test)]
mod tests {
    use kinform_api::TypeMeta;
    use serde_json::Value;

    use super::*;
    use crate::object::typed::TypedCache;

    const POD: &str = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"x":"y"},"managedFields":[{"manager":"m"}]},"spec":{"nodeName":"one","containers":[{"name":"c","image":"i","args":["1","2"]}]},"status":{"phase":"Running"}}"#;

    fn path(text: &str) -> FieldPath {
        text.parse().unwrap()
    }

    fn reduction(paths: &[&str]) -> Reduction {
        Reduction::keeping(paths.iter().map(|text| path(text)))
    }

    fn pod() -> Object {
        Object::from_json(POD.as_bytes(), &Projection::new()).unwrap()
    }

    #[test]
    fn metadata_and_declared_fields_are_left() {
        let reduced = reduction(&["spec.nodeName", "spec.containers[*].image"]);
        let twin = reduced.reduce(&pod()).unwrap();
        let left = std::str::from_utf8(twin.bytes()).unwrap();
        assert_eq!(
            left,
            r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"x":"y"}},"spec":{"nodeName":"one","containers":[{"image":"i"}]}}"#
        );
        assert_eq!((twin.key(), twin.uid()), (pod().key(), "u"));
        assert_eq!(twin.revision(), Some(7));
        assert!(twin.is_reduced() && twin.is_projected() && !pod().is_reduced());
        assert!(reduced.reduce(&twin).is_none(), "it is reduced already");
    }

    #[test]
    fn an_object_without_other_fields_stays_as_it_is() {
        let reduced = reduction(&["spec", "status"]);
        assert!(reduced.reduce(&pod()).is_none());
    }

    #[test]
    fn a_path_is_there_if_all_of_it_is_kept() {
        let reduced = reduction(&["spec.nodeName", "spec.containers[*].image", "status"]);
        let table = [
            ("spec.nodeName", true),
            ("spec.nodeName.more", true),
            ("spec", false),
            ("spec.containers[*].image", true),
            ("spec.containers[0].image", true),
            ("spec.containers[0].name", false),
            ("spec.containers[*]", false),
            ("status.phase", true),
            ("metadata.labels.x", true),
            ("metadata.managedFields", false),
            ("metadata.managedFields[*].manager", false),
            ("metadata", false),
        ];
        for (text, expected) in table {
            assert_eq!(reduced.has(&path(text)), expected, "{text}");
        }
        let second = reduction(&["spec.containers[1].image"]);
        assert!(second.has(&path("spec.containers[1].image")));
        let twin = second.reduce(&pod()).unwrap();
        assert_eq!(twin.at(&path("spec.containers[0].image")), ["i"]);
    }

    #[test]
    fn a_reduced_object_does_not_decode() {
        let twin = reduction(&[]).reduce(&pod()).unwrap();
        let meta = TypeMeta {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
        };
        let error = twin.typed::<Value>(&meta, TypedCache::Always).unwrap_err();
        assert!(error.is_given_up(), "{error}");
        let whole = pod().typed::<Value>(&meta, TypedCache::Always).unwrap();
        assert_eq!(whole["spec"]["nodeName"], "one");
    }

    #[test]
    fn states_agree_as_far_as_both_are_there() {
        let reduced = reduction(&["spec.nodeName"]);
        let other = |from: &str, to: &str| {
            let json = POD.replace(from, to);
            Object::from_json(json.as_bytes(), &Projection::new()).unwrap()
        };
        let twin = reduced.reduce(&pod()).unwrap();
        let table = [
            (pod(), true),
            (other("Running", "Failed"), true),
            (other("\"one\"", "\"two\""), false),
        ];
        for (whole, expected) in table {
            assert_eq!(agree(Some(&reduced), &twin, &whole), expected, "{whole:?}");
            assert_eq!(agree(Some(&reduced), &whole, &twin), expected, "{whole:?}");
        }
        assert!(agree(Some(&reduced), &twin, &twin.clone()));
        assert!(!agree(Some(&reduced), &pod(), &other("Running", "Failed")));
    }
}
