//! Planted loops and fights against the embedded server, under paused time.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kinform::events::EventRecorder;
use kinform::{
    Action, CancellationToken, Controller, ControllerMetrics, Ctx, Error, InformerFactory,
    StatusEdit,
};
use kinform_testkit::TestServer;
use kinform_testkit::server::Operator;
use kube_client::api::{Api, ListParams};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::foo::Foo;

const SECOND: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);

/// The findings that were reported when each run began, and the controller's numbers.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    runs: Arc<Mutex<Vec<u64>>>,
    metrics: Arc<Mutex<Option<ControllerMetrics>>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Found {
    Loops,
    Fights,
}

impl Seen {
    pub(crate) fn count(&self, what: Found) -> u64 {
        let metrics = self.metrics.lock().unwrap();
        let stats = metrics.as_ref().unwrap().snapshot();
        match what {
            Found::Loops => stats.loops,
            Found::Fights => stats.fights,
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.count(Found::Loops) + self.count(Found::Fights)
    }

    /// A run begins. Returns its number.
    pub(crate) async fn run(&self) -> usize {
        let number = {
            let found = self.total();
            let mut runs = self.runs.lock().unwrap();
            runs.push(found);
            runs.len()
        };
        // Time passes only while all else is at rest.
        tokio::time::sleep(PAUSE).await;
        number
    }

    /// The number of runs before the first finding.
    pub(crate) fn runs_before(&self) -> usize {
        let runs = self.runs.lock().unwrap();
        runs.iter().position(|found| *found > 0).unwrap()
    }
}

pub(crate) async fn server() -> TestServer {
    TestServer::start().crd::<Foo>().in_process().await.unwrap()
}

/// Runs a controller named `name`, with a recorder of events.
pub(crate) fn run<F, R>(api: &TestServer, name: &'static str, seen: &Seen, reconcile: F) -> Operator
where
    F: Fn(Arc<Foo>, Ctx<Seen>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, Error>> + Send + 'static,
{
    let seen = seen.clone();
    api.run(move |client| async move {
        let (events, delivery) = EventRecorder::new(client.clone(), name);
        let delivered = tokio::spawn(delivery.run(CancellationToken::new()));
        let factory = InformerFactory::new(client);
        let foos = factory.informer::<Foo>();
        factory.start()?;
        let controller = Controller::of(&foos).named(name).events(events);
        let controller = controller.context(seen.clone());
        *seen.metrics.lock().unwrap() = Some(controller.metrics());
        let ended = controller.run(reconcile).await;
        delivered.abort();
        ended
    })
}

/// The reasons and notes of the events of a component.
pub(crate) async fn events(api: &TestServer, component: &str) -> Vec<(String, String)> {
    let events: Api<Event> = Api::namespaced(api.client(), "default");
    let all = events.list(&ListParams::default()).await.unwrap().items;
    let of = all.into_iter().filter(|event| {
        let source = event
            .source
            .as_ref()
            .and_then(|source| source.component.as_deref());
        source == Some(component)
    });
    let text = |text: Option<String>| text.unwrap_or_default();
    of.map(|event| (text(event.reason), text(event.message)))
        .collect()
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LastSeen {
    last_seen: String,
}

#[tokio::test(start_paused = true)]
async fn a_status_time_that_each_run_writes_is_reported_with_its_path_and_manager() {
    // konflux-ci/konflux-ci#5874, ray-project/kuberay#639
    let (api, seen) = (server().await, Seen::default());
    api.create(&Foo::named("a")).await.unwrap();
    let operator = run(&api, "clock", &seen, |foo, cx| async move {
        let number = cx.run().await;
        let time = format!("2026-01-01T00:{:02}:{:02}Z", number / 60, number % 60);
        cx.status_as(&foo, move |status: &mut StatusEdit<LastSeen>| {
            status.last_seen.clone_from(&time);
        })
        .await?;
        Ok(Action::await_change())
    });
    tokio::time::sleep(10 * SECOND).await;
    // The first run was caused by the list, the ten after it by own writes.
    assert_eq!(seen.runs_before(), 11);
    assert_eq!((seen.count(Found::Loops), seen.total()), (1, 1), "once");
    let [(reason, note)] = &events(&api, "clock").await[..] else {
        panic!("one event");
    };
    assert_eq!(reason, "ReconcileLoop");
    assert!(
        note.contains("writes of status.lastSeen (managers: clock)"),
        "{note}"
    );
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_default_that_is_cleared_each_time_is_reported() {
    // controller-runtime#2733, openshift/hypershift#543
    let (api, seen) = (server().await, Seen::default());
    api.create(&Foo::named("a")).await.unwrap();
    let operator = run(&api, "defaults", &seen, |foo, cx| async move {
        cx.run().await;
        let replicas = match foo.spec.replicas {
            0 => json!(3),
            _ => json!(null),
        };
        cx.patch(&*foo, json!({"spec": {"replicas": replicas}}))
            .await?;
        Ok(Action::await_change())
    });
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(seen.runs_before(), 11);
    let [(reason, note)] = &events(&api, "defaults").await[..] else {
        panic!("one event");
    };
    assert_eq!(reason, "ReconcileLoop");
    assert!(note.contains("spec.replicas"), "{note}");
    assert_eq!(seen.total(), 1);
    operator.stop().await.unwrap();
}

/// Sets the replicas to this number.
async fn insist(foo: Arc<Foo>, cx: Ctx<Seen>, replicas: i32) -> Result<Action, Error> {
    cx.run().await;
    if foo.spec.replicas != replicas {
        cx.patch(&*foo, json!({"spec": {"replicas": replicas}}))
            .await?;
    }
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn two_managers_that_flip_a_field_are_reported_with_both_names_within_ten_runs() {
    let (api, seen, rivals) = (server().await, Seen::default(), Seen::default());
    api.create(&Foo::named("a")).await.unwrap();
    let one = run(&api, "one", &seen, |foo, cx| insist(foo, cx, 1));
    let rival = run(&api, "rival", &rivals, |foo, cx| insist(foo, cx, 5));
    tokio::time::sleep(10 * SECOND).await;
    assert!(seen.runs_before() <= 10, "{}", seen.runs_before());
    assert_eq!(
        (seen.count(Found::Fights), seen.total()),
        (1, 1),
        "once, and no loop"
    );
    let [(reason, note)] = &events(&api, "one").await[..] else {
        panic!("one event");
    };
    assert_eq!(reason, "FieldFight");
    assert_eq!(
        note,
        "two managers set spec.replicas in turns, 5 times: one, rival"
    );
    one.stop().await.unwrap();
    rival.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_of_twelve_steps_is_not_reported() {
    let (api, seen) = (server().await, Seen::default());
    api.create(&Foo::named("a")).await.unwrap();
    let operator = run(&api, "steps", &seen, |foo, cx| async move {
        cx.run().await;
        let step = foo
            .status
            .as_ref()
            .and_then(|status| status.ready)
            .unwrap_or(0);
        if step < 12 {
            cx.status(&foo, |status| status.ready = Some(step + 1))
                .await?;
        }
        Ok(Action::await_change())
    });
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(seen.runs.lock().unwrap().len(), 13);
    assert_eq!(seen.total(), 0);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_ordinary_churn_is_not_reported() {
    let (api, seen) = (server().await, Seen::default());
    let operator = run(&api, "churn", &seen, |foo, cx| async move {
        cx.run().await;
        // A status that flaps with what another writer does, and a label.
        cx.status(&foo, |status| status.ready = Some(foo.spec.replicas))
            .await?;
        if foo.metadata.labels.is_none() {
            cx.patch(&*foo, json!({"metadata": {"labels": {"managed": "yes"}}}))
                .await?;
        }
        Ok(Action::requeue(30 * SECOND))
    });
    let names = ["a", "b", "c"];
    for turn in 0..1_200usize {
        tokio::time::sleep(3 * SECOND).await;
        let name = names[turn % names.len()];
        let key = format!("default/{name}");
        match api.get::<Foo>(&key).await.unwrap() {
            None => _ = api.create(&Foo::named(name)).await.unwrap(),
            Some(_) if turn % 50 == 49 => api.delete::<Foo>(&key).await.unwrap(),
            Some(foo) => {
                let change = json!({"spec": {"replicas": turn % 2}});
                kinform::patch(&api.client(), "somebody", &foo, change)
                    .await
                    .unwrap();
            }
        }
    }
    assert!(seen.runs.lock().unwrap().len() > 1_000);
    assert_eq!(seen.total(), 0);
    operator.stop().await.unwrap();
}
