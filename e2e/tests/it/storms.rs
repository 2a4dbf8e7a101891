//! Replicas as processes in trouble, on both servers with their rights checked: no rights on leases at
//! the start, rights that are taken and given back, half a minute asleep.
//!
//! ```text
//! replica a, replica b (account `limited`) ──writes with their term──▶ ConfigMap beats ──watch──▶ in order?
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kinform_apiserver::Server;
use kinform_e2e::process::replica;
use kinform_e2e::servers::{Host, Servers};
use kube::api::{Api, DeleteParams, PostParams, WatchEvent, WatchParams};
use kube::config::Kubeconfig;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const TOKENS: &str = "limited-token,limited,limited-uid\n";

/// The terms of the writes that took effect, in their order.
type Terms = Arc<Mutex<Vec<u64>>>;

async fn follow(client: Client, from: String, terms: Terms) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let params = WatchParams::default()
        .fields("metadata.name=beats")
        .timeout(290);
    let mut from = from;
    loop {
        let Ok(watch) = maps.watch(&params, &from).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let mut watch = std::pin::pin!(watch);
        while let Some(Ok(WatchEvent::Modified(map))) = watch.next().await {
            from = map.resource_version().unwrap();
            terms
                .lock()
                .unwrap()
                .push(map.annotations()["term"].parse().unwrap());
        }
    }
}

/// Waits until writes of a term come that `is_wanted`; returns it.
async fn until(terms: &Terms, is_wanted: impl Fn(u64) -> bool) -> u64 {
    let began = Instant::now();
    let seen = terms.lock().unwrap().len();
    loop {
        let found = terms.lock().unwrap()[seen..]
            .iter()
            .copied()
            .find(|&term| is_wanted(term));
        if let Some(term) = found {
            return term;
        }
        assert!(began.elapsed() < PATIENCE, "no such write");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until no write came for a while.
async fn silence(terms: &Terms) -> Duration {
    let began = Instant::now();
    let mut last = (terms.lock().unwrap().len(), began);
    while last.1.elapsed() < Duration::from_millis(1_500) {
        assert!(began.elapsed() < PATIENCE, "it goes on writing");
        tokio::time::sleep(Duration::from_millis(20)).await;
        let count = terms.lock().unwrap().len();
        if count != last.0 {
            last = (count, Instant::now());
        }
    }
    last.1 - began
}

struct Replicas {
    running: Vec<(&'static str, Child)>,
    home: tempfile::TempDir,
    kubeconfig: PathBuf,
}

impl Replicas {
    fn new(host: &Host) -> Self {
        let home = tempfile::tempdir().unwrap();
        let kubeconfig = Kubeconfig::read_from(host.kubeconfig()).unwrap();
        let path = home.path().join("kubeconfig");
        let mut text = serde_json::to_value(&kubeconfig).unwrap();
        for user in text["users"].as_array_mut().unwrap() {
            user["user"] = json!({ "token": "limited-token" });
        }
        std::fs::write(&path, text.to_string()).unwrap();
        Self {
            running: Vec::new(),
            home,
            kubeconfig: path,
        }
    }

    fn said(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn start(&mut self, name: &'static str) {
        let log = File::create(self.said(name)).unwrap();
        let mut command = replica(env!("CARGO_BIN_EXE_replica"), name, &self.kubeconfig);
        let child = command.stderr(log).spawn();
        self.running.push((name, child.unwrap()));
    }

    fn signal(&self, signal: &str) {
        for (_, child) in &self.running {
            let id = child.id().to_string();
            let sent = Command::new("kill")
                .args([&format!("-{signal}"), &id])
                .status();
            assert!(sent.unwrap().success());
        }
    }

    /// Stops all in order; returns their exit codes.
    fn stop(&mut self) -> Vec<Option<i32>> {
        self.signal("TERM");
        let ended = self
            .running
            .drain(..)
            .map(|(_, mut child)| child.wait().unwrap().code());
        ended.collect()
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        for (_, child) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn role(name: &str, groups: &[&str], resources: &[&str]) -> ClusterRole {
    let rule = json!({ "apiGroups": groups, "resources": resources, "verbs": ["*"] });
    serde_json::from_value(json!({ "metadata": { "name": name }, "rules": [rule] })).unwrap()
}

fn binding(name: &str) -> ClusterRoleBinding {
    let role =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name });
    let user =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited" });
    let object = json!({ "metadata": { "name": name }, "roleRef": role, "subjects": [user] });
    serde_json::from_value(object).unwrap()
}

/// Lines of a log that tell what an account lacks.
fn advice(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines()
        .filter(|line| {
            line.contains(
                "grant this account get, create, update and watch on leases in namespace default",
            )
        })
        .count()
}

async fn story(host: &Host) {
    let client = host.client().unwrap();
    let none = PostParams::default();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map = serde_json::from_value(json!({ "metadata": { "name": "beats" } })).unwrap();
    let made = maps.create(&none, &map).await.unwrap();
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    roles
        .create(&none, &role("beats", &[""], &["configmaps"]))
        .await
        .unwrap();
    bindings.create(&none, &binding("beats")).await.unwrap();
    let leases = role("replica-leases", &["coordination.k8s.io"], &["leases"]);
    roles.create(&none, &leases).await.unwrap();
    let terms = Terms::default();
    let from = made.resource_version().unwrap();
    let following = tokio::spawn(follow(client.clone(), from, Arc::clone(&terms)));

    // Without rights on leases: a line with the remedy, no work, an end in order.
    let mut replicas = Replicas::new(host);
    replicas.start("poor");
    let began = Instant::now();
    while advice(&replicas.said("poor")) == 0 {
        assert!(began.elapsed() < PATIENCE, "no advice");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(replicas.stop(), [Some(0)]);
    assert_eq!(advice(&replicas.said("poor")), 1, "it is said once");
    assert!(terms.lock().unwrap().is_empty());

    replicas.start("a");
    replicas.start("b");
    bindings
        .create(&none, &binding("replica-leases"))
        .await
        .unwrap();
    let first = until(&terms, |_| true).await;
    // Rights that are taken end the term, and given back it goes on.
    bindings
        .delete("replica-leases", &DeleteParams::default())
        .await
        .unwrap();
    let deprived = silence(&terms).await;
    assert!(deprived < Duration::from_secs(5), "{deprived:?}");
    bindings
        .create(&none, &binding("replica-leases"))
        .await
        .unwrap();
    let second = until(&terms, |term| term > first).await;
    // All of them sleep for half a minute: the lease is long over when they wake.
    replicas.signal("STOP");
    tokio::time::sleep(Duration::from_secs(30)).await;
    replicas.signal("CONT");
    let third = until(&terms, |term| term > second).await;
    let kind = host.kind();
    assert_eq!(replicas.stop(), [Some(0), Some(0)]);
    following.abort();
    let all = terms.lock().unwrap().clone();
    assert!(all.is_sorted(), "a write of an older term");
    let lease: Value = client
        .request(
            http::Request::get("/apis/coordination.k8s.io/v1/namespaces/default/leases/replica")
                .body(Vec::new())
                .unwrap(),
        )
        .await
        .unwrap();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    assert_eq!(holder, "", "it is released");
    println!(
        "RESULT | operators: no rights, rights taken and given back, 30 s asleep | {kind} | ok, {} writes in order, silent {:.1} s after the rights were taken, terms {first} {second} {third} |",
        all.len(),
        deprived.as_secs_f64(),
    );
}

#[test]
fn rights_and_sleep_cost_a_term_and_no_order() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let builder = Server::builder().rbac().token_file(TOKENS).unwrap();
        let servers = Servers::start_as(builder, "operators in trouble")
            .await
            .unwrap();
        let stories = servers.hosts().iter().map(story);
        futures::future::join_all(stories).await;
    });
}
