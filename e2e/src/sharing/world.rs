//! The objects that replicas work on: made, changed and deleted all the time, and what is answered.
//!
//! ```text
//! dice ─▶ make, change, delete ─▶ server      Journal: the last write to each key ─▶ answered, and when
//! ```
//!
//! One change of a key at a time: the next one comes after the answer. Names are never used again, so
//! a call for an object that is gone is right if, and only if, this deleted it before.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kinform_testkit::checks::stage::StageError;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use sample_controller::Foo;
use serde_json::json;
use tokio::sync::watch;

use super::journal::Journal;
use super::{Work, now_ms};
use crate::dice::Dice;

/// Namespaces, whose hashes lie in all parts.
const NAMESPACES: u64 = 48;
/// Objects at a time.
const OBJECTS: usize = 96;
/// The pause between two steps.
const STEP: Duration = Duration::from_millis(100);
/// One step in this number replaces an object; the others change one.
const REPLACES: u64 = 8;
/// The numbers of replicas that a Foo may have.
const REPLICAS: u64 = 11;

/// The objects.
pub(crate) struct World {
    work: Work,
    client: Client,
    journal: Journal,
    dice: Dice,
    count: u64,
    /// The last wish of each object.
    wishes: BTreeMap<String, u64>,
    /// Those that are not answered, and since when.
    pending: BTreeMap<String, Instant>,
    /// The oldest of them.
    oldest: watch::Sender<Option<Instant>>,
    /// Deleted objects, and when that was asked.
    deleted: BTreeMap<String, u128>,
    /// The times that answers took.
    answers: Vec<(Duration, String)>,
}

/// The results of a world.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) answers: usize,
    pub(crate) slowest: Option<(Duration, String)>,
    /// With the wish, and for how long.
    pub(crate) unanswered: BTreeMap<String, (u64, Duration)>,
    pub(crate) deleted: BTreeMap<String, u128>,
}

impl World {
    /// Makes all objects.
    pub(crate) async fn make(
        client: Client,
        journal: Journal,
        work: Work,
        seed: u64,
    ) -> Result<Self, StageError> {
        let mut world = Self {
            work,
            client,
            journal,
            dice: Dice::new(seed ^ 0x77),
            count: 0,
            wishes: BTreeMap::new(),
            pending: BTreeMap::new(),
            oldest: watch::Sender::new(None),
            deleted: BTreeMap::new(),
            answers: Vec::new(),
        };
        if work == Work::Sample {
            sample_controller::install_definition(world.client.clone()).await?;
        }
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        for number in 0..NAMESPACES {
            let object = json!({ "metadata": { "name": namespace(number) } });
            let object = serde_json::from_value(object)?;
            namespaces.create(&PostParams::default(), &object).await?;
        }
        for _ in 0..OBJECTS {
            world.create().await?;
        }
        Ok(world)
    }

    /// Changes objects until `until` holds; then waits for the answers, `patience` at most.
    pub(crate) async fn live(
        mut self,
        mut until: tokio::sync::oneshot::Receiver<()>,
        patience: Duration,
    ) -> Result<Told, StageError> {
        while until.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Empty) {
            tokio::time::sleep(STEP).await;
            self.look();
            match self.dice.one_in(REPLACES) {
                true => {
                    self.delete().await?;
                    self.create().await?;
                }
                false => self.change().await?,
            }
        }
        let began = Instant::now();
        while !self.pending.is_empty() && began.elapsed() < patience {
            tokio::time::sleep(STEP).await;
            self.look();
        }
        let slowest = self.answers.iter().max().cloned();
        let wishes = self.wishes;
        let late = |(key, since): (String, Instant)| {
            let wish = wishes.get(&key).copied().unwrap_or_default();
            (key, (wish, since.elapsed()))
        };
        Ok(Told {
            answers: self.answers.len(),
            slowest,
            unanswered: self.pending.into_iter().map(late).collect(),
            deleted: self.deleted,
        })
    }

    /// Waits until every object is answered.
    pub(crate) async fn settled(&mut self, patience: Duration) -> Result<(), StageError> {
        let began = Instant::now();
        while !self.pending.is_empty() {
            if began.elapsed() > patience {
                return Err(format!("never worked on: {:?}", self.pending.keys()).into());
            }
            tokio::time::sleep(STEP).await;
            self.look();
        }
        // Of the start of replicas.
        self.answers.clear();
        Ok(())
    }

    /// Looks which changes are answered.
    fn look(&mut self) {
        let inner = self.journal.lock();
        let mut answered = Vec::new();
        for (key, since) in &self.pending {
            let wish = self.wishes.get(key).copied().unwrap_or_default();
            let last = inner.last.get(key);
            if let Some(last) = last.filter(|last| last.seen == wish.to_string()) {
                let took = last.at.saturating_duration_since(*since);
                answered.push((took, key.clone()));
            }
        }
        drop(inner);
        for (_, key) in &answered {
            self.pending.remove(key);
        }
        self.answers.extend(answered);
        let oldest = self.pending.values().min().copied();
        self.oldest.send_replace(oldest);
    }

    /// Since when the oldest change that is not answered waits, as of the last look.
    pub(crate) fn oldest(&self) -> watch::Receiver<Option<Instant>> {
        self.oldest.subscribe()
    }

    /// An object without a pending change.
    fn idle(&mut self) -> Option<String> {
        let idle = self
            .wishes
            .keys()
            .filter(|key| !self.pending.contains_key(*key));
        let idle: Vec<&String> = idle.collect();
        let at = self.dice.below(idle.len() as u64) as usize;
        idle.get(at).map(|key| (*key).clone())
    }

    fn next_wish(&self, before: u64) -> u64 {
        match self.work {
            Work::Sharer | Work::Careless => before + 1,
            Work::Sample => (before + 1) % REPLICAS,
        }
    }

    async fn create(&mut self) -> Result<(), StageError> {
        self.count += 1;
        let namespace = namespace(self.count % NAMESPACES);
        let name = format!("o{}", self.count);
        let key = format!("{namespace}/{name}");
        self.wishes.insert(key.clone(), 1);
        self.pending.insert(key, Instant::now());
        let params = PostParams::default();
        match self.work {
            Work::Sharer | Work::Careless => {
                let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
                let object = json!({
                    "metadata": { "name": name, "labels": { "app": "sharing" } },
                    "data": { "wish": "1" },
                });
                maps.create(&params, &serde_json::from_value(object)?)
                    .await?;
            }
            Work::Sample => {
                let foos: Api<Foo> = Api::namespaced(self.client.clone(), &namespace);
                let object = json!({
                    "apiVersion": "samplecontroller.k8s.io/v1alpha1",
                    "kind": "Foo",
                    "metadata": { "name": name },
                    "spec": { "deploymentName": name, "replicas": 1 },
                });
                foos.create(&params, &serde_json::from_value(object)?)
                    .await?;
            }
        }
        Ok(())
    }

    async fn change(&mut self) -> Result<(), StageError> {
        let Some(key) = self.idle() else {
            return Ok(());
        };
        let before = self.wishes.get(&key).copied().unwrap_or_default();
        let wish = self.next_wish(before);
        self.wishes.insert(key.clone(), wish);
        self.pending.insert(key.clone(), Instant::now());
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let params = PatchParams::default();
        match self.work {
            Work::Sharer | Work::Careless => {
                let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
                let patch = Patch::Merge(json!({ "data": { "wish": wish.to_string() } }));
                maps.patch(name, &params, &patch).await?;
            }
            Work::Sample => {
                let foos: Api<Foo> = Api::namespaced(self.client.clone(), namespace);
                let patch = Patch::Merge(json!({ "spec": { "replicas": wish } }));
                foos.patch(name, &params, &patch).await?;
            }
        }
        Ok(())
    }

    async fn delete(&mut self) -> Result<(), StageError> {
        let Some(key) = self.idle() else {
            return Ok(());
        };
        self.wishes.remove(&key);
        self.deleted.insert(key.clone(), now_ms());
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let params = DeleteParams::default();
        match self.work {
            Work::Sharer | Work::Careless => {
                let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
                drop(maps.delete(name, &params).await?);
            }
            Work::Sample => {
                let foos: Api<Foo> = Api::namespaced(self.client.clone(), namespace);
                drop(foos.delete(name, &params).await?);
            }
        }
        Ok(())
    }
}

/// A name that begins with its number: hashes of names that differ in their ends are close.
fn namespace(number: u64) -> String {
    format!("{number}-team")
}
