//! Scripts for an election: what the shell observed, and what the machine did about it.
//!
//! ```text
//! "found b@5 -> leader b" (lines) → Bench → machine → its steps as words → compared
//! ```
//!
//! A line is `input -> steps`, the steps separated by commas; a line without an arrow expects none.
//! Times are seconds since the start. Each request is sent at once, unless the script says `hold`.
//! A lease is `HOLDER@VERSION`, then `dSECONDS`, `tTRANSITIONS`, `uUID`, `rRENEW_TIME`, `pPREFERRED`;
//! a holder `-` is empty. The process is `me`.

mod chaos;
mod coordinated;
mod coordinator;
mod model;
mod naive;
mod network;
mod rules;
mod stopping;
mod upstream;
mod work;

use std::time::Duration;

use crate::time::Instant;

use super::*;

/// The instant from which scripts count.
const BEGIN: Instant = Instant::from_millis(1_000_000);

/// A machine, a clock, and the last write.
pub(super) struct Bench {
    machine: Election,
    now: Instant,
    last: Option<Request>,
    record: Record,
    holds: bool,
}

impl Bench {
    pub(super) fn new(options: LeaseOptions) -> Self {
        Self {
            machine: Election::new("me", options, 7).unwrap(),
            now: BEGIN,
            last: None,
            record: Record::default(),
            holds: false,
        }
    }

    /// A process whose leases a coordinator hands out.
    pub(super) fn coordinated(options: LeaseOptions) -> Self {
        let mut bench = Self::new(options);
        bench.machine = bench.machine.coordinated();
        bench
    }

    /// Runs a script; panics with the line that differs.
    #[track_caller]
    pub(super) fn run(&mut self, script: &str) -> &mut Self {
        for line in script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let (input, expected) = line.split_once("->").unwrap_or((line, ""));
            let found = self.line(input.trim());
            let expected = expected
                .split(',')
                .map(str::trim)
                .filter(|step| !step.is_empty());
            assert_eq!(
                found,
                expected.collect::<Vec<_>>(),
                "after {line:?} in {script}"
            );
        }
        self
    }

    fn line(&mut self, input: &str) -> Vec<String> {
        let (word, rest) = input.split_once(' ').unwrap_or((input, ""));
        let open = self
            .last
            .as_ref()
            .map_or(RequestId(99), |request| request.id);
        let input = match word {
            "start" => Input::Timer,
            "wait" => {
                self.now = self.machine.next_wake().expect("a time to wake up at");
                Input::Timer
            }
            "hold" => {
                self.holds = true;
                return Vec::new();
            }
            "send" => self.sent(open),
            // Time goes by, and nobody says so.
            "sleep" => {
                self.now += Duration::from_secs_f64(rest.parse().unwrap());
                return Vec::new();
            }
            "stop" => Input::Stop,
            "idle" => Input::Idle,
            "saw" => Input::Watched(Sighting::Present(self.lease(rest))),
            "gone" => Input::Watched(Sighting::Deleted(self.lease(rest))),
            "late" => {
                let (id, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let id = RequestId(id.parse().unwrap());
                Input::Answer {
                    id,
                    answer: self.answer(rest),
                }
            }
            _ if input.starts_with('+') => {
                self.now += Duration::from_secs_f64(input[1..].parse().unwrap());
                Input::Timer
            }
            _ => Input::Answer {
                id: open,
                answer: self.answer(input),
            },
        };
        self.machine.handle(input, self.now);
        let mut found = Vec::new();
        while let Some(step) = self.machine.poll() {
            if let Step::Request(request) = &step {
                self.note(request);
                if !self.holds {
                    let sent = self.sent(request.id);
                    self.machine.handle(sent, self.now);
                }
            }
            found.push(words(&step));
        }
        found
    }

    /// Keeps the record of a write, as the shell stamps it.
    fn note(&mut self, request: &Request) {
        if let Action::Create { record }
        | Action::Update { record, .. }
        | Action::Release { record, .. } = &request.action
        {
            self.record = stamp(record, &format!("w{}", request.id.0));
        }
        self.last = Some(request.clone());
    }

    fn sent(&self, id: RequestId) -> Input {
        let renew_time = format!("w{}", id.0);
        Input::Sent { id, renew_time }
    }

    fn answer(&self, text: &str) -> Answer {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let refusal = |kind| {
            let message = "no".to_owned();
            Answer::Refused(Refusal { kind, message })
        };
        match word {
            "found" => Answer::Found(self.lease(rest)),
            "stored" => Answer::Stored(self.lease(rest)),
            "absent" => Answer::Absent,
            "conflict" => Answer::Conflict,
            "forbidden" => refusal(RefusalKind::Forbidden),
            "throttled" => refusal(RefusalKind::Throttled),
            "lost" => Answer::Unanswered {
                message: "reset".to_owned(),
            },
            _ => panic!("no answer is called {text:?}"),
        }
    }

    /// A lease; `own@5` has the record of the last write.
    fn lease(&self, text: &str) -> Lease {
        let mut words = text.split_whitespace();
        let (holder, version) = words
            .next()
            .and_then(|word| word.split_once('@'))
            .expect(text);
        let mut lease = Lease {
            uid: "1".to_owned(),
            version: version.into(),
            record: self.record.clone(),
            preferred_holder: String::new(),
        };
        if holder != "own" {
            lease.record = Record {
                holder: holder.replace('-', ""),
                duration_seconds: 15,
                ..Record::default()
            };
        }
        for word in words {
            let (name, value) = word.split_at(1);
            match name {
                "d" => lease.record.duration_seconds = value.parse().unwrap(),
                "t" => lease.record.transitions = value.parse().unwrap(),
                "u" => value.clone_into(&mut lease.uid),
                "r" => value.clone_into(&mut lease.record.renew_time),
                "p" => value.clone_into(&mut lease.preferred_holder),
                _ => panic!("no field is called {word:?}"),
            }
        }
        lease
    }
}

/// A record with this text as its time.
pub(super) fn stamp(record: &NewRecord, renew_time: &str) -> Record {
    Record {
        holder: record.holder.clone(),
        duration_seconds: record.duration_seconds,
        transitions: record.transitions,
        acquire_time: match &record.acquire_time {
            AcquireTime::Now => renew_time.to_owned(),
            AcquireTime::Kept(text) => text.clone(),
        },
        renew_time: renew_time.to_owned(),
    }
}

#[track_caller]
fn check(script: &str) {
    Bench::new(LeaseOptions::default()).run(script);
}

/// The lines with which `me` wins the lease at once: uid 1, version 1, until second 12.
const WON: &str = "start -> get
    absent -> create
    stored own@1 -> leader me, term 1 t0 until 12";

/// The same, then the script.
#[track_caller]
fn check_leader(script: &str) {
    check(&format!("{WON}\n{script}"));
}

fn seconds(at: Instant) -> f64 {
    at.since(BEGIN).as_secs_f64()
}

fn words(step: &Step) -> String {
    match step {
        Step::Request(Request { action, .. }) => match action {
            Action::Get => "get".to_owned(),
            Action::Create { .. } => "create".to_owned(),
            Action::Update {
                version, record, ..
            } => {
                let kept = match record.acquire_time {
                    AcquireTime::Now => "",
                    AcquireTime::Kept(_) => " kept",
                };
                format!("update@{version} t{}{kept}", record.transitions)
            }
            Action::Release {
                version, record, ..
            } => {
                format!(
                    "release@{version} t{} d{}",
                    record.transitions, record.duration_seconds
                )
            }
        },
        Step::Close(_) => "close".to_owned(),
        Step::TermBegan(term) => {
            let Term {
                version,
                transitions,
                ..
            } = term;
            format!(
                "term {version} t{transitions} until {}",
                seconds(term.ends_at)
            )
        }
        Step::TermExtended { ends_at } => format!("until {}", seconds(*ends_at)),
        Step::TermEnded { reason, .. } => match reason {
            EndReason::Expired => "ended expired".to_owned(),
            EndReason::Taken { holder } => format!("ended taken by {holder}"),
            EndReason::Deleted => "ended deleted".to_owned(),
            EndReason::Edited => "ended edited".to_owned(),
            EndReason::Preferred { holder } => format!("ended for {holder}"),
            EndReason::Released => "ended released".to_owned(),
            EndReason::Stopped => "ended stopped".to_owned(),
        },
        Step::LeaderChanged { identity } => {
            format!("leader {}", identity.as_deref().unwrap_or("none"))
        }
        Step::Report(Report::SlowPath) => "slow".to_owned(),
        Step::Report(Report::Failed { verb, .. }) => format!("failed {verb:?}"),
        Step::Report(Report::Conflict { verb }) => format!("conflict {verb:?}"),
        Step::Stopped => "stopped".to_owned(),
    }
}
