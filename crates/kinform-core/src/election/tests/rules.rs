//! The rules of a term, one table or script each.
//!
//! ```text
//! "+2 -> update@1 t0 kept" → machine → words
//! ```

use super::*;

#[test]
fn l1_a_term_is_counted_from_the_send_time_of_its_write() {
    // The request waits half a second for credentials, and its answer takes one and a half.
    check(
        "hold
        start -> get
        absent -> create
        sleep 0.5
        send
        sleep 1.5
        stored own@1 -> leader me, term 1 t0 until 12.5",
    );
    check_leader(
        "+2 -> update@1 t0 kept
        sleep 1.9
        stored own@2 -> until 14
        +0.1 -> update@2 t0 kept",
    );
}

#[test]
fn l2_a_term_leaves_time_for_its_last_request_and_for_other_clocks() {
    for (options, expected) in [(LeaseOptions::default(), 12), (LeaseOptions::quick(), 2)] {
        let mut bench = Bench::new(options.clone());
        bench.run("start -> get\nabsent -> create");
        let stored = bench.lease("own@1");
        let id = RequestId(1);
        let answer = Answer::Stored(stored);
        bench
            .machine
            .handle(Input::Answer { id, answer }, bench.now);
        let term = bench.machine.term().expect("a term");
        assert_eq!(term.ends_at.since(BEGIN).as_secs(), expected, "{options:?}");
    }
}

#[test]
fn l3_a_deleted_lease_ends_the_term_however_it_is_heard() {
    check_leader("gone own@2 -> leader none, ended deleted");
    check_leader(
        "+2 -> update@1 t0 kept
        absent -> leader none, ended deleted",
    );
    check_leader(
        "+2 -> update@1 t0 kept
        conflict -> conflict Renew, slow, get
        absent -> leader none, ended deleted",
    );
}

#[test]
fn l19_a_late_create_of_ours_after_a_deletion_ends_the_term_of_the_deleted_lease() {
    // The first create was stored, and its answer was lost; the second one was on its way.
    check(
        "start -> get
        absent -> create
        lost -> failed Take, get
        absent -> create
        saw own@1 rw1 -> leader me, term 1 t0 until 12
        saw own@5 u2 rw3 -> ended deleted",
    );
}

#[test]
fn l4_another_holder_ends_the_term_at_once_however_it_is_heard() {
    check_leader("saw b@2 -> leader b, ended taken by b");
    check_leader("saw b@9 u2 -> leader b, ended taken by b");
    check_leader(
        "+2 -> update@1 t0 kept
        conflict -> conflict Renew, slow, get
        found b@2 -> leader b, ended taken by b",
    );
}

#[test]
fn a_record_that_this_process_did_not_write_ends_the_term() {
    for (lease, steps) in [
        ("-@2", "leader none, ended edited"),
        ("own@2 d1", "ended edited"),
        ("own@2 t4", "ended edited"),
        ("me@2 rother", "ended edited"),
        ("own@2 u2", "ended edited"),
    ] {
        check_leader(&format!("saw {lease} -> {steps}"));
    }
    // Metadata alone: the next renewal is at the new version.
    check_leader("saw own@2\n+2 -> update@2 t0 kept");
}

// fault: F28
#[test]
fn l5_a_clock_that_jumps_ends_the_term_before_anything_else_is_heard() {
    // The machine was suspended; the answer of a renewal was waiting.
    check_leader(
        "+2 -> update@1 t0 kept
        sleep 40
        stored own@2 -> ended expired",
    );
    check_leader(
        "+2 -> update@1 t0 kept
        stored own@2 -> until 14
        +2 -> update@2 t0 kept
        sleep 10.5
        saw own@3 -> ended expired, close, failed Renew, get",
    );
    check_leader("sleep 3600\nstart -> ended expired");
}

#[test]
fn l6_the_wait_for_a_lease_begins_anew_with_each_change_of_its_record() {
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run("start -> get\nfound b@5 r1 -> leader b");
    for round in 2..8 {
        bench.now += Duration::from_millis(1_500);
        let lease = format!("b@{} r{round}", round + 4);
        if bench.line(&format!("saw {lease}")) == ["get"] {
            bench.run(&format!("found {lease}"));
        }
    }
    // Nine seconds later it was renewed for the last time.
    let taken = bench.now + Duration::from_secs(15);
    for _ in 0..20 {
        bench.now = bench.machine.next_wake().unwrap();
        let found = bench.line("start");
        let found = if found == ["get"] {
            bench.line("found b@11 r7")
        } else {
            found
        };
        if found == ["update@11 t1"] {
            break;
        }
    }
    assert_eq!(bench.now, taken, "not before");
}

#[test]
fn a_new_version_of_the_same_record_is_no_renewal() {
    check(
        "start -> get
        found b@5 d2 -> leader b
        sleep 1
        saw b@6 d2
        +1 -> get
        found b@6 d2 -> update@6 t1",
    );
}

#[test]
fn l7_the_last_record_of_a_deleted_lease_is_waited_out() {
    check(
        "start -> get
        found b@5 d4 -> leader b
        sleep 1
        gone b@6 d4 -> leader none
        +2.9 -> get
        absent
        +0.1 -> get
        absent -> create",
    );
    // It was never read before.
    check(
        "start -> get
        gone b@6 d4
        absent
        +3.9 -> get
        absent
        +0.1 -> get
        absent -> create",
    );
}

#[test]
fn a_release_is_taken_at_once_after_another_read() {
    check(
        "start -> get
        found b@5 t2 -> leader b
        sleep 0.3
        saw -@6 t2 d1 -> leader none, get
        found -@6 t2 d1 -> update@6 t3
        stored own@7 -> leader me, term 7 t3 until 12.3",
    );
}

#[test]
fn l9_a_write_without_an_answer_may_have_been_stored() {
    // Taking: the read finds it, and its send time counts.
    check(
        "start -> get
        absent -> create
        +2 -> close, failed Take, get
        found own@1 -> leader me, term 1 t0 until 12, update@1 t0 kept",
    );
    // Renewing: the read finds it.
    check_leader(
        "+2 -> update@1 t0 kept
        lost -> failed Renew, slow, get
        found own@2 -> until 14
        +2 -> update@2 t0 kept",
    );
    // Renewing: it was not stored.
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run(WON);
    let before = bench.record.clone();
    bench.run("+2 -> update@1 t0 kept\nlost -> failed Renew, slow, get");
    bench.record = before;
    bench.run("found own@1 -> update@1 t0 kept");
}

#[test]
fn a_record_of_ours_on_the_watch_is_the_answer() {
    check(
        "start -> get
        absent -> create
        sleep 0.5
        saw own@1 -> leader me, term 1 t0 until 12
        stored own@1
        +1.5 -> update@1 t0 kept
        saw own@2 -> until 14
        +2 -> close, failed Renew, slow, get",
    );
}

#[test]
fn a_late_answer_of_a_closed_request_counts_from_its_send_time() {
    check_leader(
        "+2 -> update@1 t0 kept
        +2 -> close, failed Renew, slow, get
        late 2 stored own@2 -> until 14
        found own@2 -> update@2 t0 kept",
    );
}

#[test]
fn l10_an_event_that_is_older_than_what_is_known_changes_nothing() {
    check(
        "start -> get
        found -@5 -> update@5 t1
        stored own@6 -> leader me, term 6 t1 until 12
        saw b@4
        gone b@3
        saw -@5",
    );
    // A version without an order is looked into.
    check_leader("saw b@x -> get\nfound own@1");
}

#[test]
fn a_history_that_went_back_is_believed_when_it_is_read() {
    check(
        "start -> get
        found b@500 -> leader b
        wait -> get
        found c@7 -> leader c",
    );
}

#[test]
fn a_lost_term_is_stood_for_again_once_its_work_is_joined_and_a_delay_is_over() {
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run(WON);
    bench.run("saw -@2 -> leader none, ended edited");
    for _ in 0..10 {
        // Free, but work of the last term runs.
        bench.run("wait -> get\nfound -@2");
    }
    bench.run("idle -> get\nfound -@2 -> update@2 t1");
    // Without work the delay counts: a request of the term may be under way.
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run(WON);
    bench.run("saw -@2 -> leader none, ended edited\nidle");
    let mut found = Vec::new();
    while found.is_empty() {
        bench.run("wait -> get");
        found = bench.line("found -@2");
    }
    assert_eq!(found, ["update@2 t1"]);
    assert!(
        bench.now >= BEGIN + Duration::from_secs(3),
        "{:?}",
        bench.now
    );
}

// A hard fence compares the number: a write of the first term must not pass for one of the second.
#[test]
fn l14_each_term_has_a_number_of_its_own_also_if_nobody_took_the_lease_in_between() {
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run(WON);
    bench.run("sleep 60\nstart -> ended expired\nidle");
    let mut found = Vec::new();
    while found.is_empty() {
        bench.run("wait -> get");
        found = bench.line("found own@1");
    }
    assert_eq!(found, ["update@1 t1"]);
}

#[test]
fn a_late_renewal_of_a_lost_term_begins_no_other() {
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run(WON);
    bench.run(
        "+2 -> update@1 t0 kept\nsleep 60\nstart -> ended expired, close, failed Renew, get\nidle",
    );
    let mut found = bench.line("found own@2");
    while found.is_empty() {
        bench.run("wait -> get");
        found = bench.line("found own@2");
    }
    assert_eq!(found, ["update@2 t1"]);
}

#[test]
fn losses_in_a_row_are_stood_for_again_later_each_time() {
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run(WON);
    let mut waits = Vec::new();
    for round in 0..6 {
        let version = round * 10;
        bench.line(&format!("saw -@{}", version + 5));
        let lost_at = bench.now;
        bench.line("idle");
        while bench.machine.term().is_none() {
            bench.now = bench.machine.next_wake().unwrap();
            bench.line("start");
            bench.line(&format!("found -@{}", version + 5));
            bench.line(&format!("stored own@{}", version + 6));
        }
        waits.push((bench.now - lost_at).as_secs_f64());
    }
    assert!(
        waits[0] < 4.5 && waits[5] >= 15.0 && waits[5] < 34.0,
        "{waits:?}"
    );
}

#[test]
fn a_leader_tries_each_retry_period_and_loses_at_the_end_of_the_term() {
    check_leader(
        "+2 -> update@1 t0 kept
        throttled -> failed Renew
        +2 -> update@1 t0 kept
        lost -> failed Renew, slow, get
        lost -> failed Read
        +2 -> get
        forbidden -> failed Read
        +2 -> get
        +2 -> close, failed Read, get
        +2 -> ended expired, close, failed Read",
    );
}

#[test]
fn candidates_wait_one_to_two_point_two_retry_periods_between_attempts() {
    let mut bench = Bench::new(LeaseOptions::default());
    bench.run("start -> get\nforbidden -> failed Read");
    let mut waits = Vec::new();
    for _ in 0..200 {
        let before = bench.now;
        bench.run("wait -> get\nlost -> failed Read");
        waits.push((bench.now - before).as_secs_f64());
    }
    let (low, high) = waits
        .iter()
        .fold((9.0f64, 0.0f64), |(l, h), w| (l.min(*w), h.max(*w)));
    assert!(
        (2.0..2.1).contains(&low) && (4.3..4.4).contains(&high),
        "{low} {high}"
    );
}

#[test]
fn a_candidate_that_was_outrun_tries_again_with_jitter() {
    check(
        "start -> get
        absent -> create
        conflict -> conflict Take
        +1.9
        +2.5 -> get
        found b@1 -> leader b",
    );
}

#[test]
fn a_lease_with_our_name_that_another_process_wrote_is_waited_out() {
    check(
        "start -> get
        found me@5 d3 rother t2 -> leader me
        +3 -> get
        found me@5 d3 rother t2 -> update@5 t3",
    );
}

#[test]
fn a_new_leader_is_told_once_a_change() {
    check(
        "start -> get
        found b@1 r1 -> leader b
        saw b@2 r2
        saw c@3 r3 -> leader c
        saw c@4 r4
        gone c@5 r4 -> leader none",
    );
}

#[test]
fn numbers_from_outside_do_not_overflow() {
    check(
        "start -> get
        found b@1 d-5 t2147483647 -> leader b
        saw -@2 d2147483647 t2147483647 -> leader none, get
        found -@2 d2147483647 t2147483647 -> update@2 t2147483647",
    );
}
