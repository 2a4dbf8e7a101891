//! Owner references: the links by which garbage is collected and owned objects lead to their owner.
//!
//! ```text
//! child's metadata + Owner → set_controller | set_owner | remove → changed references, or an Error
//! ```
//!
//! Two references name one owner if group, kind and name are equal: versions of an API are one
//! owner, and a namesake with another uid is an owner that is gone, so its reference is replaced.
//! An owner that the server would treat as missing, and delete the child for it, is an error:
//! owners live in the child's namespace or belong to the cluster.
//!
//! Upstream counterpart: `controller-runtime:pkg/controller/controllerutil` (`SetControllerReference`
//! and others), which never compares the uid.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::{ObjectMeta, Resource};

use super::place::{Scoped, invalid, scope_of};
use crate::error::{Error, ErrorKind};

/// An object as the owner of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) namespace: Option<String>,
    pub(crate) blocks_deletion: bool,
}

/// The effect of setting an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The reference is new.
    Added,
    /// The reference was there in this form.
    Unchanged,
    /// A reference to this object was there in another form: another version, other flags.
    Updated,
    /// The reference was to an object that had the owner's name before.
    Replaced,
}

impl Owner {
    /// The object as an owner.
    ///
    /// # Errors
    /// It has no name or no uid: it was not read from a server.
    pub fn of<K: Resource>(object: &K) -> Result<Self, Error>
    where
        K::DynamicType: Default,
    {
        Self::of_kind(object, &K::DynamicType::default())
    }

    /// The same of an object whose type is known at run time.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_kind<K: Resource>(object: &K, kind: &K::DynamicType) -> Result<Self, Error> {
        let ObjectMeta {
            name,
            uid,
            namespace,
            ..
        } = object.meta();
        let (Some(name), Some(uid)) = (name, uid) else {
            let message = format!("a {} without name and uid cannot own", K::kind(kind));
            return Err(invalid(message));
        };
        Ok(Self {
            api_version: K::api_version(kind).into_owned(),
            kind: K::kind(kind).into_owned(),
            name: name.clone(),
            uid: uid.clone(),
            namespace: namespace.clone(),
            blocks_deletion: true,
        })
    }

    /// The same owner; a foreground deletion of it does not wait for the child.
    #[must_use]
    pub fn without_blocking(mut self) -> Self {
        self.blocks_deletion = false;
        self
    }

    fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    pub(super) fn is_named_by(&self, reference: &OwnerReference) -> bool {
        reference.kind == self.kind
            && reference.name == self.name
            && group_of(&reference.api_version) == self.group()
    }

    /// Fails if the server would take this owner of the child for missing.
    fn may_own(&self, child_namespace: Option<&str>, child: &str) -> Result<(), Error> {
        let Some(own) = self.namespace.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(());
        };
        match child_namespace.filter(|name| !name.is_empty()) {
            Some(namespace) if namespace == own => Ok(()),
            Some(namespace) => Err(invalid(format!(
                "{self} in namespace {own:?} cannot own {child} in namespace {namespace:?}"
            ))),
            None => Err(invalid(format!(
                "{self} in namespace {own:?} cannot own {child}, which belongs to the cluster"
            ))),
        }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Makes `owner` the controlling owner of `child`: the one whose controller manages it.
///
/// # Errors
/// - Another owner controls the child ([`Error::is_owned_by_another`]).
/// - The owner lives in another namespace, or in a namespace while the child belongs to the
///   cluster ([`Error::is_invalid`]).
#[doc(alias = "SetControllerReference")]
pub fn set_controller<K: Resource + 'static>(
    child: &mut K,
    owner: &Owner,
) -> Result<Ownership, Error> {
    let namespace = namespace_of(child).map(str::to_owned);
    set_controller_in(child.meta_mut(), namespace.as_deref(), owner)
}

/// Adds `owner` to the owners of `child`. If it controls the child already, that stays.
///
/// # Errors
/// As [`set_controller`], but any number of owners is allowed.
#[doc(alias = "SetOwnerReference")]
pub fn set_owner<K: Resource + 'static>(child: &mut K, owner: &Owner) -> Result<Ownership, Error> {
    let namespace = namespace_of(child).map(str::to_owned);
    let meta = child.meta_mut();
    owner.may_own(namespace.as_deref(), shown(meta))?;
    let references = meta.owner_references.get_or_insert_default();
    let wanted = |known: Option<&OwnerReference>| OwnerReference {
        controller: known.and_then(|known| known.controller),
        block_owner_deletion: known.and_then(|known| known.block_owner_deletion),
        ..reference_to(owner)
    };
    Ok(put(references, owner, wanted))
}

/// Removes `owner` from the owners of `child`, in whatever role.
///
/// # Errors
/// It is not among them ([`Error::is_not_found`]).
#[doc(alias = "RemoveOwnerReference")]
pub fn remove<K: Resource>(child: &mut K, owner: &Owner) -> Result<(), Error> {
    let meta = child.meta_mut();
    let references = meta.owner_references.get_or_insert_default();
    let before = references.len();
    references.retain(|reference| !owner.is_named_by(reference));
    let is_removed = references.len() < before;
    if references.is_empty() {
        meta.owner_references = None;
    }
    if is_removed {
        return Ok(());
    }
    let message = format!("{owner} is not an owner of {}", shown(meta));
    Err(Error::new(ErrorKind::NotFound, message))
}

/// Removes `owner`, which controls `child`.
///
/// # Errors
/// It is not an owner, or not the controlling one ([`Error::is_not_found`]).
#[doc(alias = "RemoveControllerReference")]
pub fn remove_controller<K: Resource>(child: &mut K, owner: &Owner) -> Result<(), Error> {
    if controller(child).is_some_and(|reference| owner.is_named_by(reference)) {
        return remove(child, owner);
    }
    let message = format!("{owner} does not control {}", shown(child.meta()));
    Err(Error::new(ErrorKind::NotFound, message))
}

/// Returns whether `owner` is an owner of `child`, in whatever role. A reference to an object that
/// had its name before does not count.
#[doc(alias = "HasOwnerReference")]
pub fn is_owned<K: Resource>(child: &K, owner: &Owner) -> bool {
    let mut references = child.meta().owner_references.iter().flatten();
    references.any(|known| owner.is_named_by(known) && known.uid == owner.uid)
}

/// Returns whether `owner` controls `child`. A reference to an object that had its name before does
/// not count.
pub fn is_controlled<K: Resource>(child: &K, owner: &Owner) -> bool {
    controller(child).is_some_and(|known| owner.is_named_by(known) && known.uid == owner.uid)
}

/// The reference to the controlling owner of `child`.
#[doc(alias = "HasControllerReference")]
#[doc(alias = "GetControllerOf")]
pub fn controller<K: Resource>(child: &K) -> Option<&OwnerReference> {
    let mut references = child.meta().owner_references.iter().flatten();
    references.find(|reference| reference.controller == Some(true))
}

/// [`set_controller`] in the metadata of a child that lives in `namespace`.
pub(crate) fn set_controller_in(
    child: &mut ObjectMeta,
    namespace: Option<&str>,
    owner: &Owner,
) -> Result<Ownership, Error> {
    owner.may_own(namespace, shown(child))?;
    let mut known = child.owner_references.iter().flatten();
    let other =
        known.find(|reference| reference.controller == Some(true) && !owner.is_named_by(reference));
    if let Some(other) = other {
        return Err(controlled_by_another(shown(child), other, owner));
    }
    let references = child.owner_references.get_or_insert_default();
    let wanted = |_: Option<&OwnerReference>| OwnerReference {
        controller: Some(true),
        block_owner_deletion: Some(owner.blocks_deletion),
        ..reference_to(owner)
    };
    Ok(put(references, owner, wanted))
}

/// The error of a child that another owner controls.
pub(super) fn controlled_by_another(
    child: &str,
    OwnerReference { kind, name, .. }: &OwnerReference,
    owner: &Owner,
) -> Error {
    let message =
        format!("{child} is controlled by {kind} {name} and cannot be controlled by {owner}");
    Error::new(ErrorKind::Owned, message)
}

fn put(
    references: &mut Vec<OwnerReference>,
    owner: &Owner,
    wanted: impl Fn(Option<&OwnerReference>) -> OwnerReference,
) -> Ownership {
    let Some(known) = references.iter_mut().find(|known| owner.is_named_by(known)) else {
        references.push(wanted(None));
        return Ownership::Added;
    };
    let wanted = wanted(Some(known));
    let ownership = match () {
        () if *known == wanted => Ownership::Unchanged,
        () if known.uid == wanted.uid => Ownership::Updated,
        () => Ownership::Replaced,
    };
    *known = wanted;
    ownership
}

fn reference_to(owner: &Owner) -> OwnerReference {
    OwnerReference {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: None,
        block_owner_deletion: None,
    }
}

/// The namespace of a child whose type has one.
fn namespace_of<K: Resource + 'static>(child: &K) -> Option<&str> {
    match scope_of::<K>() {
        Scoped::Cluster => None,
        Scoped::Namespace | Scoped::AsStated => child.meta().namespace.as_deref(),
    }
}

fn shown(child: &ObjectMeta) -> &str {
    child.name.as_deref().unwrap_or("an object without a name")
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};

    use super::*;

    fn named<K: Resource + Default>(name: &str, namespace: Option<&str>) -> K {
        let mut object = K::default();
        object.meta_mut().name = Some(name.to_owned());
        object.meta_mut().uid = Some(format!("{name}-uid"));
        object.meta_mut().namespace = namespace.map(str::to_owned);
        object
    }

    fn owner(name: &str) -> Owner {
        Owner::of(&named::<ConfigMap>(name, Some("a"))).unwrap()
    }

    fn child() -> Secret {
        named("child", Some("a"))
    }

    fn shape(child: &Secret) -> Vec<String> {
        let references = child.metadata.owner_references.iter().flatten();
        let shape = |known: &OwnerReference| {
            let OwnerReference { name, uid, .. } = known;
            let (controller, blocks) = (known.controller, known.block_owner_deletion);
            format!("{name} {uid} {controller:?} {blocks:?}")
        };
        references.map(shape).collect()
    }

    #[test]
    fn a_controlling_owner_is_set_once_and_replaced_in_place() {
        // controller-runtime: controllerutil_test.go, SetControllerReference
        let mut child = child();
        set_owner(&mut child, &owner("other")).unwrap();
        let mut newer = owner("x");
        newer.api_version = "v2".into();
        let mut again = owner("x");
        again.uid = "another".into();
        for (owner, expected) in [
            (owner("x"), Ownership::Added),
            (owner("x"), Ownership::Unchanged),
            (newer, Ownership::Updated),
            (owner("x").without_blocking(), Ownership::Updated),
            (again, Ownership::Replaced),
        ] {
            assert_eq!(set_controller(&mut child, &owner).unwrap(), expected);
            assert!(is_controlled(&child, &owner) && is_owned(&child, &owner));
        }
        let known = [
            "other other-uid None None",
            "x another Some(true) Some(true)",
        ];
        assert_eq!(shape(&child), known);
        assert!(!is_controlled(&child, &owner("x")), "that one is gone");
        let error = set_controller(&mut child, &owner("y")).unwrap_err();
        assert!(error.is_owned_by_another(), "{error}");
        assert_eq!(shape(&child), known, "an error changes nothing");
    }

    #[test]
    fn any_number_of_owners_can_be_set_and_none_takes_the_controllers_flag() {
        // controller-runtime: controllerutil_test.go, SetOwnerReference
        let mut child = child();
        set_controller(&mut child, &owner("x")).unwrap();
        for (owner, expected) in [
            (owner("x"), Ownership::Unchanged),
            (owner("y"), Ownership::Added),
            (owner("y"), Ownership::Unchanged),
        ] {
            assert_eq!(set_owner(&mut child, &owner).unwrap(), expected);
        }
        let known = ["x x-uid Some(true) Some(true)", "y y-uid None None"];
        assert_eq!(shape(&child), known);
    }

    #[test]
    fn an_owner_that_is_not_there_cannot_be_removed() {
        // controller-runtime: controllerutil_test.go, RemoveOwnerReference, RemoveControllerReference
        let mut child = child();
        assert!(remove(&mut child, &owner("x")).unwrap_err().is_not_found());
        set_owner(&mut child, &owner("x")).unwrap();
        let error = remove_controller(&mut child, &owner("x")).unwrap_err();
        assert!(error.is_not_found(), "{error}");
        set_controller(&mut child, &owner("x")).unwrap();
        assert!(
            remove_controller(&mut child, &owner("y"))
                .unwrap_err()
                .is_not_found()
        );
        remove_controller(&mut child, &owner("x")).unwrap();
        assert_eq!(child.metadata.owner_references, None);
        assert!(controller(&child).is_none());
    }

    #[test]
    fn an_owner_in_another_namespace_is_an_error() {
        // controller-runtime: controllerutil_test.go, cross-namespace owners
        let mut elsewhere: Secret = named("child", Some("b"));
        let mut of_cluster: Namespace = named("child", None);
        let cluster = Owner::of(&named::<Namespace>("n", None)).unwrap();
        type Set<K> = fn(&mut K, &Owner) -> Result<Ownership, Error>;
        let sets: [(Set<Secret>, Set<Namespace>); 2] =
            [(set_controller, set_controller), (set_owner, set_owner)];
        for (set, set_of_cluster) in sets {
            assert!(set(&mut elsewhere, &owner("x")).unwrap_err().is_invalid());
            assert!(
                set_of_cluster(&mut of_cluster, &owner("x"))
                    .unwrap_err()
                    .is_invalid()
            );
            set(&mut elsewhere, &cluster).unwrap();
        }
        assert!(Owner::of(&Secret::default()).unwrap_err().is_invalid());
    }
}
