//! A reflector alone: keeps a user's own store in step with a server.
//!
//! ```text
//! ListerWatcher → bytes → reflector machine → add, update, delete, replace, … → ReflectorStore
//! ```
//!
//! For programs that keep objects their own way: in a database, a channel, a map of selected
//! values. Indexes, handlers and sharing are an [`Informer`](super::Informer)'s. One future does it
//! all: it spawns no task, and dropping it ends the watch. INVARIANT: the store is called in the
//! server's order, and never with an incomplete list. BOUND: one list, until it is complete.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector.go` (`NewReflector`, `ReflectorStore`).

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use kinform_api::ObjectKey;
use kinform_core::backoff::Backoff;
use kinform_core::delta::{Delta, Quarantine};
use kinform_core::object::Object;
use kinform_core::object::projection::Projection;
use kinform_core::reflector::input::{Ending, Input};
use kinform_core::reflector::{Reflector as Machine, Request, Step};
use kinform_core::store::directory::Seed;
use kinform_core::store::root::Root;
use kinform_core::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::connection::{Connection, Observed, failure};
use super::ingest::{Ingest, Intake};
use crate::env::Env;
use crate::object::{Keeps, Lens, Obj};
use crate::reflector_options::ReflectorOptions;
use crate::report::{ReportEvent, Reports, translate};
use crate::reporter::{Reporter, Reporters, stream_of};
use crate::source::{ListerWatcher, Representation, ResourceInfo};

/// An error of a store.
pub type StoreError = Box<dyn StdError + Send + Sync>;

/// A store that a [`Reflector`] keeps in step with a server.
///
/// The methods run in the reflector's future, one after the other: the connection is not read
/// meanwhile, and a method that blocks blocks its thread. An error is reported, and everything is
/// listed again, later after each failure, so that [`replace`](Self::replace) restores the store.
#[doc(alias = "Store")]
pub trait ReflectorStore<K>: Send {
    /// Stores an object that is new on the server.
    ///
    /// # Errors
    /// The store fails.
    fn add(&mut self, object: Obj<K>) -> Result<(), StoreError>;

    /// Stores a new state of an object.
    ///
    /// # Errors
    /// The store fails.
    fn update(&mut self, object: Obj<K>) -> Result<(), StoreError>;

    /// Removes an object; this is its state at deletion.
    ///
    /// # Errors
    /// The store fails.
    fn delete(&mut self, object: Obj<K>) -> Result<(), StoreError>;

    /// Replaces everything by a complete list at this version: an object that is not in it is gone.
    /// Two objects of one name are here if the server's list has both.
    ///
    /// # Errors
    /// The store fails.
    fn replace(&mut self, objects: Vec<Obj<K>>, resource_version: &str) -> Result<(), StoreError>;

    /// Visits every object again; called each period if the reflector has one.
    ///
    /// # Errors
    /// The store fails.
    fn resync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Records that the store has every change up to this version.
    ///
    /// # Errors
    /// The store fails.
    fn bookmark(&mut self, resource_version: &str) -> Result<(), StoreError> {
        let _ = resource_version;
        Ok(())
    }

    /// Reports an object that cannot be parsed. A list with such an object is stored without it.
    fn unreadable(&mut self, quarantine: &Quarantine) {
        let _ = quarantine;
    }
}

/// Lists and watches one resource into a user's own store.
///
/// ```no_run
/// # use std::collections::BTreeMap;
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kinform::source::HttpSource;
/// use kinform::{Obj, ObjectKey, Reflector, ReflectorStore, ResourceInfo, StoreError};
///
/// #[derive(Default)]
/// struct Versions(BTreeMap<ObjectKey, String>);
///
/// impl ReflectorStore<Pod> for Versions {
///     fn add(&mut self, pod: Obj<Pod>) -> Result<(), StoreError> {
///         self.0.insert(pod.key(), pod.resource_version().to_owned());
///         Ok(())
///     }
///     fn update(&mut self, pod: Obj<Pod>) -> Result<(), StoreError> {
///         self.add(pod)
///     }
///     fn delete(&mut self, pod: Obj<Pod>) -> Result<(), StoreError> {
///         self.0.remove(&pod.key());
///         Ok(())
///     }
///     fn replace(&mut self, pods: Vec<Obj<Pod>>, _: &str) -> Result<(), StoreError> {
///         self.0.clear();
///         pods.into_iter().try_for_each(|pod| self.add(pod))
///     }
/// }
///
/// # async fn example(source: HttpSource, stop: kinform::CancellationToken) {
/// let versions = Reflector::new(source, Versions::default())
///     .shutdown_on(stop)
///     .run()
///     .await; // the store again
/// # }
/// ```
#[must_use = "a reflector does nothing before `run`"]
pub struct Reflector<K, S> {
    source: Arc<dyn ListerWatcher>,
    store: S,
    options: ReflectorOptions,
    projection: Projection,
    representation: Representation,
    resync_period: Option<Duration>,
    env: Env,
    stop: CancellationToken,
    reporter: Arc<Reporter>,
    of: PhantomData<fn() -> K>,
}

impl<K, S: ReflectorStore<K>> Reflector<K, S> {
    /// A reflector that keeps `store` in step with `source`.
    #[doc(alias = "NewReflector")]
    pub fn new(source: impl ListerWatcher, store: S) -> Self {
        Self {
            source: Arc::new(source),
            store,
            options: ReflectorOptions::default(),
            projection: Projection::default(),
            representation: Representation::Full,
            resync_period: None,
            env: Env::system(),
            stop: CancellationToken::new(),
            reporter: Reporter::new(),
            of: PhantomData,
        }
    }

    /// Sets the options of its requests, deadlines and retries.
    pub fn options(mut self, options: ReflectorOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the part of each object that is kept.
    pub fn projection(mut self, projection: Projection) -> Self {
        self.projection = projection;
        self
    }

    /// Declares that the source returns metadata only.
    pub fn metadata_only(mut self) -> Self {
        self.representation = Representation::Metadata;
        self
    }

    /// Sets the period of [`ReflectorStore::resync`]; zero disables it. Default: never.
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.resync_period = Some(period).filter(|period| !period.is_zero());
        self
    }

    /// Sets other clocks and randomness, for tests.
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Ends when `token` is cancelled.
    pub fn shutdown_on(mut self, token: CancellationToken) -> Self {
        self.stop = token;
        self
    }

    /// Returns a stream of its reports from now on.
    pub fn reports(&self) -> Reports {
        Reports::of(stream_of(self.reporter.subscribe()))
    }

    /// Lists and watches until it is stopped; returns the store.
    ///
    /// # Cancel safety
    /// Dropping it ends the watch; the store is dropped between two calls of its methods.
    pub async fn run(self) -> S {
        let info = self.source.resource().clone();
        let span = tracing::info_span!("reflector", resource = %info);
        let stop = self.stop.clone();
        let mut running = Running::new(self, &info);
        let running = async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = running.follow() => {}
            }
            running.store
        };
        running.instrument(span).await
    }
}

impl<K, S> fmt::Debug for Reflector<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector")
            .field("resource", self.source.resource())
            .finish_non_exhaustive()
    }
}

struct Running<K, S> {
    source: Arc<dyn ListerWatcher>,
    store: S,
    machine: Machine,
    ingest: Ingest,
    lens: Arc<Lens>,
    env: Env,
    reporter: Arc<Reporter>,
    /// The items of the running list so far.
    list: Vec<Obj<K>>,
    /// Items that a streaming list changed after it had named them; `None` if one is gone.
    list_changes: HashMap<ObjectKey, Option<Obj<K>>>,
    is_listing: bool,
    close: bool,
    resume: bool,
    request: Option<Request>,
    resync_period: Option<Duration>,
    resync_at: Option<Instant>,
    backoff: Backoff,
    /// The time of the next list after the store failed.
    relist_at: Option<Instant>,
}

impl<K, S: ReflectorStore<K>> Running<K, S> {
    fn new(reflector: Reflector<K, S>, info: &ResourceInfo) -> Self {
        let mut config = reflector.options.into_config();
        config.label_selector.clone_from(&info.label_selector);
        config.field_selector.clone_from(&info.field_selector);
        let (env, type_meta) = (reflector.env, info.type_meta());
        let reporters = Reporters::default();
        reporters.replace([(None, &reflector.reporter)].into_iter());
        Self {
            backoff: Backoff::new(config.backoff),
            machine: Machine::new(config, env.seed()),
            ingest: Ingest {
                managed_fields_bytes: AtomicU64::new(0),
                projection: reflector.projection,
                transform: None,
                wire_type: reflector.representation.type_of(&type_meta),
                type_meta: type_meta.clone(),
                namespace: info.namespace.as_deref().map(Into::into),
                reporter: Arc::clone(&reflector.reporter),
            },
            lens: Lens::new(type_meta, Keeps::Nothing, reporters, None, None),
            source: reflector.source,
            store: reflector.store,
            reporter: reflector.reporter,
            list: Vec::new(),
            list_changes: HashMap::new(),
            is_listing: false,
            close: false,
            resume: false,
            request: None,
            resync_at: reflector.resync_period.map(|period| env.now() + period),
            resync_period: reflector.resync_period,
            relist_at: None,
            env,
        }
    }

    /// Never ends.
    async fn follow(&mut self) {
        let mut connection = Connection::default();
        let mut alarm = self.env.alarm();
        self.machine.start(self.env.now());
        loop {
            self.take_steps();
            if std::mem::take(&mut self.close) {
                connection = Connection::Idle;
            }
            if std::mem::take(&mut self.resume) {
                connection.resume();
            }
            if let Some(request) = self.request.take() {
                tracing::debug!(?request, "request");
                connection.open(&self.source, request);
            }
            let wakes = [self.machine.next_wake(), self.resync_at, self.relist_at];
            let wake = wakes.into_iter().flatten().min();
            tokio::select! {
                biased;
                () = alarm.until(wake.unwrap_or(Instant::FAR_FUTURE)) => self.on_time(),
                observed = connection.next() => {
                    self.on_observed(observed, &mut connection);
                    // A source that always has bytes never makes this task wait.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn on_time(&mut self) {
        let now = self.env.now();
        self.machine.handle(Input::Timer, now);
        if self.relist_at.is_some_and(|at| at <= now) {
            self.relist_at = None;
            self.machine.handle(Input::Relist, now);
        }
        if self.resync_at.is_some_and(|at| at <= now) {
            self.resync_at = self.resync_period.map(|period| now + period);
            let resynced = self.store.resync();
            self.check(resynced);
        }
    }

    fn on_observed(&mut self, observed: Observed, connection: &mut Connection) {
        match observed {
            Observed::Opened(Ok(())) => self.tell(Input::Accepted),
            Observed::Opened(Err(error)) => self.tell(Input::Failed(failure(&error))),
            Observed::Broke(error) => {
                connection.end();
                let message = error.to_string();
                self.tell(Input::Ended(Ending::Cut { message }));
            }
            Observed::End => {
                let reader = connection.take_reader();
                connection.end();
                if let Some(reader) = reader {
                    self.tell(reader.finish(&self.ingest));
                }
            }
            Observed::Chunk(chunk) => self.read(&chunk, connection),
        }
    }

    fn read(&mut self, chunk: &Bytes, connection: &mut Connection) {
        let began = self.env.now();
        self.machine.handle(Input::Bytes, began);
        let Some(mut reader) = connection.take_reader() else {
            return;
        };
        let mut inputs = Vec::new();
        let intake = Intake {
            ingest: &self.ingest,
            scope: None,
        };
        reader.feed(chunk, &intake, &Root::empty(Seed(0)), |input| {
            inputs.push(input);
        });
        connection.put_reader(reader);
        for input in inputs {
            // The rest of a chunk is void once the request is closed.
            if self.close {
                return;
            }
            // All bytes of a chunk came at one moment.
            self.machine.handle(input, began);
            self.take_steps();
        }
        // The time that the store took is not the server's silence.
        let blocked = self.env.now().since(began);
        self.tell(Input::Unblocked { blocked });
    }

    fn tell(&mut self, input: Input) {
        self.machine.handle(input, self.env.now());
    }

    fn take_steps(&mut self) {
        while let Some(step) = self.machine.poll() {
            match step {
                Step::Delta(delta) => self.apply(delta),
                Step::Report(event) => {
                    if let Some(event) = translate(&event) {
                        tracing::debug!(?event, "reflector");
                        self.reporter.report(event);
                    }
                }
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

    fn apply(&mut self, delta: Delta) {
        let is_update = matches!(delta, Delta::Updated(_));
        let done = match delta {
            Delta::Updated(object) | Delta::Deleted(object) if self.is_listing => {
                return self.change_list(object, is_update);
            }
            Delta::Added(object) => self.store.add(self.obj(object)),
            Delta::Updated(object) => self.store.update(self.obj(object)),
            Delta::Deleted(object) => self.store.delete(self.obj(object)),
            Delta::Bookmark { version } => self.store.bookmark(&version),
            Delta::Replaced(object) => {
                return self.list_item(object);
            }
            Delta::ListBegin | Delta::ListAbort => {
                self.is_listing = matches!(delta, Delta::ListBegin);
                self.list_changes.clear();
                return self.list.clear();
            }
            Delta::ListEnd { version } => {
                self.is_listing = false;
                let list = self.take_list();
                let replaced = self.store.replace(list, &version);
                if replaced.is_ok() {
                    self.backoff.healthy(self.env.now());
                }
                replaced
            }
            Delta::Quarantined(quarantine) => {
                tracing::warn!(%quarantine, "object quarantined");
                self.store.unreadable(&quarantine);
                return self.reporter.report(ReportEvent::Quarantined(quarantine));
            }
            Delta::WentBack
            | Delta::Doubted
            | Delta::CaughtUp
            | Delta::Forget
            | Delta::Scope(_)
            | Delta::Sync { .. } => return,
        };
        self.check(done);
    }

    fn list_item(&mut self, object: Object) {
        let object = self.obj(object);
        // Most lists have no changes, and then no key is made.
        let changes = &mut self.list_changes;
        let changed = (!changes.is_empty()).then(|| changes.get_mut(&object.key()));
        match changed.flatten() {
            Some(change) => *change = Some(object),
            None => self.list.push(object),
        }
    }

    /// Takes a change of an object that the streaming list had named.
    fn change_list(&mut self, object: Object, is_update: bool) {
        let object = self.obj(object);
        let key = object.key();
        self.list_changes.insert(key, is_update.then_some(object));
    }

    /// The complete list, with its changes.
    fn take_list(&mut self) -> Vec<Obj<K>> {
        let mut list = std::mem::take(&mut self.list);
        let changes = std::mem::take(&mut self.list_changes);
        if !changes.is_empty() {
            list.retain(|listed| !changes.contains_key(&listed.key()));
            list.extend(changes.into_values().flatten());
        }
        list
    }

    /// Lists everything again after the store failed, later each time.
    fn check(&mut self, done: Result<(), StoreError>) {
        let Err(error) = done else { return };
        let now = self.env.now();
        let relist_in = match self.relist_at {
            Some(at) => at.since(now),
            None => self.backoff.failed(now, self.env.jitter()),
        };
        self.relist_at = Some(now + relist_in);
        tracing::warn!(%error, ?relist_in, "the store failed");
        self.reporter.report(ReportEvent::StoreFailed {
            reason: error.to_string(),
            relist_in,
        });
    }

    fn obj(&self, object: Object) -> Obj<K> {
        Obj::new(object, &self.lens)
    }
}
