//! Events of `events.k8s.io/v1`, and what a stop and a refusal do to events, against the embedded
//! server under paused time.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Node, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use kinform::CancellationToken;
use kinform::events::{EventDelivery, EventRecorder};
use kinform_testkit::{ProxyMode, TestServer};
use kube_client::api::{Api, ListParams};
use tokio::task::JoinHandle;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

const SECOND: Duration = Duration::from_secs(1);

async fn server() -> TestServer {
    TestServer::start().in_process().await.unwrap()
}

fn recorder(api: &TestServer) -> (EventRecorder, EventDelivery) {
    let (events, delivery) = EventRecorder::with_series(api.client(), "example.com/tester");
    (events, delivery.instance("tester-0"))
}

fn run(delivery: EventDelivery) -> (CancellationToken, JoinHandle<()>) {
    let stop = CancellationToken::new();
    (stop.clone(), tokio::spawn(delivery.run(stop)))
}

fn map(name: &str, version: u32) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".to_owned());
    map.metadata.name = Some(name.to_owned());
    map.metadata.resource_version = Some(version.to_string());
    map
}

async fn stored(api: &TestServer) -> Vec<Event> {
    let events: Api<Event> = Api::namespaced(api.client(), "default");
    events.list(&ListParams::default()).await.unwrap().items
}

fn count(event: &Event) -> Option<i32> {
    event.series.as_ref().map(|series| series.count)
}

// client-go: TestRecordEventToSink, TestEventSeriesf, TestEventf, TestFinishSeries (tools/events)
#[tokio::test(start_paused = true)]
async fn e1_equal_events_about_an_object_that_changes_are_a_series_on_the_server() {
    let api = server().await;
    let (events, delivery) = recorder(&api);
    let (_stop, running) = run(delivery);
    events.warning(&map("a", 1), "Broken", "it does not start");
    tokio::time::sleep(SECOND).await;
    let [first] = &stored(&api).await[..] else {
        panic!("one event");
    };
    assert_eq!(count(first), None);
    assert_eq!(first.type_.as_deref(), Some("Warning"));
    assert_eq!(first.note.as_deref(), Some("it does not start"));
    let controller = first.reporting_controller.as_deref();
    assert_eq!(controller, Some("example.com/tester"));
    assert_eq!(first.reporting_instance.as_deref(), Some("tester-0"));
    assert_eq!(first.action.as_deref(), Some("Broken"));
    assert!(first.event_time.is_some());
    for version in 2..6 {
        events.warning(&map("a", version), "Broken", "it does not start");
        tokio::time::sleep(SECOND).await;
        // The second one is sent; further ones are counted.
        assert_eq!(count(&stored(&api).await[0]), Some(2));
    }
    tokio::time::sleep(430 * SECOND).await;
    let finished = stored(&api).await;
    assert_eq!((finished.len(), count(&finished[0])), (1, Some(5)));
    let counts = events.counts();
    assert_eq!((counts.sent, counts.merged), (2, 3));
    assert_eq!((counts.dropped, counts.refused), (0, 0));
    drop(events);
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_has_a_second_object_an_action_and_the_default_namespace() {
    let api = server().await;
    let (events, delivery) = recorder(&api);
    let (_stop, running) = run(delivery);
    let mut node = Node::default();
    node.metadata.name = Some("n1".to_owned());
    // 1,024 bytes end in the middle of a character.
    let note = format!("x{}", "ä".repeat(600));
    let about_node = events.for_object(&node).related(&map("b", 1));
    about_node.action("Scale").normal("Scaled", &note);
    // An object that is gone.
    let gone = ObjectReference {
        kind: Some("ConfigMap".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some("gone".to_owned()),
        ..ObjectReference::default()
    };
    events.for_reference(gone).normal("Gone", "for good");
    drop(events);
    running.await.unwrap();
    let mut stored = stored(&api).await;
    stored.sort_by_key(|event| event.reason.clone());
    let [_gone, scaled] = &stored[..] else {
        panic!("{stored:?}");
    };
    assert_eq!(scaled.action.as_deref(), Some("Scale"));
    assert_eq!(scaled.note.as_ref().map(String::len), Some(1_023));
    let related = scaled.related.as_ref().unwrap();
    assert_eq!(related.name.as_deref(), Some("b"));
    // The same event in the other API.
    let core: Api<CoreEvent> = Api::namespaced(api.client(), "default");
    let name = scaled.metadata.name.as_deref().unwrap();
    let core = core.get(name).await.unwrap();
    assert_eq!(core.involved_object.name.as_deref(), Some("n1"));
    assert_eq!(core.message, scaled.note);
}

// client-go: TestUpdateExpiredEvent, of a series
#[tokio::test(start_paused = true)]
async fn a_series_that_the_server_forgot_is_created_with_its_count() {
    let api = server().await;
    let (events, delivery) = recorder(&api);
    let (_stop, running) = run(delivery);
    for version in 1..3 {
        events.normal(&map("a", version), "Seen", "again");
    }
    tokio::time::sleep(SECOND).await;
    let name = stored(&api).await[0].metadata.name.clone().unwrap();
    api.delete::<CoreEvent>(&format!("default/{name}"))
        .await
        .unwrap();
    events.normal(&map("a", 3), "Seen", "again");
    drop(events);
    running.await.unwrap();
    let again = stored(&api).await;
    assert_eq!((again.len(), count(&again[0])), (1, Some(3)));
}

// client-go: TestBroadcasterShutdown, TestNonRacyShutdown
#[tokio::test(start_paused = true)]
async fn e4_a_stop_sends_what_is_under_way_and_queued_and_the_counts_of_series() {
    let api = server().await;
    let (events, delivery) = recorder(&api);
    let (stop, running) = run(delivery);
    for version in 1..6 {
        events.normal(&map("a", version), "Seen", "again");
    }
    tokio::time::sleep(SECOND).await;
    let network = api.network().expect("a network in process");
    network.set(ProxyMode::Refuse);
    network.cut();
    events.normal(&map("b", 1), "UnderWay", "at the stop");
    tokio::time::sleep(Duration::from_millis(1)).await;
    events.normal(&map("c", 1), "Queued", "at the stop");
    network.set(ProxyMode::Pass);
    stop.cancel();
    running.await.unwrap();
    let stored = stored(&api).await;
    let series = stored.iter().filter_map(count).collect::<Vec<_>>();
    assert_eq!((stored.len(), series), (3, vec![5]));
    assert_eq!(events.counts().dropped, 0);
    events.normal(&map("late", 1), "Late", "delivery has ended");
    assert_eq!(events.counts().dropped, 1);
}

// client-go: TestCancelEvent
#[tokio::test(start_paused = true)]
async fn a_stop_has_a_deadline_and_counts_what_was_not_delivered() {
    let api = server().await;
    let (events, delivery) = recorder(&api);
    let (stop, running) = run(delivery.flush_within(3 * SECOND));
    let network = api.network().expect("a network in process");
    network.set(ProxyMode::Stall);
    network.cut();
    for number in 0..20 {
        events.normal(&map(&format!("m{number}"), 1), "Many", "of them");
    }
    tokio::time::sleep(SECOND).await;
    let before = tokio::time::Instant::now();
    stop.cancel();
    running.await.unwrap();
    assert!(before.elapsed() < 4 * SECOND);
    assert_eq!(events.counts().dropped, 20);
}

/// The messages of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl<S: tracing::Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let is_ours = event.metadata().target().starts_with("kinform::events");
        if is_ours && *event.metadata().level() == tracing::Level::WARN {
            event.record(&mut self.clone());
        }
    }
}

// client-go: TestWriteEventError (a refusal is not tried again)
#[tokio::test(start_paused = true)]
async fn refused_events_are_counted_each_and_logged_once_for_a_cause() {
    let api = server().await;
    let warnings = Warnings::default();
    // See `d16_no_content_of_an_object_is_logged_or_reported`.
    let _second = tracing::Dispatch::new(registry().with(Warnings::default()));
    let _guard = tracing::subscriber::set_default(registry().with(warnings.clone()));
    tracing::callsite::rebuild_interest_cache();
    let (events, delivery) = recorder(&api);
    let (_stop, running) = run(delivery);
    // A namespace that does not exist, or ends, refuses its events.
    for number in 0..5 {
        let mut nowhere = map(&format!("m{number}"), 1);
        nowhere.metadata.namespace = Some("nowhere".to_owned());
        events.normal(&nowhere, "Lost", "for good");
    }
    events.normal(&map("a", 1), "Next", "at once");
    tokio::time::sleep(SECOND).await;
    let counts = events.counts();
    assert_eq!((counts.refused, counts.sent, counts.dropped), (5, 1, 0));
    let logged = warnings.0.lock().unwrap().clone();
    assert_eq!(logged.len(), 1, "{logged:?}");
    drop(events);
    running.await.unwrap();
}
