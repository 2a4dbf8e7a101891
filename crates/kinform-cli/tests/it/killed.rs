//! `serve --data-dir` and `kill -9` at random moments, under 32 writers and a watch.
//!
//! ```text
//! serve ──▶ writers, watch ──kill -9──▶ serve again ──▶ list and resumed watch = what was told
//! ```
//!
//! Each writer has keys of its own and one request at a time, so a key's state after a kill is the
//! acknowledged one, or that of the one request that was under way. A watch that is resumed where
//! the earlier one began has to repeat it.
//!
//! `KINFORM_KILLS=100` makes more rounds, `KINFORM_SEED=<seed>` repeats the dice of a failed run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use http_body_util::BodyDataStream;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::sync::Notify;

use crate::command::{kinform, outcome};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 32;
const KEYS: usize = 4;

/// The version of each object that is there.
type Objects = BTreeMap<String, u64>;

/// An event of a watch: its type, the object's name, and its version.
type Heard = (String, String, u64);

/// The answers that clients got.
#[derive(Debug, Default)]
struct Told {
    /// Objects as the last acknowledged write of each left them.
    objects: Objects,
    /// Keys whose last request has no answer. `None`: it was a delete.
    open: BTreeMap<String, Option<String>>,
    /// The highest version of an answer or an event.
    highest: u64,
    acknowledged: usize,
}

/// The time in which a write must be acknowledged, on whatever machine.
const SOON: Duration = Duration::from_secs(60);

/// A running server.
struct Served {
    child: Child,
    client: Client,
    config: String,
}

impl Served {
    async fn start(folder: &Path, flags: &[&str]) -> Self {
        let path = folder.join("kubeconfig");
        let _ = std::fs::remove_file(&path);
        let data = folder.join("data");
        let (data, kubeconfig) = (data.to_str().unwrap(), path.to_str().unwrap());
        let words = [
            "serve",
            "--http",
            "--data-dir",
            data,
            "--write-kubeconfig",
            kubeconfig,
        ];
        let mut child = kinform(None, &[&words, flags].concat())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("serving on") {
                break;
            }
        }
        let config = std::fs::read_to_string(&path).expect("it serves");
        let parsed = Kubeconfig::from_yaml(&config).unwrap();
        let options = KubeConfigOptions::default();
        let of_client = Config::from_custom_kubeconfig(parsed, &options)
            .await
            .unwrap();
        Self {
            child,
            client: Client::try_from(of_client).unwrap(),
            config,
        }
    }

    async fn kill(mut self) {
        // `kill` is SIGKILL.
        self.child.kill().await.unwrap();
    }
}

fn request(method: &str, path: &str, body: &Value) -> http::Request<Vec<u8>> {
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into()
    };
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    request.body(body).unwrap()
}

fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap();
    text.parse().unwrap()
}

/// The objects of a list, and its version.
async fn list(client: &Client) -> (Objects, u64) {
    let list: Value = client
        .request(request("GET", MAPS, &Value::Null))
        .await
        .unwrap();
    let items = list["items"].as_array().unwrap();
    let named = items.iter().map(|it| {
        let name = it["metadata"]["name"].as_str().unwrap().to_owned();
        // An object that is there is there with all its content.
        assert_eq!(it["data"]["name"], name, "{it}");
        (name, version(it))
    });
    (named.collect(), version(&list))
}

/// Writes to keys of its own until the server is gone.
async fn write(
    client: Client,
    (told, acknowledged): (Arc<Mutex<Told>>, Arc<Notify>),
    writer: usize,
    seed: u64,
) {
    let mut dice = SmallRng::seed_from_u64(seed);
    loop {
        let name = format!("w{writer:02}-{}", dice.random_range(0..KEYS));
        let is_there = told.lock().unwrap().objects.contains_key(&name);
        let mark = format!("{:016x}", dice.random::<u64>());
        let object = json!({"metadata": {"name": name}, "data": {"mark": mark, "name": name,
            "fill": "x".repeat(dice.random_range(0..600))}});
        let path = format!("{MAPS}/{name}");
        let is_delete = is_there && dice.random_bool(0.3);
        let request = match (is_there, is_delete) {
            (_, true) => request("DELETE", &path, &Value::Null),
            (true, _) => request("PUT", &path, &object),
            (false, _) => request("POST", MAPS, &object),
        };
        told.lock()
            .unwrap()
            .open
            .insert(name.clone(), (!is_delete).then_some(mark));
        let done = tokio::time::timeout(SOON, client.request::<Value>(request)).await;
        let answer = match done {
            Ok(Ok(answer)) => answer,
            Ok(Err(kube_client::Error::Api(status))) => panic!("{status:?}"),
            // The server is gone. A request that has no answer by now will have none.
            Ok(Err(_)) | Err(_) => return,
        };
        let mut told = told.lock().unwrap();
        told.open.remove(&name);
        told.acknowledged += 1;
        acknowledged.notify_one();
        match is_delete {
            true => drop(told.objects.remove(&name)),
            false => {
                let version = version(&answer);
                told.highest = told.highest.max(version);
                told.objects.insert(name, version);
            }
        }
    }
}

/// Hears the events after a version until the watch ends.
async fn watch(client: Client, after: u64, seconds: u64) -> Result<Vec<Heard>, u16> {
    let path = format!("{MAPS}?watch=true&resourceVersion={after}&timeoutSeconds={seconds}");
    let request = http::Request::get(path).body(kube_client::client::Body::empty());
    // The server may be gone before it answers.
    let Ok(reply) = client.send(request.unwrap()).await else {
        return Ok(Vec::new());
    };
    let mut stream = BodyDataStream::new(reply.into_body());
    let mut bytes = Vec::new();
    while let Some(Ok(chunk)) = stream.next().await {
        bytes.extend_from_slice(&chunk);
    }
    let mut heard = Vec::new();
    // An event that the kill cut off was not heard.
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else {
            break;
        };
        let event: Value = serde_json::from_slice(line).unwrap();
        let kind = event["type"].as_str().unwrap();
        if kind == "ERROR" {
            return Err(event["object"]["code"]
                .as_u64()
                .unwrap()
                .try_into()
                .unwrap());
        }
        let name = event["object"]["metadata"]["name"].as_str().unwrap();
        heard.push((kind.to_owned(), name.to_owned(), version(&event["object"])));
    }
    Ok(heard)
}

/// Compares what is there after a kill with what clients were told, and continues from there.
async fn compare(
    served: &Served,
    told: &mut Told,
    (before, start): (&Objects, u64),
    heard: &[Heard],
) -> Objects {
    let (there, version) = list(&served.client).await;
    assert!(
        version >= told.highest,
        "{version} is below {}",
        told.highest
    );
    let keys: std::collections::BTreeSet<&String> =
        there.keys().chain(told.objects.keys()).collect();
    for key in keys {
        let (is, was) = (there.get(key), told.objects.get(key));
        if is != was {
            let open = told.open.get(key);
            assert!(
                open.is_some(),
                "{key} is {is:?}, and {was:?} was acknowledged"
            );
            assert_eq!(is.is_none(), open == Some(&None), "{key} is half there");
            assert!(is.is_none_or(|is| Some(is) > was), "{key} went back");
        }
    }
    match watch(served.client.clone(), start, 1).await {
        // The history does not reach back.
        Err(code) => assert_eq!(code, 410),
        Ok(again) => {
            assert!(again.starts_with(heard), "a watch heard what is not there");
            assert!(again.is_sorted_by_key(|(.., version)| *version));
            let mut objects = before.clone();
            for (kind, name, version) in again {
                match &*kind {
                    "DELETED" => drop(objects.remove(&name)),
                    _ => drop(objects.insert(name, version)),
                }
            }
            assert_eq!(objects, there, "the resumed watch leads elsewhere");
        }
    }
    told.objects.clone_from(&there);
    told.open.clear();
    told.highest = told.highest.max(version);
    there
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

// fault: F30
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_has_every_acknowledged_write_when_it_starts_again() {
    let rounds = number("KINFORM_KILLS").unwrap_or(5);
    let seed = number("KINFORM_SEED").unwrap_or_else(rand::random);
    println!("{rounds} rounds, KINFORM_SEED={seed}");
    let mut dice = SmallRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let told = Arc::new(Mutex::new(Told::default()));
    let acknowledged = Arc::new(Notify::new());
    let (mut heard, mut start, mut before) = (Vec::new(), None, Objects::new());
    let mut token = None;
    for round in 0..=rounds {
        // A short history makes the file lose versions while it is written.
        let history = if dice.random_bool(0.3) {
            "300"
        } else {
            "100000"
        };
        let mut flags = vec!["--history", history];
        if dice.random_bool(0.5) {
            flags.push("--fsync=false");
        }
        let served = Served::start(folder.path(), &flags).await;
        let credential = served.config.lines().find(|line| line.contains("token:"));
        assert_eq!(
            *token.get_or_insert_with(|| credential.map(str::to_owned)),
            credential.map(str::to_owned)
        );
        if let Some(start) = start {
            let mut now = std::mem::take(&mut *told.lock().unwrap());
            before = compare(&served, &mut now, (&before, start), &heard).await;
            *told.lock().unwrap() = now;
        }
        if round == rounds {
            let told = told.lock().unwrap();
            println!(
                "{} acknowledged writes, version {}",
                told.acknowledged, told.highest
            );
            assert!(told.acknowledged > 0);
            break;
        }
        let from = list(&served.client).await.1;
        start = Some(from);
        let hears = tokio::spawn(watch(served.client.clone(), from, 600));
        let writers = (0..WRITERS).map(|writer| {
            let notes = (told.clone(), acknowledged.clone());
            let task = write(served.client.clone(), notes, writer, dice.random());
            tokio::spawn(task)
        });
        let writers: Vec<_> = writers.collect();
        // Any moment: after some writes of this life.
        for _ in 0..dice.random_range(1..400) {
            let one = tokio::time::timeout(SOON, acknowledged.notified()).await;
            one.expect("a write is acknowledged");
        }
        served.kill().await;
        for writer in writers {
            writer.await.unwrap();
        }
        // A short history may have lost the beginning before the watch came.
        let hears = tokio::time::timeout(SOON, hears).await;
        let hears = hears.expect("a watch ends with its server");
        heard = hears.unwrap().unwrap_or_default();
        let last = heard.last().map_or(0, |(.., version)| *version);
        let mut told = told.lock().unwrap();
        told.highest = told.highest.max(last);
    }
}

#[tokio::test]
async fn a_folder_belongs_to_one_server_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &[]).await;
    let data: PathBuf = folder.path().join("data");
    let words = ["serve", "--data-dir", data.to_str().unwrap(), "--", "true"];
    let (code, stdout, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!((code, &*stdout), (1, ""));
    assert!(stderr.contains("another process uses it"), "{stderr}");
    assert_eq!(stderr.lines().count(), 2, "one line and a hint: {stderr}");
    served.kill().await;
    let (code, _, stderr) = outcome(kinform(None, &words)).await;
    assert_eq!(code, 0, "{stderr}");
    use std::os::unix::fs::PermissionsExt as _;
    for file in std::fs::read_dir(&data).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?}", file.file_name());
    }
}

#[tokio::test]
async fn what_was_loaded_is_there_and_loading_it_again_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    std::fs::write(
        &file,
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    )
    .unwrap();
    let data = folder.path().join("data");
    let this = env!("CARGO_BIN_EXE_kinform");
    let command = [
        "--",
        this,
        "get",
        "cm",
        "-o",
        "jsonpath={.items[*].metadata.uid}",
    ];
    let flags = [
        "serve",
        "--data-dir",
        data.to_str().unwrap(),
        "--load",
        file.to_str().unwrap(),
    ];
    let words = [&flags[..], &command].concat();
    let first = outcome(kinform(None, &words)).await;
    assert_eq!((first.0, first.1.len()), (0, 36), "{}", first.2);
    let second = outcome(kinform(None, &words)).await;
    assert_eq!((second.0, second.1), (0, first.1), "{}", second.2);
}
