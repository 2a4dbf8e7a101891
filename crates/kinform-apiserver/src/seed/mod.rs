//! A generated cluster: namespaces, nodes, deployments and their pods, the same for the same seed.
//!
//! ```text
//! Seed { seed, nodes, deployments, pods } ──▶ store, an object a revision
//! ```
//!
//! Pods look like those of a real cluster: about 8 KB each, two fifths of it `managedFields`, with
//! owners, nodes, addresses and states. They are cut from a template instead of being encoded, so
//! that 100,000 of them take a second. Existing objects are kept.

mod dice;
mod pod;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::resource::{Found, Registry, ResourceInfo};
use crate::storage::{Draft, Expect, Store};
use dice::Dice;

/// Size of a generated cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Seed of the random numbers: two clusters with different seeds differ.
    pub seed: u64,
    /// Nodes.
    pub nodes: usize,
    /// Deployments, spread over ten namespaces.
    pub deployments: usize,
    /// Pods, spread over the deployments and nodes.
    pub pods: usize,
}

const NAMESPACES: [&str; 10] = [
    "bank", "blog", "data", "game", "home", "mail", "news", "shop", "tele", "wiki",
];
const APPS: [&str; 12] = [
    "api", "auth", "cache", "cart", "feed", "ledger", "lobby", "match", "queue", "search", "store",
    "web",
];
const TIERS: [&str; 3] = ["web", "cache", "db"];
const ZONES: usize = 3;

/// The facts about a deployment that its pods need.
pub(crate) struct App {
    pub(crate) name: String,
    pub(crate) namespace: &'static str,
    pub(crate) hash: String,
    pub(crate) owner: String,
    pub(crate) tier: &'static str,
}

/// Makes the cluster. Objects that are there already stay as they are.
pub(crate) fn plant(store: &Store, registry: &Registry, seed: Seed) {
    let mut dice = Dice::new(seed.seed);
    let planter = Planter { store, registry };
    planter.plant(
        "",
        "v1",
        "namespaces",
        NAMESPACES.iter().map(|name| namespace(name, &mut dice)),
    );
    let mut dice = Dice::new(seed.seed ^ 1);
    let nodes = (0..seed.nodes).map(|number| node(number, &mut dice));
    planter.plant("", "v1", "nodes", nodes);
    let mut dice = Dice::new(seed.seed ^ 2);
    let apps: Vec<App> = (0..seed.deployments.max(1))
        .map(|n| app(n, &mut dice))
        .collect();
    let replicas = |number: usize| (seed.pods + seed.deployments - 1 - number) / seed.deployments;
    let deployments = (0..seed.deployments).map(|n| deployment(&apps[n], replicas(n), &mut dice));
    planter.plant("apps", "v1", "deployments", deployments);
    if let Some(pods) = planter.resource("", "v1", "pods") {
        plant_pods(store, &pods, &apps, seed);
    }
}

/// BOUND: pods that a thread makes before they are stored.
const BATCH: usize = 512;

/// Makes pods on all cores and stores them in the order of their numbers.
fn plant_pods(store: &Store, pods: &ResourceInfo, apps: &[App], seed: Seed) {
    let Some(template) = pod::Template::new(&pods.fields) else {
        return;
    };
    let make = |number: usize| {
        let app = &apps[number % apps.len()];
        let at = pod::Place {
            number,
            node: number % seed.nodes.max(1),
        };
        // A dice for each pod makes the pod independent of the thread.
        let mut dice = Dice::new(seed.seed ^ (number as u64 + 3) << 16);
        template.fill(app, at, &mut dice)
    };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(8));
    for from in (0..seed.pods).step_by(BATCH * threads) {
        let starts = (from..seed.pods).step_by(BATCH).take(threads);
        let made: Vec<Vec<Draft>> = std::thread::scope(|scope| {
            let batches: Vec<_> = starts
                .map(|start| {
                    let numbers = start..seed.pods.min(start + BATCH);
                    scope.spawn(|| numbers.map(make).collect())
                })
                .collect();
            let join = |batch: std::thread::ScopedJoinHandle<'_, Vec<Draft>>| {
                batch
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            batches.into_iter().map(join).collect()
        });
        for draft in made.into_iter().flatten() {
            // An existing object is kept.
            let _ = store.put(pods.shelf, draft, Expect::Absent);
        }
    }
}

struct Planter<'a> {
    store: &'a Store,
    registry: &'a Registry,
}

impl Planter<'_> {
    fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceInfo>> {
        match self.registry.find(group, version, plural) {
            Found::Resource(resource) => Some(resource),
            Found::UnknownResource | Found::UnknownGroupVersion => None,
        }
    }

    fn plant(
        &self,
        group: &str,
        version: &str,
        plural: &str,
        objects: impl Iterator<Item = Value>,
    ) {
        let Some(resource) = self.resource(group, version, plural) else {
            return;
        };
        for object in objects {
            if let Some(draft) = Draft::new(&resource.fields, object) {
                let _ = self.store.put(resource.shelf, draft, Expect::Absent);
            }
        }
    }
}

fn app(number: usize, dice: &mut Dice) -> App {
    App {
        name: format!("{}-{number:03}", APPS[number % APPS.len()]),
        namespace: NAMESPACES[number % NAMESPACES.len()],
        hash: dice.hex(10),
        owner: dice.uid(),
        tier: TIERS[dice.below(TIERS.len())],
    }
}

fn namespace(name: &str, dice: &mut Dice) -> Value {
    json!({
        "metadata": {
            "name": name,
            "uid": dice.uid(),
            "creationTimestamp": dice.moment(),
            "labels": {"kubernetes.io/metadata.name": name},
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    })
}

fn node(number: usize, dice: &mut Dice) -> Value {
    let (name, started) = (format!("node-{number}"), dice.moment());
    json!({
        "metadata": {
            "name": name,
            "uid": dice.uid(),
            "creationTimestamp": started,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": format!("z{}", number % ZONES),
            },
            "managedFields": [{
                "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": started,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:status": {"f:capacity": {".": {}, "f:cpu": {}, "f:memory": {}}}},
            }],
        },
        "spec": {"podCIDR": pod::range(number), "podCIDRs": [pod::range(number)]},
        "status": {
            "capacity": {"cpu": "64", "memory": "256Gi", "pods": "1000"},
            "allocatable": {"cpu": "63500m", "memory": "252Gi", "pods": "1000"},
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "kubelet is posting ready status",
                "lastHeartbeatTime": started, "lastTransitionTime": started,
            }],
            "addresses": [
                {"type": "InternalIP", "address": pod::host(number)},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": dice.hex(32), "systemUUID": dice.uid(), "bootID": dice.uid(),
                "kernelVersion": "6.12.0", "osImage": "Linux", "kubeletVersion": "v1.37.1",
                "containerRuntimeVersion": "containerd://2.1.0", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    })
}

fn deployment(app: &App, replicas: usize, dice: &mut Dice) -> Value {
    let labels = json!({"app": app.name, "tier": app.tier});
    let started = dice.moment();
    json!({
        "metadata": {
            "name": app.name, "namespace": app.namespace, "uid": dice.uid(), "generation": 1,
            "creationTimestamp": started, "labels": labels,
            "annotations": {"deployment.kubernetes.io/revision": "1"},
            "managedFields": [{
                "manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1",
                "time": started, "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {}}},
            }],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app.name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{
                        "name": "main",
                        "image": format!("registry.example.com/{}:1.0.0", app.name),
                        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                        "imagePullPolicy": "IfNotPresent",
                    }],
                    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                    "dnsPolicy": "ClusterFirst", "securityContext": {},
                    "schedulerName": "default-scheduler",
                },
            },
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
            },
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        },
        "status": {
            "observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::HistoryLimits;

    fn planted(seed: u64) -> Vec<(String, Value)> {
        let store = Store::new(HistoryLimits::default());
        let registry = Registry::built_in(&store);
        plant(
            &store,
            &registry,
            Seed {
                seed,
                nodes: 5,
                deployments: 7,
                pods: 100,
            },
        );
        let view = store.view(store.shelf("pods"));
        view.snapshot
            .iter()
            .map(|pod| (pod.key().to_owned(), pod.value()))
            .collect()
    }

    #[test]
    fn pods_cut_from_the_template_are_found_by_their_fields_and_labels() {
        let store = Store::new(HistoryLimits::default());
        let registry = Registry::built_in(&store);
        plant(
            &store,
            &registry,
            Seed {
                seed: 1,
                nodes: 12,
                deployments: 7,
                pods: 1100,
            },
        );
        let Found::Resource(pods) = registry.find("", "v1", "pods") else {
            panic!("no pods");
        };
        for pod in store.view(pods.shelf).snapshot.iter() {
            let value = pod.value();
            let version = pod.revision().to_string();
            assert_eq!(value["metadata"]["resourceVersion"], version.as_str());
            assert_eq!(value["metadata"]["uid"], pod.uid());
            assert_eq!(
                value["metadata"]["labels"]["app"].as_str(),
                pod.label("app")
            );
            let (metadata, _) = pod.metadata();
            assert_eq!(
                serde_json::from_slice::<Value>(metadata).unwrap(),
                value["metadata"]
            );
            for (position, field) in pods.fields.iter().enumerate() {
                if field.name() == "status.podIPs" {
                    // No object has a value for it.
                    assert_eq!(pod.field(position), "");
                    continue;
                }
                let path = format!("/{}", field.name().replace('.', "/"));
                let want = value.pointer(&path).map(|value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
                assert_eq!(pod.field(position), want.unwrap_or_default(), "{path}");
            }
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_pods_as_real_ones_are() {
        let (pods, again, other) = (planted(7), planted(7), planted(8));
        assert_eq!(pods.len(), 100);
        assert_eq!(pods, again);
        assert_ne!(pods, other);
        let (mut all, mut managed) = (0, 0);
        for (key, pod) in &pods {
            let metadata = &pod["metadata"];
            let (namespace, name) = key.split_once('/').unwrap();
            assert_eq!(
                (&metadata["namespace"], &metadata["name"]),
                (&json!(namespace), &json!(name))
            );
            assert!(!pod.to_string().contains('@'), "{pod}");
            let statuses = pod["status"]["containerStatuses"].as_array().map(Vec::len);
            assert_eq!(statuses, Some(2), "as many as containers: {pod}");
            all += pod.to_string().len();
            managed += metadata["managedFields"].to_string().len();
        }
        assert!(
            (7_000..9_000).contains(&(all / pods.len())),
            "{}",
            all / pods.len()
        );
        assert!(
            (35..45).contains(&(managed * 100 / all)),
            "{}",
            managed * 100 / all
        );
    }
}
