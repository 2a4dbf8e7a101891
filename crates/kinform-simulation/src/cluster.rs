//! Two API servers over one storage, its backup, and users' writes.
//!
//! ```text
//! Builder + Stopped ─▶ Server 0 (writes, collects garbage), Server 1 (reads) ─▶ Service of each
//! backup ─▶ restore: both come back with the objects of that moment
//! ```
//!
//! A server that is down keeps the state that it left; both have the same storage.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use kinform_apiserver::{Fault, FaultRule, Server, Service, Stopped, Store, Stored, User};
use kinform_operator::leader::FencePolicy;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::generate::NAMESPACES;
use crate::history::SECRETS;
use crate::network::status;
use crate::script::{Change, Hand, Verb};
use crate::settings::{Behind, COPIED, Expiry, Fence, Servers, Settings, Tokens};

/// BOUND: the events that the servers remember.
const HISTORY: usize = 20_000;
/// The revisions that a backup leaves free, so that a storage that goes back has versions far below those before.
const AHEAD: u64 = 1_000;

/// The watches that a server refuses when it falls behind: fewer than a process has, so that some of its lists
/// name the version that they had.
const WATCHES: usize = 3;

/// The account of the processes.
pub(crate) const ACCOUNT: &str = "system:serviceaccount:default:operator";
/// The lease of the processes.
pub(crate) const LEASE: &str = "simulated";
const LEASES: &str = "leases.coordination.k8s.io";
/// The label that somebody else gives to it.
const LABEL: &str = "somebody";

/// Two API servers over one storage.
pub(crate) struct Cluster {
    servers: [Option<Server>; 2],
    /// The states of servers that are down.
    left: [Option<Stopped>; 2],
    backup: Option<Backup>,
    store: Arc<Store>,
    start: Instant,
    epoch: Timestamp,
    /// The minutes by which the clock has jumped.
    jump: i64,
    writes: u64,
    /// The uid of a lease that somebody else labelled.
    labelled: Option<String>,
    habits: Servers,
}

/// A copy of the storage.
struct Backup {
    state: Stopped,
    revision: u64,
}

/// The revisions of a storage that was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revisions {
    /// They go on where they were.
    GoOn,
    /// They are those of the backup.
    GoBack,
}

impl Cluster {
    /// Two servers, with the namespaces and, for a hard fence, its policy.
    pub(crate) async fn start(settings: &Settings) -> Result<Self, String> {
        let start = Instant::now();
        // Any time will do, as long as it is the same in each run.
        let epoch = Timestamp::from_second(1_800_000_000).map_err(|error| error.to_string())?;
        let first = builder(epoch).in_process();
        let second = second(epoch).state(first.shared_state()).in_process();
        let mut cluster = Self {
            store: Arc::clone(first.store()),
            servers: [Some(first), Some(second)],
            left: [None, None],
            backup: None,
            start,
            epoch,
            jump: 0,
            writes: 0,
            labelled: None,
            habits: settings.servers,
        };
        cluster.heal(0);
        cluster.heal(1);
        for name in NAMESPACES {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            cluster.must("/api/v1/namespaces", &body).await?;
        }
        if settings.fencing == Fence::Hard {
            let lease = format!("default/{LEASE}");
            // Copies, and config maps for their finalizers.
            let policy = FencePolicy::new("fence", lease, ACCOUNT);
            let policy = policy.resource("", "secrets").resource("", "configmaps");
            let [policy, binding] = policy.objects();
            let group = "/apis/admissionregistration.k8s.io/v1";
            cluster
                .must(&format!("{group}/validatingadmissionpolicies"), &policy)
                .await?;
            let path = format!("{group}/validatingadmissionpolicybindings");
            cluster.must(&path, &binding).await?;
        }
        Ok(cluster)
    }

    async fn must(&mut self, path: &str, body: &Value) -> Result<(), String> {
        match self.request(Method::POST, path, JSON, body).await {
            Some(200..300) => Ok(()),
            other => Err(format!("POST {path}: {other:?}")),
        }
    }

    /// The storage that is there now.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// A server that is up.
    pub(crate) fn server(&self, number: usize) -> Option<&Server> {
        self.servers.get(number % 2)?.as_ref()
    }

    /// The way of a process to a server.
    pub(crate) fn service(&self, number: usize) -> Option<Service> {
        Some(self.server(number)?.service_as(User::new(ACCOUNT)))
    }

    /// Returns whether both are up.
    pub(crate) fn is_up(&self) -> bool {
        self.servers.iter().all(Option::is_some)
    }

    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.start.elapsed()).unwrap_or_default();
        let passed = passed.saturating_add(SignedDuration::from_mins(self.jump));
        self.epoch.checked_add(passed).unwrap_or(self.epoch)
    }

    /// A server goes down; nothing happens if it is.
    pub(crate) async fn stop(&mut self, number: usize) {
        if let Some(server) = self.servers.get_mut(number).and_then(Option::take) {
            self.left[number] = Some(server.stop().await);
        }
    }

    /// The history of a server that is down is lost.
    pub(crate) fn forget(&mut self, number: usize) {
        if let Some(state) = self.left[number].take() {
            self.left[number] = Some(state.without_history());
        }
    }

    /// The clock jumps, from the next start on.
    pub(crate) fn jump(&mut self, minutes: i64) {
        self.jump += minutes;
    }

    /// A server that is down comes back; returns whether it was down.
    pub(crate) fn resume(&mut self, number: usize) -> bool {
        let Some(state) = self.left[number].take() else {
            return false;
        };
        let now = self.now();
        let builder = if number == 0 {
            builder(now)
        } else {
            second(now)
        };
        self.servers[number] = Some(builder.state(state).in_process());
        self.heal(number);
        true
    }

    /// Ends the faults of a server that is up; its habits stay.
    pub(crate) fn heal(&self, number: usize) {
        let Some(server) = self.server(number) else {
            return;
        };
        let faults = server.faults();
        faults.clear();
        faults.delay_watches(None);
        let Servers {
            expiry,
            behind,
            tokens,
        } = self.habits;
        if expiry == Expiry::Refusal {
            faults.refuse_expired_watches();
        }
        if behind == Behind::Past {
            faults.ignore_asked_versions();
        }
        if tokens == Tokens::Expire {
            faults.refuse_continue_tokens();
        }
        server.catch_up();
    }

    /// A server shows the state of this many revisions ago, until it catches up. It does not know the
    /// history of its next watches, as one that has just started: their clients list.
    pub(crate) fn fall_behind(&self, number: usize, revisions: u64) {
        if let Some(server) = self.server(number).filter(|_| revisions > 0) {
            server.lag_at(self.store.revision().saturating_sub(revisions));
            let rule = FaultRule::new(Fault::ErrorEvent(status(410)));
            server.faults().inject(rule.on_verb("watch").times(WATCHES));
        }
    }

    /// A server that lags catches up.
    pub(crate) fn catch_up(&self, number: usize) {
        if let Some(server) = self.server(number) {
            server.catch_up();
        }
    }

    /// Takes a backup.
    pub(crate) fn back_up(&mut self) {
        let Some(server) = self.server(0).or_else(|| self.server(1)) else {
            return;
        };
        let state = server.backup();
        let revision = self.store.revision();
        self.store.advance(AHEAD);
        self.backup = Some(Backup { state, revision });
    }

    /// Returns whether there is a backup.
    pub(crate) fn has_backup(&self) -> bool {
        self.backup.is_some()
    }

    /// Replaces the storage by the backup's while both servers are down.
    pub(crate) fn restore(&mut self, revisions: Revisions) {
        let Some(Backup { state, revision }) = self.backup.take() else {
            return;
        };
        self.labelled = None;
        let before = self.store.revision();
        let server = builder(self.now()).state(state).in_process();
        self.store = Arc::clone(server.store());
        if revisions == Revisions::GoOn {
            self.store.advance(before.saturating_sub(revision) + AHEAD);
            self.store.compact(u64::MAX);
        }
        self.left = [Some(server.shared_state()), Some(server.shared_state())];
    }

    /// A user's write; returns whether the server did it.
    pub(crate) async fn write(&mut self, change: &Change) -> bool {
        let namespace = NAMESPACES[usize::from(change.namespace) % NAMESPACES.len()];
        let name = format!("map-{}", change.name);
        let all = format!("/api/v1/namespaces/{namespace}/configmaps");
        let one = format!("{all}/{name}");
        let tier = if change.value.is_multiple_of(2) {
            "hot"
        } else {
            "cold"
        };
        let filling = "é\"\\\n".repeat((change.value % 40) as usize);
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"tier": tier}},
            "data": {"text": filling, "number": change.value.to_string()}});
        let done = match change.verb {
            Verb::Create => self.request(Method::POST, &all, JSON, &body).await,
            Verb::Change => {
                let patch = json!({"data": {"number": change.value.to_string()}});
                self.request(Method::PATCH, &one, MERGE_PATCH, &patch).await
            }
            Verb::Label => {
                // A null takes the label away.
                let tier = (!change.value.is_multiple_of(3)).then_some(tier);
                let patch = json!({"metadata": {"labels": {"tier": tier}}});
                self.request(Method::PATCH, &one, MERGE_PATCH, &patch).await
            }
            Verb::Delete => self.request(Method::DELETE, &one, JSON, &Value::Null).await,
            Verb::Recreate => {
                self.request(Method::DELETE, &one, JSON, &Value::Null).await;
                self.request(Method::POST, &all, JSON, &body).await
            }
            Verb::Spoil | Verb::DeleteCopy | Verb::Orphan => {
                self.write_copy(namespace, &name, change).await
            }
        };
        let is_done = matches!(done, Some(200..300));
        self.writes += u64::from(is_done);
        is_done
    }

    /// Somebody else writes the lease.
    pub(crate) async fn write_lease(&mut self, hand: Hand) {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/default/leases/{LEASE}");
        let done = match hand {
            Hand::Delete => {
                self.request(Method::DELETE, &path, JSON, &Value::Null)
                    .await
            }
            Hand::Label => {
                let patch = json!({"metadata": {"labels": {LABEL: "kept"}}});
                self.request(Method::PATCH, &path, MERGE_PATCH, &patch)
                    .await
            }
        };
        if hand == Hand::Label && matches!(done, Some(200..300)) {
            self.labelled = self.lease().map(|(uid, _)| uid);
        }
    }

    fn stored_lease(&self) -> Option<Arc<Stored>> {
        let view = self.store.view(self.store.shelf(LEASES));
        let mut all = view.snapshot.iter();
        all.find(|stored| stored.key().ends_with(LEASE)).cloned()
    }

    /// The uid of the lease, and whether it has the label.
    fn lease(&self) -> Option<(String, bool)> {
        let lease = self.stored_lease()?;
        let has_label = lease.value()["metadata"]["labels"][LABEL] == "kept";
        Some((lease.uid().to_owned(), has_label))
    }

    /// The process that the lease names; `None` if it was given back, or there is no lease.
    pub(crate) fn holder(&self) -> Option<String> {
        let value = self.stored_lease()?.value();
        let holder = value["spec"]["holderIdentity"].as_str();
        holder
            .filter(|holder| !holder.is_empty())
            .map(str::to_owned)
    }

    /// Returns whether the lease has lost the label that somebody else gave it.
    pub(crate) fn has_lost_label(&self) -> bool {
        let lease = self.lease();
        lease.is_some_and(|(uid, has_label)| Some(uid) == self.labelled && !has_label)
    }

    /// A user's write to the copy of a config map, which its controller has to undo.
    async fn write_copy(&self, namespace: &str, name: &str, change: &Change) -> Option<u16> {
        let view = self.store.view(self.store.shelf(SECRETS));
        let key = view.snapshot.iter().find_map(|stored| {
            let owner = &stored.value()["metadata"]["ownerReferences"][0];
            let (of, copy) = stored.key().split_once('/')?;
            (of == namespace && owner["name"] == name).then(|| copy.to_owned())
        })?;
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{key}");
        if change.verb == Verb::DeleteCopy {
            return self
                .request(Method::DELETE, &path, JSON, &Value::Null)
                .await;
        }
        let patch = match change.verb {
            Verb::Orphan => json!({"metadata": {"ownerReferences": null}}),
            _ => json!({"metadata": {"annotations": {COPIED: change.value.to_string()}}}),
        };
        self.request(Method::PATCH, &path, MERGE_PATCH, &patch)
            .await
    }

    /// The writes of users that were done.
    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    /// A request of the administrator; `None` if the server is down.
    async fn request(&self, method: Method, path: &str, media: &str, body: &Value) -> Option<u16> {
        let service = self.server(0)?.service();
        let bytes = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .header("accept", JSON)
            .body(Bytes::from(bytes))
            .ok()?;
        let reply = service.call(request).await;
        let code = reply.status().as_u16();
        Some(code)
    }

    /// Stops both servers.
    pub(crate) async fn end(&mut self) {
        for number in 0..2 {
            self.stop(number).await;
        }
    }
}

fn builder(now: Timestamp) -> kinform_apiserver::Builder {
    Server::builder().plain().history(HISTORY).start_time(now)
}

/// The second server leaves the storage's housework to the first.
fn second(now: Timestamp) -> kinform_apiserver::Builder {
    builder(now).without_garbage_collection()
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
