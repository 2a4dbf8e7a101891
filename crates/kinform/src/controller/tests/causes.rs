//! The causes of runs, over a scripted feed, under paused time.

use kinform_core::object::changed::Changed;
use proptest::prelude::*;

use super::*;

/// A reconcile function that notes the causes of each run, and ends as `outcome` says.
fn noting<F>(
    seen: &Seen,
    outcome: F,
) -> impl Fn(Arc<ConfigMap>, Ctx<()>) -> std::future::Ready<Result<Action, BoxError>> + use<F>
where
    F: Fn(usize) -> Result<Action, BoxError> + Send + Sync + 'static,
{
    let (seen, runs) = (seen.clone(), AtomicUsize::new(0));
    move |_, cx| {
        let causes: Vec<_> = cx.causes().iter().map(|cause| cause.to_string()).collect();
        seen.add(format!("{}: {}", cx.key(), causes.join(", ")));
        std::future::ready(outcome(runs.fetch_add(1, Ordering::Relaxed)))
    }
}

fn labelled(name: &str, version: u32, label: &str) -> serde_json::Value {
    let mut object = map(name, version);
    object["metadata"]["labels"] = json!({"app": label});
    object
}

#[tokio::test(start_paused = true)]
async fn a_run_knows_the_events_that_led_to_it() {
    // controller-runtime#1997
    let (maps, seen, deployments) = (maps(), Seen::default(), deployments());
    maps.put(&map("x", 1));
    let gone = seen.clone();
    let controller = controller(&maps)
        .owns_feed(Arc::clone(&deployments) as Arc<dyn Feed<Deployment>>)
        .on_gone(move |key, cx| {
            gone.add(format!("{key} is gone: {}", cx.causes()));
            std::future::ready(Ok::<_, Error>(Action::await_change()))
        });
    let (queue, metrics) = (controller.queue(), controller.metrics());
    let await_change = |_| Ok(Action::await_change());
    let running = tokio::spawn(controller.run(noting(&seen, await_change)));
    assert_eq!(seen.take().await, ["a/x: initial ConfigMap@1"]);
    maps.put(&labelled("x", 2, "web"));
    let mut third = labelled("x", 3, "web");
    third["data"] = json!({"a": "b"});
    maps.put(&third);
    let both = "a/x: updated ConfigMap@2 labels, updated ConfigMap@3 other";
    assert_eq!(seen.take().await, [both]);
    deployments.put(&owned_by("x", "d", 4));
    assert_eq!(seen.take().await, ["a/x: added Deployment a/d@4"]);
    // Old and new state have the same owner: one event is one cause.
    deployments.put(&owned_by("x", "d", 5));
    assert_eq!(seen.take().await, ["a/x: updated Deployment a/d@5"]);
    maps.resync();
    queue.add("a/x".parse().unwrap());
    assert_eq!(seen.take().await, ["a/x: resynced ConfigMap@3, asked"]);
    maps.remove("a/x");
    assert_eq!(seen.take().await, ["a/x is gone: deleted ConfigMap@3"]);
    let runs = metrics.recent_runs();
    let last: Vec<_> = runs.iter().map(|run| run.causes.to_string()).collect();
    let expected = [
        "initial ConfigMap@1",
        "updated ConfigMap@3 other +1",
        "added Deployment a/d@4",
        "updated Deployment a/d@5",
        "asked +1",
        "deleted ConfigMap@3",
    ];
    assert_eq!(last, expected);
    assert!(runs.iter().all(|run| run.key().to_string() == "a/x"));
    let updated = runs[1].causes.iter().next().unwrap();
    assert_eq!(updated.source().unwrap().kind, "ConfigMap");
    assert_eq!(
        (updated.version(), updated.changed()),
        (Some(2), Changed::LABELS)
    );
    assert_eq!(updated.origin(), Origin::Foreign);
    assert_eq!(runs[3].causes.total(), 1);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_run_knows_that_it_was_asked_for_by_the_last_one() {
    let (maps, seen) = (maps(), Seen::default());
    maps.put(&map("x", 1));
    let wake = crate::env::wall_clock() + 60_000 * MS;
    let controller = controller(&maps).limiter(Limiter::exponential(1_000 * MS, 1_000 * MS));
    let metrics = controller.metrics();
    let reconcile = noting(&seen, move |number| match number {
        0 => Ok(Action::requeue(5_000 * MS)),
        1 => Err("a failure".into()),
        2 => Ok(Action::wake_at(wake)),
        _ => Ok(Action::await_change()),
    });
    let running = tokio::spawn(controller.run(reconcile));
    tokio::time::sleep(100_000 * MS).await;
    let expected = [
        "a/x: initial ConfigMap@1",
        "a/x: requeued",
        "a/x: retried",
        "a/x: woken",
    ];
    assert_eq!(seen.take().await, expected);
    let outcomes: Vec<_> = metrics
        .recent_runs()
        .iter()
        .map(|run| run.outcome)
        .collect();
    let (succeeded, failed) = (RunOutcome::Succeeded, RunOutcome::Failed);
    assert_eq!(outcomes, [succeeded, failed, succeeded, succeeded]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_run_knows_how_long_its_causes_waited() {
    let (maps, seen) = (maps(), Seen::default());
    maps.put(&map("x", 1));
    let controller = controller(&maps);
    let metrics = controller.metrics();
    let running = tokio::spawn(controller.run(|_, _| async {
        tokio::time::sleep(100 * MS).await;
        Ok::<_, Error>(Action::await_change())
    }));
    tokio::time::sleep(10 * MS).await;
    maps.put(&map("x", 2));
    tokio::time::sleep(30 * MS).await;
    maps.put(&map("x", 3));
    tokio::time::sleep(1_000 * MS).await;
    let runs = metrics.recent_runs();
    let waited: Vec<_> = runs[1].causes.iter().map(|cause| cause.waited()).collect();
    assert_eq!(waited, [90 * MS, 60 * MS]);
    assert_eq!((runs[1].causes.waited(), runs[1].took), (90 * MS, 100 * MS));
    assert!(seen.take().await.is_empty());
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_controller_keeps_its_last_1024_runs_and_idle_keys_keep_nothing() {
    let (maps, seen) = (maps(), Seen::default());
    let controller = controller(&maps);
    let metrics = controller.metrics();
    let running = tokio::spawn(controller.run(see(&seen)));
    for number in 0..1_100 {
        maps.put(&map(&format!("x{number}"), 1));
        tokio::time::sleep(MS).await;
    }
    let runs = metrics.recent_runs();
    assert_eq!(runs.len(), 1024);
    let names = |run: &RecentRun| run.key().name().to_owned();
    assert_eq!(
        (names(&runs[0]), names(&runs[1023])),
        ("x76".into(), "x1099".into())
    );
    assert_eq!(metrics.snapshot().queue.known, 0);
    running.abort();
}

/// Reconciles under random events, ends and workers. Returns the runs and those without a cause.
async fn random_runs(steps: Vec<(u8, u8)>, workers: usize) -> (usize, usize) {
    let (maps, deployments) = (maps(), deployments());
    let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let controller = controller(&maps)
        .owns_feed(Arc::clone(&deployments) as Arc<dyn Feed<Deployment>>)
        .workers(workers);
    let queue = controller.queue();
    let counted = Arc::clone(&counts);
    let running = tokio::spawn(controller.run_keys(move |_, cx| {
        let counts = Arc::clone(&counted);
        async move {
            let number = counts.0.fetch_add(1, Ordering::Relaxed);
            if cx.causes().iter().next().is_none() {
                counts.1.fetch_add(1, Ordering::Relaxed);
            }
            tokio::time::sleep(number as u32 % 5 * MS).await;
            match number % 7 {
                0 => Err(Error::new(ErrorKind::Invalid, "a failure")),
                1 => Ok(Action::requeue(3 * MS)),
                2 => Ok(Action::wake_at(crate::env::wall_clock() + 20 * MS)),
                _ => Ok(Action::await_change()),
            }
        }
    }));
    for (version, (step, key)) in (1u32..).zip(steps) {
        let name = format!("x{key}");
        match step {
            0 | 1 => maps.put(&map(&name, version)),
            2 => deployments.put(&owned_by(&name, "d", version)),
            3 => maps.resync(),
            4 => _ = queue.add(ObjectKey::new(Some("a"), &name)),
            5 => _ = queue.wake_after(ObjectKey::new(Some("a"), &name), 2 * MS),
            6 => _ = queue.add_after(ObjectKey::new(Some("a"), &name), 2 * MS),
            _ => tokio::time::sleep(u32::from(key) * MS).await,
        }
    }
    tokio::time::sleep(50 * MS).await;
    running.abort();
    (
        counts.0.load(Ordering::Relaxed),
        counts.1.load(Ordering::Relaxed),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_reconcile_has_a_cause(
        steps in proptest::collection::vec((0u8..10, 0u8..4), 1..120), workers in 1usize..4,
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let (_, without) = runtime.block_on(random_runs(steps, workers));
        prop_assert_eq!(without, 0);
    }
}
