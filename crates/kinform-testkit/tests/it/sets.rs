//! StatefulSets and DaemonSets beside a test's server: their lives, as a real controller manager was
//! recorded to lead them.

mod daemon;
mod stateful;

use std::fmt::Debug;

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Pod};
use kinform_testkit::TestServer;
use kube_client::Api;
use kube_client::api::{ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube_core::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

async fn patch<K>(api: &TestServer, patch: Value)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + DeserializeOwned,
{
    let objects: Api<K> = Api::default_namespaced(api.client());
    let patch = Patch::Strategic(patch);
    let params = PatchParams::default();
    objects.patch("x", &params, &patch).await.unwrap();
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

async fn all<K>(api: &TestServer) -> Vec<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + DeserializeOwned,
{
    let objects: Api<K> = Api::default_namespaced(api.client());
    objects.list(&ListParams::default()).await.unwrap().items
}

/// The events of a kind since a version, in words: `+` an object that is added, `-` one that is gone,
/// `~` one that begins to be deleted.
async fn since<K>(api: &TestServer, version: &str) -> Vec<(u64, String)>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + DeserializeOwned,
{
    let objects: Api<K> = Api::default_namespaced(api.client());
    let params = WatchParams::default().timeout(1);
    let stream = objects.watch(&params, version).await.unwrap();
    let (mut told, mut ending) = (Vec::new(), Vec::new());
    let mut stream = stream.boxed();
    while let Some(event) = stream.next().await {
        let (sign, object) = match event.unwrap() {
            WatchEvent::Added(object) => ('+', object),
            WatchEvent::Deleted(object) => ('-', object),
            WatchEvent::Modified(object) => ('~', object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(error) => panic!("{error}"),
        };
        let meta = object.meta();
        if sign == '~' && (meta.deletion_timestamp.is_none() || ending.contains(&meta.uid)) {
            continue;
        }
        if sign == '~' {
            ending.push(meta.uid.clone());
        }
        let version = meta.resource_version.as_deref().unwrap().parse().unwrap();
        told.push((version, format!("{sign}{}", meta.name.as_deref().unwrap())));
    }
    told
}

async fn version(api: &TestServer) -> String {
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let pods = pods.list(&ListParams::default()).await.unwrap();
    pods.metadata.resource_version.unwrap()
}

/// The messages of the events with a reason, and how often each was told.
async fn told(api: &TestServer, reason: &str) -> Vec<(String, i32)> {
    let mut events: Vec<Event> = all(api).await;
    events.retain(|event| event.reason.as_deref() == Some(reason));
    events.sort_by_key(|event| event.metadata.name.clone());
    let words = |event: Event| (event.message.unwrap_or_default(), event.count.unwrap_or(1));
    events.into_iter().map(words).collect()
}
