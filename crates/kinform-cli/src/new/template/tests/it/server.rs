//! One object, from its creation to its end.

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::conditions;
use kinform_testkit::TestServer;

use crate::{config_map_key, example, key, operator};
use ::gizmo_operator::{FINALIZER, READY, api};

#[tokio::test]
async fn an_object_gets_a_config_map_and_a_status_and_its_end_runs_the_cleanup() {
    // Without garbage collection, only the cleanup can delete the ConfigMap.
    let server = TestServer::start().with(|server| server.without_garbage_collection());
    let server = server.crd::<api::Gizmo>().await.unwrap();
    let running = server.run(operator);

    server.create(&example("a", "hello")).await.unwrap();
    let is_ready = |object: &api::Gizmo| {
        let status = object.status.as_ref();
        status.is_some_and(|status| conditions::is_true(&status.conditions, READY))
    };
    let object = server.until(&key("a"), is_ready).await.unwrap();
    let status = object.status.unwrap();
    assert_eq!(status.observed_generation, object.metadata.generation);
    assert_eq!(object.metadata.finalizers.unwrap(), [FINALIZER]);
    let config_map = server.get::<ConfigMap>(&config_map_key("a")).await;
    let config_map = config_map.unwrap().expect("the ConfigMap exists");
    assert_eq!(config_map.data.unwrap()["text"], "hello");
    let owners = config_map.metadata.owner_references.unwrap();
    assert_eq!(Some(&owners[0].uid), object.metadata.uid.as_ref());

    server.delete::<api::Gizmo>(&key("a")).await.unwrap();
    server.until_gone::<api::Gizmo>(&key("a")).await.unwrap();
    let config_map = server.get::<ConfigMap>(&config_map_key("a")).await;
    assert!(config_map.unwrap().is_none());
    running.stop().await.unwrap();
}
