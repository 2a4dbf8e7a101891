//! The sample controller on a server of its own: the promises of upstream's test, and faults.
//!
//! ```text
//! TestServer ⇄ sample controller (an operator, spawned);  the test writes Foos and reads Deployments
//! ```
#![expect(clippy::unwrap_used, reason = "tests may unwrap")]

#[cfg(feature = "operator")]
mod program;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use kinform::InformerFactory;
use kinform_testkit::{Operator, TestServer};
use kube::Api;
use sample_controller::{Foo, FooSpec, MESSAGE_SYNCED, REASON_EXISTS, deployment_for};

/// A server with the controller running on it.
async fn running() -> (TestServer, Operator) {
    let api = TestServer::start().crd::<Foo>().await.unwrap();
    let operator = api.spawn(|config| async move {
        let client = kinform::source::client_for(config, &Default::default()).unwrap();
        let factory = InformerFactory::new(client.clone());
        let ended = sample_controller::run(&factory, client, stop()).await;
        factory.shutdown().await;
        ended
    });
    (api, operator)
}

/// Never: an operator is stopped from outside.
fn stop() -> tokio_util::sync::CancellationToken {
    tokio_util::sync::CancellationToken::new()
}

fn foo(name: &str, replicas: i32) -> Foo {
    let spec = FooSpec {
        deployment_name: format!("{name}-deployment"),
        replicas: Some(replicas),
    };
    let mut foo = Foo::new(name, spec);
    foo.metadata.namespace = Some("default".to_owned());
    foo
}

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.replicas
}

#[tokio::test]
async fn a_foo_becomes_a_deployment_that_it_owns() {
    // sample-controller: TestCreatesDeployment
    let (api, operator) = running().await;
    let created = api.create(&foo("web", 2)).await.unwrap();
    let is_right = |d: &Deployment| replicas(d) == Some(2);
    let made = api.until("default/web-deployment", is_right).await.unwrap();
    let owner = &made.metadata.owner_references.unwrap()[0];
    assert_eq!((&owner.name[..], owner.controller), ("web", Some(true)));
    assert_eq!(Some(&owner.uid), created.metadata.uid.as_ref());
    operator.stop().await.unwrap();
}

#[tokio::test]
async fn a_deployment_that_is_gone_comes_back_also_through_expired_history() {
    let (api, operator) = running().await;
    api.create(&foo("web", 2)).await.unwrap();
    let there = |_: &Deployment| true;
    let first: Deployment = api.until("default/web-deployment", there).await.unwrap();
    api.expire_history();
    api.cut_watches();
    api.delete::<Deployment>("default/web-deployment")
        .await
        .unwrap();
    let another = |d: &Deployment| d.metadata.uid != first.metadata.uid;
    let again = api.until("default/web-deployment", another).await.unwrap();
    assert_eq!(replicas(&again), Some(2));
    operator.stop().await.unwrap();
}

#[tokio::test]
async fn a_deployment_of_somebody_else_is_refused_with_an_event() {
    // sample-controller: TestNotControlledByUs
    let (api, operator) = running().await;
    let mut theirs = deployment_for(&foo("web", 7));
    theirs.metadata.owner_references = None;
    api.create(&theirs).await.unwrap();
    api.create(&foo("web", 2)).await.unwrap();
    let events: Api<Event> = Api::namespaced(api.client(), "default");
    let limit = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    let told = loop {
        assert!(tokio::time::Instant::now() < limit, "no event came");
        let list = events
            .list(&kube::api::ListParams::default())
            .await
            .unwrap();
        let told = list
            .items
            .into_iter()
            .find(|event| event.reason.as_deref() == Some(REASON_EXISTS));
        match told {
            Some(told) => break told,
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!(
        told.message.as_deref(),
        Some("Resource \"web-deployment\" already exists and is not managed by Foo")
    );
    assert_ne!(told.message.as_deref(), Some(MESSAGE_SYNCED));
    let untouched: Deployment = api.get("default/web-deployment").await.unwrap().unwrap();
    assert_eq!(replicas(&untouched), Some(7));
    operator.stop().await.unwrap();
}

#[cfg(feature = "operator")]
#[tokio::test]
async fn the_deployment_of_a_deleted_foo_goes_before_its_finalizer_and_others_stay() {
    use kinform_operator::Settings;
    use sample_controller::{COMPONENT, FINALIZER};

    let server = TestServer::start().with(|server| server.without_garbage_collection());
    let api = server.crd::<Foo>().await.unwrap();
    let mut theirs = deployment_for(&foo("others", 7));
    theirs.metadata.owner_references = None;
    api.create(&theirs).await.unwrap();
    let mut settings = Settings::default();
    settings.probe_address = None;
    let operator = kinform_operator::Operator::builder(COMPONENT).settings(settings);
    let operator = operator.with_config(api.config()).unwrap();
    let (client, events) = (operator.client(), operator.events().clone());
    let reconciler = sample_controller::reconciler(operator.factory(), client, events);
    operator.add(reconciler).unwrap();
    let stop = stop();
    let (running, token) = (operator.clone(), stop.clone());
    let running = tokio::spawn(async move { running.run_until(token).await });

    for name in ["web", "others"] {
        api.create(&foo(name, 2)).await.unwrap();
        let is_kept = |foo: &Foo| foo.metadata.finalizers.iter().flatten().eq([FINALIZER]);
        api.until(&format!("default/{name}"), is_kept)
            .await
            .unwrap();
    }
    let there = |_: &Deployment| true;
    api.until("default/web-deployment", there).await.unwrap();
    for name in ["web", "others"] {
        api.delete::<Foo>(&format!("default/{name}")).await.unwrap();
        api.until_gone::<Foo>(&format!("default/{name}"))
            .await
            .unwrap();
    }
    let gone = api.get::<Deployment>("default/web-deployment").await;
    assert!(gone.unwrap().is_none());
    let kept = api.get::<Deployment>("default/others-deployment").await;
    assert_eq!(kept.unwrap().as_ref().and_then(replicas), Some(7));
    stop.cancel();
    running.await.unwrap().unwrap();
}
