//! Thousands of seeded histories: never two workers of a shard, all shards owned in the end.
//!
//! ```text
//! KINFORM_SHARDS_SEEDS (default 600), _FIRST → World of each scenario → verdicts, RESULT lines
//! ```
//!
//! `cargo xtask shards --seeds 1000000` runs it in a release build.

use super::world::{Scenario, Tally, World};

/// Seeds of a scenario, unless `KINFORM_SHARDS_SEEDS` says otherwise.
const SEEDS: u64 = 600;

fn seeds() -> std::ops::Range<u64> {
    let said = |name: &str| std::env::var(name).ok()?.parse().ok();
    let first = said("KINFORM_SHARDS_FIRST").unwrap_or(0);
    first..first + said("KINFORM_SHARDS_SEEDS").unwrap_or(SEEDS)
}

/// Runs all seeds of a scenario, and prints the sum.
#[track_caller]
fn check_all(scenario: Scenario) -> Tally {
    let start = std::time::Instant::now();
    let mut sum = Tally::default();
    let mut failed = 0;
    let mut violation = None;
    let all = seeds();
    let count = all.end - all.start;
    for seed in all {
        match World::run(seed, scenario) {
            Ok(tally) => {
                sum.terms += tally.terms;
                sum.losses += tally.losses;
                sum.opens += tally.opens;
                sum.shard_writes += tally.shard_writes;
                sum.moves += tally.moves;
                sum.events += tally.events;
                sum.longest = sum.longest.max(tally.longest);
            }
            Err(error) => {
                failed += 1;
                if std::env::var_os("KINFORM_SHARDS_ALL").is_some() {
                    println!("{error}");
                }
                violation.get_or_insert(error);
            }
        }
    }
    println!(
        "RESULT | {scenario:?} | {count} seeds, {failed} failed, {:.0} a second | {sum:?} |",
        count as f64 / start.elapsed().as_secs_f64()
    );
    if let Some(violation) = violation {
        panic!("{violation}");
    }
    sum
}

#[test]
fn no_two_workers_of_a_shard_write_and_all_shards_are_owned_after_the_faults() {
    let sum = check_all(Scenario::Chaos);
    assert!(sum.losses > 0, "{sum:?}");
}

#[test]
fn leases_that_a_person_deletes_end_in_one_owner_of_each_shard() {
    check_all(Scenario::Hands);
}

#[test]
fn shards_of_a_member_that_crashed_have_owners_within_a_lease_and_two_seconds() {
    check_all(Scenario::Crash);
}

#[test]
fn shards_of_a_member_that_stops_have_owners_a_second_after_they_drained() {
    check_all(Scenario::Drain);
}

#[test]
fn one_that_joins_moves_no_more_than_its_part_and_a_fifth() {
    check_all(Scenario::Join);
}
