//! A store of one's own: the versions of all pods of the cluster that the kubeconfig names, in a map.
//!
//! `cargo run -p kinform --features rustls-tls --example own_store`; ctrl-c ends it and prints the number of pods.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kinform::source::{HttpSource, default_client};
use kinform::{
    CancellationToken, Error, GroupVersionResource, Obj, ObjectKey, Reflector, ReflectorStore,
    ResourceInfo, Scope, StoreError,
};

#[derive(Default)]
struct Versions(BTreeMap<ObjectKey, String>);

impl Versions {
    fn put(&mut self, pod: &Obj<Pod>) {
        let version = pod.resource_version().to_owned();
        println!("{} is at {version}", pod.key());
        self.0.insert(pod.key(), version);
    }
}

impl ReflectorStore<Pod> for Versions {
    fn add(&mut self, pod: Obj<Pod>) -> Result<(), StoreError> {
        self.put(&pod);
        Ok(())
    }

    fn update(&mut self, pod: Obj<Pod>) -> Result<(), StoreError> {
        self.put(&pod);
        Ok(())
    }

    fn delete(&mut self, pod: Obj<Pod>) -> Result<(), StoreError> {
        println!("{} is gone", pod.key());
        self.0.remove(&pod.key());
        Ok(())
    }

    fn replace(&mut self, pods: Vec<Obj<Pod>>, version: &str) -> Result<(), StoreError> {
        println!("{} pods at {version}", pods.len());
        self.0.clear();
        pods.iter().for_each(|pod| self.put(pod));
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let pods = GroupVersionResource::new("", "v1", "pods");
    let pods = ResourceInfo::new(pods, "Pod", Scope::Namespaced);
    let source = HttpSource::new(default_client().await?, pods);
    let stop = CancellationToken::new();
    let reflector = Reflector::new(source, Versions::default()).shutdown_on(stop.clone());
    tokio::spawn(async move {
        // Without a handler for ctrl-c, the process ends by itself.
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.cancel();
        }
    });
    let versions = reflector.run().await;
    println!("{} pods at the end", versions.0.len());
    Ok(())
}
