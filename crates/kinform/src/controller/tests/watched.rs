//! The keys of a running controller: those that wait, those in work, and its warnings.
//!
//! ```text
//! changes, slow reconciles → waiting(), running(), warnings()
//! ```

use kinform_core::queue::Waits;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_keys_in_work_and_those_that_wait_are_told_with_their_causes() {
    let maps = maps();
    maps.put(&map("x", 1));
    let controller = controller(&maps);
    let metrics = controller.metrics();
    // The run begins long after the controller was made: causes have the queue's clock.
    tokio::time::sleep(60_000 * MS).await;
    let running = tokio::spawn(controller.run(|_, _: Ctx<()>| async {
        tokio::time::sleep(1_000 * MS).await;
        Ok::<_, Error>(Action::await_change())
    }));
    tokio::time::sleep(100 * MS).await;
    maps.put(&map("x", 2));
    maps.put(&map("y", 3));
    tokio::time::sleep(50 * MS).await;
    let in_work = metrics.running();
    assert_eq!((in_work.len(), in_work[0].since), (1, 150 * MS));
    let waiting = metrics.waiting(10);
    let told: Vec<_> = waiting
        .iter()
        .map(|one| (one.key().to_string(), one.waits, one.causes.to_string()))
        .collect();
    let expected = [
        ("a/x", Waits::Itself(50 * MS), "updated ConfigMap@2"),
        ("a/y", Waits::Worker(50 * MS), "added ConfigMap@3"),
    ];
    let expected = expected.map(|(key, waits, cause)| (key.to_owned(), waits, cause.to_owned()));
    for (told, expected) in told.iter().zip(&expected) {
        assert_eq!((&told.0, told.1), (&expected.0, expected.1));
        assert!(told.2.starts_with(&expected.2), "{told:?}");
    }
    assert_eq!(told.len(), 2);
    let y = metrics.waiting_for(&"a/y".parse().unwrap()).unwrap();
    let cause = y.causes.iter().next().unwrap();
    assert_eq!(cause.waited(), 50 * MS);
    tokio::time::sleep(3_000 * MS).await;
    assert!(metrics.waiting(10).is_empty());
    let runs = metrics.recent_runs();
    let last = runs.last().unwrap();
    assert_eq!(last.key().to_string(), "a/x", "it was wanted again");
    let waited = last.causes.iter().next().unwrap().waited();
    assert_eq!(waited, 1_900 * MS);
    assert_eq!(metrics.resources()[0].kind, "ConfigMap");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_warning_names_the_key_and_not_the_error() {
    let maps = maps();
    maps.put(&map("x", 1));
    let controller = controller(&maps);
    let metrics = controller.metrics();
    let running = tokio::spawn(controller.run(|_, _: Ctx<()>| async {
        Err::<Action, _>(crate::Permanent::new("s3cret of the user"))
    }));
    tokio::time::sleep(100 * MS).await;
    let warnings = metrics.warnings();
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].reason, "PermanentError");
    assert_eq!(warnings[0].key.to_string(), "a/x");
    assert!(!format!("{warnings:?}").contains("s3cret"));
    running.abort();
}
