//! An operator's metrics, read by Prometheus' Python client in both formats, beside
//! controller-runtime's own.
//!
//! ```text
//! sample-controller ─/metrics, two formats─▶ metrics/main.py ─▶ name, type, labels ─┐
//! controller-runtime ─its registry─▶ the same lines = controller-runtime/metrics.txt ┴▶ differences, listed
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::PathBuf;

use k8s_openapi::api::apps::v1::Deployment;
use kinform_apiserver::Server;
use kinform_e2e::process::{Process, get_as};
use kinform_e2e::program::Program;
use kinform_e2e::servers::Host;
use kube::Client;
use kube::api::{Api, PostParams};
use sample_controller::{Foo, FooSpec};

/// The families that are left out or differ, and why: `NAME: reason`.
const DIFFERENCES: &str = include_str!("../../controller-runtime/metric-differences.txt");

/// The file of controller-runtime's families. Written by `cargo xtask e2e metrics --record`.
fn recorded() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("controller-runtime/metrics.txt")
}

/// The lines by the name that they begin with.
fn by_name(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let words = lines.filter_map(|line| Some((line.split(' ').next()?, line)));
    words.collect()
}

/// The label values of a run may be fewer than those of another: names and types count.
fn are_alike(theirs: &str, ours: &str) -> bool {
    let words = |line: &str| -> Vec<(String, BTreeSet<String>)> {
        let words = line.split(' ').map(|word| {
            let (name, values) = word.split_once('=').unwrap_or((word, ""));
            (
                name.to_owned(),
                values.split('|').map(str::to_owned).collect(),
            )
        });
        words.collect()
    };
    let (theirs, ours) = (words(theirs), words(ours));
    theirs.len() == ours.len()
        && theirs
            .iter()
            .zip(&ours)
            .all(|(theirs, ours)| theirs.0 == ours.0 && theirs.1.is_subset(&ours.1))
}

/// Compares the families; returns whatever is against the list of differences.
fn compare(theirs: &str, ours: &str) -> Vec<String> {
    let (theirs, ours) = (by_name(theirs), by_name(ours));
    let listed = DIFFERENCES.lines().filter(|line| !line.starts_with('#'));
    let listed: BTreeMap<_, _> = listed.filter_map(|line| line.split_once(": ")).collect();
    let mut wrong = Vec::new();
    let names: BTreeSet<_> = theirs
        .keys()
        .chain(ours.keys())
        .chain(listed.keys())
        .collect();
    for name in names {
        let is_same = match (theirs.get(name), ours.get(name)) {
            (Some(theirs), Some(ours)) => are_alike(theirs, ours),
            // Our own are named as such.
            (None, Some(_)) => name.starts_with("kinform_"),
            _ => false,
        };
        let (theirs, ours) = (theirs.get(name), ours.get(name));
        match (is_same, listed.contains_key(name)) {
            (true, true) => wrong.push(format!("{name} is listed and does not differ")),
            (false, false) => wrong.push(format!("{name}: {theirs:?}, and ours is {ours:?}")),
            _ => {}
        }
    }
    wrong
}

/// Both texts of an operator that has done a little of everything.
async fn scraped(host: &Host) -> [(&'static str, String); 2] {
    let flags = [
        "--leader-elect",
        "--metrics-secure=false",
        "--metrics-bind-address=127.0.0.1:0",
        "--webhook-bind-address=127.0.0.1:0",
    ];
    let binary = env!("CARGO_BIN_EXE_sample-controller");
    let environment = [("POD_NAMESPACE", "default")];
    let mut sample = Process::operator(binary, host.kubeconfig(), &flags, &environment).unwrap();
    sample.ready().await.unwrap();
    let client: Client = host.client().unwrap();
    let foos: Api<Foo> = Api::namespaced(client.clone(), "default");
    let spec = FooSpec {
        deployment_name: "web".to_owned(),
        replicas: Some(1),
    };
    let foo = Foo::new("web", spec);
    foos.create(&PostParams::default(), &foo).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client, "default");
    let is_made = async || deployments.get_opt("web").await.unwrap().is_some();
    sample.until("the Deployment", is_made).await.unwrap();
    let metrics = sample.address("metrics").await.unwrap();
    let ask = async |accept: &str| {
        let (code, text) = get_as(metrics, "/metrics", accept).await.unwrap();
        assert_eq!(code, 200, "{text}");
        text
    };
    let classic = ask("text/plain").await;
    let open = ask("application/openmetrics-text;version=1.0.0").await;
    sample.signal("TERM").unwrap();
    assert_eq!(sample.ended().await.unwrap().code(), Some(0));
    [("classic", classic), ("openmetrics", open)]
}

#[test]
fn an_independent_reader_finds_the_metrics_of_controller_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let Some(reader) = Program::python("metrics").await.unwrap() else {
            return;
        };
        let host = Host::embedded(Server::builder()).await.unwrap();
        let mut found = Vec::new();
        for (form, text) in scraped(&host).await {
            let file = host.home().join(form);
            std::fs::write(&file, text).unwrap();
            let lines = reader.ask(&[OsStr::new(form), file.as_os_str()]).await;
            found.push(lines.unwrap());
        }
        assert_eq!(found[0], found[1], "the two formats");
        if let Some(theirs) = Program::go("controller-runtime", ".").await.unwrap() {
            let words = [host.kubeconfig().as_os_str(), "of-metrics".as_ref(), "metrics".as_ref()];
            let lines = theirs.ask(&words).await.unwrap();
            let lines = format!(
                "# The families of controller-runtime's registry. Written by: cargo xtask e2e metrics --record\n{lines}"
            );
            if std::env::var_os("KINFORM_RECORD").is_some() {
                std::fs::write(recorded(), &lines).unwrap();
            }
            assert_eq!(std::fs::read_to_string(recorded()).unwrap(), lines);
        }
        let theirs = std::fs::read_to_string(recorded()).unwrap();
        let wrong = compare(&theirs, &found[0]);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let (ours, theirs) = (by_name(&found[0]).len(), by_name(&theirs).len());
        let listed = DIFFERENCES.lines().filter(|line| !line.starts_with('#')).count();
        println!("RESULT | metrics by Python's reader | embedded | {ours} families in both formats, controller-runtime has {theirs}, {listed} listed differences |");
    });
}
