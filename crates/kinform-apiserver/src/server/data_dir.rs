//! The folder in which a server keeps its state over the restarts of its process.
//!
//! ```text
//! folder ──lock──▶ versions ──definitions first──▶ registry ──▶ store, its disk attached
//!              └─▶ token, authority, key of account tokens (0600) ──▶ identity
//! ```
//!
//! The store has the versions; definitions decide which fields of a custom object are indexed, so
//! they are read before the other versions. The credentials are files of their own: a kubeconfig
//! outlives the process.
//!
//! Upstream: etcd's data directory, and the files of `/etc/kubernetes/pki`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use serde_json::Value;

use super::Error;
use super::identity::{Authority, Identity, new_token, write_private};
use crate::access::Signer;
use crate::definition::served;
use crate::object::text;
use crate::resource::Registry;
use crate::storage::committer::Failure;
use crate::storage::disk::folder::{Folder, SyncMode};
use crate::storage::disk::{self, Disk, Loaded, LoadedVersion, Medium};
use crate::storage::shelves::Version;
use crate::storage::{
    FIRST_REVISION, HistoryLimits, SelectableField, Shelf, Store, Stored, shelf_name,
};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The state of a server in a folder, opened and locked.
#[derive(Debug)]
pub struct DataDir {
    pub(crate) store: Arc<Store>,
    pub(super) registry: Arc<Registry>,
    pub(super) identity: Identity,
    is_new: bool,
}

impl DataDir {
    /// Opens a folder, and makes it if it is not there. Blocks while it reads all objects; after a
    /// crash redb first checks its file.
    ///
    /// # Errors
    /// Another process uses the folder, or its files cannot be read or written.
    pub fn open(path: impl AsRef<Path>, sync: SyncMode) -> Result<Self, Error> {
        let path = path.as_ref();
        let opened = Folder::lock(path, sync).and_then(|folder| Self::read(path, folder));
        opened.map_err(|failure| Error::data_dir(path, &failure))
    }

    /// Returns whether the folder had no state before it was opened.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    fn read(path: &Path, folder: Folder) -> Result<Self, Failure> {
        let (store, registry) = state(folder)?;
        Ok(Self {
            is_new: store.revision() == FIRST_REVISION,
            store: Arc::new(store),
            registry: Arc::new(registry),
            identity: identity(path)?,
        })
    }

    /// A state on another medium than a folder.
    #[cfg(test)]
    pub(crate) fn on(medium: impl Medium + 'static) -> Result<Self, Failure> {
        let (store, registry) = state(medium)?;
        Ok(Self {
            is_new: store.revision() == FIRST_REVISION,
            store: Arc::new(store),
            registry: Arc::new(registry),
            identity: Identity::new(None),
        })
    }
}

/// Reads the state of a medium.
fn state(medium: impl Medium + 'static) -> Result<(Store, Registry), Failure> {
    let disk = Disk::open(medium)?;
    let loaded = disk.load()?;
    let mut store = Store::new(HistoryLimits::default());
    let registry = Registry::built_in(&store);
    serve_definitions(&store, &registry, &loaded);
    let versions = versions(&store, &registry, &loaded)?;
    store.fill((loaded.revision, loaded.floor), versions, Box::new(disk));
    Ok((store, registry))
}

/// Serves the resources of the definitions, as they were at the last write.
fn serve_definitions(store: &Store, registry: &Registry, loaded: &Loaded) {
    let versions = loaded.versions.iter();
    let definitions: BTreeMap<&str, _> = versions
        .filter(|version| *version.shelf == *DEFINITIONS)
        .map(|version| (&*version.key, version.bytes.as_ref()))
        .collect();
    let mut resources = Vec::new();
    for bytes in definitions.into_values().flatten() {
        let definition: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let plural = text(&definition, &["spec", "names", "plural"]);
        let name = shelf_name(text(&definition, &["spec", "group"]), plural);
        resources.extend(served::resources_of(&definition, store.shelf(&name)));
    }
    // No watch of a changed resource is open yet.
    drop(registry.set_custom(resources));
}

/// The shelf of a name, and the fields that are indexed on it.
type Shelves<'a> = BTreeMap<&'a str, (Shelf, &'a [SelectableField])>;

/// Indexes the versions, with a thread for each part of them.
fn versions(store: &Store, registry: &Registry, loaded: &Loaded) -> Result<Vec<Version>, Failure> {
    let entries = registry.entries();
    let mut shelves = Shelves::new();
    for version in &loaded.versions {
        shelves.entry(&version.shelf).or_insert_with(|| {
            let shelf = store.shelf(&version.shelf);
            let resource = entries.iter().find(|entry| entry.shelf == shelf);
            (shelf, resource.map_or(&[], |resource| &resource.fields))
        });
    }
    let threads = usize::try_from(disk::threads()).unwrap_or(1);
    let part = loaded.versions.len().div_ceil(threads).max(1);
    let parts = thread::scope(|scope| {
        let shelves = &shelves;
        let index = |part| scope.spawn(move || index(part, shelves));
        let parts: Vec<_> = loaded.versions.chunks(part).map(index).collect();
        let parts = parts.into_iter().map(|part| part.join());
        parts
            .map(|part| part.map_err(|_| "an indexer panicked")?)
            .collect::<Result<Vec<_>, Failure>>()
    });
    Ok(parts?.into_iter().flatten().collect())
}

fn index(versions: &[LoadedVersion], shelves: &Shelves<'_>) -> Result<Vec<Version>, Failure> {
    let version = |version: &LoadedVersion| {
        let (name, revision) = (&version.shelf, version.revision);
        let (shelf, fields) = *shelves.get(&**name).ok_or("a shelf has no name")?;
        let object = |bytes| {
            let object = Stored::from_bytes(fields, (version.key.clone(), revision), bytes);
            let malformed = || format!("version {revision} of {name} {} is malformed", version.key);
            object.map(Arc::new).ok_or_else(malformed)
        };
        Ok(Version {
            revision,
            shelf,
            key: version.key.clone(),
            object: version.bytes.clone().map(object).transpose()?,
        })
    };
    versions.iter().map(version).collect()
}

/// Reads the credentials of the folder, and makes those that are not there.
fn identity(path: &Path) -> Result<Identity, Failure> {
    let token = kept(&path.join("token"), || Ok(new_token()))?;
    if token.trim().is_empty() {
        // It would let in everybody who sends an empty one.
        return Err("the file token is empty".into());
    }
    let authority = kept(&path.join("authority.pem"), || {
        let made = Authority::generate()?;
        Ok(format!("{}{}", made.pem, made.issuer.key().serialize_pem()))
    })?;
    let key_at = authority
        .find("-----BEGIN PRIVATE KEY-----")
        .ok_or("authority.pem has no private key")?;
    let (certificate, key) = authority.split_at(key_at);
    let signer = kept(&path.join("accounts.pem"), || {
        Ok(Signer::default().pem().ok_or("no key could be made")?)
    })?;
    Ok(Identity {
        token: token.trim().into(),
        tls: None,
        authority: Some(Authority::from_pem(certificate, key)?),
        signer: Arc::new(Signer::from_pem(&signer).ok_or("accounts.pem is malformed")?),
    })
}

/// Reads a file, or makes it for its owner alone.
fn kept(path: &Path, make: impl FnOnce() -> Result<String, Failure>) -> Result<String, Failure> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let text = make()?;
            write_private(path, &text)?;
            Ok(text)
        }
        read => Ok(read?),
    }
}
