//! Each mistake is found in less than 1,000 seeds, and its correction passes, also where a process
//! that restarts is shown the past.
//!
//! `MISTAKES_SEEDS` is the number of seeds that a correction passes; 50 by default.

use kinform_testkit::simulate::try_simulate;
use mistakes::{ALL, Which, without_the_question};

fn seeds() -> u64 {
    let seeds = std::env::var("MISTAKES_SEEDS").ok();
    seeds.map_or(50, |seeds| {
        seeds.parse().expect("MISTAKES_SEEDS is a number")
    })
}

#[expect(
    clippy::print_stderr,
    reason = "how soon a mistake is found is part of the report"
)]
fn check(name: &str) {
    let mistake = ALL.iter().find(|mistake| mistake.name == name);
    let describe = mistake.expect("it is one of them").describe;
    let seeds = seeds();
    let found = try_simulate(|sim| {
        sim.seeds(1_000);
        describe(sim, Which::Mistaken);
    });
    let story = found.expect_err("it is found");
    let replay = story.lines().last().unwrap_or_default();
    eprintln!(
        "{name}: {}\n  {replay}",
        story.lines().next().unwrap_or_default()
    );
    let passed = try_simulate(|sim| {
        sim.seeds(seeds);
        describe(sim, Which::Corrected);
    });
    if let Err(story) = passed {
        panic!("the correction of {name}: {story}");
    }
    let passed = try_simulate(|sim| {
        sim.seeds(seeds).stale_starts();
        describe(sim, Which::Corrected);
    });
    if let Err(story) = passed {
        panic!("the correction of {name} that is shown the past: {story}");
    }
}

macro_rules! checks {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(#[test]
        fn $test() {
            check($name);
        })*

        #[test]
        fn every_mistake_is_checked() {
            let all: Vec<&str> = ALL.iter().map(|mistake| mistake.name).collect();
            assert_eq!(all, [$($name),*]);
        }
    };
}

checks! {
    a_stale_cache_is_found: "stale-cache",
    a_creation_without_a_name_is_found: "generated-name",
    a_status_written_over_a_newer_one_is_found: "status-overwritten",
    a_forgotten_finalizer_is_found: "finalizer-forgotten",
    a_finalizer_removed_too_early_is_found: "finalizer-too-early",
    a_lost_owner_is_found: "owner-lost",
    a_fight_is_found: "fight",
    a_requeue_without_end_is_found: "requeue",
    work_in_a_handler_is_found: "handler-work",
    an_assumed_order_of_types_is_found: "order-of-types",
    a_missed_delete_is_found: "missed-delete",
    a_time_taken_from_the_object_is_found: "object-time",
}

/// A finalizer alone is right where a restarted process is shown all that was seen before.
#[test]
fn trust_in_a_first_list_is_found_where_that_can_show_the_past_and_only_there() {
    let passed = try_simulate(|sim| {
        sim.seeds(seeds());
        without_the_question(sim);
    });
    if let Err(story) = passed {
        panic!("without the past: {story}");
    }
    let found = try_simulate(|sim| {
        sim.seeds(1_000).stale_starts();
        without_the_question(sim);
    });
    let story = found.expect_err("it is found");
    assert!(story.contains("KINFORM_SEED="), "{story}");
}
