//! Tables of `ledger.rs`.
//!
//! ```text
//! pods as watched, decisions, bindings that failed ─▶ what is taken of a node, news for those that wait
//! ```

use k8s_openapi::api::core::v1::Pod;
use kinform::ObjectKey;
use serde_json::{Value, json};

use super::ledger::{Ledger, News, requests};

fn pod(uid: &str, node: &str, cpu: &str, phase: &str) -> Pod {
    let node = (!node.is_empty()).then_some(node);
    let pod = json!({
        "metadata": {"name": "p", "uid": uid},
        "spec": {"nodeName": node, "containers": [container(cpu)]},
        "status": {"phase": phase},
    });
    serde_json::from_value(pod).unwrap()
}

fn container(cpu: &str) -> Value {
    json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
}

fn cpu(ledger: &Ledger, node: &str) -> Option<i128> {
    ledger.taken(node)?.requests.get("cpu").copied()
}

#[test]
fn a_pod_that_was_bound_here_gets_its_start_time() {
    let mut ledger = Ledger::default();
    let started = |time: Option<&str>| -> Pod {
        let pod = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [],
            "nodeName": "n"}, "status": {"startTime": time}});
        serde_json::from_value(pod).unwrap()
    };
    let key = ObjectKey::new(Some("ns"), "p");
    ledger.assume(&key, &started(None), "n");
    let time = "2026-01-01T00:00:00Z";
    ledger.see(&key, &started(Some(time)));
    let below = ledger.below(1);
    assert_eq!(below["n"][0].since, time.parse().unwrap());
}

#[test]
fn a_decision_stands_until_the_watch_confirms_it() {
    let (mut ledger, key) = (Ledger::default(), ObjectKey::new(Some("a"), "p"));
    let waiting = pod("u", "", "500m", "Pending");
    ledger.assume(&key, &waiting, "n");
    assert_eq!(ledger.see(&key, &waiting), News::Same);
    assert_eq!(cpu(&ledger, "n"), Some(500));
    let mut see = |phase: &str| ledger.see(&key, &pod("u", "n", "500m", phase));
    assert_eq!(see("Pending"), News::Placed);
    assert_eq!(see("Running"), News::Same);
    assert_eq!(cpu(&ledger, "n"), Some(500));
    assert_eq!(
        ledger.see(&key, &pod("u", "n", "500m", "Succeeded")),
        News::Freed
    );
    assert_eq!(ledger.taken("n"), None);
}

#[test]
fn a_binding_whose_reply_was_lost_stays_once_a_watch_has_told_it() {
    let (mut ledger, key) = (Ledger::default(), ObjectKey::new(Some("a"), "p"));
    let waiting = pod("u", "", "500m", "Pending");
    ledger.assume(&key, &waiting, "n");
    assert!(!ledger.unassume(&key, "m"));
    assert_eq!(cpu(&ledger, "n"), Some(500), "of another node");
    ledger.see(&key, &pod("u", "n", "500m", "Pending"));
    assert!(!ledger.unassume(&key, "n"));
    assert_eq!(cpu(&ledger, "n"), Some(500));
    ledger.remove(&key);
    ledger.assume(&key, &waiting, "n");
    assert!(ledger.unassume(&key, "n"), "its room is free");
    assert_eq!(ledger.taken("n"), None);
}

#[test]
fn a_nomination_that_ends_elsewhere_gives_back_its_room() {
    let key = ObjectKey::new(Some("a"), "p");
    let waiting = pod("u", "", "500m", "Pending");
    let nominated = || {
        let mut ledger = Ledger::default();
        assert!(!ledger.nominate(&key, &waiting, "n"));
        ledger
    };
    assert!(!nominated().assume(&key, &waiting, "n"));
    assert!(nominated().assume(&key, &waiting, "m"));
    assert!(!nominated().nominate(&key, &waiting, "n"));
    assert!(nominated().nominate(&key, &waiting, "m"));
    let bound = |node| nominated().see(&key, &pod("u", node, "500m", "Pending"));
    assert_eq!(bound("n"), News::Placed);
    assert_eq!(bound("m"), News::Freed);
    let mut ledger = nominated();
    assert!(ledger.renounce(&key));
    assert!(!ledger.renounce(&key));
}

#[test]
fn a_pod_that_was_resized_takes_what_it_asks_for_now() {
    let (mut ledger, key) = (Ledger::default(), ObjectKey::new(Some("a"), "p"));
    let mut see = |amount: &str, taken: i128, news: News| {
        let told = ledger.see(&key, &pod("u", "n", amount, "Running"));
        assert_eq!((told, cpu(&ledger, "n")), (news, Some(taken)), "{amount}");
    };
    see("1", 1000, News::Placed);
    see("2", 2000, News::Same);
    see("500m", 500, News::Freed);
    see("500m", 500, News::Same);
}

#[test]
fn another_pod_of_the_name_is_another_pod() {
    let (mut ledger, key) = (Ledger::default(), ObjectKey::new(Some("a"), "p"));
    ledger.see(&key, &pod("u", "n", "1", "Running"));
    assert_eq!(ledger.see(&key, &pod("v", "", "1", "Pending")), News::Freed);
    assert_eq!(ledger.taken("n"), None);
    assert_eq!(
        ledger.see(&key, &pod("v", "m", "2", "Running")),
        News::Placed
    );
    assert_eq!(cpu(&ledger, "m"), Some(2000));
    assert!(ledger.remove(&key));
    assert!(!ledger.remove(&key));
}

#[test]
fn containers_add_up_and_init_containers_run_before_them() {
    let mut sidecar = container("1");
    sidecar["restartPolicy"] = "Always".into();
    let pod = json!({"spec": {
        "containers": [container("1"), container("1")],
        "initContainers": [container("2"), container("5"), sidecar],
        "overhead": {"cpu": "100m"},
    }});
    let requests = requests(&serde_json::from_value(pod).unwrap());
    assert_eq!(requests["cpu"], 5100);
}
