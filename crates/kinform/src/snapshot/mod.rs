//! Caches on disk: a start that lists nothing.
//!
//! ```text
//! DiskCache (folder, period) ─▶ Disk (one a factory: whose server, which user) ─▶ Shelf (one an informer)
//!                                           file ──read──▶ Writer::restore, Resumption
//!                                           root ──write──▶ file beside it, synced, renamed
//! ```
//!
//! A file is used only by the same release of kinform, against the same cluster, as the same user,
//! for the same resource, selection and projection. Everything else about it is decided by the
//! reflector, which asks the server whether its history includes the file's.
//! Never: Secrets, in any form; an informer with a transform, which has no name to compare.
//! INVARIANT: a file is a whole snapshot at any time: it is written beside the one before.
//!
//! Upstream counterpart: none; client-go lists everything at each start.

mod file;
mod identity;
mod keeper;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use tokio::sync::OnceCell;

pub(crate) use self::identity::Selected;
use self::identity::ServerIdentity;
pub(crate) use self::keeper::{Keeper, Restored, restore};
use crate::source::ResourceInfo;

/// The period of snapshots, unless a program sets another.
const PERIOD: Duration = Duration::from_secs(300);

/// Caches that are kept on disk, so that the next start of the program needs no list.
///
/// Each informer of the factory writes one file into the folder: every few minutes if something
/// changed, and when it is stopped. The next start reads it, asks the server a few small questions, and
/// watches from its version. Until it has reached the version that the server had at the start, the
/// cache can be read, but is stale and not [synced](crate::Informer::has_synced): controllers wait.
/// Handlers hear what was read as initial objects, then the differences: an object that was deleted
/// meanwhile is heard as a delete.
///
/// If the server's history does not include the file (it was restored, or has forgotten the version),
/// everything is listed and compared with it. A file of another cluster, user, resource or selection is
/// ignored, and so is a damaged one; each with a [report](crate::ReportEvent::SnapshotRefused).
///
/// Secrets are never written, nor is an informer with a [`Transform`](crate::Transform), or with a client
/// or a source of its own. The files have mode 0600. The user needs `get` of the namespace `kube-system`,
/// whose uid names the cluster, or the program names it: [`cluster`](Self::cluster).
///
/// Upstream counterpart: none.
#[derive(Clone, Debug)]
#[must_use]
pub struct DiskCache {
    dir: PathBuf,
    period: Duration,
    cluster: Option<String>,
    user: Option<String>,
}

impl DiskCache {
    /// Keeps caches in this folder, which is created if it is not there. One process at a time should
    /// use it: of two, the last writer wins.
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            period: PERIOD,
            cluster: None,
            user: None,
        }
    }

    /// Sets the period of snapshots; each costs some processor time for all objects of the cache.
    /// Default: 5 min. Less than a second counts as a second.
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period.max(Duration::from_secs(1));
        self
    }

    /// Names the cluster, instead of the uid of its namespace `kube-system`. Two clusters must not have
    /// one name.
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = Some(name.into());
        self
    }

    /// Names the user, instead of asking the server who it is (`SelfSubjectReview`). What the user may
    /// list is in the files.
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self
    }
}

/// The folder of a factory, and the server that it is about.
#[derive(Debug)]
pub(crate) struct Disk {
    options: DiskCache,
    /// The answer at the start, shared by all informers: a server that does not answer is asked once.
    at_start: OnceCell<Result<ServerIdentity, String>>,
    /// A later answer, for what is written then.
    later: OnceCell<ServerIdentity>,
}

/// The place of one informer's snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    disk: Arc<Disk>,
    selected: Selected,
}

impl Disk {
    pub(crate) fn new(options: DiskCache) -> Arc<Self> {
        Arc::new(Self {
            options,
            at_start: OnceCell::new(),
            later: OnceCell::new(),
        })
    }

    /// The place of an informer's snapshot; none for Secrets.
    pub(crate) fn shelf(
        self: &Arc<Self>,
        info: &ResourceInfo,
        selected: Selected,
    ) -> Option<Shelf> {
        (!info.is_secrets()).then(|| Shelf {
            disk: Arc::clone(self),
            selected,
        })
    }
}

impl Shelf {
    fn dir(&self) -> &Path {
        &self.disk.options.dir
    }

    fn period(&self) -> Duration {
        self.disk.options.period
    }

    fn path(&self) -> PathBuf {
        self.dir().join(self.selected.file_name())
    }

    /// The identity of a snapshot to be read. Asks the server, once a factory, unless the program said
    /// it.
    pub(crate) async fn identity(&self, client: Option<Client>) -> Result<String, String> {
        let asked = self.disk.at_start.get_or_init(|| self.ask(client)).await;
        asked.clone().map(|server| self.selected.identity(&server))
    }

    /// The identity of a snapshot to be written. A server that did not answer before is asked again.
    async fn identity_now(&self, client: Option<Client>) -> Result<String, String> {
        let server = match self.disk.at_start.get() {
            Some(Ok(server)) => server,
            _ => self.disk.later.get_or_try_init(|| self.ask(client)).await?,
        };
        Ok(self.selected.identity(server))
    }

    async fn ask(&self, client: Option<Client>) -> Result<ServerIdentity, String> {
        let DiskCache { cluster, user, .. } = &self.disk.options;
        identity::of_server(client, cluster.clone(), user.clone()).await
    }
}
