//! The reconcile function of the simulated operator, and what must hold when it runs.
//!
//! ```text
//! config map ─▶ reconcile: no other at work on the key? own writes seen? ─▶ one secret, its copy
//! ```
//!
//! The secret has the number of its config map. It fails, panics or hangs now and then. A finalizer
//! notes the uids whose cleanup is done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::controller::CauseEvent;
use kinform::{Action, Controller, Ctx, Informer, ObjectKey, Reconciler};
use kube_client::api::{Api, PostParams};
use kube_core::ObjectMeta;
use serde_json::json;

use crate::finding::Invariant;
use crate::history::SECRETS;
use crate::network::Wire;
use crate::pace::Pace;
use crate::settings::{COPIED, FINALIZER, Style};
use crate::shared::{Life, Shared, lock};

/// The label of a copy with the uid of its config map.
const OF: &str = "of";
/// The time after which a reconcile is dropped.
const LIMIT: Duration = Duration::from_secs(20);
/// The delay after which some keys ask to be reconciled again.
pub(crate) const AGAIN: Duration = Duration::from_secs(45);
/// The delay of other keys: operators ask for a look every few hours.
const MUCH_LATER: Duration = Duration::from_secs(2 * 60 * 60);
/// BOUND: reconciles of one key in a minute that no event caused: failures with backoff, or one a
/// second while a fresh view is required and there is none.
const MOST: usize = 75;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The state of the reconcile function of one life.
pub(crate) struct Work {
    shared: Arc<Shared>,
    wire: Wire,
    life: Life,
    style: Style,
    secrets: Informer<Secret>,
    /// The versions that its own writes had, by the key of the config map.
    written: Mutex<BTreeMap<ObjectKey, (String, u64)>>,
    /// The times at which keys asked to be reconciled again, at the latest.
    due: Arc<Mutex<BTreeMap<ObjectKey, tokio::time::Instant>>>,
    pace: Mutex<Pace>,
}

/// The keys that asked to be reconciled again, and when.
pub(crate) type Due = Arc<Mutex<BTreeMap<ObjectKey, tokio::time::Instant>>>;

/// The settings of the controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workers {
    pub(crate) style: Style,
    pub(crate) has_finalizer: bool,
    pub(crate) workers: usize,
}

/// The controller of one life.
pub(crate) fn controller(
    (shared, wire, life): (&Arc<Shared>, &Wire, Life),
    settings: Workers,
    (maps, secrets): (&Informer<ConfigMap>, &Informer<Secret>),
) -> (Reconciler, Due) {
    let due = Due::default();
    let work = Arc::new(Work {
        shared: Arc::clone(shared),
        wire: wire.clone(),
        life,
        style: settings.style,
        secrets: secrets.clone(),
        written: Mutex::default(),
        due: Arc::clone(&due),
        pace: Mutex::default(),
    });
    let mut controller = Controller::of(maps)
        .owns(secrets)
        .workers(settings.workers)
        .reconcile_timeout(LIMIT);
    if settings.has_finalizer {
        let work = Arc::clone(&work);
        controller = controller.finalizer(FINALIZER, move |map: Arc<ConfigMap>, _: Ctx<()>| {
            let work = Arc::clone(&work);
            async move { work.clean(&map).await }
        });
    }
    let reconciler = controller.reconciling(move |map: Arc<ConfigMap>, cx: Ctx<()>| {
        let work = Arc::clone(&work);
        async move { work.reconcile(&map, cx).await }
    });
    (reconciler, due)
}

/// A key in a reconcile.
struct AtWork<'a>(&'a Work, ObjectKey);

impl<'a> AtWork<'a> {
    fn begin(work: &'a Work, key: &ObjectKey) -> Self {
        let before = lock(&work.shared.busy).insert(key.clone(), work.life);
        if let Some(other) = before {
            let mine = work.life;
            work.shared.find(
                Invariant::I17,
                format!("{key} is reconciled by process {mine:?} while {other:?} is at it"),
            );
        }
        Self(work, key.clone())
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let Self(work, key) = self;
        let mut busy = lock(&work.shared.busy);
        if busy.get(key) == Some(&work.life) {
            busy.remove(key);
        }
    }
}

impl Work {
    async fn reconcile(&self, map: &ConfigMap, cx: Ctx<()>) -> Result<Action, Failure> {
        let shared = &self.shared;
        shared.reconciles.fetch_add(1, Ordering::Relaxed);
        shared.worked();
        let key = cx.key().clone();
        shared.note(format_args!("{} reconciles {key}", self.life.0));
        self.not_early(&cx);
        self.paced(&key, &cx);
        let _at_work = AtWork::begin(self, &key);
        self.look(&key, &cx);
        shared.hop().await;
        self.wire.moving().await;
        if shared.strikes(25) {
            return Err("it fails now and then".into());
        }
        if shared.strikes(80) {
            std::panic::resume_unwind(Box::new("a reconcile that panics"));
        }
        if shared.strikes(120) {
            std::future::pending::<()>().await;
        }
        let written = match self.style {
            Style::Apply => Some(cx.apply(&self.copy(map)).await?),
            Style::CreateOrUpdate => self.update(map, &cx).await?,
            Style::Generate => self.generate(map, &cx).await?,
        };
        self.wrote(&key, written);
        let number: u32 = number(map).parse().unwrap_or_default();
        let delay = match number % 8 {
            0 => AGAIN,
            4 => MUCH_LATER,
            _ => return Ok(Action::await_change()),
        };
        lock(&self.due).insert(key, tokio::time::Instant::now() + delay);
        Ok(Action::requeue(delay))
    }

    /// A key that comes back again and again without an event is a finding. Events are not counted:
    /// a parent that is seen late may be given children that are collected at once.
    fn paced(&self, key: &ObjectKey, cx: &Ctx<()>) {
        if !is_woken(cx) {
            return;
        }
        if let Some(count) = lock(&self.pace).count(&key.to_string(), MOST) {
            let what = format!("{key} is reconciled {count} times in a minute without an event");
            self.shared.find(Invariant::I26, what);
        }
    }

    /// A key that only waits for its time is not reconciled before it.
    fn not_early(&self, cx: &Ctx<()>) {
        let Some(at) = lock(&self.due).remove(cx.key()) else {
            return;
        };
        let rest = at.saturating_duration_since(tokio::time::Instant::now());
        if is_woken(cx) && !rest.is_zero() {
            let what = format!("{} was woken {rest:?} before its time", cx.key());
            self.shared.find(Invariant::I19, what);
        }
    }

    /// The cache must have what this process wrote for the key.
    fn look(&self, key: &ObjectKey, cx: &Ctx<()>) {
        if cx.is_stale() {
            return;
        }
        let Some((child, version)) = lock(&self.written).get(key).cloned() else {
            return;
        };
        let namespace = key.namespace();
        let seen = self.secrets.get(&ObjectKey::new(namespace, &child));
        let seen: Option<u64> = seen.and_then(|seen| seen.resource_version().parse().ok());
        let name = format!("{}/{child}", namespace.unwrap_or_default());
        let history = self.shared.history();
        let is_seen = match seen {
            Some(seen) => seen >= version,
            None => history.is_removed_after(SECRETS, &name, version),
        };
        let is_restored = history.epoch() > 1;
        drop(history);
        if !is_seen && !is_restored {
            self.shared.find(
                Invariant::I27,
                format!("{key} is reconciled by process {} that wrote {name} at {version}, and its cache has {seen:?}", self.life.0),
            );
        }
    }

    fn wrote(&self, key: &ObjectKey, written: Option<Secret>) {
        let Some(metadata) = written.map(|secret| secret.metadata) else {
            return;
        };
        let version = metadata
            .resource_version
            .and_then(|version| version.parse().ok());
        if let (Some(name), Some(version)) = (metadata.name, version) {
            lock(&self.written).insert(key.clone(), (name, version));
        }
    }

    fn copy(&self, map: &ConfigMap) -> Secret {
        let of = |text: &Option<String>| text.clone().unwrap_or_default();
        let (name, uid) = (of(&map.metadata.name), of(&map.metadata.uid));
        Secret {
            metadata: ObjectMeta {
                name: Some(format!("copy-{name}")),
                namespace: map.metadata.namespace.clone(),
                labels: Some([(OF.to_owned(), uid)].into()),
                annotations: Some([(COPIED.to_owned(), number(map))].into()),
                ..ObjectMeta::default()
            },
            ..Secret::default()
        }
    }

    async fn update(&self, map: &ConfigMap, cx: &Ctx<()>) -> Result<Option<Secret>, Failure> {
        let wanted = self.copy(map);
        let (labels, annotations) = (
            wanted.metadata.labels.clone(),
            wanted.metadata.annotations.clone(),
        );
        let written = cx.create_or_update(wanted, |secret| {
            let metadata = &mut secret.metadata;
            metadata.labels.clone_from(&labels);
            let own = annotations.clone().unwrap_or_default();
            metadata.annotations.get_or_insert_default().extend(own);
        });
        let written = written.await?;
        // One that was found as it should be is not awaited.
        Ok(written.is_changed().then(|| written.into_inner()))
    }

    /// Creates a child under a name of the server's choice, unless there is one. That the cache has
    /// none proves nothing: it may lack own writes, and those of a leader that was killed, for which
    /// its successor waits two seconds and no longer (its watch may be dead). What must be there
    /// once is created on a view that is shown to be fresh.
    async fn generate(&self, map: &ConfigMap, cx: &Ctx<()>) -> Result<Option<Secret>, Failure> {
        let namespace = map.metadata.namespace.clone().unwrap_or_default();
        let mut child = self.child(map);
        if child.is_none() && cx.is_stale() {
            return Err("the cache lacks what was written before".into());
        }
        if child.is_none() {
            cx.require_fresh(Duration::ZERO).await?;
            child = self.child(map);
        }
        match child {
            None => {
                let mut made = self.copy(map);
                made.metadata.name = None;
                made.metadata.generate_name = Some("copy-".to_owned());
                kinform::owner::set_controller(&mut made, &cx.owner()?)?;
                let api: Api<Secret> = Api::namespaced(cx.client()?, &namespace);
                Ok(Some(api.create(&PostParams::default(), &made).await?))
            }
            Some(child) => {
                let has = child
                    .metadata
                    .annotations
                    .as_ref()
                    .and_then(|all| all.get(COPIED));
                if has == Some(&number(map)) {
                    return Ok(None);
                }
                let patch = json!({"metadata": {"annotations": {COPIED: number(map)}}});
                Ok(Some(cx.patch(&*child, patch).await?))
            }
        }
    }

    /// The child that the cache has.
    fn child(&self, map: &ConfigMap) -> Option<Arc<Secret>> {
        let uid = map.metadata.uid.clone().unwrap_or_default();
        let namespace = map.metadata.namespace.clone().unwrap_or_default();
        let children = self.secrets.store().in_namespace(&namespace);
        children.typed().find(|secret| {
            let owners = secret.metadata.owner_references.iter().flatten();
            owners.into_iter().any(|owner| owner.uid == uid)
        })
    }

    async fn clean(&self, map: &ConfigMap) -> Result<(), Failure> {
        self.shared.hop().await;
        self.wire.moving().await;
        self.shared.worked();
        if self.shared.strikes(20) {
            return Err("its cleanup fails now and then".into());
        }
        let uid = map.metadata.uid.clone().unwrap_or_default();
        lock(&self.shared.cleaned).insert(uid);
        Ok(())
    }
}

/// Returns whether no event is among the causes of a reconcile: it is a retry, or its time has come.
fn is_woken(cx: &Ctx<()>) -> bool {
    let causes = cx.causes();
    let mut events = causes.iter().map(|cause| cause.event());
    events.all(|event| event == CauseEvent::Woken)
}

fn number(map: &ConfigMap) -> String {
    let data = map.data.as_ref().and_then(|data| data.get("number"));
    data.cloned().unwrap_or_default()
}
