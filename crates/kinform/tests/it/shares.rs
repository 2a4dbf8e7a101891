//! Informers of a share: ranges that come and go while they run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kinform::env::Env;
use kinform::{
    Handlers, Informer, InformerFactory, InformerState, Projection, ShardId, Shards, Share, Target,
};
use kinform_testkit::{TestServer, scripted};
use serde_json::json;

use crate::fixture::{Heard, factory, names, pod, settle};

const SOON: Duration = Duration::from_secs(120);

/// The shard of a pod of the fixture.
fn shard_of(shards: Shards, name: &str) -> ShardId {
    shards.shard_of(&format!("uid-{name}"))
}

/// Two names of one shard, and one of another.
fn three(shards: Shards) -> [String; 3] {
    let all: Vec<String> = (0..100).map(|at| format!("p{at}")).collect();
    let of = |name: &String| shard_of(shards, name);
    let other = all.iter().find(|name| of(name) != of(&all[0])).unwrap();
    let same = all[1..].iter().find(|name| of(name) == of(&all[0]));
    [all[0].clone(), same.unwrap().clone(), other.clone()]
}

#[tokio::test(start_paused = true)]
async fn requests_name_the_ranges_and_an_extension_lists_with_the_new_ones() {
    let shards = Shards::by_uid(8).unwrap();
    let [a, b, c] = three(shards);
    let (mine, other) = (shard_of(shards, &a), shard_of(shards, &c));
    let share = Share::new(shards);
    let (factory, mut script) = factory();
    let pods = factory.select(Target::<Pod>::new()).share(&share).build();
    let heard = Heard::default();
    let _registration = pods.add_handler(heard.handlers()).unwrap();
    factory.start().unwrap();
    pods.synced_within(SOON).await.unwrap();
    settle().await;
    assert!(script.is_quiet(), "nothing is wanted, nothing is asked");
    assert_eq!(heard.take(), ["synced"]);
    assert!(matches!(pods.state(), InformerState::Synced { .. }));
    assert!(pods.reached("7").now_or_never().is_some_and(|r| r.is_ok()));

    share.extend(mine);
    let (options, ask) = script.next_watch().await;
    let selector = options.shard_selector.unwrap();
    assert!(
        selector.starts_with("shardRange(object.metadata.uid, '0x"),
        "{selector}"
    );
    // This server does not know the parameter.
    let watch = ask.stream();
    watch.event("ADDED", &pod(&a, 1, "n"));
    watch.event("ADDED", &pod(&c, 2, "n"));
    settle().await;
    assert!(!share.has_synced(mine), "its list is not whole");
    watch.initial_events_end("Pod", "5");
    settle().await;
    assert!(share.has_synced(mine) && !share.has_synced(other));
    assert_eq!(
        (names(&pods), heard.take()),
        (vec![a.clone()], vec![format!("add {a}@1")])
    );
    watch.event("MODIFIED", &pod(&c, 6, "n"));
    watch.event("ADDED", &pod(&b, 7, "n"));
    watch.event("DELETED", &pod(&c, 8, "n"));
    settle().await;
    assert_eq!(heard.take(), [format!("add {b}@7")]);
    assert_eq!((pods.stats().outside, pods.stats().quarantined), (3, 0));
    pods.reached("8").await.unwrap();

    share.extend(other);
    settle().await;
    assert!(watch.is_given_up());
    let (options, ask) = script.next_watch().await;
    let wider = options.shard_selector.unwrap();
    assert_ne!(wider, selector);
    assert_eq!(options.resource_version, None, "the most recent state");
    let watch = ask.stream();
    for (name, version) in [(&a, 1), (&b, 7), (&c, 9)] {
        watch.event("ADDED", &pod(name, version, "n"));
    }
    watch.initial_events_end("Pod", "9");
    settle().await;
    assert!(share.has_synced(mine) && share.has_synced(other));
    assert_eq!(heard.take(), [format!("add {c}@9")]);
    assert_eq!(
        pods.stats().relist_reasons,
        BTreeMap::from([("extended", 1)])
    );

    share.shrink(mine);
    settle().await;
    assert_eq!((names(&pods), heard.take()), (vec![c.clone()], vec![]));
    assert!(!watch.is_given_up(), "the wider watch goes on");
    watch.event("DELETED", &pod(&a, 10, "n"));
    watch.event("DELETED", &pod(&c, 11, "n"));
    settle().await;
    assert_eq!(heard.take(), [format!("delete {c}@11")]);
    share.shrink(other);
    settle().await;
    assert!(watch.is_given_up() && script.is_quiet());
    assert!(pods.state().is_synced() && names(&pods).is_empty());
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn changes_that_are_there_at_once_cost_one_list() {
    let share = Share::new(Shards::by_namespace(64).unwrap());
    let (factory, mut script) = factory();
    let pods = factory.select(Target::<Pod>::new()).share(&share).build();
    share
        .shards()
        .ids()
        .take(40)
        .for_each(|id| share.extend(id));
    factory.start().unwrap();
    let (_, ask) = script.next_watch().await;
    let watch = ask.stream();
    share
        .shards()
        .ids()
        .skip(40)
        .for_each(|id| share.extend(id));
    let (options, ask) = script.next_watch().await;
    assert_eq!(options.shard_selector, None, "of all hashes");
    assert!(watch.is_given_up());
    let watch = ask.stream();
    watch.event("ADDED", &pod("a", 1, "n"));
    watch.initial_events_end("Pod", "5");
    settle().await;
    assert!(share.shards().ids().all(|id| share.has_synced(id)));
    // One that goes and comes before anybody looks is read again.
    share.shrink(ShardId(3));
    share.extend(ShardId(3));
    settle().await;
    assert!(!share.has_synced(ShardId(3)) && share.has_synced(ShardId(4)));
    assert!(watch.is_given_up());
    let (_, ask) = script.next_watch().await;
    let watch = ask.stream();
    watch.event("ADDED", &pod("a", 1, "n"));
    watch.initial_events_end("Pod", "6");
    share.synced(ShardId(3)).await;
    assert!(!watch.is_given_up() && script.is_quiet());
    assert_eq!(names(&pods), ["a"]);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_an_informer_that_is_stopped_and_all_wait_for_one_that_is_not_started() {
    let share = Share::new(Shards::by_uid(4).unwrap());
    let (factory, _script) = factory();
    let pods = factory.select(Target::<Pod>::new()).share(&share).build();
    let same = factory.select(Target::<Pod>::new()).share(&share).build();
    let all = factory.select(Target::<Pod>::new()).build();
    assert_eq!(
        factory.informers().len(),
        2,
        "a share is part of the request"
    );
    share.extend(ShardId(1));
    assert!(!share.has_synced(ShardId(1)));
    drop((same, all));
    pods.stop();
    assert!(share.has_synced(ShardId(1)));
    let again = factory.select(Target::<Pod>::new()).share(&share).build();
    factory.start().unwrap();
    settle().await;
    assert!(!share.has_synced(ShardId(1)));
    again.stop();
    settle().await;
    assert!(share.has_synced(ShardId(1)));
    factory.shutdown().await;
}

/// A factory whose sources say nothing.
fn of_any_resource() -> InformerFactory {
    let factory = InformerFactory::with_sources(|info, _| scripted(info).0);
    factory.env(Env::seeded(7)).build()
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_shared_is_refused_at_the_start() {
    let by_namespace = Share::new(Shards::by_namespace(4).unwrap());
    let by_uid = Share::new(Shards::by_uid(4).unwrap());
    let names_only = || Projection::new().keep_only(["metadata.name".parse().unwrap()]);
    let refused = |build: &dyn Fn(&InformerFactory)| {
        let factory = of_any_resource();
        build(&factory);
        let error = factory.start().unwrap_err();
        assert!(error.is_invalid(), "{error}");
        error.to_string()
    };
    let nodes = refused(&|factory| {
        drop(
            factory
                .select(Target::<Node>::new())
                .share(&by_namespace)
                .build(),
        );
    });
    assert!(
        nodes.contains("nodes") && nodes.contains("no namespaces"),
        "{nodes}"
    );
    let pods = refused(&|factory| {
        let pods = factory
            .select(Target::<Pod>::new())
            .projection(names_only());
        drop(pods.share_of_owners(&by_uid).build());
    });
    assert!(pods.contains("metadata.ownerReferences"), "{pods}");
    // Nobody waits for these.
    by_uid.extend(ShardId(0));
    assert!(by_uid.has_synced(ShardId(0)));
    let factory = of_any_resource();
    drop(factory.select(Target::<Node>::new()).share(&by_uid).build());
    drop(
        factory
            .select(Target::<Pod>::new())
            .share_of_owners(&by_namespace)
            .build(),
    );
    factory.start().unwrap();
    factory.shutdown().await;
}

/// SplitMix64: a seed is a run.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// One replica: its share, its informer, and the uids that its handler holds.
struct Replica {
    share: Share,
    factory: InformerFactory,
    maps: Informer<ConfigMap>,
    heard: Arc<Mutex<Vec<(char, String)>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Namespace,
    Uid,
    Owner,
}

impl Replica {
    fn new(api: &TestServer, by: By, seed: u64) -> Self {
        let share = Share::new(match by {
            By::Namespace => Shards::by_namespace(8).unwrap(),
            By::Uid | By::Owner => Shards::by_uid(8).unwrap(),
        });
        let factory = InformerFactory::builder(api.client())
            .env(Env::seeded(seed))
            .build();
        let maps = factory.select(Target::<ConfigMap>::new());
        let maps = match by {
            By::Owner => maps.share_of_owners(&share).build(),
            By::Namespace | By::Uid => maps.share(&share).build(),
        };
        let heard = Arc::<Mutex<Vec<_>>>::default();
        let (add, delete) = (Arc::clone(&heard), Arc::clone(&heard));
        let handlers = Handlers::new()
            .on_add(move |map| add.lock().unwrap().push(('+', map.uid().to_owned())))
            .on_delete(move |map| delete.lock().unwrap().push(('-', map.uid().to_owned())));
        maps.add_handler(handlers).unwrap();
        factory.start().unwrap();
        Self {
            share,
            factory,
            maps,
            heard,
        }
    }

    fn uids(&self) -> BTreeSet<String> {
        self.maps
            .list()
            .iter()
            .map(|map| map.uid().to_owned())
            .collect()
    }

    fn deleted(&self) -> BTreeSet<String> {
        let heard = self.heard.lock().unwrap();
        let gone = heard.iter().filter(|(sign, _)| *sign == '-');
        gone.map(|(_, uid)| uid.clone()).collect()
    }
}

/// The objects of a server, with the text that decides the shard of each.
#[derive(Default)]
struct Truth {
    there: BTreeMap<String, (String, String)>,
    gone: BTreeSet<String>,
    owners: Vec<ConfigMap>,
    count: u32,
}

impl Truth {
    async fn create(&mut self, api: &TestServer, by: By, random: &mut SplitMix) {
        self.count += 1;
        let namespace = format!("n{}", random.below(6));
        let mut map = json!({
            "metadata": { "name": format!("m{}", self.count), "namespace": namespace }
        });
        let owner = self
            .owners
            .get(random.below(self.owners.len().max(1) as u64) as usize);
        if let Some(owner) = owner {
            map["metadata"]["namespace"] = "n0".into();
            map["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "v1", "kind": "ConfigMap", "controller": true,
                "name": owner.metadata.name, "uid": owner.metadata.uid,
            }]);
        }
        let map: ConfigMap = serde_json::from_value(map).unwrap();
        let map = api.create(&map).await.unwrap();
        let (uid, namespace) = (map.metadata.uid.unwrap(), map.metadata.namespace.unwrap());
        let hashed = match by {
            By::Namespace => namespace.clone(),
            By::Uid => uid.clone(),
            By::Owner => owner.unwrap().metadata.uid.clone().unwrap(),
        };
        let key = format!("{namespace}/{}", map.metadata.name.unwrap());
        self.there.insert(uid, (key, hashed));
    }

    async fn delete(&mut self, api: &TestServer, random: &mut SplitMix) {
        let at = random.below(self.there.len().max(1) as u64) as usize;
        let Some(uid) = self.there.keys().nth(at).cloned() else {
            return;
        };
        let (key, _) = self.there.remove(&uid).unwrap();
        api.delete::<ConfigMap>(&key).await.unwrap();
        self.gone.insert(uid);
    }

    /// The uids in shards.
    fn of(&self, shards: Shards, is_in: impl Fn(ShardId) -> bool) -> BTreeSet<String> {
        let there = self.there.iter();
        let there = there.filter(|(_, (_, hashed))| is_in(shards.shard_of(hashed)));
        there.map(|(uid, _)| uid.clone()).collect()
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(SOON, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}

/// A server with namespaces and, if they decide, owners.
async fn world(by: By, seed: u64) -> (TestServer, Truth) {
    let api = TestServer::start().seed(seed).in_process().await.unwrap();
    for at in 0..6 {
        let name = format!("n{at}");
        let namespace = json!({ "metadata": { "name": name } });
        let namespace: k8s_openapi::api::core::v1::Namespace =
            serde_json::from_value(namespace).unwrap();
        api.create(&namespace).await.unwrap();
    }
    let mut truth = Truth::default();
    if by == By::Owner {
        for at in 0..10 {
            let owner = json!({ "metadata": { "name": format!("o{at}"), "namespace": "n0" } });
            let owner: ConfigMap = serde_json::from_value(owner).unwrap();
            truth.owners.push(api.create(&owner).await.unwrap());
        }
    }
    (api, truth)
}

/// Moves shards between two replicas while objects are written, and watches break.
async fn shards_move(by: By, seed: u64) {
    let (api, mut truth) = world(by, seed).await;
    let mut random = SplitMix(seed);
    for _ in 0..30 {
        truth.create(&api, by, &mut random).await;
    }
    let replicas = [
        Replica::new(&api, by, seed),
        Replica::new(&api, by, seed + 1),
    ];
    let shards = replicas[0].share.shards();
    let mut owners: Vec<usize> = shards.ids().map(|id| usize::from(id.0 >= 4)).collect();
    for id in shards.ids() {
        replicas[owners[id.0 as usize]].share.extend(id);
    }
    for _ in 0..40 {
        for _ in 0..random.below(4) {
            match random.below(3) {
                0 => truth.delete(&api, &mut random).await,
                _ => truth.create(&api, by, &mut random).await,
            }
        }
        match random.below(8) {
            0 => api.cut_watches(),
            1 => {
                api.expire_history();
                api.cut_watches();
            }
            _ => {}
        }
        let id = ShardId(random.below(8) as u32);
        let owner = &mut owners[id.0 as usize];
        let (from, to) = (&replicas[*owner], &replicas[1 - *owner]);
        let expected = truth.of(shards, |of| of == id);
        to.share.extend(id);
        let synced = tokio::time::timeout(SOON, to.share.synced(id)).await;
        assert!(
            synced.is_ok(),
            "seed {seed}: {id} is not read: {}",
            to.maps.state()
        );
        let has = to.uids();
        let missing: Vec<_> = expected.difference(&has).collect();
        assert!(
            missing.is_empty(),
            "seed {seed}: {id} was synced without {missing:?}"
        );
        from.share.shrink(id);
        *owner = 1 - *owner;
    }
    check_end(&replicas, &owners, &truth, seed).await;
    for replica in &replicas {
        replica.factory.shutdown().await;
    }
}

async fn check_end(replicas: &[Replica; 2], owners: &[usize], truth: &Truth, seed: u64) {
    let shards = replicas[0].share.shards();
    for (at, replica) in replicas.iter().enumerate() {
        let wanted = truth.of(shards, |id| owners[id.0 as usize] == at);
        let what = format!("seed {seed}: replica {at} has what it is to have");
        until(&what, || replica.uids() == wanted).await;
        let false_deletes: Vec<_> = replica.deleted().difference(&truth.gone).cloned().collect();
        assert!(
            false_deletes.is_empty(),
            "seed {seed}: {false_deletes:?} live"
        );
        let heard = replica.heard.lock().unwrap();
        let added: BTreeSet<_> = heard.iter().map(|(_, uid)| uid.clone()).collect();
        assert!(
            added.is_superset(&wanted),
            "seed {seed}: each was heard as an add"
        );
    }
    let (a, b) = (replicas[0].uids(), replicas[1].uids());
    assert!(a.is_disjoint(&b), "seed {seed}: none twice");
    assert_eq!(
        a.len() + b.len(),
        truth.there.len(),
        "seed {seed}: all of them"
    );
}

#[tokio::test(start_paused = true)]
async fn shards_that_move_by_namespace_lose_nothing_and_delete_nothing() {
    for seed in 0..6 {
        shards_move(By::Namespace, seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn shards_that_move_by_uid_lose_nothing_and_delete_nothing() {
    for seed in 10..16 {
        shards_move(By::Uid, seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn shards_that_move_by_owner_lose_nothing_and_delete_nothing() {
    for seed in 20..26 {
        shards_move(By::Owner, seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_in_range_is_heard_and_what_passes_to_a_foreign_owner_too() {
    let (api, mut truth) = world(By::Owner, 3).await;
    let mut random = SplitMix(3);
    for _ in 0..12 {
        truth.create(&api, By::Owner, &mut random).await;
    }
    let replica = Replica::new(&api, By::Owner, 3);
    let shards = replica.share.shards();
    let mine = shards.shard_of(&truth.there.values().next().unwrap().1);
    replica.share.extend(mine);
    replica.share.synced(mine).await;
    let here = truth.of(shards, |id| id == mine);
    assert_eq!(
        replica.uids(),
        here,
        "owners and the owned of others are elsewhere"
    );
    // One passes to another owner.
    let uid = here.first().unwrap().clone();
    let foreign = truth
        .owners
        .iter()
        .find(|owner| shards.shard_of(owner.metadata.uid.as_deref().unwrap()) != mine);
    let foreign = foreign.unwrap().metadata.clone();
    let (key, _) = truth.there.remove(&uid).unwrap();
    let name = key.split_once('/').unwrap().1;
    let maps: kube_client::Api<ConfigMap> = kube_client::Api::namespaced(api.client(), "n0");
    let patch = json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "controller": true,
        "name": foreign.name, "uid": foreign.uid,
    }] } });
    let patch = kube_client::api::Patch::Merge(patch);
    maps.patch(name, &Default::default(), &patch).await.unwrap();
    until("it is heard as deleted", || {
        replica.deleted().contains(&uid)
    })
    .await;
    let rest = truth.of(shards, |id| id == mine);
    assert_eq!(replica.uids(), rest);
    for uid in &rest {
        api.delete::<ConfigMap>(&truth.there[uid].0).await.unwrap();
    }
    until("all are heard as deleted", || replica.deleted() == here).await;
    replica.factory.shutdown().await;
}
