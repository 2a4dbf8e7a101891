//! kube's own client and watcher, unmodified, over TLS from the kubeconfig.

use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kinform_apiserver::Server;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event, InitialListStrategy};
use serde_json::json;

use crate::support::namespace;

async fn connect(server: &Server) -> Api<ConfigMap> {
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    Api::namespaced(kube::Client::try_from(config).unwrap(), "a")
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "v"}})).unwrap()
}

#[tokio::test]
async fn kube_lists_creates_patches_and_deletes() {
    let server = Server::builder().start().await.unwrap();
    namespace(&server.service(), "a").await;
    let api = connect(&server).await;
    for name in ["x", "y", "z"] {
        api.create(&PostParams::default(), &config_map(name))
            .await
            .unwrap();
    }
    let again = api
        .create(&PostParams::default(), &config_map("x"))
        .await
        .unwrap_err();
    assert!(
        matches!(&again, kube::Error::Api(status) if status.reason == "AlreadyExists"),
        "{again}"
    );
    let patch = Patch::Merge(json!({"data": {"k": null, "l": "w"}}));
    let patched = api
        .patch("x", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(
        patched.data.unwrap().into_iter().collect::<Vec<_>>(),
        [("l".into(), "w".into())]
    );
    api.delete("y", &DeleteParams::default()).await.unwrap();
    let list = api.list(&ListParams::default().limit(1)).await.unwrap();
    assert_eq!(
        (list.items.len(), list.metadata.remaining_item_count),
        (1, Some(1))
    );
    let names: Vec<_> = api.list(&ListParams::default()).await.unwrap().items;
    let names: Vec<_> = names
        .into_iter()
        .filter_map(|map| map.metadata.name)
        .collect();
    assert_eq!(names, ["x", "z"]);
    server.stop().await;
}

/// The next event as text.
async fn told(
    events: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin),
) -> String {
    let name = |map: ConfigMap| map.metadata.name.unwrap_or_default();
    let next = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
    match next.unwrap().unwrap().unwrap() {
        Event::Init => "init".to_owned(),
        Event::InitApply(map) => format!("has {}", name(map)),
        Event::InitDone => "done".to_owned(),
        Event::Apply(map) => format!("applied {}", name(map)),
        Event::Delete(map) => format!("deleted {}", name(map)),
    }
}

#[tokio::test]
async fn kubes_watcher_works_in_both_modes_and_over_a_cut() {
    for strategy in [
        InitialListStrategy::ListWatch,
        InitialListStrategy::StreamingList,
    ] {
        let server = Server::builder().start().await.unwrap();
        namespace(&server.service(), "a").await;
        let api = connect(&server).await;
        api.create(&PostParams::default(), &config_map("x"))
            .await
            .unwrap();
        let config = watcher::Config {
            initial_list_strategy: strategy,
            ..watcher::Config::default()
        };
        let config = config.fields("metadata.name!=kube-root-ca.crt");
        let mut events = Box::pin(watcher::watcher(api.clone(), config));
        for want in ["init", "has x", "done"] {
            assert_eq!(told(&mut events).await, want);
        }
        api.create(&PostParams::default(), &config_map("y"))
            .await
            .unwrap();
        assert_eq!(told(&mut events).await, "applied y");
        server.cut_watches();
        api.delete("x", &DeleteParams::default()).await.unwrap();
        assert_eq!(told(&mut events).await, "deleted x");
        // One initial state, and one watch more after the cut: nothing was listed twice.
        let (lists, watches) = (
            server.journal().count("list", "configmaps"),
            server.journal().count("watch", "configmaps"),
        );
        assert!(
            matches!((lists, watches), (1, 2) | (0, 2)),
            "{lists} lists, {watches} watches"
        );
        server.stop().await;
    }
}
