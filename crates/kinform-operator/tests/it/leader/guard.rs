//! Requests that pass during a term only.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform_apiserver::FaultRule;
use kinform_operator::leader::{LeaseOptions, NotLeading, is_not_leading};
use kinform_testkit::{Fault, Network, ProxyMode, TestServer};
use kube_client::api::{Api, PostParams, WatchParams};
use kube_client::{Client, Error};
use serde_json::json;

use super::{Replica, replica, server, taking};

fn guarded(replica: &Replica, client: Client) -> Client {
    replica.leadership.guard().over(&client)
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

async fn create(client: &Client, name: &str) -> Result<ConfigMap, Error> {
    maps(client)
        .create(&PostParams::default(), &map(name))
        .await
}

/// The queries of requests on config maps, with their verbs.
fn queries(api: &TestServer) -> Vec<(&'static str, String)> {
    let records = api.server().journal().records();
    let records = records.into_iter().filter(|r| r.resource == "configmaps");
    records.map(|record| (record.verb, record.query)).collect()
}

fn not_leading(error: &Error) -> NotLeading {
    let Error::Service(cause) = error else {
        panic!("{error}");
    };
    cause
        .downcast_ref::<NotLeading>()
        .expect("its type")
        .clone()
}

#[tokio::test(start_paused = true)]
async fn requests_pass_during_a_term_with_its_rest_as_their_timeout() {
    let api = server().await;
    let a = replica(&api, "a");
    let client = guarded(&a, api.client());
    let error = create(&client, "early").await.unwrap_err();
    assert!(is_not_leading(&error), "{error}");
    assert!(!not_leading(&error).may_have_taken_effect());
    assert_eq!(not_leading(&error).lease(), "default/operator");

    let term = a.won().await;
    create(&client, "one").await.unwrap();
    maps(&client).get("one").await.unwrap();
    let watching = maps(&client).watch(&WatchParams::default(), "0").await;
    drop(watching.unwrap());
    let mut seen = queries(&api);
    let (verb, query) = seen.pop().unwrap();
    assert!(verb == "watch" && !query.contains("timeout="), "{query}");
    let (verb, query) = seen.pop().unwrap();
    assert_eq!((verb, &*query), ("get", "timeout=2000ms"));
    let (verb, query) = seen.pop().unwrap();
    assert_eq!((verb, &*query), ("create", "timeout=2000ms"));
    assert!(seen.is_empty(), "{seen:?}");

    // Towards the end of a term that is not renewed, the rest is shorter.
    a.link.set(ProxyMode::Stall);
    let rest = loop {
        let Some(running) = a.leadership.term() else {
            panic!("it ended unnoticed");
        };
        let began = tokio::time::Instant::now();
        if maps(&client).get("one").await.is_err() {
            continue;
        }
        let (_, query) = queries(&api).pop().unwrap();
        let millis: u64 = query["timeout=".len()..query.len() - 2].parse().unwrap();
        assert!(millis <= 2000 && running.ends_at >= term.ends_at);
        if millis < 2000 {
            break Duration::from_millis(millis).saturating_sub(began.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    tokio::time::sleep(rest + Duration::from_millis(2)).await;
    let error = create(&client, "late").await.unwrap_err();
    assert!(is_not_leading(&error), "{error}");
    assert!(
        api.get::<ConfigMap>("default/late")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn l11_a_request_under_way_is_dropped_at_the_end_of_the_term() {
    let api = server().await;
    let a = replica(&api, "a");
    let client = guarded(&a, api.client());
    a.won().await;
    let hang = FaultRule::new(Fault::Hang).on_resource("configmaps");
    api.server().faults().inject(hang.always());
    // By a message.
    let write = tokio::spawn({
        let client = client.clone();
        async move { create(&client, "one").await }
    });
    tokio::task::yield_now().await;
    api.delete::<Lease>("default/operator").await.unwrap();
    let (after, error) = taking(write).await;
    let error = error.unwrap().unwrap_err();
    assert!(not_leading(&error).may_have_taken_effect(), "{error}");
    assert!(after < super::AT_ONCE, "{after:?}");
    // By the clock.
    a.leadership.idle();
    a.won().await;
    a.link.set(ProxyMode::Stall);
    let (after, error) = taking(create(&client, "two")).await;
    assert!(not_leading(&error.unwrap_err()).may_have_taken_effect());
    assert!(after <= LeaseOptions::default().term_length(), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_lost_term_does_not_live_on_in_the_next_one() {
    let api = server().await;
    let a = replica(&api, "a");
    let client = guarded(&a, api.client());
    a.won().await;
    let hang = FaultRule::new(Fault::Hang).on_resource("configmaps");
    api.server().faults().inject(hang);
    let write = tokio::spawn({
        let client = client.clone();
        async move { create(&client, "one").await }
    });
    tokio::task::yield_now().await;
    a.leadership.idle();
    api.delete::<Lease>("default/operator").await.unwrap();
    let (_, error) = taking(write).await;
    assert!(is_not_leading(&error.unwrap().unwrap_err()));
    a.leadership.idle();
    a.won().await;
    create(&client, "two").await.unwrap();
}
