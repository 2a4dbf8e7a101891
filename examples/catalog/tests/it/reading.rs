//! Examples that read: handlers, indexes, streams, projections, namespaces, caches on disk.

use serde_json::Value;

use crate::ran;

#[tokio::test]
async fn watch_pods_tells_what_was_found_from_what_came() {
    let ran = ran("watch_pods").await;
    ran.has_in_order(&[
        "found default/web-0 Pending",
        "synced",
        "added default/web-1 Pending",
        "updated default/web-1 Pending -> Running",
        "deleted default/web-1",
    ]);
}

#[tokio::test]
async fn index_and_lister_answer_without_further_requests() {
    let ran = ran("index_and_lister").await;
    ran.has_in_order(&[
        "node-1: default/db-0",
        "node-1: default/web-0",
        "node-2: default/web-1",
        "1 with db:1",
        "2 with web:1",
    ]);
    assert_eq!(ran.count("app=web: web-"), 2);
    let journal = ran.api().server().journal();
    assert_eq!(
        journal.count("list", "pods") + journal.count("watch", "pods"),
        1
    );
}

#[tokio::test]
async fn dynamic_types_are_read_by_path_and_one_is_awaited() {
    let ran = ran("dynamic_types").await;
    ran.has_in_order(&["Widget default/small: 3", "Gadget default/late: late"]);
    let waits = ran
        .lines
        .iter()
        .find(|line| line.starts_with("Gadgets wait: "));
    assert!(waits.unwrap().contains("not found (404)"), "{waits:?}");
    assert!(ran.at("> install Gadgets, create one") < ran.at("Gadgets are synced"));
}

#[tokio::test]
async fn metadata_only_has_the_annotation_of_the_selected_secret_and_no_value() {
    let ran = ran("metadata_only").await;
    assert_eq!(
        ran.lines,
        [
            "default/token rotated: 2026-01-31",
            "token in this process: 0 values"
        ]
    );
}

#[tokio::test]
async fn events_exporter_writes_json_of_new_events_only() {
    let ran = ran("events_exporter").await;
    let exported: Vec<Value> = ran
        .lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!exported.is_empty());
    for event in exported {
        assert_eq!(
            (&event["reason"], &event["name"]),
            (&"BackOff".into(), &"web-0".into())
        );
        assert_eq!(
            (&event["type"], &event["count"]),
            (&"Warning".into(), &1.into())
        );
    }
}

#[tokio::test]
async fn web_cache_answers_from_one_watch() {
    let ran = ran("web_cache").await;
    ran.has_in_order(&[
        "> GET /nodes/node-1/pods: 200 {\"pods\":[\"default/web-0\"]}",
        "> GET /nodes/node-2/pods: 200 {\"pods\":[]}",
    ]);
    let journal = ran.api().server().journal();
    assert_eq!(
        journal.count("list", "pods") + journal.count("watch", "pods"),
        1
    );
}

#[tokio::test]
async fn many_namespaces_follows_labels_and_asks_for_no_others() {
    let ran = ran("many_namespaces").await;
    ran.has_in_order(&[
        "+ team-a/settings",
        "> label team-b watched=true",
        "+ team-b/settings",
        "> label team-a watched=false",
        "- team-a/settings",
        "in the end: default team-b",
    ]);
    let asked = ran.api().server().journal().records();
    let maps = asked
        .iter()
        .filter(|record| record.is("watch", "configmaps"));
    assert!(maps.clone().count() >= 3);
    assert!(maps.clone().all(|record| record.namespace.is_some()));
}

#[tokio::test]
async fn warm_restart_lists_once_in_two_starts() {
    let ran = ran("warm_restart").await;
    assert_eq!(ran.count("start 1: lists: 1, items read: 2, "), 1);
    assert_eq!(ran.count("start 2: lists: 0, items read: 0, "), 1);
    for line in [
        "start 2: default/doomed is gone",
        "start 2: default/late is new",
    ] {
        assert!(ran.at(line) > ran.at("> delete doomed, create late"));
    }
    // The server's view: one streaming list. The second start asked for single items, and watched.
    let asked = ran.api().server().journal().records();
    let lists = asked.iter().filter(|record| {
        let is_whole = record.is("list", "configmaps") && !record.query.contains("limit=");
        is_whole
            || record.is("watch", "configmaps") && record.query.contains("sendInitialEvents=true")
    });
    assert_eq!(lists.count(), 1);
}

#[tokio::test]
async fn joined_tells_the_zone_of_a_pod_whose_node_comes_late() {
    let ran = ran("joined").await;
    ran.has_in_order(&[
        "default/web-0: no such node",
        "default/web-0: no such node -> a",
        "default/web-0: gone",
    ]);
}

#[tokio::test]
async fn the_past_is_compared_with_the_end() {
    let ran = ran("the_past").await;
    for line in ["+ new", "- lost"] {
        assert!(ran.at("remembered") < ran.at(line));
    }
    assert_eq!(ran.count("kept"), 0, "it is as it was");
    let journal = ran.api().server().journal();
    assert_eq!(journal.count("get", "configmaps"), 0);
}

#[tokio::test]
async fn many_clusters_come_and_go_with_their_secrets() {
    let ran = ran("many_clusters").await;
    assert!(ran.at("spoke joined: Ok(())") < ran.at("spoke left"));
    assert_eq!(ran.count("spoke: there"), 1);
    ran.at("in the end: 0 objects");
}

#[tokio::test]
async fn memory_budget_compresses_and_reads_the_same() {
    let ran = ran("memory_budget").await;
    let first = ran.lines.first().unwrap();
    assert!(
        first.ends_with("less than without a budget: true"),
        "{first}"
    );
    assert_eq!(ran.count("objects, the same: true"), 1);
}
