//! The script of a seed: three replicas, two hundred writes, a dozen faults, five virtual minutes.
//!
//! ```text
//! seed ─▶ settings, starts, writes in bursts, faults of every kind ─▶ Script
//! ```
//!
//! Faults are drawn evenly over their kinds, so that rare ones are as frequent as common ones.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::script::{
    Act, Asks, Change, Follow, Hand, Handling, LEADER, Net, On, Script, Step, Trap, Trouble,
    VERSION, Verb, Watched,
};
use crate::settings::{Behind, Expiry, Fence, Lease, Replica, Servers, Settings, Style, Tokens};

/// The namespaces of the objects.
pub(crate) const NAMESPACES: [&str; 3] = ["apple", "birch", "cedar"];
/// BOUND: names in a namespace.
const NAMES: u8 = 8;
/// The replicas.
const REPLICAS: usize = 3;
/// The writes of users.
const WRITES: usize = 200;
/// The faults, at least and at most.
const FAULTS: std::ops::RangeInclusive<usize> = 10..=18;
/// The length of a run, and of a part of a long one, in milliseconds.
pub(crate) const LENGTH: u64 = 300_000;

/// The length of half of the refusals of writes, in milliseconds: a key fails a dozen times in a row.
const REFUSAL: u64 = 220_000;

/// Replies in a row that tell a client which waits between its tries from one that does not.
const MANY: usize = 200;

/// The script of a seed.
#[must_use]
pub fn script(seed: u64) -> Script {
    let mut random = SmallRng::seed_from_u64(seed ^ 0x6b69_6e66_6f72_6d00);
    let settings = settings(&mut random);
    let mut steps = Vec::new();
    for process in 0..REPLICAS {
        let at = random.random_range(0..10_000) * u64::from(process > 0);
        steps.push(Step {
            at,
            act: Act::Start(process),
        });
    }
    writes(&mut random, &mut steps);
    steps.push(Step {
        at: random.random_range(1_000..30_000),
        act: Act::Server(0, Trouble::Backup),
    });
    for _ in 0..random.random_range(FAULTS) {
        let at = random.random_range(500..LENGTH - 10_000);
        steps.push(Step {
            at,
            act: fault(&mut random, &settings),
        });
    }
    changes_of_use(&mut random, &mut steps);
    steps.sort_by_key(|step| step.at);
    Script {
        version: VERSION,
        seed,
        settings,
        steps,
    }
}

/// The steps of a part of a long run: a number of writes, spread evenly, and as many faults as a script
/// has. Processes that are not there start.
pub(crate) fn stretch((seed, number): (u64, u64), settings: &Settings, writes: u64) -> Vec<Step> {
    let mut random = SmallRng::seed_from_u64(seed ^ 0x686f_7572_7300 ^ (number << 32));
    let random = &mut random;
    let mut steps: Vec<Step> = (0..REPLICAS)
        .map(|process| Step {
            at: 0,
            act: Act::Start(process),
        })
        .collect();
    for _ in 0..writes {
        steps.push(Step {
            at: random.random_range(0..LENGTH),
            act: Act::Write(change(random)),
        });
    }
    for _ in 0..random.random_range(FAULTS) {
        let mut act = fault(random, settings);
        while restores(&act) {
            act = fault(random, settings);
        }
        let at = random.random_range(0..LENGTH);
        steps.push(Step { at, act });
    }
    changes_of_use(random, &mut steps);
    steps.sort_by_key(|step| step.at);
    steps
}

/// Returns whether the storage is replaced by a backup.
fn restores(act: &Act) -> bool {
    matches!(
        act,
        Act::Server(_, Trouble::Restore(_) | Trouble::GoBack(_))
    )
}

fn settings(random: &mut SmallRng) -> Settings {
    let fencing = match random.random_ratio(1, 3) {
        true => Fence::Hard,
        false => Fence::Guard,
    };
    let style = match random.random_range(0..3) {
        0 => Style::Apply,
        1 => Style::CreateOrUpdate,
        // A write that the network holds back is repeated by a successor, unless the server refuses it.
        _ if fencing == Fence::Hard => Style::Generate,
        _ => Style::Apply,
    };
    let audits = random.random_ratio(1, 3);
    let replicas = (0..REPLICAS).map(|_| replica(random, audits)).collect();
    Settings {
        lease: match random.random_ratio(1, 4) {
            true => Lease::Quick,
            false => Lease::Default,
        },
        fencing,
        style,
        servers: servers(random),
        finalizer: random.random_ratio(1, 2),
        replicas,
    }
}

fn servers(random: &mut SmallRng) -> Servers {
    Servers {
        expiry: match random.random_ratio(1, 3) {
            true => Expiry::Refusal,
            false => Expiry::Event,
        },
        behind: match random.random_ratio(1, 3) {
            true => Behind::Past,
            false => Behind::Refusal,
        },
        tokens: match random.random_ratio(1, 4) {
            true => Tokens::Expire,
            false => Tokens::Last,
        },
    }
}

fn replica(random: &mut SmallRng, audits: bool) -> Replica {
    Replica {
        json: random.random(),
        streams: random.random(),
        page: *choose(random, &[1, 2, 3, 5, 8, 500]),
        coalesces: random.random(),
        resync: *choose(random, &[0, 0, 20, 60]),
        audit: if audits {
            *choose(random, &[30, 60])
        } else {
            0
        },
        workers: random.random_range(1..5),
        watch: *choose(random, &[5, 20, 60, 300]),
        ring: *choose(random, &[4, 64, 4096]),
        disk: random.random_ratio(1, 3),
    }
}

fn choose<'a, T>(random: &mut SmallRng, from: &'a [T]) -> &'a T {
    &from[random.random_range(0..from.len())]
}

/// Writes in bursts: a few each second, and now and then many at once.
fn writes(random: &mut SmallRng, steps: &mut Vec<Step>) {
    let mut made = 0;
    while made < WRITES {
        let begin = random.random_range(0..LENGTH);
        let count = if random.random_ratio(1, 5) {
            random.random_range(10..30)
        } else {
            random.random_range(1..5)
        };
        let pace = *choose(random, &[0, 1, 30, 400]);
        let mut at = begin;
        for _ in 0..count {
            steps.push(Step {
                at: at.min(LENGTH),
                act: Act::Write(change(random)),
            });
            at += random.random_range(0..=pace);
            made += 1;
        }
    }
}

/// A user's write.
pub(crate) fn change(random: &mut SmallRng) -> Change {
    let verb = match random.random_range(0..100) {
        0..28 => Verb::Create,
        28..55 => Verb::Change,
        55..68 => Verb::Label,
        68..82 => Verb::Delete,
        82..92 => Verb::Recreate,
        92..94 => Verb::Spoil,
        94..97 => Verb::Orphan,
        _ => Verb::DeleteCopy,
    };
    Change {
        namespace: random.random_range(0..NAMESPACES.len() as u8),
        name: random.random_range(0..NAMES),
        verb,
        value: random.random_range(0..1_000_000),
    }
}

/// A time up to `most` milliseconds, as likely between 10 and 100 ms as between 10 and 100 s.
fn spread(random: &mut SmallRng, most: u64) -> u64 {
    let (least, most) = (10.0_f64.ln(), (most as f64).ln());
    random.random_range(least..most).exp() as u64
}

fn fault(random: &mut SmallRng, settings: &Settings) -> Act {
    let process = match random.random_ratio(1, 3) {
        true => LEADER,
        false => random.random_range(0..REPLICAS),
    };
    match random.random_range(0..100) {
        0..8 => Act::Crash(process),
        8..14 => Act::Stop(process),
        14..20 => Act::Pause(process, spread(random, 60_000)),
        20..38 => trap(random, process, settings.style),
        38..61 => network(random, process, settings),
        61..64 => Act::Lease(hand(random, settings)),
        _ => Act::Server(random.random_range(0..2), trouble(random)),
    }
}

fn trap(random: &mut SmallRng, process: usize, style: Style) -> Act {
    let on = match random.random_ratio(1, 3) {
        true => On::Lease,
        false => On::Write,
    };
    let what = match random.random_range(0..5) {
        0 => Trap::CrashBefore,
        1 => Trap::CrashAfter,
        2 => Trap::LoseReply,
        3 => Trap::SendLate(spread(random, 40_000)),
        _ => Trap::Refuse(*choose(random, &[409, 429, 500, 503, 504])),
    };
    // Within a term nothing tells a creation that was given up and arrives late from another one.
    let what = match (style, on, what) {
        (Style::Generate, On::Write, Trap::SendLate(_)) => Trap::LoseReply,
        _ => what,
    };
    Act::Trap(process, on, what)
}

fn hand(random: &mut SmallRng, settings: &Settings) -> Hand {
    // A lease that is made anew counts its terms anew, and a hard fence compares their numbers.
    match random.random() && settings.fencing == Fence::Guard {
        true => Hand::Delete,
        false => Hand::Label,
    }
}

fn network(random: &mut SmallRng, process: usize, settings: &Settings) -> Act {
    let mut replicas = settings.replicas.iter();
    let has_audits = match process {
        LEADER => replicas.all(|one| one.audit > 0),
        process => replicas.nth(process).is_some_and(|one| one.audit > 0),
    };
    let lasts = spread(random, 250_000);
    let what = match random.random_range(0..16) {
        0 => Net::Cut,
        1 => Net::CutAfter(random.random_range(0..6000)),
        2 => Net::Refuse,
        3 => Net::BlackHole,
        4 => Net::HalfOpen,
        5 => Net::OneWay,
        6 => Net::Trickle,
        7 => Net::Slow(random.random_range(50..5_000)),
        8 => Net::Duplicate,
        9 => Net::Again,
        10 | 11 => {
            let behind = *choose(random, &[0, 5, 30, 100]);
            return Act::Switch(process, behind, lasts);
        }
        12 | 13 => Net::Deaf(*choose(random, &[Watched::Maps, Watched::Secrets])),
        14 => {
            let lasts = *choose(random, &[lasts, REFUSAL]);
            return Act::Network(process, Net::NoWrites, lasts);
        }
        // Only an audit finds out that a server forgot to tell something.
        _ if has_audits => Net::Drop,
        _ => Net::Duplicate,
    };
    Act::Network(process, what, lasts)
}

fn trouble(random: &mut SmallRng) -> Trouble {
    let asks = *choose(
        random,
        &[
            Asks::List,
            Asks::Watch,
            Asks::Watch,
            Asks::Update,
            Asks::Patch,
            Asks::Create,
        ],
    );
    let times = random.random_range(1..4);
    let lasts = spread(random, 60_000);
    match random.random_range(0..26) {
        0 => Trouble::Restart(spread(random, 30_000)),
        1 | 2 => Trouble::RestartWithoutHistory(spread(random, 30_000)),
        3 => Trouble::Restore(spread(random, 30_000)),
        4 => Trouble::GoBack(spread(random, 30_000)),
        5 => Trouble::Clock(random.random_range(-600..600)),
        6 => Trouble::CutWatches,
        7 => Trouble::StallWatches(lasts),
        8 => Trouble::LateWatches(random.random_range(100..8_000), lasts),
        9 => Trouble::NoBookmarks(lasts),
        10 => Trouble::NoInitialEventsEnd(lasts),
        11 | 12 => Trouble::Lag(lasts),
        13 | 14 => Trouble::Expire,
        15 => Trouble::Reply(
            asks,
            *choose(random, &[410, 429, 500, 502, 503, 504]),
            times,
        ),
        16 => Trouble::Reply(asks, 410, times),
        17 => Trouble::Foreign(asks, times),
        18 => Trouble::ExpiredEvent(times),
        19 => Trouble::EmptyStream(*choose(random, &[times, times, MANY])),
        20 => Trouble::Truncate(asks, random.random_range(0..4000)),
        21 => Trouble::StallBody(asks, random.random_range(0..2000)),
        22 => Trouble::NoInitialEvents(spread(random, 250_000)),
        23 => Trouble::LateInitialEventsEnd(spread(random, 250_000)),
        24 => Trouble::ShortWatches(random.random_range(500..3_000), MANY),
        _ => Trouble::Delay(asks, random.random_range(10..5_000)),
    }
}

/// A few of them, at any time.
fn changes_of_use(random: &mut SmallRng, steps: &mut Vec<Step>) {
    for _ in 0..random.random_range(2..6) {
        let at = random.random_range(0..LENGTH);
        let act = change_of_use(random);
        steps.push(Step { at, act });
    }
}

/// Handlers, namespaces and relists: what users do at any time.
fn change_of_use(random: &mut SmallRng) -> Act {
    let process = random.random_range(0..REPLICAS);
    match random.random_range(0..6) {
        0 | 1 => Act::Handler(process, Handling::Add),
        2 => Act::Handler(process, Handling::AddSlow(random.random_range(10..2_000))),
        3 => Act::Handler(process, Handling::Remove),
        4 => {
            let follow = if random.random() {
                Follow::Watch
            } else {
                Follow::Leave
            };
            Act::Namespace(
                process,
                random.random_range(0..NAMESPACES.len() as u8),
                follow,
            )
        }
        _ => Act::Relist(process),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_script_of_three_replicas_two_hundred_writes_and_ten_faults() {
        for seed in 0..200 {
            let made = script(seed);
            assert_eq!(made, script(seed));
            let count =
                |is: fn(&Act) -> bool| made.steps.iter().filter(|step| is(&step.act)).count();
            assert_eq!(count(|act| matches!(act, Act::Start(_))), REPLICAS);
            assert!(count(|act| matches!(act, Act::Write(_))) >= WRITES);
            let faults = count(|act| {
                matches!(
                    act,
                    Act::Crash(_)
                        | Act::Stop(_)
                        | Act::Pause(..)
                        | Act::Trap(..)
                        | Act::Network(..)
                        | Act::Switch(..)
                        | Act::Lease(_)
                        | Act::Server(..)
                )
            });
            assert!(faults > *FAULTS.start());
            assert!(made.steps.is_sorted_by_key(|step| step.at));
        }
    }

    #[test]
    fn a_long_run_never_restores_the_storage_and_no_part_of_it_is_like_another() {
        let Script { settings, .. } = script(1);
        let parts: Vec<Vec<Step>> = (0..200)
            .map(|number| stretch((1, number), &settings, 20))
            .collect();
        for part in &parts {
            assert!(
                part.iter()
                    .all(|step| !restores(&step.act) && step.at < LENGTH)
            );
            assert!(part.is_sorted_by_key(|step| step.at));
            let count = |is: fn(&Act) -> bool| part.iter().filter(|one| is(&one.act)).count();
            assert_eq!(count(|act| matches!(act, Act::Write(_))), 20);
            assert_eq!(count(|act| matches!(act, Act::Start(_))), REPLICAS);
            assert!(part.len() >= 20 + REPLICAS + *FAULTS.start());
        }
        assert_ne!(parts[0], parts[1]);
        assert_eq!(parts[0], stretch((1, 0), &settings, 20));
    }
}
