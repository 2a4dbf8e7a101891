//! Servers, operators and requests that tests have in common.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinform::{Action, Controller, Ctx, Reconciler};
use kinform_operator::leader::LeaseOptions;
use kinform_operator::{LeaseSettings, MetricsAccess, Operator, Settings};
use kinform_testkit::TestServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tracing_subscriber::fmt::MakeWriter;

/// Settings whose ports are free ones.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.probe_address = Some("127.0.0.1:0".to_owned());
    settings.metrics_address = Some("127.0.0.1:0".to_owned());
    settings.metrics_access = MetricsAccess::Open;
    settings
}

/// The same, with leader election.
pub(crate) fn electing() -> Settings {
    let mut lease = LeaseSettings::default();
    lease.namespace = Some("default".to_owned());
    lease.options = LeaseOptions::quick();
    let mut settings = settings();
    settings.leader_election = Some(lease);
    settings
}

pub(crate) fn operator(server: &TestServer, settings: Settings) -> Operator {
    let builder = Operator::builder("test-operator").settings(settings);
    builder.with_config(server.config()).unwrap()
}

/// A controller of config maps that reports the names that it reconciles.
pub(crate) fn reporting(operator: &Operator) -> (Reconciler, mpsc::UnboundedReceiver<String>) {
    let (report, reports) = mpsc::unbounded_channel();
    let reconcile = move |map: Arc<ConfigMap>, _: Ctx<()>| {
        // A test that has seen enough no longer listens.
        let _ = report.send(map.metadata.name.clone().unwrap_or_default());
        std::future::ready(Ok::<_, kinform::Error>(Action::await_change()))
    };
    let maps = operator.informer::<ConfigMap>();
    (Controller::of(&maps).reconciling(reconcile), reports)
}

pub(crate) fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

/// The status and the body of a GET over plain HTTP.
pub(crate) async fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, body.to_owned())
}

/// The text of a log.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Takes what this thread logs, until the guards are dropped.
    pub(crate) fn listen(&self) -> impl Sized + use<> {
        let log = tracing_subscriber::fmt().with_ansi(false);
        // With a second one, each callsite asks all of them whether it is heard.
        let second = tracing_subscriber::fmt().with_writer(io::sink).finish();
        let second = tracing::Dispatch::new(second);
        let guard = tracing::subscriber::set_default(log.with_writer(self.clone()).finish());
        tracing::callsite::rebuild_interest_cache();
        (second, guard)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Returns whether a line has all of these words.
    pub(crate) fn has(&self, words: &[&str]) -> bool {
        self.count(words) > 0
    }

    /// Returns the number of lines that have all of these words.
    pub(crate) fn count(&self, words: &[&str]) -> usize {
        let text = self.text();
        text.lines()
            .filter(|line| words.iter().all(|word| line.contains(word)))
            .count()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
