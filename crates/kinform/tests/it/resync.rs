//! Resync periods: of a factory, an informer, a handler and a controller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinform::env::Env;
use kinform::{
    Action, CancellationToken, Controller, Ctx, Error, Handlers, InformerFactory, Target,
};
use kinform_testkit::{Script, scripted};

use crate::fixture::{Heard, first_list, pod, pods, settle};

const SECOND: Duration = Duration::from_secs(1);

/// A factory with a default period and the script that answers its one source.
fn factory(period: Duration) -> (InformerFactory, Script) {
    let (source, script) = scripted(pods());
    let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _)
        .env(Env::seeded(7))
        .resync_period(period)
        .build();
    (factory, script)
}

// client-go: NewSharedInformerFactory(client, defaultResync), AddEventHandlerWithResyncPeriod
#[tokio::test(start_paused = true)]
async fn a_handler_has_its_own_period_else_its_informers_else_its_factorys() {
    let (factory, mut script) = factory(10 * SECOND);
    let [of_factory, of_informer, own, never] = [(); 4].map(|()| Heard::default());
    let plain = factory.informer::<Pod>();
    let quicker = factory
        .select(Target::<Pod>::new())
        .resync_period(5 * SECOND)
        .build();
    plain.add_handler(of_factory.handlers()).unwrap();
    quicker.add_handler(of_informer.handlers()).unwrap();
    let handlers = own.handlers().resync_period(2 * SECOND);
    quicker.add_handler(handlers).unwrap();
    let handlers = never.handlers().resync_period(Duration::ZERO);
    plain.add_handler(handlers).unwrap();
    assert_eq!(
        factory.informers().len(),
        1,
        "a period makes no second watch"
    );
    factory.start().unwrap();
    let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    drop([&of_factory, &of_informer, &own, &never].map(Heard::take));
    tokio::time::sleep(20 * SECOND).await;
    // Without `on_resync`, a resync is an update whose old and new are the same.
    let counts = [&of_factory, &of_informer, &own, &never].map(|heard| {
        let lines = heard.take();
        assert!(
            lines.iter().all(|line| line == "update a@1 a@1"),
            "{lines:?}"
        );
        lines.len()
    });
    assert_eq!(counts, [2, 4, 10, 0]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_goes_to_on_resync_where_there_is_one_also_to_async_handlers() {
    let (factory, mut script) = factory(10 * SECOND);
    let informer = factory.informer::<Pod>();
    let heard = Heard::default();
    let (resync, event) = (heard.clone(), heard.clone());
    let handlers = heard.handlers().on_resync(move |pod| {
        resync.line(format!("resync {}", pod.name()));
    });
    informer.add_handler(handlers).unwrap();
    let handlers = Handlers::new().on_event_async(move |notification| {
        let event = event.clone();
        async move {
            if let kinform::Notification::Sync(pod) = notification {
                event.line(format!("async resync {}", pod.name()));
            }
        }
    });
    informer.add_handler(handlers).unwrap();
    factory.start().unwrap();
    let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    heard.take();
    tokio::time::sleep(11 * SECOND).await;
    let mut lines = heard.take();
    lines.sort_unstable();
    assert_eq!(lines, ["async resync a", "resync a"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_reconciles_everything_again_each_period_if_asked() {
    for (asked, expected) in [(None, 1), (Some(10 * SECOND), 4)] {
        let (factory, mut script) = factory(Duration::ZERO);
        let informer = factory.informer::<Pod>();
        let count = Arc::new(AtomicUsize::new(0));
        let stop = CancellationToken::new();
        let mut controller = Controller::of(&informer)
            .context(Arc::clone(&count))
            .shutdown_on(stop.clone());
        if let Some(period) = asked {
            controller = controller.resync_period(period);
        }
        factory.start().unwrap();
        let running = tokio::spawn(controller.run(
            async |_pod: Arc<Pod>, count: Ctx<Arc<AtomicUsize>>| {
                count.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Error>(Action::await_change())
            },
        ));
        let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
        tokio::time::sleep(35 * SECOND).await;
        assert_eq!(count.load(Ordering::Relaxed), expected);
        stop.cancel();
        running.await.unwrap().unwrap();
        factory.shutdown().await;
    }
}
