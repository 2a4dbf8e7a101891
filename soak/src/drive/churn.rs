//! The load: creates, updates and deletes of config maps, and Deployments that are scaled.
//!
//! ```text
//! seed ─▶ 4 workers, names of their own ─▶ POST, PATCH, DELETE ─▶ server
//! ```
//!
//! Writes go around the network that is troubled. While the server is away they fail, and are not
//! made up for. The number of objects stays the same on average, so that memory may, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use http::{Method, Request};
use kube_client::{Client, Error};
use rand::distr::{Alphanumeric, SampleString as _};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::Failure;
use crate::operate::{WRITTEN, now};

/// BOUND: names of config maps; five of six exist on average.
const NAMES: usize = 4_900;
/// BOUND: Deployments.
const DEPLOYMENTS: usize = 100;
/// BOUND: replicas of each.
const REPLICAS: u32 = 2;
/// The namespaces.
const NAMESPACES: [&str; 4] = ["apple", "birch", "cedar", "date"];
/// Workers; each has every fourth name.
const WORKERS: usize = 4;
/// One write in as many scales a Deployment.
const SCALES: u32 = 50;
/// One write to an existing object in as many deletes it.
const DELETES: u32 = 6;
/// One config map in as many is a parent.
const PARENTS: usize = 4;
/// Groups of config maps.
const GROUPS: usize = 8;
/// Bytes of a config map's text.
const TEXT: std::ops::Range<usize> = 100..1_500;
/// BOUND: requests at a time while the server is filled.
const FILLING: usize = 16;

/// The load of a run.
#[derive(Debug)]
pub(super) struct Churn {
    workers: Vec<Worker>,
    counters: Arc<Counters>,
    running: JoinSet<()>,
    end: CancellationToken,
}

/// The writes of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Counts {
    /// Writes that the server made.
    pub(super) made: u64,
    /// Writes that failed: the server was away.
    pub(super) failed: u64,
}

#[derive(Debug, Default)]
struct Counters {
    made: AtomicU64,
    failed: AtomicU64,
}

/// Writes to the names of one worker.
#[derive(Clone)]
struct Worker {
    client: Client,
    random: SmallRng,
    number: usize,
    /// The names that exist, as far as it knows.
    exists: Vec<bool>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Churn {
    /// Fills the server.
    pub(super) async fn populate(client: Client, seed: u64) -> Result<Self, Failure> {
        let mut requests = Vec::new();
        for name in NAMESPACES {
            let body = json!({"metadata": {"name": name}});
            send(&client, Method::POST, "/api/v1/namespaces", &body).await?;
        }
        let mut random = SmallRng::seed_from_u64(seed);
        let mut workers: Vec<Worker> = (0..WORKERS)
            .map(|number| Worker {
                client: client.clone(),
                random: SmallRng::seed_from_u64(random.random()),
                number,
                exists: vec![false; NAMES / WORKERS],
            })
            .collect();
        for worker in &mut workers {
            for at in 0..worker.exists.len() {
                if !worker.random.random_ratio(1, DELETES) {
                    worker.exists[at] = true;
                    requests.push((maps(worker.number), worker.body(at)));
                }
            }
        }
        requests.extend((0..DEPLOYMENTS).map(deployment));
        let sent = futures::stream::iter(requests).map(|(path, body)| {
            let client = client.clone();
            async move { send(&client, Method::POST, &path, &body).await }
        });
        let sent: Vec<_> = sent.buffer_unordered(FILLING).collect().await;
        sent.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            workers,
            counters: Arc::default(),
            running: JoinSet::new(),
            end: CancellationToken::new(),
        })
    }

    /// Begins to write, `rate` times a second.
    pub(super) fn start(&mut self, rate: u32) {
        let between = Duration::from_secs(1) * WORKERS as u32 / rate.max(1);
        for mut worker in std::mem::take(&mut self.workers) {
            let (counters, end) = (Arc::clone(&self.counters), self.end.clone());
            let mut ticks = interval(between);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            self.running.spawn(async move {
                while !end.is_cancelled() {
                    ticks.tick().await;
                    let counter = match worker.write().await {
                        true => &counters.made,
                        false => &counters.failed,
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }

    /// Ends the load when the writes under way are done.
    pub(super) async fn stop(&mut self) {
        self.end.cancel();
        while self.running.join_next().await.is_some() {}
    }

    /// The writes up to now.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            made: self.counters.made.load(Ordering::Relaxed),
            failed: self.counters.failed.load(Ordering::Relaxed),
        }
    }
}

impl Worker {
    /// Makes a write; returns whether the server made it.
    async fn write(&mut self) -> bool {
        if self.random.random_ratio(1, SCALES) {
            return self.scale().await;
        }
        let at = self.random.random_range(0..self.exists.len());
        let (path, name) = (maps(self.number), self.name(at));
        let one = format!("{path}/{name}");
        let (method, path, body) = match self.exists[at] {
            false => (Method::POST, path, self.body(at)),
            true if self.random.random_ratio(1, DELETES) => (Method::DELETE, one, Value::Null),
            true => (Method::PATCH, one, self.body(at)),
        };
        let sent = send(&self.client, method.clone(), &path, &body).await;
        match sent {
            Ok(()) => self.exists[at] = method != Method::DELETE,
            // A write whose reply was lost may have been made.
            Err(Error::Api(status)) if status.code == 404 => self.exists[at] = false,
            Err(Error::Api(status)) if status.code == 409 => self.exists[at] = true,
            Err(_) => return false,
        }
        true
    }

    async fn scale(&mut self) -> bool {
        let step = DEPLOYMENTS / WORKERS;
        let number = self.random.random_range(0..step) * WORKERS + self.number;
        let replicas = self.random.random_range(0..=REPLICAS);
        let (path, body) = deployment(number);
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{path}/{name}");
        let body = json!({"metadata": {"annotations": written()}, "spec": {"replicas": replicas}});
        send(&self.client, Method::PATCH, &path, &body)
            .await
            .is_ok()
    }

    fn name(&self, at: usize) -> String {
        format!("map-{}", at * WORKERS + self.number)
    }

    /// A config map in full, with the time of the write.
    fn body(&mut self, at: usize) -> Value {
        let length = self.random.random_range(TEXT);
        let text = Alphanumeric.sample_string(&mut self.random, length);
        let number: u32 = self.random.random();
        let parent = if at.is_multiple_of(PARENTS) {
            "yes"
        } else {
            "no"
        };
        json!({
            "metadata": {
                "name": self.name(at),
                "labels": {
                    "soak.kinform/parent": parent,
                    "soak.kinform/group": format!("g{}", at / PARENTS % GROUPS),
                },
                "annotations": written(),
            },
            "data": {"number": number.to_string(), "text": text},
        })
    }
}

/// The path of a worker's config maps.
fn maps(worker: usize) -> String {
    let namespace = NAMESPACES[worker % NAMESPACES.len()];
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// The path of a Deployment's resource, and the Deployment.
fn deployment(number: usize) -> (String, Value) {
    let namespace = NAMESPACES[number % NAMESPACES.len()];
    let name = format!("scaled-{number}");
    let labels = json!({"app": name});
    let body = json!({
        "metadata": {"name": name, "annotations": written()},
        "spec": {
            "replicas": REPLICAS / 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "example/c"}]},
            },
        },
    });
    (
        format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        body,
    )
}

fn written() -> Value {
    json!({WRITTEN: now().to_string()})
}

async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Result<(), Error> {
    let media = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let bytes = match body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(bytes)
        .map_err(Error::HttpError)?;
    client.request::<Value>(request).await.map(drop)
}
