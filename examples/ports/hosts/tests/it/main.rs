//! The same tests of both columns of the controller of host configurations.
//!
//! ```text
//! test ─▶ Stage: cluster + one column as a process ─▶ owned objects, status, pages
//! ```
//!
//! Each test is a function of the column; the macro makes two tests of it.

mod stage;

use std::time::Duration;

use harness::Page;
use hosts::{FINALIZER, HostConfig};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt as _;
use serde_json::json;

use crate::stage::{Failed, Stage};

/// Makes a test of each function for each column.
macro_rules! of_both_columns {
    ($($test:ident),* $(,)?) => {
        mod kube_runtime {
            $(#[tokio::test]
            async fn $test() -> Result<(), crate::Failed> {
                crate::$test(harness::Column::KubeRuntime).await
            })*
        }
        mod kinform {
            $(#[tokio::test]
            async fn $test() -> Result<(), crate::Failed> {
                crate::$test(harness::Column::Kinform).await
            })*
        }
    };
}

of_both_columns! {
    a_configuration_gets_its_objects_which_it_owns,
    a_change_of_the_configuration_is_in_the_deployment,
    hosts_on_each_node_are_a_daemon_set,
    a_changed_deployment_is_set_right,
    a_deleted_config_map_is_made_anew,
    hosts_that_work_are_in_the_status,
    credentials_come_from_a_secret,
    a_missing_secret_is_a_failure_until_it_is_there,
    a_deleted_configuration_takes_its_objects_along,
    a_change_while_the_network_is_away_is_not_missed,
    the_pages_tell_of_health_runs_and_the_last_event,
    without_its_definition_the_program_ends_with_an_error,
    sigterm_ends_it_with_success,
}

async fn a_configuration_gets_its_objects_which_it_owns(
    column: harness::Column,
) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage
        .create("one", json!({"hostLabels": {"zone": "north"}}))
        .await?;
    let config = stage
        .until("one", |config: &HostConfig| config.status.is_some())
        .await?;
    assert_eq!(config.finalizers(), [FINALIZER]);
    let map: ConfigMap = stage.owned(&config).await?;
    let text = map
        .data
        .unwrap_or_default()
        .remove("nats.conf")
        .unwrap_or_default();
    assert!(
        text.contains("nats.default.svc.cluster.local:7422"),
        "{text}"
    );
    assert!(!text.contains("credentials"), "{text}");
    stage.owned::<ServiceAccount>(&config).await?;
    stage.owned::<Role>(&config).await?;
    stage.owned::<RoleBinding>(&config).await?;
    stage.owned::<Service>(&config).await?;
    let deployment: Deployment = stage.owned(&config).await?;
    assert_eq!(deployment.spec.replicas, Some(1));
    let labels = deployment
        .spec
        .template
        .metadata
        .and_then(|metadata| metadata.labels);
    let zone = labels
        .unwrap_or_default()
        .remove("host-label.ports.kinform.dev/zone");
    assert_eq!(zone.as_deref(), Some("north"));
    Ok(())
}

async fn a_change_of_the_configuration_is_in_the_deployment(
    column: harness::Column,
) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("one", json!({})).await?;
    stage.until("one", replicas(1)).await?;
    stage
        .patch::<HostConfig>("one", json!({"spec": {"hostReplicas": 3}}))
        .await?;
    stage.until("one", replicas(3)).await?;
    Ok(())
}

async fn hosts_on_each_node_are_a_daemon_set(column: harness::Column) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("each", json!({"daemonset": true})).await?;
    let config = stage
        .until("each", |config: &HostConfig| config.status.is_some())
        .await?;
    stage.owned::<DaemonSet>(&config).await?;
    assert!(stage.find::<Deployment>("each").await?.is_none());
    Ok(())
}

async fn a_changed_deployment_is_set_right(column: harness::Column) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("one", json!({})).await?;
    stage
        .until("one", |config: &HostConfig| config.status.is_some())
        .await?;
    stage
        .patch::<Deployment>("one", json!({"spec": {"replicas": 7}}))
        .await?;
    stage.until("one", replicas(1)).await?;
    Ok(())
}

async fn a_deleted_config_map_is_made_anew(column: harness::Column) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("one", json!({})).await?;
    stage
        .until("one", |config: &HostConfig| config.status.is_some())
        .await?;
    let before: ConfigMap = stage.until("one", |_| true).await?;
    stage.delete::<ConfigMap>("one").await?;
    stage
        .until("one", |map: &ConfigMap| map.uid() != before.uid())
        .await?;
    Ok(())
}

async fn hosts_that_work_are_in_the_status(column: harness::Column) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("one", json!({})).await?;
    stage
        .until("one", |config: &HostConfig| config.status.is_some())
        .await?;
    stage
        .patch_status::<Deployment>("one", json!({"replicas": 1, "readyReplicas": 1}))
        .await?;
    let is_told = |config: &HostConfig| config.status.as_ref().is_some_and(|it| it.hosts == 1);
    stage.until("one", is_told).await?;
    Ok(())
}

async fn credentials_come_from_a_secret(column: harness::Column) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create_secret("bus").await?;
    stage.create("one", json!({"secretName": "bus"})).await?;
    let has = |config: &HostConfig| config.status.as_ref().is_some_and(|it| it.has_credentials);
    let config = stage.until("one", has).await?;
    let map: ConfigMap = stage.owned(&config).await?;
    let text = map
        .data
        .unwrap_or_default()
        .remove("nats.conf")
        .unwrap_or_default();
    assert!(text.contains("credentials: \"/nats/nats.creds\""), "{text}");
    let deployment: Deployment = stage.owned(&config).await?;
    let pod = deployment.spec.template.spec.unwrap_or_default();
    assert_eq!(pod.volumes.unwrap_or_default().len(), 2);
    Ok(())
}

async fn a_missing_secret_is_a_failure_until_it_is_there(
    column: harness::Column,
) -> Result<(), Failed> {
    let mut stage = Stage::start(column).await?;
    stage.create("one", json!({"secretName": "late"})).await?;
    let line = r#"port_reconcile_failures_total{instance="one",error="#;
    stage.until_page(Page::Metrics, line).await?;
    assert!(stage.find::<Deployment>("one").await?.is_none());
    stage.create_secret("late").await?;
    // It is tried again each second.
    stage.until("one", replicas(1)).await?;
    Ok(())
}

async fn a_deleted_configuration_takes_its_objects_along(
    column: harness::Column,
) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("one", json!({})).await?;
    stage
        .until("one", |config: &HostConfig| config.status.is_some())
        .await?;
    stage.delete::<HostConfig>("one").await?;
    stage.until_gone::<HostConfig>("one").await?;
    stage.until_gone::<Deployment>("one").await?;
    stage.until_gone::<Service>("one").await?;
    Ok(())
}

async fn a_change_while_the_network_is_away_is_not_missed(
    column: harness::Column,
) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("far", json!({})).await?;
    stage
        .until("far", |config: &HostConfig| config.status.is_some())
        .await?;
    let away = stage.cluster().expire_unheard(Duration::from_millis(300));
    let change = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stage
            .patch::<HostConfig>("far", json!({"spec": {"hostReplicas": 2}}))
            .await
    };
    let ((), changed) = tokio::join!(away, change);
    changed?;
    stage.until("far", replicas(2)).await?;
    Ok(())
}

async fn the_pages_tell_of_health_runs_and_the_last_event(
    column: harness::Column,
) -> Result<(), Failed> {
    let mut stage = Stage::start(column).await?;
    assert_eq!(stage.page(Page::Health).await?.0, 200);
    let before = stage.page(Page::Diagnostics).await?;
    assert!(before.1.contains("host-controller"), "{}", before.1);
    stage.create("one", json!({})).await?;
    stage
        .until("one", |config: &HostConfig| config.status.is_some())
        .await?;
    stage
        .until_page(Page::Metrics, "port_reconcile_duration_seconds_bucket")
        .await?;
    assert_ne!(stage.page(Page::Diagnostics).await?, before);
    Ok(())
}

async fn without_its_definition_the_program_ends_with_an_error(
    column: harness::Column,
) -> Result<(), Failed> {
    let mut stage = Stage::bare(column).await?;
    let ended = stage.ended().await?;
    assert_eq!(ended.code(), Some(1), "{}", stage.log());
    assert!(stage.log().contains("ERROR"), "{}", stage.log());
    Ok(())
}

async fn sigterm_ends_it_with_success(column: harness::Column) -> Result<(), Failed> {
    let mut stage = Stage::start(column).await?;
    stage.create("one", json!({})).await?;
    stage
        .until("one", |config: &HostConfig| config.status.is_some())
        .await?;
    let ended = stage.stop().await?;
    assert!(ended.success(), "{ended}:\n{}", stage.log());
    Ok(())
}

/// A Deployment with this number of hosts.
fn replicas(hosts: i32) -> impl Fn(&Deployment) -> bool {
    move |deployment| deployment.spec.replicas == Some(hosts)
}
