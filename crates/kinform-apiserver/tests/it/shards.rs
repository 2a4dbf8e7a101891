//! Shards of lists and watches, as controllers use them that divide the work among replicas.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use kinform_api::shards::{Ranges, ShardField, ShardRange, TOP, selector, terms_text};
use kinform_apiserver::{FeatureGate, FeatureGates, Server, Service};
use serde_json::{Value, json};

use crate::support::*;

const ALL: &str = "/api/v1/configmaps";
const STREAMED: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn sharded() -> (Server, Service) {
    let gates = FeatureGates::default().with(FeatureGate::ShardedListAndWatch);
    let server = Server::builder().feature_gates(gates).in_process();
    without_maps(&server);
    let service = server.service();
    namespace(&service, "a").await;
    namespace(&service, "b").await;
    (server, service)
}

/// The parameter for one of equal parts of all hashes.
fn part(field: ShardField, at: u128, count: u128) -> String {
    let start = |at: u128| (at * TOP).div_ceil(count);
    let range = ShardRange::new(u64::try_from(start(at)).unwrap(), start(at + 1)).unwrap();
    parameter(&selector(field, &Ranges::from(range)).unwrap())
}

fn parameter(text: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("shardSelector", text);
    query.finish()
}

/// Creates, changes and deletes maps, some of them several times.
async fn busy(service: &Service, round: u32) {
    for at in 0..12 {
        let (name, namespace) = (format!("m-{at}"), if at % 2 == 0 { "a" } else { "b" });
        if round > 0 {
            update(
                service,
                namespace,
                &name,
                json!({"round": round.to_string()}),
            )
            .await;
        }
        if round == 0 || at % 3 == 0 {
            if round > 0 {
                delete(service, namespace, &name).await;
            }
            create(service, namespace, &name, json!({})).await;
        }
    }
}

/// The events of a watch without its bookmarks.
async fn events(watch: &mut Watch) -> Vec<String> {
    let mut told = watch.within(Duration::from_secs(1)).await;
    told.retain(|event| !event.starts_with("SYNCED") && !event.starts_with("BOOKMARK"));
    told
}

#[tokio::test(start_paused = true)]
async fn disjoint_shards_are_the_whole_and_no_event_is_sent_twice() {
    for field in [ShardField::Uid, ShardField::Namespace] {
        let (_server, service) = sharded().await;
        busy(&service, 0).await;
        let mut whole = Watch::open(&service, &format!("{ALL}?{STREAMED}")).await;
        let mut shards = Vec::new();
        for at in 0..3 {
            let path = format!("{ALL}?{STREAMED}&{}", part(field, at, 3));
            shards.push(Watch::open(&service, &path).await);
        }
        for round in 0..3 {
            if round > 0 {
                busy(&service, round).await;
            }
            let expected = events(&mut whole).await;
            let mut told = Vec::new();
            for watch in &mut shards {
                told.extend(events(watch).await);
            }
            let distinct: BTreeSet<&String> = told.iter().collect();
            assert_eq!(distinct.len(), told.len(), "an event was sent twice");
            assert_eq!(distinct, expected.iter().collect(), "{field:?} {round}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pages_of_disjoint_shards_are_the_whole_list_and_tell_no_count_of_the_rest() {
    let (_server, service) = sharded().await;
    busy(&service, 0).await;
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let (_, whole) = get(&service, ALL).await;
    let mut listed = Vec::new();
    for at in 0..4 {
        let shard = part(ShardField::Uid, at, 4);
        let mut token = String::new();
        loop {
            let path = format!("{ALL}?limit=2&continue={token}&{shard}");
            let (code, list) = get(&service, &path).await;
            assert_eq!(code, 200, "{list}");
            assert!(
                list["metadata"]["shardInfo"]["selector"].is_string(),
                "{list}"
            );
            assert!(list["metadata"]["remainingItemCount"].is_null(), "{list}");
            listed.extend(names(&list));
            match list["metadata"]["continue"].as_str() {
                Some(next) => token = next.to_owned(),
                None => break,
            }
        }
    }
    let mut expected = names(&whole);
    expected.sort();
    listed.sort();
    assert_eq!(listed, expected);
}

#[tokio::test(start_paused = true)]
async fn a_delete_of_a_shard_leaves_the_other_objects() {
    let (server, service) = sharded().await;
    busy(&service, 0).await;
    let shard = part(ShardField::Namespace, 0, 2);
    let (_, listed) = get(&service, &format!("{ALL}?{shard}")).await;
    for namespace in ["a", "b"] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps?{shard}");
        let (code, reply) = send(&service, Method::DELETE, &path, Value::Null).await;
        assert_eq!(code, 200, "{reply}");
    }
    let deleted = listed["items"].as_array().unwrap().len();
    assert_eq!(server.objects("configmaps").len(), 12 - deleted);
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_the_parameter_is_ignored() {
    let (_server, service) = server().await;
    busy(&service, 0).await;
    let none = ShardRange::new(0, 1).unwrap();
    for text in ["nope".to_owned(), terms_text(ShardField::Uid, &[none])] {
        let (code, list) = get(&service, &format!("{ALL}?{}", parameter(&text))).await;
        assert_eq!(code, 200, "{list}");
        assert_eq!(list["items"].as_array().unwrap().len(), 12);
        assert!(list["metadata"]["shardInfo"].is_null(), "{list}");
        let path = format!("{ALL}?{STREAMED}&{}", parameter(&text));
        let mut watch = Watch::open(&service, &path).await;
        assert_eq!(events(&mut watch).await.len(), 12);
    }
}

#[tokio::test(start_paused = true)]
async fn texts_that_are_made_to_cost_much_are_refused() {
    let (_server, service) = sharded().await;
    let deep = format!("{}x{}", "(".repeat(2_000), ")".repeat(2_000));
    for (text, expected) in [
        (deep, "expression recursion limit exceeded: 250"),
        (
            "!".repeat(4_000),
            "expression recursion limit exceeded: 250",
        ),
        ("1+".repeat(2_000), "mismatched input '<EOF>'"),
        (
            "x".repeat(5_000),
            "expression code point size exceeds limit: size: 5000, limit 4096",
        ),
    ] {
        let (code, status) = get(&service, &format!("{ALL}?{}", parameter(&text))).await;
        assert_eq!(code, 500, "{status}");
        let message = status["message"].as_str().unwrap();
        let begin = "invalid shard selector: CEL parse error: ";
        assert!(
            message.starts_with(begin) && message.contains(expected),
            "{message}"
        );
    }
}
