//! Signals end a controller: the first in order, a second one at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kinform::controller::Signals;
use kinform::{Action, Controller, Ctx, Error};
use tokio::sync::mpsc;

use crate::fixture::{factory, first_list, pod};

const SOON: Duration = Duration::from_secs(20);

/// The messages around a reconcile: it reports that it began, then waits until it may end.
enum Stage {
    Began,
    MayEnd,
}

fn signal(name: &str) {
    let kill = format!("kill -{name} {}", std::process::id());
    let sent = std::process::Command::new("sh")
        .args(["-c", &kill])
        .status();
    assert!(sent.unwrap().success());
}

/// Runs a controller until a reconcile is under way, sends the signals, and returns how it ended.
async fn ended_by(first: &str, second: Option<&str>, ends_when_asked: bool) -> Result<(), Error> {
    let (factory, mut script) = factory();
    let informer = factory.informer::<Pod>();
    let (tell, mut told) = mpsc::unbounded_channel();
    let controller = Controller::of(&informer)
        .context(tell)
        .grace_period(Duration::from_secs(3600))
        .shutdown_on_signal();
    factory.start().unwrap();
    let running = tokio::spawn(controller.run(
        move |_pod: Arc<Pod>, cx: Ctx<mpsc::UnboundedSender<Stage>>| async move {
            cx.send(Stage::Began).unwrap();
            cx.stopping().cancelled().await;
            cx.send(Stage::MayEnd).unwrap();
            if !ends_when_asked {
                std::future::pending::<()>().await;
            }
            Ok::<_, Error>(Action::await_change())
        },
    ));
    let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    // The handlers of the process are there before the first reconcile.
    assert!(matches!(told.recv().await, Some(Stage::Began)));
    signal(first);
    let heard = tokio::time::timeout(SOON, told.recv()).await;
    assert!(matches!(heard, Ok(Some(Stage::MayEnd))));
    let mut running = running;
    // One that comes at once is taken as an echo of the first.
    // BOUND: forty times half a second.
    for _ in 0..40 {
        if let Some(second) = second {
            signal(second);
        }
        let ended = tokio::time::timeout(SOON / 40, &mut running).await;
        if let Ok(ended) = ended {
            factory.shutdown().await;
            return ended.unwrap();
        }
    }
    panic!("it does not end");
}

// One test: a signal is for the whole process.
#[cfg(unix)]
#[tokio::test]
async fn a_signal_ends_a_controller_in_order_and_a_second_one_at_once() {
    assert!(ended_by("TERM", None, true).await.is_ok());
    assert!(ended_by("INT", None, true).await.is_ok());
    let error = ended_by("TERM", Some("TERM"), false).await.unwrap_err();
    assert!(error.is_stopped(), "{error}");
    echo().await;
}

/// A signal right after another one is waited past.
async fn echo() {
    use futures::FutureExt;
    use tokio::signal::unix::{SignalKind, signal as listener};

    // BOUND: a machine that takes 100 ms for two signals fifty times fails this test.
    for _ in 0..50 {
        let mut signals = Signals::listen().unwrap();
        let mut all = listener(SignalKind::terminate()).unwrap();
        let began = Instant::now();
        signal("TERM");
        all.recv().await.unwrap();
        signals.next().await;
        signal("TERM");
        all.recv().await.unwrap();
        let again = signals.next().now_or_never();
        if began.elapsed() < Duration::from_millis(100) {
            assert!(again.is_none());
            return;
        }
    }
    panic!("no two signals came within 100 ms");
}
