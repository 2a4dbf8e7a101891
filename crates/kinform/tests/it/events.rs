//! Events that a controller records, against the embedded server under paused time.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, ObjectReference};
use kinform::CancellationToken;
use kinform::events::{EventRecorder, EventType};
use kinform_testkit::{ProxyMode, TestServer};
use kube_client::api::{Api, ListParams};
use kube_core::Resource;
use tokio::task::JoinHandle;

const SECOND: Duration = Duration::from_secs(1);

async fn server() -> TestServer {
    TestServer::start().in_process().await.unwrap()
}

fn recorder(api: &TestServer) -> (EventRecorder, JoinHandle<()>) {
    let (events, delivery) = EventRecorder::new(api.client(), "tester");
    (events, tokio::spawn(delivery.run(CancellationToken::new())))
}

fn about(name: &str) -> ObjectReference {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".to_owned());
    map.metadata.name = Some(name.to_owned());
    map.object_ref(&())
}

async fn stored(api: &TestServer) -> Vec<Event> {
    let events: Api<Event> = Api::namespaced(api.client(), "default");
    events.list(&ListParams::default()).await.unwrap().items
}

/// Waits until everything recorded was delivered.
async fn delivered(events: EventRecorder, running: JoinHandle<()>) {
    drop(events);
    running.await.unwrap();
}

// client-go: TestEventCorrelator (identical events are counted up)
#[tokio::test(start_paused = true)]
async fn equal_events_are_one_whose_count_grows() {
    let api = server().await;
    let (events, running) = recorder(&api);
    for _ in 0..3 {
        events.event(
            about("a"),
            EventType::Warning,
            "Broken",
            "it does not start",
        );
    }
    events.event(about("a"), EventType::Normal, "Fixed", "it starts");
    delivered(events, running).await;
    let mut stored = stored(&api).await;
    stored.sort_by_key(|event| event.reason.clone());
    let [broken, fixed] = &stored[..] else {
        panic!("{stored:?}");
    };
    assert_eq!((broken.count, fixed.count), (Some(3), Some(1)));
    assert_eq!(broken.type_.as_deref(), Some("Warning"));
    assert_eq!(broken.message.as_deref(), Some("it does not start"));
    assert_eq!(broken.involved_object.name.as_deref(), Some("a"));
    assert_eq!(broken.reporting_component.as_deref(), Some("tester"));
    assert!(broken.first_timestamp <= broken.last_timestamp);
}

#[tokio::test(start_paused = true)]
async fn equal_events_ten_minutes_apart_and_one_that_was_deleted_begin_anew() {
    let api = server().await;
    let (events, running) = recorder(&api);
    let record = || events.event(about("a"), EventType::Normal, "Seen", "again");
    record();
    tokio::time::sleep(601 * SECOND).await;
    record();
    tokio::time::sleep(SECOND).await;
    let first = stored(&api).await;
    assert_eq!(first.len(), 2);
    for event in &first {
        let name = event.metadata.name.as_deref().unwrap();
        api.delete::<Event>(&format!("default/{name}"))
            .await
            .unwrap();
    }
    record();
    delivered(events, running).await;
    let again = stored(&api).await;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].count, Some(1));
}

// client-go: TestEventSpamFilter: 25 at once, then one in five minutes, for each object
#[tokio::test(start_paused = true)]
async fn a_noisy_object_is_cut_off_and_another_is_not() {
    let api = server().await;
    let (events, running) = recorder(&api);
    let noise = |number: u32| {
        let reason = format!("Noise{number}");
        events.event(about("noisy"), EventType::Normal, &reason, "message");
    };
    (0..40).for_each(noise);
    events.event(about("quiet"), EventType::Normal, "Word", "one");
    tokio::time::sleep(SECOND).await;
    assert_eq!(stored(&api).await.len(), 26);
    tokio::time::sleep(300 * SECOND).await;
    (40..43).for_each(noise);
    let handle = events.clone();
    drop(events);
    tokio::time::sleep(SECOND).await;
    assert_eq!((handle.counts().sent, handle.counts().dropped), (27, 17));
    let events = handle;
    delivered(events, running).await;
    assert_eq!(stored(&api).await.len(), 27);
}

// client-go: TestEventCorrelator (similar events)
#[tokio::test(start_paused = true)]
async fn e2_the_tenth_similar_event_and_those_after_it_are_one_whose_message_is_the_last() {
    let api = server().await;
    let (events, running) = recorder(&api);
    for number in 0..15 {
        let message = format!("scaled to {number}");
        events.event(about("a"), EventType::Normal, "Scaled", &message);
    }
    delivered(events, running).await;
    let stored = stored(&api).await;
    assert_eq!(stored.len(), 10);
    let combined = stored.iter().find(|event| event.count != Some(1)).unwrap();
    let expected = "(combined from similar events): scaled to 14";
    assert_eq!(combined.message.as_deref(), Some(expected));
    assert_eq!(combined.count, Some(6));
}

#[tokio::test(start_paused = true)]
async fn an_event_waits_for_a_server_that_is_unreachable_and_not_for_one_that_refuses() {
    let api = server().await;
    let (events, running) = recorder(&api);
    let network = api.network().expect("a network in process");
    network.set(ProxyMode::Refuse);
    network.cut();
    events.event(about("a"), EventType::Normal, "Late", "but there");
    tokio::time::sleep(30 * SECOND).await;
    network.set(ProxyMode::Pass);
    tokio::time::sleep(11 * SECOND).await;
    assert_eq!(stored(&api).await.len(), 1);
    // A namespace that does not exist is a refusal: the next event is not held up.
    let mut nowhere = about("b");
    nowhere.namespace = Some("nowhere".to_owned());
    events.event(nowhere, EventType::Normal, "Lost", "for good");
    events.event(about("c"), EventType::Normal, "Next", "at once");
    let before = tokio::time::Instant::now();
    delivered(events, running).await;
    assert!(before.elapsed() < SECOND);
    assert_eq!(stored(&api).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_and_what_is_queued_at_the_end_gets_one_try() {
    let api = server().await;
    let (events, delivery) = EventRecorder::new(api.client(), "tester");
    for number in 0..1001 {
        let name = format!("m{}", number % 100);
        events.event(about(&name), EventType::Normal, "Many", "of them");
    }
    assert_eq!(events.dropped(), 1);
    let stop = CancellationToken::new();
    stop.cancel();
    delivery.run(stop).await;
    let stored = stored(&api).await;
    assert_eq!(stored.len(), 100);
    assert!(stored.iter().all(|event| event.count == Some(10)));
    events.event(
        about("late"),
        EventType::Normal,
        "Late",
        "delivery has ended",
    );
    assert_eq!(events.dropped(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_long_message_is_cut_between_characters_and_cluster_objects_are_told_of_in_default() {
    let api = server().await;
    let (events, running) = recorder(&api);
    let mut node = Node::default();
    node.metadata.name = Some("n1".to_owned());
    // 1,024 bytes end in the middle of the last character.
    let message = format!("x{}", "ä".repeat(600));
    events.event(node.object_ref(&()), EventType::Normal, "Long", &message);
    // No event may be named so.
    events.event(about("system:node:x"), EventType::Normal, "Named", "oddly");
    delivered(events, running).await;
    let mut stored = stored(&api).await;
    stored.sort_by_key(|event| event.reason.clone());
    let cut = stored[0].message.as_deref().unwrap();
    assert_eq!((cut.len(), cut.chars().count()), (1023, 512));
    let name = stored[1].metadata.name.as_deref().unwrap();
    assert!(name.starts_with("event."), "{name}");
}
