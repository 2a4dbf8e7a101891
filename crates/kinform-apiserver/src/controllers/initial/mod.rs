//! The objects that every cluster has from the start.
//!
//! ```text
//! cluster.rs  namespaces, the server's own service, its endpoints and settings ┐
//! flow.rs     flow schemas and priority levels                                 ├─▶ Initial ──▶ store, if absent
//! roles.rs    roles and bindings, with --rbac                                  ┘
//! ```
//!
//! An object that is stored already is left as it is, but for the server's own address, which
//! another start may have changed. Owners of fields are recorded as a real server records them.
//!
//! Complexity: linear in the objects; a start takes some milliseconds.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controlplane`, `apiserver:pkg/apis/flowcontrol/bootstrap`,
//! `kubernetes/kubernetes:plugin/pkg/auth/authorizer/rbac/bootstrappolicy`.

mod cluster;
pub(crate) mod flow;
mod roles;

use std::net::SocketAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::budget::Meter;
use crate::builtin::strategy::count_generation;
use crate::object::part::Part;
use crate::object::{metadata, typed};
use crate::ownership::{self, Force, Writer};
use crate::random;
use crate::resource::rules::Generation;
use crate::resource::{Found, Registry, Shape};
use crate::storage::{Draft, Expect, Store};

/// The server that the objects tell of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) now: Timestamp,
    /// The address at which it listens.
    pub(crate) address: Option<SocketAddr>,
    /// The authority of its clients' certificates, as PEM.
    pub(crate) authority: Option<&'a str>,
}

/// The field manager of most objects.
const SERVER: &str = "kube-apiserver";

/// An object before it is stored.
#[derive(Debug)]
struct Initial {
    /// Group, version and plural name of its resource.
    resource: (&'static str, &'static str, &'static str),
    manager: &'static str,
    /// The fields that the manager owns, and the name.
    object: Value,
    /// Fields that belong to no manager.
    unowned: Value,
    /// A status, and the manager that applies it.
    status: Option<(&'static str, Value)>,
    /// Set if an object of that name gets these fields where its own differ.
    renews: bool,
}

impl Initial {
    fn new(resource: (&'static str, &'static str, &'static str), object: Value) -> Self {
        Self {
            resource,
            manager: SERVER,
            object,
            unowned: Value::Null,
            status: None,
            renews: false,
        }
    }
}

/// Stores the initial objects of every cluster, except roles.
pub(crate) fn found(store: &Store, registry: &Registry, place: &Place<'_>) {
    let objects = cluster::objects(place).into_iter();
    for object in objects.chain(flow::objects(place.now)) {
        put(store, registry, place.now, object);
    }
}

/// Stores the initial roles and bindings of every cluster.
pub(crate) fn found_roles(store: &Store, registry: &Registry, now: Timestamp) {
    for object in roles::objects() {
        put(store, registry, now, object);
    }
}

/// Stores an object, unless there is one of its name.
fn put(store: &Store, registry: &Registry, now: Timestamp, initial: Initial) {
    let (group, version, plural) = initial.resource;
    let Found::Resource(resource) = registry.find(group, version, plural) else {
        debug_assert!(false, "{plural} are served");
        return;
    };
    let meter = Meter::endless();
    let by = |manager| Writer {
        resource: &resource,
        manager,
        now,
        meter: &meter,
    };
    let (object, expect) = match store.get(resource.shelf, &key(&initial.object)) {
        None => (new(&by, initial), Expect::Absent),
        Some(stored) => {
            let old = stored.value();
            if !initial.renews || !differs(&old, &initial.object) {
                return;
            }
            let mut object = old.clone();
            merge(&mut object, initial.object);
            ownership::updated(&by(initial.manager), Part::Main, &mut object, &old);
            count_generation(&resource, Part::Main, &mut object, &old);
            (object, Expect::Revision(stored.revision()))
        }
    };
    if let Some(draft) = Draft::new(&resource.fields, object) {
        // Nobody else writes before the server starts.
        drop(store.put(resource.shelf, draft, expect));
    }
}

/// Returns an object as it is stored, with the owners of its fields.
fn new<'a>(by: &impl Fn(&'a str) -> Writer<'a>, initial: Initial) -> Value {
    let mut object = initial.object;
    let writer = by(initial.manager);
    let resource = writer.resource;
    ownership::created(&writer, &mut object);
    if let Some((manager, status)) = initial.status {
        let configuration = json!({
            "apiVersion": resource.api_version(),
            "kind": resource.kind,
            "metadata": {"name": object["metadata"]["name"]},
            "status": status,
        });
        let given = (configuration, Force::Yes);
        let applied = ownership::apply(&by(manager), Part::Status, Some(&object), given, None);
        debug_assert!(applied.is_ok(), "{applied:?}");
        object = applied.unwrap_or(object);
    }
    merge(&mut object, initial.unowned);
    let members = metadata::of(&mut object);
    let uid = random::uid();
    members.insert("uid".to_owned(), Value::from(uid));
    members.insert("creationTimestamp".to_owned(), metadata::time(writer.now));
    if resource.rules.generation != Generation::Absent {
        members.insert("generation".to_owned(), Value::from(1));
    }
    // Fields that are always present are nobody's if their manager did not set them.
    match &resource.shape {
        Shape::Builtin(of) => typed::read(of, object, &mut Vec::new()).unwrap_or_default(),
        Shape::Custom(_) => object,
    }
}

fn key(object: &Value) -> String {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

/// Returns whether a stored object has other values for members of `wanted`.
fn differs(stored: &Value, wanted: &Value) -> bool {
    match (stored, wanted) {
        (Value::Object(stored), Value::Object(wanted)) => wanted.iter().any(|(name, wanted)| {
            stored
                .get(name)
                .is_none_or(|stored| differs(stored, wanted))
        }),
        _ => stored != wanted,
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (into, from) => *into = from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_address_is_renewed_and_other_objects_stay() {
        let store = Store::new(crate::storage::HistoryLimits::default());
        let registry = Registry::built_in(&store);
        let at = |port: u16| Place {
            now: Timestamp::UNIX_EPOCH,
            address: Some(SocketAddr::from(([192, 0, 2, 7], port))),
            authority: None,
        };
        found(&store, &registry, &at(1));
        let before = store.revision();
        found(&store, &registry, &at(1));
        assert_eq!(store.revision(), before);
        found(&store, &registry, &at(2));
        // The service, its endpoints and their slice.
        assert_eq!(store.revision(), before + 3);
        let endpoints = store
            .get(store.shelf("endpoints"), "default/kubernetes")
            .map(|endpoints| endpoints.value());
        let subsets = &endpoints.unwrap_or_default()["subsets"];
        let wanted = json!([{"addresses": [{"ip": "192.0.2.7"}],
            "ports": [{"name": "https", "port": 2, "protocol": "TCP"}]}]);
        assert_eq!(*subsets, wanted);
    }
}
