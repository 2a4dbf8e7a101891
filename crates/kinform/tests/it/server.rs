//! Informers against the embedded server, over real sockets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kinform::source::{ClientOptions, Compression, Wire, client_for};
use kinform::{
    Encoding, GroupVersionResource, Handlers, Informer, InformerFactory, InformerState,
    Notification, ReflectorOptions, ReportEvent, ResourceInfo, Scope, StreamingList,
};
use kinform_testkit::TestServer;
use kube_client::Client;
use kube_client::client::Body;
use kube_core::metadata::PartialObjectMeta;
use kube_core::{DynamicObject, ObjectMeta};

const SOON: Duration = Duration::from_secs(10);

/// Fails in place of a test that waits for ever.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    let awaited = tokio::time::timeout(SOON, future).await;
    awaited.expect("it comes within ten seconds")
}

fn config_map(namespace: &str, name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([("key".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

async fn namespaced(api: &TestServer, namespaces: &[&str]) {
    for name in namespaces {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some((*name).to_owned());
        api.create(&namespace).await.unwrap();
    }
}

#[tokio::test]
async fn a_typed_cache_follows_a_real_server() {
    let api = TestServer::start().await.unwrap();
    api.create(&config_map("default", "a", "1")).await.unwrap();
    let factory = InformerFactory::new(api.client());
    let maps = factory.informer::<ConfigMap>();
    let mut changes = maps.changes().unwrap();
    factory.start().unwrap();
    factory.synced_within(SOON).await.unwrap();
    let a = maps.lister().namespace("default").get("a").unwrap();
    assert_eq!(a.typed().unwrap().data.as_ref().unwrap()["key"], "1");
    let mut heard = Vec::new();
    while heard.len() < 4 {
        heard.push(match soon(changes.next()).await.unwrap() {
            Notification::Added(added) => format!("add {} {}", added.name(), added.is_initial()),
            Notification::Deleted(object) => format!("delete {}", object.name()),
            Notification::Synced => "synced".to_owned(),
            other => format!("{other:?}"),
        });
        if heard.len() == 2 {
            api.create(&config_map("default", "b", "2")).await.unwrap();
            api.delete::<ConfigMap>("default/a").await.unwrap();
        }
    }
    assert_eq!(heard, ["add a true", "synced", "add b false", "delete a"]);
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
    api.stop().await;
}

#[tokio::test]
async fn a_cut_and_expired_history_lose_nothing() {
    let api = TestServer::start().await.unwrap();
    let factory = InformerFactory::new(api.client());
    let maps = factory.informer::<ConfigMap>();
    factory.start().unwrap();
    factory.synced_within(SOON).await.unwrap();
    let mut changes = maps.changes().unwrap();
    for at in 0..3 {
        // Sees a lagging server: the writes are history when it is gone.
        api.server().lag();
        api.create(&config_map("default", &format!("m{at}"), "1"))
            .await
            .unwrap();
        api.expire_history();
        api.cut_watches();
        api.server().catch_up();
        loop {
            if let Notification::Added(object) = soon(changes.next()).await.unwrap() {
                assert_eq!(object.name(), format!("m{at}"));
                break;
            }
        }
    }
    factory.shutdown().await;
    api.stop().await;
}

#[tokio::test]
async fn several_namespaces_are_one_cache_and_relist_apart() {
    let api = TestServer::start().await.unwrap();
    namespaced(&api, &["a", "b", "c"]).await;
    for namespace in ["a", "b", "c"] {
        api.create(&config_map(namespace, "x", "1")).await.unwrap();
    }
    let factory = InformerFactory::builder(api.client())
        .namespaces(["a", "b"])
        .build();
    let maps = factory.informer::<ConfigMap>();
    let deleted = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&deleted);
    let registration = maps
        .add_handler(Handlers::new().on_delete(move |_| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }))
        .unwrap();
    factory.start().unwrap();
    factory.synced_within(SOON).await.unwrap();
    assert!(registration.synced().await);
    let keys: Vec<_> = maps.list().keys().iter().map(ToString::to_string).collect();
    assert_eq!(keys, ["a/x", "b/x"]);
    assert_eq!(maps.store().in_namespace("b").len(), 1);
    assert_eq!(maps.snapshot().index_values("namespace").unwrap().len(), 2);
    let mut reports = maps.reports();
    maps.relist();
    let mut relisted = 0;
    while relisted < 2 {
        if let ReportEvent::Listed { .. } = soon(reports.next()).await.unwrap().event {
            relisted += 1;
        }
    }
    assert_eq!(maps.list().len(), 2);
    assert_eq!(deleted.load(std::sync::atomic::Ordering::Relaxed), 0);
    // A resource of the cluster is watched once, whatever the namespaces.
    let namespaces = factory.informer::<Namespace>();
    factory.start().unwrap();
    namespaces.synced().await.unwrap();
    assert!(namespaces.list().len() >= 3);
    factory.shutdown().await;
    api.stop().await;
}

#[tokio::test]
async fn metadata_alone_is_a_watch_of_its_own() {
    let api = TestServer::start().await.unwrap();
    api.create(&config_map("default", "a", "1")).await.unwrap();
    let factory = InformerFactory::new(api.client());
    let maps = factory.informer::<PartialObjectMeta<ConfigMap>>();
    factory.start().unwrap();
    factory.synced_within(SOON).await.unwrap();
    let list = maps.list();
    let a = list.iter().next().unwrap();
    assert!(!String::from_utf8(a.to_json()).unwrap().contains("\"data\""));
    let typed = a.typed().unwrap();
    assert_eq!(typed.metadata.name.as_deref(), Some("a"));
    factory.shutdown().await;
    api.stop().await;
}

/// The config maps in a cache, as values with their versions.
fn held(maps: &Informer<ConfigMap>) -> Vec<(String, ConfigMap, serde_json::Value)> {
    let list = maps.list();
    let one = |map: kinform::ObjRef<'_, ConfigMap>| {
        let version = format!("{} {}", map.key(), map.resource_version());
        let json = serde_json::from_slice(&map.to_json()).unwrap();
        (version, (*map.typed().unwrap()).clone(), json)
    };
    let mut all: Vec<_> = list.iter().map(one).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

#[tokio::test]
async fn both_encodings_give_the_same_cache() {
    let api = TestServer::start().await.unwrap();
    for at in 0..5 {
        let map = config_map("default", &format!("m{at}"), "é\"\n");
        api.create(&map).await.unwrap();
    }
    let mut caches = Vec::new();
    for (wire, encoding) in [
        (Wire::Auto, Encoding::Protobuf),
        (Wire::Json, Encoding::Json),
    ] {
        let factory = InformerFactory::builder(api.client()).wire(wire).build();
        let maps = factory.informer::<ConfigMap>();
        factory.start().unwrap();
        factory.synced_within(SOON).await.unwrap();
        caches.push((factory, maps, encoding));
    }
    api.create(&config_map("default", "z", "late"))
        .await
        .unwrap();
    api.delete::<ConfigMap>("default/m0").await.unwrap();
    for (_, maps, encoding) in &caches {
        let mut changes = maps.changes().unwrap();
        let (mut has_z, mut has_m0) = (false, true);
        while !has_z || has_m0 {
            match soon(changes.next()).await.unwrap() {
                Notification::Added(object) => has_z |= object.name() == "z",
                Notification::Deleted(object) => has_m0 &= object.name() != "m0",
                Notification::Synced => {
                    has_m0 &= maps.lister().namespace("default").get("m0").is_ok()
                }
                _ => {}
            }
        }
        for map in maps.list().iter() {
            assert_eq!(map.raw().encoding(), *encoding);
        }
    }
    assert_eq!(held(&caches[0].1).len(), 5);
    assert_eq!(held(&caches[0].1), held(&caches[1].1));
    for (factory, ..) in caches {
        factory.shutdown().await;
    }
    api.stop().await;
}

/// A client that notes how each reply was encoded.
fn noting_encodings(client: Client) -> (Client, Arc<Mutex<Vec<String>>>) {
    let encodings: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&encodings);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, noted) = (client.clone(), Arc::clone(&noted));
        async move {
            let reply = client.send(request).await?;
            let encoding = reply.headers().get("content-encoding");
            let encoding = encoding.map_or("plain", |value| value.to_str().unwrap());
            noted.lock().unwrap().push(encoding.to_owned());
            Ok::<_, kube_client::Error>(reply)
        }
    });
    (Client::new(service, "default"), encodings)
}

#[tokio::test]
async fn a_large_list_can_come_compressed() {
    let api = TestServer::start().await.unwrap();
    for at in 0..40 {
        let value = "v".repeat(8_000);
        api.create(&config_map("default", &format!("m{at}"), &value))
            .await
            .unwrap();
    }
    for (compression, expected) in [(Compression::Gzip, true), (Compression::Identity, false)] {
        let (client, encodings) = noting_encodings(api.client());
        let factory = InformerFactory::builder(client)
            .compression(compression)
            .reflector(ReflectorOptions::new().with_streaming_list(StreamingList::Never))
            .build();
        let maps = factory.informer::<ConfigMap>();
        factory.start().unwrap();
        factory.synced_within(SOON).await.unwrap();
        assert_eq!(maps.list().typed().count(), 40);
        let encodings = encodings.lock().unwrap().clone();
        assert_eq!(encodings[0] == "gzip", expected, "{encodings:?}");
        factory.shutdown().await;
    }
    api.stop().await;
}

#[tokio::test]
async fn a_kind_that_is_not_there_yet_is_waited_for() {
    let api = TestServer::start().await.unwrap();
    let factory = InformerFactory::new(api.client());
    let foos = factory
        .select::<DynamicObject>(ResourceInfo::new(
            GroupVersionResource::new("samplecontroller.k8s.io", "v1alpha1", "foos"),
            "Foo",
            Scope::Namespaced,
        ))
        .build();
    factory.start().unwrap();
    let state = foos.state_when(|state| state.trouble().is_some()).await;
    assert!(matches!(state, InformerState::NoSuchKind(_)), "{state}");
    factory.shutdown().await;
    api.stop().await;
}

#[tokio::test]
async fn wrong_credentials_are_told() {
    let api = TestServer::start().await.unwrap();
    let mut config = api.config();
    config.auth_info.token = Some("wrong".to_owned().into());
    let factory = InformerFactory::new(client_for(config, &ClientOptions::default()).unwrap());
    factory.informer::<ConfigMap>();
    factory.start().unwrap();
    let informer = &factory.informers()[0];
    let state = informer.state_when(|state| state.trouble().is_some()).await;
    assert!(matches!(state, InformerState::Forbidden(_)), "{state}");
    assert_eq!(state.trouble().unwrap().reason, "Unauthorized");
    factory.shutdown().await;
    api.stop().await;
}

#[tokio::test]
async fn an_operator_that_leaves_nothing_behind_stops() {
    let api = TestServer::start().await.unwrap();
    let operator = api.spawn(|config| async move {
        let factory = InformerFactory::from_config(config).unwrap();
        factory.informer::<ConfigMap>();
        factory.start().unwrap();
        factory.synced_within(SOON).await.unwrap();
        std::future::pending::<()>().await;
    });
    operator.stop().await.unwrap();
    api.stop().await;
}

#[cfg(feature = "rustls-tls")]
#[tokio::test]
async fn tls_is_spoken_with_the_authority_of_the_configuration() {
    let server = kinform_apiserver::Server::builder().start().await.unwrap();
    let kubeconfig = kube_client::config::Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let options = kube_client::config::KubeConfigOptions::default();
    let config = kube_client::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    let factory = InformerFactory::from_config(config).unwrap();
    factory.informer::<ConfigMap>();
    factory.start().unwrap();
    factory.synced_within(SOON).await.unwrap();
    factory.shutdown().await;
    server.stop().await;
}
