//! The coordinated election: what is taken, renewed, and given back.
//!
//! ```text
//! the leases that a coordinator writes → machine → words
//! ```

use super::*;

#[track_caller]
fn check(script: &str) {
    Bench::coordinated(LeaseOptions::default()).run(script);
}

/// The lines with which the coordinator gives the lease to `me`: version 6, until second 12.
const GIVEN: &str = "start -> get
    found me@5 d5 -> leader me, update@5 t1
    stored own@6 -> term 6 t1 until 12";

#[track_caller]
fn check_leader(script: &str) {
    check(&format!("{GIVEN}\n{script}"));
}

#[test]
fn a_lease_that_does_not_exist_is_not_created() {
    let mut bench = Bench::coordinated(LeaseOptions::default());
    bench.run("start -> get\nabsent");
    for _ in 0..100 {
        bench.run("wait -> get\nabsent");
    }
    bench.run("saw b@5 d5 -> leader b\ngone b@6 d5 -> leader none");
    bench.run("+100 -> get\nabsent\nsaw me@7 d5 -> leader me, get\nfound me@7 d5 -> update@7 t1");
}

#[test]
fn a_lease_of_another_or_of_nobody_is_left_alone_however_long_it_lasts() {
    // client-go: TestTryCoordinatedRenew (don't acquire from led, acked object)
    for lease in ["b@5 d1", "-@5 d1", "-@5 d15", "b@5 d1 pme"] {
        let mut bench = Bench::coordinated(LeaseOptions::default());
        let told = if lease.starts_with('b') {
            "leader b"
        } else {
            ""
        };
        bench.run(&format!("start -> get\nfound {lease} -> {told}"));
        for _ in 0..100 {
            bench.run(&format!("wait -> get\nfound {lease}"));
        }
    }
}

#[test]
fn a_lease_that_names_us_is_taken_at_once_and_renewed() {
    // client-go: TestTryCoordinatedRenew (renew already acquired object)
    check_leader(
        "+2 -> update@6 t1 kept
        stored own@7 -> until 14
        +2 -> update@7 t1 kept",
    );
    check(
        "start -> get
        found b@5 d1 -> leader b
        +1
        saw me@6 d5 -> leader me, get
        found me@6 d5 -> update@6 t1
        stored own@7 -> term 7 t1 until 13",
    );
}

#[test]
fn l18_a_holder_before_us_is_waited_out_by_our_clock_unless_it_released() {
    // The coordinator's clock is ahead: the other one may lead until second 2.
    check(
        "start -> get
        found b@5 d2 t3 -> leader b
        +0.5
        saw me@6 d5 t3 -> leader me
        +1.4
        +0.1 -> get
        found me@6 d5 t3 -> update@6 t4",
    );
    check(
        "start -> get
        found b@5 d15 -> leader b
        saw -@6 d1 -> leader none
        saw me@7 d5 -> leader me, get
        found me@7 d5 -> update@7 t1",
    );
    // Another one, which could not take it either, gives it back: that frees nothing.
    check(
        "start -> get
        found b@5 d2 -> leader b
        saw c@6 d1 -> leader c
        saw -@7 d1 -> leader none
        saw me@8 d5 -> leader me
        +1.9
        +0.1 -> get",
    );
    // Its lease is gone, and so is what it wrote: its time is not.
    check(
        "start -> get
        found b@5 d2 -> leader b
        gone b@6 d2 -> leader none
        saw me@7 d5 -> leader me
        +1.9
        +0.1 -> get",
    );
}

#[test]
fn a_lease_that_expired_before_it_could_be_taken_is_given_back() {
    check(
        "start -> get
        found b@5 d15 -> leader b
        saw me@6 d1 t3 -> leader me
        +1 -> get
        found me@6 d1 t3 -> release@6 t3 d1
        stored own@7 -> leader none
        wait -> get
        found own@7",
    );
}

#[test]
fn a_preferred_holder_ends_the_term_and_the_lease_is_given_back_once_the_work_is_joined() {
    check_leader(
        "+2 -> update@6 t1 kept
        stored own@7 -> until 14
        saw own@8 pb -> ended for b
        idle
        +1.9
        +1.1 -> get
        found own@8 pb -> release@8 t1 d1
        stored own@9 -> leader none
        saw b@10 d5 t1 -> leader b",
    );
}

#[test]
fn work_that_does_not_end_keeps_the_lease_of_a_preferred_holder() {
    let mut bench = Bench::coordinated(LeaseOptions::default());
    bench.run(GIVEN);
    bench.run("saw own@7 pb -> ended for b");
    for _ in 0..100 {
        bench.run("wait -> get\nfound own@7 pb");
    }
    bench.run("idle -> get\nfound own@7 pb -> release@7 t1 d1");
}

#[test]
fn a_preferred_holder_that_a_failed_renewal_finds_ends_the_term() {
    check_leader(
        "+2 -> update@6 t1 kept
        conflict -> conflict Renew, slow, get
        found own@7 pb rw1 -> ended for b",
    );
}

#[test]
fn a_lease_that_prefers_another_is_left_to_expire_where_the_options_say_so() {
    let options = LeaseOptions {
        on_stop: OnStop::Expire,
        ..LeaseOptions::default()
    };
    let mut bench = Bench::coordinated(options);
    bench.run(GIVEN).run("saw own@7 pb -> ended for b\nidle");
    while bench.now + Duration::from_secs(5) < BEGIN + Duration::from_secs(15) {
        bench.run("wait -> get\nfound own@7 pb");
    }
    bench.now = BEGIN + Duration::from_secs(15);
    bench.run("start -> get\nfound own@7 pb -> release@7 t1 d1");
}

#[test]
fn a_lost_lease_that_still_names_us_is_taken_again_with_a_number_of_its_own() {
    let mut bench = Bench::coordinated(LeaseOptions::default());
    bench.run(GIVEN);
    let first = bench.record.clone();
    bench.run("sleep 12\nidle -> ended expired\n+6 -> get");
    bench.record = first;
    // The coordinator does not name a holder twice: it is given back, then chosen anew.
    bench.run("found own@6 -> release@6 t1 d1\nstored own@7 -> leader none");
    bench.run("saw me@8 d5 t1 -> leader me, get\nfound me@8 d5 t1 -> update@8 t2");
}

#[test]
fn without_a_coordinator_a_preferred_holder_means_nothing() {
    let mut bench = Bench::new(LeaseOptions::default());
    bench
        .run(WON)
        .run("saw own@2 pb\n+2 -> update@2 t0 kept\nstored own@3 pb -> until 14");
}

#[test]
fn a_stop_releases_a_lease_that_was_given() {
    check_leader(
        "stop
        idle -> ended released, release@6 t1 d1
        stored own@7 -> leader none, stopped",
    );
    check(
        "start -> get\nfound me@5 d5 -> leader me, update@5 t1\nstop\nstored own@6 -> release@6 t1 d1",
    );
}
