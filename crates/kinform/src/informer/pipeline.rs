//! The loop of one informer: the only task that reads its source and writes its store.
//!
//! ```text
//! bytes → Reader → Reflector → fifo → Writer (apply, publish) → progress → listeners
//!                     └─ requests, timers, reports ◀────────────┘
//! ```
//!
//! Each turn waits for one thing (the end, a command, a timer, bytes), passes it to the machines
//! and takes the steps that they return. Nothing else runs here: handlers have tasks of their own
//! and take their changes from the ring. Between batches the loop yields.
//! INVARIANT: one request is read at a time; all of a turn's deltas are applied before the next.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector.go` (`ListAndWatch`) and `controller.go`
//! (`processLoop`), two goroutines with a queue between them.

use std::sync::Arc;
use std::time::Duration;

use kinform_api::mutant;
use kinform_core::delta::Delta;
use kinform_core::fifo::{DeltaFifo, Full};
use kinform_core::informer::report::ApplyEvent;
use kinform_core::informer::resync::{MINIMUM_PERIOD, ResyncSchedule};
use kinform_core::informer::tier::Trained;
use kinform_core::informer::writer::Writer;
use kinform_core::reflector::input::{Ending, Input};
use kinform_core::reflector::report::ReflectorEvent;
use kinform_core::reflector::{Reflector, Request, Step};
use kinform_core::store::edit::BuiltIndex;
use kinform_core::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::Instrument;

use super::audit::{Audited, Auditor};
use super::connection::{Connection, Observed, failure};
use super::ingest::Intake;
use super::ranges::{Change, Followed};
use super::rewinds::Heard;
use super::squeeze::Squeeze;
use super::status::Status;
use super::{Command, Core};
use crate::report::{ReportEvent, translate, unindexed};
use crate::snapshot::{Keeper, Restored};

/// BOUND: deltas applied and published at once; larger batches make publishing cheaper, smaller
/// ones let others run.
const BATCH: usize = 256;
/// BOUND: batches that wake no task, between two turns of others: 2,048 deltas at most.
const UNYIELDED: u32 = 8;
/// The meaning of a 404 of a list or watch, which the server does not tell.
const NOT_INSTALLED: &str = " (is its definition installed, and this version of it served?)";

pub(super) struct Pipeline {
    core: Arc<Core>,
    writer: Writer,
    resync: ResyncSchedule,
    commands: mpsc::UnboundedReceiver<Command>,
    reflector: Reflector,
    fifo: DeltaFifo,
    status: Status,
    // The requests of this turn's steps to the connection.
    close: bool,
    resume: bool,
    request: Option<Request>,
    builds: JoinSet<BuiltIndex>,
    auditor: Auditor,
    keeper: Keeper,
    /// Its part in the memory budget, if there is one.
    squeeze: Option<Squeeze>,
    /// The ranges that it reads, if it does not read everything.
    followed: Option<Followed>,
    /// The news from other caches of the server.
    rewinds: Heard,
    /// True if a waiter was woken since other tasks had their turn.
    has_woken: bool,
    /// The number of batches since other tasks had their turn.
    unyielded: u32,
}

impl Pipeline {
    pub(super) fn new(
        core: Arc<Core>,
        writer: Writer,
        commands: mpsc::UnboundedReceiver<Command>,
        followed: Option<Followed>,
    ) -> Self {
        let config = core.options.reflector.clone();
        let config = core
            .options
            .stream_support
            .advise(&core.info.resource, config);
        let source = core.audit_source.clone();
        let auditor = Auditor::new(source, config.audit_period, config.list_deadline);
        let reflector = Reflector::new(config, core.env.seed());
        let keeper = Keeper::new(core.shelf.clone(), core.client());
        let squeeze = Squeeze::of(&core);
        let rewinds = core.rewinds.listen();
        let limits = core.options.fifo_limits;
        let fifo = DeltaFifo::new(core.options.fifo, limits.deltas).with_max_bytes(limits.bytes);
        Self {
            core,
            writer,
            // Each handler gets the period that it asked for, to the second.
            resync: ResyncSchedule::new(Some(MINIMUM_PERIOD)),
            commands,
            reflector,
            fifo,
            status: Status::default(),
            close: false,
            resume: false,
            request: None,
            builds: JoinSet::new(),
            auditor,
            keeper,
            squeeze,
            followed,
            rewinds,
            has_woken: false,
            unyielded: 0,
        }
    }

    /// Runs until the informer is stopped; from the version of a snapshot, if the store holds one.
    pub(super) async fn run(self, from: Option<Restored>) {
        let span = tracing::info_span!("informer", resource = %self.core.info);
        self.run_loop(from).instrument(span).await;
    }

    async fn run_loop(mut self, from: Option<Restored>) {
        let core = Arc::clone(&self.core);
        let mut connection = Connection::default();
        let mut alarm = core.env.alarm();
        match from {
            Some(restored) => self.go_on_from(restored),
            None if self.followed.is_some() => self.follow(),
            None => self.reflector.start(core.env.now()),
        }
        self.resync.start(core.env.now());
        loop {
            self.settle(&mut connection).await;
            let wake = self.next_wake();
            tokio::select! {
                biased;
                () = core.cancel.cancelled() => break,
                Some(command) = self.commands.recv() => self.obey(command),
                () = other_ranges(&mut self.followed) => self.follow(),
                at = self.rewinds.next() => self.tell(Input::WentBackElsewhere { at }),
                Some(built) = self.builds.join_next(), if !self.builds.is_empty() => {
                    if let Ok(built) = built {
                        self.install(built);
                    }
                }
                audited = self.auditor.next() => self.on_audited(audited),
                written = self.keeper.next() => self.on_written(written),
                () = alarm.until(wake) => self.on_time(),
                observed = connection.next() => self.on_observed(observed, &mut connection),
                () = squeezed(&mut self.squeeze) => {}
            }
        }
        drop(connection);
        // Nobody waits for what it would have read.
        self.followed = None;
        self.builds.shutdown().await;
        self.auditor.shutdown().await;
        let may_resume = self.reflector.may_resume_later();
        self.reflector.handle(Input::Stop, core.env.now());
        self.take_steps();
        self.apply_all().await;
        if let Some(squeeze) = &mut self.squeeze {
            squeeze.end(&self.writer);
        }
        let keeper = std::mem::replace(&mut self.keeper, Keeper::new(None, None));
        self.tell_state();
        let root = core.root();
        tokio::select! {
            biased;
            written = keeper.finish(&root, may_resume, &core.env) => self.on_written(written),
            // The wait is over: the file of before stays.
            () = core.tasks.abort.cancelled() => {}
        }
    }

    /// Begins at the version of a snapshot: what is stored is heard, and compared with the server.
    fn go_on_from(&mut self, restored: Restored) {
        let Restored {
            from,
            objects,
            written,
        } = restored;
        let version = from.version.to_string();
        tracing::info!(objects, version, %written, "the cache was read from disk");
        self.fifo.begin_at(&version);
        self.status.restored(written);
        self.report(ReportEvent::Restored { objects, version });
        self.reflector.resume(from, self.core.env.now());
        self.wake();
    }

    fn on_written(&mut self, written: Result<(), String>) {
        match written {
            Ok(()) => tracing::debug!("the cache is on disk"),
            Err(reason) => {
                tracing::warn!(reason, "the cache was not written to disk");
                self.report(ReportEvent::SnapshotFailed { reason });
            }
        }
    }

    /// Takes the steps that the machines ask for after an input.
    async fn settle(&mut self, connection: &mut Connection) {
        self.check_size();
        self.take_steps();
        let (telemetry, now) = (&self.core.reporter.telemetry, self.core.env.now());
        if std::mem::take(&mut self.close) {
            telemetry.requests(|clock| clock.closed(now));
            *connection = Connection::Idle;
        }
        if std::mem::take(&mut self.resume) {
            connection.resume();
        }
        if let Some(request) = self.request.take() {
            tracing::debug!(?request, "request");
            telemetry.requests(|clock| clock.requested(&request, now));
            connection.open(&self.core.source, request);
        }
        self.apply_all().await;
        self.squeeze().await;
        if let Some(followed) = &mut self.followed {
            followed.tell(&self.core.root());
        }
        self.tell_state();
    }

    /// Reads the ranges that are wanted now.
    fn follow(&mut self) {
        let Some(followed) = &mut self.followed else {
            return;
        };
        let Change { input, deltas } = followed.follow();
        if let Some(input) = input {
            tracing::debug!(?input, "other ranges");
            self.tell(input);
            self.take_steps();
        }
        for delta in deltas {
            self.enqueue(delta);
        }
    }

    /// Lists a cache again that events have made larger than it may be: the list decides.
    fn check_size(&mut self) {
        let root = self.core.root();
        let limits = self.core.options.reflector.cache_limits;
        if root.has_synced() && !limits.allow(root.len(), root.heap_size()) {
            self.tell(Input::OverLimit);
        }
    }

    fn next_wake(&mut self) -> Instant {
        let reflector = self.reflector.next_wake();
        let resync = self.resync.next_wake();
        let now = self.core.env.now();
        let audit = self.auditor.next_wake(now);
        let keeper = self.keeper.next_wake(now);
        let squeeze = self.squeeze.as_ref().and_then(Squeeze::next_wake);
        let wakes = [reflector, resync, audit, keeper, squeeze]
            .into_iter()
            .flatten();
        wakes.min().unwrap_or(Instant::FAR_FUTURE)
    }

    fn on_time(&mut self) {
        let now = self.core.env.now();
        self.reflector.handle(Input::Timer, now);
        let selected = self.reflector.selected();
        let core = &self.core;
        self.auditor.on_time(&core.root(), selected, &core.env);
        let may_resume = self.reflector.may_resume_later();
        self.keeper.on_time(&core.root(), may_resume, &core.env);
        let due = self.resync.due(now);
        if !due.is_empty() {
            self.enqueue(Delta::Sync { due: due.into() });
        }
    }

    fn on_observed(&mut self, observed: Observed, connection: &mut Connection) {
        let has_ended = matches!(observed, Observed::End | Observed::Broke(_));
        if has_ended && !connection.is_beside() {
            let now = self.core.env.now();
            self.core
                .reporter
                .telemetry
                .requests(|clock| clock.closed(now));
        }
        match observed {
            Observed::Opened(Ok(())) => self.tell(Input::Accepted),
            Observed::Opened(Err(error)) => self.tell(Input::Failed(failure(&error))),
            Observed::Broke(error) => {
                connection.end();
                self.tell(Input::Ended(Ending::Cut {
                    message: error.to_string(),
                }));
            }
            Observed::End => {
                let reader = connection.take_reader();
                connection.end();
                if let Some(reader) = reader {
                    self.tell(reader.finish(&self.core.ingest));
                }
            }
            Observed::Chunk(chunk) => {
                self.core.reporter.telemetry.wire_bytes(chunk.len());
                let now = self.core.env.now();
                self.reflector.handle(Input::Bytes, now);
                if let Some(mut reader) = connection.take_reader() {
                    let core = Arc::clone(&self.core);
                    let root = core.root();
                    // All bytes of a chunk came at one moment.
                    let scope = self.followed.as_ref().map(Followed::scope);
                    let intake = Intake {
                        ingest: &core.ingest,
                        scope: scope.as_deref(),
                    };
                    let tell = |input| self.tell_and_take(input, now);
                    reader.feed(&chunk, &intake, &root, tell);
                    connection.put_reader(reader);
                    // The time spent here is not the server's silence.
                    let after = core.env.now();
                    let blocked = after.since(now);
                    self.tell_and_take(Input::Unblocked { blocked }, after);
                }
            }
        }
    }

    fn tell(&mut self, input: Input) {
        self.reflector.handle(input, self.core.env.now());
    }

    /// The same in the middle of a chunk: the rest of it is void once the request is closed.
    fn tell_and_take(&mut self, input: Input, now: Instant) {
        if self.close {
            return;
        }
        self.reflector.handle(input, now);
        self.take_steps();
    }

    fn take_steps(&mut self) {
        while let Some(step) = self.reflector.poll() {
            match step {
                Step::Delta(delta) => self.enqueue(delta),
                Step::Report(event) => self.on_report(&event),
                Step::Resume => self.resume = true,
                Step::CloseRequest => {
                    self.close = true;
                    self.resume = false;
                    self.request = None;
                }
                Step::Request(request) => self.request = Some(request),
            }
        }
    }

    fn enqueue(&mut self, delta: Delta) {
        let mut delta = delta;
        // A full fifo is emptied here: the writer is the same task, so no other could.
        while let Err(Full(back)) = self.fifo.push(delta) {
            if mutant!("B25") {
                return self.fifo.close();
            }
            self.apply_batch();
            delta = back;
        }
    }

    /// Applies the queue, and lets others run after each batch that woke a task. After the last
    /// batch, too: a woken task may wait behind this one, where no other thread finds it, and a
    /// source that always has bytes never makes this task wait. Most batches of a first list wake
    /// no task: there, others run after a few.
    async fn apply_all(&mut self) {
        while !self.fifo.is_empty() {
            self.apply_batch();
            self.learn().await;
            self.squeeze().await;
            self.unyielded += 1;
            if std::mem::take(&mut self.has_woken) || self.unyielded >= UNYIELDED {
                self.unyielded = 0;
                tokio::task::yield_now().await;
            }
        }
        self.count();
    }

    /// Shows the machines' counts.
    fn count(&mut self) {
        let stats = (*self.reflector.stats(), self.writer.counts());
        if let Some(followed) = &mut self.followed {
            followed.say_outside(stats.0.outside);
        }
        self.core
            .reporter
            .telemetry
            .machines(stats.0, stats.1, self.fifo.len());
    }

    /// Trains the compression on the stored objects, if it is wanted and there are enough of them.
    /// The connection is not read meanwhile, for a fraction of a second: objects that came in would
    /// be kept uncompressed.
    async fn learn(&mut self) {
        // A loop that ends does not train any more.
        if self.core.cancel.is_cancelled() {
            return;
        }
        let Some(training) = self.writer.training() else {
            return;
        };
        let learning = tokio::task::spawn_blocking(move || training.run());
        // A training that panicked has no result.
        let trained = learning.await.unwrap_or_else(|_| Trained::nothing());
        tracing::debug!(?trained, "learnt how to compress");
        self.writer.trained(trained);
        if let Some(squeeze) = &mut self.squeeze {
            squeeze.begun();
        }
    }

    /// Takes its part in the memory budget.
    async fn squeeze(&mut self) {
        if self.core.cancel.is_cancelled() {
            return;
        }
        if let Some(squeeze) = &mut self.squeeze {
            squeeze.turn(&mut self.writer, self.fifo.bytes());
            // It may have begun to compress.
            self.learn().await;
        }
    }

    fn apply_batch(&mut self) {
        let batch = self.fifo.pop_batch(BATCH);
        let published = self.writer.apply_batch(batch);
        if published.is_news || published.has_moved {
            self.core.remember();
            // Who hears of an event and asks for the counts finds it counted.
            self.count();
            self.wake();
        }
        for event in published.events {
            self.on_applied(event);
        }
    }

    /// Wakes handlers and streams for another look.
    fn wake(&mut self) {
        self.has_woken = true;
        self.core.wake();
    }

    fn on_report(&mut self, event: &ReflectorEvent) {
        if let ReflectorEvent::Listed { relist, .. } = event {
            let now = self.core.env.now();
            self.core
                .reporter
                .telemetry
                .requests(|clock| clock.listed(*relist, now));
        }
        let now = self.core.env.now();
        self.rewinds.pass_on(event, (&self.core.rewinds, now));
        self.status.on_event(event);
        if let ReflectorEvent::FellBack { until, .. } = event
            && let Some(until) = until
        {
            let core = &self.core;
            core.options
                .stream_support
                .no_streams_until(&core.info.resource, *until);
        }
        if let Some(event) = translate(event) {
            match &event {
                ReportEvent::Failed(trouble) => {
                    let is_missing = trouble.reason == "NotFound";
                    let hint = if is_missing { NOT_INSTALLED } else { "" };
                    tracing::warn!(reason = %trouble.reason, retry_in = ?trouble.retry_in, "{trouble}{hint}");
                }
                told => tracing::debug!(event = ?told, "reflector"),
            }
            self.report(event);
        }
    }

    fn on_audited(&mut self, audited: Audited) {
        let Audited { version, found } = audited;
        match found {
            Ok(divergence) => {
                if let Some(divergence) = divergence.as_ref().filter(|_| !mutant!("K2")) {
                    tracing::warn!(version, ?divergence, "the cache is not what the server has");
                    self.tell(Input::Diverged);
                }
                self.report(ReportEvent::Compared {
                    version,
                    divergence,
                });
            }
            Err(reason) => tracing::debug!(version, reason, "the cache was not compared"),
        }
    }

    fn on_applied(&mut self, event: ApplyEvent) {
        match event {
            ApplyEvent::Quarantined(quarantine) => {
                tracing::warn!(%quarantine, "an object is set apart");
                self.report(ReportEvent::Quarantined(quarantine));
            }
            ApplyEvent::Unindexed(failure) => {
                tracing::warn!(%failure, "an object is not indexed");
                self.report(unindexed(failure));
            }
            ApplyEvent::Listed(ref listed) => {
                if let Some(followed) = &mut self.followed {
                    followed.listed();
                }
                if let objects @ 1.. = listed.withheld {
                    tracing::warn!(objects, "a list tells of no deletion: an item has no name");
                    self.report(ReportEvent::DeletionsWithheld { objects });
                }
                tracing::debug!(?event, "applied");
            }
            ApplyEvent::ListAborted | ApplyEvent::WentBack { .. } | ApplyEvent::Healed(_) => {
                tracing::debug!(?event, "applied")
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Relist => self.tell(Input::Relist),
            Command::Index(index) => {
                let root = self.core.root();
                self.builds
                    .spawn_blocking(move || BuiltIndex::build(root, index));
            }
            Command::Resync(id, period) => {
                self.resync.add(id, Some(period), self.core.env.now());
            }
            Command::Forget(id) => self.resync.remove(id),
        }
    }

    fn install(&mut self, built: BuiltIndex) {
        match self.writer.install(built) {
            Ok((_, events)) => {
                for event in events {
                    self.on_applied(event);
                }
            }
            // Definitions are checked before they come here.
            Err(conflict) => tracing::error!(%conflict, "an index was not installed"),
        }
    }

    fn report(&self, event: ReportEvent) {
        self.core.reporter.report(event);
    }

    fn tell_state(&mut self) {
        let root = self.core.root();
        let heard = self.reflector.heard_at();
        let quiet = heard.map_or(Duration::ZERO, |at| self.core.env.now().since(at));
        let state = self.status.state(&root, quiet);
        let changed = self.core.state.send_if_modified(|known| {
            let changed = *known != state;
            if changed {
                known.clone_from(&state);
            }
            changed
        });
        if changed {
            tracing::debug!(%state, "state");
            self.report(ReportEvent::State(state));
        }
    }
}

/// Waits until the memory budget asks for something; pending for ever if there is none.
async fn squeezed(squeeze: &mut Option<Squeeze>) {
    match squeeze {
        Some(squeeze) => squeeze.due().await,
        None => std::future::pending().await,
    }
}

/// Waits for other ranges; pending for ever if everything is read.
async fn other_ranges(followed: &mut Option<Followed>) {
    match followed {
        Some(followed) => followed.changed().await,
        None => std::future::pending().await,
    }
}
