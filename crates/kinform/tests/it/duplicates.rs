//! No duplicates on a view that lags: what a run wrote is in the caches when its key runs next.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kinform::{Action, Controller, Ctx, Error, Handlers, Index, Informer, InformerFactory, Target};
use kinform_apiserver::{Fault, FaultRule};
use kinform_testkit::TestServer;
use kube_client::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube_core::ObjectMeta;
use serde_json::json;

const PARENTS: usize = 10;

/// Counts of the reconciles, and of the sights that their own writes make impossible.
#[derive(Default)]
struct Seen {
    runs: AtomicUsize,
    duplicates: AtomicUsize,
    stale: AtomicUsize,
    /// Deletes of objects that were gone already.
    gone: AtomicUsize,
}

/// The informers of parents and children, started.
fn informers(api: &TestServer) -> (InformerFactory, Informer<ConfigMap>, Informer<Secret>) {
    let factory = InformerFactory::new(api.client());
    let (maps, secrets) = (
        factory.informer::<ConfigMap>(),
        factory.informer::<Secret>(),
    );
    factory.start().unwrap();
    (factory, maps, secrets)
}

struct State {
    by_parent: kinform::IndexReader<Secret>,
    seen: Arc<Seen>,
    turns: Mutex<std::collections::HashMap<String, usize>>,
}

fn parent(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn child(parent: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            generate_name: Some(format!("{parent}-")),
            labels: Some([("parent".to_owned(), parent.to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    }
}

/// Has one child; now and then another one in its place.
async fn reconcile(map: Arc<ConfigMap>, cx: Ctx<State>) -> Result<Action, Error> {
    cx.seen.runs.fetch_add(1, Ordering::Relaxed);
    cx.seen
        .stale
        .fetch_add(usize::from(cx.is_stale()), Ordering::Relaxed);
    let name = map.metadata.name.clone().unwrap_or_default();
    let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
    let children = cx.by_parent.get(&name);
    let turn = {
        let mut turns = cx.turns.lock().unwrap();
        let turn = turns.entry(name.clone()).or_default();
        *turn += 1;
        *turn
    };
    let again = Ok(Action::requeue(Duration::from_millis(100)));
    match children.len() {
        0 => {
            // An answer may be lost: the next run decides on what was stored.
            let _ = secrets.create(&PostParams::default(), &child(&name)).await;
        }
        1 if turn % 20 == 0 => {
            let first = children.iter().next().unwrap();
            let (name, params) = (first.name(), DeleteParams::default());
            match secrets.delete(name, &params).await {
                Err(kube_client::Error::Api(status)) if status.code == 404 => {
                    cx.seen.gone.fetch_add(1, Ordering::Relaxed);
                }
                _ => {}
            }
        }
        1 => {}
        _ => {
            cx.seen.duplicates.fetch_add(1, Ordering::Relaxed);
        }
    }
    again
}

async fn run(
    change: impl Fn(Controller<ConfigMap>) -> Controller<ConfigMap>,
) -> (Arc<Seen>, usize) {
    let api = TestServer::start()
        .in_process()
        .lag(Duration::from_secs(5))
        .seed(7)
        .await
        .unwrap();
    for number in 0..PARENTS {
        api.create(&parent(&format!("p{number}"))).await.unwrap();
    }
    let factory = InformerFactory::new(api.client());
    let maps = factory.informer::<ConfigMap>();
    let secrets = factory.informer::<Secret>();
    let by_parent = secrets.add_index(Index::label("parent")).unwrap();
    factory.start().unwrap();
    let seen = Arc::<Seen>::default();
    let controller = change(Controller::of(&maps).owns(&secrets)).context(State {
        by_parent,
        seen: Arc::clone(&seen),
        turns: Mutex::default(),
    });
    let running = tokio::spawn(controller.run(reconcile));
    let mut losses = 0;
    while seen.runs.load(Ordering::Relaxed) < 10_000 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        losses += 1;
        if losses % 10 == 0 {
            let lose = FaultRule::new(Fault::LoseReply)
                .on_resource("secrets")
                .on_verb(if losses % 20 == 0 { "create" } else { "delete" });
            api.server().faults().inject(lose);
        }
        assert!(losses < 100_000, "it goes on");
    }
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    let all: Api<Secret> = Api::namespaced(api.client(), "default");
    let stored = all.list(&Default::default()).await.unwrap().items.len();
    factory.shutdown().await;
    (seen, stored)
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_reconciles_make_no_duplicate_though_watches_lag_and_answers_are_lost() {
    let (seen, stored) = run(|controller| controller).await;
    let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    assert_eq!((read(&seen.duplicates), read(&seen.gone)), (0, 0));
    assert!(stored <= PARENTS, "{stored}");
    assert_eq!(read(&seen.stale), 0);
}

#[tokio::test(start_paused = true)]
async fn without_own_writes_the_same_reconciles_make_duplicates() {
    let (seen, _) = run(Controller::without_own_writes).await;
    let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    assert!(read(&seen.duplicates) + read(&seen.gone) > 0);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_a_selector_hides_is_not_waited_for() {
    let api = TestServer::start()
        .in_process()
        .lag(Duration::from_secs(5))
        .await
        .unwrap();
    api.create(&parent("p")).await.unwrap();
    let factory = InformerFactory::new(api.client());
    let maps = factory.informer::<ConfigMap>();
    let hidden = factory
        .select::<Secret>(kinform::Target::new())
        .labels("shown=yes")
        .build();
    factory.start().unwrap();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&runs);
    let controller = Controller::of(&maps).owns(&hidden);
    let began = tokio::time::Instant::now();
    let running = tokio::spawn(controller.run(move |_: Arc<ConfigMap>, cx: Ctx<()>| {
        times.lock().unwrap().push(began.elapsed().as_secs());
        async move {
            let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
            let patch = Patch::Apply(json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "s"}, "stringData": {"a": cx.failures().to_string()}}));
            secrets
                .patch("s", &PatchParams::apply("m").force(), &patch)
                .await
                .unwrap();
            Ok::<_, Error>(Action::requeue(Duration::from_secs(1)))
        }
    }));
    tokio::time::sleep(Duration::from_millis(5_500)).await;
    running.abort();
    let _ = running.await;
    let runs = runs.lock().unwrap().clone();
    assert!(runs.len() >= 4, "{runs:?}");
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn r10_no_key_waits_for_the_bookmark_of_an_idle_type() {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&parent("p")).await.unwrap();
    let (factory, maps, secrets) = informers(&api);
    secrets.synced().await.unwrap();
    // The server's version goes on, that of the secrets does not.
    let account = ServiceAccount {
        metadata: parent("other").metadata,
        ..ServiceAccount::default()
    };
    api.create(&account).await.unwrap();
    let lists = || api.server().journal().count("list", "secrets");
    let before = lists();
    // The first create has no answer that tells whether it was stored.
    let status = kinform::Status::failure(500, "InternalError", "a webhook failed");
    let fault = FaultRule::new(Fault::Reply(status));
    let fault = fault.on_resource("secrets").on_verb("create");
    api.server().faults().inject(fault);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&runs);
    let controller = Controller::of(&maps).owns(&secrets);
    let running = tokio::spawn(controller.run(move |_: Arc<ConfigMap>, cx: Ctx<()>| {
        times.lock().unwrap().push(tokio::time::Instant::now());
        async move {
            let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
            secrets.create(&PostParams::default(), &child("p")).await?;
            Ok::<_, Error>(Action::await_change())
        }
    }));
    tokio::time::sleep(Duration::from_secs(50)).await;
    running.abort();
    factory.shutdown().await;
    let runs = runs.lock().unwrap();
    let took = runs[1] - runs[0];
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(lists() - before, 1, "one question");
}

#[tokio::test(start_paused = true)]
async fn r8_each_run_is_told_that_its_view_is_old_until_it_is_not() {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&parent("p")).await.unwrap();
    let (_factory, maps, secrets) = informers(&api);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let controller = Controller::of(&maps)
        .owns(&secrets)
        .context((secrets, Arc::clone(&runs)));
    let reconcile = |_: Arc<ConfigMap>, cx: Ctx<(Informer<Secret>, Arc<Mutex<Vec<_>>>)>| async move {
        let (secrets, runs) = &*cx.context();
        let is_seen = secrets.list().len() == 1;
        runs.lock().unwrap().push((is_seen, cx.is_stale()));
        if !is_seen && !cx.is_stale() {
            let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
            secrets.create(&PostParams::default(), &child("p")).await?;
        }
        Ok::<_, Error>(Action::requeue(Duration::from_secs(1)))
    };
    let running = tokio::spawn(controller.run(reconcile));
    tokio::time::sleep(Duration::from_millis(1)).await;
    api.stall_watches();
    tokio::time::sleep(Duration::from_secs(60)).await;
    api.resume_watches();
    tokio::time::sleep(Duration::from_secs(60)).await;
    running.abort();
    assert_eq!(api.server().objects("secrets").len(), 1);
    let runs = runs.lock().unwrap();
    // The first makes the child; those behind it lack it and know it; then it is seen.
    let is_told = |run: &&(bool, bool)| **run == (false, true);
    let told = runs.iter().skip(1).take_while(is_told).count();
    assert!(told > 10, "{runs:?}");
    assert!(
        runs[1 + told..].iter().all(|run| *run == (true, false)),
        "{runs:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waited_for_a_watch_that_ended_is_told_that_it_may_lack_its_writes() {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&parent("p")).await.unwrap();
    let factory = InformerFactory::new(api.client());
    let (maps, accounts) = (
        factory.informer::<ConfigMap>(),
        factory.informer::<ServiceAccount>(),
    );
    let secrets = factory.select::<Secret>(Target::new());
    let secrets = secrets.namespaces(["default"]).build();
    factory.start().unwrap();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let (told, of, also) = (Arc::clone(&runs), secrets.clone(), accounts.clone());
    let controller = Controller::of(&maps).owns(&secrets).owns(&accounts);
    let running = tokio::spawn(controller.run(move |_: Arc<ConfigMap>, cx: Ctx<()>| {
        let is_first = {
            let mut told = told.lock().unwrap();
            told.push((of.list().len(), also.list().len(), cx.is_stale()));
            told.len() == 1
        };
        async move {
            if !is_first {
                return Ok::<_, Error>(Action::await_change());
            }
            let client = cx.client()?;
            let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
            secrets.create(&PostParams::default(), &child("p")).await?;
            let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
            let account = ServiceAccount {
                metadata: child("p").metadata,
                ..ServiceAccount::default()
            };
            accounts.create(&PostParams::default(), &account).await?;
            Ok(Action::requeue(Duration::from_secs(1)))
        }
    }));
    secrets.synced().await.unwrap();
    accounts.synced().await.unwrap();
    api.stall_watches();
    let runs = || runs.lock().unwrap().clone();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(runs(), [(0, 0, false)], "the second waits");
    assert!(secrets.remove_namespace("default"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(runs(), [(0, 0, false)], "it waits for the account");
    api.resume_watches();
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.abort();
    assert_eq!(runs(), [(0, 0, false), (0, 1, true)]);
}

/// The origin of a child that no watch shows.
#[derive(Clone, Copy)]
enum Made {
    ByTheRun,
    /// Before the run, which finds it as it should be.
    Before,
}

/// A child is there while no watch shows anything, and is deleted before the next list: no event
/// tells of it. Returns whether there is one in the end.
async fn is_made_good(made: Made) -> bool {
    let api = TestServer::start().in_process().await.unwrap();
    let map = api.create(&parent("p")).await.unwrap();
    let mut child = child("p");
    child.metadata.generate_name = None;
    child.metadata.name = Some("only".to_owned());
    child.metadata.namespace = Some("default".to_owned());
    let owner = kinform::owner::Owner::of(&map).unwrap();
    kinform::owner::set_controller(&mut child, &owner).unwrap();
    let (factory, maps, secrets) = informers(&api);
    let adds = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&adds);
    let handlers = Handlers::new().on_add(move |_| _ = heard.fetch_add(1, Ordering::Relaxed));
    let _registration = secrets.add_handler(handlers).unwrap();
    let controller = Controller::of(&maps).owns(&secrets);
    let queue = controller.queue();
    let wanted = Arc::new((child.clone(), std::sync::atomic::AtomicBool::new(false)));
    let told = Arc::clone(&wanted);
    let running = tokio::spawn(controller.run(move |_: Arc<ConfigMap>, cx: Ctx<()>| {
        let told = Arc::clone(&told);
        async move {
            if told.1.load(Ordering::Relaxed) {
                cx.create_or_update(told.0.clone(), |_| {}).await?;
            }
            Ok::<_, Error>(Action::await_change())
        }
    }));
    let second = Duration::from_secs(1);
    tokio::time::sleep(second).await;
    api.stall_watches();
    if let Made::Before = made {
        api.create(&child).await.unwrap();
    }
    wanted.1.store(true, Ordering::Relaxed);
    queue.add("default/p".parse().unwrap());
    tokio::time::sleep(second).await;
    api.delete::<Secret>("default/only").await.unwrap();
    api.expire_history();
    // What the stalled watches hold back is lost with their connections.
    api.network().unwrap().cut();
    tokio::time::sleep(second).await;
    api.resume_watches();
    tokio::time::sleep(Duration::from_secs(120)).await;
    running.abort();
    factory.shutdown().await;
    let is_there = api.get::<Secret>("default/only").await.unwrap().is_some();
    let adds = adds.load(Ordering::Relaxed);
    assert_eq!(adds, usize::from(is_there), "the first is heard by nobody");
    is_there
}

#[tokio::test(start_paused = true)]
async fn r9_an_object_that_came_and_went_between_two_watches_is_made_again() {
    assert!(is_made_good(Made::ByTheRun).await, "its own");
    assert!(is_made_good(Made::Before).await, "one that it found");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_run_makes_and_deletes_starts_no_run() {
    let api = TestServer::start().in_process().await.unwrap();
    api.create(&parent("p")).await.unwrap();
    let factory = InformerFactory::new(api.client());
    let maps = factory.informer::<ConfigMap>();
    let secrets = factory.informer::<Secret>();
    factory.start().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    // Its events concern no key.
    let controller = Controller::of(&maps).watches(&secrets, |_| [] as [kinform::ObjectKey; 0]);
    let running = tokio::spawn(controller.run(move |_: Arc<ConfigMap>, cx: Ctx<()>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            let secrets: Api<Secret> = Api::namespaced(cx.client()?, "default");
            let made = secrets.create(&PostParams::default(), &child("p")).await?;
            let name = made.metadata.name.unwrap_or_default();
            secrets.delete(&name, &DeleteParams::default()).await?;
            Ok::<_, Error>(Action::await_change())
        }
    }));
    tokio::time::sleep(Duration::from_secs(60)).await;
    running.abort();
    factory.shutdown().await;
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}
