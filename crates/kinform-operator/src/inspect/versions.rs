//! Versions of objects, kept while somebody watches them.
//!
//! ```text
//! look(cache, key) ─▶ watched: a handler of that cache keeps the object's versions ─▶ read(cache, key)
//!    no look for five minutes ─▶ forgotten; the last one of a cache ─▶ its handler is removed
//! ```
//!
//! A version is a count on the object that the cache had: nothing is copied, but it stays in memory.
//! A cache whose objects nobody watches has no handler of the inspector.
//! BOUND: 10 versions an object, 1,000 versions and 64 MB in all, 100 objects.
//!
//! Upstream counterpart: none.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kinform::{Handlers, KeyRef, Obj, Object, ObjectKey, Registration};
use kube_core::dynamic::DynamicObject;
use tokio::time::Instant;

use super::program::Cache;

/// BOUND: versions of an object.
const OF_ONE: usize = 10;
/// BOUND: versions of all objects.
const OF_ALL: usize = 1_000;
/// BOUND: bytes of all versions.
const BYTES: usize = 64 << 20;
/// BOUND: objects that are watched.
const OBJECTS: usize = OF_ALL / OF_ONE;
/// The time after the last look at which an object is forgotten.
const UNSEEN: Duration = Duration::from_secs(300);

/// A version of an object, or its end.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) seen: Timestamp,
    /// `None`: the object was deleted.
    pub(super) object: Option<Object>,
}

/// The versions of the objects that are watched. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    caches: HashMap<String, Watched>,
    objects: usize,
    versions: usize,
    bytes: usize,
}

/// The watched objects of one cache.
#[derive(Debug, Default)]
struct Watched {
    objects: HashMap<ObjectKey, Kin>,
    handler: Option<Registration>,
}

/// One object that is watched.
#[derive(Debug)]
struct Kin {
    last_look: Instant,
    versions: VecDeque<Version>,
}

impl Versions {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches an object from now on, and returns its versions so far, the oldest first.
    pub(super) fn look(&self, cache: &Cache, key: &ObjectKey) -> Vec<Version> {
        let object = cache.informer.get(key).map(|object| object.raw().clone());
        let now = Instant::now();
        let (versions, is_new) = {
            let mut kept = self.kept();
            kept.watch(&cache.id, key, now);
            if let Some(object) = object {
                kept.hear(&cache.id, key.key_ref(), Some(object));
            }
            let watched = kept.caches.get(&cache.id);
            let kin = watched.and_then(|watched| watched.objects.get(key));
            let versions = kin.map(|kin| kin.versions.iter().cloned().collect());
            let is_new = watched.is_some_and(|watched| watched.handler.is_none());
            (versions.unwrap_or_default(), is_new)
        };
        if is_new {
            self.listen(cache);
        }
        versions
    }

    /// Adds the handler of a cache. Outside of the lock: it hears the cache at once.
    fn listen(&self, cache: &Cache) {
        let hear =
            |kept: &Arc<Mutex<Kept>>, id: &str, object: &Obj<DynamicObject>, is_gone: bool| {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.watches(id, object.key_ref()) {
                    let version = (!is_gone).then(|| object.raw().clone());
                    kept.hear(id, object.key_ref(), version);
                }
            };
        let part = || (Arc::clone(&self.0), cache.id.clone());
        let (added, updated, deleted) = (part(), part(), part());
        let handlers = Handlers::<DynamicObject>::new()
            .named("inspector")
            .on_add(move |object| hear(&added.0, &added.1, object, false))
            .on_update(move |_, object| hear(&updated.0, &updated.1, object, false))
            .on_delete(move |object| hear(&deleted.0, &deleted.1, object, true));
        // An informer that is stopped has no more versions.
        let Ok(handler) = cache.informer.add_handler(handlers) else {
            return;
        };
        let mut kept = self.kept();
        match kept.caches.get_mut(&cache.id) {
            Some(watched) if watched.handler.is_none() => watched.handler = Some(handler),
            // Another look was faster, or the object is forgotten already.
            _ => handler.cancel(),
        }
    }

    /// Forgets the objects that nobody has looked at for five minutes.
    pub(super) fn forget_unseen(&self) {
        let now = Instant::now();
        self.kept()
            .forget(|kin| now.duration_since(kin.last_look) >= UNSEEN);
    }

    /// Forgets all, and removes the handlers.
    pub(super) fn clear(&self) {
        self.kept().forget(|_| true);
    }
}

impl Kept {
    fn watches(&self, id: &str, key: KeyRef<'_>) -> bool {
        let watched = self.caches.get(id);
        // A few objects at most: cheaper than a key of our own for each event.
        watched.is_some_and(|watched| watched.objects.keys().any(|known| known.key_ref() == key))
    }

    fn watch(&mut self, id: &str, key: &ObjectKey, now: Instant) {
        let watched = self.caches.get_mut(id);
        if let Some(kin) = watched.and_then(|watched| watched.objects.get_mut(key)) {
            kin.last_look = now;
            return;
        }
        if self.objects >= OBJECTS {
            self.forget_oldest();
        }
        let watched = self.caches.entry(id.to_owned()).or_default();
        let kin = Kin {
            last_look: now,
            versions: VecDeque::new(),
        };
        watched.objects.insert(key.clone(), kin);
        self.objects += 1;
    }

    /// Forgets the object whose last look is the oldest.
    fn forget_oldest(&mut self) {
        let all = self.caches.values();
        let all = all.flat_map(|watched| watched.objects.values());
        let oldest = all.map(|kin| kin.last_look).min();
        let mut is_done = false;
        self.forget(|kin| {
            let is_it = !is_done && Some(kin.last_look) == oldest;
            is_done |= is_it;
            is_it
        });
    }

    /// Keeps a version, unless it is the last one.
    fn hear(&mut self, id: &str, key: KeyRef<'_>, object: Option<Object>) {
        let Some(watched) = self.caches.get_mut(id) else {
            return;
        };
        let mut objects = watched.objects.iter_mut();
        let Some((_, kin)) = objects.find(|(known, _)| known.key_ref() == key) else {
            return;
        };
        let version = |object: &Option<Object>| {
            let object = object.as_ref()?;
            Some((
                object.uid().to_owned(),
                object.resource_version().to_owned(),
            ))
        };
        if let Some(last) = kin.versions.back()
            && version(&last.object) == version(&object)
        {
            return;
        }
        let dropped = match kin.versions.len() >= OF_ONE {
            true => kin.versions.pop_front(),
            false => None,
        };
        self.bytes += weight(&object);
        self.versions += 1;
        kin.versions.push_back(Version {
            seen: kinform::env::wall_clock(),
            object,
        });
        if let Some(dropped) = dropped {
            self.bytes -= weight(&dropped.object);
            self.versions -= 1;
        }
        self.trim();
    }

    /// Drops the oldest versions until the bounds hold; the last one of an object only if there are no
    /// others.
    fn trim(&mut self) {
        while self.versions > OF_ALL || self.bytes > BYTES {
            let all = self.caches.values_mut();
            let kin = all.flat_map(|watched| watched.objects.values_mut());
            let some = kin.filter(|kin| !kin.versions.is_empty());
            let oldest = some.min_by_key(|kin| {
                let seen = kin.versions.front().map(|version| version.seen);
                (kin.versions.len() == 1, seen)
            });
            let Some(dropped) = oldest.and_then(|kin| kin.versions.pop_front()) else {
                return;
            };
            self.bytes -= weight(&dropped.object);
            self.versions -= 1;
        }
    }

    fn forget(&mut self, mut is_unseen: impl FnMut(&Kin) -> bool) {
        let (objects, versions, bytes) = (&mut self.objects, &mut self.versions, &mut self.bytes);
        self.caches.retain(|_, watched| {
            watched.objects.retain(|_, kin| {
                let stays = !is_unseen(kin);
                if !stays {
                    *objects -= 1;
                    *versions -= kin.versions.len();
                    *bytes -= kin
                        .versions
                        .iter()
                        .map(|one| weight(&one.object))
                        .sum::<usize>();
                }
                stays
            });
            let stays = !watched.objects.is_empty();
            if let Some(handler) = watched.handler.as_ref().filter(|_| !stays) {
                handler.cancel();
            }
            stays
        });
    }
}

fn weight(object: &Option<Object>) -> usize {
    object.as_ref().map_or(0, Object::heap_size)
}

#[cfg(test)]
mod tests {
    use kinform::Projection;

    use super::*;

    fn object(name: &str, version: usize, bytes: usize) -> Object {
        let filling = "x".repeat(bytes);
        let json = format!(
            r#"{{"metadata":{{"namespace":"a","name":"{name}","uid":"u","resourceVersion":"{version}"}},"x":"{filling}"}}"#
        );
        Object::from_json(json.as_bytes(), &Projection::default()).unwrap()
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Some("a"), name)
    }

    fn hear(kept: &mut Kept, name: &str, version: usize, bytes: usize) {
        let object = object(name, version, bytes);
        kept.hear("pods", key(name).key_ref(), Some(object));
    }

    fn versions(kept: &Kept, name: &str) -> Vec<String> {
        let versions = &kept.caches["pods"].objects[&key(name)].versions;
        let version = |one: &Version| one.object.as_ref().map(|o| o.resource_version().to_owned());
        versions
            .iter()
            .map(|one| version(one).unwrap_or_default())
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn ten_versions_of_a_watched_object_are_kept_and_none_of_others() {
        let mut kept = Kept::default();
        kept.watch("pods", &key("one"), Instant::now());
        for version in 0..25 {
            hear(&mut kept, "one", version, 0);
            hear(&mut kept, "one", version, 0);
            hear(&mut kept, "other", version, 0);
        }
        kept.hear("pods", key("one").key_ref(), None);
        let expected = ["16", "17", "18", "19", "20", "21", "22", "23", "24", ""];
        assert_eq!(versions(&kept, "one"), expected);
        assert_eq!((kept.objects, kept.versions), (1, 10));
        kept.forget(|_| true);
        assert_eq!((kept.objects, kept.versions, kept.bytes), (0, 0, 0));
        assert!(kept.caches.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn objects_versions_and_bytes_are_bounded_in_all() {
        let mut kept = Kept::default();
        for number in 0..OBJECTS + 20 {
            tokio::time::advance(Duration::from_millis(1)).await;
            let name = format!("o{number}");
            kept.watch("pods", &key(&name), Instant::now());
            for version in 0..11 {
                hear(&mut kept, &name, version, 0);
            }
        }
        assert_eq!((kept.objects, kept.versions), (OBJECTS, OF_ALL));
        assert!(!kept.watches("pods", key("o0").key_ref()));
        for number in 20..OBJECTS + 20 {
            hear(&mut kept, &format!("o{number}"), 20, 1 << 20);
            assert!(kept.bytes <= BYTES && kept.versions <= OF_ALL);
        }
        assert!(kept.bytes > BYTES - (2 << 20));
    }
}
