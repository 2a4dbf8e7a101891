//! The operator: its start, its terms, its stop, and what it tells meanwhile.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform_operator::leader::is_not_leading;
use kinform_operator::{Error, Operator, When};
use kinform_testkit::TestServer;
use kube_client::api::Api;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::{Log, config_map, electing, get, operator, reporting, settings};

/// A generous limit of a wait: a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

struct Running {
    stop: CancellationToken,
    ended: JoinHandle<Result<(), Error>>,
}

fn start(operator: &Operator) -> Running {
    let (operator, stop) = (operator.clone(), CancellationToken::new());
    let token = stop.clone();
    let ended = tokio::spawn(async move { operator.run_until(token).await });
    Running { stop, ended }
}

impl Running {
    async fn ended(self) -> Result<(), Error> {
        let ended = tokio::time::timeout(PATIENCE, self.ended).await;
        ended.expect("it ends in time").unwrap()
    }

    async fn stopped(self) -> Result<(), Error> {
        self.stop.cancel();
        self.ended().await
    }
}

async fn soon<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.expect("in time")
}

#[tokio::test]
async fn an_operator_reconciles_tells_its_state_and_leaves_no_task() {
    let server = TestServer::start().await.unwrap();
    server.create(&config_map("a")).await.unwrap();
    let operator = operator(&server, settings());
    let (controller, mut reports) = reporting(&operator);
    operator.add_named("maps", controller).unwrap();
    let running = start(&operator);
    while soon(reports.recv()).await.unwrap() != "a" {}
    let ports = operator.addresses().await;
    let probes = ports.probes.unwrap();
    assert_eq!(get(probes, "/healthz", "").await, (200, "ok".to_owned()));
    assert_eq!(get(probes, "/readyz", "").await, (200, "ok".to_owned()));
    let (_, long) = get(probes, "/readyz?verbose", "").await;
    assert_eq!(
        long,
        "[+]informers ok\n[+]shutdown ok\nreadyz check passed\n"
    );

    let metrics = ports.metrics.unwrap();
    let (code, text) = get(metrics, "/metrics", "").await;
    assert_eq!(code, 200);
    for line in [
        "# TYPE controller_runtime_reconcile_total counter",
        "controller_runtime_reconcile_errors_total{controller=\"maps\"} 0",
        "controller_runtime_max_concurrent_reconciles{controller=\"maps\"} 1",
        "controller_runtime_reconcile_total{controller=\"maps\",result=\"requeue_after\"} 0",
        "workqueue_depth{name=\"maps\",controller=\"maps\",priority=\"-100\"} 0",
        "# TYPE workqueue_queue_duration_seconds histogram",
        "workqueue_queue_duration_seconds_bucket{le=\"+Inf\",name=\"maps\",controller=\"maps\"}",
        "# TYPE rest_client_requests_total counter",
        "kinform_store_objects{name=\"configmaps\",group=\"\",version=\"v1\",resource=\"configmaps\"}",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("# EOF"));
    let accept = "Accept: application/openmetrics-text\r\n";
    let (_, text) = get(metrics, "/metrics", accept).await;
    assert!(text.ends_with("# EOF\n"), "{text}");

    running.stopped().await.unwrap();
    assert_eq!(operator.factory().task_count(), 0);
}

#[tokio::test]
async fn one_replica_works_at_a_time_and_a_stop_hands_over() {
    let server = TestServer::start().await.unwrap();
    server.create(&config_map("a")).await.unwrap();
    let (first, second) = (operator(&server, electing()), operator(&server, electing()));
    let (controller, mut reports) = reporting(&first);
    first.add(controller).unwrap();
    let running = start(&first);
    while soon(reports.recv()).await.unwrap() != "a" {}

    let (controller, mut others) = reporting(&second);
    second.add(controller).unwrap();
    let standby = start(&second);
    let maps: Api<ConfigMap> = Api::namespaced(second.client(), "default");
    let probes = second.addresses().await.probes.unwrap();
    while get(probes, "/readyz", "").await.0 != 200 {}
    let refused = maps.get("a").await.unwrap_err();
    assert!(is_not_leading(&refused), "{refused}");
    Api::<ConfigMap>::namespaced(second.unguarded(), "default")
        .get("a")
        .await
        .unwrap();
    assert!(others.try_recv().is_err(), "a standby does not reconcile");

    running.stopped().await.unwrap();
    while soon(others.recv()).await.unwrap() != "a" {}
    maps.get("a").await.unwrap();
    standby.stopped().await.unwrap();
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    let spec = leases.get("test-operator").await.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.unwrap_or_default(), "");
    assert!(spec.lease_transitions >= Some(1));
}

#[tokio::test]
async fn a_lease_that_is_deleted_ends_the_term_and_the_replica_stands_again() {
    let server = TestServer::start().await.unwrap();
    server.create(&config_map("a")).await.unwrap();
    let operator = operator(&server, electing());
    let (controller, mut reports) = reporting(&operator);
    operator.add(controller).unwrap();
    let running = start(&operator);
    for _ in 0..2 {
        while soon(reports.recv()).await.unwrap() != "a" {}
        let leases: Api<Lease> = Api::namespaced(server.client(), "default");
        let gone = leases.delete("test-operator", &Default::default()).await;
        gone.unwrap();
    }
    running.stopped().await.unwrap();
}

#[tokio::test]
async fn a_port_in_use_is_one_line_and_starts_nothing() {
    let server = TestServer::start().await.unwrap();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = electing();
    settings.metrics_address = Some(taken.local_addr().unwrap().to_string());
    let operator = operator(&server, settings);
    let (controller, _reports) = reporting(&operator);
    operator.add(controller).unwrap();
    let error = start(&operator).ended().await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("cannot serve metrics: "), "{text}");
    assert!(!text.contains('\n'), "{text}");
    assert_eq!(error.exit_code(), 1);
    assert_eq!(operator.factory().task_count(), 0);
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    assert!(leases.get_opt("test-operator").await.unwrap().is_none());
}

#[tokio::test]
async fn a_stop_ends_every_wait_of_the_start() {
    let server = TestServer::start().await.unwrap();
    server.server().faults().refuse_connections();
    let operator = operator(&server, electing());
    let (controller, _reports) = reporting(&operator);
    operator.add(controller).unwrap();
    let running = start(&operator);
    let probes = operator.addresses().await.probes.unwrap();
    assert_eq!(get(probes, "/readyz", "").await.0, 500);
    assert_eq!(get(probes, "/healthz", "").await.0, 200);
    running.stopped().await.unwrap();
}

#[tokio::test]
async fn a_part_that_fails_is_named_and_an_optional_or_removed_one_is_missed_by_nobody() {
    let server = TestServer::start().await.unwrap();
    let operator = operator(&server, settings());
    let fail = CancellationToken::new();
    let told = fail.clone();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let begin = begun.clone();
    let part = operator
        .task("lasting", When::Always, move |stop| {
            let begin = begin.clone();
            async move {
                begin.send("lasting").unwrap();
                stop.cancelled().await;
                Ok::<_, Error>(())
            }
        })
        .unwrap();
    operator
        .task("failing", When::Leading, move |_| {
            let (told, begun) = (told.clone(), begun.clone());
            async move {
                begun.send("failing").unwrap();
                told.cancelled().await;
                Err("no luck")
            }
        })
        .unwrap();
    let duplicate = operator.task("failing", When::Always, |_| async { Ok::<_, Error>(()) });
    assert!(duplicate.unwrap_err().is_usage());
    let running = start(&operator);
    soon(begins.recv()).await.unwrap();
    soon(begins.recv()).await.unwrap();
    soon(part.remove()).await;
    assert!(!running.ended.is_finished());
    fail.cancel();
    let error = running.ended().await.unwrap_err();
    assert_eq!(error.to_string(), "failing failed: no luck");
    assert!(error.is_part());
}

#[tokio::test]
async fn a_task_that_ends_early_or_panics_ends_the_operator() {
    let server = TestServer::start().await.unwrap();
    let early = operator(&server, settings());
    early
        .task("early", When::Always, |_| async { Ok::<_, Error>(()) })
        .unwrap();
    let error = start(&early).ended().await.unwrap_err();
    assert_eq!(error.to_string(), "early ended before it was asked to");
    let wild = operator(&server, electing());
    wild.task("wild", When::Leading, |_| async {
        if true {
            panic!("no");
        }
        Ok::<_, Error>(())
    })
    .unwrap();
    let error = start(&wild).ended().await.unwrap_err();
    assert_eq!(error.to_string(), "wild panicked");
}

#[tokio::test]
async fn webhooks_are_served_before_the_caches_and_readiness_is_theirs() {
    use kinform_operator::webhook::{AdmissionRequest, Certificates, Error, Verdict, Webhooks};

    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.path().join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(
        folder.path().join("tls.key"),
        made.signing_key.serialize_pem(),
    )
    .unwrap();
    async fn validate(_: AdmissionRequest<ConfigMap>) -> Result<Verdict, Error> {
        Ok(Verdict::allow())
    }
    let server = TestServer::start().await.unwrap();
    server.server().faults().refuse_connections();
    let mut settings = settings();
    settings.webhook_address = "127.0.0.1:0".to_owned();
    settings.webhook_drain = Duration::ZERO;
    let operator = operator(&server, settings);
    let webhooks = Webhooks::new().validate(validate).unwrap();
    let certificates = Certificates::from_folder(folder.path());
    operator
        .serve_webhooks(webhooks.clone(), certificates)
        .unwrap();
    let again = operator.serve_webhooks(webhooks, Certificates::from_folder("/nosuch"));
    assert!(again.unwrap_err().is_usage());
    let (controller, _reports) = reporting(&operator);
    operator.add(controller).unwrap();
    let running = start(&operator);
    let ports = operator.addresses().await;
    let probes = ports.probes.unwrap();
    assert_eq!(get(probes, "/readyz", "").await.0, 200);
    assert_eq!(get(probes, "/readyz/informers", "").await.0, 500);
    assert!(ports.webhooks.is_some());
    let (_, text) = get(ports.metrics.unwrap(), "/metrics", "").await;
    let line = "controller_runtime_webhook_requests_total{webhook=\"/validate--v1-configmap\",code=\"200\"} 0";
    assert!(text.contains(line), "{text}");
    running.stopped().await.unwrap();

    let unready = self::operator(&server, self::settings());
    unready
        .serve_webhooks(Webhooks::new(), Certificates::from_folder("/nosuch"))
        .unwrap();
    let error = start(&unready).ended().await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("cannot serve webhooks: cannot read /nosuch/tls.crt"),
        "{text}"
    );
}

#[tokio::test]
async fn a_reconcile_that_does_not_end_in_time_keeps_the_lease_from_being_released() {
    use std::sync::Arc;

    use kinform::{Action, Controller, Ctx};

    let server = TestServer::start().await.unwrap();
    server.create(&config_map("a")).await.unwrap();
    let mut settings = electing();
    settings.grace_period = Duration::from_millis(50);
    let operator = operator(&server, settings);
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let maps = operator.informer::<ConfigMap>();
    let hanging = move |map: Arc<ConfigMap>, _: Ctx<()>| {
        let begun = begun.clone();
        async move {
            if map.metadata.name.as_deref() == Some("a") {
                begun.send(()).unwrap();
                std::future::pending::<()>().await;
            }
            Ok::<_, kinform::Error>(Action::await_change())
        }
    };
    operator
        .add(Controller::of(&maps).reconciling(hanging))
        .unwrap();
    let running = start(&operator);
    soon(begins.recv()).await.unwrap();
    let error = running.stopped().await.unwrap_err();
    assert!(error.is_drain(), "{error}");
    assert!(error.to_string().contains("default/a"), "{error}");
    assert_eq!(error.exit_code(), 3);
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    let spec = leases.get("test-operator").await.unwrap().spec.unwrap();
    assert_ne!(spec.holder_identity.unwrap_or_default(), "");
    // Its term ends, though the operator is kept: nobody renews the lease.
    soon(async {
        while operator.term().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_leading_task_that_meets_the_end_of_its_term_does_not_end_the_operator() {
    let server = TestServer::start().await.unwrap();
    let operator = operator(&server, electing());
    let (client, (begun, mut begins)) = (operator.client(), tokio::sync::mpsc::unbounded_channel());
    operator
        .task("busy", When::Leading, move |stop| {
            let (client, begun) = (client.clone(), begun.clone());
            async move {
                begun.send(()).unwrap();
                let maps: Api<ConfigMap> = Api::namespaced(client, "default");
                while !stop.is_cancelled() {
                    maps.get_opt("a").await?;
                    tokio::task::yield_now().await;
                }
                Ok::<_, kube_client::Error>(())
            }
        })
        .unwrap();
    let running = start(&operator);
    soon(begins.recv()).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(server.client(), "default");
    leases
        .delete("test-operator", &Default::default())
        .await
        .unwrap();
    soon(begins.recv()).await.unwrap();
    running.stopped().await.unwrap();
}

#[tokio::test]
async fn a_replica_without_rights_on_leases_names_them_and_stands_by() {
    let log = Log::default();
    let _guard = log.listen();
    let limited = |server: kinform_apiserver::Builder| {
        let user = kinform_apiserver::User::new("limited");
        server.rbac().user("limited-token", user)
    };
    let server = TestServer::start().with(limited).await.unwrap();
    let mut config = server.config();
    config.auth_info.token = Some("limited-token".to_owned().into());
    // Its election runs on this thread, whose log is read.
    let client = kube_client::Client::try_from(config).unwrap();
    let builder = Operator::builder("test-operator").settings(electing());
    let operator = builder.with_client(client).unwrap();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    operator
        .task("work", When::Leading, move |_| {
            begun.send(()).unwrap();
            std::future::pending::<Result<(), Error>>()
        })
        .unwrap();
    let running = start(&operator);
    let named = [
        "WARN",
        "default/test-operator",
        "leases",
        "forbidden",
        "limited",
    ];
    soon(async {
        while !log.has(&named) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let probes = operator.addresses().await.probes.unwrap();
    assert_eq!(get(probes, "/healthz", "").await.0, 200);
    assert!(begins.try_recv().is_err(), "nobody works without the lease");
    running.stopped().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_is_dropped_at_any_time_leaves_no_task() {
    let alive = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let server = TestServer::start().in_process().await.unwrap();
    let before = alive();
    for runs_for in [0, 1, 30_000] {
        let mut settings = electing();
        (settings.probe_address, settings.metrics_address) = (None, None);
        let builder = Operator::builder("test-operator").settings(settings);
        let operator = builder.with_client(server.client()).unwrap();
        let (controller, _reports) = reporting(&operator);
        operator.add(controller).unwrap();
        let run = operator.run_until(CancellationToken::new());
        let limit = Duration::from_millis(runs_for);
        assert!(tokio::time::timeout(limit, run).await.is_err());
        drop(operator);
        tokio::time::sleep(PATIENCE).await;
        assert_eq!(alive(), before, "after {runs_for} ms");
    }
}

#[tokio::test]
async fn a_waiter_for_the_election_hears_of_the_first_term_alone() {
    use futures::FutureExt;

    let server = TestServer::start().await.unwrap();
    let (leader, standby) = (operator(&server, electing()), operator(&server, electing()));
    assert!(leader.elected().now_or_never().is_none());
    let leads = start(&leader);
    soon(leader.elected()).await;
    let term = leader.term().unwrap();
    let stands_by = start(&standby);
    let probes = soon(standby.addresses()).await.probes.unwrap();
    // Ready: its caches are synced, and nothing but the lease keeps it from work.
    soon(async {
        while get(probes, "/readyz", "").await.0 != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(standby.elected().now_or_never().is_none());
    leads.stopped().await.unwrap();
    soon(standby.elected()).await;
    assert!(standby.term().unwrap().transitions > term.transitions);
    // Over does not mean that it never was.
    soon(leader.elected()).await;
    stands_by.stopped().await.unwrap();
    // Without an election it is the start.
    let alone = operator(&server, settings());
    let runs = start(&alone);
    soon(alone.elected()).await;
    runs.stopped().await.unwrap();
}
