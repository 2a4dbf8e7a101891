//! Definitions of indexes, and the handles that read them.
//!
//! ```text
//! Index::path | label | owner | by → Informer::add_index → IndexReader → get(value) → Listing
//! ```
//!
//! Path, label and owner indexes read the bytes and decode nothing. A typed function decodes each
//! object version once and runs before anything is applied; where it fails or panics, the object is
//! stored, left out of the index, and reported. A path that a built-in type lacks is refused when
//! the index is added, not found empty later.
//!
//! Upstream counterpart: `client-go:tools/cache/index.go` (`Indexers`, `IndexFunc`).

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kinform_api::{FieldPath, PathSegment, TypeMeta};
use kinform_core::object::Object;
use kinform_core::object::typed::TypedCache;
use kinform_core::store::index::{Index as CoreIndex, IndexError};
use kinform_schema::{PathAnswer, PathSegment as SchemaSegment, knows_path};
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind};
use crate::informer::{Definition, Informer, Origin};
use crate::object::Lens;
use crate::source::ResourceInfo;
use crate::store::IndexReader;

/// A named way to find objects of type `K` by values in them.
#[doc(alias = "IndexFunc")]
pub struct Index<K> {
    name: Option<String>,
    look: Look,
    of: PhantomData<fn(K)>,
}

/// The values of an object, decoded as the type of the index.
type Values = dyn Fn(&Object, &TypeMeta) -> Result<Vec<Vec<u8>>, IndexError> + Send + Sync;

enum Look {
    Path(String),
    Label(String),
    Owner,
    Function(Arc<Values>),
}

impl<K> Index<K> {
    /// By the scalars at `path`, such as `spec.nodeName` or `spec.containers[*].image`; its name is
    /// the path.
    pub fn path(path: impl Into<String>) -> Self {
        Self::of(Look::Path(path.into()))
    }

    /// By the value of the label `key`; its name is `label:KEY`.
    pub fn label(key: impl Into<String>) -> Self {
        Self::of(Look::Label(key.into()))
    }

    /// By the uid of each owner; its name is `owner`.
    pub fn owner() -> Self {
        Self::of(Look::Owner)
    }

    /// The same index under another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    fn of(look: Look) -> Self {
        Self {
            name: None,
            look,
            of: PhantomData,
        }
    }

    /// Makes the definition of this index in the store of `resource`'s objects.
    fn define(self, resource: &ResourceInfo, lens: &Arc<Lens>) -> Result<Definition, Error> {
        let (index, origin) = match self.look {
            Look::Path(text) => {
                let path = checked_path(&text, resource)?;
                (CoreIndex::path(path), Origin::Path(text))
            }
            Look::Label(key) => (CoreIndex::label(&key), Origin::Label(key)),
            Look::Owner => (CoreIndex::owner(), Origin::Owner),
            Look::Function(function) => {
                let name = self.name.as_deref().unwrap_or_default();
                let lens = Arc::clone(lens);
                let values = move |object: &Object| function(object, &lens.type_meta);
                (
                    CoreIndex::function(name, Arc::new(values)),
                    Origin::Function,
                )
            }
        };
        let index = match &self.name {
            Some(name) => index.with_name(name),
            None => index,
        };
        Ok(Definition { index, origin })
    }
}

impl<K: DeserializeOwned + Any + Send + Sync> Index<K> {
    /// By the values that `function` returns for a decoded object: texts or any bytes. `name`
    /// identifies the index: two functions of one name are a conflict.
    pub fn by<V: Into<Vec<u8>>, I: IntoIterator<Item = V>>(
        name: impl Into<String>,
        function: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Self {
        let values = move |object: &Object, meta: &TypeMeta| {
            // Decoded for the index only: keeping the value would cost memory without need.
            let typed = object.typed::<K>(meta, TypedCache::Never);
            typed
                .map(|typed| function(&typed).into_iter().map(V::into).collect())
                .map_err(|error| IndexError(error.to_string()))
        };
        Self::of(Look::Function(Arc::new(values))).named(name)
    }
}

impl<K> Informer<K> {
    /// Adds an index, at any time; an equal path, label or owner index is reused. If the informer
    /// runs, the index is built in the background, and reads look at each object until it is there.
    ///
    /// # Errors
    /// The informer is stopped, the name is taken by another definition, the path cannot be parsed,
    /// or the type has no such path. Or the informer runs, and the index reads fields that its cache may have
    /// [given up](crate::InformerBuilder::reducible_to).
    #[doc(alias = "AddIndexers")]
    pub fn add_index(&self, index: Index<K>) -> Result<IndexReader<K>, Error> {
        self.cores().running()?;
        let definition = index.define(self.resource(), self.lens())?;
        self.add_defined(&definition)
    }

    /// Adds an index whose values can be read from each object at any time, whatever the cache gives up.
    pub(crate) fn add_index_of_what_stays(&self, index: Index<K>) -> Result<IndexReader<K>, Error> {
        self.cores().running()?;
        let definition = index.define(self.resource(), self.lens())?;
        definition.reads_what_stays(self.resource(), self.lens().reduction())?;
        self.add_defined(&definition)
    }

    fn add_defined(&self, definition: &Definition) -> Result<IndexReader<K>, Error> {
        self.cores().add_index(definition)?;
        Ok(IndexReader::new(self.store(), definition.index.name()))
    }
}

/// Parses a path and refuses one that the built-in type `resource` is known not to have.
fn checked_path(text: &str, resource: &ResourceInfo) -> Result<FieldPath, Error> {
    let invalid = |why: String| Error::new(ErrorKind::Invalid, why);
    let path: FieldPath = text
        .parse()
        .map_err(|error| invalid(format!("{text:?} is no path: {error}")))?;
    let segments: Vec<SchemaSegment<'_>> = path
        .segments()
        .iter()
        .map(|segment| match segment {
            PathSegment::Field(name) => SchemaSegment::Field(name),
            PathSegment::Each | PathSegment::Index(_) => SchemaSegment::Item,
        })
        .collect();
    let gvr = &resource.resource;
    match knows_path(&gvr.group, &gvr.version, &resource.kind, &segments) {
        PathAnswer::Unknown { depth } => Err(invalid(format!(
            "{} has no {text} (nothing is at its part {})",
            resource.kind,
            depth + 1
        ))),
        _ => Ok(path),
    }
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Index");
        shown.field("name", &self.name);
        match &self.look {
            Look::Path(path) => shown.field("path", path),
            Look::Label(key) => shown.field("label", key),
            Look::Owner => shown.field("of", &"owner"),
            Look::Function(_) => shown.field("of", &"function"),
        };
        shown.finish()
    }
}
