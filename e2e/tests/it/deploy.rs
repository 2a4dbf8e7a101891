//! The sample's manifests, applied to both servers, and its program with exactly the rights in them.
//!
//! ```text
//! kubectl apply -k deploy/ ─▶ server with RBAC ◀─token of the service account─ sample-controller
//!   real one: Service ─▶ this host, so that the API server calls the webhooks ──▶─┘
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kinform_apiserver::Server;
use kinform_e2e::kubectl::cache;
use kinform_e2e::process::{Process, kubeconfig_as, token};
use kinform_e2e::servers::{Host, Servers};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use sample_controller::{FINALIZER, Foo, FooSpec};
use serde_json::json;

const NAME: &str = "sample-controller";

fn kubectl(kubeconfig: &Path, words: &[&str]) -> String {
    let asked = Command::new(cache().join("bin/kubectl"))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(words)
        .output()
        .unwrap();
    let (told, errors) = (asked.stdout, String::from_utf8_lossy(&asked.stderr));
    assert!(asked.status.success(), "kubectl {words:?}: {errors}");
    assert_eq!(errors, "", "kubectl {words:?}");
    String::from_utf8(told).unwrap()
}

/// Returns whether a line has this number, and not only as a part of a longer one: a time, a port.
fn has_number(line: &str, number: &str) -> bool {
    let mut numbers = line.split(|letter: char| !letter.is_ascii_digit());
    numbers.any(|found| found == number)
}

/// Lets the API server reach the webhooks here: by the Service's name, as in a cluster.
async fn lead_here(client: &Client, webhooks: SocketAddr) {
    let merge = PatchParams::default();
    let services: Api<Service> = Api::namespaced(client.clone(), NAME);
    let here = json!({"spec": {
        "type": "ExternalName", "externalName": "localhost", "clusterIP": null, "clusterIPs": null,
    }});
    let service = "sample-controller-webhooks";
    let led = services.patch(service, &merge, &Patch::Merge(&here)).await;
    led.unwrap();
    let path = "/webhooks/0/clientConfig/service/port";
    let port = json!([{"op": "add", "path": path, "value": webhooks.port()}]);
    let port: Patch<()> = Patch::Json(serde_json::from_value(port).unwrap());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    mutating.patch(NAME, &merge, &port).await.unwrap();
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    validating.patch(NAME, &merge, &port).await.unwrap();
}

fn foo(name: &str, deployment: &str, replicas: Option<i32>) -> Foo {
    let spec = FooSpec {
        deployment_name: deployment.to_owned(),
        replicas,
    };
    Foo::new(name, spec)
}

/// Creates a Foo, follows it to its Deployment and through its end.
async fn reconciled(host: &Host, sample: &mut Process) {
    let client = host.client().unwrap();
    let foos: Api<Foo> = Api::namespaced(client.clone(), "default");
    let deployments: Api<Deployment> = Api::namespaced(client, "default");
    let new = PostParams::default();
    foos.create(&new, &foo("web", "web", None)).await.unwrap();
    let is_made = async || {
        let (foo, made) = (
            foos.get("web").await.unwrap(),
            deployments.get_opt("web").await,
        );
        let is_kept = foo.finalizers().iter().eq([FINALIZER]);
        let owner = foo.uid();
        is_kept
            && foo.status.is_some()
            && made.unwrap().is_some_and(|made| {
                let owners = made.owner_references();
                owners.iter().any(|is| Some(&is.uid) == owner.as_ref())
            })
    };
    sample
        .until("the Deployment of the Foo", is_made)
        .await
        .unwrap();
    let defaulted = foos.get("web").await.unwrap().spec.replicas;
    assert_eq!(defaulted, Some(1));
    let denied = foos.create(&new, &foo("bad", "Not a name", None)).await;
    let kube::Error::Api(status) = denied.unwrap_err() else {
        panic!("a denial")
    };
    assert_eq!((status.code, &status.reason[..]), (422, "Invalid"));
    let by = "admission webhook \"vfoo-v1alpha1.samplecontroller.k8s.io\" denied the request: ";
    assert!(status.message.starts_with(by), "{}", status.message);
    let merge = PatchParams::default();
    let three = Patch::Merge(json!({"spec": {"replicas": 3}}));
    foos.patch("web", &merge, &three).await.unwrap();
    let is_three = async || {
        let found = deployments.get("web").await.unwrap();
        found.spec.replicas == Some(3)
    };
    sample.until("three replicas", is_three).await.unwrap();
    foos.delete("web", &DeleteParams::default()).await.unwrap();
    let is_gone = async || {
        foos.get_opt("web").await.unwrap().is_none()
            && deployments.get_opt("web").await.unwrap().is_none()
    };
    sample.until("the end of the Foo", is_gone).await.unwrap();
}

/// A service account that is bound to the role of those who may read the metrics; its token.
async fn reader(client: &Client) -> String {
    let (new, name) = (PostParams::default(), "prometheus");
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    accounts.create(&new, &account).await.unwrap();
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "sample-controller-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    });
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&new, &binding).await.unwrap();
    token(client, "default", name).await.unwrap()
}

/// The metrics as this reader sees them: no request of the program was refused.
fn scraped(metrics: SocketAddr, token: &str) {
    let ask = |token: &str| {
        let asked = Command::new("curl")
            .args(["-sk", "-o", "-", "-w", "\n%{http_code}", "-H"])
            .arg(format!("Authorization: Bearer {token}"))
            .arg(format!("https://{metrics}/metrics"))
            .output()
            .unwrap();
        String::from_utf8(asked.stdout).unwrap()
    };
    assert!(ask("nobody's").ends_with("\n401"), "{}", ask("nobody's"));
    let text = ask(token);
    assert!(text.ends_with("\n200"), "{text}");
    let refused = text.lines().find(|line| {
        let is_of_client = line.starts_with("rest_client_requests_total{");
        is_of_client && (line.contains("code=\"403\"") || line.contains("code=\"401\""))
    });
    assert_eq!(refused, None);
    let success = "controller_runtime_reconcile_total{controller=\"foo\",result=\"success\"} ";
    assert!(text.contains(success), "{text}");
}

async fn story(host: &Host) {
    let client = host.client().unwrap();
    let deploy =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/sample-controller/deploy");
    let deploy = deploy.to_str().unwrap();
    let applied = kubectl(host.kubeconfig(), &["apply", "-k", deploy]);
    let reader = reader(&client).await;
    let kubeconfig = host.home().join("sample");
    let token = token(&client, NAME, NAME).await.unwrap();
    kubeconfig_as(host.kubeconfig(), &kubeconfig, &token, None).unwrap();
    let flags = [
        "--leader-elect",
        "--metrics-bind-address=127.0.0.1:0",
        "--webhook-bind-address=127.0.0.1:0",
    ];
    let environment = [("POD_NAMESPACE", NAME)];
    let binary = env!("CARGO_BIN_EXE_sample-controller");
    let mut sample = Process::operator(binary, &kubeconfig, &flags, &environment).unwrap();
    let webhooks = sample.address("webhooks").await.unwrap();
    lead_here(&client, webhooks).await;
    sample.ready().await.unwrap();
    reconciled(host, &mut sample).await;
    let metrics = sample.address("metrics").await.unwrap();
    scraped(metrics, &reader);

    // Applied again, the manifests leave the authority in place.
    kubectl(host.kubeconfig(), &["apply", "-k", deploy]);
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let kept = validating.get(NAME).await.unwrap().webhooks.unwrap();
    assert!(kept[0].client_config.ca_bundle.is_some());

    sample.signal("TERM").unwrap();
    let ended = sample.ended().await.unwrap();
    let log = sample.log();
    assert_eq!(ended.code(), Some(0), "{log}");
    let lease: Api<Lease> = Api::namespaced(client, NAME);
    let held = lease.get(NAME).await.unwrap().spec.unwrap().holder_identity;
    assert_eq!(held.unwrap_or_default(), "");
    let is_refusal = |line: &&str| {
        let words = ["forbidden", "Forbidden", "\"ERROR\""];
        words.iter().any(|word| line.contains(word)) || has_number(line, "403")
    };
    assert_eq!(log.lines().find(is_refusal), None, "{log}");
    let (kind, objects) = (host.kind(), applied.lines().count());
    println!("RESULT | deploy: its rights are enough | {kind} | ok, {objects} objects applied |");
}

#[test]
fn the_sample_runs_with_exactly_the_rights_of_its_manifests() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let embedded = Server::builder().rbac().keep_inert_objects();
        let servers = Servers::start_as(embedded, "deploy").await.unwrap();
        if servers.real().is_none() {
            // Said aloud by then: kubectl is built where the real server is.
            return;
        }
        for host in servers.hosts() {
            story(host).await;
        }
    });
}
