//! The last writes of a term, left on the lease when it is released.
//!
//! ```text
//! LastWrites ──release──▶ annotation {transitions, released, writes} ──take──▶ Inherited
//! ```
//!
//! A successor waits for these versions before its first reconcile. The annotation counts only for
//! the record that it was written with: client-go keeps annotations of others when it takes, renews
//! and releases a lease. So it states `leaseTransitions` and `renewTime` of the release, and any
//! later record differs. The next take by this crate removes it.
//!
//! Upstream counterpart: none.

use std::collections::BTreeMap;

use kinform::controller::LastWrites;
use kinform::{GroupResource, ResourceVersion};
use kinform_api::mutant;
use kinform_core::election::Record;
use serde::{Deserialize, Serialize};

/// The name of the annotation.
pub(crate) const ANNOTATION: &str = "kinform.dev/last-writes";

/// BOUND: resources in an annotation; with more, the successor asks for each.
const MAX_RESOURCES: usize = 32;
/// BOUND: bytes of an annotation.
const MAX_BYTES: usize = 2 << 10;

/// The knowledge of a term about the writes of the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Inherited {
    /// The term before crashed, was lost, or told nothing.
    #[default]
    Unknown,
    /// It was released, and told its last writes.
    Told(LastWrites),
}

/// The annotation as JSON.
#[derive(Deserialize, Serialize)]
struct Written {
    transitions: i32,
    /// `renewTime` of the released record.
    released: String,
    /// By resource: the last version, or null if that is not known. `None`: there are too many.
    #[serde(default)]
    writes: Option<BTreeMap<String, Option<String>>>,
}

/// The annotation of a release.
pub(super) fn annotation(last: &LastWrites, transitions: i32, renew_time: &str) -> String {
    let text = |(resource, version): (&GroupResource, Option<&ResourceVersion>)| {
        (resource.to_string(), version.map(ToString::to_string))
    };
    let mut written = Written {
        transitions,
        released: renew_time.to_owned(),
        writes: (last.len() <= MAX_RESOURCES).then(|| last.iter().map(text).collect()),
    };
    let json = |written: &Written| serde_json::to_string(written).unwrap_or_default();
    let whole = json(&written);
    if whole.len() <= MAX_BYTES {
        return whole;
    }
    written.writes = None;
    json(&written)
}

/// The last writes of the term before a record was taken, by the annotation that was beside it.
pub(super) fn inherited(record: &Record, annotation: Option<&str>) -> Inherited {
    let written = annotation
        .filter(|text| text.len() <= MAX_BYTES)
        .and_then(|text| serde_json::from_str::<Written>(text).ok());
    let is_of_record = |written: &Written| {
        let is_same = record.holder.is_empty()
            && written.transitions == record.transitions
            && written.released == record.renew_time;
        is_same || mutant!("R5")
    };
    let Some(writes) = written.filter(is_of_record).and_then(|w| w.writes) else {
        return Inherited::Unknown;
    };
    let mut last = LastWrites::default();
    for (resource, version) in writes.into_iter().take(MAX_RESOURCES) {
        // A resource has no dot in its own name.
        let (resource, group) = resource.split_once('.').unwrap_or((&resource, ""));
        let version = version.map(ResourceVersion::from);
        last.add(&GroupResource::new(group, resource), version.as_ref());
    }
    Inherited::Told(last)
}

/// The annotation of a lease that is written by this crate alone, and replaced as a whole.
pub(crate) fn told(last: &LastWrites) -> String {
    annotation(last, 0, "")
}

/// The last writes of the owner before, by the annotation of a lease without one.
pub(crate) fn left(annotation: Option<&str>) -> Inherited {
    inherited(&Record::default(), annotation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(all: &[(&str, &str, Option<&str>)]) -> LastWrites {
        let mut last = LastWrites::default();
        for &(group, resource, version) in all {
            let version = version.map(ResourceVersion::from);
            last.add(&GroupResource::new(group, resource), version.as_ref());
        }
        last
    }

    fn released(transitions: i32, renew_time: &str) -> Record {
        Record {
            transitions,
            renew_time: renew_time.to_owned(),
            ..Record::default()
        }
    }

    #[test]
    fn last_writes_survive_the_way_to_a_successor() {
        let last = writes(&[
            ("", "pods", Some("7")),
            ("apps", "deployments", Some("12")),
            ("a.example.com", "foos", None),
        ]);
        let text = annotation(&last, 3, "t");
        let expected = r#"{"transitions":3,"released":"t","writes":{"deployments.apps":"12","foos.a.example.com":null,"pods":"7"}}"#;
        assert_eq!(text, expected);
        let told = inherited(&released(3, "t"), Some(&text));
        assert_eq!(told, Inherited::Told(last));
    }

    #[test]
    fn r5_last_writes_of_an_older_release_are_not_believed() {
        let text = annotation(&LastWrites::default(), 3, "t");
        // client-go keeps annotations: of a leader after us that crashed, or that released.
        let mut held = released(3, "t");
        held.holder = "go".to_owned();
        for record in [held, released(4, "t"), released(3, "u")] {
            assert_eq!(inherited(&record, Some(&text)), Inherited::Unknown);
        }
        for text in [None, Some(""), Some("[]"), Some(r#"{"transitions":3}"#)] {
            assert_eq!(inherited(&released(3, "t"), text), Inherited::Unknown);
        }
    }

    #[test]
    fn too_many_resources_or_bytes_make_the_successor_ask() {
        let record = released(3, "t");
        for (count, name_bytes, is_told) in [(32, 20, true), (33, 20, false), (32, 60, false)] {
            let mut last = LastWrites::default();
            for number in 0..count {
                let resource = format!("{number:0name_bytes$}");
                last.add(&GroupResource::new("g", resource), Some(&"1".into()));
            }
            let text = annotation(&last, 3, "t");
            assert!(text.len() <= MAX_BYTES, "{}", text.len());
            let found = inherited(&record, Some(&text));
            assert_eq!(found != Inherited::Unknown, is_told, "{count} {name_bytes}");
        }
    }
}
