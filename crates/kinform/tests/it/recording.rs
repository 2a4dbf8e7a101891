//! A recorded informer's notifications come again from the recording.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kinform::env::Env;
use kinform::recording::{Pace, Recorder, ReplaySource, ReplayState};
use kinform::source::{HttpSource, ListerWatcher, Wire};
use kinform::{
    GroupVersionResource, Handlers, Informer, InformerFactory, InformerStats, ResourceInfo, Scope,
};
use kinform_apiserver::Server;
use kinform_core::recording::{DIGEST_PREFIX, Reading, Recording, StepKind};
use kinform_testkit::checks::writer::Writer;
use kinform_testkit::{Ask, Link, Request, Script, Sending, SourceError, scripted, status_error};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fixture::{first_list, pod, pods, settle};

const CANARY: &str = "dGhlLWNhbmFyeS1pbi10aGUtY29hbA==";

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn recording(&self) -> Recording {
        let mut reading = Reading::new();
        reading.feed(&self.0.lock().unwrap()).unwrap();
        reading.finish().unwrap()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A disk that is full from the start.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The calls of a handler, whole objects as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn line(&self, word: &str, objects: &[&[u8]]) {
        let texts = objects.iter().map(|object| String::from_utf8_lossy(object));
        let line = format!("{word} {}", texts.collect::<Vec<_>>().join(" was "));
        self.0.lock().unwrap().push(line);
    }

    /// Returns the lines; objects that were stored at first come in no order that means anything.
    fn lines(&self) -> Vec<String> {
        let mut lines = self.0.lock().unwrap().clone();
        let initial = lines.iter().take_while(|line| line.starts_with("initial"));
        let initial = initial.count();
        lines[..initial].sort_unstable();
        lines
    }

    fn handlers<K: DeserializeOwned + Send + Sync + 'static>(&self) -> Handlers<K> {
        let (add, update, delete, sync) = (self.clone(), self.clone(), self.clone(), self.clone());
        Handlers::new()
            .on_add(move |added| {
                let word = if added.is_initial() { "initial" } else { "add" };
                add.line(word, &[&added.to_json()]);
            })
            .on_update(move |old, new| update.line("update", &[&new.to_json(), &old.to_json()]))
            .on_delete(move |deleted| {
                let word = match deleted.is_final_state_unknown() {
                    true => "lost",
                    false => "delete",
                };
                delete.line(word, &[&deleted.to_json()]);
            })
            .on_synced(move || sync.line("synced", &[]))
    }
}

/// An informer over a source, and what its handler hears.
struct Listening<K> {
    factory: InformerFactory,
    informer: Informer<K>,
    log: Log,
}

fn listen<K>(source: Arc<dyn ListerWatcher>) -> Listening<K>
where
    K: kube_core::Resource + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default,
{
    listen_by(source, Env::seeded(7))
}

/// The same, by another clock.
fn listen_by<K>(source: Arc<dyn ListerWatcher>, env: Env) -> Listening<K>
where
    K: kube_core::Resource + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default,
{
    let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _)
        .env(env)
        .build();
    let (informer, log) = (factory.informer::<K>(), Log::default());
    informer.add_handler(log.handlers()).unwrap();
    factory.start().unwrap();
    Listening {
        factory,
        informer,
        log,
    }
}

/// The notifications and counters of a replay, at a pace and a speed of the clock.
async fn replayed<K>(
    recording: Recording,
    (pace, speed): (Pace, f64),
) -> (Vec<String>, InformerStats)
where
    K: kube_core::Resource + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default,
{
    let env = Env::seeded(7).with_speed(speed);
    let source = ReplaySource::new(recording)
        .with_pace(pace)
        .with_env(env.clone());
    let source = Arc::new(source);
    assert_eq!(source.stats().state, ReplayState::Waiting);
    let listening = listen_by::<K>(Arc::clone(&source) as _, env);
    source.ended().await;
    settle().await;
    let stats = source.stats();
    assert_eq!(stats.state, ReplayState::Ended);
    assert_eq!(stats.otherwise, 0, "at {speed}: {stats:?}");
    listening.factory.shutdown().await;
    (listening.log.lines(), listening.informer.stats())
}

/// A server that misbehaves at each request for a watch, and whose first relist breaks.
struct Bad {
    pods: Vec<Value>,
    version: u64,
    stage: usize,
    breaks: bool,
}

/// Lets a server's bad time pass: cuts, refusals, expired history, bookmarks, a list that breaks.
async fn trouble(script: &mut Script) {
    let mut bad = Bad {
        pods: vec![pod("a", 10, "n1"), pod("b", 11, "n1")],
        version: 12,
        stage: 0,
        breaks: false,
    };
    while bad.stage < 7 {
        let ask = script.next().await;
        match ask.request().clone() {
            Request::List(options) => bad.list(options.limit, ask),
            Request::Watch(options) => {
                let is_streaming = options.send_initial_events == Some(true);
                bad.watch(ask, is_streaming).await;
            }
        }
    }
}

impl Bad {
    fn list(&mut self, limit: Option<u32>, ask: Ask) {
        if std::mem::take(&mut self.breaks) {
            let list = ask.stream();
            list.send(r#"{"kind":"PodList","apiVersion":"v1","items":["#);
            return list.cut();
        }
        let most = limit.map_or(usize::MAX, |limit| limit as usize);
        let items: Vec<&Value> = self.pods.iter().take(most).collect();
        let metadata = json!({ "resourceVersion": self.version.to_string() });
        let list = json!({ "kind": "PodList", "apiVersion": "v1", "metadata": metadata,
            "items": items });
        ask.reply(list.to_string());
    }

    async fn watch(&mut self, ask: Ask, is_streaming: bool) {
        let refusal = match self.stage {
            1 => Some(status_error(500, "InternalError", "etcd is away")),
            3 => Some(status_error(410, "Expired", "too old resource version")),
            _ => None,
        };
        if let (Some(refusal), false) = (refusal, is_streaming) {
            return self.refuse(ask, refusal);
        }
        let watch = ask.stream();
        if is_streaming {
            if std::mem::take(&mut self.breaks) {
                return watch.cut();
            }
            self.pods.iter().for_each(|pod| watch.event("ADDED", pod));
            watch.initial_events_end("Pod", &self.version.to_string());
        }
        self.stage(watch).await;
    }

    fn refuse(&mut self, ask: Ask, refusal: SourceError) {
        if self.stage == 3 {
            // `a` is gone meanwhile, `c` is another one.
            let mut other = pod("c", 40, "n3");
            other["metadata"]["uid"] = json!("another");
            self.pods = vec![other, pod("d", 41, "n1")];
            (self.version, self.breaks) = (50, true);
        }
        self.stage += 1;
        ask.refuse(refusal);
    }

    async fn stage(&mut self, watch: Sending) {
        let pause = || tokio::time::sleep(Duration::from_secs(8));
        pause().await;
        match self.stage {
            0 => {
                watch.event("MODIFIED", &pod("a", 13, "n2"));
                watch.bookmark("Pod", "15");
                pause().await;
                // Half an event, then nothing.
                watch.send(r#"{"type":"DELETED","object":{"metadata":{"name":"b""#);
                watch.cut();
            }
            2 => {
                watch.event("DELETED", &pod("b", 16, "n1"));
                watch.event("ADDED", &pod("c", 17, "n1"));
                pause().await;
                watch.end();
            }
            4 => {
                watch.event("MODIFIED", &pod("d", 51, "n9"));
                watch.send("<html>a proxy</html>");
                settle().await;
            }
            5 => {
                self.pods = vec![pod("d", 60, "n9")];
                self.version = 70;
                watch.event("ERROR", &json!(kinform::Status::expired("gone")));
                watch.end();
            }
            6 => {
                watch.bookmark("Pod", "71");
                watch.event("ADDED", &pod("e", 72, "n1"));
                settle().await;
                // Open, until the informer ends.
                std::mem::forget(watch);
            }
            _ => return watch.end(),
        }
        self.stage += 1;
    }
}

async fn recorded_trouble() -> (Memory, Vec<String>, InformerStats) {
    let (source, mut script) = scripted(pods());
    let memory = Memory::default();
    let recorder = Recorder::to_writer(source, memory.clone()).unwrap();
    let recorder = Arc::new(recorder.with_env(Env::seeded(1)));
    let listening = listen::<Pod>(Arc::clone(&recorder) as _);
    trouble(&mut script).await;
    listening.factory.shutdown().await;
    let stats = recorder.finish().await.unwrap();
    assert_eq!((stats.gaps, stats.failure), (0, None));
    assert_eq!(stats.file_bytes as usize, memory.0.lock().unwrap().len());
    (memory, listening.log.lines(), listening.informer.stats())
}

#[tokio::test(start_paused = true)]
async fn a_bad_hour_replays_to_the_same_notifications() {
    let (memory, heard, stats) = recorded_trouble().await;
    assert!(heard.len() > 9, "{heard:#?}");
    for speed in [1.0, 0.5, 20.0] {
        let pace = (Pace::Recorded, speed);
        let (again, replayed) = replayed::<Pod>(memory.recording(), pace).await;
        assert_eq!(again, heard, "{speed}");
        let counts = (replayed.events, replayed.relists);
        assert_eq!(counts, (stats.events, stats.relists), "{speed}");
    }
}

/// A watch that is cut once, and goes on. An informer's own timeouts have no part in it.
#[tokio::test(start_paused = true)]
async fn a_calm_hour_replays_to_the_same_notifications_at_any_pace() {
    let (source, mut script) = scripted(pods());
    let memory = Memory::default();
    let recorder = Arc::new(Recorder::to_writer(source, memory.clone()).unwrap());
    let listening = listen::<Pod>(Arc::clone(&recorder) as _);
    let first = [pod("a", 10, "n1"), pod("b", 11, "n1")];
    let watch = first_list(&mut script, &first, 12).await;
    let pause = || tokio::time::sleep(Duration::from_secs(20));
    pause().await;
    watch.event("MODIFIED", &pod("a", 13, "n2"));
    watch.event("DELETED", &pod("b", 14, "n1"));
    pause().await;
    watch.end();
    let (_, ask) = script.next_watch().await;
    let watch = ask.stream();
    for version in 15..30 {
        watch.event("MODIFIED", &pod("a", version, "n3"));
        pause().await;
        watch.bookmark("Pod", &format!("{version}"));
    }
    settle().await;
    listening.factory.shutdown().await;
    recorder.finish().await.unwrap();
    let heard = listening.log.lines();
    assert_eq!(heard.len(), 2 + 1 + 2 + 15);
    for pace in [
        (Pace::Recorded, 1.0),
        (Pace::Recorded, 60.0),
        (Pace::AtOnce, 1.0),
    ] {
        let (again, _) = replayed::<Pod>(memory.recording(), pace).await;
        assert_eq!(again, heard, "{pace:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_takes_as_long_as_the_recording_and_then_waits() {
    let (memory, ..) = recorded_trouble().await;
    let recorded = memory.recording().length();
    for speed in [1.0, 60.0] {
        let env = Env::seeded(7).with_speed(speed);
        let source = ReplaySource::new(memory.recording()).with_env(env.clone());
        let source = Arc::new(source);
        let listening = listen_by::<Pod>(Arc::clone(&source) as _, env);
        let start = tokio::time::Instant::now();
        source.ended().await;
        let (taken, expected) = (start.elapsed(), recorded.div_f64(speed));
        let late = Duration::from_secs(5).div_f64(speed);
        assert!(
            taken + late > expected && taken < expected + late,
            "{speed}: {taken:?}"
        );
        let heard = listening.log.lines();
        tokio::time::sleep(Duration::from_secs(24 * 3_600)).await;
        let after = listening.log.lines();
        assert!(
            after.len() <= heard.len() + 1,
            "what was on its way, and no more"
        );
        listening.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_recording_that_was_cut_off_replays_up_to_there() {
    let (memory, heard, _) = recorded_trouble().await;
    let bytes = memory.0.lock().unwrap().clone();
    let mut reading = Reading::new();
    reading.feed(&bytes[..bytes.len() * 2 / 3]).unwrap();
    let recording = reading.finish().unwrap();
    assert_eq!(recording.damage(), Some("no end"));
    let source = Arc::new(ReplaySource::new(recording));
    let listening = listen::<Pod>(Arc::clone(&source) as _);
    source.ended().await;
    settle().await;
    let again = listening.log.lines();
    assert!(heard.starts_with(&again), "{again:#?}");
    listening.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fails_changes_nothing_for_the_informer() {
    let (_, expected, _) = recorded_trouble().await;
    let (source, mut script) = scripted(pods());
    let recorder = Arc::new(Recorder::to_writer(source, Full).unwrap());
    let listening = listen::<Pod>(Arc::clone(&recorder) as _);
    trouble(&mut script).await;
    listening.factory.shutdown().await;
    assert_eq!(listening.log.lines(), expected);
    let error = recorder.finish().await.unwrap_err().to_string();
    assert!(error.contains("could not be written"), "{error}");
}

fn info(resource: &str, kind: &str) -> ResourceInfo {
    let resource = GroupVersionResource::new("", "v1", resource);
    ResourceInfo::new(resource, kind, Scope::Namespaced)
}

#[tokio::test(start_paused = true)]
async fn the_hour_of_a_server_replays_the_same_whatever_it_spoke() {
    for wire in [Wire::Json, Wire::Auto] {
        let server = Server::builder().plain().in_process();
        let link = Link::new(server.service(), 7);
        let mut writer = Writer::new(Link::new(server.service(), 7).client(), 7);
        writer.namespaces().await.unwrap();
        writer.write(20).await.unwrap();
        let source =
            HttpSource::new(link.client(), info("configmaps", "ConfigMap")).with_wire(wire);
        let memory = Memory::default();
        let recorder = Recorder::to_writer(Arc::new(source), memory.clone()).unwrap();
        let recorder = Arc::new(recorder);
        let listening = listen::<ConfigMap>(Arc::clone(&recorder) as _);
        listening.informer.synced().await.unwrap();
        for round in 0..6 {
            writer.write(30).await.unwrap();
            settle().await;
            link.disconnect();
            writer.write(10).await.unwrap();
            if round % 2 == 0 {
                server.expire_history();
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
            link.connect(server.service());
            tokio::time::sleep(Duration::from_secs(90)).await;
        }
        let heard = values(&listening.log.lines());
        listening.factory.shutdown().await;
        recorder.finish().await.unwrap();
        assert!(heard.len() > 100 && listening.informer.stats().relists > 0);
        let (again, _) = replayed::<ConfigMap>(memory.recording(), (Pace::Recorded, 1.0)).await;
        assert_eq!(values(&again), heard, "{wire:?}");
    }
}

/// Objects as values: two encodings write the members in another order.
fn values(lines: &[String]) -> Vec<(String, Vec<Value>)> {
    let value = |text: &str| serde_json::from_str(text).unwrap_or_default();
    let line = |line: &String| {
        let (word, objects) = line.split_once(' ').unwrap();
        (word.to_owned(), objects.split(" was ").map(value).collect())
    };
    let mut lines: Vec<(String, Vec<Value>)> = lines.iter().map(line).collect();
    let initial = lines.iter().take_while(|line| line.0 == "initial").count();
    lines[..initial].sort_by_key(|line| line.1[0]["metadata"]["uid"].to_string());
    lines
}

#[tokio::test(start_paused = true)]
async fn no_value_of_a_secret_is_in_the_file_whatever_the_server_spoke() {
    for wire in [Wire::Json, Wire::Auto] {
        let server = Server::builder().plain().in_process();
        let client = Link::new(server.service(), 7).client();
        let applied = json!({ "data": { "password": CANARY } }).to_string();
        let secret = |version: usize| {
            json!({ "apiVersion": "v1", "kind": "Secret",
                "metadata": {
                    "name": "s", "namespace": "default", "uid": "u",
                    "annotations": {
                        "kubectl.kubernetes.io/last-applied-configuration": applied,
                        "tool": format!("{CANARY}"), "version": version.to_string(),
                    },
                },
                "data": { "password": CANARY, "token": CANARY }, "type": "Opaque" })
        };
        server.restore(secret(1)).unwrap();
        let source = HttpSource::new(client, info("secrets", "Secret")).with_wire(wire);
        let memory = Memory::default();
        let recorder = Recorder::to_writer(Arc::new(source), memory.clone()).unwrap();
        let recorder = Arc::new(recorder);
        let listening = listen::<Secret>(Arc::clone(&recorder) as _);
        listening.informer.synced().await.unwrap();
        server.restore(secret(2)).unwrap();
        settle().await;
        listening.factory.shutdown().await;
        assert!(listening.log.lines().concat().contains(CANARY));
        recorder.finish().await.unwrap();
        let recording = memory.recording();
        let mut bytes = memory.0.lock().unwrap().clone();
        bytes.extend((0..).map_while(|block| recording.block(block)).flatten());
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(DIGEST_PREFIX) && text.contains("\"resourceVersion\""));
        for part in [CANARY, &CANARY[..12], "the-canary", "c2FyeS1pb"] {
            assert!(!text.contains(part), "{wire:?}");
        }
        // A client reads it as a Secret, and equal values are equal.
        let source = Arc::new(ReplaySource::new(recording));
        let listening = listen::<Secret>(Arc::clone(&source) as _);
        source.ended().await;
        settle().await;
        let typed = listening.informer.list().typed().next().unwrap();
        let data = typed.data.as_ref().unwrap();
        assert_eq!(data["password"], data["token"]);
        listening.factory.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_no_json_is_recorded_up_to_there() {
    let (memory, ..) = recorded_trouble().await;
    let recording = memory.recording();
    let steps = recording.exchanges().iter().flat_map(|it| &it.answer);
    let withheld = steps.filter(|step| step.kind == StepKind::Withheld).count();
    assert_eq!(withheld, 1);
    let blocks: Vec<u8> = (0..).map_while(|n| recording.block(n)).flatten().collect();
    assert!(!String::from_utf8_lossy(&blocks).contains("a proxy"));
}

#[tokio::test]
async fn a_file_is_new_and_private_and_what_is_no_recording_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pods.kinrec");
    let (source, _script) = scripted(pods());
    let recorder = Recorder::create(Arc::clone(&source) as _, &path).unwrap();
    recorder.finish().await.unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let replay = ReplaySource::open(&path).await.unwrap();
    assert_eq!(replay.resource(), &pods());
    let twice = Recorder::create(source, &path).unwrap_err().to_string();
    assert!(twice.contains("exists"), "{twice}");
    std::fs::write(&path, "kind: PodList").unwrap();
    let error = ReplaySource::open(&path).await.unwrap_err().to_string();
    assert!(error.ends_with("the file is no recording"), "{error}");
    assert!(ReplaySource::open(dir.path()).await.is_err());
}
