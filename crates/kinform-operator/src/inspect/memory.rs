//! The view *Memory*: bytes by cache, namespace and field, and what a projection would save.
//!
//! ```text
//! caches ─▶ a walk over heads: bytes by namespace       one cache ─▶ 2,000 objects ─▶ bytes by field
//! ```
//!
//! Taken when it is asked for. Fields are weighed in objects at equal distances in the cache.
//! BOUND: 2,000 objects, 40 fields, 200 namespaces of a cache.
//!
//! Upstream counterpart: none.

use std::collections::HashMap;

use kinform::MemoryUse;
use kinform_core::object::weight::FieldWeights;
use serde::{Deserialize, Serialize};

use super::numbers::{Head, ROWS};
use super::program::{Cache, Program, type_name};
use super::sight::Sight;

/// BOUND: objects of a sample.
const SAMPLE: usize = 2_000;
/// BOUND: fields that are shown.
const FIELDS: usize = 40;

/// The memory of the caches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Memory {
    /// The head.
    #[serde(flatten)]
    pub head: Head,
    /// The budget of all caches; `null` if there is none.
    pub budget: Option<BudgetMemory>,
    /// The caches whose type the caller may list, the largest first.
    pub caches: Vec<CacheMemory>,
    /// The fields of the cache that was asked for.
    pub fields: Option<FieldMemory>,
    /// Caches that are left out, since the caller may not list their type.
    pub hidden: u64,
}

/// The memory budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BudgetMemory {
    /// The budget.
    pub bytes: u64,
    /// The bytes that all caches hold, with tables, indexes, decoded values and what an allocator adds.
    pub held_bytes: u64,
    /// Of these, decoded values.
    pub decoded_bytes: u64,
    /// More is held than the budget has, and nothing is left to give up.
    pub is_over: bool,
}

/// The memory of one cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CacheMemory {
    /// The cache, for `?cache=`.
    pub cache: String,
    /// The resource.
    pub resource: String,
    /// Objects.
    pub objects: u64,
    /// Memory of the objects, without decoded values.
    pub bytes: u64,
    /// Memory of the store with its tables, indexes and what an allocator adds.
    pub held_bytes: u64,
    /// The step of the memory budget: `normal`, `no-decoded-values`, `compressed` or `reduced`.
    pub step: String,
    /// Bytes of `metadata.managedFields` that were read so far and not kept.
    pub managed_fields_bytes: u64,
    /// The namespaces that the caller may list, the largest first.
    pub namespaces: Vec<NamespaceMemory>,
    /// Bytes of objects in other namespaces.
    pub hidden_bytes: u64,
}

/// The memory of a namespace in one cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NamespaceMemory {
    /// The namespace; `null` for objects of the cluster.
    pub namespace: Option<String>,
    /// Objects.
    pub objects: u64,
    /// Bytes of the objects.
    pub bytes: u64,
}

/// The bytes of one cache by field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FieldMemory {
    /// The cache.
    pub cache: String,
    /// Objects of the sample.
    pub sampled: u64,
    /// Encoded bytes of the sample.
    pub bytes: u64,
    /// The heaviest fields; none overlaps another.
    pub fields: Vec<FieldRow>,
}

/// One field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FieldRow {
    /// The path, as `Projection::drop_path` takes it.
    pub path: String,
    /// Bytes in the sample.
    pub bytes: u64,
    /// The share of the sample's bytes, from 0 to 1.
    pub share: f64,
    /// The bytes that the cache would save without the field, extrapolated.
    pub saves_bytes: u64,
}

/// The view for this caller. `of` is the cache whose fields are weighed.
pub(super) fn memory(program: &Program, sight: &Sight, of: Option<&str>) -> Memory {
    let mut view = Memory {
        head: Head::of(&program.name),
        budget: program.factory.memory().map(budget),
        ..Memory::default()
    };
    for cache in program.caches() {
        let info = cache.informer.resource();
        if !sight.sees_cache(info) {
            view.hidden += 1;
            continue;
        }
        view.caches.push(weigh(&cache, sight));
        // A path has keys of maps in it: it may name more than a caller may list.
        let is_its = of == Some(&cache.id);
        if is_its && (sight.sees_all(&info.resource) || info.namespace.is_some()) {
            view.fields = Some(fields(&cache));
        }
    }
    view.caches
        .sort_by(|a, b| (b.bytes, &a.cache).cmp(&(a.bytes, &b.cache)));
    view
}

fn budget(usage: MemoryUse) -> BudgetMemory {
    BudgetMemory {
        bytes: usage.budget,
        held_bytes: usage.held,
        decoded_bytes: usage.decoded,
        is_over: usage.is_over,
    }
}

fn weigh(cache: &Cache, sight: &Sight) -> CacheMemory {
    let (info, stats) = (cache.informer.resource(), cache.informer.stats());
    let listing = cache.informer.list();
    let mut found: HashMap<&str, (u64, u64)> = HashMap::new();
    for object in listing.objects() {
        let of = found.entry(object.key_ref().namespace).or_default();
        of.0 += 1;
        of.1 += object.heap_size() as u64;
    }
    let mut hidden_bytes = 0;
    let mut rows = Vec::new();
    for (namespace, (objects, bytes)) in found {
        let namespace = Some(namespace).filter(|name| !name.is_empty());
        if !sight.sees(&info.resource, namespace) {
            hidden_bytes += bytes;
            continue;
        }
        rows.push(NamespaceMemory {
            namespace: namespace.map(str::to_owned),
            objects,
            bytes,
        });
    }
    rows.sort_by(|a, b| (b.bytes, &a.namespace).cmp(&(a.bytes, &b.namespace)));
    let rest = rows.split_off(rows.len().min(ROWS));
    hidden_bytes += rest.iter().map(|row| row.bytes).sum::<u64>();
    CacheMemory {
        cache: cache.id.clone(),
        resource: type_name(info),
        objects: stats.objects,
        bytes: stats.heap_bytes,
        held_bytes: stats.held_bytes,
        step: stats.memory.as_str().to_owned(),
        managed_fields_bytes: stats.managed_fields_bytes,
        namespaces: rows,
        hidden_bytes,
    }
}

fn fields(cache: &Cache) -> FieldMemory {
    let listing = cache.informer.list();
    let all = listing.len();
    let step = all.div_ceil(SAMPLE).max(1);
    let (mut weights, mut sampled) = (FieldWeights::new(), 0_u64);
    for object in listing.objects().step_by(step) {
        // In a compressed store: inflated for this look only.
        weights.add(&object.thawed());
        sampled += 1;
    }
    let total = weights.total();
    let row = |weight: kinform_core::object::weight::FieldWeight| FieldRow {
        path: weight.path.to_string(),
        bytes: weight.bytes,
        share: (weight.bytes as f64 / total.max(1) as f64 * 1000.0).round() / 1000.0,
        saves_bytes: (u128::from(weight.bytes) * all as u128 / u128::from(sampled.max(1))) as u64,
    };
    FieldMemory {
        cache: cache.id.clone(),
        sampled,
        bytes: total,
        fields: weights.largest(FIELDS).into_iter().map(row).collect(),
    }
}
