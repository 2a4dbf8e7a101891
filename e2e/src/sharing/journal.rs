//! Everything that the server stored of leases and of replicas' writes, in the order of its versions.
//!
//! ```text
//! watch of leases ─┬─▶ Journal: entries (version, time, fact) ─▶ judge
//! watch of objects ┘          └ the present: members, shards, who wrote each key last ─▶ story, world
//! ```
//!
//! Versions of all resources of a server are of one counter, in the embedded one as in etcd. A watch that
//! ends is opened again where it ended; one that cannot be resumed is a hole, and the run fails. A marker
//! of each resource, written last, tells that all entries before it are here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform_testkit::checks::stage::StageError;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{LABEL, SHARDS, Term, Work};

/// The pause before a watch is opened again.
const PAUSE: Duration = Duration::from_millis(10);
/// BOUND: watches one after the other that told nothing.
const MOST_FAILURES: usize = 500;
/// BOUND: the time for the markers to arrive.
const PATIENCE: Duration = Duration::from_secs(30);
/// The name of the markers.
const MARK: &str = "end-of-journal";
/// On a shard's lease: the owner's term, as `UID TRANSITIONS`.
const TERM: &str = "kinform.dev/term";

/// A state that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// A member's lease; no term if nobody holds it.
    Member { lease: String, term: Option<Term> },
    /// A shard's lease.
    Shard { shard: u32, owner: Option<Term> },
    /// Another lease.
    Other,
    /// A write to a key; `term` if it tells one.
    Write {
        key: String,
        name: String,
        term: Option<Term>,
        seen: String,
        /// Another one in each write of a replica.
        beat: String,
    },
    /// The object is gone.
    Gone { key: String },
}

/// A fact with its version, and the time at which the watch told it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) version: u64,
    pub(crate) at: Instant,
    pub(crate) fact: Fact,
}

/// The last write to a key.
#[derive(Clone, Debug)]
pub(crate) struct Last {
    pub(crate) name: String,
    pub(crate) seen: String,
    pub(crate) at: Instant,
    beat: String,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) entries: Vec<Entry>,
    /// Writes to leases.
    pub(crate) lease_writes: usize,
    pub(crate) members: BTreeMap<String, Term>,
    pub(crate) shards: BTreeMap<u32, Term>,
    pub(crate) last: BTreeMap<String, Last>,
    /// The kinds whose marker has arrived.
    marks: BTreeSet<String>,
    /// The reason why the journal is not whole.
    pub(crate) hole: Option<String>,
}

/// The journal. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Arc<Mutex<Inner>>);

impl Journal {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this number of members hold their leases and own all shards.
    pub(crate) fn is_owned(&self, members: usize) -> bool {
        let inner = self.lock();
        let owned = inner.shards.values();
        let owned = owned.filter(|owner| inner.members.values().any(|term| term == *owner));
        inner.members.len() == members && owned.count() == SHARDS as usize
    }

    /// Returns whether, besides, each has its part.
    pub(crate) fn is_balanced(&self, members: usize) -> bool {
        if !self.is_owned(members) {
            return false;
        }
        let inner = self.lock();
        let least = SHARDS as usize / members.max(1);
        let most = (SHARDS as usize).div_ceil(members.max(1));
        let part = |term: &Term| inner.shards.values().filter(|owner| *owner == term).count();
        let mut parts = inner.members.values().map(part);
        parts.all(|part| (least..=most).contains(&part))
    }

    /// The keys that a replica wrote last.
    pub(crate) fn keys_of(&self, name: &str) -> Vec<String> {
        let inner = self.lock();
        let own = inner.last.iter().filter(|(_, last)| last.name == name);
        own.map(|(key, _)| key.clone()).collect()
    }

    /// The time until the first write to each key by another replica than `name`.
    pub(crate) fn first_since(&self, began: Instant, name: &str) -> BTreeMap<String, Duration> {
        let inner = self.lock();
        let newest = inner.entries.iter().rev();
        let mut first = BTreeMap::new();
        // The last that is inserted is the first that was written.
        for entry in newest.take_while(|entry| entry.at > began) {
            if let Fact::Write { key, name: by, .. } = &entry.fact
                && by != name
            {
                first.insert(key.clone(), entry.at.saturating_duration_since(began));
            }
        }
        first
    }

    /// The present state, for a message.
    pub(crate) fn picture(&self) -> String {
        let inner = self.lock();
        let members = inner
            .members
            .iter()
            .map(|(lease, term)| format!("{lease} {term}\n"));
        let shards = inner
            .shards
            .iter()
            .map(|(shard, owner)| format!("{shard}: {owner}\n"));
        members.chain(shards).collect()
    }

    /// Follows leases and objects from now on, until the tasks are dropped.
    ///
    /// # Errors
    /// They cannot be listed.
    pub(crate) async fn follow(
        &self,
        client: &Client,
        work: Work,
    ) -> Result<JoinSet<()>, StageError> {
        let mut tasks = JoinSet::new();
        let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
        let params = WatchParams::default().timeout(290);
        let read = move |lease: Lease, is_gone| Some(lease_fact(work.group(), &lease, is_gone));
        let from = version_now(&leases).await?;
        tasks.spawn(follow(leases, params.clone(), from, self.clone(), read));
        match work {
            Work::Sharer | Work::Careless => {
                let maps: Api<ConfigMap> = Api::all(client.clone());
                let from = version_now(&maps).await?;
                let params = params.labels(LABEL);
                tasks.spawn(follow(maps, params, from, self.clone(), map_fact));
            }
            Work::Sample => {
                let all: Api<Deployment> = Api::all(client.clone());
                let from = version_now(&all).await?;
                tasks.spawn(follow(all, params, from, self.clone(), deployment_fact));
            }
        }
        Ok(tasks)
    }

    /// Waits until everything that was written until now is in the journal, or it has a hole.
    ///
    /// # Errors
    /// A marker cannot be written, or does not arrive.
    pub(crate) async fn drained(&self, client: &Client, work: Work) -> Result<(), StageError> {
        mark::<Lease>(client, json!({ "metadata": { "name": MARK } })).await?;
        match work {
            Work::Sharer | Work::Careless => {
                let labels = json!({ "app": "sharing" });
                let map = json!({ "metadata": { "name": MARK, "labels": labels } });
                mark::<ConfigMap>(client, map).await?;
            }
            Work::Sample => {
                let labels = json!({ "app": MARK });
                let containers = json!([{ "name": "none", "image": "none" }]);
                let template = json!({
                    "metadata": { "labels": labels },
                    "spec": { "containers": containers },
                });
                let selector = json!({ "matchLabels": labels });
                let spec = json!({ "replicas": 0, "selector": selector, "template": template });
                let deployment = json!({ "metadata": { "name": MARK }, "spec": spec });
                mark::<Deployment>(client, deployment).await?;
            }
        }
        let began = Instant::now();
        loop {
            let (marks, is_broken) = {
                let inner = self.lock();
                (inner.marks.len(), inner.hole.is_some())
            };
            if marks == 2 || is_broken {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("the journal is not whole {PATIENCE:?} after the end").into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn broken(&self, why: &dyn std::fmt::Display) {
        let why = format!("the journal's watch: {why}");
        self.lock().hole.get_or_insert(why);
    }

    fn push(&self, version: u64, fact: Fact) {
        let (mut inner, at) = (self.lock(), Instant::now());
        match &fact {
            Fact::Member { lease, term } => {
                inner.lease_writes += 1;
                match term {
                    Some(term) => inner.members.insert(lease.clone(), term.clone()),
                    None => inner.members.remove(lease),
                };
            }
            Fact::Shard { shard, owner } => {
                inner.lease_writes += 1;
                match owner {
                    Some(owner) => inner.shards.insert(*shard, owner.clone()),
                    None => inner.shards.remove(shard),
                };
            }
            Fact::Other => inner.lease_writes += 1,
            Fact::Write {
                key,
                name,
                seen,
                beat,
                ..
            } => {
                let before = inner.last.get(key);
                if before.is_some_and(|before| before.beat == *beat) {
                    // The test's own change.
                    return;
                }
                let last = Last {
                    name: name.clone(),
                    seen: seen.clone(),
                    at,
                    beat: beat.clone(),
                };
                inner.last.insert(key.clone(), last);
            }
            Fact::Gone { key } => drop(inner.last.remove(key)),
        }
        inner.entries.push(Entry { version, at, fact });
    }
}

async fn mark<K>(client: &Client, object: Value) -> Result<(), StageError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), "default");
    let object = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

async fn version_now<K>(api: &Api<K>) -> Result<String, StageError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let list = api.list(&ListParams::default().limit(1)).await?;
    Ok(list
        .metadata
        .resource_version
        .ok_or("a list without a version")?)
}

async fn follow<K>(
    api: Api<K>,
    params: WatchParams,
    mut from: String,
    journal: Journal,
    read: impl Fn(K, bool) -> Option<Fact>,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut failures = 0;
    while failures < MOST_FAILURES {
        failures += 1;
        match api.watch(&params, &from).await {
            Ok(watch) => {
                let mut watch = std::pin::pin!(watch);
                while let Some(event) = watch.next().await {
                    let event = match event {
                        Ok(event) => event,
                        Err(error) if is_hole(&error) => return journal.broken(&error),
                        Err(_) => break,
                    };
                    failures = 0;
                    if let Err(why) = take(&journal, event, &mut from, &read) {
                        return journal.broken(&why);
                    }
                }
            }
            Err(error) if is_hole(&error) => return journal.broken(&error),
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
    journal.broken(&format!("{MOST_FAILURES} times in a row without an event"));
}

/// Returns whether events may be lost after an error: the server refuses to go on from a version, or an
/// event cannot be read.
fn is_hole(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => (400..500).contains(&status.code) && status.code != 429,
        kube::Error::SerdeError(_)
        | kube::Error::FromUtf8(_)
        | kube::Error::LinesCodecMaxLineLengthExceeded => true,
        _ => false,
    }
}

/// Takes an event, and the version to go on from.
fn take<K>(
    journal: &Journal,
    event: WatchEvent<K>,
    from: &mut String,
    read: impl Fn(K, bool) -> Option<Fact>,
) -> Result<(), String>
where
    K: Resource<DynamicType = ()>,
{
    let (object, is_gone) = match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
        WatchEvent::Deleted(object) => (object, true),
        WatchEvent::Bookmark(mark) => {
            *from = mark.metadata.resource_version;
            return Ok(());
        }
        WatchEvent::Error(status) => return Err(format!("{status:?}")),
    };
    let version = object.resource_version().unwrap_or_default();
    let number = version.parse();
    let number = number.map_err(|_| format!("an object of the version {version:?}"))?;
    *from = version;
    if object.name_any() == MARK {
        journal.lock().marks.insert(K::kind(&()).into_owned());
    } else if let Some(fact) = read(object, is_gone) {
        journal.push(number, fact);
    }
    Ok(())
}

fn lease_fact(group: &str, lease: &Lease, is_gone: bool) -> Fact {
    let name = lease.name_any();
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    let is_held = !is_gone && holder.is_some_and(|holder| !holder.is_empty());
    let rest = name.strip_prefix(group).unwrap_or_default();
    if rest.starts_with("-member-") {
        let transitions = spec
            .and_then(|spec| spec.lease_transitions)
            .unwrap_or_default();
        let term = Term {
            uid: lease.uid().unwrap_or_default(),
            transitions: transitions.to_string(),
        };
        let term = is_held.then_some(term);
        return Fact::Member { lease: name, term };
    }
    let Some(shard) = rest.strip_prefix("-shard-").and_then(|n| n.parse().ok()) else {
        return Fact::Other;
    };
    let told = lease.annotations().get(TERM).filter(|_| is_held);
    let told = told.and_then(|text| text.split_once(' '));
    let owner = told.map(|(uid, transitions)| Term {
        uid: uid.to_owned(),
        transitions: transitions.to_owned(),
    });
    Fact::Shard { shard, owner }
}

fn key_of(object: &impl ResourceExt) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("{namespace}/{}", object.name_any())
}

/// A state of a ConfigMap; `None` if no replica has written to it yet.
fn map_fact(map: ConfigMap, is_gone: bool) -> Option<Fact> {
    let key = key_of(&map);
    if is_gone {
        return Some(Fact::Gone { key });
    }
    let told = |of: &str| map.annotations().get(of).cloned();
    Some(Fact::Write {
        name: told("name")?,
        term: Some(Term {
            uid: told("uid")?,
            transitions: told("term")?,
        }),
        seen: told("seen").unwrap_or_default(),
        beat: told("beat").unwrap_or_default(),
        key,
    })
}

/// A state of a Deployment; it does not tell who wrote it.
fn deployment_fact(deployment: Deployment, is_gone: bool) -> Option<Fact> {
    let key = key_of(&deployment);
    if is_gone {
        return Some(Fact::Gone { key });
    }
    let beat = deployment.resource_version().unwrap_or_default();
    let replicas = deployment.spec.replicas;
    Some(Fact::Write {
        key,
        name: String::new(),
        term: None,
        seen: replicas
            .map(|replicas| replicas.to_string())
            .unwrap_or_default(),
        beat,
    })
}
