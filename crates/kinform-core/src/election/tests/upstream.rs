//! The tests of `client-go:tools/leaderelection`, as far as a machine can answer them.
//!
//! ```text
//! upstream's tables → scripts
//! ```

use super::*;

#[test]
fn an_absent_lease_is_created_without_transitions() {
    // client-go: TestTryAcquireOrRenewLeases (acquire from no object)
    check(WON);
}

#[test]
fn a_lease_without_a_holder_is_taken_at_once_with_one_more_transition() {
    // client-go: TestTryAcquireOrRenewLeases (without annotations, unled, empty led acked)
    for lease in ["-@5 d0", "-@5 d1 t3", "-@5 d15"] {
        let transitions = if lease.contains("t3") { 4 } else { 1 };
        check(&format!(
            "start -> get
            found {lease} -> update@5 t{transitions}
            stored own@6 -> leader me, term 6 t{transitions} until 12"
        ));
    }
}

#[test]
fn a_held_lease_is_taken_after_the_duration_in_its_record() {
    // client-go: TestTryAcquireOrRenewLeases (led object with the lease duration seconds)
    check(
        "start -> get
        found b@5 d3 t2 -> leader b
        +2.9
        +0.1 -> get
        found b@5 d3 t2 -> update@5 t3
        stored own@6 -> leader me, term 6 t3 until 15",
    );
}

#[test]
fn a_held_lease_without_a_duration_is_waited_for_like_one_of_ours() {
    // client-go: TestTryAcquireOrRenewLeases (led, unacked object), which takes it at once
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run("start -> get\nfound b@5 d0 -> leader b");
    while bench.now + Duration::from_secs(5) < BEGIN + Duration::from_secs(15) {
        bench.run("wait -> get\nfound b@5 d0");
    }
    bench.now = BEGIN + Duration::from_secs(15);
    bench.run("start -> get\nfound b@5 d0 -> update@5 t1");
}

#[test]
fn a_live_holder_is_left_alone() {
    // client-go: TestTryAcquireOrRenewLeases (don't acquire from led, acked object)
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run("start -> get\nfound b@5 -> leader b");
    for version in 6..100 {
        bench.run(&format!("wait -> get\nfound b@{version} r{version}"));
    }
    assert!(bench.now > BEGIN + Duration::from_secs(180));
}

#[test]
fn a_leader_renews_with_transitions_and_acquire_time_kept() {
    // client-go: TestTryAcquireOrRenewLeases (renew already acquired object)
    check_leader(
        "wait -> update@1 t0 kept
        stored own@2 -> until 14",
    );
}

#[test]
fn renewals_need_no_read_until_one_fails() {
    // client-go: TestFastPathLeaderElection (fast path, fallback to slow path)
    check_leader(
        "+2 -> update@1 t0 kept
        stored own@2 -> until 14
        +2 -> update@2 t0 kept
        stored own@3 -> until 16",
    );
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run(WON);
    let before = bench.lease("own@1");
    bench.run("+2 -> update@1 t0 kept\nconflict -> conflict Renew, slow, get");
    bench.record = before.record;
    bench.run(
        "found own@7 -> update@7 t0 kept
        stored own@8 -> until 14
        +2 -> update@8 t0 kept",
    );
}

#[test]
fn an_election_without_an_identity_is_refused() {
    // client-go: TestLeaderElectionConfigValidation
    let found = Election::new("", LeaseOptions::default(), 1).map(|_| ());
    assert_eq!(found, Err(LeaseOptionsError::EmptyIdentity));
    let options = LeaseOptions {
        margin: Duration::ZERO,
        ..LeaseOptions::default()
    };
    assert!(Election::new("me", options, 1).is_err());
}

#[test]
fn only_a_term_that_should_have_ended_is_overdue() {
    // client-go: TestLeaderElectionHealthChecker, TestCheckMethodRace
    let at = |seconds| BEGIN + Duration::from_secs(seconds);
    let mut bench = Bench::new(LeaseOptions::default());
    assert_eq!(
        bench.machine.overdue(at(3_600)),
        Duration::ZERO,
        "before the first input"
    );
    bench.run("start -> get\nfound b@5 d1 -> leader b");
    assert_eq!(
        bench.machine.overdue(at(3_600)),
        Duration::ZERO,
        "another leads"
    );
    bench.run(
        "wait -> get\nfound b@5 d1 -> update@5 t1\nstored own@6 -> leader me, term 6 t1 until 13",
    );
    for (second, expected) in [(1, 0), (13, 0), (14, 1), (3_613, 3_600)] {
        assert_eq!(
            bench.machine.overdue(at(second)),
            Duration::from_secs(expected),
            "{second}"
        );
    }
}
