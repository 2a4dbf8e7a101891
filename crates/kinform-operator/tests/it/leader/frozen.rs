//! A thousand leaders that are frozen between the guard's look and the send.
//!
//! ```text
//! write ──fence, guard: a look──▶ freezer: sent later, whatever the guard does then ──▶ check ──▶ server
//! ```
//!
//! The freezer stands for a process that was stopped: what it sends after it wakes is not dropped by
//! its guard. The check is the policy's: it compares the stamp with the lease as it is on arrival.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::source::{Transport, client_through};
use kinform_operator::leader::{LeaseOptions, TERM_ANNOTATION};
use kinform_testkit::{Link, Network, ProxyMode, TestServer};
use kube_client::Client;
use kube_client::api::{Api, Patch, PatchParams};
use kube_client::client::Body;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::layer::layer_fn;
use tower::{BoxError, ServiceExt};

use super::{Replica, election, lease, server};

/// Leaders that are frozen.
const TRIALS: usize = 1_000;

/// The writes that arrived, by the number of their term.
#[derive(Clone, Default)]
struct Arrivals(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    newest: u64,
    effective: usize,
    refused: usize,
    /// Of an older term, after a write of a newer one.
    late: usize,
}

/// A frozen request that arrives: refused, as the policy does, or passed on.
async fn arrive(
    client: Client,
    next: Transport,
    request: Request<Body>,
    arrivals: Arrivals,
) -> Result<Response<kinform::source::TransportBody>, BoxError> {
    let (head, body) = request.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let object: Value = serde_json::from_slice(&bytes)?;
    let stamp = object["metadata"]["annotations"][TERM_ANNOTATION].as_str();
    let stamp = stamp.unwrap_or_default().to_owned();
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/operator";
    let current: Value = client.request(Request::get(path).body(Vec::new())?).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (meta, spec) = (&current["metadata"], &current["spec"]);
    let (uid, holder) = (text(&meta["uid"]), text(&spec["holderIdentity"]));
    let wanted = format!(
        "default/operator {uid} {} {holder}",
        spec["leaseTransitions"]
    );
    if stamp != wanted {
        arrivals.0.lock().unwrap().refused += 1;
        let why = format!("ValidatingAdmissionPolicy: {TERM_ANNOTATION} is {stamp}, not {wanted}");
        let resource = kinform::GroupResource::new("", "configmaps");
        let status = kinform::Status::forbidden(&resource, "beats", &why).to_json();
        let body = http_body_util::Full::new(status.into());
        let body = body.map_err(|never| match never {}).boxed_unsync();
        return Ok(Response::builder().status(403).body(body)?);
    }
    {
        let number: u64 = stamp.split(' ').nth(2).unwrap_or_default().parse()?;
        let mut counts = arrivals.0.lock().unwrap();
        counts.effective += 1;
        counts.late += usize::from(number < counts.newest);
        counts.newest = counts.newest.max(number);
    }
    next.oneshot(Request::from_parts(head, Body::from(bytes)))
        .await
}

/// A client whose requests arrive up to some seconds after they were let through.
fn freezing(api: &TestServer, arrivals: &Arrivals, seed: u64) -> Client {
    let (direct, arrivals) = (api.client(), arrivals.clone());
    let random = Arc::new(Mutex::new(SmallRng::seed_from_u64(seed)));
    let freeze = move |next: Transport| {
        let (direct, arrivals, random) = (direct.clone(), arrivals.clone(), Arc::clone(&random));
        tower::service_fn(move |request: Request<Body>| {
            let (dice, long) = {
                let mut random = random.lock().unwrap();
                (random.random_range(0..4), random.random_range(0..9_000))
            };
            let frozen = if dice == 0 { long } else { 5 };
            let arrival = arrive(direct.clone(), next.clone(), request, arrivals.clone());
            // It goes on if the guard drops it.
            let sent = tokio::spawn(async move {
                sleep(Duration::from_millis(frozen)).await;
                arrival.await
            });
            async move { sent.await? }
        })
    };
    client_through(&api.client(), layer_fn(freeze))
}

/// Leads again and again, and writes meanwhile.
async fn lead(replica: Arc<Replica>, client: Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let patch = json!({ "data": { "by": replica.leadership.identity() } });
    loop {
        let Ok(term) = replica.leadership.won().await else {
            return;
        };
        let work = async {
            loop {
                let patch = Patch::Merge(&patch);
                let none = PatchParams::default();
                let write = maps.patch("beats", &none, &patch);
                let _ = tokio::time::timeout(Duration::from_millis(300), write).await;
                sleep(Duration::from_millis(300)).await;
            }
        };
        tokio::select! {
            biased;
            _ = replica.leadership.lost(&term) => {}
            () = work => {}
        }
        replica.leadership.idle();
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_leaders_frozen_between_look_and_send_change_nothing_after_their_successors() {
    let api = server().await;
    let map = json!({ "metadata": { "name": "beats" } });
    api.create(&serde_json::from_value::<ConfigMap>(map).unwrap())
        .await
        .unwrap();
    let arrivals = Arrivals::default();
    let mut work = tokio::task::JoinSet::new();
    let replicas = ["a", "b"].map(|identity| {
        let link = Link::new(api.server().service(), 1);
        let standing = election(identity)
            .options(LeaseOptions::quick())
            .hard_fence();
        let leadership = standing.start_here(link.client()).unwrap();
        let replica = Arc::new(Replica { link, leadership });
        let below = freezing(&api, &arrivals, identity.len() as u64);
        let client = replica.leadership.guard().over(&below);
        work.spawn(lead(Arc::clone(&replica), client));
        replica
    });
    let holder = async |other_than: &str| loop {
        let holder = lease(&api).await["spec"]["holderIdentity"].clone();
        if let Some(name) = holder
            .as_str()
            .filter(|name| !name.is_empty() && *name != other_than)
        {
            return name.to_owned();
        }
        sleep(Duration::from_millis(50)).await;
    };
    replicas[0].won().await;
    let mut leader = "a".to_owned();
    for trial in 0..TRIALS {
        sleep(Duration::from_millis(600 + (trial as u64 * 37) % 500)).await;
        let frozen = replicas
            .iter()
            .find(|each| each.leadership.identity() == leader);
        let frozen = frozen.expect("it is one of the two");
        frozen.link.set(ProxyMode::Stall);
        leader = holder(&leader).await;
        frozen.link.set(ProxyMode::Pass);
    }
    let counts = arrivals.0.lock().unwrap();
    println!(
        "{TRIALS} leaders frozen: {} writes took effect, {} of other terms were refused, {} late",
        counts.effective, counts.refused, counts.late
    );
    assert_eq!(counts.late, 0);
    assert!(counts.refused > TRIALS / 4, "{} refused", counts.refused);
    assert!(
        counts.effective > TRIALS,
        "{} took effect",
        counts.effective
    );
}
