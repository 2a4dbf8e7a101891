//! The targets of informers: types, named and discovered resources, `kube::Api`s.
//!
//! ```text
//! type, ResourceInfo, ApiResource, Api<K> → Target<K>
//! Target<K> → InformerFactory::select → InformerBuilder<K>
//! ```
//!
//! Upstream counterpart: the typed factories' methods, `client-go:dynamic/dynamicinformer`
//! (`ForResource`).

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;

use kinform_api::{GroupVersionResource, Scope};
use kube_client::{Api, Client};
use kube_core::discovery::{ApiCapabilities, Scope as DiscoveredScope};
use kube_core::dynamic::{ApiResource, DynamicObject};

use crate::source::{Representation, ResourceInfo};

/// The target of an informer: a resource, and the type that its objects are read as.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// # use kinform::{GroupVersionResource, InformerFactory, ResourceInfo, Scope, Target};
/// # fn example(factory: &InformerFactory, api: &kube_client::Api<ConfigMap>) {
/// let web = factory.select(Target::<Pod>::new()).labels("app=web").build();
/// let config = factory.select(api).build();
/// let widgets = GroupVersionResource::new("example.com", "v1", "widgets");
/// let widgets = ResourceInfo::new(widgets, "Widget", Scope::Namespaced);
/// let widgets = factory.select::<kube_core::DynamicObject>(widgets).build();
/// # }
/// ```
pub struct Target<K> {
    pub(super) resource: ResourceInfo,
    /// The namespaces to use instead of the factory's, if the target has its own.
    pub(super) namespaces: Option<Vec<String>>,
    pub(super) representation: Representation,
    pub(super) client: Option<Client>,
    of: PhantomData<fn() -> K>,
}

impl<K> Target<K> {
    fn of(resource: ResourceInfo, representation: Representation) -> Self {
        Self {
            namespaces: resource.namespace.clone().map(|namespace| vec![namespace]),
            resource,
            representation,
            client: None,
            of: PhantomData,
        }
    }
}

impl<K: kube_core::Resource + 'static> Target<K> {
    /// The type `K`.
    #[must_use]
    pub fn new() -> Self
    where
        K::DynamicType: Default,
    {
        Self::with_type(&K::DynamicType::default())
    }

    /// A type that learns its resource at run time.
    #[must_use]
    pub fn with_type(kind: &K::DynamicType) -> Self {
        let cluster = TypeId::of::<K::Scope>() == TypeId::of::<kube_core::ClusterResourceScope>();
        let resource = ResourceInfo::new(
            GroupVersionResource::new(K::group(kind), K::version(kind), K::plural(kind)),
            K::kind(kind),
            if cluster {
                Scope::Cluster
            } else {
                Scope::Namespaced
            },
        );
        let representation = if K::metadata_api() {
            Representation::Metadata
        } else {
            Representation::Full
        };
        Self::of(resource, representation)
    }
}

impl<K: kube_core::Resource + 'static> Default for Target<K>
where
    K::DynamicType: Default,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<K> From<ResourceInfo> for Target<K> {
    fn from(resource: ResourceInfo) -> Self {
        Self::of(resource, Representation::Full)
    }
}

impl From<(ApiResource, Scope)> for Target<DynamicObject> {
    fn from((resource, scope): (ApiResource, Scope)) -> Self {
        let gvr = GroupVersionResource::new(&resource.group, &resource.version, &resource.plural);
        ResourceInfo::new(gvr, &resource.kind, scope).into()
    }
}

impl From<(ApiResource, ApiCapabilities)> for Target<DynamicObject> {
    /// Takes what kube's discovery recommends.
    fn from((resource, capabilities): (ApiResource, ApiCapabilities)) -> Self {
        let scope = match capabilities.scope {
            DiscoveredScope::Cluster => Scope::Cluster,
            DiscoveredScope::Namespaced => Scope::Namespaced,
        };
        (resource, scope).into()
    }
}

impl<K> From<&Api<K>> for Target<K>
where
    K: kube_core::Resource + Clone + 'static,
    K::DynamicType: Default,
{
    fn from(api: &Api<K>) -> Self {
        Self {
            namespaces: Some(api.namespace().into_iter().map(str::to_owned).collect()),
            client: Some(api.clone().into_client()),
            ..Self::new()
        }
    }
}

impl<K> fmt::Debug for Target<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}
