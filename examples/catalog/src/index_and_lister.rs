//! Index and lister: questions to a cache, without a request to the server.
//!
//! ```text
//! informer ─▶ store ─┬▶ index of a path │ a label │ a function ─▶ the pods of a value, all values
//!                    └▶ lister ─▶ by name, by namespace, by label selector
//! ```
//!
//! Prints the pods of each node, the number of pods of each image, the pods of a label, and one pod by
//! its name. Then it ends.
//!
//! Upstream counterpart: `client-go:tools/cache` (`Indexer`), `client-go:listers`.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinform::{Index, InformerFactory};

use crate::start::{Failure, Start};

/// The images of a pod: an index by a function decodes the pods, one by a path does not.
fn images(pod: &Pod) -> Vec<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.filter_map(|c| c.image.clone()).collect()
}

/// Asks the cache, and ends.
pub async fn run(start: Start) -> Result<(), Failure> {
    let factory = InformerFactory::new(start.client);
    let pods = factory.informer::<Pod>();
    let by_node = pods.add_index(Index::path("spec.nodeName"))?;
    let by_image = pods.add_index(Index::by("image", images))?;
    pods.add_index(Index::label("app"))?; // serves the label selector below
    factory.start()?;
    factory.synced_within(Duration::from_secs(60)).await?;

    for (node, _) in by_node.values() {
        for pod in &by_node.get(&node) {
            let node = node.as_str().unwrap_or_default();
            start.out.line(format!("{node}: {}", pod.key()));
        }
    }
    for (image, pods) in by_image.values() {
        let image = image.as_str().unwrap_or_default();
        start.out.line(format!("{pods} with {image}"));
    }

    let lister = pods.lister().namespace("default");
    for pod in lister.list(&"app=web".parse()?) {
        start.out.line(format!("app=web: {}", pod.name()));
    }
    match lister.get("web-0") {
        Ok(pod) => start.out.line(format!("web-0 has uid {}", pod.uid())),
        Err(error) if error.is_not_found() => start.out.line("there is no web-0"),
        Err(error) => return Err(error.into()),
    }
    factory.shutdown().await;
    Ok(())
}
