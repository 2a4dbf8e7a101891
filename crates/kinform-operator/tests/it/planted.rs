//! Controllers with planted faults: each is found within ten runs, and named in an event, a metric and
//! the log; a sound controller beside some of them goes on.
//!
//! ```text
//! hot, own writes, fight, no-op, stale, permanent, panic, deadline, slow ─▶ an operator each ─▶ event, /metrics, log
//! permanent error, panic, deadline, hanging, sound ─▶ one operator ─▶ /metrics by controller, log by key
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kinform::{Action, CancellationToken, Controller, Ctx, Error, Permanent, Reconciler};
use kinform_operator::Operator;
use kinform_testkit::TestServer;
use kube_client::api::{Api, ListParams};
use serde_json::json;

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

/// A controller of the table, with the event, the series and the line that name it.
struct Planted {
    fault: Habit,
    reason: &'static str,
    series: &'static str,
    line: &'static [&'static str],
}

/// A way to reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    Hot,
    OwnWrite,
    Fight,
    Noop,
    Stale,
    Permanent,
    Panic,
    Late,
    Slow,
    /// Twelve own writes, one a run.
    Steps,
}

const MS: Duration = Duration::from_millis(1);

/// Sets an annotation of the map.
async fn annotate(map: &ConfigMap, cx: &Ctx<()>, value: String) -> Result<Action, Error> {
    let patch = json!({"metadata": {"annotations": {"planted": value}}});
    cx.patch(map, patch).await?;
    Ok(Action::await_change())
}

impl Habit {
    async fn reconcile(
        self,
        map: Arc<ConfigMap>,
        cx: Ctx<()>,
        run: usize,
    ) -> Result<Action, Error> {
        // Time passes only while all else is at rest.
        tokio::time::sleep(10 * MS).await;
        let now = map.metadata.annotations.as_ref();
        let now = now.and_then(|all| all.get("planted")).map(String::as_str);
        match self {
            Self::Hot => Ok(Action::requeue(Duration::ZERO)),
            Self::OwnWrite => annotate(&map, &cx, format!("2026-01-01T00:00:{run:02}Z")).await,
            Self::Fight if now == Some("ours") => Ok(Action::await_change()),
            Self::Fight => annotate(&map, &cx, "ours".to_owned()).await,
            Self::Noop => {
                let _ = annotate(&map, &cx, "same".to_owned()).await?;
                Ok(Action::requeue(1_000 * MS))
            }
            Self::Stale => {
                cx.require_fresh(Duration::ZERO).await?;
                Ok(Action::requeue(1_000 * MS))
            }
            Self::Permanent => Err(Permanent::new("the colour is unknown").into()),
            Self::Panic => panic!("index out of bounds"),
            Self::Late => std::future::pending().await,
            Self::Slow => {
                tokio::time::sleep(61_000 * MS).await;
                Ok(Action::await_change())
            }
            Self::Steps => match now.map_or(0, |step| step.parse().unwrap()) {
                12 => Ok(Action::await_change()),
                step => annotate(&map, &cx, format!("{}", step + 1)).await,
            },
        }
    }

    /// The controller named `planted`; `runs` counts the runs that begin before the fault is found.
    fn planted(
        self,
        operator: &Operator,
        runs: &Arc<AtomicUsize>,
        is_found: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Reconciler {
        let controller = Controller::of(&operator.informer::<ConfigMap>()).named("planted");
        let controller = match self {
            Self::Late => controller.reconcile_timeout(20 * MS),
            _ => controller,
        };
        let runs = Arc::clone(runs);
        controller.reconciling(move |map: Arc<ConfigMap>, cx: Ctx<()>| {
            let run = match is_found() {
                true => runs.load(Ordering::Relaxed),
                false => runs.fetch_add(1, Ordering::Relaxed) + 1,
            };
            self.reconcile(map, cx, run)
        })
    }
}

/// An operator in process with this controller, and the server that it works on.
struct Stage {
    server: TestServer,
    operator: Operator,
    runs: Arc<AtomicUsize>,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<Result<(), kinform_operator::Error>>,
}

impl Stage {
    async fn start(habit: Habit, is_found: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let server = TestServer::start().in_process().await.unwrap();
        server.create(&config_map("culprit")).await.unwrap();
        let mut settings = settings();
        settings.probe_address = None;
        settings.grace_period = Duration::ZERO;
        let operator = Operator::builder("test-operator").settings(settings);
        let operator = operator.with_client(server.client()).unwrap();
        let runs = Arc::<AtomicUsize>::default();
        let controller = habit.planted(&operator, &runs, is_found);
        operator.add(controller).unwrap();
        if habit == Habit::Fight {
            let maps = operator.informer::<ConfigMap>();
            let rival = Controller::of(&maps).named("rival");
            let rival = rival.reconciling(|map: Arc<ConfigMap>, cx: Ctx<()>| async move {
                tokio::time::sleep(10 * MS).await;
                let all = map.metadata.annotations.as_ref();
                match all.and_then(|all| all.get("planted")).map(String::as_str) {
                    Some("ours") => annotate(&map, &cx, "theirs".to_owned()).await,
                    _ => Ok(Action::await_change()),
                }
            });
            operator.add(rival).unwrap();
        }
        let stop = CancellationToken::new();
        let (of_task, token) = (operator.clone(), stop.clone());
        let running = tokio::spawn(async move { of_task.run_until(token).await });
        let stage = Self {
            server,
            operator,
            runs,
            stop,
            running,
        };
        if habit == Habit::Stale {
            while stage.runs() == 0 {
                tokio::time::sleep(MS).await;
            }
            tokio::time::sleep(5_000 * MS).await;
            stage.runs.store(0, Ordering::Relaxed);
            stage.server.lag();
            stage.server.create(&config_map("unseen")).await.unwrap();
        }
        stage
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    async fn events(&self) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.server.client(), "default");
        events.list(&ListParams::default()).await.unwrap().items
    }

    /// The text of `/metrics`: sockets need a clock that runs.
    async fn metrics(&self) -> String {
        let address = self.operator.addresses().await.metrics.unwrap();
        tokio::time::resume();
        let (_, text) = get(address, "/metrics", "").await;
        tokio::time::pause();
        text
    }

    async fn stop(self) {
        self.stop.cancel();
        // Work that hangs is given up.
        let _ = self.running.await.unwrap();
    }
}

impl Planted {
    async fn check(&self, log: &Log) {
        let (fault, reason) = (self.fault, self.reason);
        let (line, before, heard) = (self.line, log.count(self.line), log.clone());
        let is_found = move || heard.count(line) > before;
        let stage = Stage::start(fault, is_found.clone()).await;
        let began = tokio::time::Instant::now();
        while !is_found() {
            assert!(
                began.elapsed() < 120_000 * MS,
                "{fault:?} is not found:\n{}",
                log.text()
            );
            tokio::time::sleep(MS).await;
        }
        // The list causes the first run, and ten more may be needed.
        let runs = stage.runs();
        assert!((1..=11).contains(&runs), "{fault:?} after {runs} runs");
        let is_it = |event: &Event| event.reason.as_deref() == Some(reason);
        let event = loop {
            let mut events = stage.events().await.into_iter();
            if let Some(event) = events.find(is_it) {
                break event;
            }
            assert!(
                began.elapsed() < 240_000 * MS,
                "{fault:?} has no event {reason}"
            );
            tokio::time::sleep(MS).await;
        };
        let about = event.involved_object;
        assert_eq!(about.name.as_deref(), Some("culprit"), "{fault:?}");
        assert!(about.uid.is_some(), "{fault:?}");
        assert_eq!(event.type_.as_deref(), Some("Warning"), "{fault:?}");
        let text = stage.metrics().await;
        assert!(
            value(&text, self.series) > 0.0,
            "{fault:?}: {}",
            self.series
        );
        stage.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_planted_fault_is_named_in_event_metric_and_log_within_ten_runs() {
    let log = Log::default();
    let _guard = log.listen();
    let planted = |fault, reason, series, line| Planted {
        fault,
        reason,
        series,
        line,
    };
    let rows: [Planted; 9] = [
        planted(
            Habit::Hot,
            "HotLoop",
            "kinform_controller_hot_runs_total{controller=\"planted\"}",
            &["WARN", "default/culprit", "HotLoop"],
        ),
        planted(
            Habit::OwnWrite,
            "ReconcileLoop",
            "kinform_controller_loops_total{controller=\"planted\",kind=\"loop\"}",
            &["WARN", "default/culprit", "metadata.annotations"],
        ),
        planted(
            Habit::Fight,
            "FieldFight",
            "kinform_controller_loops_total{controller=\"planted\",kind=\"fight\"}",
            &["WARN", "controller=planted", "FieldFight"],
        ),
        planted(
            Habit::Noop,
            "NoopWrites",
            "kinform_controller_noop_writes_total{controller=\"planted\"}",
            &["WARN", "default/culprit", "NoopWrites"],
        ),
        planted(
            Habit::Stale,
            "StaleView",
            "kinform_controller_stale_runs_total{controller=\"planted\"}",
            &["WARN", "StaleView", "configmaps may be stale"],
        ),
        planted(
            Habit::Permanent,
            "PermanentError",
            "controller_runtime_terminal_reconcile_errors_total{controller=\"planted\"}",
            &["WARN", "default/culprit", "the colour is unknown"],
        ),
        planted(
            Habit::Panic,
            "ReconcilePanic",
            "controller_runtime_reconcile_panics_total{controller=\"planted\"}",
            &["WARN", "default/culprit", "index out of bounds"],
        ),
        planted(
            Habit::Late,
            "ReconcileTimeout",
            "controller_runtime_reconcile_timeouts_total{controller=\"planted\"}",
            &["WARN", "default/culprit", "did not end within 20ms"],
        ),
        planted(
            Habit::Slow,
            "SlowReconcile",
            "kinform_controller_slow_runs_total{controller=\"planted\"}",
            &["WARN", "default/culprit", "runs for more than 60s"],
        ),
    ];
    for row in rows {
        row.check(&log).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_of_twelve_own_writes_is_named_nowhere() {
    let log = Log::default();
    let _guard = log.listen();
    let stage = Stage::start(Habit::Steps, || false).await;
    tokio::time::sleep(120_000 * MS).await;
    assert_eq!(stage.runs(), 13);
    assert!(stage.events().await.is_empty());
    assert_eq!(log.count(&["WARN"]), 0, "{}", log.text());
    let text = stage.metrics().await;
    for kind in ["loop", "fight"] {
        let series =
            format!("kinform_controller_loops_total{{controller=\"planted\",kind=\"{kind}\"}}");
        assert_eq!(value(&text, &series), 0.0, "{kind}");
    }
    for family in ["hot_runs", "noop_writes", "stale_runs", "slow_runs"] {
        let series = format!("kinform_controller_{family}_total{{controller=\"planted\"}}");
        assert_eq!(value(&text, &series), 0.0, "{family}");
    }
    stage.stop().await;
}
