//! The rules of one member, as scripts.
//!
//! ```text
//! "seen 0 b/0 - @7 -> .." (lines) → Bench → machine → its steps as words → compared
//! ```
//!
//! A line is `input -> steps`, the steps separated by commas; a line without an arrow expects none.
//! `seen SHARD OWNER CLAIM @VERSION` is a shard, `member NAME TERM @VERSION RENEWAL` a member, with
//! `-` for nobody, or for a term that is not held; a term is `MEMBER/TRANSITIONS`. The process is
//! `me`, there are two shards, and a term ends after 12 s.

use super::*;

/// A machine, a clock, and the last write.
struct Bench {
    machine: Sharding,
    now: Instant,
    writes: Vec<RequestId>,
    read: Option<RequestId>,
}

impl Bench {
    fn new() -> Self {
        let shards = Shards::by_uid(2).unwrap();
        Self {
            machine: Sharding::new("me", shards, ShardingOptions::default()),
            now: Instant::from_millis(1_000_000),
            writes: Vec::new(),
            read: None,
        }
    }

    #[track_caller]
    fn run(&mut self, script: &str) {
        let lines = script.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty()) {
            let (input, expected) = line.split_once("->").unwrap_or((line, ""));
            let words: Vec<&str> = input.split_whitespace().collect();
            self.line(&words);
            let mut found = Vec::new();
            while let Some(step) = self.machine.poll() {
                found.push(self.words(step));
            }
            let expected = expected.split(',').map(str::trim);
            let expected: Vec<&str> = expected.filter(|step| !step.is_empty()).collect();
            assert_eq!(found, expected, "after {line:?} in {script}");
        }
    }

    fn line(&mut self, words: &[&str]) {
        let shard = |text: &str| ShardId(text.parse().unwrap());
        let input = match *words {
            ["list"] => Input::Listed,
            ["stop"] => Input::Stop,
            ["end"] => Input::TermEnded,
            ["wait", seconds] => {
                self.now += Duration::from_secs_f64(seconds.parse().unwrap());
                Input::Timer
            }
            // Time goes by, and nobody says so.
            ["sleep", seconds] => {
                self.now += Duration::from_secs_f64(seconds.parse().unwrap());
                return;
            }
            ["term", transitions, version] => Input::TermBegan {
                term: term("me", transitions),
                version: number(version),
                ends_at: self.now + Duration::from_secs(12),
            },
            ["extended"] => Input::TermExtended {
                ends_at: self.now + Duration::from_secs(12),
            },
            ["seen", number_, owner, claim, version] => Input::ShardSeen(ShardLease {
                shard: shard(number_),
                version: number(version),
                record: ShardRecord {
                    owner: holder(owner),
                    claim: holder(claim),
                },
            }),
            ["deleted", number_, version] => Input::ShardGone {
                shard: shard(number_),
                version: Some(number(version)),
            },
            ["missing", number] => Input::ShardGone {
                shard: shard(number),
                version: None,
            },
            ["member", name, transitions, version, renewal] => {
                Input::MemberSeen(member(name, transitions, version, renewal))
            }
            ["gone", name, version] => Input::MemberGone {
                name: name.into(),
                version: number(version),
            },
            ["absent", name] => Input::MemberRead {
                id: self.read.unwrap(),
                name: name.into(),
                lease: None,
            },
            ["synced", number] => Input::RangeSynced(shard(number)),
            ["drained", number] => Input::Drained(shard(number)),
            ["stored", version] => self.answer(Answer::Stored {
                version: number(version),
            }),
            ["conflict"] => self.answer(Answer::Conflict),
            ["failed"] => self.answer(Answer::Failed),
            _ => panic!("no input is called {words:?}"),
        };
        self.machine.handle(input, self.now);
    }

    /// The answer to the first write that has none.
    fn answer(&mut self, answer: Answer) -> Input {
        let id = self.writes.remove(0);
        Input::Answer { id, answer }
    }

    fn words(&mut self, step: Step) -> String {
        match step {
            Step::Extend(shard) => format!("extend {shard}"),
            Step::Shrink(shard) => format!("shrink {shard}"),
            Step::Open(shard) => format!("open {shard}"),
            Step::Close { shard, reason } => format!("close {shard} {reason:?}"),
            Step::Write(write) => {
                self.writes.push(write.id);
                let version = write.version.unwrap_or(0);
                format!("{:?} {}@{version}", write.purpose, write.shard).to_lowercase()
            }
            Step::Bury {
                id,
                member,
                version,
            } => {
                self.writes.push(id);
                format!("bury {member}@{version}")
            }
            Step::ReadShard(shard) => format!("read {shard}"),
            Step::ReadMember { id, name } => {
                self.read = Some(id);
                format!("read {name}")
            }
            Step::Leave => "leave".to_owned(),
            Step::Left => "left".to_owned(),
            Step::Report(report) => format!("{report:?}"),
        }
    }
}

fn number(version: &str) -> u64 {
    version.trim_start_matches('@').parse().unwrap()
}

fn term(member: &str, transitions: &str) -> MemberTerm {
    MemberTerm {
        uid: format!("u-{member}").into(),
        transitions: transitions.trim_end_matches('-').parse().unwrap(),
    }
}

fn holder(text: &str) -> Option<Holder> {
    let (member, transitions) = text.split_once('/')?;
    Some(Holder {
        member: member.into(),
        term: term(member, transitions),
    })
}

/// A member; `3-` is the third term, which is not held.
fn member(name: &str, transitions: &str, version: &str, renewal: &str) -> MemberLease {
    MemberLease {
        name: name.into(),
        version: number(version),
        term: term(name, transitions),
        is_held: !transitions.ends_with('-'),
        renewal: renewal.into(),
        duration: Duration::from_secs(15),
        weight: 100,
    }
}

#[track_caller]
fn check(script: &str) {
    Bench::new().run(script);
}

/// This member alone has both shards, and works on them.
const ALONE: &str = "list
    term 0 @1 -> extend 0, acquire 0@0, extend 1, acquire 1@0
    stored @2
    stored @3
    synced 0 -> open 0
    synced 1 -> open 1";

/// The member b comes, and claims the first one.
const CLAIMED: &str = "member b 0 @4 r1
    seen 0 me/0 b/0 @5 -> close 0 HandOver";

/// The member b has both, and this one comes.
const SECOND: &str = "member b 0 @1 r1
    seen 0 b/0 - @2
    seen 1 b/0 - @3
    list";

#[test]
fn a_member_that_is_alone_takes_all_shards_at_once_and_opens_each_when_it_is_synced() {
    check(ALONE);
}

#[test]
fn before_all_leases_were_seen_nothing_is_taken() {
    check("term 0 @1\n list -> extend 0, acquire 0@0, extend 1, acquire 1@0");
}

#[test]
fn h7_a_shard_of_another_is_synced_then_claimed_then_awaited_then_acquired() {
    check(&format!(
        "{SECOND}
        term 0 @4 -> extend 0
        synced 0 -> claim 0@2
        stored @5
        seen 0 - me/0 @6 -> acquire 0@6
        stored @7 -> open 0"
    ));
}

#[test]
fn h3_a_claimed_shard_is_released_when_its_work_has_ended() {
    check(&format!(
        "{ALONE}
        {CLAIMED}
        drained 0 -> release 0@5
        stored @6 -> shrink 0
        seen 0 b/0 - @7"
    ));
}

#[test]
fn h17_a_shard_whose_claim_was_taken_back_while_its_work_drained_is_opened_again() {
    check(&format!(
        "{ALONE}
        {CLAIMED}
        seen 0 me/0 - @6
        drained 0 -> open 0
        wait 1
        seen 0 me/0 b/0 @7 -> close 0 HandOver
        drained 0 -> release 0@7
        stored @8 -> shrink 0"
    ));
}

#[test]
fn a_release_that_may_be_stored_is_written_again_although_the_claim_was_taken_back() {
    check(&format!(
        "{ALONE}
        {CLAIMED}
        drained 0 -> release 0@5
        failed -> read 0
        seen 0 me/0 - @6 -> release 0@6"
    ));
}

#[test]
fn h8_a_member_hands_over_one_shard_at_a_time_and_keeps_its_floor() {
    let shards = Shards::by_uid(8).unwrap();
    let mut bench = Bench::new();
    bench.machine = Sharding::new("me", shards, ShardingOptions::default());
    for shard in 0..8 {
        bench.run(&format!("seen {shard} me/0 - @{}", shard + 2));
    }
    bench.run("list -> read me");
    bench.line(&["term", "0", "@1"]);
    for shard in ["0", "1", "2", "3", "4", "5", "6", "7"] {
        bench.line(&["synced", shard]);
    }
    while bench.machine.poll().is_some() {}
    bench.run(
        "member b 0 @20 r1
        seen 0 me/0 b/0 @21 -> close 0 HandOver
        seen 1 me/0 b/0 @22
        seen 2 me/0 b/0 @23
        seen 3 me/0 b/0 @24
        seen 4 me/0 b/0 @25
        drained 0 -> release 0@21
        stored @26 -> shrink 0, close 1 HandOver
        drained 1 -> release 1@22
        stored @27 -> shrink 1, close 2 HandOver
        drained 2 -> release 2@23
        stored @28 -> shrink 2, close 3 HandOver
        drained 3 -> release 3@24
        stored @29 -> shrink 3",
    );
}

#[test]
fn h6_a_release_without_an_answer_is_tried_again_and_the_queue_stays_closed() {
    check(&format!(
        "{ALONE}
        {CLAIMED}
        drained 0 -> release 0@5
        failed -> read 0
        seen 0 me/0 b/0 @5
        wait 1 -> release 0@5
        conflict -> read 0
        seen 0 - b/0 @6 -> shrink 0"
    ));
}

#[test]
fn h2_the_end_of_the_term_by_the_clock_closes_all_queues_before_anything_else() {
    check(&format!(
        "{ALONE}
        sleep 12
        member b 0 @4 r1 -> close 0 Lost, close 1 Lost
        drained 0 -> shrink 0
        drained 1 -> shrink 1
        end"
    ));
}

#[test]
fn a_term_that_is_extended_goes_on() {
    check(&format!(
        "{ALONE}\n sleep 11\n extended\n wait 11\n wait 2 -> close 0 Lost, close 1 Lost"
    ));
}

#[test]
fn a_doubt_of_a_lost_term_does_not_hold_up_the_next_one() {
    check(
        "list
        term 0 @1 -> extend 0, acquire 0@0, extend 1, acquire 1@0
        failed -> read 0
        end -> shrink 0, shrink 1
        term 1 @2
        wait 0.1 -> extend 0, acquire 0@0, extend 1, acquire 1@0",
    );
}

#[test]
fn h4_a_new_term_does_not_own_the_shards_of_the_last_one() {
    check(
        "seen 0 me/0 - @2
        seen 1 b/0 - @3
        member b 0 @4 r1
        list -> read me
        term 1 @5 -> extend 0, acquire 0@2
        synced 0
        stored @6 -> open 0",
    );
}

#[test]
fn h1_an_expired_member_is_buried_before_its_shards_are_taken() {
    check(&format!(
        "{SECOND}
        wait 10
        term 0 @4 -> extend 0
        wait 5 -> bury b@1
        wait 0.5
        stored @5 -> acquire 0@2, extend 1, acquire 1@3"
    ));
}

#[test]
fn a_member_that_renewed_meanwhile_is_read_and_lives_on() {
    check(&format!(
        "{SECOND}
        wait 10
        term 0 @4 -> extend 0
        wait 5 -> bury b@1
        conflict -> read b
        member b 0 @9 r2
        wait 5"
    ));
}

#[test]
fn h5_a_term_that_only_a_shard_names_is_asked_about_and_waited_for() {
    check(
        "seen 0 b/1 - @2
        seen 1 b/1 - @3
        member b 0 @1 r1
        list -> read b
        term 0 @4 -> extend 0
        member b 1 @2 r2
        wait 5
        extended
        wait 8",
    );
}

#[test]
fn a_term_whose_lease_does_not_exist_is_dead_a_lease_after_it_was_read() {
    check(
        "seen 0 b/1 - @2
        seen 1 b/1 - @3
        list -> read b
        term 0 @4
        absent b
        wait 10
        extended
        wait 4.9
        wait 0.2 -> extend 0, acquire 0@2, extend 1, acquire 1@3",
    );
}

#[test]
fn h11_the_term_of_a_lease_that_was_deleted_is_waited_out() {
    check(&format!(
        "{SECOND}
        term 0 @4 -> extend 0
        gone b @5
        wait 10
        extended
        wait 4.5
        wait 0.6 -> acquire 0@2, extend 1, acquire 1@3"
    ));
}

#[test]
fn h10_a_sighting_that_is_older_than_what_is_known_changes_nothing() {
    check(&format!(
        "{ALONE}
        seen 0 b/0 - @1
        member b 1- @8 r1
        member b 0 @7 r0
        wait 1"
    ));
}

#[test]
fn h9_a_stop_closes_all_queues_releases_each_when_it_has_drained_and_ends() {
    check(&format!(
        "{ALONE}
        stop -> leave, close 0 Stop, close 1 Stop
        drained 1 -> release 1@3
        stored @4 -> shrink 1
        drained 0 -> release 0@2
        stored @5 -> shrink 0, left"
    ));
}

#[test]
fn a_stop_without_shards_ends_at_once() {
    check(&format!("{SECOND}\n stop -> leave, left\n wait 1"));
}

#[test]
fn a_shard_whose_lease_was_deleted_is_made_again_by_its_owner() {
    check(&format!(
        "{ALONE}\n deleted 0 @4 -> acquire 0@0\n stored @5"
    ));
}

#[test]
fn h15_a_lease_that_a_late_read_did_not_find_is_known_once_it_is_seen_again() {
    // The read was answered before the lease was made, and the answer came after it.
    check(&format!(
        "{ALONE}
        missing 0 -> acquire 0@0
        conflict -> read 0
        seen 0 me/0 - @2
        wait 5"
    ));
}

#[test]
fn h16_a_claim_of_this_term_is_taken_up_once_the_work_of_the_lost_shard_has_drained() {
    // The previous owner's release was stored, and its answer was lost; a person deleted the lease,
    // and the release made it again.
    check(&format!(
        "{ALONE}
        seen 0 - me/0 @5 -> close 0 Lost
        drained 0 -> shrink 0, extend 0, acquire 0@5"
    ));
}

#[test]
fn a_claim_of_this_term_is_taken_up_where_no_work_ran() {
    check(
        "list
        term 0 @1 -> extend 0, acquire 0@0, extend 1, acquire 1@0
        stored @2
        seen 0 - me/0 @3 -> shrink 0, extend 0, acquire 0@3",
    );
}

#[test]
fn a_shard_that_another_took_is_closed_at_once() {
    check(&format!(
        "{ALONE}
        member b 0 @4 r1
        seen 0 b/0 - @5 -> close 0 Lost
        drained 0 -> shrink 0"
    ));
}

#[test]
fn a_race_for_a_free_shard_is_lost_without_another_write() {
    check(
        "member b 0 @1 r1
        list
        term 0 @4 -> extend 0, acquire 0@0
        conflict -> read 0
        seen 0 b/0 - @5 -> shrink 0",
    );
}

#[test]
fn h12_members_have_from_floor_to_ceiling_of_their_part_by_weight() {
    let mut bench = Bench::new();
    let shards = Shards::by_uid(10).unwrap();
    bench.machine = Sharding::new("me", shards, ShardingOptions::default());
    bench.line(&["term", "0", "@1"]);
    assert_eq!(bench.machine.quota(), Some((10, 10)));
    bench.line(&["member", "b", "0", "@2", "r"]);
    bench.line(&["member", "c", "0", "@3", "r"]);
    assert_eq!(bench.machine.quota(), Some((3, 4)));
    let heavy = MemberLease {
        weight: 200,
        ..member("d", "0", "@4", "r")
    };
    bench.machine.handle(Input::MemberSeen(heavy), bench.now);
    assert_eq!(bench.machine.quota(), Some((2, 2)));
    let leaving = MemberLease {
        weight: 0,
        ..member("d", "0", "@5", "r")
    };
    bench.machine.handle(Input::MemberSeen(leaving), bench.now);
    assert_eq!(bench.machine.quota(), Some((3, 4)));
}

#[test]
fn work_may_write_until_it_has_drained_and_never_after_the_term() {
    let mut bench = Bench::new();
    bench.run(ALONE);
    let may_work = |bench: &Bench| bench.machine.may_work(ShardId(0), bench.now);
    assert!(may_work(&bench));
    assert_eq!(bench.machine.ranges(), Ranges::all());
    bench.run("stop -> leave, close 0 Stop, close 1 Stop");
    assert!(may_work(&bench));
    assert_eq!(bench.machine.open().count(), 0);
    bench.now += Duration::from_secs(12);
    assert!(!may_work(&bench));
}

#[test]
fn more_members_than_there_is_room_for_are_reported_and_ignored() {
    let mut bench = Bench::new();
    for at in 1..MAX_MEMBERS {
        bench.line(&["member", &format!("m{at}"), "0", "@1", "r"]);
    }
    bench.run("member one-more 0 @1 r -> TooManyMembers { name: \"one-more\" }");
    // One that is released and owns nothing makes room.
    bench.run("member m7 0- @2 r\n member one-more 0 @1 r");
    assert_eq!(bench.machine.owner(ShardId(0)), None);
}
