//! Whatever a server does, some things hold.
//!
//! ```text
//! seed → server that answers anything, at once or late → machine → invariants after each step
//! ```
//!
//! Held: one request at a time; tokens of lists nest; changes and bookmarks stand outside of lists;
//! the version to resume from never goes back but with a whole list; there is always a request or a time
//! to wake up; requests a minute are bounded, however fast the server fails.

use std::collections::VecDeque;

use super::*;

/// BOUND: requests a minute that are not the next page of a list. The worst is a first minute
/// in which everything fails at once, each cycle trying all ways to list.
const MAX_REQUESTS_A_MINUTE: usize = 80;

/// A server without rules, and what was seen of the machine.
struct Chaos {
    bench: Bench,
    dice: Dice,
    seed: u64,
    open: Option<Request>,
    /// A streaming list that is open beside a probe.
    beside: Option<Request>,
    is_accepted: bool,
    is_listing: bool,
    pages: u32,
    last_minute: VecDeque<Instant>,
    whole_lists: u32,
    /// The ranges that are wanted; none while it rests.
    wanted: Option<u64>,
    /// The selector that every request has until a list is whole: it grew.
    extended: Option<u64>,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let streaming_list = [StreamingList::Preferred, StreamingList::Never][(seed % 2) as usize];
        let window = Duration::from_secs(if seed.is_multiple_of(5) { 30 } else { 0 });
        let config = ReflectorConfig {
            streaming_list,
            internal_error_window: window,
            ..ReflectorConfig::default()
        };
        _ = dice.throw();
        let bench = Bench::new(config);
        let last_minute = VecDeque::new();
        Self {
            bench,
            dice,
            seed,
            open: None,
            beside: None,
            is_accepted: false,
            is_listing: false,
            pages: 0,
            last_minute,
            whole_lists: 0,
            wanted: Some(0),
            extended: None,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.dice.throw() * n as f64) as u64
    }

    /// A version near ours: mostly newer.
    fn version(&mut self) -> String {
        let ours = self
            .bench
            .machine
            .version()
            .and_then(ResourceVersion::parsed)
            .unwrap_or(100);
        match self.below(40) {
            0 => String::new(),
            1 => "0".to_owned(),
            2 => "x9".to_owned(),
            3..5 => (ours / 2 + 1).to_string(),
            5..10 => ours.to_string(),
            _ => (ours + self.below(5)).to_string(),
        }
    }

    fn failure(&mut self) -> String {
        let failures = [
            "refused",
            "transport",
            "html",
            "http 429",
            "http 429 3",
            "http 401",
            "http 403",
            "http 404",
            "http 400",
            "http 422",
            "http 410",
            "http large",
            "http 500",
            "http 503",
        ];
        failures[self.below(failures.len() as u64) as usize].to_owned()
    }

    fn ending(&mut self) -> String {
        ["ended", "cut", "garbled", "transport"][self.below(4) as usize].to_owned()
    }

    /// Returns the server's next action on the open request.
    fn answer(&mut self) -> String {
        if !self.is_accepted {
            return if self.below(3) == 0 {
                self.failure()
            } else {
                "ok".to_owned()
            };
        }
        let version = self.version();
        let name = char::from(b'a' + self.below(4) as u8);
        let what = self.below(20);
        if matches!(self.open, Some(Request::Watch { .. })) {
            return match what {
                0..9 => format!(
                    "{} {name}@{version}",
                    ["add", "mod", "del"][what as usize % 3]
                ),
                9 if self.below(2) == 0 => format!("outside left {name}@{version}"),
                9 => format!(
                    "outside {} {version}",
                    ["add", "del"][self.below(2) as usize]
                ),
                10..12 => format!("end-mark {version}"),
                12 => format!("mark {version}"),
                13 => "bad 7".to_owned(),
                14 => "foreign Table".to_owned(),
                15 => "bytes".to_owned(),
                16 => {
                    let errors = ["410", "large", "429", "500", "storeread", "none", "0"];
                    format!("error {}", errors[self.below(7) as usize])
                }
                _ => self.ending(),
            };
        }
        match what {
            0..10 => format!("item {name}@{version}"),
            10 if self.below(2) == 0 => "outside item".to_owned(),
            10 => "bad-item 5".to_owned(),
            11..13 if self.pages < 4 => format!("page {version} t{}", self.below(50)),
            13 => self.ending(),
            _ => format!("page {version}"),
        }
    }

    /// The owner wants more, less, or nothing.
    fn select(&mut self) {
        let ranges = self.below(1 << 20);
        let input = match self.below(4) {
            0 | 1 => {
                (self.wanted, self.extended) = (Some(ranges), Some(ranges));
                format!("extend {ranges}")
            }
            2 if self.wanted.is_some() => {
                self.wanted = Some(ranges);
                format!("narrow {ranges}")
            }
            _ => {
                (self.wanted, self.extended) = (None, None);
                "rest".to_owned()
            }
        };
        self.bench.machine.handle(parse(&input), self.bench.now);
        let before = self.whole_lists;
        self.observe();
        assert_eq!(self.whole_lists, before, "seed {}: no list ends", self.seed);
        let is_waiting = self.open.is_none();
        let has_wake = self.bench.machine.next_wake().is_some();
        assert_eq!(has_wake, self.wanted.is_some(), "seed {}", self.seed);
        assert!(self.wanted.is_some() || is_waiting, "seed {}", self.seed);
    }

    fn turn(&mut self) {
        let is_selected = self.seed.is_multiple_of(4);
        if is_selected && (self.wanted.is_none() || self.below(40) == 0) {
            return self.select();
        }
        let wake = self.bench.machine.next_wake().expect("it never gives up");
        let is_late = self.open.is_none() || self.below(30) == 0;
        let before = self.bench.machine.version().cloned();
        if is_late {
            self.bench.now = self.bench.now.max(wake);
            self.bench.machine.handle(Input::Timer, self.bench.now);
        } else {
            // At once, in a moment, or after a while.
            let millis = [0, 0, 10, 700, 6_000][self.below(5) as usize];
            self.bench.now += Duration::from_millis(millis);
            let answer = self.answer();
            let is_end = ["ended", "cut", "page"].contains(&answer.split(' ').next().unwrap());
            let is_failure = !self.is_accepted && answer != "ok";
            self.is_accepted |= answer == "ok";
            if is_end || is_failure || answer == "transport" {
                self.open = None;
                self.is_accepted = false;
            }
            self.bench.machine.handle(parse(&answer), self.bench.now);
        }
        let had_list = self.observe();
        let after = self.bench.machine.version();
        // Beyond that it knows that this server's numbers say nothing.
        let is_ordered = self.bench.machine.stats().disorders <= 3;
        if let (Some(before), Some(after), false, true) = (before, after, had_list, is_ordered) {
            let went_back = after.compare(&before) == Ok(std::cmp::Ordering::Less);
            assert!(!went_back, "seed {}: {before} > {after}", self.seed);
        }
    }

    /// Performs what the machine wants. Returns whether a whole list was handed on.
    fn observe(&mut self) -> bool {
        let (mut had_list, seed) = (false, self.seed);
        while let Some(step) = self.bench.machine.poll() {
            match step {
                Step::CloseRequest => {
                    (self.open, self.beside) = (None, None);
                    self.is_accepted = false;
                }
                Step::Resume => {
                    assert!(self.open.is_none(), "seed {seed}: one request at a time");
                    self.open = self.beside.take();
                    assert!(self.open.is_some(), "seed {seed}: a stream to resume");
                    self.is_accepted = true;
                }
                Step::Request(request) => {
                    // A streaming list stays open beside the list that confirms it, nothing else.
                    let is_probe = matches!(request, Request::Probe { .. });
                    let is_stream = matches!(
                        &self.open,
                        Some(Request::Watch { options, .. }) if options.send_initial_events.is_some()
                    );
                    if is_probe && is_stream {
                        self.beside = self.open.take();
                    }
                    let is_alone = self.open.is_none() && (self.beside.is_none() || is_probe);
                    assert!(is_alone, "seed {seed}: one request at a time");
                    self.count(&request);
                    self.check_selector(&request);
                    if let Request::Watch { options, .. } = &request
                        && options.send_initial_events.is_none()
                    {
                        let ours = self.bench.machine.version();
                        assert_eq!(options.resource_version.as_ref(), ours, "seed {seed}");
                    }
                    self.open = Some(request);
                    self.is_accepted = false;
                }
                Step::Delta(delta) => had_list |= self.hear(&delta),
                Step::Report(_) => {}
            }
        }
        had_list
    }

    /// After an extension, nothing is asked for with another selector until a list is whole, unless less is
    /// wanted again.
    fn check_selector(&self, request: &Request) {
        let (Request::List {
            options:
                ListOptions {
                    shard_selector: asked,
                    ..
                },
            ..
        }
        | Request::Probe {
            options:
                ListOptions {
                    shard_selector: asked,
                    ..
                },
            ..
        }
        | Request::Watch {
            options:
                WatchOptions {
                    shard_selector: asked,
                    ..
                },
            ..
        }) = request;
        let asked = asked.as_deref().map_or(0, |text| text.parse().unwrap());
        let is_page =
            matches!(request, Request::List { options, .. } if options.continue_token.is_some());
        assert!(
            is_page || Some(asked) == self.wanted,
            "seed {}: {request:?}",
            self.seed
        );
        let is_watch = matches!(request, Request::Watch { options, .. } if options.send_initial_events.is_none());
        assert!(
            !is_watch || self.extended.is_none(),
            "seed {}: a watch before the list",
            self.seed
        );
    }

    fn hear(&mut self, delta: &Delta) -> bool {
        let seed = self.seed;
        match delta {
            Delta::ListBegin => {
                assert!(
                    !std::mem::replace(&mut self.is_listing, true),
                    "seed {seed}"
                );
            }
            Delta::ListEnd { .. } | Delta::ListAbort => {
                assert!(std::mem::take(&mut self.is_listing), "seed {seed}");
                let is_whole = matches!(delta, Delta::ListEnd { .. });
                self.whole_lists += u32::from(is_whole);
                if is_whole {
                    self.extended = None;
                }
                return is_whole;
            }
            Delta::Replaced(_) | Delta::WentBack | Delta::Doubted => {
                assert!(self.is_listing, "seed {seed}")
            }
            Delta::CaughtUp | Delta::Forget => panic!("seed {seed}: nothing was resumed"),
            Delta::Added(_) | Delta::Bookmark { .. } => {
                assert!(!self.is_listing && self.whole_lists > 0, "seed {seed}");
            }
            Delta::Updated(_) | Delta::Deleted(_) | Delta::Quarantined(_) => {
                assert!(self.is_listing || self.whole_lists > 0, "seed {seed}");
            }
            Delta::Sync { .. } | Delta::Scope(_) => panic!("seed {seed}: it knows neither"),
        }
        false
    }

    fn count(&mut self, request: &Request) {
        if matches!(request, Request::List { options, .. } if options.continue_token.is_some()) {
            self.pages += 1;
            return;
        }
        self.pages = 0;
        let now = self.bench.now;
        let minute = Duration::from_secs(60);
        self.last_minute.push_back(now);
        while self
            .last_minute
            .front()
            .is_some_and(|first| now.since(*first) >= minute)
        {
            self.last_minute.pop_front();
        }
        let count = self.last_minute.len();
        assert!(
            count <= MAX_REQUESTS_A_MINUTE,
            "seed {}: {count} requests a minute",
            self.seed
        );
    }
}

#[test]
fn whatever_a_server_does() {
    let (mut lists, mut requests, mut minutes, mut outside) = (0, 0, 0, 0);
    for seed in 0..240 {
        let mut chaos = Chaos::new(seed);
        chaos.bench.machine.start(chaos.bench.now);
        let began = chaos.bench.now;
        chaos.observe();
        (0..1_000).for_each(|_| chaos.turn());
        lists += chaos.whole_lists;
        requests += chaos.bench.machine.stats().requests;
        minutes += chaos.bench.now.since(began).as_secs() / 60;
        chaos.bench.machine.handle(Input::Stop, chaos.bench.now);
        chaos.observe();
        assert!(
            !chaos.is_listing && chaos.open.is_none() && chaos.beside.is_none(),
            "seed {seed}: a stop cleans up"
        );
        outside += chaos.bench.machine.stats().outside;
        assert_eq!(chaos.bench.machine.next_wake(), None);
    }
    assert!(outside > 1_000, "of unwanted objects, too: {outside}");
    assert!(lists > 1_000, "the chaos lets lists through: {lists}");
    assert!(
        requests < minutes * 20,
        "on average: {requests} requests in {minutes} minutes"
    );
}

#[test]
fn a_server_that_fails_at_once_is_asked_less_and_less() {
    for failure in [
        "refused", "http 429", "http 500", "http 410", "http 403", "http 422",
    ] {
        let mut bench = Bench::new(ReflectorConfig::default());
        bench.machine.start(bench.now);
        let began = bench.now;
        let mut requests = 0;
        while bench.now.since(began) < Duration::from_secs(3_600) {
            match bench.machine.poll() {
                Some(Step::Request(_)) => {
                    requests += 1;
                    bench.machine.handle(parse(failure), bench.now);
                }
                Some(_) => {}
                None => {
                    bench.now = bench.machine.next_wake().unwrap();
                    bench.machine.handle(Input::Timer, bench.now);
                }
            }
        }
        // Waits of 30 to 60 s, at most three ways to ask each.
        assert!(
            (60..=400).contains(&requests),
            "{failure}: {requests} an hour"
        );
    }
}
