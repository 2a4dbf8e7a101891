//! The nodes of the recording: two that join before a story, and leases that are renewed.
//!
//! ```text
//! join ─▶ node, status, lease          lease of a node that joined ─▶ a renewal every 3 s
//! ```

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube_client::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::play::request;

pub(super) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const PERIOD: Duration = Duration::from_secs(3);
const MERGE: &str = "application/merge-patch+json";

/// Renews the leases of nodes.
#[derive(Clone, Default)]
pub(super) struct Keeper(Arc<Mutex<BTreeSet<String>>>);

impl Keeper {
    pub(super) fn start(client: Client) -> Self {
        let keeper = Self::default();
        let names = Arc::clone(&keeper.0);
        tokio::spawn(async move {
            // Later than any renewal of the recording.
            let mut second = 4_102_444_800;
            loop {
                let all = names.lock().unwrap().clone();
                for name in all {
                    let time = Timestamp::from_second(second).unwrap();
                    let time = time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
                    let renewal = json!({"spec": {"renewTime": time}});
                    let path = format!("{LEASES}/{name}");
                    let (code, reply) = request(&client, "PATCH", &path, MERGE, &renewal).await;
                    assert!(matches!(code, 200 | 404), "{reply}");
                }
                second += 1;
                sleep(PERIOD).await;
            }
        });
        keeper
    }

    pub(super) fn add(&self, node: &str) {
        self.0.lock().unwrap().insert(node.to_owned());
    }

    pub(super) fn remove(&self, node: &str) {
        self.0.lock().unwrap().remove(node);
    }
}

/// Makes the two nodes of the recording.
pub(super) async fn join(client: &Client, keeper: &Keeper, now: &str) {
    for name in ["node-a", "node-b"] {
        let zone = format!("z-{}", &name[5..]);
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": zone}}});
        let json = "application/json";
        request(client, "POST", "/api/v1/nodes", json, &node).await;
        let room = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
        let status = json!({"status": {"capacity": room, "allocatable": room,
            "addresses": [{"type": "InternalIP", "address": "192.168.0.7"},
                {"type": "Hostname", "address": name}],
            "conditions": conditions(now)}});
        let path = format!("/api/v1/nodes/{name}/status");
        let (code, reply) = request(client, "PATCH", &path, MERGE, &status).await;
        assert_eq!(code, 200, "{reply}");
        let lease = json!({"metadata": {"name": name}, "spec": {"holderIdentity": name,
            "leaseDurationSeconds": 40}});
        let (code, reply) = request(client, "POST", LEASES, json, &lease).await;
        assert_eq!(code, 201, "{reply}");
        keeper.add(name);
    }
}

/// The conditions of the recorder's nodes.
fn conditions(now: &str) -> Value {
    let one = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason,
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let mut ready = one("Ready", "True", "KubeletReady");
    ready["message"] = "kubelet is posting ready status".into();
    let pressure = ["MemoryPressure", "DiskPressure", "PIDPressure"];
    let pressure = pressure.map(|kind| {
        let mut condition = one(kind, "False", "Kubelet");
        // They were lost between two stories.
        condition["message"] = "Kubelet stopped posting node status.".into();
        condition
    });
    std::iter::once(ready).chain(pressure).collect()
}
