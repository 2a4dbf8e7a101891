//! Thousands of seeded histories: never two leaders, and a leader again once the faults are over.
//!
//! ```text
//! KINFORM_ELECTION_SEEDS=1000000 (default 2000) → World<Election>, World<Naive> → verdicts
//! ```

use super::naive::Naive;
use super::network::{Elector, Hands, Tally, World};
use super::*;

/// Seeds of a run, unless `KINFORM_ELECTION_SEEDS` says otherwise.
const SEEDS: u64 = 2_000;

fn seeds() -> u64 {
    let said = std::env::var("KINFORM_ELECTION_SEEDS").ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

impl Elector for Election {
    const LEADS_ASLEEP: bool = true;

    fn make(identity: &str, seed: u64) -> Self {
        Self::new(identity, LeaseOptions::default(), seed).unwrap()
    }

    fn take(&mut self, input: Input, now: Instant) {
        self.handle(input, now);
    }

    fn step(&mut self) -> Option<Step> {
        self.poll()
    }

    fn wake(&self) -> Option<Instant> {
        self.next_wake()
    }

    fn leads(&self, now: Instant) -> bool {
        self.term().is_some_and(|term| now < term.ends_at)
    }
}

/// Runs all seeds; panics with the first that fails.
#[track_caller]
fn check_all(hands: Hands, seeds: std::ops::Range<u64>) -> Tally {
    let mut all = Tally::default();
    for seed in seeds {
        match World::<Election>::run(seed, hands) {
            Ok(tally) => {
                all.terms += tally.terms;
                all.losses += tally.losses;
                all.releases += tally.releases;
            }
            Err(violation) => panic!("{violation}"),
        }
    }
    all
}

#[test]
fn no_two_replicas_lead_at_one_instant_and_one_leads_again_after_the_faults() {
    let seeds = seeds();
    let all = check_all(Hands::Off, 0..seeds);
    // Not for lack of elections.
    assert!(u64::from(all.terms) > seeds * 3, "{all:?}");
    assert!(
        u64::from(all.losses) > seeds && u64::from(all.releases) > seeds / 2,
        "{all:?}"
    );
}

#[test]
fn hands_on_the_lease_make_two_leaders_no_longer_than_the_watch_lags() {
    check_all(Hands::On, 0..seeds());
}

#[test]
fn upstreams_algorithm_fails_the_same_check() {
    let found = (0..SEEDS * 10).find_map(|seed| World::<Naive>::run(seed, Hands::Off).err());
    let violation = found.expect("a violation");
    assert!(violation.contains("lead at"), "{violation}");
}
