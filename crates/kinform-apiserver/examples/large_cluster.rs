//! Measures the server with a large cluster: seeds it, lists it once in process and prints the
//! cost.
//!
//! `cargo run --release -p kinform-apiserver --example large_cluster -- 100000`

use std::time::Instant;

use bytes::Bytes;
use futures::StreamExt;
use kinform_apiserver::{Seed, Server};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the numbers are what it is for")]
async fn main() {
    let pods = std::env::args()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(100_000);
    let server = Server::builder().in_process();
    let before = resident_bytes();
    let started = Instant::now();
    server.seed(Seed {
        seed: 1,
        nodes: 100,
        deployments: 600,
        pods,
    });
    let seeded = started.elapsed();
    let held = resident_bytes().saturating_sub(before);
    let stored: usize = server
        .objects("pods")
        .iter()
        .map(|pod| pod.bytes().len())
        .sum();

    let started = Instant::now();
    let request = http::Request::get("/api/v1/pods").body(Bytes::new());
    let Ok(request) = request else {
        return;
    };
    let mut body = server.service().call(request).await.into_body();
    let (mut bytes, mut largest) = (0, 0);
    while let Some(Ok(chunk)) = body.next().await {
        bytes += chunk.len();
        largest = largest.max(chunk.len());
    }
    println!(
        "{}",
        serde_json::json!({
            "pods": pods,
            "seedSeconds": seeded.as_secs_f64(),
            "storedBytes": stored,
            "heldBytes": held,
            "listSeconds": started.elapsed().as_secs_f64(),
            "listBytes": bytes,
            "largestChunkBytes": largest,
            "bytesAfterList": resident_bytes().saturating_sub(before),
        })
    );
}

/// The resident memory of this process in bytes; 0 if the kernel does not report it.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kilobytes
        .and_then(|text| text.trim().parse::<usize>().ok())
        .unwrap_or_default()
        * 1024
}
