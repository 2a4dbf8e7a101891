//! Lists, watches and deletes of shards, on a server with the gate `ShardedListAndWatch`.
//!
//! ```text
//! recorded objects, loaded at their versions ──▶ every form of their shards, refusals
//! watches of shards by namespace, opened together ── recorded writes ──▶ their frames
//! ```

use futures::future::join_all;
use kinform_apiserver::{FeatureGate, Server, parse_yaml};
use serde_json::{Value, json};

use super::comparison::{Comparison, Objects};
use super::recorded::{
    Exchange, OFFSET, Reply, builder, exchanges, lines, put, reach, reply, request, send, version,
};
use super::rows::Rows;
use super::streams;
use crate::support::without_maps;

/// A server with the gate, the namespaces of the recordings and a definition of foos.
async fn sharded(group: &str, version: &str) -> Server {
    let gated = builder().feature_gates(FeatureGate::ShardedListAndWatch);
    let server = gated.in_process();
    without_maps(&server);
    let service = server.service();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": format!("foos.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{"name": version, "served": true, "storage": true, "schema":
                {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, body) = send(&service, &request("POST", path, definition)).await;
    assert_eq!(code, 201, "{body}");
    for name in ["shop", "game", "tools", "farm", "mill", "port"] {
        let object = json!({"metadata": {"name": name}});
        let made = request("POST", "/api/v1/namespaces", object).header("user-agent", "shards/1");
        assert_eq!(send(&service, &made).await.0, 201, "{name}");
    }
    server
}

/// Stores the items of recorded lists, each at its version.
fn load(server: &Server, lists: &[(&[&str], &str)]) {
    let mut objects = Vec::new();
    for (path, list) in lists {
        let list: Value = serde_json::from_str(list).unwrap();
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        for item in list["items"].as_array().unwrap() {
            objects.push((version(item), path.clone(), item.clone()));
        }
    }
    objects.sort_by_key(|(version, ..)| *version);
    for (version, path, object) in objects {
        reach(server, version - 1);
        put(server, &path, object);
    }
}

fn is_stream(exchange: &Exchange) -> bool {
    exchange.path.contains("watch=true") && exchange.status == 200
}

/// The differences of a reply about loaded objects.
fn differences(exchange: &Exchange, reply: &Reply) -> Vec<String> {
    // This one has objects that were written here.
    let objects = match exchange.file == "shards/namespaces.ns-80.json" {
        true => Objects::Written,
        false => Objects::Loaded,
    };
    let mut comparison = Comparison::new(objects);
    let mut found = comparison.head(exchange, reply);
    found.extend(match exchange.accept.as_str() {
        "application/yaml" => {
            let read = |text: &str| parse_yaml(text.as_bytes()).unwrap().value.to_string();
            comparison.bodies(read(&exchange.body), read(reply.text()))
        }
        // The client closed these after the initial events.
        _ if is_stream(exchange) && exchange.file.starts_with("sharded/") => {
            streams::compare_begun(&mut comparison, &exchange.bytes, &reply.bytes)
        }
        _ if is_stream(exchange) => {
            streams::compare_as(&mut comparison, &exchange.bytes, &reply.bytes)
        }
        _ => comparison.bodies(&exchange.bytes, &reply.bytes),
    });
    found
}

/// The version of a recorded list, or that of the bookmark at the end of a stream.
fn version_of(exchange: &Exchange) -> Option<u64> {
    let last: Value = serde_json::from_str(exchange.body.lines().last()?).ok()?;
    let object = last.get("object").unwrap_or(&last);
    let version = object["metadata"]["resourceVersion"].as_str()?;
    version.parse().ok()
}

#[tokio::test(start_paused = true)]
async fn the_first_recorded_shards_are_those_of_a_real_server() {
    let recorded = exchanges("sharded");
    let body = |name: &str| {
        let file = format!("sharded/{name}.json");
        let found = recorded.iter().find(|exchange| exchange.file == file);
        found.unwrap().body.as_str()
    };
    let group = "samplecontroller.k8s.io";
    let server = sharded(group, "v1alpha1").await;
    let (maps, foos): (&[&str], &[&str]) = (
        &["api", "v1", "configmaps"],
        &["apis", group, "v1alpha1", "foos"],
    );
    let lists = [
        (maps, body("list-00")),
        (maps, body("list-80")),
        (foos, body("foos-00")),
        (foos, body("foos-80")),
    ];
    load(&server, &lists);
    let (service, mut rows) = (server.service(), Rows::of("sharded"));
    for exchange in &recorded {
        if let Some(version) = version_of(exchange) {
            reach(&server, version);
        }
        let reply = reply(&service, exchange).await;
        rows.row(exchange, &differences(exchange, &reply));
    }
    rows.finish();
}

/// A recorded exchange, as it is sent here.
fn as_sent(exchange: Exchange) -> Exchange {
    exchange.header("user-agent", "shards/1")
}

/// Compares the streams of live watches, and the replies to the writes that they saw.
async fn replay_story(recorded: &[Exchange], rows: &mut Rows) {
    let server = sharded("shards.example.com", "v1").await;
    let service = server.service();
    let (watches, steps): (Vec<_>, Vec<_>) =
        recorded.iter().partition(|exchange| is_stream(exchange));
    let streams = watches.iter().map(|exchange| reply(&service, exchange));
    let story = async {
        // The watches are open when the clock moves for the first time.
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let mut replies = Vec::new();
        for step in &steps {
            let mut step = as_sent((*step).clone());
            if step.method == "DELETE" {
                step.content_type = None;
            }
            replies.push(reply(&service, &step).await);
        }
        replies
    };
    let (streams, replies) = futures::join!(join_all(streams), story);
    for (exchange, reply) in watches.into_iter().zip(&streams) {
        let mut comparison = Comparison::new(Objects::Written);
        let mut found = streams::compare_as(&mut comparison, &exchange.bytes, &reply.bytes);
        found.extend(comparison.head(exchange, reply));
        rows.row(exchange, &found);
    }
    let mut comparison = Comparison::new(Objects::Written);
    for (exchange, reply) in steps.into_iter().zip(&replies) {
        rows.row(exchange, &comparison.reply(exchange, reply));
    }
}

#[tokio::test(start_paused = true)]
async fn shards_in_every_form_and_refused_selectors_are_those_of_a_real_server() {
    let recorded = exchanges("shards");
    let versions = lines("shards").into_iter().map(|line| line["at"].as_u64());
    let state = |what: &str| {
        let file = format!("shards/state-{what}.json");
        let found = recorded.iter().find(|exchange| exchange.file == file);
        found.unwrap().body.as_str()
    };
    let server = sharded("shards.example.com", "v1").await;
    let (maps, foos): (&[&str], &[&str]) = (
        &["api", "v1", "configmaps"],
        &["apis", "shards.example.com", "v1", "foos"],
    );
    load(&server, &[(maps, state("maps")), (foos, state("foos"))]);
    let (service, mut rows) = (server.service(), Rows::of("shards"));
    let mut told = Vec::new();
    for (exchange, at) in recorded.iter().cloned().map(as_sent).zip(versions) {
        let Some(at) = at else {
            told.push(exchange);
            continue;
        };
        if server.store().revision() < OFFSET + at {
            reach(&server, at);
        }
        let reply = reply(&service, &exchange).await;
        rows.row(&exchange, &differences(&exchange, &reply));
    }
    replay_story(&told, &mut rows).await;
    rows.finish();
}
