//! The finalizer of a controller against the embedded server, with rivals, under paused time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::finalizer::Settled;
use kinform::source::{Body, ListerWatcher};
use kinform::{
    Action, CancellationToken, Cleanup, Controller, Ctx, Error, InformerFactory, ListOptions,
    ResourceInfo, SourceError, WatchOptions, finalizer, predicate,
};
use kinform_apiserver::{Fault, FaultRule};
use kinform_testkit::TestServer;
use kinform_testkit::server::Operator;
use serde_json::json;

use crate::foo::Foo;

const SECOND: Duration = Duration::from_secs(1);
const NAME: &str = "example.com/cleanup";

/// The observations of a controller, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn add(&self, saw: impl Into<String>) {
        self.0.lock().unwrap().push(saw.into());
    }

    async fn take(&self) -> Vec<String> {
        tokio::time::sleep(SECOND).await;
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

async fn server() -> TestServer {
    TestServer::start().crd::<Foo>().in_process().await.unwrap()
}

fn finalizers(foo: &Foo) -> Vec<String> {
    foo.metadata.finalizers.clone().unwrap_or_default()
}

async fn cleanup(foo: Arc<Foo>, seen: Ctx<Seen>) -> Result<Cleanup, Error> {
    let times = foo.spec.replicas;
    if seen
        .0
        .lock()
        .unwrap()
        .iter()
        .filter(|saw| saw.starts_with("clean"))
        .count()
        < times as usize
    {
        seen.add("clean up, not yet");
        return Ok(Cleanup::NotYet(Action::requeue(SECOND / 100)));
    }
    seen.add("clean up");
    Ok(Cleanup::Done)
}

async fn reconcile(foo: Arc<Foo>, seen: Ctx<Seen>) -> Result<Action, Error> {
    let deleted = foo.metadata.deletion_timestamp.is_some();
    seen.add(format!("reconcile {:?} {deleted}", finalizers(&foo)));
    Ok(Action::await_change())
}

fn operator(api: &TestServer, seen: &Seen) -> Operator {
    let seen = seen.clone();
    api.run(|client| async move {
        let factory = InformerFactory::new(client);
        let foos = factory.informer::<Foo>();
        factory.start()?;
        let controller = Controller::of(&foos).context(seen).finalizer(NAME, cleanup);
        controller.run(reconcile).await
    })
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_stored_before_the_first_reconcile_and_removed_after_the_cleanup() {
    // controller-runtime: finalizer_test.go
    let (api, seen) = (server().await, Seen::default());
    let operator = operator(&api, &seen);
    let mut foo = Foo::named("a");
    foo.spec.replicas = 2;
    foo.metadata.finalizers = Some(vec!["example.com/other".into()]);
    api.create(&foo).await.unwrap();
    let both = r#"reconcile ["example.com/other", "example.com/cleanup"] false"#;
    assert_eq!(
        seen.take().await,
        [both],
        "the same run goes on, and its event is hidden"
    );
    api.delete::<Foo>("default/a").await.unwrap();
    let cleaned = ["clean up, not yet", "clean up, not yet", "clean up"];
    assert_eq!(seen.take().await, cleaned);
    let foo: Foo = api.get("default/a").await.unwrap().unwrap();
    assert_eq!(finalizers(&foo), ["example.com/other"]);
    kinform::patch(
        &api.client(),
        "test",
        &foo,
        json!({"metadata": {"finalizers": null}}),
    )
    .await
    .unwrap();
    api.until_gone::<Foo>("default/a").await.unwrap();
    assert!(
        seen.take().await.is_empty(),
        "what others finish is not reconciled"
    );
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn k20_a_rival_that_edits_the_list_loses_no_finalizer() {
    // Written between the read and the patch, in whatever order.
    let api = server().await;
    let client = api.client();
    let stale = api.create(&Foo::named("a")).await.unwrap();
    let list = |list: &[&str]| json!({"metadata": {"finalizers": list}});
    let rivals = list(&["example.com/rival"]);
    kinform::patch(&client, "rival", &stale, rivals)
        .await
        .unwrap();
    let Ok(Settled::Written(both)) = finalizer::add(&client, "test", &stale, NAME).await else {
        panic!("it was not there");
    };
    assert_eq!(finalizers(&both), ["example.com/rival", NAME]);
    let alone = kinform::patch(&client, "rival", &both, list(&[NAME]))
        .await
        .unwrap();
    let rivals = list(&[NAME, "example.com/late"]);
    kinform::patch(&client, "rival", &both, rivals)
        .await
        .unwrap();
    let removed = finalizer::remove(&client, "test", &alone, NAME)
        .await
        .unwrap();
    assert!(matches!(removed, Settled::Written(left) if finalizers(&left) == ["example.com/late"]));
    api.stop().await;
    for seed in 0..10 {
        let api = TestServer::start()
            .crd::<Foo>()
            .seed(seed)
            .in_process()
            .await
            .unwrap();
        let seen = Seen::default();
        let operator = operator(&api, &seen);
        let created = api.create(&Foo::named("a")).await.unwrap();
        // A whole-list write right after the creation, as other controllers do it.
        let rival = json!({"metadata": {
            "resourceVersion": created.metadata.resource_version,
            "finalizers": ["example.com/rival"],
        }});
        let rival = kinform::patch(&api.client(), "rival", &created, rival).await;
        let reconciled = seen.take().await;
        assert!(!reconciled.is_empty());
        let foo: Foo = api.get("default/a").await.unwrap().unwrap();
        let mut expected = Vec::new();
        expected.extend(rival.is_ok().then_some("example.com/rival"));
        expected.push(NAME);
        assert_eq!(finalizers(&foo), expected, "seed {seed}");
        // The rival leaves while the cleanup runs.
        api.delete::<Foo>("default/a").await.unwrap();
        let leave = json!({"metadata": {"finalizers": [NAME]}});
        let _too_late = kinform::patch(&api.client(), "rival", &foo, leave).await;
        api.until_gone::<Foo>("default/a").await.unwrap();
        operator.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn k21_a_namesake_keeps_its_finalizer_and_a_vanished_object_is_no_error() {
    let (api, seen) = (server().await, Seen::default());
    // The cache sees neither the deletion nor the namesake while the first one is cleaned up.
    let there = seen.clone();
    let operator = {
        let client = api.client();
        api.run(|operators| async move {
            let factory = InformerFactory::new(operators);
            let foos = factory.informer::<Foo>();
            factory.start()?;
            let controller = Controller::of(&foos).context((there, client));
            let metrics = controller.metrics();
            let controller = controller.finalizer(
                NAME,
                |foo: Arc<Foo>, cx: Ctx<(Seen, kube_client::Client)>| async move {
                    // Another one removes it, and a successor is made at once.
                    let free = json!({"metadata": {"finalizers": null}});
                    kinform::patch(&cx.1, "rival", &*foo, free).await?;
                    let mut again = Foo::named("a");
                    again.metadata.finalizers = Some(vec![NAME.into()]);
                    let foos = kube_client::Api::<Foo>::namespaced(cx.1.clone(), "default");
                    let again = foos.create(&Default::default(), &again).await?;
                    cx.0.add(format!("cleaned up {:?}", again.metadata.resource_version));
                    Ok::<_, Error>(())
                },
            );
            let ended = controller
                .run(|_, cx: Ctx<(Seen, kube_client::Client)>| async move {
                    cx.0.add("reconciled");
                    Ok::<_, Error>(Action::await_change())
                })
                .await;
            assert_eq!(metrics.snapshot().failed, 0);
            ended
        })
    };
    let first = api.create(&Foo::named("a")).await.unwrap();
    assert_eq!(seen.take().await, ["reconciled"]);
    api.delete::<Foo>("default/a").await.unwrap();
    let after = seen.take().await;
    let successor: Foo = api.get("default/a").await.unwrap().unwrap();
    let untouched = format!("cleaned up {:?}", successor.metadata.resource_version);
    assert_eq!(after[0], untouched, "nobody wrote the successor");
    assert_eq!(
        after
            .iter()
            .filter(|saw| saw.starts_with("cleaned up"))
            .count(),
        1
    );
    assert_ne!(successor.metadata.uid, first.metadata.uid);
    assert_eq!(finalizers(&successor), [NAME]);
    assert_eq!(successor.metadata.deletion_timestamp, None);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_the_finalizer_keeps_the_object_from_being_reconciled() {
    let (api, seen) = (server().await, Seen::default());
    let refused = kinform::Status::internal_error("no");
    let rule = FaultRule::new(Fault::Reply(refused))
        .on_verb("patch")
        .times(3);
    api.server().faults().inject(rule);
    let operator = operator(&api, &seen);
    api.create(&Foo::named("a")).await.unwrap();
    let stored = r#"reconcile ["example.com/cleanup"] false"#;
    assert_eq!(
        seen.take().await,
        [stored],
        "tried again until it is stored"
    );
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_whose_answer_is_lost_is_stored_and_removed_once() {
    let (api, seen) = (server().await, Seen::default());
    let lose = || {
        let rule = FaultRule::new(Fault::LoseReply).on_verb("patch").times(1);
        api.server().faults().inject(rule);
    };
    lose();
    let operator = operator(&api, &seen);
    api.create(&Foo::named("a")).await.unwrap();
    let stored = r#"reconcile ["example.com/cleanup"] false"#;
    assert_eq!(seen.take().await, [stored]);
    lose();
    api.delete::<Foo>("default/a").await.unwrap();
    api.until_gone::<Foo>("default/a").await.unwrap();
    let cleaned = seen.take().await;
    assert!(cleaned.iter().all(|saw| saw == "clean up"), "{cleaned:?}");
    assert!(!cleaned.is_empty());
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_built_in_kind_gets_its_finalizer_too_and_cleans_up_from_its_own_context() {
    let api = server().await;
    let seen = Seen::default();
    let (there, other) = (seen.clone(), seen.clone());
    let operator = api.run(|client| async move {
        let factory = InformerFactory::new(client);
        let maps = factory.informer::<ConfigMap>();
        factory.start()?;
        // The finalizer is set before the context.
        let controller = Controller::of(&maps).finalizer(NAME, move |_, _: Ctx<()>| {
            other.add("clean up");
            std::future::ready(Ok::<_, Error>(()))
        });
        let reconcile = |map: Arc<ConfigMap>, seen: Ctx<Seen>| async move {
            seen.add(format!("reconcile {:?}", map.metadata.finalizers));
            Ok::<_, Error>(Action::await_change())
        };
        controller.context(there).run(reconcile).await
    });
    let mut map = ConfigMap::default();
    map.metadata.name = Some("m".into());
    api.create(&map).await.unwrap();
    let stored = r#"reconcile Some(["example.com/cleanup"])"#;
    assert_eq!(seen.take().await, [stored]);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    map.metadata.namespace = Some("default".into());
    kinform::patch(&api.client(), "test", &map, label)
        .await
        .unwrap();
    assert_eq!(seen.take().await, [stored]);
    api.delete::<ConfigMap>("default/m").await.unwrap();
    api.until_gone::<ConfigMap>("default/m").await.unwrap();
    assert_eq!(seen.take().await, ["clean up"]);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_needs_objects_and_a_client() {
    let api = server().await;
    let without = InformerFactory::with_sources(|info, _| {
        struct Silent(ResourceInfo);
        impl ListerWatcher for Silent {
            fn list<'a>(&'a self, _: &'a ListOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
                Box::pin(std::future::pending())
            }
            fn watch<'a>(
                &'a self,
                _: &'a WatchOptions,
            ) -> BoxFuture<'a, Result<Body, SourceError>> {
                Box::pin(std::future::pending())
            }
            fn resource(&self) -> &ResourceInfo {
                &self.0
            }
        }
        Arc::new(Silent(info))
    });
    let without = without.build();
    let controller = |factory: &InformerFactory| {
        let controller = Controller::of(&factory.informer::<Foo>());
        controller.context(Seen::default()).finalizer(NAME, cleanup)
    };
    let error = controller(&without).run(reconcile).await.unwrap_err();
    assert!(error.is_config(), "{error}");
    let with = InformerFactory::new(api.client());
    let keys = |_, _| std::future::ready(Ok::<_, Error>(Action::await_change()));
    let error = controller(&with).run_keys(keys).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    let stop = CancellationToken::new();
    stop.cancel();
    let given = controller(&without).client(api.client()).shutdown_on(stop);
    given.run(reconcile).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_added_once_and_removed_with_all_its_copies() {
    // controller-runtime: controllerutil_test.go, AddFinalizer, RemoveFinalizer
    let api = server().await;
    let client = api.client();
    let client = &client;
    let stale = api.create(&Foo::named("a")).await.unwrap();
    let add = async |foo: &Foo, name| finalizer::add(client, "test", foo, name).await.unwrap();
    let remove =
        async |foo: &Foo, name| finalizer::remove(client, "test", foo, name).await.unwrap();
    let Settled::Written(one) = add(&stale, "example.com/one").await else {
        panic!("it was not there");
    };
    assert_eq!(add(&one, "example.com/one").await, Settled::Already);
    // The state that was decided on is old: decided again.
    assert_eq!(add(&stale, "example.com/one").await, Settled::Already);
    let Settled::Written(two) = add(&stale, NAME).await else {
        panic!("it was not there");
    };
    assert_eq!(finalizers(&two), ["example.com/one", NAME]);
    assert_eq!(remove(&two, "example.com/none").await, Settled::Already);
    let copies = json!({"metadata": {"finalizers": [NAME, "example.com/one", NAME]}});
    kinform::patch(client, "test", &two, copies).await.unwrap();
    let Settled::Written(one) = remove(&two, NAME).await else {
        panic!("it was there");
    };
    assert_eq!(finalizers(&one), ["example.com/one"]);
    api.delete::<Foo>("default/a").await.unwrap();
    assert_eq!(add(&one, NAME).await, Settled::Terminating);
    assert!(matches!(
        remove(&one, "example.com/one").await,
        Settled::Written(_)
    ));
    assert_eq!(remove(&one, "example.com/one").await, Settled::Gone);
    api.create(&Foo::named("a")).await.unwrap();
    assert_eq!(add(&one, NAME).await, Settled::Gone);
    let unread = finalizer::add(client, "test", &Foo::named("a"), NAME).await;
    assert!(unread.is_err_and(|error| error.is_invalid()));
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_filter_hides_changes_of_the_primary_resource_only() {
    let (api, seen) = (server().await, Seen::default());
    let there = seen.clone();
    let operator = api.run(|client| async move {
        let factory = InformerFactory::new(client);
        let foos = factory.informer::<Foo>();
        let maps = factory.informer::<ConfigMap>();
        factory.start()?;
        let controller = Controller::of(&foos)
            .owns(&maps)
            .context(there)
            .filter(predicate::generation_changed());
        controller
            .run(|foo: Arc<Foo>, cx: Ctx<Seen>| async move {
                let mut child = ConfigMap::default();
                child.metadata.name = Some("child".into());
                cx.apply(&child).await?;
                cx.status(&foo, |status| status.ready = Some(1)).await?;
                let deleted = foo.metadata.deletion_timestamp.is_some();
                cx.add(format!(
                    "generation {:?} {deleted}",
                    foo.metadata.generation
                ));
                Ok::<_, Error>(Action::await_change())
            })
            .await
    });
    let mut foo = Foo::named("a");
    foo.metadata.finalizers = Some(vec!["example.com/other".into()]);
    let foo = api.create(&foo).await.unwrap();
    let first = seen.take().await;
    assert!(
        !first.is_empty() && first.iter().all(|saw| saw == "generation Some(1) false"),
        "{first:?}"
    );
    // Its own status and this label are not heard.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    kinform::patch(&api.client(), "test", &foo, label)
        .await
        .unwrap();
    assert!(seen.take().await.is_empty());
    api.delete::<ConfigMap>("default/child").await.unwrap();
    let repaired = seen.take().await;
    assert!(!repaired.is_empty(), "the owned object is not filtered");
    api.delete::<Foo>("default/a").await.unwrap();
    assert_eq!(seen.take().await, ["generation Some(2) true"]);
    operator.stop().await.unwrap();
}
