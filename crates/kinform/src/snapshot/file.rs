//! Files of snapshots: read in pieces; written beside, synced, renamed.
//!
//! ```text
//! file → Reading → Snapshot        root → Writing → file.NUMBER.tmp → fsync → rename → fsync of the folder
//! ```
//!
//! Runs on threads that may block. A file has mode 0600, a new folder 0700.
//! BOUND: a file is at most 64 GiB: what is larger is no snapshot of ours.
//!
//! Upstream counterpart: none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::SystemTime;

use kinform_core::reflector::limits::CacheLimits;
use kinform_core::snapshot::{Reading, Snapshot, Writing};
use kinform_core::store::root::Root;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
/// BOUND: bytes of a file.
const MAX_BYTES: u64 = 64 << 30;

/// Reads a snapshot, and the time at which it was written. `None` if there is no file.
pub(super) fn read(
    path: &Path,
    identity: &str,
    limits: CacheLimits,
) -> Result<Option<(Snapshot, SystemTime)>, String> {
    let failed = |error: io::Error| format!("it cannot be read: {error}");
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() || facts.len() > MAX_BYTES {
        return Err("it is no file of a snapshot".to_owned());
    }
    let written = facts.modified().map_err(failed)?;
    let mut reading = Reading::new(identity);
    // A file that grows meanwhile is read up to its length.
    let mut file = file.take(facts.len());
    let mut piece = vec![0; PIECE];
    loop {
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(failed)?,
        };
        if read == 0 {
            break;
        }
        let fed = reading.feed(&piece[..read]);
        fed.map_err(|refused| refused.to_string())?;
        let (objects, bytes) = reading.size();
        if !limits.allow(objects, bytes) {
            return Err("the snapshot is larger than the cache may be".to_owned());
        }
    }
    let snapshot = reading.finish().map_err(|refused| refused.to_string())?;
    Ok(Some((snapshot, written)))
}

/// Writes the snapshot of a root in the place of the one before; removes that if the root is empty.
/// `unique` names the file until it is whole: no other writer has the same.
pub(super) fn write(path: &Path, identity: &str, root: Root, unique: u64) -> io::Result<()> {
    if root.is_empty() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    create(dir)?;
    let beside = path.with_extension(format!("{unique:016x}.tmp"));
    let written = write_beside(&beside, identity, root).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
        return written;
    }
    // The rename itself is on disk once the folder is.
    #[cfg(unix)]
    File::open(dir)?.sync_all()?;
    Ok(())
}

fn write_beside(path: &Path, identity: &str, root: Root) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let mut writing = Writing::new(root, identity);
    let mut piece = Vec::new();
    while writing.next_piece(&mut piece) {
        file.write_all(&piece)?;
        piece.clear();
    }
    file.sync_all()
}

fn create(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}
