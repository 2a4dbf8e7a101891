//! Dynamic types: resources that the program knows by name only.
//!
//! ```text
//! discovery ─▶ what `Widget` is ─┐
//! a name ─▶ ResourceInfo ────────┴▶ informers of DynamicObject ─▶ fields by their paths
//! ```
//!
//! Prints each Widget with its size, and each Gadget. Nobody has to install Gadgets first: their
//! informer waits, says so, and lists them once their definition is there.
//!
//! Upstream counterpart: `client-go:dynamic/dynamicinformer`.

use kinform::{
    FieldPath, GroupVersionResource, Handlers, Informer, InformerFactory, ResourceInfo, Scope,
};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::pinned_kind;
use serde_json::Value;

use crate::start::{Failure, Out, Start};

/// Prints a field of each object that comes or changes.
fn follow(informer: &Informer<DynamicObject>, path: &str, out: &Out) -> Result<(), Failure> {
    let path: FieldPath = path.parse()?;
    let (kind, out) = (informer.resource().kind.clone(), out.clone());
    informer.add_handler(Handlers::new().on_add(move |object| {
        let found = object.at(&path).unwrap_or_default().join(",");
        out.line(format!("{kind} {}: {found}", object.key()));
    }))?;
    Ok(())
}

/// Follows both types until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let factory = InformerFactory::new(start.client.clone());

    // What the server says about a kind: its plural, its scope, what may be done with it.
    let widget = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let discovered = pinned_kind(&start.client, &widget).await?;
    let widgets = factory.select(discovered).build();
    follow(&widgets, "spec.size", &start.out)?;

    // The same without a question to the server.
    let gadgets = GroupVersionResource::new("example.com", "v1", "gadgets");
    let gadgets = ResourceInfo::new(gadgets, "Gadget", Scope::Namespaced);
    let gadgets = factory.select::<DynamicObject>(gadgets).build();
    follow(&gadgets, "metadata.name", &start.out)?;

    factory.start()?;
    widgets.synced().await?;
    let first = widgets.list().to_objs().into_iter().next();
    if let Some(widget) = first {
        // Decoded, it is JSON.
        let data: &Value = &widget.typed()?.data;
        start.out.line(format!("the first one is {data}"));
    }
    let waiting = gadgets.state_when(|state| state.trouble().is_some() || state.is_synced());
    if let Some(trouble) = waiting.await.trouble() {
        start.out.line(format!("Gadgets wait: {trouble}"));
    }
    gadgets.synced().await?;
    start.out.line("Gadgets are synced");
    start.stop.cancelled().await;
    factory.shutdown().await;
    Ok(())
}
