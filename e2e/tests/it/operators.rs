//! Replicas of an operator as processes on both servers: stopped, killed, paused, deprived of their
//! lease. Never two at work.
//!
//! ```text
//! two replicas ──writes with their term──▶ ConfigMap beats ──watch──▶ the order of terms
//! ```

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform_e2e::process::replica;
use kinform_e2e::servers::{Host, Servers};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(60);

/// A write, as the watch told it.
#[derive(Clone, Debug)]
struct Beat {
    name: String,
    term: u64,
    at: Instant,
}

#[derive(Clone, Default)]
struct Beats(Arc<Mutex<Vec<Beat>>>);

impl Beats {
    fn all(&self) -> Vec<Beat> {
        self.0.lock().unwrap().clone()
    }

    fn last(&self) -> Option<Beat> {
        self.0.lock().unwrap().last().cloned()
    }

    /// Waits for a write of another term than `term`; returns it.
    async fn after(&self, term: u64) -> Beat {
        let began = Instant::now();
        loop {
            if let Some(beat) = self.last().filter(|beat| beat.term != term) {
                return beat;
            }
            assert!(began.elapsed() < PATIENCE, "no new term: {:?}", self.last());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Follows the writes, each version of the object in its order.
async fn follow(client: Client, from: String, beats: Beats) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let params = WatchParams::default()
        .fields("metadata.name=beats")
        .timeout(290);
    let mut from = from;
    loop {
        let watch = maps.watch(&params, &from).await.unwrap();
        let mut watch = std::pin::pin!(watch);
        while let Some(event) = watch.next().await {
            let WatchEvent::Modified(map) = event.unwrap() else {
                continue;
            };
            from = map.resource_version().unwrap();
            let told = |key: &str| map.annotations().get(key).cloned().unwrap_or_default();
            beats.0.lock().unwrap().push(Beat {
                name: told("name"),
                term: told("term").parse().unwrap(),
                at: Instant::now(),
            });
        }
    }
}

/// Two replicas, by name.
struct Replicas<'a> {
    host: &'a Host,
    running: Vec<(String, Child)>,
}

impl Replicas<'_> {
    fn start(&mut self, name: &str) {
        let binary = env!("CARGO_BIN_EXE_replica");
        let mut command = replica(binary, name, self.host.kubeconfig());
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        self.running.push((name.to_owned(), child));
    }

    fn signal(&self, name: &str, signal: &str) {
        let (_, child) = self
            .running
            .iter()
            .find(|(known, _)| known == name)
            .unwrap();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the end of a replica; returns its exit code, or `None` after a signal.
    fn ended(&mut self, name: &str) -> Option<i32> {
        let at = self
            .running
            .iter()
            .position(|(known, _)| known == name)
            .unwrap();
        let (_, mut child) = self.running.swap_remove(at);
        child.wait().unwrap().code()
    }
}

impl Drop for Replicas<'_> {
    fn drop(&mut self) {
        for (_, child) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

async fn story(host: &Host) {
    let client = host.client().unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let made = maps
        .create(
            &PostParams::default(),
            &serde_json::from_value(json!({"metadata": {"name": "beats"}})).unwrap(),
        )
        .await
        .unwrap();
    let beats = Beats::default();
    let version = made.resource_version().unwrap();
    let following = tokio::spawn(follow(client.clone(), version, beats.clone()));
    let mut replicas = Replicas {
        host,
        running: Vec::new(),
    };
    replicas.start("a");
    replicas.start("b");
    let leases: Api<Lease> = Api::namespaced(client, "default");
    let mut leader = beats.after(0).await;
    let mut told = Vec::new();

    for trouble in ["TERM", "KILL", "STOP", "deleted", "edited"] {
        // The other one is warm and stands by.
        tokio::time::sleep(Duration::from_secs(1)).await;
        match trouble {
            "deleted" => {
                leases
                    .delete("replica", &DeleteParams::default())
                    .await
                    .unwrap();
            }
            "edited" => {
                let intruder = json!({"spec": {"holderIdentity": "intruder"}});
                leases
                    .patch("replica", &PatchParams::default(), &Patch::Merge(&intruder))
                    .await
                    .unwrap();
            }
            signal => replicas.signal(&leader.name, signal),
        }
        // From here on the process, or the watch, can tell it.
        let began = Instant::now();
        let next = beats.after(leader.term).await;
        told.push(format!(
            "{trouble} {:.2} s",
            (next.at - began).as_secs_f64()
        ));
        match trouble {
            "TERM" => {
                assert_eq!(replicas.ended(&leader.name), Some(0));
                replicas.start(&leader.name);
            }
            "KILL" => {
                assert_eq!(replicas.ended(&leader.name), None);
                replicas.start(&leader.name);
            }
            "STOP" => {
                replicas.signal(&leader.name, "CONT");
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            _ => {
                let last = beats
                    .all()
                    .into_iter()
                    .rfind(|beat| beat.term == leader.term);
                let overlap = last.unwrap().at.saturating_duration_since(began);
                assert!(overlap < Duration::from_secs(1), "{trouble}: {overlap:?}");
            }
        }
        leader = beats.last().unwrap();
    }
    for name in ["a", "b"] {
        replicas.signal(name, "TERM");
        assert_eq!(replicas.ended(name), Some(0));
    }
    following.abort();
    let all = beats.all();
    let late = all.windows(2).find(|pair| pair[1].term < pair[0].term);
    assert!(late.is_none(), "a write of an older term: {late:?}");
    let kind = host.kind();
    println!(
        "RESULT | operators: takeovers ({}) | {kind} | ok, {} writes in order |",
        told.join(", "),
        all.len()
    );
}

#[test]
fn two_replicas_are_never_at_work_together() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let servers = Servers::start("operators").await.unwrap();
        for host in servers.hosts() {
            story(host).await;
        }
    });
}
