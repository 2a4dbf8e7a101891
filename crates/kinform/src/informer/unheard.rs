//! Objects that a run wrote or found on the server, and that no cache has had.
//!
//! ```text
//! reply: object at a version, not cached ──▶ Unheard ──each second: passed?──▶ cached │ its key again
//! ```
//!
//! After a watch that broke comes a list. An object that came and went between the two is in neither,
//! so no event tells that it is gone. The key whose run relied on it is reconciled again in its place.
//! Each version of an object is reported once: a selector may hide it from the cache for ever.
//!
//! Upstream counterpart: none; there a controller does not learn of such a deletion.
//! Complexity: adding is O(log n). A look is O(objects that caches have passed); there is none while
//! no object waits, so keys that create nothing pay nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinform_api::{KeyRef, ObjectKey, mutant};
use kinform_core::store::root::Root;
use tokio::sync::Notify;

use super::Core;
use super::own_writes::Write;
use crate::sync::lock;

/// BOUND: objects that caches are to pass. Of more, the keys are reconciled again at once.
const MOST: usize = 1 << 16;
/// The time from one look to the next: mostly a cache has the objects by then.
const LOOK: Duration = Duration::from_secs(1);
/// BOUND: objects that were reported.
const REPORTED: usize = 1_024;

/// The objects that the caches of a controller are to pass.
#[derive(Debug, Default)]
pub(crate) struct Unheard {
    objects: Mutex<Objects>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Objects {
    cores: Vec<OfCore>,
    /// Keys for which there was no room.
    // BOUND: those added between two turns of the task that takes them.
    refused: Vec<ObjectKey>,
    reported: VecDeque<Reported>,
}

/// An object that was reported: the hash of its key, and its version.
type Reported = (u64, u64);

#[derive(Debug)]
struct OfCore {
    core: Arc<Core>,
    /// By version, the object, and the key whose run relied on it.
    waiting: BTreeMap<(u64, ObjectKey, ObjectKey), Write>,
}

impl Unheard {
    /// Notes that a run of `key` relied on `object` at `version`, unless the cache has that object.
    /// Versions without an order are not noted.
    pub(crate) fn add(&self, key: &ObjectKey, core: &Arc<Core>, object: KeyRef<'_>, version: &str) {
        let root = core.root();
        let Ok(number) = version.parse::<u64>() else {
            return;
        };
        if root.get(object).is_some() || mutant!("R9") {
            return;
        }
        let write = Write::new(object, version, &root);
        let mut objects = lock(&self.objects);
        if objects.is_reported(object, number) {
            return;
        }
        let waiting: usize = objects.cores.iter().map(|of| of.waiting.len()).sum();
        let is_first = objects.cores.is_empty();
        if waiting >= MOST {
            objects.refused.push(key.clone());
        } else {
            let entry = (number, object.to_key(), key.clone());
            objects.of(core).waiting.insert(entry, write);
        }
        drop(objects);
        if is_first {
            self.added.notify_one();
        }
    }

    /// Forgets all objects: the next term begins with all keys.
    pub(crate) fn clear(&self) {
        *lock(&self.objects) = Objects::default();
    }

    /// Waits for keys whose objects are gone without an event.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn gone(&self) -> Vec<ObjectKey> {
        loop {
            let gone = lock(&self.objects).passed();
            if !gone.is_empty() {
                return gone;
            }
            match self.is_empty() {
                true => self.added.notified().await,
                false => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Returns whether no object waits.
    fn is_empty(&self) -> bool {
        let objects = lock(&self.objects);
        objects.cores.is_empty() && objects.refused.is_empty()
    }
}

impl Objects {
    fn of(&mut self, core: &Arc<Core>) -> &mut OfCore {
        let known = self.cores.iter().position(|of| Arc::ptr_eq(&of.core, core));
        let at = known.unwrap_or_else(|| {
            let (core, waiting) = (Arc::clone(core), BTreeMap::new());
            self.cores.push(OfCore { core, waiting });
            self.cores.len() - 1
        });
        &mut self.cores[at]
    }

    fn is_reported(&self, object: KeyRef<'_>, version: u64) -> bool {
        self.reported.contains(&(object.hash64(), version))
    }

    /// Takes the objects that their caches have passed. Returns the keys of those that are not there.
    fn passed(&mut self) -> Vec<ObjectKey> {
        let mut gone = std::mem::take(&mut self.refused);
        for of in &mut self.cores {
            let root = of.core.root();
            while let Some(first) = of.waiting.first_entry() {
                if !first.get().is_seen(&root) {
                    break;
                }
                let (version, object, key) = first.remove_entry().0;
                if is_gone(&root, &object) {
                    self.reported
                        .push_back((object.key_ref().hash64(), version));
                    gone.push(key);
                }
            }
        }
        // A watch that has ended passes nothing more.
        let is_awaited = |of: &OfCore| !of.waiting.is_empty() && !of.core.progress.borrow().ended;
        self.cores.retain(is_awaited);
        let over = self.reported.len().saturating_sub(REPORTED);
        self.reported.drain(..over);
        gone
    }
}

/// Returns whether a cache that has passed the object, and should have it, has it not.
fn is_gone(root: &Root, object: &ObjectKey) -> bool {
    let may_have = root
        .scope()
        .is_none_or(|scope| scope.may_have(object.key_ref()));
    may_have && root.get(object.key_ref()).is_none() && !root.quarantined().contains_key(object)
}
