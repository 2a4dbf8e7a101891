//! The next run of a key, by what its reconcile returned: over a scripted feed, under paused time.
//!
//! ```text
//! errors and actions, run after run → the times of the runs, the counters
//! ```

use std::sync::Mutex;

use kinform_api::Status;

use super::tests::{MS, Maps, controller, map, maps};
use super::*;
use crate::env::{Env, wall_clock};
use crate::error::{Permanent, SourceError};

type Outcome = Result<Action, BoxError>;

/// The times of the runs in milliseconds, and their numbers of failures.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<(u128, u32)>>>);

impl Runs {
    fn take(&self) -> Vec<(u128, u32)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Runs a controller of one object whose n-th run ends as `outcome` says.
fn run(
    maps: &Maps,
    outcome: impl Fn(usize) -> Outcome + Send + Sync + 'static,
) -> (
    Runs,
    ControllerMetrics,
    tokio::task::JoinHandle<Result<(), Error>>,
) {
    let (runs, env) = (Runs::default(), Env::system());
    let start = env.now();
    maps.put(&map("x", 1));
    let limiter = Limiter::exponential(1_000 * MS, 1_000_000 * MS);
    let controller = controller(maps).limiter(limiter);
    let metrics = controller.metrics();
    let seen = runs.clone();
    let reconcile = move |_, cx: Ctx<()>| {
        let mut runs = seen.0.lock().unwrap();
        let number = runs.len();
        runs.push((env.now().since(start).as_millis(), cx.failures()));
        std::future::ready(outcome(number))
    };
    (runs, metrics, tokio::spawn(controller.run(reconcile)))
}

fn refused(code: u16, status: Status) -> BoxError {
    Error::from(SourceError::from_status(code, status)).into()
}

fn conflict() -> BoxError {
    refused(409, Status::failure(409, "Conflict", "overtaken"))
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_tried_again_quickly_five_times_and_is_no_failure() {
    let maps = maps();
    let (runs, metrics, running) = run(&maps, |number| match number {
        6 => Ok(Action::await_change()),
        _ => Err(conflict()),
    });
    tokio::time::sleep(5_000 * MS).await;
    let quick = [(0, 0), (10, 0), (30, 0), (70, 0), (150, 0), (310, 0)];
    let mut expected = quick.to_vec();
    expected.push((1310, 1));
    assert_eq!(runs.take(), expected);
    let stats = metrics.snapshot();
    assert_eq!((stats.conflicts, stats.failed, stats.succeeded), (5, 1, 1));
    assert_eq!(stats.reconciles(), 7);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_throttled_reconcile_waits_as_the_server_asks_and_is_no_failure() {
    let maps = maps();
    let (runs, metrics, running) = run(&maps, |number| match number {
        0 => Err("a failure".into()),
        1 => Err(refused(429, Status::too_many_requests("slowly", 30))),
        _ => Ok(Action::await_change()),
    });
    tokio::time::sleep(100_000 * MS).await;
    assert_eq!(runs.take(), [(0, 0), (1_000, 1), (31_000, 1)]);
    let stats = metrics.snapshot();
    assert_eq!((stats.throttled, stats.failed, stats.succeeded), (1, 1, 1));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn k23_a_permanent_error_waits_for_a_change_and_forgets_the_failures() {
    // controller-runtime: a terminal error is not requeued, and its failures stay
    let maps = maps();
    let (runs, metrics, running) = run(&maps, |number| match number {
        0 | 2 => Err("a failure".into()),
        1 => Err(Permanent::new("never").into()),
        _ => Ok(Action::await_change()),
    });
    tokio::time::sleep(100_000 * MS).await;
    assert_eq!(runs.0.lock().unwrap().len(), 2);
    maps.put(&map("x", 2));
    tokio::time::sleep(100_000 * MS).await;
    assert_eq!(
        runs.take(),
        [(0, 0), (1_000, 1), (100_000, 0), (101_000, 1)]
    );
    let stats = metrics.snapshot();
    assert_eq!((stats.permanent, stats.failed, stats.succeeded), (1, 3, 1));
    assert_eq!(stats.queue.known, 0);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn no_event_loses_a_wake_up() {
    let maps = maps();
    let wake = wall_clock() + 60_000 * MS;
    let (runs, _, running) = run(&maps, move |number| match number {
        0 => Ok(Action::wake_at(wake)),
        1 => Ok(Action::await_change()),
        2 => Ok(Action::requeue(3_600_000 * MS)),
        3 => Err(Permanent::new("never").into()),
        4 => Err("a failure that is tried again".into()),
        _ => Ok(Action::await_change()),
    });
    for version in 2..=5 {
        tokio::time::sleep(10_000 * MS).await;
        maps.put(&map("x", version));
    }
    tokio::time::sleep(1_000_000 * MS).await;
    let times: Vec<_> = runs.take().into_iter().map(|(at, _)| at / 1_000).collect();
    assert_eq!(times[..6], [0, 10, 20, 30, 40, 41]);
    assert_eq!(times.len(), 7, "{times:?}");
    // The wall clock does not stand still while time is paused.
    assert!((58..=60).contains(&times[6]), "{times:?}");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_comes_while_a_failed_key_waits_for_its_retry() {
    let maps = maps();
    let wake = wall_clock() + 5_000 * MS;
    let (runs, _, running) = run(&maps, move |number| match number {
        0 => Ok(Action::wake_at(wake)),
        1..=5 => Err("a failure".into()),
        _ => Ok(Action::await_change()),
    });
    tokio::time::sleep(MS).await;
    maps.put(&map("x", 2));
    tokio::time::sleep(100_000 * MS).await;
    let times: Vec<_> = runs.take().into_iter().map(|(at, _)| at).collect();
    assert_eq!(times[..4], [0, 1, 1_001, 3_001]);
    assert!(
        (4_000..=5_001).contains(&times[4]),
        "sooner than the retry at 7 s: {times:?}"
    );
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_in_the_past_is_now_and_that_of_an_object_that_is_gone_is_never() {
    let maps = maps();
    let past = wall_clock() - 60_000 * MS;
    let (runs, metrics, running) = run(&maps, move |number| match number {
        0 => Ok(Action::wake_at(past)),
        _ => Ok(Action::wake_at(wall_clock() + 60_000 * MS)),
    });
    tokio::time::sleep(1_000 * MS).await;
    assert_eq!(runs.take().len(), 2);
    maps.remove("a/x");
    tokio::time::sleep(1_000_000 * MS).await;
    assert!(runs.take().is_empty());
    let stats = metrics.snapshot();
    assert_eq!((stats.gone, stats.queue.known), (1, 0));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn an_error_policy_decides_instead_of_the_limiter() {
    let maps = maps();
    maps.put(&map("x", 1));
    let (seen, env) = (Runs::default(), Env::system());
    let start = env.now();
    let controller = controller(&maps).context((seen.clone(), env));
    let metrics = controller.metrics();
    type Context = Arc<(Runs, Env)>;
    let reconcile = move |_: Arc<k8s_openapi::api::core::v1::ConfigMap>, context: Context| async move {
        let mut runs = context.0.0.lock().unwrap();
        runs.push((context.1.now().since(start).as_millis(), 0));
        match runs.len() {
            1 => Err("a failure".to_owned()),
            2 => Err(String::new()),
            _ => Ok(Action::await_change()),
        }
    };
    let policy = |_, error: &String, _: Context| match error.is_empty() {
        true => Action::await_change(),
        false => Action::requeue(7_000 * MS),
    };
    let running = tokio::spawn(controller.run(with_error_policy(reconcile, policy)));
    tokio::time::sleep(100_000 * MS).await;
    assert_eq!(seen.take(), [(0, 0), (7_000, 0)]);
    assert_eq!(metrics.snapshot().failed, 2);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_runs_for_a_minute_is_named_once() {
    let maps = maps();
    maps.put(&map("x", 1));
    maps.put(&map("y", 1));
    let controller = controller(&maps).workers(2);
    let metrics = controller.metrics();
    let running = tokio::spawn(controller.run(|_, cx| async move {
        let seconds = if cx.key().name() == "x" { 200 } else { 59 };
        tokio::time::sleep(seconds * 1_000 * MS).await;
        Ok::<_, Error>(Action::await_change())
    }));
    for (seconds, slow, succeeded) in [(58, 0, 0), (100, 1, 1), (50, 1, 2)] {
        tokio::time::sleep(seconds * 1_000 * MS).await;
        let stats = metrics.snapshot();
        assert_eq!((stats.slow, stats.succeeded), (slow, succeeded));
    }
    running.abort();
}
