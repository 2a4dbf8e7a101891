//! F29: each public future, dropped at each of its awaits.
//!
//! ```text
//! future ── polled n times, all others run in between ──▶ dropped ──▶ nothing lost, no task left
//! ```
//!
//! The futures are those of reads, waits, handlers, removals, drains and shutdowns. A future that
//! has no await left ends the loop over `n`.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::{Action, Controller};
use kinform::source::{HttpSource, ListerWatcher};
use kinform::workqueue::WorkQueue;
use kinform::{
    Error, InformerState, Limiter, ListOptions, ObjectKey, Registration, Verdict, WatchOptions,
};
use kinform_testkit::checks::event_checker::EventChecker;
use kinform_testkit::checks::stage::StageError;

use super::{Cell, Check, SECOND, Setup, Stand, check, each};

/// BOUND: awaits of one future.
const MOST: usize = 200;

/// Polls a future up to `times` times and drops it; returns whether it ended. After each poll, all
/// tasks run until they wait.
async fn is_done_after<F: Future>(times: usize, future: F) -> bool {
    let mut future = Box::pin(future);
    for _ in 0..times {
        if futures::poll!(future.as_mut()).is_ready() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// Makes a future again and again, and drops it after one poll more each time, until it ends.
async fn at_each_await<F: Future>(mut make: impl FnMut(usize) -> F) -> Check {
    for times in 0..MOST {
        if is_done_after(times, make(times)).await {
            return Ok(());
        }
    }
    Err("a future does not end".into())
}

async fn requests(stand: &Stand, cell: Cell) -> Check {
    let info = stand.informer.resource();
    let source = HttpSource::new(stand.direct(), info.clone()).with_wire(cell.wire);
    let source = Arc::new(source);
    at_each_await(|_| {
        let source = Arc::clone(&source);
        async move {
            let body = source.list(&ListOptions::default()).await;
            body.unwrap().into_chunks().count().await
        }
    })
    .await?;
    at_each_await(|_| {
        let source = Arc::clone(&source);
        async move {
            let body = source.watch(&WatchOptions::default()).await;
            body.unwrap().into_chunks().next().await
        }
    })
    .await?;
    check(
        stand.server().journal().open_watches("configmaps") == 1,
        || "a dropped watch is still open".to_owned(),
    )
}

async fn waits(stand: &Stand) -> Check {
    let informer = &stand.informer;
    let key: ObjectKey = "apple/nobody".parse()?;
    at_each_await(|_| informer.synced()).await?;
    at_each_await(|_| informer.synced_within(SECOND)).await?;
    at_each_await(|_| informer.state_when(InformerState::is_synced)).await?;
    at_each_await(|_| stand.factory.synced_within(SECOND)).await?;
    at_each_await(|_| {
        let until = informer.until(&key, kinform::until::exists::<ConfigMap>());
        until.within(SECOND)
    })
    .await
}

/// A registration whose handlers go with it.
struct ForAMoment(Registration);

impl Drop for ForAMoment {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

async fn handlers(stand: &Stand) -> Check {
    let informer = &stand.informer;
    let before = (stand.stats().handlers, stand.factory.task_count());
    let heard = || {
        let witness = EventChecker::new("a handler for a moment");
        let handlers = witness.slow_handlers(Duration::from_millis(5));
        informer.add_handler(handlers).unwrap()
    };
    at_each_await(|_| {
        let registered = ForAMoment(heard());
        async move { registered.0.synced().await }
    })
    .await?;
    at_each_await(|_| heard().remove()).await?;
    at_each_await(|_| heard().drain()).await?;
    at_each_await(|_| {
        let mut changes = informer.changes().unwrap();
        async move {
            while changes
                .next()
                .await
                .is_some_and(|change| change.object().is_some())
            {}
        }
    })
    .await?;
    tokio::time::sleep(SECOND).await;
    // A removal and a drain that were never polled have done nothing.
    let after = (stand.stats().handlers, stand.factory.task_count());
    check(after == (before.0 + 2, before.1 + 2), || {
        format!("{before:?} handlers and tasks, then {after:?}")
    })
}

async fn queues() -> Check {
    let queue = WorkQueue::new(Limiter::default());
    for key in 0..5 {
        // It comes while somebody waits, who is gone then or has it.
        at_each_await(|times| {
            if times == 1 {
                queue.add(key);
            }
            let queue = queue.clone();
            async move {
                let item = queue.get().await.unwrap();
                tokio::time::sleep(Duration::from_millis(30)).await;
                item.settle(Verdict::Forget);
            }
        })
        .await?;
    }
    at_each_await(|_| queue.drain(SECOND)).await?;
    check(queue.is_empty(), || "a key is left".to_owned())
}

async fn controller(stand: &mut Stand) -> Check {
    at_each_await(|times| {
        let informer = stand.informer.clone();
        let stop = tokio_util::sync::CancellationToken::new();
        if times > 10 {
            stop.cancel();
        }
        let controller = Controller::of(&informer).workers(2).shutdown_on(stop);
        controller.run(|_: Arc<ConfigMap>, _| async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok::<_, Error>(Action::await_change())
        })
    })
    .await
}

/// Something to shut down: an informer, and an async function that is under way for an hour.
async fn busy(cell: Cell) -> Result<Stand, StageError> {
    let stand = Setup::of(cell).prepare().await?;
    stand.factory.start()?;
    let stuck = EventChecker::new("a handler that is stuck");
    let stuck = stuck.slow_handlers(3600 * SECOND);
    stand.informer.add_handler(stuck)?;
    tokio::time::sleep(SECOND).await;
    Ok(stand)
}

/// A shutdown that was polled once takes place, whatever becomes of the wait for it.
async fn shutdowns(cell: Cell) -> Check {
    for times in 0..MOST {
        let stand = busy(cell).await?;
        let ended = is_done_after(times, stand.factory.shutdown_within(SECOND)).await;
        if ended {
            check(stand.factory.task_count() == 0, || "a task".to_owned())?;
            break;
        }
        stand.factory.shutdown_within(SECOND).await;
        check(stand.factory.task_count() == 0, || "a task".to_owned())?;
    }
    let stand = Stand::start(cell).await?;
    let ended = is_done_after(1, stand.factory.shutdown()).await;
    tokio::time::sleep(SECOND).await;
    let tasks = stand.factory.task_count();
    check(tasks == 0, || {
        format!("ended: {ended}, {tasks} tasks are left")
    })
}

#[test]
fn f29_a_future_that_is_dropped_at_any_await_loses_nothing_and_leaves_nothing() {
    let line = "F29 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        requests(&stand, cell).await?;
        waits(&stand).await?;
        handlers(&stand).await?;
        queues().await?;
        controller(&mut stand).await?;
        stand.recovers(SECOND).await?;
        stand.end().await?;
        shutdowns(cell).await
    });
}
