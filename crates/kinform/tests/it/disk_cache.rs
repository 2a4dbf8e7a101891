//! Caches on disk: what the next start asks for, and what its handlers hear.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::source::{ClientOptions, client_for};
use kinform::{
    CacheLimits, Changes, DiskCache, Informer, InformerFactory, InformerState, LabelSelector,
    Notification, ReflectorOptions, ReportEvent, Target,
};
use kinform_apiserver::Server;
use kinform_testkit::TestServer;
use kube_client::Client;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_core::ObjectMeta;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(20);

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some("default".to_owned()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some([("key".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

async fn server() -> TestServer {
    let soon = Duration::from_millis(50);
    let starting = TestServer::start().with(move |builder| builder.bookmark_period(soon));
    starting.await.unwrap()
}

/// A run of a program: what its handlers heard until it was synced, and what it asked for.
struct Run {
    factory: InformerFactory,
    maps: Informer<ConfigMap>,
    changes: Changes<ConfigMap>,
    reports: kinform::Reports,
}

impl Run {
    fn of(client: Client, disk: DiskCache) -> Self {
        let factory = InformerFactory::builder(client).disk_cache(disk).build();
        let maps = factory
            .select(Target::<ConfigMap>::new())
            .namespaces(["default"])
            .build();
        let changes = maps.changes().unwrap();
        let reports = maps.reports();
        factory.start().unwrap();
        Self {
            factory,
            maps,
            changes,
            reports,
        }
    }

    /// The notifications until the synced one, those of the beginning sorted.
    async fn heard(&mut self) -> Vec<String> {
        let mut heard = Vec::new();
        loop {
            let next = tokio::time::timeout(SOON, self.changes.next()).await;
            heard.push(match next.expect("it comes soon").unwrap() {
                Notification::Added(added) if added.is_initial() => {
                    format!("initial {}", added.name())
                }
                Notification::Added(added) => format!("add {}", added.name()),
                Notification::Updated { new, .. } => format!("update {}", new.name()),
                Notification::Deleted(gone) => format!("delete {}", gone.name()),
                Notification::Synced => break,
                other => format!("{other:?}"),
            });
        }
        heard.sort_by_key(|line| (!line.starts_with("initial"), line.clone()));
        self.factory.synced_within(SOON).await.unwrap();
        heard
    }

    /// The first report for which `pick` has a text.
    async fn reported(&mut self, pick: impl Fn(&ReportEvent) -> Option<String>) -> String {
        let reports = self.reports.by_ref();
        let picked = reports.filter_map(|report| std::future::ready(pick(&report.event)));
        let mut picked = std::pin::pin!(picked);
        let first = tokio::time::timeout(SOON, picked.next()).await;
        first.expect("it comes soon").unwrap()
    }

    async fn refused(&mut self) -> String {
        self.reported(|event| match event {
            ReportEvent::SnapshotRefused { reason } => Some(reason.clone()),
            _ => None,
        })
        .await
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .maps
            .lister()
            .list(&LabelSelector::default())
            .iter()
            .map(|map| map.name().to_owned())
            .collect();
        names.sort_unstable();
        names
    }

    async fn end(self) {
        self.factory.shutdown().await;
        assert_eq!(self.factory.task_count(), 0);
    }
}

/// A first run, whose cache of `names` is on disk when it ends.
async fn first_run(api: &TestServer, dir: &TempDir, names: &[&str]) {
    for name in names {
        api.create(&config_map(name, "1")).await.unwrap();
    }
    let mut run = Run::of(api.client(), DiskCache::in_dir(dir.path()));
    let heard = run.heard().await;
    assert!(heard.iter().all(|line| line.starts_with("initial")));
    run.end().await;
}

async fn update(api: &TestServer, name: &str, value: &str) {
    let mut map: ConfigMap = api.get(&format!("default/{name}")).await.unwrap().unwrap();
    map.data = Some([("key".to_owned(), value.to_owned())].into());
    let maps: kube_client::Api<ConfigMap> = kube_client::Api::namespaced(api.client(), "default");
    maps.replace(name, &Default::default(), &map).await.unwrap();
}

/// The lists that a server was asked for, but for those of one item, and streaming lists.
fn lists(server: &Server) -> Vec<String> {
    let records = server.journal().records();
    let is_list = |record: &&kinform_apiserver::Record| {
        record.resource == "configmaps"
            && (record.verb == "list"
                && !record.query.contains("limit=1&")
                && !record.query.ends_with("limit=1")
                || record.query.contains("sendInitialEvents=true"))
    };
    records
        .iter()
        .filter(is_list)
        .map(|record| record.query.clone())
        .collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).map(|entries| entries.map(|entry| entry.unwrap().path()));
    entries.map(Iterator::collect).unwrap_or_default()
}

fn client_of(server: &Server) -> impl Future<Output = Client> + use<> {
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    async move {
        let options = KubeConfigOptions::default();
        let config = kube_client::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        client_for(config.unwrap(), &ClientOptions::default()).unwrap()
    }
}

#[tokio::test]
async fn w4_a_second_start_lists_nothing_and_hears_what_changed_meanwhile() {
    let (api, dir) = (server().await, TempDir::new().unwrap());
    first_run(&api, &dir, &["a", "b", "c"]).await;
    update(&api, "a", "2").await;
    api.delete::<ConfigMap>("default/b").await.unwrap();
    api.create(&config_map("d", "1")).await.unwrap();
    api.server().journal().clear();
    let mut run = Run::of(api.client(), DiskCache::in_dir(dir.path()));
    let heard = run.heard().await;
    assert_eq!(
        heard,
        [
            "initial a",
            "initial b",
            "initial c",
            "add d",
            "delete b",
            "update a"
        ]
    );
    assert_eq!(run.names(), ["a", "c", "d"]);
    assert_eq!(lists(api.server()), Vec::<String>::new());
    let stats = run.maps.stats();
    assert_eq!((stats.lists, stats.resumed, stats.relists), (0, 1, 0));
    // It follows the server, as after a list.
    api.create(&config_map("e", "1")).await.unwrap();
    let next = tokio::time::timeout(SOON, run.changes.next())
        .await
        .unwrap();
    assert!(matches!(next, Some(Notification::Added(added)) if added.name() == "e"));
    run.end().await;

    // And once more: nothing changed, and nothing but initial objects is heard.
    let mut run = Run::of(api.client(), DiskCache::in_dir(dir.path()));
    let heard = run.heard().await;
    assert_eq!(heard, ["initial a", "initial c", "initial d", "initial e"]);
    assert_eq!(lists(api.server()), Vec::<String>::new());
    run.end().await;
    api.stop().await;
}

#[tokio::test]
async fn a_version_that_the_server_forgot_is_a_list_and_heard_as_differences() {
    let (api, dir) = (server().await, TempDir::new().unwrap());
    first_run(&api, &dir, &["a", "b", "c"]).await;
    api.delete::<ConfigMap>("default/a").await.unwrap();
    update(&api, "b", "2").await;
    api.expire_history();
    api.server().journal().clear();
    let mut run = Run::of(api.client(), DiskCache::in_dir(dir.path()));
    let heard = run.heard().await;
    assert_eq!(
        heard,
        [
            "initial a",
            "initial b",
            "initial c",
            "delete a",
            "update b"
        ]
    );
    assert_eq!(lists(api.server()).len(), 1);
    assert_eq!(run.names(), ["b", "c"]);
    run.end().await;
    api.stop().await;
}

#[tokio::test]
async fn a_server_that_was_restored_and_has_written_on_is_listed() {
    let (api, dir) = (server().await, TempDir::new().unwrap());
    for name in ["a", "b"] {
        api.create(&config_map(name, "1")).await.unwrap();
    }
    let backup = api.server().backup();
    first_run(&api, &dir, &["c", "d"]).await;
    update(&api, "a", "lost").await;
    api.stop().await;
    // Its version passes that of the snapshot again, with another history.
    let restored = Server::builder()
        .state(backup)
        .bookmark_period(Duration::from_millis(50));
    let restored = restored.start().await.unwrap();
    let client = client_of(&restored).await;
    let maps: kube_client::Api<ConfigMap> = kube_client::Api::namespaced(client.clone(), "default");
    for number in 0..40 {
        let map = config_map(&format!("x{number}"), "1");
        maps.create(&Default::default(), &map).await.unwrap();
    }
    let mut run = Run::of(client, DiskCache::in_dir(dir.path()));
    let heard = run.heard().await;
    let deleted: Vec<_> = heard
        .iter()
        .filter(|line| line.starts_with("delete"))
        .collect();
    assert_eq!(deleted, ["delete c", "delete d"]);
    assert_eq!(run.names().len(), 42);
    assert_eq!(run.maps.stats().resumed, 0);
    run.end().await;
    let _ = restored.stop().await;
}

#[tokio::test]
async fn a_damaged_file_or_one_of_something_else_is_refused_with_a_reason() {
    let (api, dir) = (server().await, TempDir::new().unwrap());
    first_run(&api, &dir, &["a"]).await;
    let [file] = &files(dir.path())[..] else {
        panic!("one file: {:?}", files(dir.path()))
    };
    let good = fs::read(file).unwrap();
    let disk = || DiskCache::in_dir(dir.path());
    let torn = good[..good.len() - 3].to_vec();
    let mut changed = good.clone();
    changed[40] ^= 1;
    let cases = [
        (torn, disk(), "the snapshot is damaged: it has no end"),
        (
            changed,
            disk(),
            "the snapshot is damaged: it has a frame whose checksum is another",
        ),
        (b"PodList".to_vec(), disk(), "the file is no snapshot"),
        (
            good.clone(),
            disk().cluster("other"),
            "the snapshot is of another cluster",
        ),
        (
            good.clone(),
            disk().user("other"),
            "the snapshot is of another user",
        ),
    ];
    for (bytes, disk, expected) in cases {
        fs::write(file, bytes).unwrap();
        let mut run = Run::of(api.client(), disk);
        assert_eq!(run.refused().await, expected);
        assert_eq!(run.heard().await, ["initial a"]);
        run.end().await;
    }
    // A whole file of an earlier time is a good one.
    fs::write(file, good).unwrap();
    let mut run = Run::of(api.client(), DiskCache::in_dir(dir.path()));
    let resumed = run.reported(|event| match event {
        ReportEvent::Resumed { .. } => Some("resumed".to_owned()),
        ReportEvent::Listed { relist, .. } => Some(format!("{relist:?}")),
        _ => None,
    });
    assert_eq!(resumed.await, "resumed");
    assert_eq!(run.heard().await, ["initial a"]);
    run.end().await;
    api.stop().await;
}

#[tokio::test]
async fn a_cache_without_its_server_can_be_read_and_says_that_it_is_stale() {
    let (api, dir) = (server().await, TempDir::new().unwrap());
    let disk = || DiskCache::in_dir(dir.path()).cluster("test").user("me");
    api.create(&config_map("a", "1")).await.unwrap();
    let mut run = Run::of(api.client(), disk());
    run.heard().await;
    run.end().await;
    let client = api.client();
    api.stop().await;
    let mut run = Run::of(client, disk());
    let restored = run.reported(|event| match event {
        ReportEvent::Restored { objects, .. } => Some(objects.to_string()),
        _ => None,
    });
    assert_eq!(restored.await, "1");
    let state = run.reported(|event| match event {
        ReportEvent::State(InformerState::Stale { .. }) => Some("stale".to_owned()),
        _ => None,
    });
    state.await;
    assert_eq!(run.names(), ["a"]);
    assert!(!run.maps.has_synced());
    run.end().await;
}

#[tokio::test]
async fn secrets_are_never_written() {
    let (api, dir) = (server().await, TempDir::new().unwrap());
    let canary = "c4n4ry-in-a-secret";
    let mut secret = Secret::default();
    secret.metadata.name = Some("s".to_owned());
    secret.metadata.namespace = Some("default".to_owned());
    secret.string_data = Some([("key".to_owned(), canary.to_owned())].into());
    secret.metadata.annotations = Some([("note".to_owned(), canary.to_owned())].into());
    api.create(&secret).await.unwrap();
    let disk = DiskCache::in_dir(dir.path());
    let factory = InformerFactory::builder(api.client())
        .disk_cache(disk)
        .build();
    factory.informer::<Secret>();
    factory
        .select(Target::<Secret>::new())
        .metadata_only()
        .build();
    factory.informer::<ConfigMap>();
    factory.start().unwrap();
    factory.synced_within(SOON).await.unwrap();
    factory.shutdown().await;
    let files = files(dir.path());
    let names: Vec<_> = files
        .iter()
        .filter_map(|file| file.file_name()?.to_str())
        .collect();
    assert!(
        names.iter().all(|name| name.starts_with("configmaps-")),
        "{names:?}"
    );
    api.stop().await;
}

#[tokio::test]
async fn a_cache_larger_than_it_may_be_is_not_read_and_an_empty_one_has_no_file() {
    let (api, dir) = (server().await, TempDir::new().unwrap());
    first_run(&api, &dir, &["a", "b"]).await;
    let limits = CacheLimits {
        objects: 1,
        ..CacheLimits::default()
    };
    let options = ReflectorOptions::new().with_cache_limits(limits);
    let disk = DiskCache::in_dir(dir.path());
    let factory = InformerFactory::builder(api.client()).reflector(options);
    let factory = factory.disk_cache(disk).build();
    let maps = factory
        .select(Target::<ConfigMap>::new())
        .namespaces(["default"])
        .build();
    let reports = maps.reports();
    factory.start().unwrap();
    let refused = reports.filter_map(|report| {
        std::future::ready(match report.event {
            ReportEvent::SnapshotRefused { reason } => Some(reason),
            _ => None,
        })
    });
    let refused = tokio::time::timeout(SOON, std::pin::pin!(refused).next()).await;
    assert_eq!(
        refused.unwrap().unwrap(),
        "the snapshot is larger than the cache may be"
    );
    factory.shutdown().await;

    let names = ["a", "b", "kube-root-ca.crt"];
    for name in names {
        let _ = api.delete::<ConfigMap>(&format!("default/{name}")).await;
    }
    let mut run = Run::of(api.client(), DiskCache::in_dir(dir.path()));
    run.heard().await;
    let is_empty = run.names().is_empty();
    run.end().await;
    assert_eq!(files(dir.path()).is_empty(), is_empty);
    api.stop().await;
}

#[tokio::test]
async fn the_sources_of_a_program_are_not_written() {
    let (source, script) = kinform_testkit::scripted(crate::fixture::pods());
    let dir = TempDir::new().unwrap();
    let disk = DiskCache::in_dir(dir.path()).cluster("c").user("u");
    let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _);
    let factory = factory.disk_cache(disk).build();
    let pods = factory.informer::<k8s_openapi::api::core::v1::Pod>();
    factory.start().unwrap();
    let mut script = script;
    let pod = crate::fixture::pod("a", 5, "n");
    let _watch = crate::fixture::first_list(&mut script, &[pod], 7).await;
    pods.synced().await.unwrap();
    factory.shutdown().await;
    assert!(files(dir.path()).is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn files_belong_to_their_owner_and_are_written_while_it_runs() {
    use std::os::unix::fs::PermissionsExt;
    let (api, dir) = (server().await, TempDir::new().unwrap());
    api.create(&config_map("a", "1")).await.unwrap();
    let inner = dir.path().join("caches");
    let disk = DiskCache::in_dir(&inner).period(Duration::from_secs(1));
    let mut run = Run::of(api.client(), disk);
    run.heard().await;
    let begun = std::time::Instant::now();
    while files(&inner)
        .iter()
        .all(|file| file.extension() != Some("snapshot".as_ref()))
    {
        assert!(begun.elapsed() < SOON, "it is written every second");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&inner), 0o700);
    assert!(files(&inner).iter().all(|file| mode(file) == 0o600));
    // A folder that cannot be written costs a report.
    fs::remove_dir_all(&inner).unwrap();
    fs::write(&inner, "a file").unwrap();
    api.create(&config_map("b", "1")).await.unwrap();
    let failed = run.reported(|event| match event {
        ReportEvent::SnapshotFailed { reason } => Some(reason.clone()),
        _ => None,
    });
    assert!(failed.await.contains("caches/configmaps-"));
    run.end().await;
    api.stop().await;
}
