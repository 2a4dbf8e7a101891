//! The server of widgets: a script that answers lists and watches, and changes widgets at a rate.
//!
//! ```text
//! Orders ─▶ Feed ─▶ the open watch ─▶ informer
//! ticks ───┘  └◀── heard: an informer that is behind is not sent more
//! ```
//!
//! Widgets are made of their number and version whenever they are sent: 100,000 of them take no
//! memory here. Never: an answer to anything but a list or a watch of all widgets.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use kinform::CancellationToken;
use kinform_testkit::{Ask, Request, Script, Sending};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// The interval at which changes are sent.
const TICK: Duration = Duration::from_millis(20);
/// BOUND: changes that the informer has not read yet.
const MOST_BEHIND: u64 = 50_000;
/// Widgets of one piece of a list.
const PIECE: usize = 1_000;

/// Sends orders to the script.
#[derive(Debug)]
pub(super) struct Feed(mpsc::UnboundedSender<Order>);

/// A change of a widget.
#[derive(Debug)]
enum Order {
    /// This object.
    Put(Value),
    /// An event of these bytes.
    Raw(String),
}

struct Running<F> {
    versions: Vec<u64>,
    extra: BTreeMap<String, Value>,
    version: u64,
    sent: u64,
    heard: F,
    rate: u64,
    next: usize,
    watch: Option<Sending>,
}

impl Feed {
    /// Starts it with this number of widgets, and as many changes a second.
    pub(super) fn start(
        script: Script,
        widgets: usize,
        rate: u64,
        heard: impl Fn() -> u64 + Send + 'static,
        stop: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        // BOUND: some 200 orders a command, which waits until its own are done.
        let (orders, obeyed) = mpsc::unbounded_channel();
        let running = Running {
            versions: (1..=widgets as u64).collect(),
            extra: BTreeMap::new(),
            version: widgets as u64,
            sent: 0,
            heard,
            rate,
            next: 0,
            watch: None,
        };
        (
            Self(orders),
            tokio::spawn(running.run(script, obeyed, stop)),
        )
    }

    /// Adds an object, or changes it.
    pub(super) fn put(&self, object: Value) {
        // Without a script the program is ending.
        let _ = self.0.send(Order::Put(object));
    }

    /// Sends an event as it is.
    pub(super) fn send_raw(&self, line: &str) {
        let _ = self.0.send(Order::Raw(line.to_owned()));
    }
}

impl<F: Fn() -> u64> Running<F> {
    async fn run(
        mut self,
        mut script: Script,
        mut orders: mpsc::UnboundedReceiver<Order>,
        stop: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                ask = script.next() => self.answer(ask),
                Some(order) = orders.recv() => self.obey(order),
                _ = ticks.tick(), if self.rate > 0 => self.beat(),
            }
        }
    }

    fn answer(&mut self, ask: Ask) {
        let is_stream = match ask.request() {
            Request::List(_) => {
                let mut items = String::new();
                self.each(|_, object| {
                    let _ = write!(items, "{}{object}", if items.is_empty() { "" } else { "," });
                });
                let version = self.version;
                ask.reply(format!(
                    r#"{{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{{"resourceVersion":"{version}"}},"items":[{items}]}}"#
                ));
                return;
            }
            Request::Watch(options) => options.send_initial_events == Some(true),
        };
        let watch = ask.stream();
        if is_stream {
            let mut piece = String::new();
            self.each(|number, object| {
                piece.push_str(&event("ADDED", object));
                if number % PIECE == 0 {
                    watch.send(std::mem::take(&mut piece));
                }
            });
            watch.send(piece);
            watch.initial_events_end("Widget", &self.version.to_string());
        }
        self.sent = (self.heard)();
        self.watch = Some(watch);
    }

    /// Calls back with every object, and its place.
    fn each(&self, mut call: impl FnMut(usize, &dyn fmt::Display)) {
        let many = self.versions.len();
        for (number, version) in self.versions.iter().enumerate() {
            call(number, &Widget(number, *version));
        }
        for (number, object) in self.extra.values().enumerate() {
            call(many + number, object);
        }
    }

    fn obey(&mut self, order: Order) {
        let line = match order {
            Order::Raw(line) => line,
            Order::Put(mut object) => {
                self.version += 1;
                object["metadata"]["resourceVersion"] = self.version.to_string().into();
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let kind = match self.extra.insert(name.to_owned(), object.clone()) {
                    Some(_) => "MODIFIED",
                    None => "ADDED",
                };
                event(kind, &object)
            }
        };
        self.send(line, 1);
    }

    /// Changes as many widgets as are due in a tick.
    fn beat(&mut self) {
        if self.versions.is_empty() || self.sent.saturating_sub((self.heard)()) > MOST_BEHIND {
            return;
        }
        let ticks = 1_000 / TICK.as_millis() as u64;
        let due = self.rate.div_ceil(ticks);
        let mut lines = String::new();
        for _ in 0..due {
            self.version += 1;
            let number = self.next;
            self.versions[number] = self.version;
            lines.push_str(&event("MODIFIED", &Widget(number, self.version)));
            self.next = (number + 1) % self.versions.len();
        }
        self.send(lines, due);
    }

    fn send(&mut self, lines: String, events: u64) {
        if let Some(watch) = &self.watch {
            self.sent += events;
            watch.send(lines);
        }
    }
}

fn event(kind: &str, object: &dyn fmt::Display) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// A widget of this number and version, as JSON.
struct Widget(usize, u64);

impl fmt::Display for Widget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, version) = self;
        let (shop, app) = (number % 10, number % 37);
        write!(
            f,
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"widget-{number:06}","namespace":"shop-{shop}","uid":"widget-{number}","resourceVersion":"{version}","labels":{{"app":"app-{app}"}}}},"spec":{{"size":{version},"colour":"blue","text":"a widget that is as long as widgets are"}},"status":{{"phase":"Ready"}}}}"#
        )
    }
}
