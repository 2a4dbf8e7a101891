//! The program that is inspected: its informers, controllers and lease.
//!
//! ```text
//! InformerFactory, controllers, lease ─▶ Program ─▶ Cache (an informer with a name for addresses)
//! ```
//!
//! It is asked, and tells nothing by itself: a program that nobody looks at does no work for it.
//!
//! Upstream counterpart: none.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kinform::controller::ControllerMetrics;
use kinform::{Informer, InformerFactory, InformerState, ResourceInfo, Share};
use kube_core::dynamic::DynamicObject;

/// A controller that is inspected.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    pub(crate) name: String,
    pub(crate) workers: usize,
    pub(crate) metrics: ControllerMetrics,
}

/// The lease of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) name: String,
    pub(crate) is_leading: bool,
}

/// A question to the program.
type Ask<T> = Arc<dyn Fn() -> T + Send + Sync>;

/// The program that is inspected.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) factory: InformerFactory,
    pub(crate) controllers: Ask<Vec<Controller>>,
    pub(crate) lease: Ask<Option<Lease>>,
    /// The part of the keys that is worked on; `None` if that is all.
    pub(crate) share: Option<Share>,
}

/// An informer of the program.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// The name in addresses: that of the resource, with a number if there are several.
    pub(super) id: String,
    pub(super) informer: Informer<DynamicObject>,
}

impl Program {
    /// The informers, in the order of their names.
    pub(super) fn caches(&self) -> Vec<Cache> {
        let informers = self.factory.informers();
        let mut named: Vec<_> = informers
            .into_iter()
            .map(|informer| (informer.resource().to_string(), informer))
            .collect();
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut seen: HashMap<String, usize> = HashMap::new();
        let cache = |(name, informer): (String, Informer<DynamicObject>)| {
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            let id = match *count {
                1 => name,
                number => format!("{name} #{number}"),
            };
            Cache { id, informer }
        };
        named.into_iter().map(cache).collect()
    }

    /// The informer of this name.
    pub(super) fn cache(&self, id: &str) -> Option<Cache> {
        self.caches().into_iter().find(|cache| cache.id == id)
    }
}

impl Cache {
    /// Returns whether its objects are Secrets.
    pub(super) fn holds_secrets(&self) -> bool {
        self.informer.resource().is_secrets()
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// `deployments.apps`
pub(super) fn type_name(info: &ResourceInfo) -> String {
    let of = &info.resource;
    match of.group.is_empty() {
        true => of.resource.clone(),
        false => format!("{}.{}", of.resource, of.group),
    }
}

/// A state in one word.
pub(super) fn word(state: &InformerState) -> &'static str {
    match state {
        InformerState::Pending => "pending",
        InformerState::Listing { .. } => "listing",
        InformerState::Synced { .. } => "synced",
        InformerState::Stale { .. } => "stale",
        InformerState::Forbidden(_) => "forbidden",
        InformerState::NoSuchKind(_) => "no-such-kind",
        InformerState::Stopped => "stopped",
        _ => "unknown",
    }
}
