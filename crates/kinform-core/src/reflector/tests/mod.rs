//! Scripts for the reflector: what the shell observed, and what the machine did about it.
//!
//! ```text
//! "http 410 -> list rv=" (lines) → Bench → machine → its steps as words → compared
//! ```
//!
//! A line is `input -> steps`, the steps separated by commas; a line without an arrow expects none.
//! Reports of states are left out of the words; `?` compares the state itself.

mod bugs;
mod endings;
mod lists;
mod props;
mod rejoin;
mod select;
mod streams;
mod watches;

use std::fmt::Write as _;
use std::time::Duration;

use kinform_api::{ObjectKey, Status, WatchEventKind, reason};

use crate::backoff::BackoffPolicy;
use crate::delta::Delta;
use crate::object::Object;
use crate::object::projection::Projection;
use crate::time::Instant;
use crate::wire::unreadable::Unreadable;

use super::config::{FirstList, StreamingList};
use super::input::Outside;
use super::limits::CacheLimits;
use super::*;

/// A machine and a clock.
pub(super) struct Bench {
    pub(super) machine: Reflector,
    pub(super) now: Instant,
}

impl Bench {
    pub(super) fn new(config: ReflectorConfig) -> Self {
        Self {
            machine: Reflector::new(config, 7),
            now: Instant::from_millis(1_000_000),
        }
    }

    /// Runs a script; panics with the line that differs.
    #[track_caller]
    pub(super) fn run(&mut self, script: &str) -> &mut Self {
        for line in script
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
        {
            let (input, expected) = line.split_once("->").unwrap_or((line, ""));
            let found = self.line(input.trim());
            let expected: Vec<&str> = expected
                .split(',')
                .map(str::trim)
                .filter(|s| !s.is_empty())
                .collect();
            assert_eq!(found, expected, "after {line:?} in {script}");
        }
        self
    }

    fn line(&mut self, input: &str) -> Vec<String> {
        if input == "?" {
            return vec![self.machine.state().as_str().to_owned()];
        }
        if input == "start" {
            self.machine.start(self.now);
        } else if let Some(from) = input.strip_prefix("resume ") {
            let mut words = from.split(' ');
            let version = words.next().unwrap_or_default().into();
            let objects = words.next().and_then(|number| number.parse().ok());
            let witnesses = words.map(object).collect();
            let from = Resumption {
                version,
                objects,
                witnesses,
            };
            self.machine.resume(from, self.now);
        } else if input == "wait" {
            self.now = self.machine.next_wake().expect("a time to wake up at");
            self.machine.handle(Input::Timer, self.now);
        } else if let Some(seconds) = input.strip_prefix('+') {
            let seconds = seconds.trim_end_matches('s').parse().unwrap();
            self.now += Duration::from_secs_f64(seconds);
            self.machine.handle(Input::Timer, self.now);
        } else {
            self.machine.handle(parse(input), self.now);
        }
        std::iter::from_fn(|| self.machine.poll())
            .filter_map(|step| words(&step))
            .collect()
    }
}

#[track_caller]
fn check(script: &str) {
    Bench::new(ReflectorConfig::default()).run(script);
}

/// The same without streaming lists.
#[track_caller]
fn check_paged(script: &str) {
    let streaming_list = StreamingList::Never;
    Bench::new(ReflectorConfig {
        streaming_list,
        ..ReflectorConfig::default()
    })
    .run(script);
}

pub(super) fn object(name_and_version: &str) -> Object {
    let (name, version) = name_and_version
        .split_once('@')
        .unwrap_or((name_and_version, ""));
    let uid = format!("uid-{name}");
    let body = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    );
    Object::from_json(body.as_bytes(), &Projection::default()).unwrap()
}

fn unreadable(version: &str) -> Unreadable {
    Unreadable {
        key: Some(ObjectKey::new(Some("n"), "bad")),
        resource_version: (!version.is_empty()).then(|| version.to_owned()),
        path: String::new(),
        reason: "broken".to_owned(),
    }
}

fn parse(input: &str) -> Input {
    let mut words = input.split(' ');
    let (word, rest) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let last = words.next();
    let message = || "broke".to_owned();
    let event = |event| Input::Event(event);
    match word {
        "ok" => Input::Accepted,
        "refused" => Input::Failed(Failure::Refused { message: message() }),
        "transport" => Input::Failed(Failure::Transport { message: message() }),
        "html" => Input::Failed(Failure::NotKubernetes {
            code: 200,
            message: message(),
        }),
        "http" => Input::Failed(Failure::Status {
            code: rest.parse().unwrap_or(504),
            status: Box::new(status(rest)),
            retry_after: last.map(|s| Duration::from_secs(s.parse().unwrap())),
        }),
        "bytes" => Input::Bytes,
        "item" => Input::Item(Ok(object(rest))),
        "outside" if rest == "item" => Input::ItemOutside,
        "outside" => event(outside(rest, last.unwrap_or_default())),
        "extend" => Input::Extend {
            selector: Some(rest.to_owned()),
        },
        "narrow" => Input::Narrow {
            selector: Some(rest.to_owned()),
        },
        "rest" => Input::Rest,
        "bad-item" => Input::Item(Err(unreadable(rest))),
        "page" => Input::PageEnd {
            version: rest.trim_matches('"').into(),
            continue_token: last.unwrap_or_default().to_owned(),
            remaining: words.next().map(|number| number.parse().unwrap()),
        },
        "add" => event(Event::Added(object(rest))),
        "mod" => event(Event::Modified(object(rest))),
        "del" => event(Event::Deleted(object(rest))),
        "bad" => event(Event::Unreadable {
            kind: WatchEventKind::Modified,
            object: unreadable(rest),
        }),
        "nameless" => event(Event::Unreadable {
            kind: WatchEventKind::Modified,
            object: Unreadable {
                key: None,
                ..unreadable(rest)
            },
        }),
        "bad-del" => event(Event::Unreadable {
            kind: WatchEventKind::Deleted,
            object: unreadable(rest),
        }),
        "mark" => event(Event::Bookmark {
            version: rest.into(),
            initial_events_end: false,
        }),
        "end-mark" => event(Event::Bookmark {
            version: rest.trim_matches('"').into(),
            initial_events_end: true,
        }),
        "error" if rest == "none" => event(Event::Error(None)),
        "error" => event(Event::Error(Some(status(rest)))),
        "foreign" => event(Event::Foreign {
            what: rest.to_owned(),
        }),
        "ended" => Input::Ended(Ending::Clean),
        "cut" => Input::Ended(Ending::Cut { message: message() }),
        "garbled" => Input::Ended(Ending::Garbled { message: message() }),
        "relist" => Input::Relist,
        "diverged" => Input::Diverged,
        "elsewhere" => Input::WentBackElsewhere {
            at: Instant::from_millis(1_000_000 + rest.parse::<u64>().unwrap() * 1000),
        },
        "over-limit" => Input::OverLimit,
        "stop" => Input::Stop,
        "timer" => Input::Timer,
        "unblocked" => Input::Unblocked {
            blocked: Duration::from_secs(rest.parse().unwrap()),
        },
        _ => panic!("no such input: {input}"),
    }
}

/// An event about an object that is not wanted: of this kind at a version, or `left NAME@VERSION`.
fn outside(kind: &str, version: &str) -> Event {
    let object = (kind == "left").then(|| object(version));
    let version = version.rsplit('@').next().unwrap_or_default();
    Event::Outside(Outside {
        kind: match kind {
            "add" => WatchEventKind::Added,
            "del" => WatchEventKind::Deleted,
            _ => WatchEventKind::Modified,
        },
        version: version.into(),
        object,
    })
}

fn status(word: &str) -> Status {
    match word {
        "410" => Status::expired("too old"),
        "large" => Status::too_large_resource_version(9, 5),
        "429" => Status::failure(429, reason::TOO_MANY_REQUESTS, "later"),
        "500" => Status::internal_error("oops"),
        "storeread" => Status::failure(500, "StoreReadError", "corrupt"),
        code => Status::failure(code.parse().unwrap(), "", "no"),
    }
}

/// A step as words; nothing for a report of a state.
pub(super) fn words(step: &Step) -> Option<String> {
    let mut text = String::new();
    let version = |v: &Option<ResourceVersion>| v.clone().unwrap_or_default();
    let shards = |s: &Option<String>| s.iter().map(|s| format!(" of {s}")).collect::<String>();
    match step {
        Step::CloseRequest => text.push_str("close"),
        Step::Resume => text.push_str("resume"),
        Step::Request(Request::List { options, .. }) => {
            write!(text, "list rv={}", version(&options.resource_version)).unwrap();
            options
                .limit
                .iter()
                .for_each(|l| write!(text, " limit={l}").unwrap());
            options
                .continue_token
                .iter()
                .for_each(|t| write!(text, " token={t}").unwrap());
            text.push_str(&shards(&options.shard_selector));
        }
        Step::Request(Request::Probe { options, .. }) => {
            assert_eq!(options.limit, Some(1));
            let exactly = Some(kinform_api::VersionMatch::Exact);
            let is_exact = options.version_match == exactly;
            assert_eq!(options.resource_version.is_some(), is_exact);
            text.push_str("probe");
            if is_exact {
                write!(text, " at {}", version(&options.resource_version)).unwrap();
            }
            if let Some(fields) = &options.field_selector {
                write!(text, " {}", fields.replace(',', "+")).unwrap();
            }
            text.push_str(&shards(&options.shard_selector));
        }
        Step::Request(Request::Watch { options, .. }) => {
            let verb = if options.send_initial_events == Some(true) {
                "stream"
            } else {
                "watch"
            };
            assert_eq!(options.version_match.is_some(), verb == "stream");
            assert!(options.allow_bookmarks);
            let timeout = options.timeout.unwrap().as_secs();
            let is_short = timeout == 3;
            assert!(is_short || (300..=600).contains(&timeout), "{timeout}");
            text.push_str(if is_short { "short " } else { "" });
            write!(text, "{verb} rv={}", version(&options.resource_version)).unwrap();
            text.push_str(&shards(&options.shard_selector));
        }
        Step::Delta(delta) => delta_words(delta, &mut text),
        Step::Report(ReflectorEvent::State(_) | ReflectorEvent::Aborted) => return None,
        Step::Report(ReflectorEvent::Listed { .. }) => return None,
        Step::Report(ReflectorEvent::Retrying { problem, .. }) => {
            write!(text, "retry {}", problem.kind.as_str()).unwrap();
        }
        Step::Report(ReflectorEvent::Resumed { from, version }) => {
            write!(text, "resumed {from}>{version}").unwrap();
        }
        Step::Report(ReflectorEvent::Relisting { reason }) => {
            write!(text, "relist {}", reason.as_str()).unwrap();
        }
        Step::Report(ReflectorEvent::Reopened { version }) => {
            write!(text, "reopened {version}").unwrap();
        }
        Step::Report(ReflectorEvent::FellBack { reason, until }) => {
            let how_long = if until.is_some() { " remembered" } else { "" };
            write!(text, "fallback {}{how_long}", reason.as_str()).unwrap();
        }
        Step::Report(ReflectorEvent::Silent { .. }) => text.push_str("silent"),
        Step::Report(ReflectorEvent::EpochChanged { from, to }) => {
            write!(text, "epoch {from}>{to}").unwrap();
        }
        Step::Report(ReflectorEvent::Skipped { .. }) => text.push_str("skipped"),
    }
    Some(text.trim().to_owned())
}

fn delta_words(delta: &Delta, text: &mut String) {
    let name = |o: &Object| format!("{}@{}", o.key().name(), o.resource_version());
    match delta {
        Delta::Added(o) => write!(text, "added {}", name(o)),
        Delta::Updated(o) => write!(text, "updated {}", name(o)),
        Delta::Deleted(o) => write!(text, "deleted {}", name(o)),
        Delta::ListBegin => write!(text, "begin"),
        Delta::Replaced(o) => write!(text, "item {}", name(o)),
        Delta::ListEnd { version } => write!(text, "end {version}"),
        Delta::WentBack => write!(text, "went back"),
        Delta::Doubted => write!(text, "doubted"),
        Delta::CaughtUp => write!(text, "caught up"),
        Delta::Forget => write!(text, "forget"),
        Delta::ListAbort => write!(text, "abort"),
        Delta::Bookmark { version } => write!(text, "mark {version}"),
        Delta::Quarantined(_) => write!(text, "quarantined"),
        Delta::Sync { .. } | Delta::Scope(_) => unreachable!("a reflector knows neither"),
    }
    .unwrap();
}
