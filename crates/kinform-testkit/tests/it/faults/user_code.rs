//! F25 and F26: handlers and reconcile functions that panic, block, or ask for the impossible.
//!
//! ```text
//! handler { panics, takes 10 min } │ reconcile { panics, hangs, requeues for ever } ──▶ all others go on
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::controller::{Action, Controller};
use kinform::{Error, Handlers, ReportEvent};
use kinform_testkit::checks::event_checker::EventChecker;

use super::{SECOND, Stand, check, each};

#[test]
fn f25_a_handler_that_panics_or_takes_ten_minutes_delays_no_other() {
    let line = "F25 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        let slow = EventChecker::new("the slow handler");
        let slow_one = stand
            .informer
            .add_handler(slow.slow_handlers(600 * SECOND))?;
        let panics = Handlers::new().on_add(|map: &kinform::Added<ConfigMap>| {
            assert_ne!(map.name(), "poison", "this panic is part of the test");
        });
        let panicking = stand.informer.add_handler(panics)?;
        stand.put("poison", 1).await?;
        // 10,000 changes, as many as the slow one has time for.
        for _ in 0..20 {
            stand.change(20).await?;
            stand.agrees(SECOND).await?;
        }
        check(panicking.panics() == 1 && slow_one.lag() > 0, || {
            format!("{} panics, lag {}", panicking.panics(), slow_one.lag())
        })?;
        check(stand.stats().handler_panics == 1, || {
            format!("{:?}", stand.stats())
        })?;
        let told = |event: &ReportEvent| matches!(event, ReportEvent::HandlerPanicked { .. });
        check(stand.reports(told) == 1, || format!("{:?}", stand.reported))?;
        // What the slow one hears is in order and ends at the truth.
        let truth = stand.writer.truth().await?;
        slow.converged(&truth, 600 * 600 * SECOND).await?;
        stand.recovers(SECOND).await?;
        stand.end().await
    });
}

#[test]
fn f26_a_reconcile_that_panics_hangs_or_requeues_for_ever_delays_no_other_key() {
    let line = "F26 json,protobuf x list,stream x in-order,coalescing";
    each(line, async |cell| {
        let mut stand = Stand::start(cell).await?;
        let runs: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
        let count = Arc::clone(&runs);
        let controller = Controller::of(&stand.informer)
            .workers(2)
            .reconcile_timeout(60 * SECOND);
        let metrics = controller.metrics();
        let running = tokio::spawn(controller.run(move |map: Arc<ConfigMap>, _| {
            let name = map.metadata.name.clone().unwrap_or_default();
            *count.lock().unwrap().entry(name.clone()).or_default() += 1;
            async move {
                match &*name {
                    "panics" => panic!("this panic is part of the test"),
                    "hangs" => std::future::pending().await,
                    "far" => Ok::<_, Error>(Action::requeue(Duration::from_secs(u64::MAX))),
                    _ => Ok(Action::await_change()),
                }
            }
        }));
        let ran = |name: &str| runs.lock().unwrap().get(name).copied().unwrap_or_default();
        for name in ["panics", "hangs", "far"] {
            stand.put(name, 1).await?;
        }
        for number in 0..10 {
            stand.put("other", number).await?;
            tokio::time::sleep(SECOND).await;
            check(ran("other") == number + 1, || {
                format!("{} runs", ran("other"))
            })?;
        }
        tokio::time::sleep(600 * SECOND).await;
        // Again and again, with backoff; the one that hangs is ended by its deadline.
        let (panics, hangs, far) = (ran("panics"), ran("hangs"), ran("far"));
        check(
            (8..20).contains(&panics) && (5..13).contains(&hangs) && far == 1,
            || format!("{panics} panics, {hangs} hung, {far} far"),
        )?;
        let stats = metrics.snapshot();
        check(stats.panics == u64::from(panics), || format!("{stats:?}"))?;
        running.abort();
        stand.recovers(SECOND).await?;
        stand.end().await
    });
}
