//! A medium that fails as disks and machines do.
//!
//! ```text
//! write, set_len ──▶ not safe yet ──sync──▶ safe
//!                        └──crash──▶ each write kept, lost or torn, by the dice
//! ```
//!
//! A torn write keeps some of its sectors of 512 bytes. A full medium has no room for further
//! blocks. A medium can also fail at a given operation: from then on it is dead until the crash, or
//! it fails once.

use std::collections::{BTreeSet, VecDeque};
use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use redb::StorageBackend;

use super::Medium;
use crate::storage::committer::Failure;

const SECTOR: usize = 512;
const BLOCK: u64 = 4096;

/// The state of the medium after the operation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Neither this operation nor a later one is done.
    Dies,
    /// This operation is not done; later ones are.
    Fails,
}

/// A medium in memory. Clones are the same medium.
#[derive(Clone, Debug)]
pub(super) struct Losing(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug)]
struct State {
    dice: StdRng,
    safe: Vec<u8>,
    now: Vec<u8>,
    unsafe_writes: Vec<Write>,
    is_published: bool,
    /// Files that were opened before the last crash are dead.
    life: u64,
    /// Operations until one fails.
    fails_in: Option<(u32, Ending)>,
    is_dead: bool,
    /// Blocks that may be written; `None` for any.
    room: Option<usize>,
    blocks: BTreeSet<u64>,
    /// Set while syncs wait.
    is_held: bool,
    /// Syncs that wait.
    waiting: usize,
}

#[derive(Clone, Debug)]
enum Write {
    Bytes(u64, Vec<u8>),
    Len(u64),
}

impl Losing {
    pub(super) fn new(seed: u64) -> Self {
        let state = State {
            dice: StdRng::seed_from_u64(seed),
            safe: Vec::new(),
            now: Vec::new(),
            unsafe_writes: Vec::new(),
            is_published: false,
            life: 0,
            fails_in: None,
            is_dead: false,
            room: None,
            blocks: BTreeSet::new(),
            is_held: false,
            waiting: 0,
        };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }

    /// Makes the operation after `operations` others fail.
    pub(super) fn fail_in(&self, operations: u32, ending: Ending) {
        self.lock().fails_in = Some((operations, ending));
    }

    /// Leaves room for this many further blocks.
    pub(super) fn set_room(&self, blocks: Option<usize>) {
        let mut state = self.lock();
        state.room = blocks.map(|more| state.blocks.len() + more);
    }

    /// Makes syncs wait, or lets them go on.
    pub(super) fn hold(&self, is_held: bool) {
        self.lock().is_held = is_held;
        self.0.1.notify_all();
    }

    /// Blocks until a sync waits.
    pub(super) fn until_held(&self) {
        let waits = self.0.1.wait_while(self.lock(), |state| state.waiting == 0);
        drop(waits.unwrap());
    }

    /// The machine loses its power: of what was not synced, the dice decide.
    pub(super) fn crash(&self) {
        let state = &mut *self.lock();
        state.life += 1;
        (state.fails_in, state.is_dead) = (None, false);
        let mut writes: VecDeque<Write> = state.unsafe_writes.drain(..).collect();
        while let Some(write) = writes.pop_front() {
            match state.dice.random_range(0..3) {
                0 => apply(&mut state.safe, &write),
                1 => {}
                _ => {
                    for piece in pieces(&write) {
                        if state.dice.random() {
                            apply(&mut state.safe, &piece);
                        }
                    }
                }
            }
        }
        state.now.clone_from(&state.safe);
        if !state.is_published {
            state.safe.clear();
            state.now.clear();
        }
    }
}

fn pieces(write: &Write) -> Vec<Write> {
    match write {
        Write::Len(_) => vec![write.clone()],
        Write::Bytes(offset, data) => {
            let sectors = data.chunks(SECTOR).enumerate();
            let piece = |(at, chunk): (usize, &[u8])| {
                Write::Bytes(offset + (at * SECTOR) as u64, chunk.to_vec())
            };
            sectors.map(piece).collect()
        }
    }
}

fn apply(bytes: &mut Vec<u8>, write: &Write) {
    match write {
        Write::Len(len) => bytes.resize(usize::try_from(*len).unwrap(), 0),
        Write::Bytes(offset, data) => {
            let offset = usize::try_from(*offset).unwrap();
            if bytes.len() < offset + data.len() {
                bytes.resize(offset + data.len(), 0);
            }
            bytes[offset..offset + data.len()].copy_from_slice(data);
        }
    }
}

impl Medium for Losing {
    type File = LosingFile;

    fn is_published(&self) -> std::result::Result<bool, Failure> {
        Ok(self.lock().is_published)
    }

    fn open(&self) -> std::result::Result<LosingFile, Failure> {
        let mut state = self.lock();
        if !state.is_published {
            state.now.clear();
            state.safe.clear();
            state.unsafe_writes.clear();
        }
        Ok(LosingFile {
            medium: self.clone(),
            life: state.life,
        })
    }

    fn publish(&self) -> std::result::Result<(), Failure> {
        self.lock().is_published = true;
        Ok(())
    }
}

/// The open file; dead after a crash.
#[derive(Debug)]
pub(super) struct LosingFile {
    medium: Losing,
    life: u64,
}

impl LosingFile {
    /// Begins an operation, which may be the one that fails.
    fn begin(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.medium.lock();
        if let Some((left, ending)) = state.fails_in {
            state.fails_in = left.checked_sub(1).map(|left| (left, ending));
            if left == 0 {
                state.is_dead = ending == Ending::Dies;
                return Err(Error::other("the operation failed"));
            }
        }
        if state.is_dead || state.life != self.life {
            return Err(Error::other("the process is gone"));
        }
        Ok(state)
    }
}

impl StorageBackend for LosingFile {
    fn len(&self) -> Result<u64> {
        Ok(self.medium.lock().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let state = self.medium.lock();
        let offset = usize::try_from(offset).unwrap();
        let found = state.now.get(offset..offset + out.len());
        out.copy_from_slice(found.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.begin()?;
        apply(&mut state.now, &Write::Len(len));
        state.unsafe_writes.push(Write::Len(len));
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        let mut state = self.begin()?;
        state.waiting += 1;
        self.medium.0.1.notify_all();
        let held = self.medium.0.1.wait_while(state, |state| state.is_held);
        let mut state = held.unwrap();
        state.waiting -= 1;
        state.safe = state.now.clone();
        state.unsafe_writes.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.begin()?;
        let end = offset + data.len() as u64;
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            let is_full = state.room.is_some_and(|room| state.blocks.len() >= room);
            if is_full && !state.blocks.contains(&block) {
                return Err(ErrorKind::StorageFull.into());
            }
            state.blocks.insert(block);
        }
        let write = Write::Bytes(offset, data.to_vec());
        apply(&mut state.now, &write);
        state.unsafe_writes.push(write);
        Ok(())
    }
}
