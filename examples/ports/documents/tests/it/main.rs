//! The same tests of both columns of the controller of documents.
//!
//! ```text
//! test ─▶ Stage: cluster + one column as a process ─▶ objects, events, pages
//! ```
//!
//! Each test is a function of the column; the macro makes two tests of it.

mod stage;

use std::time::Duration;

use documents::document::FINALIZER;
use harness::Page;
use kube::ResourceExt as _;

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
    a_document_gets_the_finalizer_and_a_status,
    hiding_is_told_by_one_event_and_the_status,
    showing_again_is_in_the_status_without_an_event,
    a_document_that_was_there_before_the_program_is_reconciled,
    a_status_that_somebody_else_wrote_is_overwritten,
    an_illegal_title_is_a_counted_failure_that_leaves_the_status,
    a_failure_is_tried_again_after_the_pause,
    a_document_without_changes_is_looked_at_again_after_the_pause,
    a_deleted_document_goes_and_has_an_event,
    an_illegal_document_can_be_deleted,
    the_pages_tell_of_health_runs_and_the_last_event,
    a_change_while_the_network_is_away_is_not_missed,
    without_its_definition_the_program_ends_with_an_error,
    sigterm_ends_it_with_success,
}

async fn a_document_gets_the_finalizer_and_a_status(column: harness::Column) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("plain", "A title", false).await?;
    let document = stage
        .until("plain", |document| document.status.is_some())
        .await?;
    assert!(!document.status.is_some_and(|status| status.hidden));
    assert_eq!(
        document.metadata.finalizers.unwrap_or_default(),
        [FINALIZER]
    );
    assert!(stage.all_events("plain").await?.is_empty());
    Ok(())
}

async fn hiding_is_told_by_one_event_and_the_status(column: harness::Column) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("secret", "A title", true).await?;
    stage.until_hidden("secret", true).await?;
    let events = stage.all_events("secret").await?;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].reason.as_deref(), Some("HideRequested"));
    assert_eq!(events[0].action.as_deref(), Some("Hiding"));
    assert_eq!(events[0].type_.as_deref(), Some("Normal"));
    assert_eq!(events[0].message.as_deref(), Some("hides secret"));
    assert_eq!(events[0].count.unwrap_or(1), 1);
    Ok(())
}

async fn showing_again_is_in_the_status_without_an_event(
    column: harness::Column,
) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("shown", "A title", true).await?;
    stage.until_hidden("shown", true).await?;
    stage.hide("shown", false).await?;
    stage.until_hidden("shown", false).await?;
    assert_eq!(stage.all_events("shown").await?.len(), 1);
    Ok(())
}

async fn a_document_that_was_there_before_the_program_is_reconciled(
    column: harness::Column,
) -> Result<(), Failed> {
    let stage = Stage::empty().await?;
    stage.create("old", "A title", true).await?;
    let stage = stage.with(column, Stage::LONG)?;
    stage.until_hidden("old", true).await?;
    Ok(())
}

async fn a_status_that_somebody_else_wrote_is_overwritten(
    column: harness::Column,
) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("contested", "A title", false).await?;
    stage
        .until("contested", |document| document.status.is_some())
        .await?;
    stage.write_status("contested", true).await?;
    stage.until_hidden("contested", false).await?;
    Ok(())
}

async fn an_illegal_title_is_a_counted_failure_that_leaves_the_status(
    column: harness::Column,
) -> Result<(), Failed> {
    let mut stage = Stage::start(column).await?;
    stage.create("bad", "illegal", false).await?;
    let line = r#"port_reconcile_failures_total{instance="bad",error="the title is illegal"} 1"#;
    stage.until_page(Page::Metrics, line).await?;
    let document = stage
        .until("bad", |document| !document.finalizers().is_empty())
        .await?;
    assert!(document.status.is_none());
    Ok(())
}

async fn a_failure_is_tried_again_after_the_pause(column: harness::Column) -> Result<(), Failed> {
    let mut stage = Stage::empty().await?.with(column, Stage::SHORT)?;
    stage.create("bad", "illegal", false).await?;
    stage
        .until_runs("two failures", |runs| {
            runs.iter().filter(|run| !run.succeeded).count() >= 2
        })
        .await?;
    let failed: Vec<_> = stage
        .runs()
        .into_iter()
        .filter(|run| !run.succeeded)
        .collect();
    assert!(failed[1].began - failed[0].ended >= 900, "{failed:?}");
    Ok(())
}

async fn a_document_without_changes_is_looked_at_again_after_the_pause(
    column: harness::Column,
) -> Result<(), Failed> {
    let mut stage = Stage::empty().await?.with(column, Stage::SHORT)?;
    stage.create("still", "A title", false).await?;
    stage
        .until("still", |document| document.status.is_some())
        .await?;
    let is_again = |runs: &[harness::trace::Run]| {
        let last = runs.last().map_or(0, |run| run.began);
        runs.iter()
            .rev()
            .nth(1)
            .is_some_and(|before| last - before.ended >= 900)
    };
    stage.until_runs("a run after the pause", is_again).await?;
    Ok(())
}

async fn a_deleted_document_goes_and_has_an_event(column: harness::Column) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("going", "A title", false).await?;
    stage
        .until("going", |document| document.status.is_some())
        .await?;
    stage.delete("going").await?;
    stage.until_gone("going").await?;
    let events = stage.all_events("going").await?;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].reason.as_deref(), Some("DeleteRequested"));
    assert_eq!(events[0].action.as_deref(), Some("Deleting"));
    Ok(())
}

async fn an_illegal_document_can_be_deleted(column: harness::Column) -> Result<(), Failed> {
    let stage = Stage::start(column).await?;
    stage.create("bad", "illegal", false).await?;
    stage
        .until("bad", |document| !document.finalizers().is_empty())
        .await?;
    stage.delete("bad").await?;
    stage.until_gone("bad").await?;
    Ok(())
}

async fn the_pages_tell_of_health_runs_and_the_last_event(
    column: harness::Column,
) -> Result<(), Failed> {
    let mut stage = Stage::start(column).await?;
    let (code, _) = stage.page(Page::Health).await?;
    assert_eq!(code, 200);
    let before = stage.last_event().await?;
    stage.create("counted", "A title", false).await?;
    stage
        .until("counted", |document| document.status.is_some())
        .await?;
    stage
        .until_page(Page::Metrics, "port_reconcile_duration_seconds_bucket")
        .await?;
    let (_, metrics) = stage.page(Page::Metrics).await?;
    let runs = metrics
        .lines()
        .find_map(|line| line.strip_prefix("port_reconcile_runs_total "));
    assert!(runs.is_some_and(|runs| runs.trim() != "0"), "{metrics}");
    assert!(stage.last_event().await? > before);
    Ok(())
}

async fn a_change_while_the_network_is_away_is_not_missed(
    column: harness::Column,
) -> Result<(), Failed> {
    // A write that was cut off is tried again after the pause, in both columns.
    let stage = Stage::empty().await?.with(column, Stage::SHORT)?;
    stage.create("far", "A title", false).await?;
    stage.create("gone", "A title", false).await?;
    for name in ["far", "gone"] {
        stage
            .until(name, |document| document.status.is_some())
            .await?;
    }
    let away = stage.cluster().expire_unheard(Duration::from_millis(300));
    let changes = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stage.hide("far", true).await?;
        stage.delete("gone").await
    };
    let ((), changed) = tokio::join!(away, changes);
    changed?;
    stage.until_hidden("far", true).await?;
    stage.until_gone("gone").await?;
    Ok(())
}

async fn without_its_definition_the_program_ends_with_an_error(
    column: harness::Column,
) -> Result<(), Failed> {
    let mut stage = Stage::bare().await?.with(column, Stage::LONG)?;
    let ended = stage.ended().await?;
    assert_eq!(ended.code(), Some(1), "{}", stage.log());
    assert!(stage.log().contains("ERROR"), "{}", stage.log());
    Ok(())
}

async fn sigterm_ends_it_with_success(column: harness::Column) -> Result<(), Failed> {
    let mut stage = Stage::start(column).await?;
    stage.create("one", "A title", true).await?;
    stage.until_hidden("one", true).await?;
    let ended = stage.stop().await?;
    assert!(ended.success(), "{ended}:\n{}", stage.log());
    Ok(())
}
