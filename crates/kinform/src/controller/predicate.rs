//! Conditions on events, by which a controller hears only some of its primary resource.
//!
//! ```text
//! event (old, new: stored bytes) → Predicate → yes | no | no opinion (passes)
//! ```
//!
//! Nothing is decoded. A *changed* predicate decides about updates only: it has no opinion about
//! adds, deletes and resyncs, which therefore pass, also if it is negated. One about objects
//! ([`matching`]) accepts an update if the old or the new state matches, so an object that leaves
//! the set is heard once more.
//!
//! Upstream counterpart: `controller-runtime:pkg/predicate`, where a negated predicate hides every
//! delete, resyncs are hidden, and an object that leaves the set is silent.

use std::fmt;
use std::sync::{Arc, LazyLock};

use kinform_api::FieldPath;
use kinform_api::selector::LabelSelector;
use kinform_core::object::Object;

/// A condition on events.
#[derive(Clone)]
pub struct Predicate(Node);

#[derive(Clone)]
enum Node {
    Changed(&'static str, fn(&Object, &Object) -> bool),
    Matching(Reads, Arc<dyn Fn(&Object) -> bool + Send + Sync>),
    Both(Arc<(Self, Self)>),
    Either(Arc<(Self, Self)>),
    Not(Arc<Self>),
}

/// The part of an object that a function reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Metadata,
    Anything,
}

/// An event, as a predicate sees it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    /// Added, deleted or resynced.
    Whole(&'a Object),
    Updated {
        old: &'a Object,
        new: &'a Object,
    },
}

/// The generation changed, or deletion was requested: not a change of status, labels, annotations
/// or finalizers.
///
/// The server raises the generation of custom resources, and of built-in kinds that have one, when
/// `spec` changes. An object without a generation (ConfigMap, Secret, Node) passes: its events do
/// not show whether its content changed.
#[doc(alias = "GenerationChangedPredicate")]
#[must_use]
pub fn generation_changed() -> Predicate {
    static GENERATION: LazyLock<FieldPath> = LazyLock::new(|| path("metadata.generation"));
    Predicate(Node::Changed("generation_changed", |old, new| {
        let known = new.at(&GENERATION);
        known.is_empty()
            || known != old.at(&GENERATION)
            || old.is_terminating() != new.is_terminating()
    }))
}

/// A label was added, removed or changed.
#[doc(alias = "LabelChangedPredicate")]
#[must_use]
pub fn labels_changed() -> Predicate {
    Predicate(Node::Changed("labels_changed", |old, new| {
        differ(old.labels(), new.labels())
    }))
}

/// An annotation was added, removed or changed.
#[doc(alias = "AnnotationChangedPredicate")]
#[must_use]
pub fn annotations_changed() -> Predicate {
    Predicate(Node::Changed("annotations_changed", |old, new| {
        differ(old.annotations(), new.annotations())
    }))
}

/// The version changed: anything was written.
#[doc(alias = "ResourceVersionChangedPredicate")]
#[must_use]
pub fn resource_version_changed() -> Predicate {
    Predicate(Node::Changed("resource_version_changed", |old, new| {
        old.resource_version() != new.resource_version()
    }))
}

/// The object matches, or matched before the update. The function must not block.
///
/// It has no opinion about an object whose fields the cache gave up
/// ([`reducible_to`](crate::InformerBuilder::reducible_to)), unless the other state of an update matches.
#[doc(alias = "NewPredicateFuncs")]
pub fn matching(matches: impl Fn(&Object) -> bool + Send + Sync + 'static) -> Predicate {
    Predicate(Node::Matching(Reads::Anything, Arc::new(matches)))
}

/// The object has these labels, or had them before the update.
#[doc(alias = "LabelSelectorPredicate")]
#[must_use]
pub fn labels(selector: LabelSelector) -> Predicate {
    let matches = move |object: &Object| selector.matches(|key| object.label(key));
    Predicate(Node::Matching(Reads::Metadata, Arc::new(matches)))
}

impl Predicate {
    /// Both conditions hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(Node::Both(Arc::new((self.0, other.0))))
    }

    /// One of the conditions holds.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(Node::Either(Arc::new((self.0, other.0))))
    }

    /// The condition does not hold. Events that it has no opinion about still pass.
    #[expect(clippy::should_implement_trait, reason = "named as its siblings")]
    #[must_use]
    pub fn not(self) -> Self {
        Self(Node::Not(Arc::new(self.0)))
    }

    pub(super) fn passes(&self, event: Event<'_>) -> bool {
        self.0.holds(event).unwrap_or(true)
    }
}

impl Node {
    /// The answer; `None` is no opinion. INVARIANT: recursion is as deep as the program's own
    /// expression.
    fn holds(&self, event: Event<'_>) -> Option<bool> {
        match (self, event) {
            (Self::Changed(_, changed), Event::Updated { old, new }) => Some(changed(old, new)),
            (Self::Changed(..), Event::Whole(_)) => None,
            (Self::Matching(reads, matches), Event::Whole(object)) => {
                reads.of(object).then(|| matches(object))
            }
            (Self::Matching(reads, matches), Event::Updated { old, new }) => {
                let mut known = [new, old].into_iter().filter(|object| reads.of(object));
                let is_known = reads.of(old) && reads.of(new);
                match known.any(|object| matches(object)) {
                    true => Some(true),
                    false => is_known.then_some(false),
                }
            }
            (Self::Both(both), event) => match (both.0.holds(event), both.1.holds(event)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            (Self::Either(either), event) => match (either.0.holds(event), either.1.holds(event)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            (Self::Not(node), event) => node.holds(event).map(|holds| !holds),
        }
    }
}

impl Reads {
    /// Returns whether this part of the object is there.
    fn of(self, object: &Object) -> bool {
        self == Self::Metadata || !object.is_reduced()
    }
}

/// Returns whether two maps differ, in whatever order their entries are.
fn differ<T: Ord>(old: impl Iterator<Item = T>, new: impl Iterator<Item = T>) -> bool {
    let (mut old, mut new): (Vec<T>, Vec<T>) = (old.collect(), new.collect());
    if old == new {
        return false;
    }
    old.sort_unstable();
    new.sort_unstable();
    old != new
}

fn path(path: &str) -> FieldPath {
    path.parse().expect("the path is a literal")
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(name, _) => f.write_str(name),
            Self::Matching(..) => f.write_str("matching"),
            Self::Both(both) => write!(f, "({:?} and {:?})", both.0, both.1),
            Self::Either(either) => write!(f, "({:?} or {:?})", either.0, either.1),
            Self::Not(node) => write!(f, "not {node:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use kinform_core::object::projection::Projection;
    use kinform_core::object::reduction::Reduction;
    use serde_json::{Value, json};

    use super::*;

    fn object(metadata: Value) -> Object {
        let mut json = json!({"metadata": {"name": "x", "uid": "u"}});
        let members = metadata.as_object().unwrap().clone();
        json["metadata"].as_object_mut().unwrap().extend(members);
        Object::from_json(json.to_string().as_bytes(), &Projection::default()).unwrap()
    }

    fn updated(predicate: &Predicate, old: Value, new: Value) -> bool {
        let (old, new) = (&object(old), &object(new));
        predicate.passes(Event::Updated { old, new })
    }

    #[test]
    fn changed_predicates_look_at_their_field_only() {
        // controller-runtime: predicate_test.go
        let deleted = "2026-01-01T00:00:00Z";
        for (predicate, old, new, expected) in [
            (
                resource_version_changed(),
                json!({"resourceVersion": "1"}),
                json!({"resourceVersion": "2"}),
                true,
            ),
            (
                resource_version_changed(),
                json!({"resourceVersion": "1"}),
                json!({"resourceVersion": "1"}),
                false,
            ),
            (
                generation_changed(),
                json!({"generation": 1}),
                json!({"generation": 2}),
                true,
            ),
            (
                generation_changed(),
                json!({"generation": 1}),
                json!({"generation": 1}),
                false,
            ),
            (
                generation_changed(),
                json!({"generation": 1, "resourceVersion": "1"}),
                json!({"generation": 1, "resourceVersion": "2", "labels": {"a": "b"}, "finalizers": ["a/b"]}),
                false,
            ),
            (
                generation_changed(),
                json!({"generation": 1}),
                json!({"generation": 1, "deletionTimestamp": deleted}),
                true,
            ),
            (
                generation_changed(),
                json!({}),
                json!({"labels": {"a": "b"}}),
                true,
            ),
            (
                labels_changed(),
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"a": "1"}}),
                false,
            ),
            (
                labels_changed(),
                json!({"labels": {"a": "1", "b": "2"}}),
                json!({"labels": {"b": "2", "a": "1"}}),
                false,
            ),
            (
                labels_changed(),
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"a": "2"}}),
                true,
            ),
            (
                labels_changed(),
                json!({"labels": {"a": "1"}}),
                json!({"labels": {"a": "1", "b": "1"}}),
                true,
            ),
            (
                labels_changed(),
                json!({"labels": {"a": "1", "b": "1"}}),
                json!({"labels": {"a": "1"}}),
                true,
            ),
            (
                labels_changed(),
                json!({}),
                json!({"annotations": {"a": "1"}}),
                false,
            ),
            (labels_changed(), json!({"labels": {}}), json!({}), false),
            (
                annotations_changed(),
                json!({"annotations": {"a": "1"}}),
                json!({"annotations": {"a": "1"}}),
                false,
            ),
            (
                annotations_changed(),
                json!({"annotations": {"a": "1"}}),
                json!({"annotations": {"a": "2"}}),
                true,
            ),
            (
                annotations_changed(),
                json!({"annotations": {"a": "1"}}),
                json!({}),
                true,
            ),
            (
                annotations_changed(),
                json!({}),
                json!({"labels": {"a": "1"}}),
                false,
            ),
        ] {
            let said = format!("{predicate:?} {old} {new}");
            assert_eq!(
                updated(&predicate, old.clone(), new.clone()),
                expected,
                "{said}"
            );
            assert_eq!(
                updated(&predicate.clone().not(), old, new),
                !expected,
                "{said}"
            );
            for predicate in [predicate.clone(), predicate.not()] {
                assert!(predicate.passes(Event::Whole(&object(json!({})))), "{said}");
            }
        }
    }

    #[test]
    fn predicates_are_combined() {
        // controller-runtime: predicate_test.go, And, Or, Not
        let (yes, no) = (matching(|_| true), matching(|_| false));
        let changed = resource_version_changed;
        let (same, other) = (
            json!({"resourceVersion": "1"}),
            json!({"resourceVersion": "2"}),
        );
        for (predicate, of_same, of_other, of_whole) in [
            (yes.clone().and(no.clone()), false, false, false),
            (yes.clone().or(no.clone()), true, true, true),
            (no.clone().not(), true, true, true),
            (yes.clone().and(changed()), false, true, true),
            (changed().and(no.clone()), false, false, false),
            (no.clone().or(changed()), false, true, true),
            (changed().or(yes.clone()), true, true, true),
            (changed().not().and(yes), true, false, true),
            (changed().and(no).not(), true, true, true),
        ] {
            let found = (
                updated(&predicate, same.clone(), same.clone()),
                updated(&predicate, same.clone(), other.clone()),
                predicate.passes(Event::Whole(&object(json!({})))),
            );
            assert_eq!(found, (of_same, of_other, of_whole), "{predicate:?}");
        }
    }

    #[test]
    fn nothing_is_hidden_because_of_fields_that_are_gone() {
        let whole = |phase: &str| {
            let labels = json!({"app": "web"});
            let metadata = json!({"name": "x", "resourceVersion": "1", "labels": labels});
            let mut json = json!({"metadata": metadata});
            json["status"]["phase"] = phase.into();
            Object::from_json(json.to_string().as_bytes(), &Projection::default()).unwrap()
        };
        let gone = Reduction::keeping([]).reduce(&whole("Running")).unwrap();
        let (running, failed) = (whole("Running"), whole("Failed"));
        let phase = path("status.phase");
        let is_running = matching(move |object| object.at(&phase) == ["Running"]);
        let isnt = is_running.clone().not();
        let label = |selector: &str| labels(selector.parse().unwrap());
        let update = |new| Event::Updated { old: &gone, new };
        let table = [
            (&is_running, Event::Whole(&gone), true),
            (&isnt, Event::Whole(&gone), true),
            (&is_running, update(&failed), true),
            (&isnt, update(&failed), true),
            (&is_running, update(&running), true),
            (&isnt, update(&running), false),
            (&is_running, Event::Whole(&failed), false),
            (&label("app=web"), Event::Whole(&gone), true),
            (&label("app=db"), Event::Whole(&gone), false),
            (&generation_changed(), update(&failed), true),
        ];
        for (predicate, event, expected) in table {
            assert_eq!(predicate.passes(event), expected, "{predicate:?} {event:?}");
        }
    }

    #[test]
    fn an_object_that_leaves_the_set_is_heard_once_more() {
        // controller-runtime: predicate_test.go, LabelSelectorPredicate, NewPredicateFuncs
        let predicate = labels("app in (web, db)".parse().unwrap());
        let labelled = |app: &str| json!({"labels": {"app": app}});
        for (old, new, expected) in [
            ("web", "web", true),
            ("web", "other", true),
            ("other", "db", true),
            ("other", "other", false),
        ] {
            assert_eq!(
                updated(&predicate, labelled(old), labelled(new)),
                expected,
                "{old} {new}"
            );
        }
        for (app, expected) in [("web", true), ("other", false)] {
            assert_eq!(
                predicate.passes(Event::Whole(&object(labelled(app)))),
                expected
            );
        }
    }
}
