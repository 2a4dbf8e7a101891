//! Replicas of sharded operators that are killed, paused, added and removed, for some seconds.
//!
//! ```text
//! Plan of quick leases ──▶ sharing::run ──▶ RESULT: a row of figures
//! ```
//!
//! The long runs, on real servers and behind two servers too, are those of `cargo xtask e2e shards`.
//! The replicas without a guard show that the judge can fail.

#[path = "../shards/stage.rs"]
mod stage;

use kinform_e2e::sharing::Work;

use self::stage::{LOOP, SAMPLES, SHORT, block, noticed, on_embedded};

#[test]
fn each_key_is_written_by_the_owner_of_its_shard_though_replicas_come_and_go() {
    block(on_embedded(LOOP, Work::Sharer, SHORT));
}

#[test]
fn every_change_is_answered_and_only_what_was_deleted_is_cleaned_up() {
    block(on_embedded(SAMPLES, Work::Sample, SHORT));
}

#[test]
fn a_replica_without_a_guard_that_was_paused_is_noticed() {
    block(noticed());
}
