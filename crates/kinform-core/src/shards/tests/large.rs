//! Many members: what one that joins moves, and how evenly keys are spread.
//!
//! ```text
//! KINFORM_SHARDS_MEMBERS (default 60), _COUNT (1024), _KEYS (100,000) → rounds of 10 ms → RESULT
//! ```
//!
//! All members see each write one round later; what is simulated with faults is in `world`.

use crate::dice::Dice;

use super::*;

fn said(name: &str, default: u32) -> u32 {
    let said = std::env::var(name).ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(default)
}

struct Crowd {
    members: Vec<Sharding>,
    shards: Vec<(u64, ShardRecord)>,
    version: u64,
    now: Instant,
    moves: u32,
    writes: u32,
}

fn name(at: usize) -> Arc<str> {
    format!("operator-member-{at}").into()
}

fn holder(at: usize) -> Holder {
    Holder {
        member: name(at),
        term: MemberTerm {
            uid: "u".into(),
            transitions: 0,
        },
    }
}

fn lease(at: usize) -> MemberLease {
    MemberLease {
        name: name(at),
        version: at as u64 + 1,
        term: holder(at).term,
        is_held: true,
        renewal: "r".into(),
        duration: Duration::from_secs(3_600),
        weight: 100,
    }
}

impl Crowd {
    /// Members with all shards, dealt out in turn.
    fn new(count: usize, shards: Shards) -> Self {
        let version = |shard: usize| (100_000 + shard) as u64;
        let all = (0..shards.count() as usize).map(|shard| {
            let owner = Some(holder(shard % count));
            (version(shard), ShardRecord { owner, claim: None })
        });
        let mut crowd = Self {
            members: Vec::new(),
            shards: all.collect(),
            version: version(shards.count() as usize),
            now: Instant::from_millis(1_000),
            moves: 0,
            writes: 0,
        };
        for at in 0..count {
            crowd.start(at, count, shards);
        }
        crowd
    }

    fn start(&mut self, at: usize, count: usize, shards: Shards) {
        let now = self.now;
        let mut machine = Sharding::new(name(at), shards, ShardingOptions::default());
        for member in 0..count {
            machine.handle(Input::MemberSeen(lease(member)), now);
        }
        for (shard, (version, record)) in (0..).zip(&self.shards) {
            let seen = ShardLease {
                shard: ShardId(shard),
                version: *version,
                record: record.clone(),
            };
            machine.handle(Input::ShardSeen(seen), now);
        }
        let began = Input::TermBegan {
            term: holder(at).term,
            version: at as u64 + 1,
            ends_at: Instant::FAR_FUTURE,
        };
        machine.handle(began, now);
        machine.handle(Input::Listed, now);
        self.members.push(machine);
    }

    /// Rounds until nothing is left to do.
    fn settle(&mut self) {
        loop {
            let mut news: Vec<ShardLease> = Vec::new();
            let mut replies: Vec<(usize, Input)> = Vec::new();
            let mut is_quiet = true;
            for at in 0..self.members.len() {
                while let Some(step) = self.members[at].poll() {
                    is_quiet = false;
                    match step {
                        Step::Extend(shard) => replies.push((at, Input::RangeSynced(shard))),
                        Step::Close { shard, .. } => replies.push((at, Input::Drained(shard))),
                        Step::Write(write) => replies.push((at, self.write(write, &mut news))),
                        Step::Shrink(_) | Step::Open(_) => {}
                        step => panic!("{at}: {step:?}"),
                    }
                }
            }
            self.now += Duration::from_millis(10);
            for (at, input) in replies {
                self.members[at].handle(input, self.now);
            }
            for machine in &mut self.members {
                for seen in &news {
                    machine.handle(Input::ShardSeen(seen.clone()), self.now);
                }
                if machine.next_wake().is_some_and(|wake| wake <= self.now) {
                    machine.handle(Input::Timer, self.now);
                }
            }
            let is_waiting = |machine: &Sharding| {
                let soon = self.now + Duration::from_secs(60);
                machine.next_wake().is_some_and(|wake| wake < soon)
            };
            if is_quiet && !self.members.iter().any(is_waiting) {
                return;
            }
        }
    }

    fn write(&mut self, write: Write, news: &mut Vec<ShardLease>) -> Input {
        let id = write.id;
        let stored = &mut self.shards[write.shard.0 as usize];
        let answer = if write.version == Some(stored.0) {
            self.version += 1;
            self.writes += 1;
            self.moves += u32::from(write.purpose == Purpose::Acquire);
            *stored = (self.version, write.record.clone());
            news.push(ShardLease {
                shard: write.shard,
                version: self.version,
                record: write.record,
            });
            Answer::Stored {
                version: self.version,
            }
        } else {
            Answer::Conflict
        };
        Input::Answer { id, answer }
    }

    /// The shards of each member.
    fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.members.len()];
        for (_, record) in &self.shards {
            let owner = record.owner.as_ref().unwrap();
            let at = owner.member.rsplit('-').next().unwrap();
            counts[at.parse::<usize>().unwrap()] += 1;
        }
        counts
    }
}

/// Random uids, as a server makes them.
fn uid(dice: &mut Dice) -> String {
    let mut part = |digits: u32| (dice.throw() * 2_f64.powi(4 * digits as i32)) as u64;
    let (a, b, c, d, e) = (part(8), part(4), part(3), part(4), part(12));
    format!(
        "{a:08x}-{b:04x}-4{c:03x}-{:04x}-{e:012x}",
        d & 0x3fff | 0x8000
    )
}

#[test]
fn one_that_joins_a_crowd_moves_its_part_and_keys_are_spread_evenly() {
    let count = said("KINFORM_SHARDS_MEMBERS", 60) as usize;
    let shards = Shards::by_uid(said("KINFORM_SHARDS_COUNT", 1_024)).unwrap();
    let keys = said("KINFORM_SHARDS_KEYS", 100_000);
    let mut crowd = Crowd::new(count, shards);
    crowd.settle();
    assert_eq!(
        (crowd.moves, crowd.writes),
        (0, 0),
        "a stable crowd moves nothing"
    );
    for machine in &mut crowd.members {
        machine.handle(Input::MemberSeen(lease(count)), crowd.now);
    }
    crowd.start(count, count + 1, shards);
    crowd.settle();
    let counts = crowd.counts();
    let ideal = f64::from(shards.count()) / counts.len() as f64;
    let most = *counts.iter().max().unwrap();
    let mut dice = Dice::new(17);
    let mut by_shard = vec![0_u32; shards.count() as usize];
    for _ in 0..keys {
        by_shard[shards.shard_of(&uid(&mut dice)).0 as usize] += 1;
    }
    let mut by_member = vec![0_u32; counts.len()];
    for ((_, record), keys) in crowd.shards.iter().zip(&by_shard) {
        let owner = record.owner.as_ref().unwrap();
        let at: usize = owner.member.rsplit('-').next().unwrap().parse().unwrap();
        by_member[at] += keys;
    }
    let mean = f64::from(keys) / counts.len() as f64;
    let share = f64::from(*by_member.iter().max().unwrap()) / mean;
    println!(
        "RESULT | large | {count} members, {} shards, one joins: {} moves ({ideal:.2} ideal), {} writes, shards of a member {} to {most} | {keys} keys: largest member {share:.3} of the mean, shard {:.3} |",
        shards.count(),
        crowd.moves,
        crowd.writes,
        counts.iter().min().unwrap(),
        f64::from(*by_shard.iter().max().unwrap()) * f64::from(shards.count()) / f64::from(keys),
    );
    assert!(
        f64::from(crowd.moves) <= 1.2 * ideal,
        "{} moves",
        crowd.moves
    );
    assert!(f64::from(most) <= 1.1 * ideal.ceil(), "{most} shards");
}
