//! The causes of runs against the embedded server: own writes and those of others, under paused time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Action, Controller, ControllerMetrics, Ctx, Error, InformerFactory, Origin};
use kinform_testkit::TestServer;
use kinform_testkit::server::Operator;
use serde_json::json;

use crate::foo::Foo;

const SECOND: Duration = Duration::from_secs(1);

/// The causes of each run, and the controller's numbers.
#[derive(Clone, Default)]
struct Seen {
    runs: Arc<Mutex<Vec<String>>>,
    metrics: Arc<Mutex<Option<ControllerMetrics>>>,
}

impl Seen {
    async fn take(&self) -> Vec<String> {
        tokio::time::sleep(SECOND).await;
        std::mem::take(&mut self.runs.lock().unwrap())
    }
}

async fn server() -> TestServer {
    TestServer::start().crd::<Foo>().in_process().await.unwrap()
}

fn texts(cx: &Ctx<Seen>) -> String {
    // Versions depend on what the server stores besides.
    let text = |cause: kinform::Cause<'_>| {
        let text = cause.to_string();
        let words = text
            .split(' ')
            .map(|word| word.split('@').next().unwrap_or_default());
        words.collect::<Vec<_>>().join(" ")
    };
    cx.causes().iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Writes a status that follows the spec, and a child; asks for another run after a minute.
async fn reconcile(foo: Arc<Foo>, cx: Ctx<Seen>) -> Result<Action, Error> {
    let text = texts(&cx);
    cx.runs.lock().unwrap().push(text);
    cx.status(&foo, |status| status.ready = Some(foo.spec.replicas))
        .await?;
    let mut child = ConfigMap::default();
    child.metadata.name = Some("child".into());
    let replicas = foo.spec.replicas.to_string();
    cx.create_or_update(child, move |child| {
        child.data = Some([("replicas".to_owned(), replicas.clone())].into());
    })
    .await?;
    Ok(Action::requeue(60 * SECOND))
}

fn run(api: &TestServer, seen: &Seen, ignores: bool) -> Operator {
    let seen = seen.clone();
    api.run(move |client| async move {
        let factory = InformerFactory::new(client);
        let (foos, maps) = (factory.informer::<Foo>(), factory.informer::<ConfigMap>());
        factory.start()?;
        let controller = Controller::of(&foos).context(seen.clone()).owns(&maps);
        let controller = match ignores {
            true => controller.ignore_own_echo(),
            false => controller,
        };
        *seen.metrics.lock().unwrap() = Some(controller.metrics());
        controller.run(reconcile).await
    })
}

/// Changes the spec or the metadata of a Foo as another writer.
async fn write(api: &TestServer, change: serde_json::Value) {
    let foo: Foo = api.get("default/a").await.unwrap().unwrap();
    kinform::patch(&api.client(), "somebody", &foo, change)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn events_of_own_writes_are_named_and_those_of_others_are_not() {
    let (api, seen) = (server().await, Seen::default());
    api.create(&Foo::named("a")).await.unwrap();
    let operator = run(&api, &seen, false);
    let runs = seen.take().await;
    assert_eq!(runs[0], "initial Foo");
    let echoes = runs[1..].join(", ");
    assert!(echoes.contains("updated Foo status own"), "{runs:?}");
    assert!(
        echoes.contains("added ConfigMap default/child own"),
        "{runs:?}"
    );
    write(&api, json!({"spec": {"replicas": 3}})).await;
    let runs = seen.take().await;
    assert_eq!(runs[0], "updated Foo spec");
    let echoes = runs[1..].join(", ");
    assert!(
        echoes.contains("updated ConfigMap default/child other own"),
        "{runs:?}"
    );
    let metrics = seen.metrics.lock().unwrap().clone().unwrap();
    let recent = metrics.recent_runs();
    let origins =
        |run: &kinform::RecentRun| run.causes.iter().map(|c| c.origin()).collect::<Vec<_>>();
    assert!(recent[1].causes.are_own() && !recent[0].causes.are_own());
    assert!(
        origins(&recent[0])
            .iter()
            .all(|origin| *origin == Origin::Foreign)
    );
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn own_echoes_start_no_run_if_that_is_asked_for_and_take_no_delay_away() {
    // konflux-ci/konflux-ci#5874, ray-project/kuberay#639
    let (api, seen) = (server().await, Seen::default());
    api.create(&Foo::named("a")).await.unwrap();
    let operator = run(&api, &seen, true);
    assert_eq!(seen.take().await, ["initial Foo"]);
    // Every other write is heard: of the object, of its status, of what it owns.
    write(&api, json!({"spec": {"replicas": 3}})).await;
    assert_eq!(seen.take().await, ["updated Foo spec"]);
    let child: ConfigMap = api.get("default/child").await.unwrap().unwrap();
    let drift = json!({"data": {"replicas": "9"}});
    kinform::patch(&api.client(), "somebody", &child, drift)
        .await
        .unwrap();
    assert_eq!(seen.take().await, ["updated ConfigMap default/child other"]);
    let child: ConfigMap = api.get("default/child").await.unwrap().unwrap();
    assert_eq!(child.data.unwrap()["replicas"], "3");
    // The delay of the last run is still there.
    tokio::time::sleep(57 * SECOND).await;
    assert!(seen.take().await.is_empty());
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(seen.take().await, ["requeued"]);
    operator.stop().await.unwrap();
}
