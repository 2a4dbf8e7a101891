//! ControllerRevisions: the pod templates that StatefulSets and DaemonSets had.
//!
//! ```text
//! owner ─▶ its template as data ─▶ decide (pure) ─▶ keep | renumber an equal one | create: NAME-HASH
//! old ones, live ones, the limit ─▶ beyond (pure) ─▶ delete
//! ```
//!
//! A revision of equal data is found again: it gets the highest number instead of a twin.
//! INVARIANT: of an owner's revisions, the one of its current template has the highest number.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/history`, `pkg/controller/daemon/update.go`
//! (`constructHistory`). Difference: equal revisions of a DaemonSet are not merged.

use k8s_openapi::api::apps::v1::ControllerRevision;
use kinform::{Error, Index, IndexReader, Informer, ObjectKey};
use serde_json::{Map, Value, json};

use crate::frame::Frame;
use crate::json::{int, is_terminating, name, remove, set, text, texts, uid};
use crate::ownership::{adopt, controller_uid};
use crate::pods::owner_reference;
use crate::selector::selects;
use crate::writer::{Failed, Writer, collection};

const APPS: &str = "/apis/apps/v1";
/// BOUND: names that are tried for one revision in one reconcile.
const MAX_COLLISIONS: i64 = 16;
/// The longest part of a revision's name before its hash.
const MAX_PREFIX: usize = 223;

/// The names and labels of the revisions of a kind of owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming {
    /// The name of the index of revisions that this kind may adopt.
    pub(crate) index: &'static str,
    /// The label with the hash.
    pub(crate) label: &'static str,
    /// Makes the hash of the owner, its data and the number of collisions.
    pub(crate) hash: fn(&Value, &Value, i64) -> String,
}

/// The cache of revisions.
pub(crate) struct Revisions {
    naming: Naming,
    pub(crate) informer: Informer<Value>,
    by_owner: IndexReader<Value>,
    orphans: IndexReader<Value>,
}

/// The revision of an owner's current template.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) revision: Value,
    /// The names that were taken so far.
    pub(crate) collisions: i64,
}

/// The way to the revision of the current template.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// It is there, and the newest.
    Keep(usize),
    /// It is there, and gets this number.
    Renumber(usize, i64),
    /// It is made, with this number.
    Create(i64),
}

impl Revisions {
    /// # Errors
    /// The informer is stopped.
    pub(crate) fn new(frame: &Frame, naming: Naming) -> Result<Self, Error> {
        let informer: Informer<ControllerRevision> = frame.factory.informer();
        let informer: Informer<Value> = informer.cast();
        Ok(Self {
            naming,
            by_owner: informer.add_index(Index::owner())?,
            orphans: informer.add_index(Index::by(naming.index, |revision: &Value| {
                let namespace = text(revision, "/metadata/namespace").to_owned();
                controller_uid(revision).is_none().then_some(namespace)
            }))?,
            informer,
        })
    }

    /// The revisions that an owner controls; those without a controller that it selects are adopted.
    pub(crate) async fn claim(&self, writer: &Writer, owner: &Value) -> Result<Vec<Value>, Failed> {
        let owned = self.by_owner.get(uid(owner));
        let mut revisions: Vec<Value> = owned
            .typed()
            .filter(|one| controller_uid(one) == Some(uid(owner)))
            .map(|one| Value::clone(&one))
            .collect();
        if is_terminating(owner) {
            return Ok(revisions);
        }
        let namespace = text(owner, "/metadata/namespace");
        let selector = owner.pointer("/spec/selector");
        let orphans = self.orphans.get(namespace);
        for one in orphans.typed() {
            if is_terminating(&one) || !selects(selector, &texts(&one, "/metadata/labels")) {
                continue;
            }
            let path = path(namespace, name(&one));
            revisions.extend(adopt(writer, owner, &path, Some(uid(&one))).await?);
        }
        Ok(revisions)
    }

    /// Finds or makes the revision of an owner's current template. `collisions` is the number of
    /// names that were taken before.
    pub(crate) async fn current(
        &self,
        writer: &Writer,
        owner: &Value,
        revisions: &[Value],
    ) -> Result<Current, Failed> {
        let collisions = int(owner, "/status/collisionCount");
        let data = data_of(owner);
        let revision = match decide(revisions, &data) {
            Decision::Keep(index) => revisions[index].clone(),
            Decision::Renumber(index, number) => {
                let mut body = revisions[index].clone();
                set(&mut body, &["revision"], number.into());
                let path = path(text(owner, "/metadata/namespace"), name(&body));
                writer.replace(&path, &body).await?
            }
            Decision::Create(number) => return self.create(writer, owner, data, number).await,
        };
        Ok(Current {
            revision,
            collisions,
        })
    }

    async fn create(
        &self,
        writer: &Writer,
        owner: &Value,
        data: Value,
        number: i64,
    ) -> Result<Current, Failed> {
        let namespace = text(owner, "/metadata/namespace");
        let mut collisions = int(owner, "/status/collisionCount");
        let last = collisions.saturating_add(MAX_COLLISIONS);
        loop {
            let body = body(owner, &data, number, self.naming, collisions);
            let path = collection(APPS, namespace, "controllerrevisions");
            let error = match writer.create(&path, &body).await {
                Ok(revision) => {
                    return Ok(Current {
                        revision,
                        collisions,
                    });
                }
                Err(error) => error,
            };
            let taken = self
                .informer
                .get(&ObjectKey::new(Some(namespace), name(&body)));
            let taken = taken.and_then(|taken| taken.typed().ok());
            match taken.filter(|_| error.code() == Some(409) && collisions < last) {
                Some(taken) if taken.get("data") == Some(&data) => {
                    return Ok(Current {
                        revision: Value::clone(&taken),
                        collisions,
                    });
                }
                Some(_) => collisions += 1,
                // The cache does not have it yet: the next reconcile finds it.
                None => return Err(error),
            }
        }
    }
}

/// Deletes revisions.
pub(crate) async fn delete(
    writer: &Writer,
    namespace: &str,
    names: Vec<String>,
) -> Result<(), Failed> {
    for name in names {
        writer.delete(&path(namespace, &name), &json!({})).await?;
    }
    Ok(())
}

fn path(namespace: &str, name: &str) -> String {
    let revisions = collection(APPS, namespace, "controllerrevisions");
    format!("{revisions}/{name}")
}

/// The data of a revision: the patch that restores the owner's template.
pub(crate) fn data_of(owner: &Value) -> Value {
    let mut template = owner
        .pointer("/spec/template")
        .cloned()
        .unwrap_or_else(|| Value::Object(Map::new()));
    set(&mut template, &["$patch"], "replace".into());
    json!({"spec": {"template": template}})
}

/// The pod template of a revision.
pub(crate) fn template(revision: &Value) -> Value {
    let template = revision.pointer("/data/spec/template").cloned();
    let mut template = template.unwrap_or_else(|| Value::Object(Map::new()));
    remove(&mut template, &["$patch"]);
    template
}

fn body(owner: &Value, data: &Value, number: i64, naming: Naming, collisions: i64) -> Value {
    let hash = (naming.hash)(owner, data, collisions);
    let prefix = name(owner);
    // Names of objects are ASCII.
    let prefix = prefix.get(..MAX_PREFIX).unwrap_or(prefix);
    let labels = owner.pointer("/spec/template/metadata/labels").cloned();
    let mut body = json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": format!("{prefix}-{hash}"),
            "namespace": text(owner, "/metadata/namespace"),
            "labels": labels.unwrap_or_else(|| Value::Object(Map::new())),
            "ownerReferences": [owner_reference(owner)],
        },
        "data": data,
        "revision": number,
    });
    set(
        &mut body,
        &["metadata", "labels", naming.label],
        hash.into(),
    );
    if let Some(annotations) = owner.pointer("/metadata/annotations") {
        set(&mut body, &["metadata", "annotations"], annotations.clone());
    }
    body
}

/// The order of revisions: by number, of equal numbers the older first.
fn order(revision: &Value) -> (i64, &str, &str) {
    let created = text(revision, "/metadata/creationTimestamp");
    (int(revision, "/revision"), created, name(revision))
}

fn decide(revisions: &[Value], data: &Value) -> Decision {
    let is_equal = |index: &usize| revisions[*index].get("data") == Some(data);
    let equal = (0..revisions.len()).filter(is_equal);
    let equal = equal.max_by_key(|index| order(&revisions[*index]));
    let others = (0..revisions.len()).filter(|index| !is_equal(index));
    let newest = others
        .map(|index| int(&revisions[index], "/revision"))
        .max();
    let next = newest.unwrap_or(0).saturating_add(1);
    match equal {
        Some(index) if int(&revisions[index], "/revision") >= next => Decision::Keep(index),
        Some(index) => Decision::Renumber(index, next),
        None => Decision::Create(next),
    }
}

/// The names of the oldest `excess` revisions that are not live.
pub(crate) fn beyond(
    revisions: &[Value],
    excess: usize,
    is_live: impl Fn(&Value) -> bool,
) -> Vec<String> {
    let mut oldest: Vec<&Value> = revisions.iter().filter(|one| !is_live(one)).collect();
    oldest.sort_by_key(|one| order(one));
    let beyond = oldest.into_iter().take(excess);
    beyond.map(|one| name(one).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str, number: i64, image: &str) -> Value {
        json!({
            "metadata": {"name": name}, "revision": number, "data": data_of(&owner(image)),
        })
    }

    fn owner(image: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "x", "namespace": "ns", "uid": "u", "annotations": {"a": "1"}},
            "spec": {"template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            }},
        })
    }

    const NAMING: Naming = Naming {
        index: "i",
        label: "hash",
        hash: |_, _, collisions| format!("h{collisions}"),
    };

    #[test]
    fn equal_data_is_found_again_and_becomes_the_newest() {
        let check = |revisions: &[Value], expected: Decision| {
            assert_eq!(decide(revisions, &data_of(&owner("1"))), expected);
        };
        check(&[], Decision::Create(1));
        check(&[revision("a", 1, "1")], Decision::Keep(0));
        check(&[revision("a", 4, "2")], Decision::Create(5));
        let rolled = [revision("a", 1, "1"), revision("b", 2, "2")];
        check(&rolled, Decision::Renumber(0, 3));
        let twins = [
            revision("a", 1, "1"),
            revision("b", 3, "1"),
            revision("c", 2, "2"),
        ];
        check(&twins, Decision::Keep(1));
    }

    #[test]
    fn a_revision_has_the_template_and_its_labels() {
        let owner = owner("1");
        let body = body(&owner, &data_of(&owner), 7, NAMING, 2);
        assert_eq!(body["metadata"]["name"], "x-h2");
        assert_eq!(
            body["metadata"]["labels"],
            json!({"app": "x", "hash": "h2"})
        );
        assert_eq!(body["metadata"]["annotations"], json!({"a": "1"}));
        assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(body["data"]["spec"]["template"]["$patch"], "replace");
        assert_eq!(body["revision"], 7);
        assert_eq!(Some(&template(&body)), owner.pointer("/spec/template"));
    }

    #[test]
    fn a_long_name_leaves_room_for_the_hash() {
        let mut owner = owner("1");
        owner["metadata"]["name"] = "n".repeat(250).into();
        let body = body(&owner, &data_of(&owner), 1, NAMING, 0);
        assert_eq!(name(&body).len(), MAX_PREFIX + "-h0".len());
    }

    #[test]
    fn the_oldest_that_are_not_live_are_beyond_the_limit() {
        let revisions = [
            revision("c", 3, "3"),
            revision("a", 1, "1"),
            revision("b", 2, "2"),
            revision("d", 4, "4"),
        ];
        let is_live = |one: &Value| name(one) == "a";
        assert_eq!(beyond(&revisions, 2, is_live), ["b", "c"]);
        assert_eq!(beyond(&revisions, 0, is_live), [""; 0]);
        assert_eq!(beyond(&revisions, 9, |_| true), [""; 0]);
    }
}
