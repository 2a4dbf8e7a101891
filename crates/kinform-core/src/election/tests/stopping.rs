//! Stops: what is renewed, released or left to expire, and when the end comes.
//!
//! ```text
//! "stop", "idle" → machine → words
//! ```

use super::*;

#[test]
fn l8_a_lease_is_released_only_when_no_work_runs() {
    // client-go: TestReleaseLeaseLeases, which releases before the work stops
    check_leader(
        "stop
        +2 -> update@1 t0 kept
        stored own@2 -> until 14
        idle -> ended released, release@2 t0 d1
        stored own@3 -> leader none, stopped",
    );
}

#[test]
fn work_that_does_not_end_keeps_the_lease_until_the_term_ends() {
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run(WON);
    bench.run("stop\n+2 -> update@1 t0 kept\nsleep 10\nlost -> ended expired, failed Renew, get");
    bench.run("found own@2\nidle -> stopped");
}

#[test]
fn a_release_is_tried_again_after_a_conflict_at_the_version_that_was_read() {
    // client-go: TestReleaseRetriesOnConflict, TestReleaseMethodCallsGet
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run(WON);
    let before = bench.record.clone();
    bench.run("stop\nidle -> ended released, release@1 t0 d1\nconflict -> conflict Release, get");
    bench.record = before;
    bench.run("found own@2 -> release@2 t0 d1\nstored own@3 -> leader none, stopped");
}

#[test]
fn a_successors_lease_is_never_released() {
    check_leader(
        "stop
        idle -> ended released, release@1 t0 d1
        conflict -> conflict Release, get
        found b@2 -> leader b, stopped",
    );
}

#[test]
fn a_release_without_an_answer_is_looked_for() {
    check_leader(
        "stop
        idle -> ended released, release@1 t0 d1
        lost -> failed Release, get
        found own@2 -> leader none, stopped",
    );
    check_leader(
        "stop
        idle -> ended released, release@1 t0 d1
        absent -> leader none, stopped",
    );
}

#[test]
fn a_release_is_given_up_when_the_term_would_have_ended() {
    check_leader(
        "stop
        idle -> ended released, release@1 t0 d1
        forbidden -> failed Release
        +2 -> release@1 t0 d1
        +2 -> close, failed Release, get
        lost -> failed Read, get
        +7.9 -> close, failed Read, get
        +0.1 -> close, stopped",
    );
}

#[test]
fn a_renewal_under_way_is_waited_for_before_the_release() {
    // client-go: TestReleaseOnCancellation_Leases (cancellation of update)
    check_leader(
        "+2 -> update@1 t0 kept
        stop
        idle -> ended released
        stored own@2 -> release@2 t0 d1
        stored own@3 -> leader none, stopped",
    );
}

#[test]
fn a_read_under_way_does_not_hold_up_the_release() {
    // client-go: TestReleaseOnCancellation_Leases (cancellation of get)
    check_leader(
        "+2 -> update@1 t0 kept
        lost -> failed Renew, slow, get
        stop
        idle -> ended released, close, get
        found own@2 -> release@2 t0 d1",
    );
}

#[test]
fn a_stop_while_the_lease_is_being_taken_releases_it() {
    check(
        "start -> get
        absent -> create
        stop
        stored own@1 -> leader me, release@1 t0 d1
        stored own@2 -> leader none, stopped",
    );
    check(
        "start -> get
        absent -> create
        stop
        conflict -> conflict Take, get
        found b@1 -> leader b, stopped",
    );
}

#[test]
fn a_candidate_stops_at_once() {
    check("stop -> stopped");
    check("start -> get\nstop -> close, stopped");
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run("start -> get\nfound b@1 -> leader b\nstop -> stopped\nidle\nsaw -@2\nstop");
    assert_eq!(bench.machine.next_wake(), None);
}

#[test]
fn a_lease_is_left_to_expire_where_the_options_say_so() {
    let options = LeaseOptions {
        on_stop: OnStop::Expire,
        ..LeaseOptions::default()
    };
    let mut bench = Bench::new(options);
    bench.run(WON);
    bench.run(
        "stop\n+2 -> update@1 t0 kept\nstored own@2 -> until 14\nidle -> ended stopped, stopped",
    );
}
