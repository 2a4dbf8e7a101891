//! The cost of a pod in each encoding: `cargo run --release -p kinform-core --example encodings`.
//!
//! ```text
//! recorded lists (JSON, protobuf) → split, check, keep | typed view → microseconds and bytes a pod
//! ```
//!
//! The recorded list is read again and again in chunks of 64 KiB. Each figure is the least of all
//! rounds, which other work on the machine disturbs least.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints figures, or breaks"
)]

use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kinform_api::TypeMeta;
use kinform_core::{Encoding, ListPart, ListReader, Object, Projection, TypedCache};
use serde_json::Value;

const ROUNDS: usize = 40;

/// The recorded body of this name.
fn body(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden/list.jsonl.gz");
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let line = lines.into_iter().find(|line| line["file"] == name).unwrap();
    match line["bodyBase64"].as_str() {
        Some(base64) => unbase64(base64),
        None => line["body"].as_str().unwrap().as_bytes().to_vec(),
    }
}

fn unbase64(text: &str) -> Vec<u8> {
    let mut decoder = Command::new("base64")
        .arg("-d")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = decoder.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || std::io::Write::write_all(&mut stdin, text.as_bytes()).unwrap());
        let mut bytes = Vec::new();
        let mut stdout = decoder.stdout.take().unwrap();
        stdout.read_to_end(&mut bytes).unwrap();
        decoder.wait().unwrap();
        bytes
    })
}

fn sync(encoding: Encoding, body: &[u8]) -> Vec<Object> {
    let mut objects = Vec::new();
    let mut reader = ListReader::new(encoding);
    for chunk in body.chunks(64 << 10) {
        let fed = reader.feed(chunk, &mut |part| {
            if let ListPart::Item(item) = part {
                objects.push(Object::from_item(&item, &Projection::new()).unwrap());
            }
        });
        fed.unwrap();
    }
    reader.finish().unwrap();
    objects
}

fn least(mut work: impl FnMut()) -> Duration {
    let rounds = (0..ROUNDS).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed()
    });
    rounds.min().unwrap()
}

fn main() {
    let meta = TypeMeta {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
    };
    for (encoding, name) in [
        (Encoding::Json, "list/pods.json"),
        (Encoding::Protobuf, "list/pods.pb"),
    ] {
        let body = body(name);
        let objects = sync(encoding, &body);
        let count = objects.len();
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
        let kept: usize = objects.iter().map(Object::heap_size).sum();
        println!(
            "{encoding:?}: {count} pods, {} bytes a pod on the wire, {} kept",
            body.len() / count,
            kept / count
        );
        let synced = least(|| drop(black_box(sync(encoding, &body))));
        println!("  split, check, keep {:6.2} us a pod", each(synced));
        let typed = least(|| {
            for object in &objects {
                black_box(object.typed::<Pod>(&meta, TypedCache::Never).unwrap());
            }
        });
        println!("  typed as Pod       {:6.2} us a pod", each(typed));
        let value = least(|| {
            for object in &objects {
                black_box(object.typed::<Value>(&meta, TypedCache::Never).unwrap());
            }
        });
        println!("  typed as Value     {:6.2} us a pod", each(value));
        let path = "spec.nodeName".parse().unwrap();
        let read = least(|| {
            for object in &objects {
                black_box(object.at(&path));
            }
        });
        println!("  spec.nodeName      {:6.2} us a pod", each(read));
    }
}
