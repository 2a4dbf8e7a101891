//! The file of a store in its folder.
//!
//! ```text
//! folder ──lock──▶ state.redb.new ──first transaction──▶ state.redb
//! ```
//!
//! The lock belongs to the open file `lock` and ends with its process: a file that a crash left
//! keeps no process from starting. A file of versions gets its name when its first transaction is
//! complete, so a crash in between leaves no file that cannot be opened.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::Medium;
use crate::storage::committer::Failure;

/// The name of the file of versions.
const NAME: &str = "state.redb";
/// Its name until its first transaction is complete.
const NEW: &str = "state.redb.new";

/// The time at which writes are safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// A write is acknowledged when the disk has it: it survives a machine that loses power.
    #[default]
    EachCommit,
    /// A write is acknowledged when the operating system has it: it survives a process that is
    /// killed.
    Never,
}

/// A locked folder.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    sync: SyncMode,
    /// Holds the lock.
    _lock: File,
}

/// The error of a folder that another process has.
#[derive(Debug, thiserror::Error)]
#[error("another process uses it")]
pub(crate) struct InUse;

impl Folder {
    /// Makes the folder if it is not there, and locks it.
    pub(crate) fn lock(path: &Path, sync: SyncMode) -> Result<Self, Failure> {
        let mut folder = fs::DirBuilder::new();
        folder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
        folder.create(path)?;
        let lock = private(&path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Box::new(InUse)),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        Ok(Self {
            path: path.to_owned(),
            sync,
            _lock: lock,
        })
    }
}

/// Opens a file for its owner alone, and makes it if it is not there.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl Medium for Folder {
    type File = StateFile;

    fn is_published(&self) -> Result<bool, Failure> {
        Ok(self.path.join(NAME).try_exists()?)
    }

    fn open(&self) -> Result<StateFile, Failure> {
        let file = if self.is_published()? {
            private(&self.path.join(NAME))?
        } else {
            let file = private(&self.path.join(NEW))?;
            file.set_len(0)?;
            file
        };
        Ok(StateFile {
            file: FileBackend::new(file)?,
            sync: self.sync,
        })
    }

    fn publish(&self) -> Result<(), Failure> {
        fs::rename(self.path.join(NEW), self.path.join(NAME))?;
        #[cfg(unix)]
        if self.sync == SyncMode::EachCommit {
            File::open(&self.path)?.sync_all()?;
        }
        Ok(())
    }
}

/// The open file.
#[derive(Debug)]
pub(crate) struct StateFile {
    file: FileBackend,
    sync: SyncMode,
}

impl StorageBackend for StateFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.sync {
            SyncMode::EachCommit => self.file.sync_data(),
            SyncMode::Never => Ok(()),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
