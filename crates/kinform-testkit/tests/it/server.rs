//! The server that tests of controllers hold: in process and over sockets, and what can be done to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::InformerFactory;
use kinform::controller::{Action, Controller, Ctx};
use kinform_testkit::Loss;
use kinform_testkit::{Operator, TestServer};
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Client};
use kube_core::{ObjectMeta, Resource, ResourceExt};
use tokio::time::Instant;

fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("in".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

fn value<'a>(map: &'a ConfigMap, key: &str) -> Option<&'a str> {
    Some(map.data.as_ref()?.get(key)?.as_str())
}

/// Copies `in` to `out`.
async fn copy(map: Arc<ConfigMap>, client: Ctx<Client>) -> Result<Action, kube_client::Error> {
    let maps: Api<ConfigMap> = Api::default_namespaced((*client).clone());
    let patch = serde_json::json!({ "data": { "out": value(&map, "in") } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    maps.patch(&map.name_any(), &params, &patch).await?;
    Ok(Action::await_change())
}

fn copying(api: &TestServer) -> Operator {
    api.run(|client| async move {
        let factory = InformerFactory::new(client.clone());
        let maps = factory.informer::<ConfigMap>();
        factory.start()?;
        Controller::of(&maps).context(client).run(copy).await
    })
}

/// Waits until `out` of `a` is this.
async fn copied(api: &TestServer, wanted: &str) {
    let is = |map: &ConfigMap| value(map, "out") == Some(wanted);
    api.until("default/a", is).await.unwrap();
}

async fn set(api: &TestServer, wanted: &str) {
    let maps: Api<ConfigMap> = Api::default_namespaced(api.client());
    let patch = serde_json::json!({ "data": { "in": wanted } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    // A connection that a restart has ended fails once, each that was kept.
    for _ in 0..10 {
        if maps.patch("a", &params, &patch).await.is_ok() {
            return;
        }
    }
    panic!("the server does not take {wanted}");
}

/// Everything that can be done to a server, one after the other; the operator follows each time.
async fn trouble(mut api: TestServer) {
    let operator = copying(&api);
    api.create(&map("a", "0")).await.unwrap();
    copied(&api, "0").await;
    api.cut_watches();
    api.expire_history();
    set(&api, "1").await;
    copied(&api, "1").await;
    api.stall_watches();
    set(&api, "2").await;
    api.resume_watches();
    copied(&api, "2").await;
    api.lag();
    set(&api, "3").await;
    api.catch_up();
    copied(&api, "3").await;
    for (loss, wanted) in [(Loss::Nothing, "4"), (Loss::History, "5")] {
        api = api.restart(loss).await.unwrap();
        set(&api, wanted).await;
        copied(&api, wanted).await;
    }
    operator.stop().await.unwrap();
    // A watch from the future is silent, as a real server's: an operator finds out after a minute.
    api = api.restart(Loss::Everything).await.unwrap();
    assert!(api.get::<ConfigMap>("default/a").await.unwrap().is_none());
    let operator = copying(&api);
    api.create(&map("a", "6")).await.unwrap();
    copied(&api, "6").await;
    operator.stop().await.unwrap();
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_in_process_survives_all_that_can_be_done_to_its_server() {
    trouble(TestServer::start().in_process().await.unwrap()).await;
}

#[tokio::test]
async fn an_operator_over_sockets_survives_all_that_can_be_done_to_its_server() {
    trouble(TestServer::start().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_behind_what_was_just_written_unless_asked_otherwise() {
    let hour = Duration::from_secs(3600);
    for (starting, behind) in [
        (TestServer::start().in_process().lag(hour).seed(3), true),
        (TestServer::start().in_process().without_lag(), false),
    ] {
        let api = starting.await.unwrap();
        let factory = InformerFactory::new(api.client());
        let maps = factory.informer::<ConfigMap>();
        factory.start().unwrap();
        maps.synced().await.unwrap();
        api.create(&map("a", "0")).await.unwrap();
        let before = Instant::now();
        let mut changes = maps.changes().unwrap();
        while maps.list().is_empty() {
            let next = futures::StreamExt::next(&mut changes);
            tokio::time::timeout(2 * hour, next).await.unwrap().unwrap();
        }
        let late = before.elapsed();
        assert_eq!(late > Duration::from_secs(1), behind, "{late:?}");
        assert!(late <= hour, "{late:?}");
        factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_says_so_to_as_many_requests_as_asked() {
    let api = TestServer::start().in_process().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(api.client());
    api.throttle(2);
    let mut codes = Vec::new();
    for _ in 0..3 {
        let answer = maps.list(&Default::default()).await;
        codes.push(match answer {
            Ok(_) => 200,
            Err(kube_client::Error::Api(status)) => status.code,
            Err(other) => panic!("{other}"),
        });
    }
    assert_eq!(codes, [429, 429, 200]);
}

#[tokio::test]
#[should_panic(expected = "use `run`")]
async fn an_operator_that_needs_an_address_is_refused_in_process() {
    let api = TestServer::start().in_process().await.unwrap();
    let _operator = api.spawn(|config| async move { drop(config) });
}

#[tokio::test]
async fn an_operator_that_panics_fails_its_stop() {
    let api = TestServer::start().in_process().await.unwrap();
    async fn fails(_: Client) {
        panic!("on purpose");
    }
    let operator = api.run(fails);
    tokio::task::yield_now().await;
    let error = operator.stop().await.unwrap_err();
    assert_eq!(error.to_string(), "the operator panicked");
}

#[tokio::test]
async fn servers_of_one_process_know_nothing_of_each_other() {
    let (one, two) = tokio::join!(TestServer::start(), TestServer::start());
    let (one, two) = (one.unwrap(), two.unwrap());
    one.create(&map("a", "1")).await.unwrap();
    assert!(two.get::<ConfigMap>("default/a").await.unwrap().is_none());
    assert_ne!(one.server().address(), two.server().address());
    // The token of one is none of the other's.
    let mut stranger = two.config();
    stranger.auth_info = one.config().auth_info;
    let client = kinform::source::client_for(stranger, &Default::default()).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let refused = maps.list(&Default::default()).await.unwrap_err();
    assert!(refused.to_string().contains("Unauthorized"), "{refused}");
}

fn names(server: &kinform_testkit::Server) -> Vec<String> {
    let objects = server.objects("configmaps");
    objects.iter().map(|one| one.name().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_backup_has_the_objects_of_its_moment_and_no_history() {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&map("a", "1")).await.unwrap();
    let (backup, then) = (api.server().backup(), api.server().store().revision());
    api.create(&map("b", "1")).await.unwrap();
    let restored = kinform_testkit::Server::builder()
        .state(backup)
        .in_process();
    assert_eq!(names(&restored), ["a"]);
    assert_eq!(names(api.server()), ["a", "b"]);
    assert_eq!(
        (restored.store().floor(), restored.store().revision()),
        (then, then)
    );
    assert!(restored.store().changes_after(then - 1).is_none());
}

#[tokio::test(start_paused = true)]
async fn two_servers_over_one_storage_have_the_same_objects() {
    let api = TestServer::start().in_process().await.unwrap();
    let state = api.server().shared_state();
    let other = kinform_testkit::Server::builder().state(state).in_process();
    api.create(&map("a", "1")).await.unwrap();
    assert_eq!(names(&other), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_link_loses_events_delivers_them_twice_or_sends_a_window_again() {
    let api = TestServer::start().in_process().await.unwrap();
    let link = kinform_testkit::Link::new(api.server().service(), 1);
    let factory = InformerFactory::new(link.client());
    let maps = factory.informer::<ConfigMap>();
    factory.start().unwrap();
    maps.synced().await.unwrap();
    let second = Duration::from_secs(1);
    link.tamper(kinform_testkit::Tamper::Drop);
    api.create(&map("lost", "1")).await.unwrap();
    tokio::time::sleep(second).await;
    link.tamper(kinform_testkit::Tamper::Duplicate);
    api.create(&map("twice", "1")).await.unwrap();
    tokio::time::sleep(second).await;
    let seen = || -> BTreeSet<String> {
        let maps = maps.list();
        maps.iter().map(|one| one.name().to_owned()).collect()
    };
    assert_eq!(seen(), BTreeSet::from(["twice".to_owned()]));
    assert_eq!(maps.stats().events, 2, "one event was read twice");
    // The window is full, and its first event is not the first that was sent.
    for number in 0..8 {
        let name = format!("more-{number}");
        api.create(&map(&name, "1")).await.unwrap();
        tokio::time::sleep(second).await;
    }
    link.tamper(kinform_testkit::Tamper::Again);
    api.create(&map("after", "1")).await.unwrap();
    tokio::time::sleep(30 * second).await;
    assert_eq!(maps.stats().relists, 1, "events came from the past");
    assert!(
        seen().contains("lost") && seen().len() == 11,
        "{:?}",
        seen()
    );
}

/// A bundle in an order in which nothing could be created.
const BUNDLE: &str = r#"
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: nightly, namespace: tools}
spec: {cronSpec: "0 3 * * *"}
---
# A comment alone is no object.
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {mode: "0644"}}
---
apiVersion: v1
kind: ConfigMapList
items:
- {metadata: {name: b, namespace: tools}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {kind: CronTab, plural: crontabs, singular: crontab}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {cronSpec: {type: string}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: tools, labels: {team: x}}
"#;

#[tokio::test(start_paused = true)]
async fn a_test_begins_with_the_objects_of_its_manifests() {
    let api = TestServer::start().in_process().manifests(BUNDLE).await;
    let api = api.unwrap();
    let resource = kube_core::discovery::ApiResource {
        group: "stable.example.com".into(),
        version: "v1".into(),
        api_version: "stable.example.com/v1".into(),
        kind: "CronTab".into(),
        plural: "crontabs".into(),
    };
    let tabs: Api<kube_core::DynamicObject> =
        Api::namespaced_with(api.client(), "tools", &resource);
    let tab = tabs.get("nightly").await.unwrap();
    assert_eq!(tab.data["spec"]["cronSpec"], "0 3 * * *");
    let map: ConfigMap = api.get("default/a").await.unwrap().unwrap();
    assert_eq!(value(&map, "mode"), Some("0644"));
    let other: Option<ConfigMap> = api.get("tools/b").await.unwrap();
    assert!(other.is_some());
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(api.client());
    let tools = namespaces.get("tools").await.unwrap();
    assert_eq!(tools.labels()["team"], "x", "it is the one of the file");

    let more = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c, namespace: new}\n";
    assert_eq!(api.load(more).await.unwrap(), 1);
    assert_eq!(api.load("").await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn texts_are_created_in_one_order() {
    let parts = BUNDLE.split("---\n");
    let texts = parts.fold(TestServer::start(), |texts, part| texts.manifests(part));
    let api = texts.in_process().await.unwrap();
    let map: Option<ConfigMap> = api.get("tools/b").await.unwrap();
    assert!(map.is_some());
}

#[tokio::test(start_paused = true)]
async fn manifests_that_cannot_be_created_are_errors_that_name_the_object() {
    let api = TestServer::start().in_process().await.unwrap();
    let map = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n";
    assert_eq!(api.load(map).await.unwrap(), 1);
    let cases = [
        (map, "create ConfigMap a: "),
        (
            "kind: Foo\napiVersion: x/v1\nmetadata: {name: f}\n",
            "create Foo f: the server has no Foo in \"x/v1\"",
        ),
        ("kind: ConfigMap\napiVersion: v1\n", "create ConfigMap : "),
        ("a: 1\n---\nb: c: d\n", "read manifests: line 3: "),
        (
            "a: 1\n---\nb: 1\nb: 2\n",
            "read manifests: line 4: key \"b\" already set",
        ),
        (
            "kind: ConfigMap\napiVersion: v1\nmetadata: {name: d}\ndate: {}\n",
            "create ConfigMap d: ",
        ),
        ("- 1\n", "read manifests: a document has no kind"),
    ];
    for (text, told) in cases {
        let error = api.load(text).await.unwrap_err().to_string();
        assert!(error.starts_with(told), "{text:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_fails_still_stops() {
    let api = TestServer::start().in_process().await.unwrap();
    let operator = api.run(|_| async { Err::<(), _>("no kubeconfig") });
    tokio::time::sleep(Duration::from_secs(1)).await;
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn k25_an_object_and_what_it_owns_are_one_run_at_the_start() {
    const OBJECTS: usize = 200;
    let api = TestServer::start().in_process().await.unwrap();
    for number in 0..OBJECTS {
        let owner = api
            .create(&map(&format!("owner-{number}"), "1"))
            .await
            .unwrap();
        let mut metadata = map(&format!("owned-{number}"), "1").metadata;
        metadata.owner_references = Some(vec![owner.controller_owner_ref(&()).unwrap()]);
        let secret = Secret {
            metadata,
            ..Secret::default()
        };
        api.create(&secret).await.unwrap();
    }
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let operator = api.run(move |client| async move {
        let factory = InformerFactory::new(client);
        let controller = Controller::of(&factory.informer::<ConfigMap>())
            .owns(&factory.informer::<Secret>())
            .workers(4);
        factory.start()?;
        let reconcile = move |_, _: Ctx<()>| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok::<_, kinform::Error>(Action::await_change()))
        };
        controller.run(reconcile).await
    });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(runs.load(Ordering::SeqCst), OBJECTS);
    operator.stop().await.unwrap();
}
