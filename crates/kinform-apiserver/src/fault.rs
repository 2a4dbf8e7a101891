//! Faults that tests inject: failures of networks, proxies and overloaded servers.
//!
//! ```text
//! rule (verb, resource, nth match, times) ──request──▶ Fault ──▶ another reply | the reply, damaged
//! switches (stall, lag, bookmarks, refuse) ──▶ all requests
//! WatchLag of a seed ──▶ each piece of each watch, a little late
//! ```
//!
//! A rule skips the first requests that match it and then affects a number of further ones. The
//! first rule that matches a request takes it. Streams are damaged while they are read,
//! independently of the lists and watches that produce them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use kinform_api::Status;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::http::body::{Body, CutOff};
use crate::journal::Entry;

/// The effect of a fault on a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Replies with this status, and with `Retry-After` if the status has a delay.
    Reply(Status),
    /// Replies with a response that is not from Kubernetes: a proxy's page, a plain 429.
    Foreign {
        /// The HTTP status.
        code: u16,
        /// The media type.
        media: &'static str,
        /// The body.
        body: &'static str,
        /// `Retry-After`, in seconds.
        retry_after: Option<u32>,
    },
    /// Accepts a watch and then fails it with one ERROR event.
    ErrorEvent(Status),
    /// Accepts a watch and ends it cleanly without an event.
    EmptyStream,
    /// Delays the reply.
    Delay(Duration),
    /// Does not reply until the server stops.
    Hang,
    /// Sends the head and that many bytes of the body, then breaks the connection.
    TruncateAfter(usize),
    /// Sends that many bytes of the body, then stalls with the connection open.
    StallAfter(usize),
    /// Executes the request and breaks the connection instead of replying.
    LoseReply,
}

/// A fault and the requests that it affects.
#[derive(Clone, Debug)]
pub struct FaultRule {
    pub(crate) fault: Fault,
    pub(crate) verb: Option<String>,
    pub(crate) resource: Option<String>,
    pub(crate) skip: usize,
    pub(crate) times: usize,
}

impl FaultRule {
    /// Returns a rule that affects the next request, once.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            verb: None,
            resource: None,
            skip: 0,
            times: 1,
        }
    }

    /// Restricts the rule to requests with this verb (`list`, `watch`, `create`).
    #[must_use]
    pub fn on_verb(mut self, verb: &str) -> Self {
        self.verb = Some(verb.to_owned());
        self
    }

    /// Restricts the rule to requests for this resource (its plural).
    #[must_use]
    pub fn on_resource(mut self, plural: &str) -> Self {
        self.resource = Some(plural.to_owned());
        self
    }

    /// Starts with the `nth` matching request, counted from 1.
    #[must_use]
    pub fn from_nth(mut self, nth: usize) -> Self {
        self.skip = nth.saturating_sub(1);
        self
    }

    /// Affects this number of requests (default: 1).
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Affects requests until the rules are cleared.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }
}

/// The lag of watches that are always a little late, as behind a network and a loaded server: a
/// client does not yet see its own last write in its caches.
///
/// The lag of each piece of a watch is drawn from the seed and the number of the watch, so that a
/// test that opens its watches in the same order sees the same lags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLag {
    seed: u64,
    most: Duration,
}

impl WatchLag {
    /// Returns lags evenly distributed from zero to `most`.
    #[must_use]
    pub fn up_to(most: Duration, seed: u64) -> Self {
        Self { seed, most }
    }
}

/// The faults of a server.
#[derive(Debug)]
pub struct Faults {
    rules: Mutex<Vec<FaultRule>>,
    switches: watch::Sender<Switches>,
    /// The number of watches that were started.
    watches: AtomicU64,
}

/// Faults that affect all requests.
#[derive(Clone, Copy, Debug, Default)]
struct Switches {
    stalled: bool,
    refusing: bool,
    silent: bool,
    endless_initial_events: bool,
    no_initial_events: bool,
    late_initial_events_end: bool,
    refuses_expired: bool,
    ignores_versions: bool,
    refuses_tokens: bool,
    replica: Option<u64>,
    lag: Option<WatchLag>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            rules: Mutex::default(),
            switches: watch::Sender::new(Switches::default()),
            watches: AtomicU64::new(0),
        }
    }
}

impl Faults {
    /// Adds a rule after the existing ones.
    pub fn inject(&self, rule: FaultRule) {
        self.rules
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(rule);
    }

    /// Returns the active rules in the order in which they were added.
    pub(crate) fn rules(&self) -> Vec<FaultRule> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.clone()
    }

    /// Removes all rules and resets all switches. The lag of watches is kept.
    pub fn clear(&self) {
        self.rules
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        self.switches.send_modify(|switches| {
            let lag = switches.lag;
            *switches = Switches {
                lag,
                ..Switches::default()
            };
        });
    }

    /// Stops sending on all watches; their connections stay open.
    pub fn stall_watches(&self) {
        self.switches
            .send_modify(|switches| switches.stalled = true);
    }

    /// Resumes stalled watches.
    pub fn resume_watches(&self) {
        self.switches
            .send_modify(|switches| switches.stalled = false);
    }

    /// Delays all watches, including the open ones, by this lag; `None` ends the delay.
    pub fn delay_watches(&self, lag: Option<WatchLag>) {
        self.switches.send_modify(|switches| switches.lag = lag);
    }

    /// Closes new connections immediately; open ones are not affected.
    pub fn refuse_connections(&self) {
        self.switches
            .send_modify(|switches| switches.refusing = true);
    }

    /// Accepts new connections again.
    pub fn accept_connections(&self) {
        self.switches
            .send_modify(|switches| switches.refusing = false);
    }

    /// Sends no periodic bookmarks.
    pub fn without_bookmarks(&self) {
        self.switches.send_modify(|switches| switches.silent = true);
    }

    /// Leaves out the bookmark that ends the initial events of a streaming list.
    pub fn without_initial_events_end(&self) {
        self.switches
            .send_modify(|switches| switches.endless_initial_events = true);
    }

    /// Leaves out the initial events of streaming lists that begin from now on. Their end bookmark is
    /// sent, as if there were no objects.
    pub fn without_initial_events(&self) {
        self.switches
            .send_modify(|switches| switches.no_initial_events = true);
    }

    /// Sends the bookmark that ends the initial events after the next events, or in place of the next
    /// periodic bookmark: as a server whose cache has not reached the list's version yet. A list that
    /// waits for its end when the switch is reset has it with the next event or periodic bookmark.
    pub fn delay_initial_events_end(&self) {
        self.switches
            .send_modify(|switches| switches.late_initial_events_end = true);
    }

    /// Refuses watches whose history has expired with the status 410. By default such a watch is
    /// accepted and then fails with an ERROR event, as upstream.
    pub fn refuse_expired_watches(&self) {
        self.switches
            .send_modify(|switches| switches.refuses_expired = true);
    }

    /// Does not wait for the version that a read names: a server that lags behind its storage answers
    /// with what it has. Reads of the most recent state wait as before.
    pub fn ignore_asked_versions(&self) {
        self.switches
            .send_modify(|switches| switches.ignores_versions = true);
    }

    /// Refuses each continue token with the status 410, as a server that compacts its history between
    /// two pages. The token of that refusal, for the rest of the list as it is now, is accepted.
    pub fn refuse_continue_tokens(&self) {
        self.switches
            .send_modify(|switches| switches.refuses_tokens = true);
    }

    pub(crate) fn set_replica(&self, revision: Option<u64>) {
        self.switches
            .send_modify(|switches| switches.replica = revision);
    }

    pub(crate) fn replica(&self) -> Option<u64> {
        self.switches.borrow().replica
    }

    pub(crate) fn is_refusing(&self) -> bool {
        self.switches.borrow().refusing
    }

    pub(crate) fn sends_bookmarks(&self) -> bool {
        !self.switches.borrow().silent
    }

    pub(crate) fn sends_initial_events_end(&self) -> bool {
        !self.switches.borrow().endless_initial_events
    }

    pub(crate) fn delays_initial_events_end(&self) -> bool {
        self.switches.borrow().late_initial_events_end
    }

    pub(crate) fn sends_initial_events(&self) -> bool {
        !self.switches.borrow().no_initial_events
    }

    pub(crate) fn refuses_expired_watches(&self) -> bool {
        self.switches.borrow().refuses_expired
    }

    pub(crate) fn ignores_asked_versions(&self) -> bool {
        self.switches.borrow().ignores_versions
    }

    pub(crate) fn refuses_continue_tokens(&self) -> bool {
        self.switches.borrow().refuses_tokens
    }

    /// Returns the fault for a request, if a rule matches it.
    pub(crate) fn meet(&self, verb: &str, resource: &str) -> Option<Fault> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for rule in rules.iter_mut() {
            let same = |want: &Option<String>, is: &str| want.as_deref().is_none_or(|w| w == is);
            if !same(&rule.verb, verb) || !same(&rule.resource, resource) || rule.times == 0 {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            if rule.times != usize::MAX {
                rule.times -= 1;
            }
            let fault = rule.fault.clone();
            rules.retain(|rule| rule.times > 0);
            return Some(fault);
        }
        None
    }

    /// Returns the pace of a new watch, which stalls and lags it.
    pub(crate) fn pace(&self, midway: Midway) -> Pace {
        Pace {
            midway,
            switches: self.switches.subscribe(),
            number: self.watches.fetch_add(1, Ordering::Relaxed),
            dice: None,
        }
    }
}

/// States whether a watch has sent only the first chunks of a piece: the frames that were ready
/// together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Midway(Arc<AtomicBool>);

impl Midway {
    pub(crate) fn set(&self, is_midway: bool) {
        self.0.store(is_midway, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The stalls and lags of one watch.
#[derive(Debug)]
pub(crate) struct Pace {
    midway: Midway,
    switches: watch::Receiver<Switches>,
    /// The number of the watch, counted from the start of the server.
    number: u64,
    /// The seed of the random generator, and the generator.
    dice: Option<(u64, SmallRng)>,
}

impl Pace {
    /// Returns the lag of the next piece.
    fn lag(&mut self) -> Option<Duration> {
        let WatchLag { seed, most } = self.switches.borrow().lag?;
        let dice = match &mut self.dice {
            Some((of, dice)) if *of == seed => dice,
            dice => {
                let own = seed ^ self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                &mut dice.insert((seed, SmallRng::seed_from_u64(own))).1
            }
        };
        Some(most.mul_f64(dice.random::<f64>()))
    }
}

/// The damage to a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Damage {
    TruncateAfter(usize),
    StallAfter(usize),
}

/// The treatment of a body on its way out.
pub(crate) struct Passage {
    /// The journal entry that counts the bytes of the body.
    pub(crate) entry: Entry,
    pub(crate) damage: Option<Damage>,
    /// The pace of a watch; other bodies have none.
    pub(crate) pace: Option<Pace>,
    pub(crate) stopping: CancellationToken,
}

/// Returns the body with its bytes counted, stalled together with the watches, and damaged as
/// requested.
pub(crate) fn pass(body: Body, passage: Passage) -> Body {
    Body::stream(stream::unfold(Some((body, passage)), step))
}

async fn step(
    state: Option<(Body, Passage)>,
) -> Option<(Result<Bytes, CutOff>, Option<(Body, Passage)>)> {
    let (mut body, mut passage) = state?;
    passage.unstalled().await;
    let is_rest = passage
        .pace
        .as_ref()
        .is_some_and(|pace| pace.midway.is_set());
    let chunk = match passage.damage {
        Some(Damage::TruncateAfter(0)) => return Some((Err(CutOff), None)),
        Some(Damage::StallAfter(0)) => {
            passage.stopping.cancelled().await;
            return None;
        }
        _ => body.next().await?,
    };
    // A piece has one lag, before its first chunk.
    if !is_rest {
        passage.late().await;
    }
    // A chunk that became ready while the watch was stalled waits with it.
    passage.unstalled().await;
    let chunk = chunk.map(|chunk| passage.damaged(chunk));
    passage.entry.sent(chunk.as_ref().map_or(0, Bytes::len));
    Some((chunk, Some((body, passage))))
}

impl Passage {
    fn damaged(&mut self, mut chunk: Bytes) -> Bytes {
        if let Some(Damage::TruncateAfter(left) | Damage::StallAfter(left)) = &mut self.damage {
            chunk.truncate(*left);
            *left -= chunk.len();
        }
        chunk
    }

    /// Waits while watches are stalled, until the server stops.
    async fn unstalled(&mut self) {
        if let Some(Pace { switches, .. }) = &mut self.pace {
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => {}
                _ = switches.wait_for(|switches| !switches.stalled) => {}
            }
        }
    }

    /// Waits for the lag of the watch. The next piece is produced only after this one, so a watch
    /// stays in order, and events that arrive during the lag are sent together.
    async fn late(&mut self) {
        if let Some(lag) = self.pace.as_mut().and_then(Pace::lag) {
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => {}
                () = tokio::time::sleep(lag) => {}
            }
        }
    }
}
