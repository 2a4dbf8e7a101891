//! Informers: the machinery behind the handles.
//!
//! ```text
//! Core (one watch) ── Pipeline (its loop): source → reflector → fifo → store ──▶ ring
//!   └ Informer<K> (one or more cores) → Store, IndexReader │ Listener tasks, Changes ◀──┘
//! ```
//!
//! | file | content |
//! |---|---|
//! | `pipeline` | the loop: the only task that reads a source and writes a store |
//! | `audit` | compares the cache with the server each period, if audits are on |
//! | `connection` | one request at a time, and the decoding of its body |
//! | `ingest` | projection and transform, before anything is stored |
//! | `listener` | the task of one handler |
//! | `registration` | its handle, and their shared state |
//! | `definition` | the requested indexes |
//! | `handle` | [`Informer`], the users' handle |
//! | `ranges` | the ranges of hashes that it reads, while they come and go |
//! | `reflector` | [`Reflector`]: the same loop for a store of the user's own |
//! | `rewinds` | the news that a server went back, told to the other caches of that server |
//! | `stream_support` | a memory of the resources whose streaming lists stall |
//! | `group` | the watches of one informer, while namespaces are added and removed |
//! | `cursor` | a position in the stream of one core, and the signal that wakes its owner |
//! | `subscription` | the positions of one listener in all of them |
//! | `squeeze` | its load in the factory's memory budget, and what it is asked to give up |
//! | `own_writes` | waiting for a version, or for the caller's own writes |
//! | `unheard` | objects that may have come and gone without an event |
//! | `status` | the one state that users see |
//!
//! An informer of several namespaces has a core for each: each has its own watch, version and
//! relists, so a relist in one does not touch the objects of another.
//! INVARIANT: no lock here is held across an await or while user code runs.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go`.

mod audit;
mod connection;
mod cursor;
mod definition;
mod fresh;
mod group;
mod handle;
mod ingest;
mod listener;
mod own_writes;
mod pipeline;
mod question;
mod ranges;
mod reflector;
mod registration;
mod rewinds;
mod squeeze;
mod status;
mod storage;
mod stream_support;
mod subscription;
mod unheard;
pub mod until;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use kinform_api::{KeyRef, ResourceVersion};
use kinform_core::delta::HandlerId;
use kinform_core::fifo::{FifoLimits, FifoPolicy};
use kinform_core::informer::ring::RingLimits;
#[cfg(feature = "compressed")]
use kinform_core::informer::tier::Tier;
use kinform_core::informer::writer::{Reader, Writer};
use kinform_core::object::Object;
use kinform_core::object::projection::Projection;
use kinform_core::object::reduction::Reduction;
use kinform_core::reflector::config::ReflectorConfig;
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::BuiltIndex;
use kinform_core::store::index::Index as CoreIndex;
use kinform_core::store::order::Order;
use kinform_core::store::past::{Missing, Past, PastLimits};
use kinform_core::store::root::Root;
use kube_client::Client;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::cursor::{Cursor, Progress};
pub(crate) use self::definition::{Definition, Origin};
use self::fresh::Freshness;
pub(crate) use self::group::{Cores, CoresParts, Member, Recipe};
pub use self::handle::Informer;
pub(crate) use self::ingest::Ingest;
pub use self::ingest::Transform;
pub(crate) use self::listener::{ListenerParts, RunOn, Sink, SinkCall, listen};
pub use self::own_writes::OwnWrites;
pub(crate) use self::own_writes::{Write, moved_from};
use self::pipeline::Pipeline;
use self::ranges::Followed;
pub(crate) use self::ranges::Sharded;
pub use self::reflector::{Reflector, ReflectorStore, StoreError};
pub(crate) use self::registration::ListenerState;
pub use self::registration::{HandlerStats, Registration};
pub(crate) use self::rewinds::Rewinds;
pub use self::storage::Storage;
use self::stream_support::StreamSupport;
pub(crate) use self::subscription::{Piece, Subscription};
pub(crate) use self::unheard::Unheard;
pub use self::until::Until;
use crate::env::Env;
use crate::error::{Error, ErrorKind};
use crate::memory::Membership;
use crate::report::ReportEvent;
use crate::reporter::Reporter;
use crate::snapshot::{Restored, Shelf, restore};
use crate::source::{ListerWatcher, ResourceInfo};
use crate::state::InformerState;
use crate::sync::lock;

/// The options of a factory's informers.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) reflector: ReflectorConfig,
    pub(crate) fifo: FifoPolicy,
    pub(crate) fifo_limits: FifoLimits,
    pub(crate) ring: RingLimits,
    pub(crate) stream_support: StreamSupport,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reflector: ReflectorConfig::default(),
            fifo: FifoPolicy::InOrder,
            fifo_limits: FifoLimits::default(),
            ring: RingLimits::default(),
            stream_support: StreamSupport::default(),
        }
    }
}

/// The owner of the tasks: the factory waits for them and can end them.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    pub(crate) tracker: TaskTracker,
    /// Ends everything immediately, without waiting for handlers.
    pub(crate) abort: CancellationToken,
    /// Ends all watches; handlers hear the remaining changes.
    pub(crate) stop: CancellationToken,
}

impl Default for Tasks {
    fn default() -> Self {
        let abort = CancellationToken::new();
        Self {
            tracker: TaskTracker::new(),
            stop: abort.child_token(),
            abort,
        }
    }
}

/// One watch with its store, shared by informers.
pub(crate) struct Core {
    pub(crate) info: ResourceInfo,
    ingest: Ingest,
    source: Arc<dyn ListerWatcher>,
    audit_source: Option<Arc<dyn ListerWatcher>>,
    shelf: Option<Shelf>,
    env: Env,
    options: Options,
    tasks: Tasks,
    rewinds: Rewinds,
    reader: Reader,
    idle: Mutex<Option<Idle>>,
    definitions: Mutex<Vec<Definition>>,
    // Commands come at the rate of user's calls and are small: no bound is needed.
    commands: mpsc::UnboundedSender<Command>,
    state: watch::Sender<InformerState>,
    progress: watch::Sender<Progress>,
    pub(crate) reporter: Arc<Reporter>,
    listeners: Mutex<Vec<Weak<ListenerState>>>,
    // BOUND: one; it keeps the root alive that was last read in order.
    order: Mutex<Option<Arc<Order>>>,
    /// The states that are over, if they are kept.
    past: Mutex<Option<Past>>,
    cursors: AtomicUsize,
    freshness: Freshness,
    storage: Storage,
    /// Its place in the factory's memory budget, if there is one.
    pub(crate) membership: Option<Membership>,
    // The number of live informers that watch this.
    holders: AtomicUsize,
    stops_when_unused: AtomicBool,
    was_started: AtomicBool,
    /// Why it is not to be started.
    pub(crate) mistake: Option<String>,
    /// Ends the loop; handlers then hear the remaining changes.
    cancel: CancellationToken,
}

/// The parts that the loop takes when it starts.
struct Idle {
    writer: Writer,
    inbox: mpsc::UnboundedReceiver<Command>,
    /// The ranges that it reads, if it does not read everything: the share waits for it from the start.
    followed: Option<Followed>,
}

/// A command to a running loop.
enum Command {
    Relist,
    Index(CoreIndex),
    Resync(HandlerId, Duration),
    Forget(HandlerId),
}

/// The parts of a core.
pub(crate) struct CoreParts {
    pub(crate) source: Arc<dyn ListerWatcher>,
    /// Lists metadata, if the cache is to be audited.
    pub(crate) audit_source: Option<Arc<dyn ListerWatcher>>,
    pub(crate) ingest: Ingest,
    pub(crate) storage: Storage,
    /// The fields that are left of its objects under a memory budget, if it can do without others.
    pub(crate) reduction: Option<Arc<Reduction>>,
    /// The part of its objects that is kept, if it is not all.
    pub(crate) sharded: Option<Sharded>,
    /// The place of its snapshot, if it is kept on disk.
    pub(crate) shelf: Option<Shelf>,
    pub(crate) env: Env,
    pub(crate) options: Options,
    pub(crate) tasks: Tasks,
    /// The line to the other caches of its server.
    pub(crate) rewinds: Rewinds,
    pub(crate) membership: Option<Membership>,
}

impl Core {
    pub(crate) fn new(parts: CoreParts) -> Arc<Self> {
        let CoreParts {
            source,
            audit_source,
            ingest,
            storage,
            reduction,
            sharded,
            shelf,
            env,
            options,
            tasks,
            rewinds,
            membership,
        } = parts;
        let writer = Writer::new([], Seed(env.seed()), options.ring)
            .expect("no two of no indexes have one name");
        let writer = match storage {
            Storage::Plain => writer,
            #[cfg(feature = "compressed")]
            Storage::Compressed => writer.with_tier(Tier::new()),
        };
        let writer = match reduction {
            Some(reduction) => writer.reducible_to(reduction),
            None => writer,
        };
        let (commands, inbox) = mpsc::unbounded_channel();
        let mistake = sharded.as_ref().and_then(|sharded| {
            let keeps_owners = ingest.projection.keeps_owners();
            sharded.mistake(source.resource(), keeps_owners)
        });
        // Nobody waits for one that does not start.
        let sharded = sharded.filter(|_| mistake.is_none());
        let followed = sharded.map(|sharded| Followed::new(sharded.share.reading(), sharded.field));
        Arc::new(Self {
            info: source.resource().clone(),
            reporter: Arc::clone(&ingest.reporter),
            ingest,
            source,
            audit_source,
            shelf,
            env,
            options,
            cancel: tasks.abort.child_token(),
            tasks,
            rewinds,
            reader: writer.reader(),
            idle: Mutex::new(Some(Idle {
                writer,
                inbox,
                followed,
            })),
            definitions: Mutex::default(),
            commands,
            state: watch::Sender::new(InformerState::Pending),
            progress: watch::Sender::new(Progress::default()),
            listeners: Mutex::default(),
            order: Mutex::default(),
            past: Mutex::default(),
            cursors: AtomicUsize::new(0),
            freshness: Freshness::default(),
            storage,
            membership,
            holders: AtomicUsize::new(0),
            stops_when_unused: AtomicBool::new(false),
            was_started: AtomicBool::new(false),
            mistake,
        })
    }

    /// Starts the loop, once; later calls do nothing, and so does that of a mistake. Must be called inside
    /// a runtime.
    pub(crate) fn start(self: &Arc<Self>) {
        if self.mistake.is_some() {
            return;
        }
        let Some(idle) = lock(&self.idle).take() else {
            return;
        };
        self.was_started.store(true, Ordering::Relaxed);
        let core = Arc::clone(self);
        let Idle {
            writer,
            inbox,
            followed,
        } = idle;
        let Some(shelf) = self.shelf.clone() else {
            // Made here, not in the task: the order of the starts decides which random numbers each gets.
            let pipeline = Pipeline::new(Arc::clone(self), writer, inbox, followed);
            self.tasks.tracker.spawn(async move {
                pipeline.run(None).await;
                core.end_progress();
            });
            return;
        };
        self.tasks.tracker.spawn(async move {
            let (writer, from) = core.restore(&shelf, writer).await;
            let pipeline = Pipeline::new(Arc::clone(&core), writer, inbox, followed);
            pipeline.run(from).await;
            core.end_progress();
        });
    }

    /// Reads its snapshot into the store; without one that can be used, everything is listed.
    async fn restore(&self, shelf: &Shelf, writer: Writer) -> (Writer, Option<Restored>) {
        let identity = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return (writer, None),
            identity = shelf.identity(self.client()) => identity,
        };
        let (writer, found) = match identity {
            Ok(identity) => {
                let limits = self.options.reflector.cache_limits;
                restore(shelf, identity, writer, limits).await
            }
            Err(reason) => (writer, Err(reason)),
        };
        let restored = found.unwrap_or_else(|reason| {
            tracing::warn!(resource = %self.info, reason, "a cache on disk is not used");
            self.reporter
                .report(ReportEvent::SnapshotRefused { reason });
            None
        });
        (writer, restored)
    }

    /// Asks the loop to end. A core that never ran is stopped immediately.
    pub(crate) fn stop(&self) {
        self.cancel.cancel();
        if lock(&self.idle).take().is_some() {
            self.state.send_replace(InformerState::Stopped);
            self.end_progress();
        }
    }

    /// The total size of managedFields in everything that was read.
    pub(crate) fn managed_fields_bytes(&self) -> u64 {
        self.ingest.managed_fields_bytes.load(Ordering::Relaxed)
    }

    /// Returns whether it keeps objects as the server has them, but for `managedFields`.
    pub(crate) fn keeps_whole(&self) -> bool {
        let Ingest {
            projection,
            transform,
            type_meta,
            wire_type,
            ..
        } = &self.ingest;
        let is_whole = *projection == Projection::default() && transform.is_none();
        is_whole && type_meta == wire_type && *type_meta == self.info.type_meta()
    }

    /// The client of its source.
    pub(crate) fn client(&self) -> Option<Client> {
        self.source.client()
    }

    /// The newest root.
    pub(crate) fn root(&self) -> Root {
        self.reader.root()
    }

    /// The newest object of a key.
    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<Object> {
        self.reader.get(key)
    }

    /// Keeps states that are over, from now on; the first caller's limits count.
    pub(crate) fn keep_past(&self, limits: PastLimits) {
        lock(&self.past).get_or_insert_with(|| Past::new(limits));
        self.remember();
    }

    /// Adds the newest root to the past, if one is kept.
    pub(crate) fn remember(&self) {
        if let Some(past) = &mut *lock(&self.past) {
            past.keep(&self.reader.root(), self.env.now());
        }
    }

    /// The state at a version.
    pub(crate) fn at(&self, version: &ResourceVersion) -> Result<Root, Missing> {
        let mut past = lock(&self.past);
        let past = past.as_mut().ok_or(Missing::TooOld(None))?;
        // A root may be published and not kept yet.
        let now = self.env.now();
        past.keep(&self.reader.root(), now);
        past.drop_old(now);
        past.at(version).cloned()
    }

    /// The objects of a root of this store in the order of their keys.
    ///
    /// # Complexity
    /// O(1) if the root is the last requested one, else O(changes since that); the first time,
    /// O(objects · log objects).
    pub(crate) fn order(&self, root: &Root) -> Arc<Order> {
        let known = lock(&self.order).clone();
        if let Some(known) = &known
            && known.root().ptr_eq(root)
        {
            return Arc::clone(known);
        }
        // Outside of the lock: a second reader may do the same.
        let order = match known {
            Some(known) => {
                let mut order = Arc::unwrap_or_clone(known);
                order.follow(root);
                order
            }
            None => Order::build(root.clone()),
        };
        let order = Arc::new(order);
        *lock(&self.order) = Some(Arc::clone(&order));
        order
    }

    /// The name of the index of a label, if there is one.
    pub(crate) fn label_index(&self, key: &str) -> Option<String> {
        let definitions = lock(&self.definitions);
        let mut definitions = definitions.iter();
        let found =
            definitions.find(|known| matches!(&known.origin, Origin::Label(of) if of == key));
        found.map(|known| known.index.name().to_owned())
    }

    /// Returns whether it runs, or ran.
    pub(crate) fn was_started(&self) -> bool {
        self.was_started.load(Ordering::Relaxed)
    }

    /// Adds one holder: an informer that watches this.
    pub(crate) fn hold(&self) {
        self.holders.fetch_add(1, Ordering::AcqRel);
    }

    /// Releases one holder; returns the remaining count.
    pub(crate) fn release(&self) -> usize {
        self.holders.fetch_sub(1, Ordering::AcqRel) - 1
    }

    /// From now on, the core stops when its last handler or stream is gone.
    pub(crate) fn stop_when_unused(&self) {
        self.stops_when_unused.store(true, Ordering::Relaxed);
    }

    /// Returns whether an object of this key could be in this store.
    pub(crate) fn may_hold(&self, key: KeyRef<'_>) -> bool {
        let namespace = self.info.namespace.as_deref();
        namespace.is_none_or(|namespace| namespace == key.namespace)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled()
    }

    pub(crate) fn relist(&self) {
        // If the loop is gone, the command has no receiver.
        let _ = self.commands.send(Command::Relist);
    }

    /// The definition of a requested index, built or not.
    pub(crate) fn definition(&self, name: &str) -> Option<CoreIndex> {
        let definitions = lock(&self.definitions);
        let found = definitions.iter().find(|known| known.index.name() == name);
        found.map(|known| known.index.clone())
    }

    /// Returns whether the definition is new here.
    fn is_new(&self, definition: &Definition) -> Result<bool, Error> {
        let name = definition.index.name();
        let conflict = |why: &str| {
            Error::new(
                ErrorKind::NameTaken,
                format!("the index name {name:?} is taken {why}"),
            )
        };
        if name == kinform_core::store::index::NAMESPACE {
            return Err(conflict("by the index of namespaces"));
        }
        let definitions = lock(&self.definitions);
        let known = definitions.iter().find(|known| known.index.name() == name);
        match known {
            None => Ok(true),
            Some(known)
                if known.origin == definition.origin && known.origin != Origin::Function =>
            {
                Ok(false)
            }
            Some(_) => Err(conflict("by another definition")),
        }
    }

    fn add_index(&self, definition: Definition) -> Result<(), Error> {
        if !self.is_new(&definition)? {
            return Ok(());
        }
        if self.was_started() {
            definition.reads_what_stays(&self.info, self.root().reduction())?;
        }
        let index = definition.index.clone();
        lock(&self.definitions).push(definition);
        if let Some(idle) = &mut *lock(&self.idle) {
            // The store is empty: building costs nothing.
            let built = BuiltIndex::build(self.reader.root(), index);
            return idle
                .writer
                .install(built)
                .map(drop)
                .map_err(|conflict| Error::new(ErrorKind::NameTaken, conflict.to_string()));
        }
        // Until it is built, readers look at each object.
        let _ = self.commands.send(Command::Index(index));
        Ok(())
    }

    pub(crate) fn add_listener(&self, listener: &Arc<ListenerState>) {
        let mut listeners = lock(&self.listeners);
        listeners.retain(|known| known.strong_count() > 0);
        listeners.push(Arc::downgrade(listener));
    }

    pub(crate) fn remove_listener(&self, listener: &Arc<ListenerState>) {
        lock(&self.listeners).retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(listener)));
    }

    /// Each listener.
    pub(crate) fn each_listener(&self) -> Vec<Arc<ListenerState>> {
        let listeners = lock(&self.listeners);
        listeners.iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn listeners(&self) -> Listeners {
        let mut found = Listeners::default();
        for listener in self.each_listener() {
            found.count += 1;
            found.most_lag = found.most_lag.max(listener.lag());
            found.times_behind += listener.times_behind();
        }
        found
    }
}

/// The state of the listeners.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) count: u64,
    /// The lag of the slowest, in batches.
    pub(crate) most_lag: u64,
    /// The sum over all listeners.
    pub(crate) times_behind: u64,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}
