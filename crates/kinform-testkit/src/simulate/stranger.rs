//! Another client of the server: it writes to an object just before a write of the operator, takes
//! the name that the operator is about to use, or holds an object that the user deletes.
//!
//! ```text
//! Mishap::Overtake ─▶ a mark on the object, or an object of that name ─▶ Left ─▶ later taken back
//! Mishap::Hold ─▶ a finalizer on the object ─▶ Left ─▶ later taken back, and the object goes
//! changes of the server + Left ─▶ a mark that a write of the operator took away
//! ```
//!
//! Marks are an annotation and a finalizer. A name is taken only of an object that gets an owner: by
//! that the operator can tell that what it finds is not its own. An object that takes a name has the
//! content that the operator asks for, but no owners or finalizers. It is deleted again unless
//! somebody has written to it: then it is the operator's.
//! INVARIANT: what is left out of pictures and counts has the annotation.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use kinform_apiserver::{Event, Service, Store, Stored};
use serde_json::{Value, json};

use super::asked::Asked;
use super::hub::Hub;
use super::left::{Left, Thing};
use super::plan::LONGEST;
use super::trace::Who;

/// The mark of another client, an annotation and a finalizer.
pub(crate) const MARK: &str = "kinform.dev/overtaken";

/// The list that has the marks that are finalizers.
const LIST: &str = "finalizers";
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";
/// BOUND: the tries of a change that conflicts.
const TRIES: usize = 5;

/// The result of taking a thing back.
#[derive(Clone, Debug)]
pub(crate) enum TakenBack {
    /// The server is as if it had never been there.
    Yes,
    /// Somebody has written to the object, which is theirs now.
    Adopted(String, Arc<Stored>),
}

/// Writes to the object that the operator is about to write, or takes its name.
pub(crate) async fn overtake(hub: &Hub, asked: &Asked, body: &Bytes) {
    let Some((service, store)) = hub.server() else {
        return;
    };
    match &asked.name {
        Some(_) => mark(hub, (&service, &store), asked, body).await,
        None if asked.method == Method::POST && asked.subresource.is_none() => {
            take_name(hub, (&service, &store), asked, body).await;
        }
        None => {}
    }
}

async fn mark(hub: &Hub, (service, store): (&Service, &Store), asked: &Asked, body: &Bytes) {
    let Some(found) = asked.key().and_then(|key| of(store, &asked.shelf, &key)) else {
        return;
    };
    let value = found.value();
    let is_ending = value["metadata"]["deletionTimestamp"].is_string();
    // Only where the operator writes the list: a child that cannot go would be another fault.
    let is_list = body.windows(LIST.len()).any(|part| part == LIST.as_bytes());
    let can_hold = is_list && !is_ending && !has(&value, Thing::Finalizer);
    let thing = match can_hold && hub.below(2) == 0 {
        true => Thing::Finalizer,
        false => Thing::Annotation,
    };
    let patch = match thing {
        Thing::Finalizer => marked(&found),
        _ => json!({"metadata": {"annotations": {MARK: hub.below(1_000_000).to_string()}}}),
    };
    let back = (thing == Thing::Finalizer).then(|| hub.spread(LONGEST));
    add(hub, (service, store), asked, &found, (thing, &patch), back).await;
}

/// Adds a mark to the object that was found, by this patch; takes it back after a time, if there is
/// one. Returns whether the mark is there.
async fn add(
    hub: &Hub,
    (service, store): (&Service, &Store),
    asked: &Asked,
    found: &Stored,
    (thing, patch): (Thing, &Value),
    back: Option<Duration>,
) -> bool {
    call(service, "PATCH", &asked.path, (MERGE, patch)).await;
    let now = of(store, &asked.shelf, found.key()).filter(|now| now.uid() == found.uid());
    let Some(now) = now.filter(|now| has(&now.value(), thing)) else {
        return false;
    };
    let words = match thing {
        Thing::Finalizer => "adds a finalizer to",
        _ => "annotates",
    };
    note(hub, words, &asked.shelf, &now);
    hub.leave(left(thing, &asked.path, &asked.shelf, &now), back);
    true
}

/// Adds a finalizer to the object at a path, and takes it back after a time. Returns whether there
/// is one now.
pub(crate) async fn hold(hub: &Hub, path: &str, lasts: Duration) -> bool {
    let Some((service, store)) = hub.server() else {
        return false;
    };
    let mut head = Request::new(()).into_parts().0;
    let Ok(uri) = path.parse() else {
        return false;
    };
    head.uri = uri;
    let asked = Asked::of(&head);
    let Some(key) = asked.key() else {
        return false;
    };
    for _ in 0..TRIES {
        let Some(found) = of(&store, &asked.shelf, &key) else {
            return false;
        };
        let value = found.value();
        if value["metadata"]["deletionTimestamp"].is_string() || has(&value, Thing::Finalizer) {
            return false;
        }
        let mark = (Thing::Finalizer, &marked(&found));
        if add(hub, (&service, &store), &asked, &found, mark, Some(lasts)).await {
            return true;
        }
    }
    false
}

/// The patch that adds the finalizer to this version of an object.
fn marked(found: &Stored) -> Value {
    let mut all = finalizers(&found.value());
    all.push(MARK.into());
    json!({"metadata": {"finalizers": all, "resourceVersion": version(found)}})
}

async fn take_name(hub: &Hub, (service, store): (&Service, &Store), asked: &Asked, body: &Bytes) {
    let Ok(mut object) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    // An apply, or a name that the server makes, cannot find its name taken.
    let Some(name) = object["metadata"]["name"].as_str().map(str::to_owned) else {
        return;
    };
    // By its owner alone can the operator know that an object of that name is not its own.
    if object["metadata"]["ownerReferences"][0].is_null() {
        return;
    }
    let key = match &asked.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.clone(),
    };
    if of(store, &asked.shelf, &key).is_some() {
        return;
    }
    let labels = object["metadata"]["labels"].take();
    let mut annotations = object["metadata"]["annotations"].take();
    annotations[MARK] = json!("made");
    object["metadata"] = json!({"name": name, "labels": labels, "annotations": annotations});
    call(service, "POST", &asked.path, (JSON, &object)).await;
    let Some(now) = of(store, &asked.shelf, &key) else {
        return;
    };
    if !is_made_by_another(&now.value()) {
        return;
    }
    note(hub, "makes", &asked.shelf, &now);
    let path = format!("{}/{name}", asked.path);
    let back = hub.spread(LONGEST);
    hub.leave(left(Thing::Object, &path, &asked.shelf, &now), Some(back));
}

/// Takes back what was left.
pub(crate) async fn take_back(hub: &Hub, number: usize) -> TakenBack {
    let left = hub.left().get_mut(number).map(|left| {
        left.is_taken_back = true;
        left.clone()
    });
    let (Some(left), Some((service, store))) = (left, hub.server()) else {
        return TakenBack::Yes;
    };
    for _ in 0..TRIES {
        let Some(now) = of(&store, &left.shelf, &left.key).filter(|now| now.uid() == left.uid)
        else {
            break;
        };
        let value = now.value();
        if left.thing == Thing::Object {
            if now.revision() != left.revision {
                return TakenBack::Adopted(left.shelf, now);
            }
            note(hub, "deletes", &left.shelf, &now);
            let only = json!({"uid": left.uid, "resourceVersion": version(&now)});
            let options = json!({"preconditions": only});
            call(&service, "DELETE", &left.path, (JSON, &options)).await;
        } else if has(&value, left.thing) {
            note(hub, "removes its finalizer of", &left.shelf, &now);
            let mut all = finalizers(&value);
            all.retain(|one| one != MARK);
            let patch = json!({"metadata": {"finalizers": all, "resourceVersion": version(&now)}});
            call(&service, "PATCH", &left.path, (MERGE, &patch)).await;
        } else {
            break;
        }
    }
    TakenBack::Yes
}

/// A mark that a change took away, although its client had not: the object and the mark, in words.
pub(crate) fn lost(hub: &Hub, shelf: &str, event: &Event) -> Option<(String, String)> {
    let previous = event.previous.as_ref()?;
    let all = hub.left();
    let of_it = all.iter().filter(|left| {
        !left.is_taken_back && left.thing != Thing::Object && left.uid == previous.uid()
    });
    for left in of_it {
        let is_there = match &event.current {
            Some(now) if now.uid() == left.uid => has(&now.value(), left.thing),
            // Only a finalizer keeps an object.
            _ => left.thing == Thing::Annotation,
        };
        if !is_there && has(&previous.value(), left.thing) {
            let mark = match left.thing {
                Thing::Finalizer => "a finalizer",
                _ => "an annotation",
            };
            return Some((format!("{shelf} {}", previous.key()), mark.to_owned()));
        }
    }
    None
}

/// Returns whether another client has made this object.
pub(crate) fn is_made_by_another(value: &Value) -> bool {
    value["metadata"]["annotations"][MARK] == "made"
}

fn left(thing: Thing, path: &str, shelf: &str, now: &Stored) -> Left {
    Left {
        thing,
        path: path.to_owned(),
        shelf: shelf.to_owned(),
        key: now.key().to_owned(),
        uid: now.uid().to_owned(),
        revision: now.revision(),
        is_taken_back: false,
    }
}

fn note(hub: &Hub, words: &str, shelf: &str, now: &Stored) {
    let (key, version) = (now.key(), now.revision());
    hub.note(Who::Other, format!("{words} {shelf} {key} @{version}"));
}

fn has(value: &Value, thing: Thing) -> bool {
    match thing {
        Thing::Object => true,
        Thing::Annotation => value["metadata"]["annotations"][MARK].is_string(),
        Thing::Finalizer => finalizers(value).iter().any(|one| one == MARK),
    }
}

fn finalizers(value: &Value) -> Vec<Value> {
    let all = value["metadata"]["finalizers"].as_array();
    all.cloned().unwrap_or_default()
}

fn version(object: &Stored) -> String {
    object.revision().to_string()
}

fn of(store: &Store, shelf: &str, key: &str) -> Option<Arc<Stored>> {
    let is_known = store.shelves().iter().any(|known| **known == *shelf);
    is_known.then(|| store.get(store.shelf(shelf), key))?
}

async fn call(service: &Service, method: &str, path: &str, (media, body): (&str, &Value)) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(Bytes::from(body.to_string()));
    if let Ok(request) = request {
        // A refusal is seen by its missing effect.
        let reply: Response<_> = service.call(request).await;
        drop(reply);
    }
}
