//! Each scenario under the number of schedules that the environment asks for.

use schedules::run::check;
use schedules::scenarios;

// Kept by the order of publishing: a batch, its root, the end of the ring.
#[test]
fn c1_readers_find_in_a_root_whatever_the_ring_shows() {
    check("readers_of_a_root", scenarios::readers_of_a_root);
}

#[test]
fn c2_a_place_taken_late_misses_no_batch() {
    check("late_place", scenarios::late_place);
}

#[test]
fn a_late_handler_hears_one_root_and_every_batch_after_it() {
    check("late_handler", scenarios::late_handler);
}

#[test]
fn c4_handlers_are_woken_for_every_batch_and_hear_it_once() {
    check("handlers_in_step", scenarios::handlers_in_step);
}

#[test]
fn c5_a_removal_returns_after_the_last_call() {
    check("removed_handler", scenarios::removed_handler);
}

#[test]
fn handlers_that_fall_behind_hear_the_difference() {
    check("handlers_behind", scenarios::handlers_behind);
}

#[test]
fn no_key_is_in_two_hands_and_no_add_is_lost() {
    check("queue_of_workers", scenarios::queue_of_workers);
}

#[test]
fn c3_a_drain_ends_when_all_is_done() {
    check("drained", scenarios::drained);
}

#[test]
fn c8_a_wait_that_is_given_up_passes_its_wake_up_on() {
    check("cancelled_waits", scenarios::cancelled_waits);
}

#[test]
fn c6_a_request_ends_with_its_term_by_a_message() {
    check("requests_by_messages", scenarios::requests_by_messages);
}

#[test]
fn c7_a_request_makes_no_progress_after_its_term_by_the_clock() {
    check("requests_by_the_clock", scenarios::requests_by_the_clock);
}
