//! An operator that loses the right to list what a controller needs: readiness says so within seconds,
//! and recovers when the right is back.
//!
//! ```text
//! sample-controller ─proxy─▶ server with RBAC ◀─role without foos, with foos─ administrator
//!   /readyz: 200 ─▶ right taken, watch cut ─▶ 500 within 5 s ─▶ right given back ─▶ 200
//! ```

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use kinform::source::{ClientOptions, client_for};
use kinform_apiserver::Server;
use kinform_e2e::process::{PATIENCE, Process, get, kubeconfig_as, token};
use kinform_e2e::servers::{Host, Servers};
use kinform_testkit::Proxy;
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use sample_controller::Foo;
use serde_json::json;

const NAME: &str = "sample";
/// The time in which readiness has to notice.
const LIMIT: Duration = Duration::from_secs(5);

fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}

/// A role with these rules instead of those that it had.
async fn give(client: &Client, rules: &[PolicyRule]) {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let mut role = roles.get(NAME).await.unwrap();
    role.rules = Some(rules.to_vec());
    roles
        .replace(NAME, &PostParams::default(), &role)
        .await
        .unwrap();
}

/// A service account with a role that has no rules yet; its token.
async fn account(client: &Client) -> String {
    let new = PostParams::default();
    let named = json!({"metadata": {"name": NAME}});
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let account = serde_json::from_value(named.clone()).unwrap();
    accounts.create(&new, &account).await.unwrap();
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let role = serde_json::from_value(named).unwrap();
    roles.create(&new, &role).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = json!({
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": "default"}],
    });
    let binding = serde_json::from_value(binding).unwrap();
    bindings.create(&new, &binding).await.unwrap();
    token(client, "default", NAME).await.unwrap()
}

async fn client_of(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    client_for(config.unwrap(), &ClientOptions::default()).unwrap()
}

/// Waits until the account may list Foos, or may not.
async fn until_allowed(foos: &Api<Foo>, is_allowed: bool) {
    let began = Instant::now();
    while foos.list(&ListParams::default()).await.is_ok() != is_allowed {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The time until `/readyz` has this code.
async fn until_code(probes: SocketAddr, code: u16) -> Duration {
    let began = Instant::now();
    while get(probes, "/readyz").await.unwrap().0 != code {
        assert!(
            began.elapsed() < PATIENCE,
            "{:?}",
            get(probes, "/readyz?verbose").await
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

async fn story(host: &Host) {
    let client = host.client().unwrap();
    let token = account(&client).await;
    let foos = rule(
        "samplecontroller.k8s.io",
        "foos",
        &["get", "list", "watch", "patch"],
    );
    let others = [
        rule("apps", "deployments", &["get", "list", "watch"]),
        rule(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            &["get", "create"],
        ),
    ];
    let all = [&others[..], std::slice::from_ref(&foos)].concat();
    give(&client, &all).await;
    let url = host.config().cluster_url;
    let address = format!("127.0.0.1:{}", url.port_u16().unwrap())
        .parse()
        .unwrap();
    let proxy = Proxy::start(address).await.unwrap();
    let kubeconfig = host.home().join(NAME);
    kubeconfig_as(
        host.kubeconfig(),
        &kubeconfig,
        &token,
        Some(proxy.address()),
    )
    .unwrap();
    let binary = env!("CARGO_BIN_EXE_sample-controller");
    let flags = ["--enable-webhooks=false"];
    let mut sample = Process::operator(binary, &kubeconfig, &flags, &[]).unwrap();
    sample.ready().await.unwrap();
    let probes = sample.address("probes").await.unwrap();

    let as_account: Api<Foo> = Api::namespaced(client_of(&kubeconfig).await, "default");
    until_allowed(&as_account, true).await;
    give(&client, &others).await;
    until_allowed(&as_account, false).await;
    assert_eq!(
        get(probes, "/readyz").await.unwrap().0,
        200,
        "its watch goes on"
    );
    proxy.cut();
    let red = until_code(probes, 500).await;
    let (_, told) = get(probes, "/readyz?verbose").await.unwrap();
    assert!(red < LIMIT, "after {red:?}: {told}");
    let named = [
        "[-]informers failed: foos.samplecontroller.k8s.io: ",
        "forbidden",
    ];
    assert!(named.iter().all(|word| told.contains(word)), "{told}");
    assert_eq!(
        get(probes, "/healthz").await.unwrap().0,
        200,
        "a restart would not help"
    );
    give(&client, &all).await;
    let green = until_code(probes, 200).await;
    sample.signal("TERM").unwrap();
    assert_eq!(sample.ended().await.unwrap().code(), Some(0));
    let (kind, red, green) = (host.kind(), red.as_secs_f64(), green.as_secs_f64());
    println!(
        "RESULT | rights taken and given back | {kind} | ok, unready after {red:.1} s, ready after {green:.1} s |"
    );
}

#[test]
fn readiness_follows_the_right_to_list_what_a_controller_needs() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let servers = Servers::start_as(Server::builder().rbac(), "rights")
            .await
            .unwrap();
        if servers.real().is_none() {
            // Said aloud by then: kubectl, which writes kubeconfigs, is built where the real server is.
            return;
        }
        for host in servers.hosts() {
            story(host).await;
        }
    });
}
