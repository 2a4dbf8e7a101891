//! kinform's own informers on both servers: shared informers, both ways of the first list,
//! namespaces that come and go, a definition that comes and goes, selectors, metadata alone, and a
//! controller.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kinform::controller::{Action, Controller};
use kinform::source::ResourceInfo;
use kinform::{
    Handlers, Index, Informer, InformerFactory, InformerState, ReflectorOptions, StreamingList,
    Target,
};
use kinform_api::{GroupVersionResource, ObjectKey, Scope};
use kinform_e2e::servers::{Host, Servers};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(90);

/// Runs a story on each server.
fn on_both(what: &str, story: impl AsyncFn(&Host, Client)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let servers = Servers::start(what).await.unwrap();
        for host in servers.hosts() {
            let client = host.client().unwrap();
            for name in ["one", "two"] {
                let object = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
                let api: Api<Namespace> = Api::all(client.clone());
                api.create(&PostParams::default(), &object).await.unwrap();
            }
            tokio::time::timeout(PATIENCE * 2, story(host, client))
                .await
                .unwrap_or_else(|_| panic!("{what} on the {} server did not end", host.kind()));
            println!("RESULT | kinform: {what} | {} | ok |", host.kind());
        }
    });
}

fn map(name: &str, tier: &str) -> ConfigMap {
    let metadata = json!({"name": name, "labels": {"tier": tier}});
    serde_json::from_value(json!({"metadata": metadata, "data": {"tier": tier}})).unwrap()
}

async fn make(client: &Client, namespace: &str, name: &str, tier: &str) -> ConfigMap {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let made = api.create(&PostParams::default(), &map(name, tier)).await;
    made.unwrap()
}

async fn change(client: &Client, namespace: &str, name: &str, tier: &str) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let patch = json!({"metadata": {"labels": {"tier": tier}}, "data": {"tier": tier}});
    let params = PatchParams::default();
    api.patch(name, &params, &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn remove(client: &Client, namespace: &str, name: &str) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

/// The notifications of a handler: "add x", "update x", "delete x".
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn handlers<K: Send + Sync + 'static>(&self) -> Handlers<K> {
        let line = |heard: &Self, event: &str, name: &str| {
            heard.0.lock().unwrap().push(format!("{event} {name}"));
        };
        let (add, update, delete) = (self.clone(), self.clone(), self.clone());
        Handlers::new()
            .on_add(move |object| line(&add, "add", object.name()))
            .on_update(move |_, object| line(&update, "update", object.name()))
            .on_delete(move |object| line(&delete, "delete", object.name()))
    }

    async fn until(&self, wanted: &str) {
        until(wanted, || {
            self.0.lock().unwrap().iter().any(|line| line == wanted)
        })
        .await;
    }

    fn of(&self, name: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        let mine = lines
            .iter()
            .filter_map(|line| line.strip_suffix(&format!(" {name}")));
        mine.map(str::to_owned).collect()
    }
}

/// Waits until it holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            // The server needs time, and no other event marks when it has answered.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.unwrap_or_else(|_| panic!("{what}: not in {PATIENCE:?}"));
}

fn names<K>(informer: &Informer<K>) -> Vec<String> {
    let keys = informer.list().keys();
    let mut names: Vec<_> = keys.iter().map(|key| key.name().to_owned()).collect();
    names.sort_unstable();
    names
}

/// One informer with an index and two handlers, one of them late, from the first list to the end.
async fn shared(client: Client, config: ReflectorOptions) {
    make(&client, "one", "a", "front").await;
    let factory = InformerFactory::builder(client.clone())
        .namespaces(["one"])
        .reflector(config)
        .build();
    let informer = factory.informer::<ConfigMap>();
    let by_tier = informer.add_index(Index::label("tier")).unwrap();
    let (early, late) = (Heard::default(), Heard::default());
    let _early = informer.add_handler(early.handlers()).unwrap();
    factory.start().unwrap();
    factory.synced_within(PATIENCE).await.unwrap();
    early.until("add a").await;
    make(&client, "one", "b", "back").await;
    make(&client, "two", "elsewhere", "back").await;
    change(&client, "one", "a", "back").await;
    early.until("update a").await;
    let _late = informer.add_handler(late.handlers()).unwrap();
    late.until("add b").await;
    remove(&client, "one", "a").await;
    early.until("delete a").await;
    late.until("delete a").await;
    assert_eq!(early.of("a"), ["add", "update", "delete"]);
    assert_eq!(late.of("a"), ["add", "delete"]);
    assert!(early.of("elsewhere").is_empty());
    let indexed: Vec<_> = by_tier.get("back").keys();
    assert_eq!(indexed.len(), 1);
    let api: Api<ConfigMap> = Api::namespaced(client, "one");
    let listed = api.list(&ListParams::default()).await.unwrap();
    let mut listed: Vec<_> = listed.items.iter().map(ResourceExt::name_any).collect();
    listed.sort_unstable();
    assert_eq!(names(&informer), listed);
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
}

#[test]
fn a_shared_informer_that_streams_its_list_has_what_the_server_has() {
    on_both("shared informer, streaming list", async |host, client| {
        shared(client, ReflectorOptions::default()).await;
        if let Some(server) = host.server() {
            let asked = server.journal().records();
            let streams = asked
                .iter()
                .filter(|r| r.query.contains("sendInitialEvents=true"));
            assert_eq!(streams.count(), 1);
        }
    });
}

#[test]
fn a_shared_informer_that_lists_pages_has_what_the_server_has() {
    on_both("shared informer, pages", async |_, client| {
        for number in 0..25 {
            make(&client, "one", &format!("page-{number}"), "x").await;
        }
        let config = ReflectorOptions::new()
            .with_streaming_list(StreamingList::Never)
            .with_page_size(4);
        shared(client, config).await;
    });
}

#[test]
fn namespaces_come_and_go_while_an_informer_runs() {
    on_both("namespaces live", async |_, client| {
        make(&client, "one", "a", "x").await;
        make(&client, "two", "b", "x").await;
        let factory = InformerFactory::builder(client.clone())
            .namespaces(["one"])
            .build();
        let informer = factory.informer::<ConfigMap>();
        let heard = Heard::default();
        let _registration = informer.add_handler(heard.handlers()).unwrap();
        factory.start().unwrap();
        factory.synced_within(PATIENCE).await.unwrap();
        heard.until("add a").await;
        assert!(heard.of("b").is_empty());
        assert!(informer.add_namespace("two").unwrap());
        heard.until("add b").await;
        change(&client, "two", "b", "y").await;
        heard.until("update b").await;
        assert!(informer.remove_namespace("two"));
        heard.until("delete b").await;
        change(&client, "two", "b", "z").await;
        make(&client, "one", "c", "x").await;
        heard.until("add c").await;
        assert_eq!(heard.of("b"), ["add", "update", "delete"]);
        factory.shutdown().await;
    });
}

fn definition() -> serde_json::Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.kinform.example.com"},
        "spec": {"group": "kinform.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

fn of_kind(
    group: &str,
    plural: &str,
    kind: &str,
    scope: Scope,
) -> (ResourceInfo, kube::core::ApiResource) {
    let info = ResourceInfo::new(GroupVersionResource::new(group, "v1", plural), kind, scope);
    let gvk = kube::core::GroupVersionKind::gvk(group, "v1", kind);
    (
        info,
        kube::core::ApiResource::from_gvk_with_plural(&gvk, plural),
    )
}

#[test]
fn an_informer_waits_for_its_definition_and_outlives_it() {
    on_both("a definition comes and goes", async |_, client| {
        let (widgets, resource) = of_kind(
            "kinform.example.com",
            "widgets",
            "Widget",
            Scope::Namespaced,
        );
        let factory = InformerFactory::new(client.clone());
        let informer = factory.select::<DynamicObject>(widgets).build();
        let heard = Heard::default();
        let _registration = informer.add_handler(heard.handlers()).unwrap();
        factory.start().unwrap();
        let is_unknown = |state: &InformerState| matches!(state, InformerState::NoSuchKind(_));
        within(informer.state_when(is_unknown)).await;

        let (_, crd) = of_kind(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            Scope::Cluster,
        );
        let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &crd);
        let object: DynamicObject = serde_json::from_value(definition()).unwrap();
        definitions
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        within(informer.state_when(InformerState::is_synced)).await;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "one", &resource);
        api.create(&PostParams::default(), &DynamicObject::new("w", &resource))
            .await
            .unwrap();
        heard.until("add w").await;

        let name = "widgets.kinform.example.com";
        definitions
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        heard.until("delete w").await;
        within(informer.state_when(is_unknown)).await;
        assert!(informer.list().keys().is_empty());
        factory.shutdown().await;
    });
}

async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.unwrap()
}

#[test]
fn selectors_decide_what_is_heard() {
    on_both("selectors", async |_, client| {
        make(&client, "one", "a", "front").await;
        make(&client, "one", "b", "back").await;
        let factory = InformerFactory::builder(client.clone())
            .namespaces(["one"])
            .build();
        let front = factory
            .select(Target::<ConfigMap>::new())
            .labels("tier=front")
            .build();
        let one = factory
            .select(Target::<ConfigMap>::new())
            .fields("metadata.name=b")
            .build();
        let (heard, named) = (Heard::default(), Heard::default());
        let _front = front.add_handler(heard.handlers()).unwrap();
        let _one = one.add_handler(named.handlers()).unwrap();
        factory.start().unwrap();
        factory.synced_within(PATIENCE).await.unwrap();
        assert_eq!(
            (names(&front), names(&one)),
            (vec!["a".to_owned()], vec!["b".to_owned()])
        );
        change(&client, "one", "b", "front").await;
        heard.until("add b").await;
        named.until("update b").await;
        change(&client, "one", "a", "back").await;
        heard.until("delete a").await;
        remove(&client, "one", "b").await;
        heard.until("delete b").await;
        named.until("delete b").await;
        assert_eq!(heard.of("b"), ["add", "delete"]);
        assert!(named.of("a").is_empty());
        factory.shutdown().await;
    });
}

#[test]
fn metadata_alone_is_cached_if_asked() {
    on_both("metadata only", async |_, client| {
        make(&client, "one", "a", "front").await;
        let factory = InformerFactory::builder(client.clone())
            .namespaces(["one"])
            .build();
        let informer = factory
            .select(Target::<ConfigMap>::new())
            .metadata_only()
            .build();
        let heard = Heard::default();
        let _registration = informer.add_handler(heard.handlers()).unwrap();
        factory.start().unwrap();
        factory.synced_within(PATIENCE).await.unwrap();
        change(&client, "one", "a", "back").await;
        heard.until("update a").await;
        let object = informer.get(&ObjectKey::new(Some("one"), "a")).unwrap();
        assert_eq!(object.label("tier").as_deref(), Some("back"));
        let json: serde_json::Value = serde_json::from_slice(&object.to_json()).unwrap();
        assert!(json.get("data").is_none(), "{json}");
        factory.shutdown().await;
    });
}

/// Gives each config map with a tier a secret of the same name that holds the tier.
async fn follow(map: Arc<ConfigMap>, client: Client) -> Result<Action, kube::Error> {
    let namespace = map.namespace().unwrap_or_default();
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let Some(tier) = map.data.as_ref().and_then(|data| data.get("tier")) else {
        return Ok(Action::await_change());
    };
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "controller": true,
        "name": map.name_any(), "uid": map.uid()});
    let secret: BTreeMap<&str, serde_json::Value> = [
        ("apiVersion", json!("v1")),
        ("kind", json!("Secret")),
        (
            "metadata",
            json!({"name": map.name_any(), "ownerReferences": [owner]}),
        ),
        ("stringData", json!({"tier": tier})),
    ]
    .into();
    let name = map.name_any();
    let made: Secret = serde_json::from_value(json!(secret)).unwrap();
    if secrets.get_opt(&name).await?.is_none() {
        secrets.create(&PostParams::default(), &made).await?;
    } else {
        let params = PatchParams::default();
        secrets
            .patch(&name, &params, &Patch::Merge(json!(secret)))
            .await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_controller_follows_its_objects_and_what_they_own() {
    on_both("controller on a work queue", async |_, client| {
        let factory = InformerFactory::builder(client.clone())
            .namespaces(["one"])
            .build();
        let (maps, secrets) = (
            factory.informer::<ConfigMap>(),
            factory.informer::<Secret>(),
        );
        let (writer, cleaner) = (client.clone(), client.clone());
        let controller =
            Controller::of(&maps)
                .owns(&secrets)
                .workers(3)
                .on_gone(move |key: ObjectKey, _| {
                    let secrets: Api<Secret> =
                        Api::namespaced(cleaner.clone(), key.namespace().unwrap_or_default());
                    async move {
                        let gone = secrets.delete(key.name(), &DeleteParams::default()).await;
                        match gone {
                            Err(kube::Error::Api(status)) if status.code == 404 => {
                                Ok(Action::await_change())
                            }
                            other => other.map(|_| Action::await_change()),
                        }
                    }
                });
        factory.start().unwrap();
        let run = tokio::spawn(controller.run(move |map, _| follow(map, writer.clone())));
        for number in 0..10 {
            make(&client, "one", &format!("m-{number}"), "front").await;
        }
        let said = |name: &str, tier: &str| {
            let object = secrets.get(&ObjectKey::new(Some("one"), name));
            let typed = object.and_then(|object| object.typed().ok());
            let data = typed
                .and_then(|secret| secret.data.clone())
                .unwrap_or_default();
            data.get("tier")
                .is_some_and(|value| value.0 == tier.as_bytes())
        };
        until("ten secrets", || {
            (0..10).all(|n| said(&format!("m-{n}"), "front"))
        })
        .await;
        change(&client, "one", "m-3", "back").await;
        until("the change", || said("m-3", "back")).await;
        // A foreign change of an owned object is undone.
        let key = ObjectKey::new(Some("one"), "m-4");
        let uid = || secrets.get(&key).map(|secret| secret.uid().to_owned());
        let before = uid();
        let api: Api<Secret> = Api::namespaced(client.clone(), "one");
        api.delete("m-4", &DeleteParams::default()).await.unwrap();
        until("it is made again", || {
            uid().is_some_and(|now| Some(now) != before)
        })
        .await;
        remove(&client, "one", "m-5").await;
        let gone = ObjectKey::new(Some("one"), "m-5");
        until("the secret goes", || secrets.get(&gone).is_none()).await;
        factory.shutdown().await;
        let _ = within(run).await;
    });
}
