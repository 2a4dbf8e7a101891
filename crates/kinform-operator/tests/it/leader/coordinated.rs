//! Coordinated election: the test is the coordinator.
//!
//! ```text
//! test ──Lease: holder, preferredHolder──▶ TestServer ◀── replicas ──LeaseCandidate──▶ test: pings
//! ```

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::coordination::v1beta1::LeaseCandidate as Stored;
use kinform::env::wall_clock;
use kinform::{GroupResource, Status};
use kinform_apiserver::FaultRule;
use kinform_operator::leader::{EndReason, LeaseCandidate};
use kinform_operator::{Operator, When};
use kinform_testkit::{Fault, Link, Network, ProxyMode, TestServer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{AT_ONCE, Replica, edit, election, lease, sees_leader, server, taking, until};
use crate::support::{Log, electing, settings};

const SECOND: Duration = Duration::from_secs(1);

/// A server that serves candidates.
async fn coordinated_server() -> TestServer {
    let serving = |server: kinform_apiserver::Builder| server.with_lease_candidates();
    let starting = TestServer::start().with(serving).in_process();
    starting.await.unwrap()
}

fn replica(api: &TestServer, identity: &str) -> Replica {
    let link = Link::new(api.server().service(), 1);
    let election = election(identity).coordinated(LeaseCandidate::new("1.30.0"));
    let leadership = election.start_here(link.client()).unwrap();
    Replica { link, leadership }
}

/// A candidate, as soon as it is there.
async fn candidate(api: &TestServer, name: &str) -> Stored {
    api.until(&format!("default/{name}"), |_: &Stored| true)
        .await
        .unwrap()
}

fn now() -> String {
    wall_clock().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Asks a candidate whether it is alive.
async fn ping(api: &TestServer, name: &str) {
    let mut object = serde_json::to_value(candidate(api, name).await).unwrap();
    object["spec"]["pingTime"] = now().into();
    let path =
        format!("/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates/{name}");
    let request = http::Request::put(path).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).unwrap();
    let _: Value = api.client().request(request).await.unwrap();
}

/// Waits until a candidate has answered, and was renewed after this state.
async fn answered(api: &TestServer, before: &Stored) -> Stored {
    let renewed = |one: &Stored| one.spec.renew_time.clone();
    let pinged = |one: &Stored| one.spec.ping_time.clone();
    let name = before.metadata.name.as_deref().unwrap();
    let is_answer = |one: &Stored| renewed(one) > renewed(before) && renewed(one) >= pinged(one);
    api.until(&format!("default/{name}"), is_answer)
        .await
        .unwrap()
}

/// The coordinator gives the lease to a candidate.
async fn hand_over(api: &TestServer, to: &str) {
    let strategy = "OldestEmulationVersion";
    if api
        .get::<Lease>("default/operator")
        .await
        .unwrap()
        .is_none()
    {
        let lease = json!({
            "metadata": { "name": "operator", "namespace": "default" },
            "spec": {
                "holderIdentity": to, "leaseDurationSeconds": 5,
                "renewTime": now(), "strategy": strategy,
            },
        });
        let lease: Lease = serde_json::from_value(lease).unwrap();
        api.create(&lease).await.unwrap();
        return;
    }
    edit(api, |lease| {
        let spec = lease["spec"].as_object_mut().unwrap();
        spec.remove("preferredHolder");
        spec.remove("acquireTime");
        spec.insert("holderIdentity".to_owned(), to.into());
        spec.insert("leaseDurationSeconds".to_owned(), 5.into());
        spec.insert("renewTime".to_owned(), now().into());
    })
    .await;
}

/// The coordinator wants another holder.
async fn prefer(api: &TestServer, name: &str) {
    edit(api, |lease| lease["spec"]["preferredHolder"] = name.into()).await;
}

// client-go: TestTryCoordinatedRenew
#[tokio::test(start_paused = true)]
async fn the_coordinator_alone_decides_which_of_two_replicas_leads() {
    let api = coordinated_server().await;
    let (a, b) = (replica(&api, "a"), replica(&api, "b"));
    candidate(&api, "a").await;
    candidate(&api, "b").await;
    tokio::time::sleep(60 * SECOND).await;
    assert!(
        api.get::<Lease>("default/operator")
            .await
            .unwrap()
            .is_none()
    );

    hand_over(&api, "a").await;
    let (after, first) = taking(a.won()).await;
    assert!(after < AT_ONCE, "{after:?}");
    assert_eq!(first.transitions, 1);
    tokio::time::sleep(60 * SECOND).await;
    assert!(a.leadership.term().is_some() && b.leadership.term().is_none());
    assert_eq!(lease(&api).await["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(
        lease(&api).await["spec"]["strategy"],
        "OldestEmulationVersion"
    );

    prefer(&api, "b").await;
    let (after, reason) = taking(a.leadership.lost(&first)).await;
    assert!(after < AT_ONCE, "{after:?}");
    let holder = "b".to_owned();
    assert_eq!(reason, EndReason::Preferred { holder });
    // The work runs on: the lease stays as it is.
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(lease(&api).await["spec"]["holderIdentity"], "a");
    a.leadership.idle();
    let is_free = |lease: &Lease| {
        let spec = lease.spec.as_ref();
        spec.is_some_and(|spec| spec.holder_identity.as_deref() == Some(""))
    };
    let (after, _) = taking(api.until("default/operator", is_free)).await;
    assert!(after < AT_ONCE, "{after:?}");
    assert!(a.leadership.term().is_none() && b.leadership.term().is_none());

    hand_over(&api, "b").await;
    let (after, second) = taking(b.won()).await;
    assert!(after < AT_ONCE, "{after:?}");
    assert_eq!((second.transitions, &second.uid), (2, &first.uid));
    assert!(a.leadership.term().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_vanished_is_waited_out_though_the_coordinator_is_early() {
    let api = coordinated_server().await;
    let (a, b) = (replica(&api, "a"), replica(&api, "b"));
    candidate(&api, "b").await;
    hand_over(&api, "a").await;
    let term = a.won().await;
    sees_leader(&b.leadership, "a").await;
    a.link.set(ProxyMode::Stall);
    tokio::time::sleep(11 * SECOND).await;
    // Its clock is four seconds ahead.
    hand_over(&api, "b").await;
    let (after, _) = taking(b.won()).await;
    assert!(a.leadership.term().is_none());
    assert!(after >= SECOND && after <= 5 * SECOND, "{after:?}");
    assert_eq!(a.leadership.lost(&term).await, EndReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_lost_its_term_gives_the_lease_back_and_is_given_it_again() {
    let api = coordinated_server().await;
    let a = replica(&api, "a");
    candidate(&api, "a").await;
    hand_over(&api, "a").await;
    let term = a.won().await;
    a.link.set(ProxyMode::Stall);
    assert_eq!(a.leadership.lost(&term).await, EndReason::Expired);
    a.leadership.idle();
    tokio::time::sleep(60 * SECOND).await;
    a.link.set(ProxyMode::Pass);
    // A coordinator writes nothing while the lease names the candidate that it chose.
    let is_free = |lease: &Lease| {
        let spec = lease.spec.as_ref();
        spec.is_some_and(|spec| spec.holder_identity.as_deref() == Some(""))
    };
    let (after, _) = taking(api.until("default/operator", is_free)).await;
    assert!(after < 10 * SECOND, "{after:?}");
    hand_over(&api, "a").await;
    let (_, again) = taking(a.won()).await;
    assert!(again.transitions > term.transitions);
}

// client-go: TestLeaseCandidateCreation, TestLeaseCandidateAck
#[tokio::test(start_paused = true)]
async fn a_candidate_is_made_answers_pings_at_once_and_is_renewed_every_five_minutes() {
    let api = coordinated_server().await;
    let link = Link::new(api.server().service(), 1);
    let versions = LeaseCandidate::new("1.30.1").emulation_version("1.29.0");
    let a = election("a")
        .coordinated(versions)
        .start_here(link.client())
        .unwrap();
    let made = candidate(&api, "a").await;
    let spec = made.spec.clone();
    assert_eq!(spec.lease_name, "operator");
    assert_eq!(spec.binary_version, "1.30.1");
    assert_eq!(spec.emulation_version.as_deref(), Some("1.29.0"));
    assert_eq!(spec.strategy, "OldestEmulationVersion");
    assert!(spec.renew_time.is_some() && spec.ping_time.is_none());

    let mut last = made;
    for _ in 0..10 {
        tokio::time::sleep(SECOND).await;
        ping(&api, "a").await;
        let (after, answer) = taking(answered(&api, &last)).await;
        assert!(after < AT_ONCE, "{after:?}");
        last = answer;
    }
    let writes = || api.server().journal().count("update", "leasecandidates");
    let before = writes();
    tokio::time::sleep(299 * SECOND).await;
    assert_eq!(writes(), before);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(writes(), before + 1);
    answered(&api, &last).await;
    drop(a);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_was_deleted_is_made_again_and_a_stop_deletes_it() {
    let api = coordinated_server().await;
    let (a, b) = (replica(&api, "a"), replica(&api, "b"));
    let first = candidate(&api, "a").await;
    candidate(&api, "b").await;
    for _ in 0..3 {
        tokio::time::sleep(SECOND).await;
        api.delete::<Stored>("default/a").await.unwrap();
        let is_another = |one: &Stored| one.metadata.uid != first.metadata.uid;
        let (after, _) = taking(api.until("default/a", is_another)).await;
        assert!(after < AT_ONCE, "{after:?}");
    }
    hand_over(&api, "a").await;
    a.won().await;
    a.leadership.stop().await;
    assert!(api.get::<Stored>("default/a").await.unwrap().is_none());
    assert_eq!(lease(&api).await["spec"]["holderIdentity"], "");
    // One that did not see the release waits for the end of the record before, which is later than
    // that of its own: it gives the lease back, and this coordinator does not name it again.
    until(|| b.leadership.leader().is_none()).await;
    hand_over(&api, "b").await;
    b.won().await;
    // Without a stop it stays, and nobody answers for it.
    drop(b);
    tokio::time::sleep(SECOND).await;
    let left = candidate(&api, "b").await;
    ping(&api, "b").await;
    tokio::time::sleep(600 * SECOND).await;
    let later = candidate(&api, "b").await;
    assert_eq!(left.spec.renew_time, later.spec.renew_time);
}

#[tokio::test(start_paused = true)]
async fn without_the_group_or_without_rights_one_line_says_what_to_do_and_it_is_tried_again() {
    let log = Log::default();
    let _guard = log.listen();
    let plain = server().await;
    let a = replica(&plain, "a");
    let gate = [
        "WARN",
        "LeaseCandidate",
        "--feature-gates=CoordinatedLeaderElection=true",
    ];
    until(|| log.has(&gate)).await;
    tokio::time::sleep(600 * SECOND).await;
    assert_eq!(log.count(&gate), 1);
    assert!(a.leadership.term().is_none());
    drop(a);

    let api = coordinated_server().await;
    let candidates = GroupResource::new("coordination.k8s.io", "leasecandidates");
    let forbidden = Status::forbidden(&candidates, "b", "no rights");
    let rule = FaultRule::new(Fault::Reply(forbidden)).on_resource("leasecandidates");
    api.server().faults().inject(rule.always());
    let b = replica(&api, "b");
    let rights = [
        "WARN",
        "create, get, update, watch and delete on leasecandidates",
        "default",
    ];
    until(|| log.has(&rights)).await;
    tokio::time::sleep(600 * SECOND).await;
    // Of the write, and of the watch.
    assert_eq!(log.count(&rights), 2, "{}", log.text());
    assert_eq!(b.leadership.check(), Ok(()));
    api.server().faults().clear();
    tokio::time::sleep(120 * SECOND).await;
    candidate(&api, "b").await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_works_while_the_coordinator_names_it() {
    let api = coordinated_server().await;
    let link = Link::new(api.server().service(), 1);
    let builder = Operator::builder("operator").settings(electing());
    let builder = builder.coordinated(LeaseCandidate::new("1.0.0"));
    let operator = builder.with_client(link.client()).unwrap();
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    operator
        .task("work", When::Leading, move |_| {
            begun.send(()).unwrap();
            std::future::pending::<Result<(), kinform_operator::Error>>()
        })
        .unwrap();
    let stop = CancellationToken::new();
    let (running, token) = (operator.clone(), stop.clone());
    let ended = tokio::spawn(async move { running.run_until(token).await });
    let named = || async {
        let path = "/apis/coordination.k8s.io/v1beta1/namespaces/default/leasecandidates";
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let list: Value = api.client().request(request).await.unwrap();
        list["items"][0]["metadata"]["name"]
            .as_str()
            .map(str::to_owned)
    };
    let name = loop {
        match named().await {
            Some(name) => break name,
            None => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    assert!(begins.try_recv().is_err());
    hand_over(&api, &name).await;
    taking(begins.recv()).await.1.expect("it works");
    prefer(&api, "x").await;
    let is_free = |lease: &Lease| {
        let spec = lease.spec.as_ref();
        spec.is_some_and(|spec| spec.holder_identity.as_deref() == Some(""))
    };
    taking(api.until("default/operator", is_free))
        .await
        .1
        .unwrap();
    hand_over(&api, &name).await;
    taking(begins.recv()).await.1.expect("it works again");
    stop.cancel();
    taking(ended).await.1.unwrap().unwrap();
    assert!(named().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_no_server_takes_is_refused_before_anything_starts() {
    let api = server().await;
    let client = Link::new(api.server().service(), 1).client();
    for (identity, version) in [("a/b", "1.0.0"), ("a", "1.0"), ("a", "0.0.0")] {
        let election = election(identity).coordinated(LeaseCandidate::new(version));
        let error = election.start_here(client.clone()).unwrap_err();
        assert!(error.is_usage(), "{error}");
    }
    let builder = Operator::builder("operator").settings(settings());
    let builder = builder.coordinated(LeaseCandidate::new("1.0.0"));
    let error = builder.with_client(client).unwrap_err();
    assert!(error.to_string().contains("--leader-elect"), "{error}");
}
