//! Turns: when workers begin, and what else runs on the threads of busy ones.

use super::*;

#[tokio::test(start_paused = true)]
async fn workers_with_much_to_do_let_other_tasks_run() {
    const KEYS: usize = 5_000;
    let (maps, ran) = (maps(), Arc::new(AtomicUsize::new(0)));
    for number in 0..KEYS {
        maps.put(&map(&format!("m-{number}"), 1));
    }
    let other = Arc::clone(&ran);
    let turn = tokio::spawn(async move {
        // The workers are there once one has run.
        while other.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        other.load(Ordering::SeqCst)
    });
    let counted = Arc::clone(&ran);
    let running = tokio::spawn(controller(&maps).run(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok::<_, std::convert::Infallible>(Action::await_change()))
    }));
    let before_the_turn = turn.await.unwrap();
    assert!(before_the_turn < 1_000, "{before_the_turn}");
    tokio::time::sleep(MS).await;
    assert_eq!(ran.load(Ordering::SeqCst), KEYS);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_every_informer_has_its_first_list() {
    let (maps, deployments, seen) = (maps(), deployments(), Seen::default());
    maps.put(&map("x", 1));
    deployments.synced.send_replace(false);
    let controller = controller(&maps).owns_feed(deployments.clone());
    let running = tokio::spawn(controller.run(see(&seen)));
    assert!(seen.take().await.is_empty());
    deployments.synced.send_replace(true);
    assert_eq!(seen.take().await, ["a/x 1"]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn k25_workers_begin_when_the_handlers_have_heard_all_first_lists() {
    let (maps, deployments, seen) = (maps(), deployments(), Seen::default());
    maps.put(&map("x", 1));
    deployments.heard.send_replace(false);
    let controller = controller(&maps).owns_feed(deployments.clone());
    let running = tokio::spawn(controller.run(see(&seen)));
    assert!(
        seen.take().await.is_empty(),
        "a cache is synced before its handlers are"
    );
    deployments.put(&owned_by("x", "d", 2));
    assert!(seen.take().await.is_empty());
    deployments.heard.send_replace(true);
    assert_eq!(
        seen.take().await,
        ["a/x 1"],
        "one run for the object and what it owns"
    );
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_one_cache_begins_as_soon_as_that_has_its_list() {
    let (maps, seen) = (maps(), Seen::default());
    maps.put(&map("x", 1));
    maps.heard.send_replace(false);
    let running = tokio::spawn(controller(&maps).run(see(&seen)));
    assert_eq!(seen.take().await, ["a/x 1"]);
    running.abort();
}
