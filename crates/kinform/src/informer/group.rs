//! The watches of one informer: one for each namespace, and namespaces may come and go.
//!
//! ```text
//! add_namespace → Recipe → Core ─▶ members ─▶ stores, indexes, states, reports (at the next read)
//! remove_namespace ─▶ left ─────────────────▶ handlers, streams (they hear deletes)
//! ```
//!
//! Everything that was made from an informer reads the members anew each time, so it covers the
//! namespaces of that moment. A watch belongs to every informer with an equal request: it ends when
//! it is removed from the last one that is still held.
//! INVARIANT: a member has every index of the informer before any reader sees it.
//!
//! Upstream counterpart: none; `controller-runtime:pkg/cache` (`multiNamespaceCache`) knows its
//! namespaces from the start.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use futures::stream::{self, BoxStream, SelectAll, StreamExt};
use kinform_api::{KeyRef, Scope, mutant};
use kinform_core::object::Object;
use kinform_core::object::reduction::Reduction;
use kinform_core::store::index::Index as CoreIndex;
use kinform_core::store::past::PastLimits;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::definition::Definition;
use super::{Core, Tasks};
use crate::env::in_runtime;
use crate::error::{Error, ErrorKind};
use crate::report::{Report, Reports};
use crate::reporter::{Reporters, stream_of};
use crate::source::ResourceInfo;
use crate::sync::lock;

/// Makes the watches of one informer, also those of namespaces that come later.
pub(crate) trait Recipe: Send + Sync {
    /// The watch of this namespace, counted as held once more; `None` if the factory is gone.
    fn core(&self, namespace: Option<&str>) -> Option<Arc<Core>>;
    /// Returns a watch that the informer no longer needs: it stops if no other informer holds it.
    fn give_back(&self, core: &Core);
}

/// The cores of one informer; cheap to clone, clones see the same changes.
#[derive(Clone, Debug)]
pub(crate) struct Cores(Arc<Group>);

/// One watch of an informer.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Grows with each member of a group.
    pub(crate) id: u64,
    pub(crate) namespace: Option<String>,
    pub(crate) core: Arc<Core>,
    /// Its namespace was removed.
    pub(crate) left: CancellationToken,
}

/// The parts of a group of watches.
pub(crate) struct CoresParts<'a> {
    /// Makes watches of namespaces that come later; `None` for a view of one watch.
    pub(crate) recipe: Option<Arc<dyn Recipe>>,
    pub(crate) cores: Vec<(Option<String>, Arc<Core>)>,
    pub(crate) tasks: &'a Tasks,
    /// The resync period of handlers without one of their own.
    pub(crate) resync_period: Option<Duration>,
}

pub(crate) struct Group {
    info: ResourceInfo,
    // `None` for a view of one watch.
    recipe: Option<Arc<dyn Recipe>>,
    tasks: Tasks,
    // INVARIANT: `Some` if the only watch has no namespace; then the members never change.
    whole: Option<Arc<Core>>,
    members: ArcSwap<Vec<Member>>,
    changed: watch::Sender<u64>,
    edit: Mutex<Edit>,
    stop: CancellationToken,
    listeners: AtomicU64,
    reporters: Reporters,
    resync_period: Option<Duration>,
}

/// The state that changes of the members need. No user code runs under its lock.
#[derive(Default)]
struct Edit {
    next_id: u64,
    definitions: Vec<Definition>,
    /// The limits of the states that are kept, if any are.
    past: Option<PastLimits>,
    was_started: bool,
}

impl Cores {
    /// A group of these watches, which becomes one of their holders.
    pub(crate) fn new(parts: CoresParts<'_>) -> Self {
        let CoresParts {
            recipe,
            cores,
            tasks,
            resync_period,
        } = parts;
        debug_assert!(!cores.is_empty(), "an informer begins with something");
        let info = cores[0].1.info.clone();
        let whole = match &cores[..] {
            [(None, core)] => Some(Arc::clone(core)),
            _ => None,
        };
        let mut edit = Edit::default();
        let members = cores.into_iter();
        let members = members.map(|(namespace, core)| edit.member(namespace, core));
        let members: Vec<Member> = members.collect();
        let reporters = Reporters::default();
        follow(&reporters, &members);
        Self(Arc::new(Group {
            info,
            recipe,
            whole,
            members: ArcSwap::new(Arc::new(members)),
            changed: watch::Sender::new(0),
            edit: Mutex::new(edit),
            stop: tasks.stop.child_token(),
            tasks: tasks.clone(),
            listeners: AtomicU64::new(0),
            reporters,
            resync_period: resync_period.filter(|period| !period.is_zero()),
        }))
    }

    /// The watched resource; with several namespaces, that of the first.
    pub(crate) fn info(&self) -> &ResourceInfo {
        &self.0.info
    }

    /// The watches as they are now.
    pub(crate) fn members(&self) -> Guard<Arc<Vec<Member>>> {
        self.0.members.load()
    }

    /// The newest object of a key.
    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<Object> {
        // Most informers watch all namespaces: their reads need not ask who the members are.
        if let Some(core) = &self.0.whole {
            return core.get(key);
        }
        let members = self.members();
        let mut members = members.iter().filter(|member| member.core.may_hold(key));
        members.find_map(|member| member.core.get(key))
    }

    /// A receiver that wakes when the members change.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// The reporters of the watches, now and later; they keep none of them alive.
    pub(crate) fn reporters(&self) -> &Reporters {
        &self.0.reporters
    }

    /// The reports of all watches from now on, while namespaces come and go.
    pub(crate) fn reports(&self) -> Reports {
        let mut following = Following {
            group: Arc::downgrade(&self.0),
            changed: Some(self.changed()),
            streams: SelectAll::new(),
            seen: 0,
        };
        following.join(self);
        Reports::of(stream::unfold(following, |mut following| async move {
            let report = following.next().await?;
            Some((report, following))
        }))
    }

    /// The watch that could have an object of this key.
    pub(crate) fn holder(&self, key: KeyRef<'_>) -> Option<Arc<Core>> {
        let members = self.members();
        let found = members.iter().find(|member| member.core.may_hold(key));
        found.map(|member| Arc::clone(&member.core))
    }

    /// The resync period of handlers without one of their own.
    pub(crate) fn resync_period(&self) -> Option<Duration> {
        self.0.resync_period
    }

    /// The owner of the tasks of its listeners.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }

    /// The number of a new listener, counted from one: for names.
    pub(crate) fn count_listener(&self) -> u64 {
        self.0.listeners.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Stopped as a whole: by its owner, or with its factory.
    pub(crate) fn stop_token(&self) -> &CancellationToken {
        &self.0.stop
    }

    pub(crate) fn stop(&self) {
        self.0.stop.cancel();
        self.members().iter().for_each(|member| member.core.stop());
    }

    /// Fails if the group, or one of its watches, is stopped.
    pub(crate) fn running(&self) -> Result<(), Error> {
        let members = self.members();
        match members.iter().find(|member| member.core.is_stopped()) {
            Some(member) => Err(Error::stopped(&member.core.info)),
            None if self.0.stop.is_cancelled() => Err(Error::stopped(self.info())),
            None => Ok(()),
        }
    }

    /// The fields that are left of its reduced objects, if it may give up others.
    pub(crate) fn reduction(&self) -> Option<Arc<Reduction>> {
        let members = self.members();
        let root = members.first()?.core.root();
        root.reduction().cloned()
    }

    /// The definition of a requested index, built or not.
    pub(crate) fn definition(&self, name: &str) -> Option<CoreIndex> {
        let members = self.members();
        let known = members
            .iter()
            .find_map(|member| member.core.definition(name));
        known.or_else(|| {
            let edit = lock(&self.0.edit);
            let mut known = edit.definitions.iter();
            known
                .find(|known| known.index.name() == name)
                .map(|known| known.index.clone())
        })
    }

    /// The name of the index of a label, if there is one.
    pub(crate) fn label_index(&self, key: &str) -> Option<String> {
        let members = self.members();
        members
            .iter()
            .find_map(|member| member.core.label_index(key))
    }

    pub(crate) fn add_index(&self, definition: &Definition) -> Result<(), Error> {
        let mut edit = lock(&self.0.edit);
        let members = self.members();
        for member in members.iter() {
            member.core.is_new(definition)?;
        }
        for member in members.iter() {
            member.core.add_index(definition.clone())?;
        }
        let name = definition.index.name();
        if edit.definitions.iter().all(|d| d.index.name() != name) {
            edit.definitions.push(definition.clone());
        }
        Ok(())
    }

    /// Watches one more namespace; returns whether it was not watched before.
    pub(crate) fn add(&self, namespace: &str) -> Result<bool, Error> {
        self.running()?;
        let recipe = self.may_change(namespace)?;
        if self.watches(namespace) {
            return Ok(false);
        }
        let core = recipe
            .core(Some(namespace))
            .ok_or_else(|| Error::stopped(self.info()))?;
        let added = self.admit(namespace, &core);
        if !matches!(added, Ok(true)) {
            recipe.give_back(&core);
        }
        added
    }

    fn admit(&self, namespace: &str, core: &Arc<Core>) -> Result<bool, Error> {
        let mut edit = lock(&self.0.edit);
        // A second caller was faster.
        if self.watches(namespace) {
            return Ok(false);
        }
        let members = self.members();
        edit.was_started |= members.iter().any(|member| member.core.was_started());
        if edit.was_started {
            in_runtime()?;
        }
        for definition in &edit.definitions {
            core.is_new(definition)?;
        }
        for definition in edit.definitions.iter().filter(|_| !mutant!("K6")) {
            core.add_index(definition.clone())?;
        }
        if let Some(limits) = edit.past {
            core.keep_past(limits);
        }
        let mut all = Vec::clone(&members);
        all.push(edit.member(Some(namespace.to_owned()), Arc::clone(core)));
        self.publish(all);
        if edit.was_started {
            core.start();
        }
        Ok(true)
    }

    /// Stops watching this namespace; returns whether it was watched.
    pub(crate) fn remove(&self, namespace: &str) -> bool {
        let Ok(recipe) = self.may_change(namespace) else {
            return false;
        };
        let removed = {
            let mut edit = lock(&self.0.edit);
            let mut all = Vec::clone(&self.members());
            let watched = |member: &Member| member.namespace.as_deref() == Some(namespace);
            let Some(at) = all.iter().position(watched) else {
                return false;
            };
            let removed = all.remove(at);
            edit.was_started |= removed.core.was_started();
            removed.left.cancel();
            self.publish(all);
            removed
        };
        recipe.give_back(&removed.core);
        true
    }

    /// Keeps states that are over, here and of namespaces that come later.
    pub(crate) fn keep_past(&self, limits: PastLimits) {
        let mut edit = lock(&self.0.edit);
        let limits = *edit.past.get_or_insert(limits);
        for member in self.members().iter() {
            member.core.keep_past(limits);
        }
    }

    fn watches(&self, namespace: &str) -> bool {
        let members = self.members();
        let mut namespaces = members.iter().map(|member| member.namespace.as_deref());
        namespaces.any(|watched| watched == Some(namespace))
    }

    fn may_change(&self, namespace: &str) -> Result<&Arc<dyn Recipe>, Error> {
        let invalid = |why: &str| Err(Error::new(ErrorKind::Invalid, why));
        let watches_all = self
            .members()
            .iter()
            .any(|member| member.namespace.is_none());
        match &self.0.recipe {
            _ if self.info().scope == Scope::Cluster => {
                invalid("a resource of the cluster has no namespaces")
            }
            _ if namespace.is_empty() => invalid("a namespace has a name"),
            None => invalid("this is a view of one watch: its namespace stays"),
            Some(_) if watches_all => invalid("the informer watches all namespaces"),
            Some(recipe) => Ok(recipe),
        }
    }

    fn publish(&self, members: Vec<Member>) {
        follow(&self.0.reporters, &members);
        self.0.members.store(Arc::new(members));
        self.0.changed.send_modify(|version| *version += 1);
    }
}

fn follow(reporters: &Reporters, members: &[Member]) {
    let all = members.iter();
    reporters.replace(all.map(|member| (member.namespace.as_deref(), &member.core.reporter)));
}

/// The reports of all watches of an informer, while namespaces come and go.
struct Following {
    // Weak: a subscriber keeps no cache alive.
    group: Weak<Group>,
    changed: Option<watch::Receiver<u64>>,
    streams: SelectAll<BoxStream<'static, Report>>,
    // Members up to this one have a stream.
    seen: u64,
}

impl Following {
    async fn next(&mut self) -> Option<Report> {
        loop {
            let Some(changed) = &mut self.changed else {
                return self.streams.next().await;
            };
            tokio::select! {
                biased;
                is_open = changed.changed() => match self.group.upgrade().map(Cores) {
                    Some(cores) if is_open.is_ok() => self.join(&cores),
                    _ => self.changed = None,
                },
                Some(report) = self.streams.next() => return Some(report),
            }
        }
    }

    fn join(&mut self, cores: &Cores) {
        let members = cores.members();
        for member in members.iter().filter(|member| member.id > self.seen) {
            let reports = stream_of(member.core.reporter.subscribe());
            let left = member.left.clone().cancelled_owned();
            self.streams.push(reports.take_until(left).boxed());
        }
        self.seen = members.iter().map(|m| m.id).fold(self.seen, u64::max);
    }
}

impl Edit {
    fn member(&mut self, namespace: Option<String>, core: Arc<Core>) -> Member {
        self.next_id += 1;
        Member {
            id: self.next_id,
            namespace,
            core,
            left: CancellationToken::new(),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Informers that remain may end the watch; the factory keeps it running until then.
        for member in self.members.load().iter() {
            member.core.release();
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("info", &self.info)
            .field("members", &self.members.load().len())
            .finish_non_exhaustive()
    }
}
