//! An API server that is killed and started again at its port, under two replicas: the embedded one
//! forgets everything, the lease too; the real one keeps what etcd has.
//!
//! ```text
//! replica a, replica b ──writes with their term──▶ server, killed again and again ──watch──▶ blocks of one term each
//! ```

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::source::{ClientOptions, client_for};
use kinform_e2e::beats::{Beats, late};
use kinform_e2e::process::{PATIENCE, replica};
use kinform_e2e::servers::Host;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

/// The lives of a server after its first.
const LIVES: usize = 3;
const OBJECT: &str = "beats";

/// A process that is killed when it is dropped.
struct Killed(Child);

impl Killed {
    fn start(command: &mut Command) -> Self {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(quiet.spawn().unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The embedded server as a process, at one port with one token in each of its lives.
struct Embedded {
    address: SocketAddr,
    home: tempfile::TempDir,
    process: Option<Killed>,
}

impl Embedded {
    fn start() -> Self {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let home = tempfile::tempdir().unwrap();
        let tokens = "admin-token,admin,admin-uid,\"system:masters\"\n";
        std::fs::write(home.path().join("tokens"), tokens).unwrap();
        let server = format!("http://{address}");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": server}}],
            "users": [{"name": "it", "user": {"token": "admin-token"}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        std::fs::write(home.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        let mut server = Self {
            address,
            home,
            process: None,
        };
        server.live();
        server
    }

    /// Begins a life, after the end of the one before it.
    fn live(&mut self) {
        self.process = None;
        let mut command = Command::new(env!("CARGO_BIN_EXE_embedded"));
        command
            .args(["--listen", &self.address.to_string(), "--token-file"])
            .arg(self.home.path().join("tokens"));
        self.process = Some(Killed::start(&mut command));
    }

    fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let unlimited = ClientOptions::default().with_rate_limit(0, 0);
        client_for(config.unwrap(), &unlimited).unwrap()
    }
}

/// Creates the object as soon as the server answers; follows it from there.
async fn observe(client: Client, beats: &Beats) -> JoinHandle<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map = serde_json::from_value(json!({ "metadata": { "name": OBJECT } })).unwrap();
    let began = Instant::now();
    let made = loop {
        match maps.create(&PostParams::default(), &map).await {
            Ok(made) => break made,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let from = made.resource_version().unwrap();
    tokio::spawn(beats.clone().follow(client, OBJECT.to_owned(), from))
}

fn replicas(kubeconfig: &std::path::Path) -> Vec<Killed> {
    let binary = env!("CARGO_BIN_EXE_replica");
    ["a", "b"]
        .map(|name| Killed::start(&mut replica(binary, name, kubeconfig)))
        .into()
}

/// Checks the order, and prints the result.
fn report(kind: &str, lives: usize, silent: &[Duration], beats: &Beats) {
    let all = beats.all();
    let (terms, late) = late(&all);
    assert!(
        late.is_empty(),
        "{kind}: writes of a term that was over: {late:?}"
    );
    let silent: Vec<_> = silent
        .iter()
        .map(|silent| format!("{:.1} s", silent.as_secs_f64()))
        .collect();
    println!(
        "RESULT | operators: {lives} restarts of the API server | {kind} | ok, {} writes in order, {terms} terms, the next write after {} |",
        all.len(),
        silent.join(", ")
    );
}

async fn forgetful_server() {
    let mut server = Embedded::start();
    let beats = Beats::default();
    let mut following = observe(server.client().await, &beats).await;
    let replicas = replicas(&server.kubeconfig());
    beats.until(0, |_| true).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..LIVES {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.live();
        let began = Instant::now();
        following.abort();
        following = observe(server.client().await, &beats).await;
        let seen = beats.all().len();
        // The lease of the life before is gone: its term ends, and a term of another lease begins.
        let old = beats.all().pop().unwrap().term.0;
        beats.until(seen, |beat| beat.term.0 != old).await.unwrap();
        silent.push(began.elapsed());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(replicas);
    following.abort();
    report("embedded", LIVES, &silent, &beats);
}

async fn server_above_etcd(host: &Host) {
    let beats = Beats::default();
    let following = observe(host.client().unwrap(), &beats).await;
    let replicas = replicas(host.kubeconfig());
    beats.until(0, |_| true).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..LIVES {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        host.restart().await.unwrap();
        let seen = beats.all().len();
        beats.until(seen, |_| true).await.unwrap();
        silent.push(began.elapsed());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(replicas);
    following.abort();
    report("real", LIVES, &silent, &beats);
}

#[test]
fn writes_of_terms_do_not_interleave_though_the_api_server_is_killed_again_and_again() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let real = async {
            let missing = kinform_e2e::missing();
            if missing.is_empty() {
                server_above_etcd(&Host::real().await.unwrap()).await;
            } else {
                let missing = missing.join(", ");
                println!("RESULT | operators: restarts of the API server | real | skipped: no {missing} |");
            }
        };
        futures::future::join(forgetful_server(), real).await;
    });
}
