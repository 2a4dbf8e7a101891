//! Objects that a run wrote or found on the server, and of which its controller has heard nothing.
//!
//! ```text
//! reply: object, not cached ──▶ Unheard ──┬─ an event of it, or it is cached ──▶ forgotten
//!                                         └─ cache is past its version, without it ──▶ its key again
//! ```
//!
//! After a watch that broke comes a list. An object that came and went between the two is in neither,
//! so no event tells that it is gone. The key whose run relied on it is reconciled again in its place.
//! Handlers may be behind their cache, so the object has to be missing at two looks. Each version of
//! an object is reported once: a selector may hide it from the cache for ever.
//!
//! Upstream counterpart: none; there a controller does not learn of such a deletion.
//! Complexity: a note or an event is O(1), a look O(objects that wait). While none waits there is no
//! look, and an event costs one read.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinform_api::{KeyRef, ObjectKey, mutant};
use kinform_core::object::Object;
use kinform_core::store::root::Root;
use tokio::sync::Notify;

use super::Core;
use super::own_writes::Write;
use crate::sync::lock;

/// BOUND: objects that wait. Of more, the keys are reconciled again at once.
const MOST: usize = 1 << 16;
/// The time from one look to the next: mostly the controller has heard of the objects by then.
const LOOK: Duration = Duration::from_secs(1);
/// BOUND: objects that were reported.
const REPORTED: usize = 1_024;

/// The objects that a controller is to hear of.
#[derive(Debug, Default)]
pub(crate) struct Unheard {
    objects: Mutex<Objects>,
    // So that events take no lock while no object waits.
    has_some: AtomicBool,
    added: Notify,
}

#[derive(Debug, Default)]
struct Objects {
    /// By the place of their resource among those of the controller, and their key.
    waiting: HashMap<(u16, ObjectKey), Vec<Relied>>,
    /// Keys for which there was no room.
    // BOUND: those added between two looks.
    refused: Vec<ObjectKey>,
    reported: VecDeque<Reported>,
}

/// An object that was reported: the hash of its key, and its version.
type Reported = (u64, u64);

/// An object as a run relied on it.
#[derive(Debug)]
struct Relied {
    /// The key of the run.
    by: ObjectKey,
    core: Arc<Core>,
    write: Write,
    version: u64,
    /// It was missing at the last look.
    is_missing: bool,
}

impl Unheard {
    /// Notes that a run of `by` relied on `object` of a source at `version`, unless the cache has that
    /// object. Versions without an order are not noted.
    pub(crate) fn add(
        &self,
        by: &ObjectKey,
        (source, core): (u16, &Arc<Core>),
        object: KeyRef<'_>,
        version: &str,
    ) {
        let root = core.root();
        let Ok(number) = version.parse::<u64>() else {
            return;
        };
        if root.get(object).is_some() || mutant!("R9") {
            return;
        }
        let relied = Relied {
            by: by.clone(),
            core: Arc::clone(core),
            write: Write::new(object, version, &root),
            version: number,
            is_missing: false,
        };
        let mut objects = lock(&self.objects);
        if objects.reported.contains(&(object.hash64(), number)) {
            return;
        }
        if objects.waiting.len() >= MOST {
            objects.refused.push(by.clone());
        } else {
            let those = objects.waiting.entry((source, object.to_key()));
            let those = those.or_default();
            // Of one run the newest version counts.
            those.retain(|known| known.by != *by || known.version > number);
            those.push(relied);
        }
        self.has_some.store(true, Ordering::Release);
        drop(objects);
        self.added.notify_one();
    }

    /// The controller hears an event of this object of a source.
    pub(crate) fn heard(&self, source: u16, object: &Object) {
        if !self.has_some.load(Ordering::Acquire) {
            return;
        }
        let mut objects = lock(&self.objects);
        let key = (source, object.key());
        let Some(those) = objects.waiting.get_mut(&key) else {
            return;
        };
        // An event of an earlier object of the name tells nothing of this one.
        let is_later = |relied: &Relied| {
            let heard = object.revision();
            heard.is_some_and(|heard| heard < relied.version)
        };
        those.retain(is_later);
        if those.is_empty() {
            objects.waiting.remove(&key);
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
            let gone = self.look();
            if !gone.is_empty() {
                return gone;
            }
            if !self.has_some.load(Ordering::Acquire) {
                self.added.notified().await;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn look(&self) -> Vec<ObjectKey> {
        let mut objects = lock(&self.objects);
        let gone = objects.look();
        let has_some = !objects.waiting.is_empty();
        self.has_some.store(has_some, Ordering::Release);
        gone
    }
}

impl Objects {
    /// Forgets the objects that are cached. Returns the keys of those that are gone.
    fn look(&mut self) -> Vec<ObjectKey> {
        let Self {
            waiting,
            refused,
            reported,
        } = self;
        let mut gone = std::mem::take(refused);
        waiting.retain(|(_, object), those| {
            those.retain_mut(|relied| {
                let was_missing = relied.is_missing;
                match relied.sight(object) {
                    Sight::Ahead => true,
                    Sight::Settled => false,
                    Sight::Missing if !was_missing => true,
                    Sight::Missing => {
                        reported.push_back((object.key_ref().hash64(), relied.version));
                        gone.push(relied.by.clone());
                        false
                    }
                }
            });
            !those.is_empty()
        });
        let over = reported.len().saturating_sub(REPORTED);
        reported.drain(..over);
        gone
    }
}

/// An object as its cache has it.
enum Sight {
    /// The cache has not come to its version.
    Ahead,
    /// The cache has it, or is not to have it.
    Settled,
    Missing,
}

impl Relied {
    fn sight(&mut self, object: &ObjectKey) -> Sight {
        // Before the root: a watch that has ended shows nothing more.
        let has_ended = self.core.progress.borrow().ended;
        let root = self.core.root();
        if has_ended || has(&root, object) {
            return Sight::Settled;
        }
        self.is_missing = self.write.is_seen(&root);
        match self.is_missing {
            true => Sight::Missing,
            false => Sight::Ahead,
        }
    }
}

/// Returns whether a cache has an object, if only apart, or is not to have it.
fn has(root: &Root, object: &ObjectKey) -> bool {
    let key = object.key_ref();
    let is_outside = root.scope().is_some_and(|scope| !scope.may_have(key));
    is_outside || root.get(key).is_some() || root.quarantined().contains_key(object)
}
