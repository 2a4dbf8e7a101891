//! The memory and the tasks that lost terms leave:
//! `cargo run --release -p kinform-operator --example losses`.
//!
//! ```text
//! TestServer in process, paused time ◀── one replica: wins, loses, is idle, 200 + 3 × 1,000 times
//! ```
//!
//! The resident memory is that of the process, so it includes the server's; its journal and its
//! history are cleared before each figure.

#![expect(clippy::print_stdout, reason = "it prints what it measured")]

use std::error::Error;

use kinform_operator::leader::LeaderElection;
use kinform_testkit::TestServer;
use serde_json::{Value, json};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/operator";
/// Losses before the first figure: allocators and buffers have their size then.
const WARM_UP: u32 = 200;
const LOSSES: u32 = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    tokio::time::pause();
    let api = TestServer::start().in_process().await?;
    let election = LeaderElection::new("default", "operator").identity("a");
    let leadership = election.start_here(api.client())?;
    let mut term = leadership.won().await?;
    let mut lost = 0;
    for round in [WARM_UP, LOSSES, LOSSES, LOSSES] {
        for _ in 0..round {
            edit(&api).await?;
            leadership.lost(&term).await;
            leadership.idle();
            term = leadership.won().await?;
        }
        lost += round;
        api.server().journal().clear();
        api.expire_history();
        let tasks = tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks();
        println!(
            "after {lost} losses: {tasks} tasks, {} KiB resident",
            resident()?
        );
    }
    leadership.stop().await;
    Ok(())
}

/// Another client writes into the lease: the term ends at once.
async fn edit(api: &TestServer) -> Outcome {
    let client = api.client();
    let mut lease: Value = client
        .request(http::Request::get(LEASE).body(Vec::new())?)
        .await?;
    lease["spec"]["acquireTime"] = json!(null);
    let request = http::Request::put(LEASE).header("content-type", "application/json");
    let _: Value = client
        .request(request.body(lease.to_string().into_bytes())?)
        .await?;
    Ok(())
}

fn resident() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no figure of the kernel")?.parse()?)
}
