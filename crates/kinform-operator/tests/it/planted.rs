//! Controllers with planted faults beside a sound one: each is found by its metrics and in the log,
//! and the sound one goes on.
//!
//! ```text
//! permanent error, panic, deadline, hanging, sound ─▶ one operator ─▶ /metrics by controller, log by key
//! ```

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Action, CancellationToken, Controller, Ctx, Permanent, Reconciler};
use kinform_operator::Operator;
use kinform_testkit::TestServer;

use crate::support::{Log, config_map, get, operator, reporting, settings};

/// A generous limit of a wait: a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A controller of config maps with a fault.
#[derive(Clone, Copy)]
enum Fault {
    Permanent,
    Panic,
    Late,
    Hanging,
}

impl Fault {
    async fn reconcile(self) -> Result<Action, Permanent> {
        match self {
            Self::Permanent => Err(Permanent::new("the colour is unknown")),
            Self::Panic => panic!("index out of bounds"),
            Self::Late | Self::Hanging => std::future::pending().await,
        }
    }

    fn planted(self, operator: &Operator, name: &str) -> Reconciler {
        let controller = Controller::of(&operator.informer::<ConfigMap>()).named(name);
        let controller = match self {
            Self::Late => controller.reconcile_timeout(Duration::from_millis(20)),
            _ => controller,
        };
        controller.reconciling(move |_: Arc<ConfigMap>, _: Ctx<()>| self.reconcile())
    }
}

/// The value of a series in the classic text.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let line = line.unwrap_or_else(|| panic!("no {series} in\n{text}"));
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn planted_faults_are_named_in_metrics_and_log_and_a_sound_controller_goes_on() {
    let log = Log::default();
    let _guard = log.listen();
    let server = TestServer::start().await.unwrap();
    server.create(&config_map("culprit")).await.unwrap();
    let mut settings = settings();
    settings.grace_period = Duration::ZERO;
    let operator = operator(&server, settings);
    for (name, fault) in [
        ("stubborn", Fault::Permanent),
        ("panicking", Fault::Panic),
        ("late", Fault::Late),
        ("hanging", Fault::Hanging),
    ] {
        operator.add(fault.planted(&operator, name)).unwrap();
    }
    let (sound, mut reports) = reporting(&operator);
    operator.add_named("sound", sound).unwrap();
    let (running, stop) = (operator.clone(), CancellationToken::new());
    let token = stop.clone();
    let running = tokio::spawn(async move { running.run_until(token).await });

    let metrics = operator.addresses().await.metrics.unwrap();
    let errors = "controller_runtime_reconcile_errors_total{controller=";
    let found = async {
        loop {
            let (_, text) = get(metrics, "/metrics", "").await;
            let counted = |series: &str| value(&text, series);
            let is_found = counted(&format!("{errors}\"panicking\"}}")) > 1.0
                && counted("controller_runtime_reconcile_panics_total{controller=\"panicking\"}")
                    > 1.0
                && counted("controller_runtime_reconcile_timeouts_total{controller=\"late\"}")
                    > 1.0
                && counted(
                    "controller_runtime_terminal_reconcile_errors_total{controller=\"stubborn\"}",
                ) > 0.0
                && counted("controller_runtime_active_workers{controller=\"hanging\"}") > 0.0
                && counted(
                    "workqueue_longest_running_processor_seconds{name=\"hanging\",controller=\"hanging\"}",
                ) > 0.1;
            if is_found {
                break text;
            }
            tokio::task::yield_now().await;
        }
    };
    let text = tokio::time::timeout(PATIENCE, found).await.unwrap();
    // It is not tried again before its object changes.
    let stubborn = format!("{errors}\"stubborn\"}}");
    assert_eq!(value(&text, &stubborn), 1.0);
    server.create(&config_map("later")).await.unwrap();
    while reports.recv().await.unwrap() != "later" {}
    let (_, text) = get(metrics, "/metrics", "").await;
    assert_eq!(value(&text, &format!("{errors}\"sound\"}}")), 0.0);
    for words in [
        [
            "WARN",
            "controller=stubborn",
            "default/culprit",
            "the colour is unknown",
        ],
        [
            "WARN",
            "controller=panicking",
            "default/culprit",
            "index out of bounds",
        ],
        [
            "WARN",
            "controller=late",
            "default/culprit",
            "did not end within 20ms",
        ],
    ] {
        assert!(log.has(&words), "{words:?} in\n{}", log.text());
    }
    stop.cancel();
    let error = running.await.unwrap().unwrap_err();
    // Which of the two is named first is open.
    assert!(error.is_drain(), "{error}");
    assert!(error.to_string().contains("default/"), "{error}");
}
