//! Thousands of seeded histories: never two leaders, writes in the order of their terms, and a leader
//! again once the faults are over.
//!
//! ```text
//! KINFORM_ELECTION_SEEDS (default 2000), _FIRST → World<Election>, World<Naive> → verdicts, RESULT lines
//! ```
//!
//! `cargo xtask election --seeds 1000000` runs it in a release build.

use super::naive::Naive;
use super::network::{Elector, Hands, Safety, Tally, World};
use super::*;

/// Seeds of a run, unless `KINFORM_ELECTION_SEEDS` says otherwise.
const SEEDS: u64 = 2_000;

/// BOUND: threads of a run.
const THREADS: u64 = 2;

fn seeds() -> std::ops::Range<u64> {
    let said = |name: &str| std::env::var(name).ok()?.parse().ok();
    let first = said("KINFORM_ELECTION_FIRST").unwrap_or(0);
    first..first + said("KINFORM_ELECTION_SEEDS").unwrap_or(SEEDS)
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

/// A replica in an election that a coordinator decides.
struct Coordinated(Election);

impl Elector for Coordinated {
    const LEADS_ASLEEP: bool = true;
    const IS_COORDINATED: bool = true;

    fn make(identity: &str, seed: u64) -> Self {
        Self(<Election as Elector>::make(identity, seed).coordinated())
    }

    fn take(&mut self, input: Input, now: Instant) {
        self.0.take(input, now);
    }

    fn step(&mut self) -> Option<Step> {
        self.0.step()
    }

    fn wake(&self) -> Option<Instant> {
        self.0.wake()
    }

    fn leads(&self, now: Instant) -> bool {
        self.0.leads(now)
    }
}

/// The sum of many runs.
#[derive(Debug, Default)]
struct Sum {
    seeds: u64,
    failed: u64,
    terms: u64,
    losses: u64,
    releases: u64,
    writes: u64,
    refusals: u64,
    /// The violation of the lowest seed that failed.
    violation: Option<String>,
}

impl Sum {
    fn add(&mut self, run: Result<Tally, String>) {
        self.seeds += 1;
        match run {
            Ok(tally) => {
                self.terms += u64::from(tally.terms);
                self.losses += u64::from(tally.losses);
                self.releases += u64::from(tally.releases);
                self.writes += u64::from(tally.writes);
                self.refusals += u64::from(tally.refusals);
            }
            Err(violation) => {
                self.failed += 1;
                self.violation.get_or_insert(violation);
            }
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            seeds: self.seeds + other.seeds,
            failed: self.failed + other.failed,
            terms: self.terms + other.terms,
            losses: self.losses + other.losses,
            releases: self.releases + other.releases,
            writes: self.writes + other.writes,
            refusals: self.refusals + other.refusals,
            violation: self.violation.or(other.violation),
        }
    }
}

/// Runs all seeds, and prints the sum.
fn run_all<E: Elector>(name: &str, hands: Hands, safety: Safety) -> Sum {
    let seeds = seeds();
    let share = (seeds.end - seeds.start).div_ceil(THREADS);
    let part = |at: u64| {
        let from = seeds.start + at * share;
        let mut sum = Sum::default();
        for seed in from..(from + share).min(seeds.end) {
            sum.add(World::<E>::run(seed, hands, safety));
        }
        sum
    };
    let part = &part;
    let all = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..THREADS)
            .map(|at| scope.spawn(move || part(at)))
            .collect();
        let sums = parts
            .into_iter()
            .map(|part| part.join().expect("a part ends"));
        sums.fold(Sum::default(), Sum::and)
    });
    println!(
        "RESULT | {name}, hands {hands:?}, {safety:?} | {} seeds, {} failed | {} terms, {} losses, {} releases, {} writes in order, {} writes of older terms refused |",
        all.seeds, all.failed, all.terms, all.losses, all.releases, all.writes, all.refusals
    );
    all
}

#[track_caller]
fn check_all(hands: Hands, safety: Safety) -> Sum {
    check_sum(run_all::<Election>("kinform", hands, safety))
}

#[track_caller]
fn check_sum(all: Sum) -> Sum {
    if let Some(violation) = &all.violation {
        panic!("{violation}");
    }
    // Not for lack of elections and of work.
    assert!(all.terms > all.seeds * 3, "{all:?}");
    assert!(all.writes > all.seeds * 20, "{all:?}");
    all
}

#[test]
fn no_two_replicas_lead_at_one_instant_and_one_leads_again_after_the_faults() {
    let all = check_all(Hands::Off, Safety::Guard);
    let enough = all.losses > all.seeds && all.releases > all.seeds / 2;
    assert!(enough, "{all:?}");
}

#[test]
fn hands_on_the_lease_make_two_leaders_no_longer_than_the_watch_lags() {
    check_all(Hands::On, Safety::Guard);
}

#[test]
fn under_a_hard_fence_no_write_of_an_older_term_takes_effect_whatever_froze_or_drifted() {
    let all = check_all(Hands::Off, Safety::Fence);
    // The fence is what kept them out.
    assert!(all.refusals > all.seeds / 2, "{all:?}");
}

#[test]
fn a_coordinator_hands_the_lease_over_and_no_older_term_writes_after_a_newer_one() {
    let all = check_sum(run_all::<Coordinated>(
        "coordinated",
        Hands::Off,
        Safety::Guard,
    ));
    // Terms end because another holder is preferred, and their leases are given back.
    assert!(all.losses > all.seeds * 2, "{all:?}");
}

#[test]
fn under_a_hard_fence_a_coordinator_with_any_clock_lets_no_older_term_write_after_a_newer_one() {
    let all = check_sum(run_all::<Coordinated>(
        "coordinated",
        Hands::Off,
        Safety::Fence,
    ));
    assert!(all.refusals > all.seeds / 2, "{all:?}");
}

#[test]
fn upstreams_algorithm_fails_the_same_check() {
    let all = run_all::<Naive>("client-go", Hands::Off, Safety::Guard);
    assert!(all.failed > all.seeds / 1_000, "{all:?}");
    assert!(all.violation.is_some(), "{all:?}");
}
