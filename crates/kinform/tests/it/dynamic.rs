//! Informers of types known at run time, of metadata only, and of somebody's `Api`.

use std::fmt::Debug;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinform::{Informer, InformerFactory, Notification, Target};
use kinform_apiserver::{Record, Server};
use kinform_testkit::Link;
use kube_client::{Api, Client};
use kube_core::dynamic::DynamicObject;
use kube_core::metadata::PartialObjectMeta;
use serde_json::{Value, json};

use crate::fixture::{Heard, factory, first_list, names, pod, pods, settle};

#[tokio::test(start_paused = true)]
async fn a_dynamic_informer_begins_with_one_request_and_falls_back_if_it_is_refused() {
    // client-go: TestWatchListSemanticsSimple, TestUnSupportWatchListSemantics
    let (one, mut script) = factory();
    let dynamic = one.select::<DynamicObject>(pods()).build();
    one.start().unwrap();
    let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    dynamic.synced().await.unwrap();
    assert!(script.is_quiet(), "the same request goes on as the watch");
    one.shutdown().await;

    let (two, mut script) = factory();
    let dynamic = two.select::<DynamicObject>(pods()).build();
    two.start().unwrap();
    let (_, ask) = script.next_watch().await;
    ask.refuse_status(422, "Invalid", "sendInitialEvents is forbidden");
    let (_, ask) = script.next_list().await;
    let mut item = pod("a", 1, "n1");
    item.as_object_mut().unwrap().remove("kind");
    let list = json!({ "kind": "PodList", "apiVersion": "v1",
        "metadata": { "resourceVersion": "5" }, "items": [item] });
    ask.reply(list.to_string());
    let (options, _watch) = script.next_watch().await;
    assert_eq!(options.resource_version.unwrap().as_str(), "5");
    dynamic.synced().await.unwrap();
    let object = dynamic.list().iter().next().unwrap().typed().unwrap();
    assert_eq!(
        object.types.as_ref().unwrap().kind,
        "Pod",
        "put back where lists lack it"
    );
    two.shutdown().await;
}

/// client-go: TestNamespaceGetMethod, TestNamespaceListMethod, TestListerGetMethod, TestListerListMethod
async fn check_lister<K>(of: impl FnOnce(&InformerFactory) -> Informer<K>) {
    let (factory, mut script) = factory();
    let informer = of(&factory);
    factory.start().unwrap();
    let mut elsewhere = pod("c", 3, "n1");
    elsewhere["metadata"]["namespace"] = "elsewhere".into();
    let sent = [pod("a", 1, "n1"), pod("b", 2, "n1"), elsewhere];
    let _watch = first_list(&mut script, &sent, 5).await;
    informer.synced().await.unwrap();
    let (lister, everything) = (informer.lister(), "".parse().unwrap());
    let label = "app in (a, c)".parse().unwrap();
    assert_eq!(lister.list(&everything).len(), 3);
    assert_eq!(lister.list(&label).len(), 2);
    let default = lister.namespace("default");
    assert_eq!(
        (default.list(&everything).len(), default.list(&label).len()),
        (2, 1)
    );
    assert_eq!(
        lister.namespace("").list(&everything).len(),
        3,
        "the empty name is all"
    );
    assert_eq!(default.get("a").unwrap().uid(), "uid-a");
    for missing in [
        default.get("c"),
        lister.namespace("nowhere").get("a"),
        lister.get("a"),
    ] {
        let error = missing.unwrap_err();
        assert!(error.is_not_found(), "{error}");
        assert!(error.to_string().starts_with("pods \""), "{error}");
    }
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn listers_of_every_form_read_namespaces_selectors_and_what_is_missing() {
    check_lister(|factory| factory.informer::<Pod>()).await;
    check_lister(|factory| factory.select::<DynamicObject>(pods()).build()).await;
    check_lister(|factory| factory.informer::<Pod>().cast::<PartialObjectMeta<Pod>>()).await;
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(client: &Client, request: http::request::Builder, media: &str, body: &Value) {
    let request = request
        .header("content-type", media)
        .body(body.to_string().into_bytes());
    let _: Value = client.request(request.unwrap()).await.unwrap();
}

fn line<K: Debug>(told: &Notification<K>) -> String {
    let data = |object: &kinform::Obj<K>| {
        let path = "data.key".parse().unwrap();
        format!("{} {:?}", object.name(), object.at(&path).unwrap())
    };
    match told {
        Notification::Added(added) if added.is_initial() => format!("initial {}", data(added)),
        Notification::Added(added) => format!("add {}", data(added)),
        Notification::Updated { new, .. } => format!("update {}", data(new)),
        Notification::Deleted(object) => format!("delete {}", data(object)),
        other => format!("{other:?}"),
    }
}

/// The notifications of an informer's stream during the life of a config map.
async fn life<K: Debug + 'static>(
    client: &Client,
    factory: &InformerFactory,
    informer: &Informer<K>,
) -> Vec<String> {
    let map = |value: &str| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "m" }, "data": { "key": value } })
    };
    send(
        client,
        http::Request::post(MAPS),
        "application/json",
        &map("1"),
    )
    .await;
    let changes = informer.changes().unwrap();
    factory.start().unwrap();
    informer.synced().await.unwrap();
    let lister = informer.lister().namespace("default");
    assert_eq!(lister.get("m").unwrap().name(), "m");
    assert!(lister.get("n").unwrap_err().is_not_found());
    let one = format!("{MAPS}/m");
    let patch = json!({ "data": { "key": "2" } });
    let listening = changes.take(4).map(|told| line(&told)).collect::<Vec<_>>();
    let writing = async {
        settle().await;
        send(
            client,
            http::Request::patch(&one),
            "application/merge-patch+json",
            &patch,
        )
        .await;
        settle().await;
        send(
            client,
            http::Request::delete(&one),
            "application/json",
            &json!({}),
        )
        .await;
    };
    let (heard, ()) = tokio::join!(listening, writing);
    factory.shutdown().await;
    heard
}

#[tokio::test(start_paused = true)]
async fn dynamic_and_metadata_informers_hear_adds_updates_and_deletes() {
    // client-go: TestDynamicSharedInformerFactory, TestMetadataSharedInformerFactory
    let server = Server::builder().plain().in_process();
    let client = Link::new(server.service(), 7).client();
    let factory = InformerFactory::new(client.clone());
    let dynamic: Informer<DynamicObject> = factory.informer::<ConfigMap>().cast();
    let heard = life(&client, &factory, &dynamic).await;
    let expected = [
        r#"initial m ["1"]"#,
        "Synced",
        r#"update m ["2"]"#,
        r#"delete m ["2"]"#,
    ];
    assert_eq!(heard, expected);
    let factory = InformerFactory::new(client.clone());
    let metadata = factory.informer::<PartialObjectMeta<ConfigMap>>();
    let heard = life(&client, &factory, &metadata).await;
    assert_eq!(
        heard,
        ["initial m []", "Synced", "update m []", "delete m []"],
        "no data came"
    );
}

#[tokio::test(start_paused = true)]
async fn an_informer_of_an_api_uses_its_client_and_its_namespace() {
    let [server, other] = [(); 2].map(|()| Server::builder().plain().in_process());
    let [client, another] = [&server, &other].map(|server| Link::new(server.service(), 7).client());
    for (client, name) in [(&client, "mine"), (&another, "theirs")] {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        send(client, http::Request::post(MAPS), "application/json", &map).await;
    }
    let factory = InformerFactory::new(client);
    let api: Api<ConfigMap> = Api::namespaced(another, "default");
    let mine = factory.informer::<ConfigMap>();
    let (theirs, same) = (factory.select(&api).build(), factory.select(&api).build());
    assert_eq!(factory.informers().len(), 3, "clients cannot be compared");
    factory.start().unwrap();
    for (informer, name) in [(&mine, "mine"), (&theirs, "theirs"), (&same, "theirs")] {
        informer.synced().await.unwrap();
        let keys = informer.list().keys();
        assert_eq!(
            keys.iter().map(|key| key.name()).collect::<Vec<_>>(),
            [name]
        );
    }
    assert_eq!(theirs.namespaces(), ["default"]);
    assert!(mine.namespaces().is_empty());
    factory.shutdown().await;
}

/// The first request for config maps that a server got, and whether it asked for initial events.
fn first_request(server: &Server) -> (&'static str, bool) {
    let records = server.journal().records();
    let of_maps = |record: &&Record| record.resource == "configmaps" && record.verb != "create";
    let first = records.iter().find(of_maps).unwrap();
    (first.verb, first.query.contains("sendInitialEvents=true"))
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_that_stall_here_are_still_tried_on_another_server() {
    let [server, other] = [(); 2].map(|()| Server::builder().plain().in_process());
    let [client, another] = [&server, &other].map(|server| Link::new(server.service(), 7).client());
    server.faults().without_initial_events_end();
    let factory = InformerFactory::new(client.clone());
    let all = factory.informer::<ConfigMap>();
    factory.start().unwrap();
    all.synced().await.unwrap();
    assert_eq!(first_request(&server), ("watch", true));
    server.journal().clear();
    // The same server: what was learnt is used. Another: nothing is known of it.
    let here = factory
        .select(Target::<ConfigMap>::new())
        .labels("a=b")
        .build();
    let there = factory.select(&Api::<ConfigMap>::all(another)).build();
    factory.start().unwrap();
    here.synced().await.unwrap();
    there.synced().await.unwrap();
    let again: Vec<_> = server
        .journal()
        .records()
        .into_iter()
        .filter(|record| record.query.contains("labelSelector"))
        .collect();
    assert_eq!(again[0].verb, "list");
    assert_eq!(first_request(&other), ("watch", true));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn numbers_say_how_lists_watches_and_handlers_are_doing() {
    // client-go: the reflector's metrics, defined there and not wired
    let second = std::time::Duration::from_secs(1);
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let heard = Heard::default();
    let registration = informer.add_handler(heard.handlers()).unwrap();
    factory.start().unwrap();
    tokio::time::sleep(2 * second).await;
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    tokio::time::sleep(20 * second).await;
    watch.event("ADDED", &pod("b", 6, "n1"));
    settle().await;
    let stats = informer.stats();
    let (list_time, watches) = (stats.list_time.as_secs(), stats.watches);
    assert_eq!((stats.lists, list_time, watches), (1, 2, 1));
    assert_eq!(stats.watch_time.as_secs(), 0, "it lasts");
    assert_eq!((stats.items, stats.events, stats.requests), (1, 1, 1));
    watch.end();
    let (_, ask) = script.next_watch().await;
    let watch = ask.stream();
    tokio::time::sleep(10 * second).await;
    let expired = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": "Expired", "code": 410 });
    watch.event("ERROR", &expired);
    let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 9).await;
    settle().await;
    let stats = informer.stats();
    assert_eq!((stats.lists, stats.relists, stats.watches), (2, 1, 3));
    assert!(
        (30..=33).contains(&stats.watch_time.as_secs()),
        "{:?}",
        stats.watch_time
    );
    assert_eq!(
        stats.relist_reasons.values().sum::<u64>(),
        1,
        "{:?}",
        stats.relist_reasons
    );
    assert_eq!(
        (stats.handlers, stats.notifications, stats.handler_lag),
        (1, 3, 0)
    );
    assert_eq!((stats.handlers_behind, registration.times_behind()), (0, 0));
    assert_eq!((registration.heard(), registration.lag()), (3, 0));
    assert_eq!(names(&informer), ["a"]);
    factory.shutdown().await;
}
