//! Terms: a controller that leads, loses, stands by, and leads again.

use super::*;

/// Records each start, and each end by being dropped.
struct Held(Seen, String);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.add(format!("{} dropped", self.1));
    }
}

/// A reconcile that lasts until it is dropped.
fn lasting(maps: &Maps, seen: &Seen) -> Reconciler {
    let seen = seen.clone();
    controller(maps)
        .workers(2)
        .reconciling(move |_: Arc<ConfigMap>, ctx: Ctx<()>| {
            let held = Held(seen.clone(), ctx.key().to_string());
            seen.add(ctx.key().to_string());
            async move {
                let _held = held;
                std::future::pending::<Result<Action, Error>>().await
            }
        })
}

#[tokio::test(start_paused = true)]
async fn a_lost_term_drops_its_reconciles_and_the_next_one_begins_with_all_objects() {
    let (maps, seen) = (maps(), Seen::default());
    for name in ["x", "y", "z"] {
        maps.put(&map(name, 1));
    }
    let reconciler = lasting(&maps, &seen);
    let metrics = reconciler.metrics();
    for _ in 0..3 {
        let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
        let mut term = std::pin::pin!(reconciler.lead(&stop, &lost));
        tokio::select! {
            biased;
            _ = &mut term => panic!("it leads"),
            seen = seen.take() => assert_eq!(seen, ["a/x", "a/y"]),
        }
        assert_eq!(metrics.snapshot().queue.processing, 2);
        lost.cancel();
        assert_eq!(term.await.unwrap(), Finish::Lost);
        let mut dropped = seen.take().await;
        dropped.sort_unstable();
        assert_eq!(dropped, ["a/x dropped", "a/y dropped"]);
        let queue = metrics.snapshot().queue;
        assert_eq!((queue.processing, queue.depth, queue.known), (0, 0, 0));
        assert!(maps.hears.lock().unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_term_begins_with_the_changes_of_the_last_minute_deleted_objects_among_them() {
    let (maps, seen) = (maps(), Seen::default());
    for name in ["a", "b", "c", "d"] {
        maps.put(&map(name, 1));
    }
    let gone = seen.clone();
    let mut reconciler = controller(&maps)
        .on_gone(move |key, _| {
            gone.add(format!("{key} gone"));
            std::future::ready(Ok::<_, Error>(Action::await_change()))
        })
        .reconciling(see(&seen));
    reconciler.follow().unwrap();
    maps.put(&map("b", 2));
    tokio::time::advance(Duration::from_secs(61)).await;
    maps.put(&map("d", 3));
    maps.remove("a/c");
    let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
    let mut term = std::pin::pin!(reconciler.lead(&stop, &lost));
    tokio::select! {
        biased;
        _ = &mut term => panic!("it leads"),
        seen = seen.take() => {
            assert_eq!(seen, ["a/d 3", "a/c gone", "a/a 1", "a/b 2"]);
        }
    }
    // Heard by both: the next term has it, too.
    maps.put(&map("a", 4));
    tokio::select! {
        biased;
        _ = &mut term => panic!("it leads"),
        seen = seen.take() => assert_eq!(seen, ["a/a 4"]),
    }
    lost.cancel();
    assert_eq!(term.await.unwrap(), Finish::Lost);
    maps.remove("a/a");
    let lost = CancellationToken::new();
    let mut term = std::pin::pin!(reconciler.lead(&stop, &lost));
    tokio::select! {
        biased;
        _ = &mut term => panic!("it leads"),
        seen = seen.take() => assert_eq!(seen, ["a/d 3", "a/c gone", "a/a gone", "a/b 2"]),
    }
    stop.cancel();
    assert_eq!(term.await.unwrap(), Finish::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_change_waits_100_ms_until_all_objects_are_heard_and_others_10_s() {
    let (maps, owned, seen) = (maps(), deployments(), Seen::default());
    for name in ["a", "b"] {
        maps.put(&map(name, 1));
    }
    let controller = controller(&maps).owns_feed(owned.clone());
    let mut reconciler = controller.reconciling(see(&seen));
    owned.heard.send_replace(false);
    reconciler.follow().unwrap();
    let stop = CancellationToken::new();
    let change = |version| maps.put(&map("a", version));
    // A change before the term, one within it, and none.
    let cases = [(true, false, 80), (false, true, 80), (false, false, 9_950)];
    for (number, (before, within, wait)) in cases.into_iter().enumerate() {
        tokio::time::advance(Duration::from_secs(61)).await;
        let version = 2 * number as u32 + 2;
        if before {
            change(version);
        }
        let lost = CancellationToken::new();
        let mut term = std::pin::pin!(reconciler.lead(&stop, &lost));
        let course = async {
            assert_eq!(seen.take().await, [""; 0]);
            if within {
                change(version + 1);
            }
            tokio::time::sleep(wait * MS).await;
            assert_eq!(seen.take().await, [""; 0], "case {number}");
            tokio::time::sleep(60 * MS).await;
            seen.take().await.len()
        };
        tokio::select! {
            biased;
            _ = &mut term => panic!("it leads"),
            ran = course => assert_eq!(ran, 2, "case {number}"),
        }
        lost.cancel();
        assert_eq!(term.await.unwrap(), Finish::Lost);
    }
}

#[tokio::test(start_paused = true)]
async fn a_term_that_waits_for_its_handlers_is_lost_or_stopped_at_once() {
    let (maps, owned, seen) = (maps(), deployments(), Seen::default());
    maps.put(&map("a", 1));
    owned.heard.send_replace(false);
    let controller = controller(&maps).owns_feed(owned.clone());
    let mut reconciler = controller.reconciling(see(&seen));
    reconciler.follow().unwrap();
    let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
    for (end, finish) in [(&lost, Finish::Lost), (&stop, Finish::Stopped)] {
        let unlost = CancellationToken::new();
        let lost = if finish == Finish::Lost {
            &lost
        } else {
            &unlost
        };
        let mut term = std::pin::pin!(reconciler.lead(&stop, lost));
        tokio::select! {
            biased;
            _ = &mut term => panic!("it leads"),
            seen = seen.take() => assert_eq!(seen, [""; 0]),
        }
        let before = Instant::now();
        end.cancel();
        assert_eq!(term.await.unwrap(), finish);
        assert!(before.elapsed() < MS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_term_that_is_lost_during_a_stop_does_not_wait_for_the_grace_period() {
    let (maps, seen) = (maps(), Seen::default());
    maps.put(&map("x", 1));
    let reconciler = lasting(&maps, &seen);
    let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
    let mut term = std::pin::pin!(reconciler.lead(&stop, &lost));
    tokio::select! {
        biased;
        _ = &mut term => panic!("it leads"),
        seen = seen.take() => assert_eq!(seen, ["a/x"]),
    }
    stop.cancel();
    tokio::select! {
        biased;
        _ = &mut term => panic!("it waits for the reconcile"),
        seen = seen.take() => assert_eq!(seen, [""; 0]),
    }
    let before = Instant::now();
    lost.cancel();
    term.await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(seen.take().await, ["a/x dropped"]);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_term_whose_reconciles_last_names_them() {
    let (maps, seen) = (maps(), Seen::default());
    maps.put(&map("x", 1));
    let reconciler = lasting(&maps, &seen).grace_period(Duration::from_secs(3));
    let (stop, lost) = (CancellationToken::new(), CancellationToken::new());
    let mut term = std::pin::pin!(reconciler.lead(&stop, &lost));
    tokio::select! {
        biased;
        _ = &mut term => panic!("it leads"),
        seen = seen.take() => assert_eq!(seen, ["a/x"]),
    }
    stop.cancel();
    let error = term.await.unwrap_err();
    assert!(error.to_string().contains("a/x"), "{error}");
    assert!(error.is_timeout());
}
