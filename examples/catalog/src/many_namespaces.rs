//! Many namespaces: an informer whose namespaces come and go.
//!
//! ```text
//! Namespaces with watched=true ─▶ add_namespace │ remove_namespace ─▶ informer of ConfigMaps
//! ```
//!
//! Prints what is in the cache of the watched namespaces. The account needs no right on others: each
//! namespace has a list and a watch of its own, and they are one cache with one set of handlers.
//!
//! Upstream counterpart: `controller-runtime:pkg/cache` (`DefaultNamespaces`), which is fixed.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kinform::{Handlers, InformerFactory, Target};

use crate::start::{Failure, Start};

/// A namespace that is always watched: an informer without any would watch all of them.
const HOME: &str = "default";

/// Follows the labels of namespaces until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let factory = InformerFactory::new(start.client);
    let maps = factory.select(Target::<ConfigMap>::new());
    let maps = maps.namespaces([HOME]).build();
    let (added, deleted) = (start.out.clone(), start.out.clone());
    maps.add_handler(
        Handlers::new()
            .on_add(move |map| added.line(format!("+ {}", map.key())))
            .on_delete(move |map| deleted.line(format!("- {}", map.key()))),
    )?;

    // A namespace that loses its label leaves this informer: that is a delete here.
    let watched = factory.select(Target::<Namespace>::new());
    let watched = watched.labels("watched=true").build();
    let (joined, left) = (start.out.clone(), start.out.clone());
    let (adding, removing) = (maps.clone(), maps.clone());
    watched.add_handler(
        Handlers::new()
            .on_add(
                move |namespace| match adding.add_namespace(namespace.name()) {
                    Ok(_) => joined.line(format!("watching {}", namespace.name())),
                    Err(error) => joined.line(format!("{}: {error}", namespace.name())),
                },
            )
            .on_delete(move |namespace| {
                // Its objects leave the cache, and handlers hear them as deleted.
                let name = namespace.object().name();
                removing.remove_namespace(name);
                left.line(format!("no longer watching {name}"));
            }),
    )?;
    factory.start()?;
    start.stop.cancelled().await;
    start
        .out
        .line(format!("in the end: {}", maps.namespaces().join(" ")));
    factory.shutdown().await;
    Ok(())
}
