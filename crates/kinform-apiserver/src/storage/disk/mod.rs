//! The versions of a store in a redb file: each one under its revision, as long as the history or
//! the current state needs it.
//!
//! ```text
//! Batch ──one transaction──▶ versions: revision ─▶ (shelf, key, bytes)    meta: revision, floor
//! start ◀── versions in order: each replaces the one before it, above the floor as an event ──┘
//! ```
//!
//! A removal is a version without bytes. What an evicted event superseded is deleted in the
//! transaction that evicts it, so the file has the window that memory has. Everything else is
//! derived from the versions at the start: definitions, owners, addresses.
//!
//! redb accepts nothing after an I/O error. The file is then closed, and opened as after a crash.
//!
//! * `folder.rs`: the file in its folder; `losing.rs`: a medium for tests that loses, tears and
//!   refuses writes.

pub(crate) mod folder;
#[cfg(test)]
mod losing;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use kinform_api::mutant;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use super::FIRST_REVISION;
use super::committer::{Backing, Failure};
use super::shelves::Batch;

/// BOUND: bytes of redb's cache. Versions are read from memory; the file is read at the start.
const CACHE: usize = 32 << 20;
/// The format of the file, in `meta`.
const FORMAT: u64 = 1;

const VERSIONS: TableDefinition<'_, u64, (&str, &str, Option<&[u8]>)> =
    TableDefinition::new("versions");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// A place that holds the bytes of a file.
pub(crate) trait Medium: std::fmt::Debug + Send {
    /// The open file.
    type File: StorageBackend;

    /// Returns whether the file was published: then it has versions.
    fn is_published(&self) -> Result<bool, Failure>;

    /// Opens the file. One that was not published is empty.
    fn open(&self) -> Result<Self::File, Failure>;

    /// Notes that the file has a complete first transaction.
    fn publish(&self) -> Result<(), Failure>;
}

/// A file of versions.
#[derive(Debug)]
pub(crate) struct Disk<M> {
    medium: M,
    /// `None` after an I/O error.
    database: Option<Database>,
}

/// The content of a file.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) revision: u64,
    pub(crate) floor: u64,
    /// In the order of their revisions.
    pub(crate) versions: Vec<LoadedVersion>,
}

/// A version as it is in the file.
#[derive(Debug)]
pub(crate) struct LoadedVersion {
    pub(crate) revision: u64,
    pub(crate) shelf: Arc<str>,
    pub(crate) key: Box<str>,
    /// `None` for a removal.
    pub(crate) bytes: Option<Bytes>,
}

impl<M: Medium> Disk<M> {
    /// Opens the file, or makes it.
    pub(crate) fn open(medium: M) -> Result<Self, Failure> {
        let mut disk = Self {
            medium,
            database: None,
        };
        disk.start()?;
        Ok(disk)
    }

    /// Opens the file, and returns the revision that it has.
    fn start(&mut self) -> Result<u64, Failure> {
        // The file is locked: the last one is closed first.
        self.database = None;
        let is_published = self.medium.is_published()?;
        let database = Builder::new()
            .set_cache_size(CACHE)
            .create_with_backend(self.medium.open()?)?;
        let revision = match meta(&database, "format")? {
            Some(FORMAT) => meta(&database, "revision")?.unwrap_or(FIRST_REVISION),
            Some(format) => {
                return Err(format!("its format is {format}, not {FORMAT}").into());
            }
            None if is_published => return Err("it has no versions: it is empty or cut".into()),
            None => {
                found(&database)?;
                self.medium.publish()?;
                FIRST_REVISION
            }
        };
        self.database = Some(database);
        Ok(revision)
    }

    /// Reads all versions, with a thread for each part of the revisions.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        let database = self.database.as_ref().ok_or("it is not open")?;
        let number = |name| Ok::<_, Failure>(meta(database, name)?.unwrap_or(FIRST_REVISION));
        let (revision, floor) = (number("revision")?, number("floor")?);
        let table = database.begin_read()?.open_table(VERSIONS)?;
        let first = table.first()?;
        let first = first.map_or(revision, |(first, _)| first.value());
        let threads = threads();
        let part = (revision + 1)
            .saturating_sub(first)
            .div_ceil(threads)
            .max(1);
        let parts = thread::scope(|scope| {
            let begin = |at: u64| first + at * part;
            let read = |at| scope.spawn(move || load_part(database, begin(at)..begin(at + 1)));
            let reads: Vec<_> = (0..threads).map(read).collect();
            let parts = reads.into_iter().map(|read| read.join());
            parts
                .map(|part| part.map_err(|_| "a reader panicked")?)
                .collect::<Result<Vec<_>, Failure>>()
        });
        Ok(Loaded {
            revision,
            floor,
            versions: parts?.into_iter().flatten().collect(),
        })
    }
}

/// Returns the number of threads that read and index at the start.
pub(crate) fn threads() -> u64 {
    // BOUND: 8 threads; the memory is not faster with more.
    thread::available_parallelism().map_or(1, |cores| cores.get().min(8) as u64)
}

/// Reads the versions of some revisions.
fn load_part(database: &Database, revisions: Range<u64>) -> Result<Vec<LoadedVersion>, Failure> {
    let table = database.begin_read()?.open_table(VERSIONS)?;
    let mut versions = Vec::new();
    let mut names: Vec<Arc<str>> = Vec::new();
    for row in table.range(revisions)? {
        let (revision, row) = row?;
        let (shelf, key, bytes) = row.value();
        let known = names.iter().find(|name| ***name == *shelf).cloned();
        let shelf = known.unwrap_or_else(|| {
            let name: Arc<str> = shelf.into();
            names.push(name.clone());
            name
        });
        versions.push(LoadedVersion {
            revision: revision.value(),
            shelf,
            key: key.into(),
            bytes: bytes.map(Bytes::copy_from_slice),
        });
    }
    Ok(versions)
}

/// Reads a number of the file.
fn meta(database: &Database, name: &str) -> Result<Option<u64>, Failure> {
    match database.begin_read()?.open_table(META) {
        Ok(table) => Ok(table.get(name)?.map(|number| number.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Writes the first transaction of a file.
fn found(database: &Database) -> Result<(), Failure> {
    let write = database.begin_write()?;
    write.open_table(VERSIONS)?;
    {
        let mut meta = write.open_table(META)?;
        meta.insert("format", FORMAT)?;
        meta.insert("revision", FIRST_REVISION)?;
        meta.insert("floor", FIRST_REVISION)?;
    }
    Ok(write.commit()?)
}

/// Writes a batch as one transaction.
fn write(database: &Database, batch: &Batch) -> Result<(), Failure> {
    let write = database.begin_write()?;
    {
        let mut versions = write.open_table(VERSIONS)?;
        for (shelf, event) in &batch.events {
            let current = event.current.as_ref();
            let Some(object) = current.or(event.previous.as_ref()) else {
                continue;
            };
            let bytes = current.map(|object| &**object.bytes());
            versions.insert(event.revision, (&**shelf, object.key(), bytes))?;
        }
        if !mutant!("S12") {
            for revision in &batch.dead {
                versions.remove(revision)?;
            }
        }
        let mut meta = write.open_table(META)?;
        meta.insert("revision", batch.upto)?;
        meta.insert("floor", batch.floor)?;
    }
    Ok(write.commit()?)
}

impl<M: Medium> Backing for Disk<M> {
    fn commit(&mut self, batch: &Batch) -> Result<(), Failure> {
        let database = self.database.as_ref().ok_or("it is not open")?;
        let done = write(database, batch);
        if done.is_err() {
            self.database = None;
        }
        done
    }

    fn reopen(&mut self) -> Result<u64, Failure> {
        match self.medium.is_published()? {
            true => self.start(),
            // A new file would have none of the acknowledged writes.
            false => Err("the file is gone".into()),
        }
    }
}
