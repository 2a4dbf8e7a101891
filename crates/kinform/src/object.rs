//! Users' handles of an object: an object with its type as a lens.
//!
//! ```text
//! Object (head + bytes) + type → Obj<K> | ObjRef<K> → key, labels, paths (nothing decoded)
//!                                                   → typed() → Arc<K>
//! ```
//!
//! A handle is two counted pointers, or, during a walk over a listing, two borrowed ones, with the
//! same methods. It keeps the state that it was made from, whatever happens to the store. `K` is
//! decoded by `typed()` only; there is no `Deref` to it, because decoding costs time and can fail.
//! In a compressed store, a handle inflates its object when the caller reads more than key and
//! version, and keeps the result for as long as it lives; its clones inflate anew.
//!
//! Upstream counterpart: the `*T` in client-go's stores, decoded for every object as it arrives.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kinform_api::{FieldPath, KeyRef, ObjectKey, TypeMeta};
use kinform_core::object::Object;
use kinform_core::object::budget::TypedBudget;
use kinform_core::object::owner::OwnerReference;
use kinform_core::object::reduction::Reduction;
use kinform_core::object::typed::{DecodeError, TypedCache};
use once_cell::race::OnceBox;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind};
use crate::memory::Memory;
use crate::reporter::Reporters;

/// One state of one object, as a `K`.
pub struct Obj<K> {
    object: Object,
    lens: Arc<Lens>,
    // In a compressed store: the object that this handle inflated, once it read more than the key.
    thawed: OnceBox<Object>,
    of: PhantomData<fn() -> K>,
}

/// One state of one object, as a `K`, borrowed: the item of a walk over a
/// [`Listing`](crate::Listing).
///
/// It has the methods of an [`Obj`], and counts no references, so a walk over many objects costs no
/// more than looking at them. [`ObjRef::to_obj`] makes a handle that outlives the listing. A
/// function that takes an `ObjRef` also serves a handler's [`Obj`], by [`Obj::obj_ref`].
pub struct ObjRef<'a, K> {
    object: &'a Object,
    lens: &'a Arc<Lens>,
    // As an `Obj`'s.
    thawed: OnceBox<Object>,
    of: PhantomData<fn() -> K>,
}

/// The context of decoding; one per handle of an informer.
#[derive(Debug)]
pub(crate) struct Lens {
    pub(crate) type_meta: TypeMeta,
    keeps: Keeps,
    reporters: Reporters,
    /// The budget that decides whether decoded values are kept, if there is one.
    memory: Option<Arc<Memory>>,
    /// The fields that are left of reduced objects.
    reduction: Option<Arc<Reduction>>,
}

/// The policy for keeping decoded values.
#[derive(Debug)]
pub(crate) enum Keeps {
    All,
    Within(Arc<TypedBudget>),
    Nothing,
}

impl Lens {
    pub(crate) fn new(
        type_meta: TypeMeta,
        keeps: Keeps,
        reporters: Reporters,
        memory: Option<Arc<Memory>>,
        reduction: Option<Arc<Reduction>>,
    ) -> Arc<Self> {
        match (&memory, &keeps) {
            (Some(memory), Keeps::All) => memory.count_all(),
            (Some(memory), Keeps::Within(budget)) => memory.count_within(budget),
            _ => {}
        }
        Arc::new(Self {
            type_meta,
            keeps,
            reporters,
            memory,
            reduction,
        })
    }

    /// Returns whether decoded values may be kept, if that is the policy.
    fn may_keep(&self) -> bool {
        let memory = self.memory.as_ref();
        memory.is_none_or(|memory| memory.may_keep_decoded())
    }

    /// The fields that are left of reduced objects.
    pub(crate) fn reduction(&self) -> Option<&Arc<Reduction>> {
        self.reduction.as_ref()
    }

    /// Counts and reports an object that a reader left out because it does not decode.
    pub(crate) fn undecodable(&self, error: &DecodeError) {
        self.reporters.undecodable(error);
    }
}

#[cold]
fn given_up(object: &Object, path: &FieldPath) -> Error {
    let key = object.key();
    let message = format!(
        "{key}: {path} was given up to hold the memory budget; name it in reducible_to, or read the object from \
         the server"
    );
    Error::new(ErrorKind::GivenUp, message)
}

impl<K> Obj<K> {
    pub(crate) fn new(object: Object, lens: &Arc<Lens>) -> Self {
        Self {
            object,
            lens: Arc::clone(lens),
            thawed: OnceBox::new(),
            of: PhantomData,
        }
    }

    /// The same state, borrowed from this handle. In a compressed store, it inflates for itself.
    pub fn obj_ref(&self) -> ObjRef<'_, K> {
        ObjRef::new(&self.object, &self.lens)
    }

    /// The same state through another lens: metadata only, a slim struct, a dynamic object.
    pub fn cast<T>(&self) -> Obj<T> {
        Obj::new(self.object.clone(), &self.lens)
    }
}

impl<'a, K> ObjRef<'a, K> {
    pub(crate) fn new(object: &'a Object, lens: &'a Arc<Lens>) -> Self {
        Self {
            object,
            lens,
            thawed: OnceBox::new(),
            of: PhantomData,
        }
    }

    /// A handle that holds the object, for keeping it. In a compressed store, it inflates anew.
    pub fn to_obj(&self) -> Obj<K> {
        Obj::new(self.object.clone(), self.lens)
    }

    /// The same state through another lens: metadata only, a slim struct, a dynamic object.
    pub fn cast<T>(&self) -> ObjRef<'a, T> {
        ObjRef::new(self.object, self.lens)
    }
}

/// The methods of a handle, whether it holds the object or borrows it; `$lent` is how long the
/// object lends key and version.
macro_rules! tells {
    (impl<$($life:lifetime,)? K> $handle:ty, $lent:lifetime) => {
        impl<$($life,)? K> $handle {
            /// The object with its bytes.
            fn whole(&self) -> &Object {
                if !self.object.is_cold() {
                    return &self.object;
                }
                self.thawed
                    .get_or_init(|| Box::new(self.object.thawed().into_owned()))
            }

            /// Namespace and name, owned.
            pub fn key(&self) -> ObjectKey {
                self.object.key()
            }

            /// Namespace and name, borrowed.
            pub fn key_ref(&self) -> KeyRef<$lent> {
                self.object.key_ref()
            }

            /// The namespace; `None` for an object of the cluster.
            pub fn namespace(&self) -> Option<&$lent str> {
                self.object.namespace()
            }

            /// The name.
            pub fn name(&self) -> &$lent str {
                self.object.name()
            }

            /// The UID, which tells this object from another one that has its name at another time.
            pub fn uid(&self) -> &$lent str {
                self.object.uid()
            }

            /// The version of this state.
            pub fn resource_version(&self) -> &$lent str {
                self.object.resource_version()
            }

            /// Returns whether deletion was requested: the object has a `deletionTimestamp`.
            pub fn is_terminating(&self) -> bool {
                self.object.is_terminating()
            }

            /// The labels.
            pub fn labels(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
                self.whole().labels()
            }

            /// One label.
            pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
                self.whole().label(key)
            }

            /// The annotations.
            pub fn annotations(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
                self.whole().annotations()
            }

            /// One annotation.
            pub fn annotation(&self, key: &str) -> Option<Cow<'_, str>> {
                self.whole().annotation(key)
            }

            /// The owner references.
            pub fn owner_references(&self) -> Vec<OwnerReference> {
                self.whole().owner_references()
            }

            /// The scalars at `path`: strings as they are, numbers and booleans as written.
            ///
            /// # Errors
            /// The cache gave the field up to hold its memory budget, which only happens with
            /// [`reducible_to`](crate::InformerBuilder::reducible_to); see
            /// [`Error::is_given_up`](crate::Error::is_given_up).
            pub fn at(&self, path: &FieldPath) -> Result<Vec<Cow<'_, str>>, Error> {
                let reduction = self.lens.reduction();
                if self.object.is_reduced() && !reduction.is_some_and(|left| left.has(path)) {
                    return Err(given_up(&self.object, path));
                }
                Ok(self.whole().at(path))
            }

            /// Returns whether the cache gave up fields of this state to hold its memory budget: only metadata
            /// and the paths of [`reducible_to`](crate::InformerBuilder::reducible_to) are left.
            pub fn is_reduced(&self) -> bool {
                self.object.is_reduced()
            }

            /// Returns whether a projection or a transform removed parts of this state, which must
            /// then never be written back.
            pub fn is_projected(&self) -> bool {
                self.object.is_projected()
            }

            /// The object with `apiVersion` and `kind`, as JSON. Of a [reduced](Self::is_reduced) one, what is
            /// left.
            pub fn to_json(&self) -> Vec<u8> {
                self.whole().to_json(&self.lens.type_meta)
            }

            /// `apiVersion` and `kind`.
            pub fn type_meta(&self) -> &$lent TypeMeta {
                &self.lens.type_meta
            }

            /// The object without a type. Of a [reduced](Self::is_reduced) one, what is left.
            pub fn raw(&self) -> &Object {
                self.whole()
            }
        }

        impl<$($life,)? K: DeserializeOwned + Any + Send + Sync> $handle {
            /// The object decoded.
            ///
            /// # Errors
            /// The object does not fit the type; the error names the path, never the content. Or it
            /// [is reduced](Self::is_reduced): see [`DecodeError::is_given_up`].
            ///
            /// # Complexity
            /// A full decode each time, unless the informer keeps decoded values.
            pub fn typed(&self) -> Result<Arc<K>, DecodeError> {
                let (object, meta): (&Object, _) = (&self.object, &self.lens.type_meta);
                match &self.lens.keeps {
                    Keeps::All if self.lens.may_keep() => object.typed(meta, TypedCache::Always),
                    Keeps::Within(budget) if self.lens.may_keep() => budget.typed(object, meta),
                    // The value is not kept, so it may as well be decoded from the inflated object.
                    _ => self.whole().typed(meta, TypedCache::Never),
                }
            }
        }

        impl<$($life,)? K> fmt::Debug for $handle {
            /// Key and version, never content.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.object.fmt(f)
            }
        }
    };
}

tells!(impl<K> Obj<K>, '_);
tells!(impl<'a, K> ObjRef<'a, K>, 'a);

impl<K> Clone for Obj<K> {
    fn clone(&self) -> Self {
        Self::new(self.object.clone(), &self.lens)
    }
}

impl<K> Clone for ObjRef<'_, K> {
    fn clone(&self) -> Self {
        Self::new(self.object, self.lens)
    }
}
