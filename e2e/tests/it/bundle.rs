//! The bundle of an operator, applied in one piece to both servers, and its program with the rights
//! in it.
//!
//! ```text
//! programs/bundle.yaml ─kubectl apply─▶ server with RBAC ◀─ built-in controllers: pods become ready
//!                      webhooks by URL and by Service ──▶ balancer ──▶ `hooks`, its account's token
//! ```
//!
//! The built-in controllers work on the real server, too, which is started without any of its own.

use std::process::Output;

use kinform_apiserver::Server;
use kinform_controlplane::{ControlPlane, Running, Selection};
use kinform_e2e::balancer::{Balancer, Replica};
use kinform_e2e::peers::Kubectl;
use kinform_e2e::process::{Process, kubeconfig_as, token};
use kinform_e2e::servers::{Host, Kind, Servers};

use crate::webhook_files::Files;

const NAMESPACE: &str = "knots-system";
const NAME: &str = "knots-operator";
/// The objects that kubectl does not find unchanged the second time: one whose definition was new,
/// and those with a field that each patch replaces.
const AGAIN: [&str; 4] = [
    "poddisruptionbudget.policy/knots-operator configured",
    "scrape.monitoring.example.com/knots-operator created",
    "mutatingwebhookconfiguration.admissionregistration.k8s.io/knots-operator configured",
    "validatingwebhookconfiguration.admissionregistration.k8s.io/knots-operator configured",
];
/// The results that the controllers bring about.
const DONE: [&str; 4] = [
    "rollout status --timeout=60s -n knots-system deployment/knots-operator",
    "wait --timeout=60s -n knots-system --for=condition=Available deployment/knots-operator",
    "wait --timeout=60s -n knots-system --for=jsonpath={.status.disruptionsAllowed}=1 \
     pdb/knots-operator",
    "wait --timeout=60s -n knots-system --for=jsonpath={.endpoints[1].conditions.ready}=true \
     endpointslice -l kubernetes.io/service-name=knots-metrics",
];

/// A Knot of a version.
fn knot(name: &str, version: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: conv.example.com/{version}, kind: Knot, metadata: {{name: {name}}}, \
         spec: {{{spec}}}}}"
    )
}

/// The lines of an output and its errors.
fn told(output: &Output) -> (Vec<String>, String) {
    let lines = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    (lines.lines().map(str::to_owned).collect(), errors.into())
}

/// Applies the bundle twice; returns the number of its objects. An object of a definition that is
/// new is not known to kubectl the first time.
fn applied(kubectl: &Kubectl, bundle: &str) -> usize {
    let objects = bundle.split("\n---\n").count();
    let first = kubectl.ask("apply -f -", bundle).unwrap();
    let (lines, errors) = told(&first);
    assert_eq!(first.status.code(), Some(1), "{lines:?} {errors}");
    let unknown = "no matches for kind \"Scrape\" in version \"monitoring.example.com/v1\"\n\
                   ensure CRDs are installed first\n";
    assert!(errors.ends_with(unknown), "{errors}");
    let made = lines.iter().filter(|line| line.ends_with(" created"));
    assert_eq!((lines.len(), made.count()), (objects - 1, objects - 1));
    let established = "wait --timeout=60s --for=condition=Established crd --all";
    kubectl.run(established, "").unwrap();
    let (mut lines, errors) = told(&kubectl.ask("apply -f -", bundle).unwrap());
    assert_eq!(errors, "");
    assert_eq!(lines.len(), objects);
    lines.retain(|line| !line.ends_with(" unchanged"));
    assert_eq!(lines, AGAIN);
    objects
}

/// The built-in controllers, as clients of this server.
async fn controllers(host: &Host) -> Running {
    let client = host.client().unwrap();
    let plane = ControlPlane::new(|_| client.clone(), &Selection::all()).unwrap();
    plane.start().await.unwrap()
}

/// The operator's program, as the service account of the bundle.
async fn operator(host: &Host, files: &Files) -> (Process, Replica) {
    let kubeconfig = host.home().join(NAME);
    let client = host.client().unwrap();
    let token = token(&client, NAMESPACE, NAME).await.unwrap();
    kubeconfig_as(host.kubeconfig(), &kubeconfig, &token, None).unwrap();
    let folder = format!("--webhook-cert-path={}", files.served().display());
    let flags = ["--webhook-bind-address=127.0.0.1:0", &folder];
    let binary = env!("CARGO_BIN_EXE_hooks");
    let mut process = Process::operator(binary, &kubeconfig, &flags, &[]).unwrap();
    let ports = Replica {
        probes: process.address("probes").await.unwrap(),
        webhooks: process.address("webhooks").await.unwrap(),
    };
    process.ready().await.unwrap();
    (process, ports)
}

/// A Knot is labelled on its way in, another one denied, and both versions are read.
fn knots(kubectl: &Kubectl) {
    let apply = "apply -f -";
    let made = kubectl.run(apply, &knot("one", "v1", "size: 3")).unwrap();
    assert_eq!(made, "knot.conv.example.com/one created\n");
    let denied = "admission webhook \"validate.conv.example.com\" denied the request: 300 m are a \
                  rope, not a knot";
    // That of the other version is converted for the webhooks.
    for large in [
        knot("rope", "v1", "size: 300"),
        knot("rope", "v2", "length: 300 m"),
    ] {
        let (_, errors) = told(&kubectl.ask(apply, &large).unwrap());
        assert!(errors.contains(denied), "{errors}");
    }
    kubectl
        .run(apply, &knot("two", "v2", "length: 5 m"))
        .unwrap();
    let columns = "-o custom-columns=M:.metadata.labels.measured,S:.spec.size,L:.spec.length \
                   --no-headers";
    let list = |version: &str| {
        let words = format!("get knots.{version}.conv.example.com {columns}");
        let rows = kubectl.run(&words, "").unwrap();
        let words = rows.split_whitespace().map(str::to_owned);
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(list("v1"), "yes 3 <none> yes 5 <none>");
    assert_eq!(list("v2"), "yes <none> 3 m yes <none> 5 m");
    // The operator hears of them in its own version. One name a command: kubectl gives up at once
    // when two are missing, as two errors in one are no "not found" to it.
    for name in ["one", "two"] {
        let made = format!("wait --timeout=60s --for=create configmap/{name}");
        kubectl.run(&made, "").unwrap();
    }
    let lengths = "get configmap one two -o jsonpath={.items[*].data.length}";
    assert_eq!(kubectl.run(lengths, "").unwrap(), "3 m 5 m");
}

async fn story(host: &Host) {
    let (files, balancer) = (Files::new(), Balancer::start().await.unwrap());
    let authority = k8s_openapi::ByteString(files.authority("knots").into_bytes());
    files.renew("knots");
    let authority = serde_json::to_value(authority).unwrap();
    let bundle = include_str!("../../programs/bundle.yaml")
        .replace("PORT", &balancer.port().to_string())
        .replace("BUNDLE", authority.as_str().unwrap());
    let kubectl = Kubectl::new(host.kubeconfig()).unwrap();
    let controllers = controllers(host).await;
    // kubectl blocks; servers, controllers and balancer go on beside it.
    let objects = tokio::task::block_in_place(|| applied(&kubectl, &bundle));
    let (mut process, ports) = operator(host, &files).await;
    balancer.add(ports);
    let is_led = || std::future::ready(balancer.ready() == 1);
    process.until("its turn", is_led).await.unwrap();
    tokio::task::block_in_place(|| {
        for command in DONE {
            kubectl.run(command, "").unwrap();
        }
        knots(&kubectl);
    });
    process.signal("TERM").unwrap();
    assert_eq!(process.ended().await.unwrap().code(), Some(0));
    let log = process.log();
    let is_refusal = |line: &&str| line.contains("forbidden") || line.contains("\"ERROR\"");
    assert_eq!(log.lines().find(is_refusal), None, "{log}");
    // The real server's namespaces are emptied by a controller that it does not have here.
    if host.kind() == Kind::Embedded {
        // Objects in the namespace and of the definitions are gone with them by then.
        let delete = "delete --ignore-not-found --timeout=60s -f -";
        let left = "get namespaces,crds,clusterroles,mutatingwebhookconfigurations -o name";
        let left = tokio::task::block_in_place(|| {
            kubectl.run(delete, &bundle).unwrap();
            kubectl.run(left, "").unwrap()
        });
        let own = ["knots", "scrapes"];
        let own = left
            .lines()
            .find(|name| own.iter().any(|of| name.contains(of)));
        assert_eq!(own, None);
    }
    controllers.stop().await.unwrap();
    let kind = host.kind();
    println!("RESULT | bundle of an operator | {kind} | ok, {objects} objects applied |");
}

#[test]
fn the_bundle_of_an_operator_is_applied_and_works() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let embedded = Server::builder().rbac();
        let servers = Servers::start_as(embedded, "bundle").await.unwrap();
        if servers.real().is_none() {
            // Said aloud by then: kubectl is built where the real server is.
            return;
        }
        for host in servers.hosts() {
            story(host).await;
        }
    });
}
