//! The loop of one member: inputs in, steps out.
//!
//! ```text
//! terms, leases, answers, waits, timer, stop ──Input──▶ Sharding ──Step──▶ Waits, Share, Requests
//! ```
//!
//! The clock is that of the member's own lease, whose terms the machine counts by.
//! INVARIANT: the member stands for its lease again only when no work of the lost term runs.
//!
//! Upstream counterpart: none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kinform::controller::LastWrites;
use kinform::{Changes, Informer, Notification, Obj, ShardId, Share};
use kinform_core::shards::{
    CloseReason, Input, MemberTerm, Purpose, Report, Sharding, ShardingOptions, Step, Write,
};
use kinform_core::time::Instant;
use tokio_util::sync::CancellationToken;

use super::division::join;
use super::inheritance::Inheritance;
use super::lease::{Names, Read};
use super::requests::{Requests, gone, seen};
use super::stage::Stage;
use super::sweep::Sweep;
use super::waits::{Done, Waits};
use crate::error::{Error, ErrorKind};
use crate::leader::{Inherited, Leadership, Term};
use crate::settings::ShardSettings;

/// The interval at which leases of processes that are gone are looked for.
const SWEEP: Duration = Duration::from_secs(60);
/// The pause between two attempts to say that this member leaves.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) struct Driver {
    machine: Sharding,
    own: Arc<str>,
    leadership: Leadership,
    term: Option<Term>,
    /// The term is over, and its work may not be.
    is_lost: bool,
    leases: Informer<Lease>,
    changes: Changes<Lease>,
    requests: Requests,
    waits: Waits,
    last_writes: Arc<dyn Fn() -> LastWrites + Send + Sync>,
    /// The last writes of owners before, at the version of a shard's lease without an owner.
    // BOUND: as many as shards.
    left: BTreeMap<ShardId, (u64, Inherited)>,
    /// The same of shards that this member takes.
    inheritance: Inheritance,
    sweep: Sweep,
    sweeps_at: Instant,
    is_over: bool,
}

enum Event {
    Stop,
    Term(Result<Option<Term>, Error>),
    Done(Done),
    Lease(Option<Notification<Lease>>),
    Timer,
}

impl Driver {
    pub(super) fn new(
        (settings, share): (&ShardSettings, &Share),
        own: &str,
        leases: Informer<Lease>,
        requests: Requests,
        stage: Stage<'_>,
    ) -> Result<Self, Error> {
        let options = ShardingOptions {
            lease_duration: settings.options.lease_duration,
            ..ShardingOptions::default()
        };
        let own: Arc<str> = own.into();
        Ok(Self {
            machine: Sharding::new(Arc::clone(&own), settings.shards, options),
            own,
            sweeps_at: stage.leadership.now() + SWEEP,
            leadership: stage.leadership,
            term: None,
            is_lost: false,
            changes: leases.changes()?,
            leases,
            requests,
            waits: Waits::new(share.clone(), stage.grace, stage.catch_up),
            last_writes: stage.last_writes,
            left: BTreeMap::new(),
            inheritance: Inheritance::default(),
            sweep: Sweep::default(),
            is_over: false,
        })
    }

    /// Runs until everything was given up after a stop.
    pub(super) async fn run(mut self, stop: &CancellationToken) -> Result<(), Error> {
        let mut is_stopping = false;
        while !self.is_over {
            let event = self.next(stop, is_stopping).await;
            match event {
                Event::Stop => {
                    is_stopping = true;
                    self.hear(Input::Stop);
                }
                Event::Term(term) => self.on_term(term?),
                Event::Done(Done::Input(input)) => self.hear(input),
                Event::Done(Done::Caught(shards)) => self.waits.caught(&shards),
                Event::Done(Done::Joined(version)) => self.joined(version),
                Event::Done(Done::Nothing) => {}
                Event::Lease(Some(notification)) => self.on_lease(notification),
                Event::Lease(None) => {
                    let message = "the watch of the leases of members and shards has ended";
                    return Err(Error::new(ErrorKind::Part, message));
                }
                Event::Timer => self.on_timer(),
            }
            if self.is_lost && self.waits.are_closed() {
                self.is_lost = false;
                self.leadership.idle();
            }
        }
        Ok(())
    }

    async fn next(&mut self, stop: &CancellationToken, is_stopping: bool) -> Event {
        let wake = self.machine.next_wake().unwrap_or(Instant::FAR_FUTURE);
        let wake = wake.min(self.sweeps_at);
        tokio::select! {
            biased;
            term = self.leadership.changed(self.term.as_ref()) => Event::Term(term),
            () = stop.cancelled(), if !is_stopping => Event::Stop,
            done = self.waits.next() => Event::Done(done),
            notification = self.changes.next() => Event::Lease(notification),
            () = self.leadership.sleep_until(wake) => Event::Timer,
        }
    }

    fn on_timer(&mut self) {
        let now = self.leadership.now();
        if now >= self.sweeps_at {
            self.sweeps_at = now + SWEEP;
            for (name, version) in self.sweep.due(now) {
                let requests = self.requests.clone();
                self.waits.ask(async move {
                    requests.delete(&name, version).await;
                    None
                });
            }
        }
        self.hear(Input::Timer);
    }

    /// The running term is another one, has another end, or is over.
    fn on_term(&mut self, term: Option<Term>) {
        let before = std::mem::replace(&mut self.term, term.clone());
        let is_same = |a: &Term, b: &Term| {
            (&a.uid, a.transitions, &a.version) == (&b.uid, b.transitions, &b.version)
        };
        match (before, term) {
            (Some(before), Some(now)) if is_same(&before, &now) => {
                let ends_at = now.ends_at;
                self.hear(Input::TermExtended { ends_at });
            }
            (before, now) => {
                if before.is_some() {
                    self.is_lost = now.is_none();
                    self.hear(Input::TermEnded);
                }
                if let Some(term) = now {
                    self.begin(&term);
                }
            }
        }
    }

    /// Joins the group, once this process has a term.
    fn begin(&mut self, term: &Term) {
        let Some(version) = term.version.parsed() else {
            let version = &term.version;
            tracing::error!(%version, "versions of this server are no numbers: no shard is taken");
            return;
        };
        let (requests, leadership) = (self.requests.clone(), self.leadership.clone());
        let own = Arc::clone(&self.own);
        let joined = async move { join(&requests, &leadership, &own).await };
        self.waits.join(version, joined);
    }

    /// The group works by this process's division: the machine hears of the term, if it still runs.
    fn joined(&mut self, version: u64) {
        let term = self.term.clone();
        let term = term.filter(|term| term.version.parsed() == Some(version));
        if let Some(term) = term {
            self.hear(Input::TermBegan {
                term: MemberTerm {
                    uid: term.uid.into(),
                    transitions: term.transitions,
                },
                version,
                ends_at: term.ends_at,
            });
        }
    }

    fn on_lease(&mut self, notification: Notification<Lease>) {
        match notification {
            Notification::Added(added) => self.on_seen(added.object()),
            Notification::Updated { new, .. } => self.on_seen(&new),
            Notification::Deleted(deleted) => {
                let object = deleted.object();
                let version = if deleted.is_final_state_unknown() {
                    // It does not exist at the version of the cache, unless it was made again: then
                    // an add follows.
                    let now = self.leases.snapshot();
                    let is_there = now.get(&object.key()).is_some();
                    let version = now.versions().next().and_then(|text| text.parse().ok());
                    version.filter(|_| !is_there)
                } else {
                    object.resource_version().parse().ok()
                };
                let named = self.requests.names.parse(object.key().name());
                if let (Some(named), Some(version)) = (named, version) {
                    self.sweep.gone(object.key().name());
                    self.hear(gone(named, version));
                }
            }
            Notification::Synced => self.hear(Input::Listed),
            _ => {}
        }
    }

    fn on_seen(&mut self, object: &Obj<Lease>) {
        // Its informer reports one that does not decode.
        let Ok(lease) = object.typed() else {
            return;
        };
        let Some(read) = self.requests.names.read(&lease) else {
            return;
        };
        match &read {
            Read::Member(member) => self.sweep.seen(member, self.leadership.now()),
            Read::Shard(shard) => {
                let left = (shard.version, Names::left(&lease));
                self.left.insert(shard.shard, left);
            }
        }
        self.hear(seen(read));
    }

    /// Hands in an observation, and does what follows.
    fn hear(&mut self, input: Input) {
        let now = self.leadership.now();
        self.machine.handle(input, now);
        while let Some(step) = self.machine.poll() {
            self.perform(step);
        }
    }

    fn perform(&mut self, step: Step) {
        tracing::debug!(?step, "sharding");
        let requests = self.requests.clone();
        match step {
            Step::Extend(shard) => self.waits.extend(shard),
            Step::Shrink(shard) => {
                self.inheritance.forget(shard);
                self.waits.shrink(shard);
            }
            Step::Open(shard) => self.waits.open(shard, self.inheritance.of(shard)),
            Step::Close { shard, reason } => {
                if reason == CloseReason::Lost {
                    self.inheritance.forget(shard);
                }
                self.waits.close(shard, reason);
            }
            Step::Write(write) => {
                let last = self.told(&write);
                self.inherit(&write);
                self.waits
                    .ask(async { Some(requests.write(write, last).await) });
            }
            Step::Bury {
                id,
                member,
                version,
            } => {
                tracing::warn!(%member, "a member's lease has expired; its shards pass on");
                self.waits
                    .ask(async move { Some(requests.bury(id, member, version).await) });
            }
            Step::ReadShard(shard) => self.waits.ask(requests.read_shard(shard)),
            Step::ReadMember { id, name } => self.waits.ask(requests.read_member(id, name)),
            Step::Leave => self.leave(requests),
            Step::Report(report) => self.report(&report),
            Step::Left => self.is_over = true,
        }
    }

    /// The last writes that a shard's lease tells from now on: at a release, this member's; while it
    /// has no owner, those that it told.
    fn told(&self, write: &Write) -> Option<LastWrites> {
        if write.purpose == Purpose::Release {
            return Some((self.last_writes)());
        }
        match self.left_at(write.shard, write.version?) {
            Inherited::Told(writes) => Some(writes),
            Inherited::Unknown => None,
        }
    }

    /// The last writes that a shard's lease told at this version.
    fn left_at(&self, shard: ShardId, version: u64) -> Inherited {
        let left = self.left.get(&shard).filter(|(at, _)| *at == version);
        left.map(|(_, left)| left.clone()).unwrap_or_default()
    }

    /// Keeps what the owner before told: the write takes the shard only from this state.
    fn inherit(&mut self, write: &Write) {
        if write.purpose != Purpose::Acquire {
            return;
        }
        match write.version {
            None => self.inheritance.make(write.shard),
            Some(version) => {
                let told = self.left_at(write.shard, version);
                self.inheritance.take(write.shard, told);
            }
        }
    }

    /// Says that this member leaves, until it is said or the loop ends.
    fn leave(&mut self, requests: Requests) {
        let own = Arc::clone(&self.own);
        self.waits.ask(async move {
            while !requests.leave(&own).await {
                tokio::time::sleep(AGAIN).await;
            }
            None
        });
    }

    fn report(&self, report: &Report) {
        let Report::TooManyMembers { name } = report;
        tracing::warn!(%name, "there are too many members; this one is ignored");
    }
}
