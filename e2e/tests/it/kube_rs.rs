//! kube's runtime on both servers: watchers in both modes, a reflector, a controller with owned
//! objects, the finalizer helper, apply and strategic merges.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinform_e2e::servers::{Host, Servers};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::crd::CustomResourceExt;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event as Note, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, Event, InitialListStrategy, watcher};
use kube::runtime::{WatchStreamExt, predicates};
use kube::{Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a story on each server.
fn on_both<F: Future<Output = ()>>(what: &str, story: impl Fn(Client, &'static str) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let servers = Servers::start(what).await.unwrap();
        for host in servers.hosts() {
            let client = Client::try_from(host.config()).unwrap();
            namespace(host, client.clone()).await;
            tokio::time::timeout(PATIENCE * 2, story(client, "kube-rs"))
                .await
                .unwrap_or_else(|_| panic!("{what} on the {} server did not end", host.kind()));
            println!("RESULT | kube-rs: {what} | {} | ok |", host.kind());
        }
    });
}

async fn namespace(_: &Host, client: Client) {
    let object = serde_json::from_value(json!({"metadata": {"name": "kube-rs"}})).unwrap();
    let api: Api<Namespace> = Api::all(client);
    api.create(&PostParams::default(), &object).await.unwrap();
}

fn map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": value}})).unwrap()
}

async fn told(
    events: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin),
) -> String {
    let next = tokio::time::timeout(PATIENCE, events.next()).await;
    match next.unwrap().unwrap().unwrap() {
        Event::Init => "init".to_owned(),
        Event::InitApply(map) => format!("has {}", map.name_any()),
        Event::InitDone => "done".to_owned(),
        Event::Apply(map) => format!("applied {}", map.name_any()),
        Event::Delete(map) => format!("deleted {}", map.name_any()),
    }
}

async fn watcher_story(client: Client, namespace: &str, strategy: InitialListStrategy) {
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let post = PostParams::default();
    api.create(&post, &map("a", "1")).await.unwrap();
    // kube streams from version 0: from whatever the server's cache has, which follows the store.
    until("the server's cache has it", || async {
        let any = ListParams::default().match_any();
        !api.list(&any).await.unwrap().items.is_empty()
    })
    .await;
    let config = watcher::Config::default();
    let config = match strategy {
        InitialListStrategy::ListWatch => config,
        InitialListStrategy::StreamingList => config.streaming_lists(),
    };
    let mut events = watcher(api.clone(), config).boxed();
    for wanted in ["init", "has a", "done"] {
        assert_eq!(told(&mut events).await, wanted);
    }
    api.create(&post, &map("b", "1")).await.unwrap();
    assert_eq!(told(&mut events).await, "applied b");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(told(&mut events).await, "deleted a");
    api.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
    assert_eq!(told(&mut events).await, "deleted b");
}

#[test]
fn a_watcher_that_lists_tells_what_happens() {
    on_both("watcher, list and watch", |client, namespace| {
        watcher_story(client, namespace, InitialListStrategy::ListWatch)
    });
}

#[test]
fn a_watcher_that_streams_its_list_tells_what_happens() {
    on_both("watcher, streaming list", |client, namespace| {
        watcher_story(client, namespace, InitialListStrategy::StreamingList)
    });
}

#[test]
fn a_reflector_has_what_the_server_has() {
    on_both("reflector", |client, namespace| async move {
        let api: Api<ConfigMap> = Api::namespaced(client, namespace);
        let (reader, writer) = reflector::store();
        let changes = watcher(api.clone(), watcher::Config::default())
            .default_backoff()
            .reflect(writer)
            .applied_objects()
            .predicate_filter(predicates::resource_version, Default::default());
        let follow = tokio::spawn(changes.try_for_each(|_| async { Ok(()) }));
        reader.wait_until_ready().await.unwrap();
        for number in 0..20 {
            let map = map(&format!("m-{number}"), "1");
            api.create(&PostParams::default(), &map).await.unwrap();
        }
        api.delete("m-3", &DeleteParams::default()).await.unwrap();
        let last = ObjectRef::new("m-19").within(namespace);
        let gone = ObjectRef::new("m-3").within(namespace);
        until("the reflector follows", || {
            let has = reader.get(&last).is_some() && reader.get(&gone).is_none();
            async move { has }
        })
        .await;
        let listed = api.list(&ListParams::default()).await.unwrap();
        assert_eq!(reader.state().len(), listed.items.len());
        follow.abort();
    });
}

/// Waits until it holds.
async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let wait = async {
        while !holds().await {
            // Other programs need time, and no event marks when they are done.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.unwrap_or_else(|_| panic!("{what}: not in {PATIENCE:?}"));
}

/// A number of replicas of an object.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "kube-rs.example.com",
    version = "v1",
    kind = "Widget",
    namespaced,
    status = "WidgetStatus"
)]
struct WidgetSpec {
    size: i32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct WidgetStatus {
    wanted: i32,
}

struct Operator {
    client: Client,
    recorder: Recorder,
}

fn deployment(widget: &Widget) -> Deployment {
    let labels: BTreeMap<String, String> = [("widget".to_owned(), widget.name_any())].into();
    let container = json!({"name": "c", "image": "i"});
    let template = json!({"metadata": {"labels": &labels}, "spec": {"containers": [container]}});
    let mut made = Deployment {
        spec: DeploymentSpec {
            replicas: Some(widget.spec.size),
            selector: serde_json::from_value(json!({"matchLabels": &labels})).unwrap(),
            template: serde_json::from_value(template).unwrap(),
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    };
    made.metadata.name = Some(widget.name_any());
    made.metadata.owner_references = widget.controller_owner_ref(&()).map(|owner| vec![owner]);
    made
}

async fn reconcile(widget: Arc<Widget>, operator: Arc<Operator>) -> Result<Action, kube::Error> {
    let namespace = widget.namespace().unwrap_or_default();
    let widgets: Api<Widget> = Api::namespaced(operator.client.clone(), &namespace);
    let deployments: Api<Deployment> = Api::namespaced(operator.client.clone(), &namespace);
    let done = finalizer(&widgets, "example.com/tidy-up", widget, |event| async {
        match event {
            Finalizer::Apply(widget) => {
                let apply = PatchParams::apply("operator").force();
                let name = widget.name_any();
                let wanted = deployment(&widget);
                let made = deployments
                    .patch(&name, &apply, &Patch::Apply(&wanted))
                    .await?;
                let status = json!({"status": {"wanted": made.spec.replicas}});
                let merge = PatchParams::default();
                widgets
                    .patch_status(&name, &merge, &Patch::Merge(&status))
                    .await?;
                let note = Note {
                    type_: EventType::Normal,
                    reason: "Applied".to_owned(),
                    note: Some(format!("applied {name}")),
                    action: "Applying".to_owned(),
                    secondary: None,
                };
                operator
                    .recorder
                    .publish(&note, &widget.object_ref(&()))
                    .await?;
                Ok(Action::await_change())
            }
            Finalizer::Cleanup(widget) => {
                let name = widget.name_any();
                deployments
                    .delete(&name, &DeleteParams::background())
                    .await?;
                Ok::<_, kube::Error>(Action::await_change())
            }
        }
    });
    done.await.map_err(|error| match error {
        kube::runtime::finalizer::Error::ApplyFailed(error)
        | kube::runtime::finalizer::Error::CleanupFailed(error)
        | kube::runtime::finalizer::Error::AddFinalizer(error)
        | kube::runtime::finalizer::Error::RemoveFinalizer(error) => error,
        other => kube::Error::Service(other.to_string().into()),
    })
}

async fn controller_story(client: Client, namespace: &'static str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = Widget::crd();
    let name = definition.name_any();
    let apply = PatchParams::apply("test");
    definitions
        .patch(&name, &apply, &Patch::Apply(&definition))
        .await
        .unwrap();
    let established = await_condition(definitions, &name, conditions::is_crd_established());
    tokio::time::timeout(PATIENCE, established)
        .await
        .unwrap()
        .unwrap();

    let widgets: Api<Widget> = Api::namespaced(client.clone(), namespace);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let recorder = Recorder::new(client.clone(), Reporter::from("operator"));
    let operator = Arc::new(Operator {
        client: client.clone(),
        recorder,
    });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let config = watcher::Config::default();
    let run = Controller::new(widgets.clone(), config.clone())
        .owns(deployments.clone(), config)
        .graceful_shutdown_on(async move {
            let _ = stopped.await;
        })
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(200)),
            operator,
        )
        .for_each(|done| async {
            if let Err(error) = done {
                eprintln!("the controller: {error:?}");
            }
        });
    let run = tokio::spawn(run);

    let post = PostParams::default();
    widgets
        .create(&post, &Widget::new("w", WidgetSpec { size: 2 }))
        .await
        .unwrap();
    let size = |wanted: i32| {
        let deployments = deployments.clone();
        move || {
            let deployments = deployments.clone();
            async move {
                let read = deployments.get_opt("w").await.unwrap();
                read.and_then(|d| d.spec.replicas) == Some(wanted)
            }
        }
    };
    until("the deployment", size(2)).await;
    until("the status", || async {
        let widget = widgets.get_status("w").await.unwrap();
        widget.finalizers() == ["example.com/tidy-up"]
            && widget.status.is_some_and(|s| s.wanted == 2)
    })
    .await;
    let patch = Patch::Merge(json!({"spec": {"size": 5}}));
    widgets
        .patch("w", &PatchParams::default(), &patch)
        .await
        .unwrap();
    until("the change", size(5)).await;
    // A foreign change of an owned object is undone.
    let patch = Patch::Strategic(json!({"spec": {"replicas": 0}}));
    deployments
        .patch("w", &PatchParams::default(), &patch)
        .await
        .unwrap();
    until("what was changed is restored", size(5)).await;
    widgets.delete("w", &DeleteParams::default()).await.unwrap();
    until("both are gone", || async {
        let (widget, deployment) = (widgets.get_opt("w").await, deployments.get_opt("w").await);
        widget.unwrap().is_none() && deployment.unwrap().is_none()
    })
    .await;
    let _ = stop.send(());
    tokio::time::timeout(PATIENCE, run).await.unwrap().unwrap();
}

#[test]
fn a_controller_with_owned_objects_and_a_finalizer_does_its_work() {
    on_both("controller, finalizer, apply, events", controller_story);
}

#[test]
fn patches_of_each_type_do_the_same() {
    on_both("patches", |client, namespace| async move {
        let api: Api<Deployment> = Api::namespaced(client, namespace);
        let widget = Widget::new("p", WidgetSpec { size: 1 });
        let mut wanted = deployment(&widget);
        wanted.metadata.owner_references = None;
        let apply = PatchParams::apply("one");
        let applied = api
            .patch("p", &apply, &Patch::Apply(&wanted))
            .await
            .unwrap();
        let managers = applied.metadata.managed_fields.unwrap_or_default();
        assert_eq!(managers.len(), 1);
        let conflicting = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "p"}, "spec": {"replicas": 3}});
        let other = PatchParams::apply("two");
        let refused = api
            .patch("p", &other, &Patch::Apply(&conflicting))
            .await
            .unwrap_err();
        assert!(
            matches!(&refused, kube::Error::Api(status) if status.code == 409),
            "{refused}"
        );
        let strategic =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "j"}]}}}});
        let params = PatchParams::default();
        let merged = api
            .patch("p", &params, &Patch::Strategic(strategic))
            .await
            .unwrap();
        let containers = |d: &Deployment| {
            let spec = d.spec.template.spec.as_ref();
            spec.map_or(0, |spec| spec.containers.len())
        };
        assert_eq!(containers(&merged), 2);
        let merge =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "e", "image": "k"}]}}}});
        let replaced = api.patch("p", &params, &Patch::Merge(merge)).await.unwrap();
        assert_eq!(containers(&replaced), 1);
        let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 7}]);
        let operations = Patch::Json::<()>(serde_json::from_value(operations).unwrap());
        let done = api.patch("p", &params, &operations).await.unwrap();
        assert_eq!(done.spec.replicas, Some(7));
    });
}
