//! One life of a process: an operator, informers of its own, handlers.
//!
//! ```text
//! Settings + Wire ─▶ Operator (lease, controller), InformerFactory ─▶ caches with listeners ─▶ killed, or stopped
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::source::Wire as Encoding;
use kinform::{
    CancellationToken, DiskCache, FactoryBuilder, FifoPolicy, Index, Informer, InformerFactory,
    ReflectorOptions, RingLimits, StreamingList, Target, Transform,
};
use kinform_operator::leader::LeaseOptions;
use kinform_operator::{LeaseSettings, Operator, Settings as OperatorSettings};
use tokio::task::JoinHandle;

use crate::cache::{Cache, Scope};
use crate::cluster::{Cluster, LEASE};
use crate::generate::NAMESPACES;
use crate::history::{MAPS, SECRETS};
use crate::listener::Manner;
use crate::network::Wire;
use crate::settings::{self, Fence, Lease, Settings, is_poison};
use crate::shared::{Life, Shared};
use crate::work::{self, Due, Workers};

/// BOUND: the time that handlers have at an orderly stop.
const HANDLERS: Duration = Duration::from_secs(10);

/// The caches that have the settings of the process; those of the operator follow.
pub(crate) const OWN_CACHES: usize = 3;
/// The time from one copy of the caches on disk to the next.
const ON_DISK: Duration = Duration::from_secs(60);

/// One life of a process.
pub(crate) struct Replica {
    pub(crate) life: Life,
    pub(crate) wire: Wire,
    /// The server that it reads from.
    pub(crate) reads: usize,
    pub(crate) operator: Operator,
    pub(crate) caches: Vec<Cache>,
    pub(crate) due: Due,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), String>>,
}

impl Replica {
    /// Starts a process; `None` while a server that it needs is down.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        cluster: &Cluster,
        (life, settings): (Life, &Settings),
    ) -> Result<Option<Self>, String> {
        let (Some(reads), Some(writes)) = (cluster.service(life.0), cluster.service(0)) else {
            return Ok(None);
        };
        let wire = Wire::new(shared, life, (reads, writes));
        let own = settings.replicas[life.0];
        let failed = |error: kinform_operator::Error| error.to_string();
        let mut builder = Operator::builder(LEASE).settings(operator_settings(settings));
        if settings.fencing == Fence::Hard {
            builder = builder.hard_fence();
        }
        let operator = builder.with_client(wire.client()).map_err(failed)?;
        let (maps, secrets) = (
            operator.informer::<ConfigMap>(),
            operator.informer::<Secret>(),
        );
        let workers = Workers {
            style: settings.style,
            has_finalizer: settings.finalizer,
            workers: own.workers,
        };
        let (controller, due) = work::controller((shared, &wire, life), workers, (&maps, &secrets));
        operator.add(controller).map_err(failed)?;
        let factory = factory(&wire, own)
            .disk_cache(disk(shared, life, own))
            .build();
        let mut caches = own_caches(&factory, (life.0, own))?;
        let named = |name| (life.0, name);
        caches.push(cache(named("the operator's maps"), MAPS, Scope::All, &maps));
        let its = named("the operator's secrets");
        caches.push(cache(its, SECRETS, Scope::All, &secrets));
        for (cache, manner) in caches
            .iter_mut()
            .zip([Manner::Quick, Manner::Panics, Manner::Quick])
        {
            cache.listen(shared, &wire, manner);
        }
        if let Some(first) = caches.first_mut() {
            first.listen(shared, &wire, Manner::Slow(Duration::from_millis(300)));
        }
        factory.start().map_err(|error| error.to_string())?;
        let stop = CancellationToken::new();
        let (run, token) = (operator.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let ended = run.run_until(token).await;
            factory.shutdown_within(HANDLERS).await;
            ended.map_err(|error| error.to_string())
        });
        shared.begin(life, &operator);
        Ok(Some(Self {
            life,
            wire,
            reads: home(life),
            operator,
            caches,
            due,
            stop,
            task,
        }))
    }

    /// The server that it reads from while nothing is wrong.
    pub(crate) fn home(&self) -> usize {
        home(self.life)
    }

    /// Its reading connections break, and its reads go to this server, if they do not yet.
    pub(crate) fn read_from(&mut self, number: usize, cluster: &Cluster) {
        if self.reads != number {
            self.reads = number;
            self.wire.lose_server(true);
            self.wire.connect(cluster.service(number), None);
        }
    }

    /// Ends it as a killed process ends.
    pub(crate) fn kill(self, shared: &Shared) {
        self.wire.disconnect();
        self.task.abort();
        let own = self.caches.iter().take(OWN_CACHES);
        let resumed = own.map(|cache| cache.informer.stats().resumed).sum();
        shared.resumed.fetch_add(resumed, Ordering::Relaxed);
        for cache in &self.caches {
            cache.informer.stop();
        }
        shared.end(self.life);
    }
}

fn operator_settings(settings: &Settings) -> OperatorSettings {
    let mut lease = LeaseSettings::default();
    lease.namespace = Some("default".to_owned());
    lease.options = match settings.lease {
        Lease::Default => LeaseOptions::default(),
        Lease::Quick => LeaseOptions::quick(),
    };
    let mut own = OperatorSettings::default();
    (own.probe_address, own.metrics_address) = (None, None);
    own.leader_election = Some(lease);
    own
}

fn home(life: Life) -> usize {
    life.0 % 2
}

/// The folder of its caches, which outlives the process.
fn disk(shared: &Shared, life: Life, own: settings::Replica) -> Option<DiskCache> {
    let folder = shared.folder().filter(|_| own.disk)?;
    let disk = DiskCache::in_dir(folder.join(life.0.to_string())).period(ON_DISK);
    Some(disk.cluster("simulated").user("operator"))
}

fn factory(wire: &Wire, own: settings::Replica) -> FactoryBuilder {
    let mut options = ReflectorOptions::new()
        .with_page_size(own.page)
        .with_min_watch_timeout(Duration::from_secs(own.watch));
    if !own.streams {
        options = options.with_streaming_list(StreamingList::Never);
    }
    if own.audit > 0 {
        options = options.with_audit_period(Duration::from_secs(own.audit));
    }
    let fifo = if own.coalesces {
        FifoPolicy::Coalescing
    } else {
        FifoPolicy::InOrder
    };
    let encoding = if own.json {
        Encoding::Json
    } else {
        Encoding::Auto
    };
    InformerFactory::builder(wire.audited_client())
        .reflector(options)
        .fifo(fifo)
        .wire(encoding)
        .resync_period(Duration::from_secs(own.resync))
        .ring_limits(RingLimits {
            changes: own.ring,
            ..RingLimits::default()
        })
}

fn own_caches(
    factory: &InformerFactory,
    (process, own): (usize, settings::Replica),
) -> Result<Vec<Cache>, String> {
    let all = factory.informer::<ConfigMap>();
    let hot = factory
        .select::<ConfigMap>(Target::new())
        .labels("tier=hot")
        .transform(Transform::typed(bare))
        .build();
    let named = factory
        .select::<ConfigMap>(Target::new())
        .namespaces([NAMESPACES[0]])
        .build();
    let mut caches = vec![
        cache((process, "maps"), MAPS, Scope::All, &all),
        cache((process, "hot maps"), MAPS, Scope::Hot, &hot),
        cache(
            (process, "maps of some namespaces"),
            MAPS,
            Scope::Named,
            &named,
        ),
    ];
    // The second has no versions in its metadata, the third has namespaces that come and go.
    for at in [0, 2] {
        let index = caches[at].informer.add_index(Index::label("tier"));
        caches[at].index = Some(index.map_err(|error| error.to_string())?);
    }
    caches[0].is_in_order = !own.coalesces && own.audit == 0;
    caches[0].is_on_disk = own.disk;
    Ok(caches)
}

/// The transform of an informer: removes the data, and the version in the metadata. It panics at
/// some objects: they are quarantined until they change.
fn bare(mut map: ConfigMap) -> ConfigMap {
    let number = map.data.as_ref().and_then(|data| data.get("number"));
    if is_poison(number.map(String::as_str)) {
        std::panic::resume_unwind(Box::new("a transform that panics"));
    }
    map.data = None;
    map.metadata.resource_version = None;
    map
}

fn cache<K>(
    (process, name): (usize, &str),
    shelf: &'static str,
    scope: Scope,
    informer: &Informer<K>,
) -> Cache {
    Cache {
        name: format!("process {process}, {name}"),
        shelf,
        scope,
        informer: informer.cast(),
        index: None,
        listeners: Vec::new(),
        is_in_order: false,
        is_on_disk: false,
        last: Default::default(),
        added: 0,
    }
}
