//! Examples of whole operators: leader election, webhooks, sharding.

use std::collections::BTreeSet;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::ran;

#[tokio::test]
async fn leader_election_hands_over_and_tells_it_in_metrics() {
    let ran = ran("leader_election").await;
    ran.has_in_order(&["first leads", "second leads"]);
    // It reconciles only once it leads, so after the first one has stopped.
    let standby = ran.lines.iter().position(|line| line.ends_with("/readyz"));
    assert!(ran.at("second: default/one") > standby.unwrap());
    assert_eq!(ran.count("> GET /readyz: 200"), 1);
    assert_eq!(ran.count("> GET /metrics: 200"), 1);
    assert!(
        ran.count("> leader_election_master_status{") >= 1,
        "{:#?}",
        ran.lines
    );
    // Both stopped in order, so nobody holds the lease.
    let lease: Lease = ran
        .api()
        .get("default/kinform-example")
        .await
        .unwrap()
        .unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!(spec.holder_identity.unwrap_or_default(), "");
}

#[tokio::test]
async fn webhook_denies_by_its_certificate_and_is_asked_by_the_server() {
    let ran = ran("webhook").await;
    let denied = ran
        .lines
        .iter()
        .find(|line| line.contains("denied the request"));
    assert!(
        denied.unwrap().contains("the label `team` is missing"),
        "{denied:?}"
    );
    assert_eq!(ran.count("Create settings by admin"), 2);
    let stored = ran
        .api()
        .get::<ConfigMap>("default/settings")
        .await
        .unwrap();
    assert_eq!(stored.unwrap().metadata.labels.unwrap()["team"], "a");
}

#[tokio::test]
async fn sharded_operator_works_on_every_key_in_the_end_and_both_replicas_worked() {
    let ran = ran("sharded_operator").await;
    let keys = |replica: &str| -> BTreeSet<&str> {
        let lines = ran.lines.iter();
        lines
            .filter_map(|line| line.strip_prefix(replica))
            .collect()
    };
    assert_eq!(keys("right: default/map-").len(), 32);
    assert!(!keys("left: default/map-").is_empty());
    let stopped = ran.at("left stops");
    let before = &ran.lines[..stopped];
    let shared = before.iter().filter(|line| line.starts_with("right: "));
    assert!(shared.count() < 32, "right had a share only");
}
