//! The state of a server without what differs between two equal runs.
//!
//! ```text
//! Store ─▶ Picture { object ─▶ value without uids, versions, times } ─▶ differences from another
//! ```
//!
//! Generated names end in `*`; objects whose names were generated from the same beginning are
//! compared as a set. Uids and addresses of pods become the names of their objects, times become
//! `<time>`, an `observedGeneration` says whether it is the current one. Leases, events and addresses
//! of services are left out, and objects that nobody has written since the start.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kinform_apiserver::{Event, Store};
use serde_json::{Map, Value, json};

use super::asked::is_traffic;
use super::stranger::MARK;

/// The addresses of services: the server draws them, as it draws the `clusterIP` of each.
const ADDRESSES: &str = "ipaddresses.networking.k8s.io";

/// The beginning of the name of a token's volume, as admission generates it.
const TOKEN: &str = "kube-api-access-";

/// BOUND: the differences that are shown.
const SHOWN: usize = 8;

/// The parts of a server that are compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lens {
    /// Resources that are left out, as `configmaps` or `deployments.apps`.
    pub(crate) left_out: BTreeSet<String>,
    /// Fields that are left out, of all objects.
    pub(crate) ignored: Vec<Vec<String>>,
    /// Those of them that must not change in the life of an object.
    pub(crate) drawn: Vec<Vec<String>>,
}

impl Lens {
    /// Returns whether changes of a resource count.
    pub(crate) fn shows(&self, shelf: &str) -> bool {
        !is_traffic(shelf) && shelf != ADDRESSES && !self.left_out.contains(shelf)
    }

    /// Returns whether a change is one of fields that are compared, too: an operator that writes a field
    /// of the others again and again, as the time of its last look, is at rest.
    pub(crate) fn sees(&self, event: &Event) -> bool {
        let (Some(previous), Some(now)) = (&event.previous, &event.current) else {
            return true;
        };
        if self.ignored.is_empty() || previous.uid() != now.uid() {
            return true;
        }
        let seen = |mut value: Value| {
            remove(&mut value, &["metadata", "resourceVersion"]);
            remove(&mut value, &["metadata", "managedFields"]);
            self.leave_out_ignored(&mut value);
            value
        };
        seen(previous.value()) != seen(now.value())
    }

    fn leave_out_ignored(&self, value: &mut Value) {
        for path in &self.ignored {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            remove(value, &path);
        }
    }

    /// The object and the field, if a change gives another value to a field that is drawn once.
    pub(crate) fn redrawn(&self, shelf: &str, event: &Event) -> Option<(String, String)> {
        let (previous, now) = (event.previous.as_ref()?, event.current.as_ref()?);
        if self.drawn.is_empty() || previous.uid() != now.uid() {
            return None;
        }
        let (before, after) = (previous.value(), now.value());
        let changes = |path: &&Vec<String>| {
            let of = |value| {
                path.iter()
                    .fold(value, |value: &Value, name| &value[&**name])
            };
            !of(&before).is_null() && of(&before) != of(&after)
        };
        let path = self.drawn.iter().find(changes)?;
        Some((format!("{shelf} {}", now.key()), path.join(".")))
    }
}

/// The kinds that are kept of earlier states: data, work that was done, and revisions. With them, those
/// that follow pods.
const KEPT: [&str; 7] = [
    "controllerrevisions",
    "endpoints",
    "endpointslices",
    "jobs",
    "persistentvolumeclaims",
    "persistentvolumes",
    "replicasets",
];

/// The state of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Picture(BTreeMap<String, Vec<Value>>);

impl Picture {
    /// The objects that were written after a revision.
    pub(crate) fn of(store: &Store, after: u64, lens: &Lens) -> Self {
        let mut objects = Vec::new();
        for shelf in store.shelves() {
            if !lens.shows(&shelf) {
                continue;
            }
            let view = store.view(store.shelf(&shelf));
            let late = view.snapshot.iter().filter(|one| one.revision() > after);
            objects.extend(late.map(|one| (shelf.clone(), one.key().to_owned(), one.value())));
        }
        let mut names = Names::default();
        for (shelf, key, value) in &objects {
            names.add(shelf, key, value);
        }
        let mut picture: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (shelf, key, mut value) in objects {
            let name = format!("{shelf} {}", generic(&key, &value));
            plain(&shelf, &mut value, lens);
            names.replace(&mut value);
            if shelf.starts_with("endpoints") {
                sort(&mut value);
            }
            picture.entry(name).or_default().push(value);
        }
        for values in picture.values_mut() {
            values.sort_by_cached_key(Value::to_string);
        }
        Self(picture)
    }

    /// Returns whether there is an object of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The same without what may rightly depend on earlier states: status, annotations, kinds that
    /// are kept, pods that Kubernetes' own controllers made, and the objects of these names (plural
    /// and key).
    pub(crate) fn without_history(&self, left_out: &[String]) -> Self {
        let is_left_out = |name: &str| {
            let (shelf, key) = name.split_once(' ').unwrap_or((name, ""));
            let plural = shelf.split('.').next().unwrap_or_default();
            KEPT.contains(&plural) || left_out.contains(&format!("{plural} {key}"))
        };
        let mut picture = self.0.clone();
        picture.retain(|name, values| {
            if name.starts_with("pods ") {
                values.retain(|pod| !is_of_workload(pod));
            }
            !values.is_empty() && !is_left_out(name)
        });
        for values in picture.values_mut() {
            for value in values.iter_mut() {
                if let Some(members) = value.as_object_mut() {
                    members.remove("status");
                }
                if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
                    metadata.remove("annotations");
                }
            }
            values.sort_by_cached_key(Value::to_string);
        }
        Self(picture)
    }

    /// The differences from what is expected, in words.
    pub(crate) fn differences(&self, expected: &Self) -> Vec<String> {
        self.unlike(expected, "without faults")
    }

    /// The differences from another state, which is called by these words.
    pub(crate) fn unlike(&self, expected: &Self, at: &str) -> Vec<String> {
        let mut words = Vec::new();
        let names: BTreeSet<&String> = self.0.keys().chain(expected.0.keys()).collect();
        for name in names {
            match (self.0.get(name), expected.0.get(name)) {
                (Some(_), None) => words.push(format!("{name} is there; {at} it is not")),
                (None, Some(_)) => words.push(format!("{name} is not there; {at} it is")),
                (Some(found), Some(wanted)) if found.len() != wanted.len() => words.push(format!(
                    "{name}: {} are there; {at} {}",
                    found.len(),
                    wanted.len()
                )),
                (Some(found), Some(wanted)) => {
                    for (found, wanted) in found.iter().zip(wanted) {
                        compare((name, at), found, wanted, &mut words);
                    }
                }
                (None, None) => {}
            }
        }
        words.truncate(SHOWN);
        words
    }
}

/// The key of an object; a generated part of its name is `*`.
pub(crate) fn generic(key: &str, value: &Value) -> String {
    let base = value["metadata"]["generateName"].as_str().unwrap_or("");
    let name = value["metadata"]["name"].as_str().unwrap_or("");
    match key.strip_suffix(name) {
        Some(before) if !base.is_empty() && name.starts_with(base) => format!("{before}{base}*"),
        _ => key.to_owned(),
    }
}

/// Texts that differ from run to run, and what they stand for.
#[derive(Debug, Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn add(&mut self, shelf: &str, key: &str, value: &Value) {
        let metadata = &value["metadata"];
        let generic = generic(key, value);
        if let Some(uid) = metadata["uid"].as_str() {
            self.0
                .insert(uid.to_owned(), format!("<uid of {shelf} {generic}>"));
        }
        if let (true, Some(name)) = (generic != key, metadata["name"].as_str()) {
            let short = generic.rsplit('/').next().unwrap_or_default();
            self.0.insert(name.to_owned(), short.to_owned());
        }
        if shelf == "pods" {
            self.add_pod(&generic, value);
        }
    }

    /// The addresses of a pod, and the volume of its token.
    fn add_pod(&mut self, generic: &str, pod: &Value) {
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let addresses = items(&pod["status"]["podIPs"]);
        for address in addresses.iter().filter_map(|one| one["ip"].as_str()) {
            let words = format!("<address of pods {generic}>");
            self.0.insert(address.to_owned(), words);
        }
        let volumes = items(&pod["spec"]["volumes"]);
        let names = volumes.iter().filter_map(|volume| volume["name"].as_str());
        for name in names.filter(|name| name.starts_with(TOKEN)) {
            self.0.insert(name.to_owned(), format!("{TOKEN}*"));
        }
    }

    /// Replaces texts everywhere in a value.
    fn replace(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(name) = self.0.get(text) {
                    name.clone_into(text);
                } else if is_time(text) {
                    "<time>".clone_into(text);
                } else if is_uid(text) {
                    "<uid>".clone_into(text);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::Object(members) => members.values_mut().for_each(|item| self.replace(item)),
            _ => {}
        }
    }
}

/// Returns whether the owner of a pod is one of Kubernetes' own kinds, whose controller replaces it.
fn is_of_workload(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let is_own = |owner: &Value| {
        let version = owner["apiVersion"].as_str().unwrap_or_default();
        version.starts_with("apps/") || version.starts_with("batch/")
    };
    owners.is_some_and(|owners| owners.iter().any(is_own))
}

/// Removes what differs from run to run by itself.
fn plain(shelf: &str, value: &mut Value, lens: &Lens) {
    let generation = value["metadata"]["generation"].clone();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        for name in [
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(name);
        }
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(MARK);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
        for name in ["finalizers", "ownerReferences"] {
            if let Some(Value::Array(items)) = metadata.get_mut(name) {
                items.sort_by_cached_key(|item| {
                    item["name"]
                        .as_str()
                        .map_or_else(|| item.to_string(), str::to_owned)
                });
            }
        }
    }
    if shelf == "services" {
        for name in ["clusterIP", "clusterIPs", "healthCheckNodePort"] {
            remove(value, &["spec", name]);
        }
        if let Some(Value::Array(ports)) = value["spec"].get_mut("ports") {
            ports
                .iter_mut()
                .for_each(|port| remove(port, &["nodePort"]));
        }
    }
    lens.leave_out_ignored(value);
    even(value, &generation);
}

/// Orders all lists: those of endpoints follow addresses.
fn sort(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(sort);
            items.sort_by_cached_key(Value::to_string);
        }
        Value::Object(members) => members.values_mut().for_each(sort),
        _ => {}
    }
}

/// Orders conditions, and makes `observedGeneration` relative.
fn even(value: &mut Value, generation: &Value) {
    match value {
        Value::Object(members) => {
            if let Some(observed) = members.get_mut("observedGeneration") {
                *observed = json!(match *observed == *generation {
                    true => "<current>",
                    false => "<older>",
                });
            }
            members.values_mut().for_each(|item| even(item, generation));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| even(item, generation));
            let is_condition =
                |item: &Value| item["type"].is_string() && item["status"].is_string();
            if items.iter().all(is_condition) {
                items.sort_by_cached_key(|item| item["type"].to_string());
            }
        }
        _ => {}
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    let Some((last, before)) = path.split_last() else {
        return;
    };
    let mut place = value;
    for name in before {
        match place.get_mut(*name) {
            Some(next) => place = next,
            None => return,
        }
    }
    if let Some(members) = place.as_object_mut() {
        members.remove(*last);
    }
}

/// Returns whether a text is a time: `2026-01-02T03:04:05Z`, with or without a fraction.
fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.as_bytes()[4] == b'-' && text.parse::<jiff::Timestamp>().is_ok()
}

/// Returns whether a text is a uid: `8-4-4-4-12` hexadecimal digits.
fn is_uid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Adds the paths at which two values differ.
fn compare((path, at): (&str, &str), found: &Value, wanted: &Value, words: &mut Vec<String>) {
    if found == wanted || words.len() > SHOWN {
        return;
    }
    if let (Value::Object(found), Value::Object(wanted)) = (found, wanted) {
        let of = |members: &Map<String, Value>, name: &str| {
            members.get(name).cloned().unwrap_or(Value::Null)
        };
        let names: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
        for name in names {
            let separator = if path.contains(": ") { "." } else { ": " };
            let path = format!("{path}{separator}{name}");
            compare((&path, at), &of(found, name), &of(wanted, name), words);
        }
        return;
    }
    words.push(format!("{path} is {found}; {at} {wanted}"));
}

#[cfg(test)]
mod tests {
    use kinform_apiserver::{Draft, Expect, HistoryLimits};

    use super::*;

    fn store(objects: &[Value]) -> Store {
        let store = Store::new(HistoryLimits::default());
        let shelf = store.shelf("foos.g");
        for object in objects {
            let draft = Draft::new(&[], object.clone()).unwrap();
            store.put(shelf, draft, Expect::Any).unwrap();
        }
        store
    }

    fn differences(found: &[Value], wanted: &[Value]) -> Vec<String> {
        let lens = Lens {
            ignored: vec![vec!["status".into(), "probe".into()]],
            ..Lens::default()
        };
        let of = |objects| Picture::of(&store(objects), 0, &lens);
        of(found).differences(&of(wanted))
    }

    fn object(name: &str, base: &str, rest: Value) -> Value {
        let mut object = json!({"metadata": {"name": name, "namespace": "d"}});
        if !base.is_empty() {
            object["metadata"]["generateName"] = json!(base);
        }
        for (name, value) in rest.as_object().unwrap() {
            object[name] = value.clone();
        }
        object
    }

    #[test]
    fn times_uids_generated_names_and_orders_are_no_differences() {
        let of = |suffix: &str, uid: &str, time: &str, conditions: Value| {
            let mut owner = object(&format!("a-{suffix}"), "a-", json!({}));
            owner["metadata"]["uid"] = json!(uid);
            owner["metadata"]["generation"] = json!(suffix.len());
            owner["status"] = json!({"at": time, "observedGeneration": suffix.len(),
                "probe": suffix, "conditions": conditions});
            let child = object(
                "b",
                "",
                json!({"owner": uid, "named": format!("a-{suffix}")}),
            );
            [owner, child]
        };
        let ready = json!({"type": "Ready", "status": "True"});
        let live = json!({"type": "Live", "status": "True"});
        let one = of(
            "xyz",
            "6b7dbd5c-0000-4000-8000-000000000001",
            "2026-01-02T03:04:05Z",
            json!([ready, live]),
        );
        let other = of(
            "q",
            "6b7dbd5c-0000-4000-8000-000000000002",
            "2027-01-02T03:04:05.1Z",
            json!([live, ready]),
        );
        assert_eq!(differences(&one, &other), Vec::<String>::new());
    }

    #[test]
    fn addresses_and_token_volumes_of_pods_are_no_differences() {
        let of = |drawn: &str| {
            let store = Store::new(HistoryLimits::default());
            let volume = format!("kube-api-access-{drawn}");
            let pod = object(
                "p",
                "",
                json!({"spec": {"volumes": [{"name": volume}], "mounts": [{"name": volume}]},
                    "status": {"podIP": drawn, "podIPs": [{"ip": drawn}]}}),
            );
            let slice = object("s", "", json!({"endpoints": [{"addresses": [drawn]}]}));
            for (shelf, object) in [("pods", pod), ("endpointslices.g", slice)] {
                let draft = Draft::new(&[], object).unwrap();
                store.put(store.shelf(shelf), draft, Expect::Any).unwrap();
            }
            Picture::of(&store, 0, &Lens::default())
        };
        assert_eq!(of("one").differences(&of("two")), Vec::<String>::new());
    }

    #[test]
    fn differences_are_told_with_their_paths() {
        let found = [
            object("a", "", json!({"spec": {"x": {"y": 1}}})),
            object("b", "", json!({})),
        ];
        let wanted = [
            object("a", "", json!({"spec": {"x": {"y": 2}}})),
            object("c", "", json!({})),
        ];
        assert_eq!(
            differences(&found, &wanted),
            [
                "foos.g d/a: spec.x.y is 1; without faults 2",
                "foos.g d/b is there; without faults it is not",
                "foos.g d/c is not there; without faults it is",
            ]
        );
    }

    #[test]
    fn a_generation_that_was_not_observed_is_a_difference() {
        let of = |observed: u64| {
            let mut object = object("a", "", json!({"status": {"observedGeneration": observed}}));
            object["metadata"]["generation"] = json!(2);
            [object]
        };
        assert_eq!(differences(&of(1), &of(2)).len(), 1);
    }
}
