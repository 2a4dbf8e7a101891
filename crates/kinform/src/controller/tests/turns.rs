//! Turns: what else runs on the threads of busy workers.

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
