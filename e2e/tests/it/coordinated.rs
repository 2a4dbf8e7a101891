//! Two replicas of ours, and the coordinator of a real API server that chooses between them.
//!
//! ```text
//! replica a, b ──LeaseCandidate──▶ kube-apiserver: its leader election controller ──Lease──▶ a leads
//! a dies ─▶ b leads ─▶ c of an older version comes ─▶ preferredHolder ─▶ c leads, stops ─▶ b leads
//! ```

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kinform_e2e::{Oracle, missing};
use kinform_operator::leader::{
    EndReason, LeaderElection, Leadership, LeaseCandidate, LeaseOptions, Term,
};
use kinform_testkit::checks::stage::Stage;
use kube::api::Api;

const PATIENCE: Duration = Duration::from_secs(90);
/// The server's flags for a coordinated election.
const FLAGS: &str = "--feature-gates=CoordinatedLeaderElection=true \
    --runtime-config=coordination.k8s.io/v1beta1=true";

fn replica(oracle: &Oracle, identity: &str, version: &str) -> Leadership {
    let election = LeaderElection::new("default", "operator")
        .identity(identity)
        .options(LeaseOptions::quick())
        .coordinated(LeaseCandidate::new(version));
    election.start(oracle.config().unwrap()).unwrap()
}

/// Waits for a term, and prints how long that took.
async fn won(of: &Leadership, after: &str) -> Term {
    let begun = Instant::now();
    let won = tokio::time::timeout(PATIENCE, of.won()).await;
    let term = won.unwrap_or_else(|_| panic!("{} does not lead after {after}", of.identity()));
    let (name, took) = (of.identity(), begun.elapsed().as_secs_f64());
    println!("RESULT | coordinated election | {name} leads after {after} | {took:.1} s |");
    term.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_coordinator_of_a_real_server_chooses_between_replicas_of_ours() {
    let missing = missing();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        println!("RESULT | coordinated election | real | skipped: no {missing} |");
        return;
    }
    let oracle = Oracle::start_with(FLAGS).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(oracle.direct().unwrap(), "default");

    let a = replica(&oracle, "a", "1.2.0");
    let first = won(&a, "its start").await;
    let b = replica(&oracle, "b", "1.3.0");
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(a.term().is_some_and(|term| term.version == first.version));
    assert!(b.term().is_none());

    // As a crash: nobody releases, and the candidate stays.
    drop(a);
    let second = won(&b, "the death of a").await;
    assert!(second.transitions > first.transitions && second.uid == first.uid);

    let c = replica(&oracle, "c", "1.1.0");
    let lost = tokio::time::timeout(PATIENCE, b.lost(&second)).await;
    let holder = "c".to_owned();
    assert_eq!(
        lost.expect("c is preferred"),
        EndReason::Preferred { holder }
    );
    assert!(c.term().is_none());
    b.idle();
    let third = won(&c, "the end of b's term").await;
    assert!(third.transitions > second.transitions && b.term().is_none());
    let spec = leases.get("operator").await.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("c"));
    assert_eq!(spec.preferred_holder, None);

    c.stop().await;
    let fourth = won(&b, "the stop of c").await;
    assert!(fourth.transitions > third.transitions);
    b.stop().await;
}
