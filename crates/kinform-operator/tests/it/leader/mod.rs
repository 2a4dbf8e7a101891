//! Leader election over its public interface.
//!
//! ```text
//! TestServer in process, paused time ◀─Link─ replica a, ◀─Link─ replica b      (each cut by itself)
//! ```

mod coordinated;
mod fence;
mod frozen;
mod guard;
mod loss;
mod rounds;
mod takeover;
mod thread;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kinform_operator::leader::{LeaderElection, Leadership, Term};
use kinform_testkit::{Link, TestServer};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

/// Longer than any take-over: a wait in vain is an error.
const PATIENCE: Duration = Duration::from_secs(120);
/// Enough for the lag of the watch, 5 ms, and for requests.
const AT_ONCE: Duration = Duration::from_millis(50);

/// A server in process.
async fn server() -> TestServer {
    TestServer::start().in_process().await.unwrap()
}

/// A replica with a network of its own.
struct Replica {
    link: Link,
    leadership: Leadership,
}

impl Replica {
    async fn won(&self) -> Term {
        let won = timeout(PATIENCE, self.leadership.won()).await;
        won.expect("it waits in vain").unwrap()
    }
}

fn election(identity: &str) -> LeaderElection {
    LeaderElection::new("default", "operator").identity(identity)
}

fn replica(api: &TestServer, identity: &str) -> Replica {
    let link = Link::new(api.server().service(), 1);
    let leadership = election(identity).start_here(link.client()).unwrap();
    Replica { link, leadership }
}

/// A replica that leads, and one that has seen it.
async fn leader_and_standby(api: &TestServer) -> (Replica, Replica) {
    let a = replica(api, "a");
    a.won().await;
    let b = replica(api, "b");
    sees_leader(&b.leadership, "a").await;
    (a, b)
}

/// Waits until a replica sees this leader.
async fn sees_leader(leadership: &Leadership, leader: &str) {
    until(|| leadership.leader().as_deref() == Some(leader)).await;
}

/// Waits until something holds, in steps of a millisecond.
async fn until(mut holds: impl FnMut() -> bool) {
    let waits = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, waits).await.expect("it waits in vain");
}

async fn lease(api: &TestServer) -> Value {
    let lease = api.get::<Lease>("default/operator").await.unwrap();
    serde_json::to_value(lease.expect("there is a lease")).unwrap()
}

/// Changes the lease by hand.
async fn edit(api: &TestServer, change: impl FnOnce(&mut Value)) {
    let mut object = lease(api).await;
    object["apiVersion"] = json!("coordination.k8s.io/v1");
    object["kind"] = json!("Lease");
    change(&mut object);
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/operator";
    let request = http::Request::put(path).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).unwrap();
    let _: Value = api.client().request(request).await.unwrap();
}

/// The virtual time that something takes.
async fn taking<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let begin = Instant::now();
    let done = timeout(PATIENCE, work).await.expect("it waits in vain");
    (begin.elapsed(), done)
}
