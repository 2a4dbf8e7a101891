//! The verbs of a reconcile function against the embedded server, under paused time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kinform::owner::{self, Owner, Ownership};
use kinform::{
    Action, Apply, Controller, Ctx, Error, InformerFactory, ObjectKey, StatusEdit, Written,
    conditions, until,
};
use kinform_testkit::TestServer;
use kube_core::ObjectMeta;
use serde_json::json;

use crate::foo::{Foo, FooStatus};

const SECOND: Duration = Duration::from_secs(1);

async fn server() -> TestServer {
    TestServer::start().crd::<Foo>().in_process().await.unwrap()
}

fn map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data = data.iter().map(|&(key, value)| (key.into(), value.into()));
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        ..ConfigMap::default()
    }
}

fn data(map: &ConfigMap) -> Vec<String> {
    let data = map.data.iter().flatten();
    data.map(|(key, value)| format!("{key}={value}")).collect()
}

fn managers(map: &ConfigMap) -> Vec<String> {
    let fields = map.metadata.managed_fields.iter().flatten();
    fields.filter_map(|entry| entry.manager.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_apply_makes_the_object_of_the_key_its_owner() {
    let api = server().await;
    let operator = api.run(|client| async move {
        let factory = InformerFactory::new(client);
        let foos = factory.informer::<Foo>();
        factory.start()?;
        let controller = Controller::of(&foos).operator_name("my-operator");
        let ended = controller
            .run(|foo: Arc<Foo>, cx: Ctx<()>| async move {
                let mut child = map("child", &[("replicas", &foo.spec.replicas.to_string())]);
                // The namespace of the key.
                child.metadata.namespace = None;
                let applied = cx.apply(&child).await?;
                assert!(
                    applied.metadata.uid.is_some(),
                    "the stored object comes back"
                );
                Ok::<_, Error>(Action::await_change())
            })
            .await;
        factory.shutdown().await;
        ended
    });
    let foo = api.create(&Foo::named("a")).await.unwrap();
    let child = api
        .until("default/child", |_: &ConfigMap| true)
        .await
        .unwrap();
    let owner = Owner::of(&foo).unwrap();
    assert!(owner::is_controlled(&child, &owner));
    assert_eq!(data(&child), ["replicas=0"]);
    assert_eq!(managers(&child), ["my-operator/foo"]);
    // A second reconcile of the same state writes no version.
    let version = child.metadata.resource_version.clone();
    let mut changed = foo.clone();
    changed.metadata.labels = Some([("a".into(), "b".into())].into());
    kinform::patch(
        &api.client(),
        "test",
        &changed,
        json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .await
    .unwrap();
    tokio::time::sleep(SECOND).await;
    let child: ConfigMap = api.get("default/child").await.unwrap().unwrap();
    assert_eq!(child.metadata.resource_version, version);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_apply_sends_only_what_its_author_decides() {
    let api = server().await;
    let client = api.client();
    let mut wanted = map("m", &[("a", "1"), ("b", "1")]);
    // Fields of the server are left out, here of an object that was never read.
    wanted.metadata.uid = Some("not-a-uid".into());
    wanted.metadata.generation = Some(7);
    let applied = Apply::new(client.clone(), "one", &wanted).await.unwrap();
    assert_ne!(applied.metadata.uid, wanted.metadata.uid);
    // A field that is not sent any more is given up.
    let fewer = map("m", &[("a", "1")]);
    let applied = Apply::new(client.clone(), "one", &fewer).await.unwrap();
    assert_eq!(data(&applied), ["a=1"]);
    // Another manager's value: by force, or a conflict.
    let other = map("m", &[("a", "2")]);
    let refused = Apply::new(client.clone(), "two", &other).without_force();
    let error = refused.await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let applied = Apply::new(client.clone(), "two", &other).await.unwrap();
    assert_eq!(data(&applied), ["a=2"]);
    // What was read from a server has the fields of all.
    let error = Apply::new(client.clone(), "one", &applied)
        .await
        .unwrap_err();
    assert!(error.is_invalid(), "{error}");
    let mut nameless = map("", &[]);
    nameless.metadata.name = None;
    let error = Apply::new(client, "one", &nameless).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_the_api_forbids_is_an_error_before_anything_is_sent() {
    let api = server().await;
    let foo = api.create(&Foo::named("a")).await.unwrap();
    let owner = Owner::of(&foo).unwrap();
    let before = api.server().journal().count("patch", "configmaps");
    let mut elsewhere = map("m", &[]);
    elsewhere.metadata.namespace = Some("elsewhere".into());
    let apply = |map| Apply::new(api.client(), "one", map).owned_by(owner.clone());
    let error = apply(&elsewhere).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("n".into());
    let apply_namespace = || Apply::new(api.client(), "one", &namespace);
    let error = apply_namespace().owned_by(owner.clone()).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    assert_eq!(api.server().journal().count("patch", "configmaps"), before);
    apply_namespace()
        .owned_by(owner.clone())
        .without_owner()
        .await
        .unwrap();
    let mut others = map("m", &[]);
    let other = Owner::of(&api.create(&Foo::named("b")).await.unwrap()).unwrap();
    assert_eq!(
        owner::set_controller(&mut others, &other).unwrap(),
        Ownership::Added
    );
    let error = apply(&others).await.unwrap_err();
    assert!(error.is_owned_by_another(), "{error}");
    // Only the server knows of the other owner.
    api.create(&others).await.unwrap();
    let error = apply(&map("m", &[])).await.unwrap_err();
    assert!(error.is_owned_by_another(), "{error}");
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn create_or_update_creates_then_changes_then_writes_nothing() {
    // controller-runtime: controllerutil_test.go, CreateOrUpdate and CreateOrPatch
    let api = server().await;
    let client = api.client();
    let set = |value: &'static str| {
        let client = client.clone();
        async move {
            kinform::create_or_update(&client, "one", map("m", &[]), |map| {
                let data = map.data.get_or_insert_default();
                data.insert("a".into(), value.into());
            })
            .await
        }
    };
    assert!(matches!(set("1").await, Ok(Written::Created(_))));
    assert!(matches!(set("2").await, Ok(Written::Updated(_))));
    let writes = |api: &TestServer| api.server().journal().count("patch", "configmaps");
    let before = writes(&api);
    assert!(matches!(set("2").await, Ok(Written::Unchanged(_))));
    assert_eq!(writes(&api), before);
    let error = kinform::create_or_update(&client, "one", map("m", &[]), |map| {
        map.metadata.name = Some("n".into());
    });
    assert!(error.await.unwrap_err().is_invalid());
    let error = kinform::create_or_update(&client, "one", map("m", &[]), |map| {
        map.metadata.namespace = Some("n".into());
    });
    assert!(error.await.unwrap_err().is_invalid());
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn create_or_update_decides_again_on_what_another_writer_left() {
    let api = server().await;
    let client = api.client();
    api.create(&map("m", &[("count", "0")])).await.unwrap();
    let add = |name: &'static str| {
        let client = client.clone();
        async move {
            for _ in 0..10 {
                let added = kinform::create_or_update(&client, name, map("m", &[]), |map| {
                    let data = map.data.get_or_insert_default();
                    let count = data.get("count").map_or(0, |n| n.parse().unwrap());
                    data.insert("count".into(), (count + 1).to_string());
                });
                added.await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    };
    futures::join!(add("one"), add("two"));
    let map: ConfigMap = api.get("default/m").await.unwrap().unwrap();
    assert_eq!(data(&map), ["count=20"]);
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_of_that_object_and_not_of_its_successor() {
    let api = server().await;
    let client = api.client();
    let first = api.create(&map("m", &[])).await.unwrap();
    assert!(kinform::delete(&client, &first).await.unwrap());
    assert!(!kinform::delete(&client, &first).await.unwrap());
    api.create(&map("m", &[])).await.unwrap();
    let error = kinform::delete(&client, &first).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    api.stop().await;
}

fn ready(status: &mut StatusEdit<FooStatus>) {
    status.ready = Some(1);
    status.condition("Ready", true, "Applied", "all is well");
}

#[tokio::test(start_paused = true)]
async fn k22_a_status_is_written_only_if_it_changes() {
    let api = server().await;
    let client = api.client();
    let foo = api.create(&Foo::named("a")).await.unwrap();
    let written = kinform::write_status(&client, "one", &foo, ready)
        .await
        .unwrap();
    assert!(written.is_changed());
    let stored: Foo = api.get("default/a").await.unwrap().unwrap();
    let status = stored.status.clone().unwrap();
    assert_eq!(written.into_inner(), status);
    assert_eq!(status.ready, Some(1));
    let condition = conditions::find(&status.conditions, "Ready").unwrap();
    assert_eq!(condition.observed_generation, foo.metadata.generation);
    let writes = api.server().journal().count("patch", "foos");
    let again = kinform::write_status(&client, "one", &stored, ready)
        .await
        .unwrap();
    assert!(!again.is_changed());
    assert_eq!(api.server().journal().count("patch", "foos"), writes);
    // Only the reason changes: the time stays.
    let other = |status: &mut StatusEdit<FooStatus>| {
        status.condition("Ready", true, "Other", "all is well");
    };
    let written = kinform::write_status(&client, "one", &stored, other)
        .await
        .unwrap();
    let known = conditions::find(&status.conditions, "Ready").unwrap();
    let condition = written.into_inner().conditions.remove(0);
    assert_eq!(condition.last_transition_time, known.last_transition_time);
    assert_eq!(condition.reason, "Other");
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_another_writer_overtook_is_decided_again_on_the_newer_one() {
    let api = server().await;
    let client = api.client();
    let stale = api.create(&Foo::named("a")).await.unwrap();
    kinform::write_status(&client, "one", &stale, |status| {
        status.ready = Some(41);
        status.condition("Other", false, "Theirs", "");
    })
    .await
    .unwrap();
    let runs = AtomicUsize::new(0);
    let written = kinform::write_status(&client, "two", &stale, |status| {
        runs.fetch_add(1, Ordering::SeqCst);
        status.ready = Some(status.ready.unwrap_or(0) + 1);
        status.condition("Ready", true, "Ours", "");
    })
    .await
    .unwrap()
    .into_inner();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(written.ready, Some(42));
    assert!(conditions::is_false(&written.conditions, "Other"));
    assert!(conditions::is_true(&written.conditions, "Ready"));
    // An object that has the name of the one meant is not touched.
    api.delete::<Foo>("default/a").await.unwrap();
    let error = kinform::write_status(&client, "two", &stale, ready)
        .await
        .unwrap_err();
    assert!(error.is_not_found(), "{error}");
    api.create(&Foo::named("a")).await.unwrap();
    let error = kinform::write_status(&client, "two", &stale, ready)
        .await
        .unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let successor: Foo = api.get("default/a").await.unwrap().unwrap();
    assert_eq!(successor.status, None);
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_built_in_type_is_written_too_and_its_other_fields_are_kept() {
    let api = server().await;
    let client = api.client();
    let labels = json!({"app": "x"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap();
    let deployment = api.create(&deployment).await.unwrap();
    let replicas = |status: &mut StatusEdit<DeploymentStatus>| status.replicas = Some(3);
    let written = kinform::write_status_as(&client, "one", &deployment, replicas).await;
    assert!(written.unwrap().is_changed());
    #[derive(Default, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Narrow {
        observed_generation: Option<i64>,
    }
    let stored: Deployment = api.get("default/d").await.unwrap().unwrap();
    let narrow = |status: &mut StatusEdit<Narrow>| status.observed_generation = Some(1);
    kinform::write_status_as(&client, "one", &stored, narrow)
        .await
        .unwrap();
    let stored: Deployment = api.get("default/d").await.unwrap().unwrap();
    let status = stored.status.clone().unwrap();
    assert_eq!(
        (status.replicas, status.observed_generation),
        (Some(3), Some(1))
    );
    // Its conditions have fields of their own, and no observed generation.
    let available = |status: &mut StatusEdit<DeploymentStatus>| {
        status.condition("Available", true, "Enough", "");
    };
    for is_changed in [true, false] {
        let stored: Deployment = api.get("default/d").await.unwrap().unwrap();
        let written = kinform::write_status_as(&client, "one", &stored, available).await;
        assert_eq!(written.unwrap().is_changed(), is_changed);
    }
    // A type that has no conditions cannot keep one.
    let lost = |status: &mut StatusEdit<Narrow>| status.condition("Ready", true, "A", "");
    let lost = kinform::write_status_as(&client, "one", &stored, lost).await;
    assert!(lost.is_err_and(|error| error.is_invalid()));
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_state_ends_with_it_or_with_its_deadline() {
    let api = server().await;
    let factory = InformerFactory::new(api.client());
    let foos = factory.informer::<Foo>();
    factory.start().unwrap();
    let key: ObjectKey = "default/a".parse().unwrap();
    let is_ready = || until::condition("Ready", "True");
    let late = foos.until(&key, is_ready()).within(SECOND).await;
    assert!(late.is_err_and(|error| error.is_timeout()));
    let waiting = tokio::spawn(foos.until(&key, is_ready()).within(60 * SECOND));
    let foo = api.create(&Foo::named("a")).await.unwrap();
    assert_eq!(
        foos.until(&key, until::exists())
            .await
            .unwrap()
            .unwrap()
            .name(),
        "a"
    );
    assert!(!waiting.is_finished());
    kinform::write_status(&api.client(), "one", &foo, ready)
        .await
        .unwrap();
    assert!(waiting.await.unwrap().unwrap().is_some());
    let requests = api.server().journal().records().len();
    let uid = foo.metadata.uid.clone().unwrap();
    let waiting = tokio::spawn(foos.until(&key, until::gone(uid)).within(60 * SECOND));
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        api.server().journal().records().len(),
        requests,
        "it asks nobody"
    );
    api.delete::<Foo>("default/a").await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_none());
    let waiting = tokio::spawn(foos.until(&key, until::exists()).into_future());
    tokio::time::sleep(SECOND).await;
    factory.shutdown().await;
    assert!(
        waiting
            .await
            .unwrap()
            .is_err_and(|error| error.is_stopped())
    );
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_verbs_of_the_context_write_for_the_object_of_the_key() {
    let api = server().await;
    let operator = api.run(|client| async move {
        let factory = InformerFactory::new(client);
        let maps = factory.informer::<ConfigMap>();
        factory.start()?;
        let controller = Controller::of(&maps).named("mapper");
        controller
            .run(|known: Arc<ConfigMap>, cx: Ctx<()>| async move {
                if cx.key().name() != "parent" {
                    return Ok(Action::await_change());
                }
                let mut child = map("child", &[]);
                child.metadata.namespace = None;
                let written = cx.create_or_update(child.clone(), |child| {
                    let data = child.data.get_or_insert_default();
                    data.insert("parent".into(), cx.key().to_string());
                });
                let written = written.await?;
                let patched = cx
                    .patch(&*known, json!({"data": {"child": "made"}}))
                    .await?;
                assert_eq!(patched.metadata.uid, known.metadata.uid);
                if !written.is_changed() {
                    let status = |status: &mut StatusEdit<serde_json::Value>| {
                        **status = json!({"lost": "a ConfigMap has no status"});
                    };
                    let error = cx.status_as(&known, status).await.unwrap_err();
                    assert!(error.is_not_found(), "{error}");
                    cx.delete(&map("leftover", &[])).await?;
                }
                Ok::<_, Error>(Action::await_change())
            })
            .await
    });
    api.create(&map("leftover", &[])).await.unwrap();
    let parent = api.create(&map("parent", &[])).await.unwrap();
    api.until_gone::<ConfigMap>("default/leftover")
        .await
        .unwrap();
    let child: ConfigMap = api.get("default/child").await.unwrap().unwrap();
    assert!(owner::is_controlled(&child, &Owner::of(&parent).unwrap()));
    assert_eq!(data(&child), ["parent=default/parent"]);
    assert_eq!(managers(&child), ["mapper"]);
    let parent: ConfigMap = api.get("default/parent").await.unwrap().unwrap();
    assert_eq!(data(&parent), ["child=made"]);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_context_knows_its_controller() {
    let api = server().await;
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let heard_there = Arc::clone(&heard);
    let operator = api.run(|client| async move {
        let factory = InformerFactory::new(client);
        let foos = factory.informer::<Foo>();
        factory.start()?;
        let controller = Controller::of(&foos)
            .named("foo-keeper")
            .context(heard_there);
        controller
            .run(
                |foo: Arc<Foo>, cx: Ctx<Arc<Mutex<Vec<String>>>>| async move {
                    let (name, manager) = (cx.controller_name(), cx.field_manager());
                    cx.client()?;
                    let uid = cx.owner()?;
                    assert_eq!(uid, Owner::of(&*foo)?);
                    cx.lock()
                        .unwrap()
                        .push(format!("{} {name} {manager}", cx.resource()));
                    Ok::<_, Error>(Action::await_change())
                },
            )
            .await
    });
    api.create(&Foo::named("a")).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        *heard.lock().unwrap(),
        ["foos.example.com foo-keeper foo-keeper"]
    );
    operator.stop().await.unwrap();
}
