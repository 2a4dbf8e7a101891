//! The stage between the wire and the store: projection and transform of each object.
//!
//! ```text
//! bytes of one object → the requested kind? → Projection → (typed transform) → Object | Refused
//! ```
//!
//! An object that states another kind than the requested one (a Table, or a wrong proxy's reply), or
//! that has another namespace than the only requested one, is refused. One that states no kind is
//! accepted in a watch, and in a list that has the right kind, the kind `List` or no kind. Runs once
//! per object version, before the object is stored or compared, outside all locks.
//! An object whose transform fails or panics is quarantined like an unparseable one: until its next
//! version. Key, uid and version always stay those of the wire.
//! Text in protobuf that is not UTF-8 is reported, and its object is kept.
//!
//! Upstream counterpart: `client-go:tools/cache` (`TransformFunc`), which runs on decoded objects;
//! the checks of type in `reflector.go` (`handleAnyWatch`).

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kinform_api::{ResourceVersion, TypeMeta, mutant};
use kinform_core::object::Object;
use kinform_core::object::projection::Projection;
use kinform_core::object::typed::TypedCache;
use kinform_core::scope::{Scope, ScopeField};
use kinform_core::wire::item::Item;
use kinform_core::wire::list::ListMeta;
use kinform_core::wire::unreadable::Unreadable;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::report::ReportEvent;
use crate::reporter::Reporter;

type Apply = dyn Fn(&Object, &TypeMeta) -> Result<Object, Unreadable> + Send + Sync;

/// A function that changes objects before they are stored.
///
/// Clones of one transform are equal; two made separately are not, even from the same function:
/// informers share a watch only if they were given clones of one.
#[derive(Clone)]
pub struct Transform(Arc<Apply>);

impl Transform {
    /// `transform`, applied to the decoded object; the result is stored as JSON.
    pub fn typed<K>(transform: impl Fn(K) -> K + Send + Sync + 'static) -> Self
    where
        K: DeserializeOwned + Serialize + Clone + Any + Send + Sync,
    {
        Self(Arc::new(move |object, meta| {
            let failed = |reason: String| unreadable(object, reason);
            let value = object
                .typed::<K>(meta, TypedCache::Never)
                .map_err(|error| failed(error.to_string()))?;
            let changed = catch_unwind(AssertUnwindSafe(|| transform(Arc::unwrap_or_clone(value))))
                .map_err(|_| failed("the transform panicked".to_owned()))?;
            let json = serde_json::to_vec(&changed)
                .map_err(|_| failed("the transformed object cannot be written".to_owned()))?;
            object.with_payload(&json)
        }))
    }
}

fn unreadable(object: &Object, reason: String) -> Unreadable {
    Unreadable {
        key: Some(object.key()),
        resource_version: Some(object.resource_version().to_owned()),
        path: String::new(),
        reason,
    }
}

impl PartialEq for Transform {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Transform {}

impl Hash for Transform {
    /// All alike: an address would differ from run to run, and with it the order of informers that
    /// start together.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transform")
    }
}

/// Makes objects from bytes.
#[derive(Debug)]
pub(crate) struct Ingest {
    /// The total size of managedFields in everything that was read.
    pub(crate) managed_fields_bytes: AtomicU64,
    pub(crate) projection: Projection,
    pub(crate) transform: Option<Transform>,
    /// The type that is stored.
    pub(crate) type_meta: TypeMeta,
    /// The requested type: the same, or its metadata. Without a kind, every type is accepted.
    pub(crate) wire_type: TypeMeta,
    /// The only namespace that was asked for.
    pub(crate) namespace: Option<Box<str>>,
    /// Hears of texts that are not UTF-8.
    pub(crate) reporter: Arc<Reporter>,
}

/// The reason why there is no object.
pub(crate) enum Refused {
    /// It cannot be parsed, or the transform failed.
    Unreadable(Unreadable),
    /// It has this other kind or namespace.
    Foreign(String),
    /// It is not of the informer's ranges; the object itself if its hash may have been another before.
    Outside(ResourceVersion, Option<Object>),
}

/// Makes objects of bytes, as far as they are of these ranges.
#[derive(Clone, Copy)]
pub(crate) struct Intake<'a> {
    pub(crate) ingest: &'a Ingest,
    /// `None` for all objects.
    pub(crate) scope: Option<&'a Scope>,
}

impl Intake<'_> {
    /// Of what cannot be read, the key may still say that it is not of the ranges.
    pub(crate) fn unreadable(&self, unreadable: Unreadable) -> Refused {
        let key = unreadable.key.as_ref();
        let may_have = |scope: &Scope| key.is_none_or(|key| scope.may_have(key.key_ref()));
        if self.scope.is_none_or(may_have) {
            return Refused::Unreadable(unreadable);
        }
        let version = unreadable.resource_version.unwrap_or_default();
        Refused::Outside(version.into(), None)
    }

    /// An object that is not of the ranges is dropped before anything else is made of it.
    fn check(&self, object: &Object) -> Result<(), Refused> {
        let Some(scope) = self.scope.filter(|scope| !scope.has(object)) else {
            return Ok(());
        };
        let may_have_been = scope.field() == ScopeField::OwnerUid;
        let version = object.resource_version().into();
        Err(Refused::Outside(
            version,
            may_have_been.then(|| object.clone()),
        ))
    }

    /// The object to store of an item; `read` collects facts for [`Ingest::count`].
    pub(crate) fn object(&self, item: Item<'_>, read: &mut ItemsRead) -> Result<Object, Refused> {
        if mutant!("D16") {
            tracing::warn!("{}", String::from_utf8_lossy(item.bytes()));
        }
        let ingest = self.ingest;
        let item = item.checked().map_err(|error| self.unreadable(error))?;
        let (kind, api_version) = (item.kind(), item.api_version());
        read.is_unstated |= kind.is_empty();
        let wanted = &ingest.wire_type;
        if !wanted.kind.is_empty()
            && (!stated(&kind, &wanted.kind) || !stated(&api_version, &wanted.api_version))
        {
            return Err(Refused::Foreign(named(&kind, &api_version)));
        }
        let object = Object::from_item(&item, &ingest.projection);
        let object = object.map_err(|error| self.unreadable(error))?;
        ingest.check_namespace(&object)?;
        read.managed_fields_bytes += item.managed_fields_bytes() as u64;
        self.check(&object)?;
        if let Some(text) = item.mended() {
            ingest.report_mended(&object, text);
        }
        ingest.transformed(object).map_err(Refused::Unreadable)
    }
}

/// Facts about the items read so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ItemsRead {
    /// Some items did not state their kind: their list must.
    is_unstated: bool,
    /// The size of managedFields in the items that were not yet counted.
    managed_fields_bytes: u64,
}

impl Ingest {
    #[cold]
    fn report_mended(&self, object: &Object, text: &Unreadable) {
        let (key, path) = (object.key(), text.path.clone());
        tracing::warn!(%key, path, "a text is not UTF-8");
        self.reporter.telemetry.mended();
        self.reporter.report(ReportEvent::Mended { key, path });
    }

    /// Adds `read` to the counters. Called once for many items, because each atomic add waits for
    /// earlier stores.
    pub(crate) fn count(&self, read: &mut ItemsRead) {
        let bytes = std::mem::take(&mut read.managed_fields_bytes);
        self.managed_fields_bytes
            .fetch_add(bytes, Ordering::Relaxed);
    }

    /// Refuses an object of another namespace than was asked for: it may be in another cache.
    fn check_namespace(&self, object: &Object) -> Result<(), Refused> {
        let Some(wanted) = &self.namespace else {
            return Ok(());
        };
        let found = object.namespace().unwrap_or_default();
        if found == &**wanted {
            return Ok(());
        }
        Err(Refused::Foreign(format!("namespace {:?}", short(found))))
    }

    /// The object of the server's reply to a write of this program.
    pub(crate) fn written(&self, json: &[u8]) -> Result<Object, Unreadable> {
        self.transformed(Object::from_json(json, &self.projection)?)
    }

    fn transformed(&self, object: Object) -> Result<Object, Unreadable> {
        match &self.transform {
            Some(transform) => (transform.0)(&object, &self.type_meta),
            None => Ok(object),
        }
    }

    /// Checks that a list has the requested type; the error names the type that it has.
    ///
    /// A custom resource may name its list as it likes, but its items state their kind.
    pub(crate) fn list(&self, meta: &ListMeta, read: ItemsRead) -> Result<(), String> {
        let wanted = &self.wire_type;
        let is_plain = wanted.kind.is_empty() || meta.kind.is_empty() || meta.kind == "List";
        let name = meta.kind.strip_suffix("List");
        // The groups of custom resources have a dot.
        let is_custom = wanted.api_version.split('/').next();
        let is_custom = is_custom.is_some_and(|group| group.contains('.'));
        let is_named = name == Some(&wanted.kind) || (is_custom && !read.is_unstated);
        if is_plain || (is_named && stated(&meta.api_version, &wanted.api_version)) {
            return Ok(());
        }
        Err(named(&meta.kind, &meta.api_version))
    }
}

/// Returns whether the stated value, if there is one, is the wanted one.
fn stated(found: &str, wanted: &str) -> bool {
    found.is_empty() || found == wanted
}

/// A type in a message.
fn named(kind: &str, api_version: &str) -> String {
    format!("kind {:?} of {:?}", short(kind), short(api_version))
}

/// At most 64 characters of the server's words.
fn short(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain.take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_known_by_its_kind_or_by_its_items() {
        let check = |wanted: [&str; 2], list: [&str; 2], is_unstated, expected: bool| {
            let [kind, api_version] = wanted.map(str::to_owned);
            let type_meta = TypeMeta { api_version, kind };
            let ingest = Ingest {
                managed_fields_bytes: AtomicU64::new(0),
                projection: Projection::default(),
                transform: None,
                wire_type: type_meta.clone(),
                type_meta,
                namespace: None,
                reporter: Reporter::new(),
            };
            let meta = ListMeta {
                kind: list[0].to_owned(),
                api_version: list[1].to_owned(),
                ..ListMeta::default()
            };
            let found = ingest.list(
                &meta,
                ItemsRead {
                    is_unstated,
                    managed_fields_bytes: 0,
                },
            );
            assert_eq!(found.is_ok(), expected, "{wanted:?} {list:?} {found:?}");
        };
        let (pod, foo) = (["Pod", "v1"], ["Foo", "example.com/v1"]);
        check(pod, ["PodList", "v1"], true, true);
        check(pod, ["List", "v1"], true, true);
        check(pod, ["", ""], true, true);
        check(pod, ["PodList", ""], true, true);
        check(pod, ["PodList", "v2"], true, false);
        check(pod, ["NodeList", "v1"], true, false);
        check(pod, ["NodeList", "v1"], false, false);
        check(foo, ["FooList", "example.com/v1"], true, true);
        // `spec.names.listKind` of its definition allows it.
        check(foo, ["Foos", "example.com/v1"], false, true);
        check(foo, ["Foos", "example.com/v1"], true, false);
        check(foo, ["Foos", "example.com/v2"], false, false);
        check(["", "v1"], ["NodeList", "v1"], true, true);
    }
}
