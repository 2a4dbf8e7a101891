//! Typed values kept within a number of bytes: those that are read again stay.
//!
//! ```text
//! TypedBudget::typed(object) → remembered | decoded → room is made by the clock → remembered
//! ```
//!
//! A hand goes around what is kept: a value that was read since it last came by stays for one more round,
//! any other goes, and first of all those of objects that nobody else holds. A hit takes no lock but the
//! object's own.
//!
//! INVARIANT: what is kept weighs no more than the budget, each object's own bytes included, as it may be kept
//! alive by being here alone.
//! Upstream: none; client-go keeps every object decoded. Complexity: a hit is a pointer's clone, a miss a
//! decode and amortised constant.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kinform_api::TypeMeta;
use serde::de::DeserializeOwned;

use super::Object;
use super::typed::DecodeError;
use crate::wire::encoding::Encoding;

/// The bytes that a byte of an object takes when it is decoded into a type of Kubernetes, at most.
/// Their structs are wide and mostly empty: measured on recorded pods, with room for allocators'
/// rounding.
const BYTES_OF_JSON: usize = 8;
const BYTES_OF_PROTOBUF: usize = 14;

/// Keeps decoded values of objects up to a number of bytes.
#[derive(Debug)]
pub struct TypedBudget {
    bytes: usize,
    clock: Mutex<Clock>,
}

#[derive(Debug, Default)]
struct Clock {
    entries: Vec<Entry>,
    hand: usize,
    used: usize,
    /// Of what is used, the objects themselves.
    objects: usize,
}

#[derive(Debug)]
struct Entry {
    object: Object,
    weight: usize,
}

impl TypedBudget {
    /// A budget of this many bytes. What an object weighs when decoded is estimated from its bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes,
            clock: Mutex::default(),
        }
    }

    /// The object as a value of type `K`, as [`Object::typed`]; remembered if it fits, in place of what was
    /// not read for longest.
    ///
    /// # Errors
    /// As [`Object::typed`].
    ///
    /// # Complexity
    /// A pointer's clone if remembered, else a full decode.
    pub fn typed<K>(&self, object: &Object, meta: &TypeMeta) -> Result<Arc<K>, DecodeError>
    where
        K: DeserializeOwned + Any + Send + Sync,
    {
        if let Some(known) = object.recall::<K>() {
            return known;
        }
        let value = object.decoded::<K>(meta)?;
        let weight = weight_of::<K>(object);
        if weight > self.bytes {
            return Ok(value);
        }
        let mut clock = self.clock();
        // Another reader was faster, or another type is remembered: that one stays.
        if object.has_typed() {
            drop(clock);
            return object.recall::<K>().unwrap_or(Ok(value));
        }
        let gone = clock.make_room(weight, self.bytes);
        let kept = object.remember(value);
        clock.entries.push(Entry {
            object: object.clone(),
            weight,
        });
        clock.used += weight;
        clock.objects += object.heap_size();
        debug_assert!(clock.used <= self.bytes, "the budget holds");
        drop(clock);
        // Objects and values may be large: they are dropped here, outside the lock.
        drop(gone);
        kept
    }

    /// Returns the estimated size of the values kept.
    #[must_use]
    pub fn used(&self) -> usize {
        self.clock().used
    }

    /// Returns the estimated size of the values alone: without the objects that they are of.
    #[must_use]
    pub fn values_size(&self) -> usize {
        let clock = self.clock();
        clock.used - clock.objects
    }

    /// Gives up all values.
    pub fn clear(&self) {
        let gone = std::mem::take(&mut *self.clock());
        gone.entries
            .iter()
            .for_each(|entry| _ = entry.object.forget_typed());
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Estimates the bytes that an object takes when it is decoded, from its encoded ones.
#[must_use]
pub fn value_size(object: &Object) -> usize {
    let factor = match object.encoding() {
        Encoding::Json => BYTES_OF_JSON,
        Encoding::Protobuf => BYTES_OF_PROTOBUF,
    };
    object.byte_len() * factor
}

/// The object itself, its value, and what remembers it.
fn weight_of<K>(object: &Object) -> usize {
    let value = size_of::<K>() + value_size(object);
    object.heap_size() + value + 2 * size_of::<Entry>() + 64
}

impl Clock {
    /// Takes out what must go for `weight` more; a value that was read stays for one round.
    fn make_room(&mut self, weight: usize, bytes: usize) -> Vec<Object> {
        let mut gone = Vec::new();
        // Two rounds are enough: after the first nothing counts as read but what others read meanwhile.
        let mut left = 2 * self.entries.len();
        while !self.entries.is_empty() && self.used + weight > bytes {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let object = &self.entries[self.hand].object;
            let stays = left > 0 && !object.is_alone() && object.was_read();
            left = left.saturating_sub(1);
            if stays {
                self.hand += 1;
                continue;
            }
            let Entry { object, weight } = self.entries.swap_remove(self.hand);
            self.used -= weight;
            self.objects -= object.heap_size();
            object.forget_typed();
            gone.push(object);
        }
        self.sweep(&mut gone);
        gone
    }

    /// A few entries further on: an object that nobody else holds is not kept for its value.
    fn sweep(&mut self, gone: &mut Vec<Object>) {
        for _ in 0..2 {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let Some(entry) = self.entries.get(self.hand) else {
                return;
            };
            if entry.object.is_alone() {
                let Entry { object, weight } = self.entries.swap_remove(self.hand);
                self.used -= weight;
                self.objects -= object.heap_size();
                gone.push(object);
            } else {
                self.hand += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::object::projection::Projection;

    fn meta() -> TypeMeta {
        TypeMeta {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
        }
    }

    fn object(name: usize, size: usize) -> Object {
        let json = format!(
            r#"{{"metadata":{{"name":"o{name}"}},"data":"{}"}}"#,
            "x".repeat(size)
        );
        Object::from_json(json.as_bytes(), &Projection::new()).unwrap()
    }

    fn read(budget: &TypedBudget, object: &Object) -> Arc<Value> {
        budget.typed(object, &meta()).unwrap()
    }

    #[test]
    fn what_is_read_again_stays_and_the_rest_makes_room() {
        let objects: Vec<_> = (0..6).map(|name| object(name, 100)).collect();
        let budget = TypedBudget::new(3 * weight_of::<Value>(&objects[0]) + 10);
        let first = read(&budget, &objects[0]);
        for object in &objects[1..] {
            assert!(Arc::ptr_eq(&first, &read(&budget, &objects[0])));
            read(&budget, object);
        }
        let kept = objects.iter().filter(|object| object.has_typed());
        assert_eq!(kept.count(), 3);
        assert!(objects[0].has_typed() && objects[5].has_typed());
    }

    #[test]
    fn what_is_larger_than_the_budget_is_not_kept() {
        let (small, large) = (object(1, 10), object(2, 10_000));
        let budget = TypedBudget::new(5_000);
        read(&budget, &small);
        read(&budget, &large);
        assert!(small.has_typed() && !large.has_typed());
        read(&TypedBudget::new(0), &large);
        assert!(!large.has_typed());
    }

    #[test]
    fn a_value_does_not_keep_a_replaced_object_for_long() {
        let objects: Vec<_> = (0..100).map(|name| object(name, 100)).collect();
        let budget = TypedBudget::new(1 << 20);
        objects
            .iter()
            .for_each(|object| drop(read(&budget, object)));
        let full = budget.used();
        drop(objects);
        let newer: Vec<_> = (0..60).map(|name| object(name, 100)).collect();
        newer.iter().for_each(|object| drop(read(&budget, object)));
        assert!(budget.used() < full, "{} of {full}", budget.used());
    }

    #[test]
    fn a_failure_is_remembered_without_the_budget() {
        let budget = TypedBudget::new(1 << 20);
        let object = object(1, 10);
        for _ in 0..2 {
            assert!(budget.typed::<Vec<u8>>(&object, &meta()).is_err());
        }
        assert_eq!(budget.used(), 0);
    }

    proptest! {
        /// Against a list of what there is: kept is what weighs no more than the budget, and what was read
        /// last is kept whatever came before.
        #[test]
        fn the_budget_holds_whatever_is_read_and_replaced(
            budget in 0usize..40_000,
            steps in prop::collection::vec((0usize..12, 0usize..900, any::<bool>()), 1..120),
        ) {
            let budget = TypedBudget::new(budget);
            let mut objects: Vec<Object> = (0..12).map(|name| object(name, 50)).collect();
            for (name, size, is_replaced) in steps {
                if is_replaced {
                    objects[name] = object(name, size);
                }
                let value = read(&budget, &objects[name]);
                prop_assert_eq!(&value["metadata"]["name"], &Value::from(format!("o{name}")));
                let weight = weight_of::<Value>(&objects[name]);
                prop_assert_eq!(objects[name].has_typed(), weight <= budget.bytes);
                let kept = objects.iter().filter(|object| object.has_typed());
                let kept: usize = kept.map(weight_of::<Value>).sum();
                prop_assert!(kept <= budget.used() && budget.used() <= budget.bytes);
                let clock = budget.clock();
                prop_assert_eq!(clock.entries.iter().map(|entry| entry.weight).sum::<usize>(), clock.used);
            }
        }
    }
}
