//! A model of the cache, built from notifications, and every way in which a notification can
//! contradict an earlier one.
//!
//! ```text
//! Notification | line of `kinform watch -o json` → Delivered → EventModel ──┬─▶ Contradiction
//!                                        the server's list → Truth ─┴─▶ Difference
//! ```
//!
//! A model starts empty and applies one notification at a time. It fails at the first that cannot
//! be true if the earlier ones were: an add of an object that exists, an update or delete of one
//! that does not, an old version that was not shown before, an object that comes again without
//! having gone. At the end it is compared with the server's own list, which is parsed as plain
//! JSON: the model uses no code of kinform, so the two cannot be wrong together.
//! INVARIANT: a notification that contradicts changes nothing.
//!
//! Upstream counterpart: none; `client-go:tools/cache/controller_test.go` (`TestHammerController`)
//! checks the same of one handler.

use std::collections::BTreeMap;
use std::fmt;

use kinform::Notification;
use serde::Deserialize;
use serde_json::Value;

/// The kind of change that a notification reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The object is there and was not.
    Add {
        /// True if the object belongs to the first list.
        initial: bool,
    },
    /// The object changed.
    Update,
    /// The object is gone.
    Delete {
        /// True if the deletion itself was not seen.
        final_state_unknown: bool,
    },
    /// The object is repeated by a resync.
    Sync,
}

/// One notification, as far as a model needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The kind of change.
    pub happened: Happened,
    /// `namespace/name`, or the name.
    pub key: String,
    /// The object's uid.
    pub uid: String,
    /// The reported version.
    pub version: String,
    /// The uid and version that it replaces, if the notification states them.
    pub old: Option<(Option<String>, String)>,
}

/// The reason why a notification cannot be true.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{delivered}: {why}")]
pub struct Contradiction {
    delivered: Delivered,
    why: String,
}

/// The differences between a model and the truth, one line each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Differences(Vec<String>);

/// An object in a model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    uid: String,
    version: String,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} of {}", self.version, self.uid)
    }
}

/// The objects of a resource with uid and version, as the server lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth(BTreeMap<String, Shown>);

/// The objects reported so far.
#[derive(Clone, Debug, Default)]
pub struct EventModel {
    objects: BTreeMap<String, Shown>,
    synced: bool,
    delivered: u64,
    /// The server was restored: versions of one object may go back.
    may_go_back: bool,
    /// Namespaces may be added, whose objects are initial adds at any time.
    may_grow: bool,
}

impl Truth {
    /// Parses a list's JSON. `None` if it is not a list, or an item lacks name, uid or version.
    pub fn of_list(list: &Value) -> Option<Self> {
        let items = list.get("items")?.as_array()?;
        let item = |item: &Value| {
            let metadata = item.get("metadata")?;
            let text = |field: &str| metadata.get(field)?.as_str().map(str::to_owned);
            let shown = Shown {
                uid: text("uid")?,
                version: text("resourceVersion")?,
            };
            Some((key(text("namespace").as_deref(), &text("name")?), shown))
        };
        items.iter().map(item).collect::<Option<_>>().map(Self)
    }

    /// The objects with these keys, uids and versions.
    pub fn of_objects(objects: impl IntoIterator<Item = (String, String, String)>) -> Self {
        let shown = |(key, uid, version)| (key, Shown { uid, version });
        Self(objects.into_iter().map(shown).collect())
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl EventModel {
    /// Applies one notification.
    ///
    /// # Errors
    /// It contradicts an earlier one.
    pub fn draw(&mut self, delivered: &Delivered) -> Result<(), Contradiction> {
        if let Some(why) = self.objection(delivered) {
            return Err(Contradiction {
                delivered: delivered.clone(),
                why,
            });
        }
        self.delivered += 1;
        match delivered.happened {
            Happened::Delete { .. } => {
                self.objects.remove(&delivered.key);
            }
            Happened::Add { .. } | Happened::Update | Happened::Sync => {
                let shown = Shown {
                    uid: delivered.uid.clone(),
                    version: delivered.version.clone(),
                };
                self.objects.insert(delivered.key.clone(), shown);
            }
        }
        Ok(())
    }

    /// Records that the first list is complete.
    ///
    /// # Errors
    /// It was complete before.
    pub fn synced(&mut self) -> Result<(), String> {
        match std::mem::replace(&mut self.synced, true) {
            true => Err("synced was delivered twice".to_owned()),
            false => Ok(()),
        }
    }

    /// From now on a version may be older than the one shown, as after the server was restored.
    pub fn may_go_back(&mut self) {
        self.may_go_back = true;
    }

    /// Namespaces may be added: their objects are initial adds at any time.
    pub fn may_grow(&mut self) {
        self.may_grow = true;
    }

    /// Returns whether the first list was reported complete.
    pub fn has_synced(&self) -> bool {
        self.synced
    }

    /// The number of notifications applied.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Compares the model with the objects that the server has.
    ///
    /// # Errors
    /// Each difference, in the order of keys.
    pub fn compare(&self, truth: &Truth) -> Result<(), Differences> {
        let mut lines = Vec::new();
        for (key, there) in &truth.0 {
            match self.objects.get(key) {
                None => lines.push(format!("{key}: {there} was never shown")),
                Some(shown) if shown != there => {
                    lines.push(format!("{key}: shown is {shown}, the server has {there}"));
                }
                Some(_) => {}
            }
        }
        let gone = self
            .objects
            .iter()
            .filter(|(key, _)| !truth.0.contains_key(*key));
        lines.extend(gone.map(|(key, shown)| format!("{key}: {shown} is shown and gone")));
        if lines.is_empty() {
            return Ok(());
        }
        Err(Differences(lines))
    }

    /// The reason why this cannot be true, if it cannot.
    fn objection(&self, delivered: &Delivered) -> Option<String> {
        if delivered.uid.is_empty() || delivered.version.is_empty() {
            return Some("it has no uid or no version".to_owned());
        }
        let shown = self.objects.get(&delivered.key);
        match (delivered.happened, shown) {
            (Happened::Add { .. }, Some(shown)) => Some(format!("{shown} is there already")),
            (Happened::Add { initial: true }, None) if self.synced && !self.may_grow => {
                Some("an initial add after synced".to_owned())
            }
            (Happened::Add { .. }, None) => None,
            (_, None) => Some("it is not there".to_owned()),
            (_, Some(shown)) if shown.uid != delivered.uid => {
                Some(format!("{shown} was not deleted first"))
            }
            (happened, Some(shown)) => objection_to_version(happened, shown, delivered)
                .or_else(|| {
                    let is_older = is_older(&delivered.version, &shown.version);
                    (is_older && !self.may_go_back).then(|| format!("{shown} is newer"))
                })
                .or_else(|| objection_to_old(shown, delivered)),
        }
    }
}

/// The objection to the reported version of an object that is shown with the same uid.
fn objection_to_version(
    happened: Happened,
    shown: &Shown,
    delivered: &Delivered,
) -> Option<String> {
    let same = shown.version == delivered.version;
    match happened {
        Happened::Update if same => Some("nothing changed".to_owned()),
        Happened::Sync if !same => Some(format!("{shown} is there: that is no repetition")),
        Happened::Delete {
            final_state_unknown: true,
        } if !same => Some(format!("the last state shown was {shown}")),
        _ => None,
    }
}

fn objection_to_old(shown: &Shown, delivered: &Delivered) -> Option<String> {
    match (&delivered.old, delivered.happened) {
        (None, Happened::Update) => Some("an update without the old version".to_owned()),
        (None, _) => None,
        (Some((uid, version)), _) => {
            let known =
                uid.as_ref().is_none_or(|uid| *uid == shown.uid) && *version == shown.version;
            (!known).then(|| format!("its old version is not the one shown, {shown}"))
        }
    }
}

/// Versions of one object are numbers, of any length, that only grow.
fn is_older(version: &str, than: &str) -> bool {
    (version.len(), version) < (than.len(), than)
}

fn key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        None | Some("") => name.to_owned(),
        Some(namespace) => format!("{namespace}/{name}"),
    }
}

impl Delivered {
    /// The notification that a handler or a stream received; `None` for `Synced`.
    pub fn of<K>(notification: &Notification<K>) -> Option<Self> {
        let (happened, old) = match notification {
            Notification::Added(added) => {
                let initial = added.is_initial();
                (Happened::Add { initial }, None)
            }
            Notification::Updated { old, .. } => (Happened::Update, Some(old)),
            Notification::Deleted(deleted) => {
                let final_state_unknown = deleted.is_final_state_unknown();
                (
                    Happened::Delete {
                        final_state_unknown,
                    },
                    None,
                )
            }
            Notification::Sync(_) => (Happened::Sync, None),
            _ => return None,
        };
        let object = notification.object()?;
        Some(Self {
            happened,
            key: key(object.namespace(), object.name()),
            uid: object.uid().to_owned(),
            version: object.resource_version().to_owned(),
            old: old.map(|old| {
                let version = old.resource_version().to_owned();
                (Some(old.uid().to_owned()), version)
            }),
        })
    }
}

impl fmt::Display for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.happened {
            Happened::Add { initial: true } => "initial add",
            Happened::Add { initial: false } => "add",
            Happened::Update => "update",
            Happened::Delete {
                final_state_unknown: true,
            } => "delete (final state unknown)",
            Happened::Delete {
                final_state_unknown: false,
            } => "delete",
            Happened::Sync => "sync",
        };
        write!(f, "{what} {} {} at {}", self.key, self.uid, self.version)?;
        match &self.old {
            Some((_, old)) => write!(f, " from {old}"),
            None => Ok(()),
        }
    }
}

/// A line of `kinform watch -o json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A notification.
    Delivered(Delivered),
    /// The first list is complete.
    Synced,
    /// A request failed: reason and message.
    Trouble(String, String),
    /// The last line.
    Summary,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLine {
    event: String,
    initial: Option<bool>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    old_resource_version: Option<String>,
    final_state_unknown: Option<bool>,
    reason: Option<String>,
    message: Option<String>,
}

impl Line {
    /// Parses a line.
    ///
    /// # Errors
    /// The line does not follow the contract.
    pub fn read(line: &str) -> Result<Self, String> {
        let bad = |why: &dyn fmt::Display| format!("{why}: {line}");
        let raw: RawLine = serde_json::from_str(line).map_err(|error| bad(&error))?;
        let happened = match raw.event.as_str() {
            "synced" => return Ok(Self::Synced),
            "summary" => return Ok(Self::Summary),
            "error" => {
                let (reason, message) = (raw.reason.unwrap_or_default(), raw.message);
                return Ok(Self::Trouble(reason, message.unwrap_or_default()));
            }
            "add" => Happened::Add {
                initial: raw.initial.ok_or_else(|| bad(&"initial is missing"))?,
            },
            "update" => Happened::Update,
            "delete" => Happened::Delete {
                final_state_unknown: raw
                    .final_state_unknown
                    .ok_or_else(|| bad(&"finalStateUnknown is missing"))?,
            },
            _ => return Err(bad(&"an unknown event")),
        };
        let name = raw.name.ok_or_else(|| bad(&"name is missing"))?;
        Ok(Self::Delivered(Delivered {
            happened,
            key: key(raw.namespace.as_deref(), &name),
            uid: raw.uid.ok_or_else(|| bad(&"uid is missing"))?,
            version: raw
                .resource_version
                .ok_or_else(|| bad(&"resourceVersion is missing"))?,
            old: raw.old_resource_version.map(|version| (None, version)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `add a u 1`, `init a u 1`, `update a u 2 from 1`, `delete a u 3`, `lost a u 2`, `sync a u 1`.
    fn delivered(text: &str) -> Delivered {
        let words: Vec<&str> = text.split(' ').collect();
        let happened = match words[0] {
            "add" => Happened::Add { initial: false },
            "init" => Happened::Add { initial: true },
            "update" => Happened::Update,
            "delete" | "lost" => Happened::Delete {
                final_state_unknown: words[0] == "lost",
            },
            _ => Happened::Sync,
        };
        Delivered {
            happened,
            key: words[1].to_owned(),
            uid: words[2].to_owned(),
            version: words[3].to_owned(),
            old: words.get(5).map(|old| (None, (*old).to_owned())),
        }
    }

    fn check(texts: &[&str], expected: Option<&str>) {
        let mut picture = EventModel::default();
        let mut end = None;
        for text in texts {
            assert!(end.is_none(), "{texts:?}: {end:?}");
            end = picture.draw(&delivered(text)).err().map(|error| error.why);
        }
        let found = match (&end, expected) {
            (Some(why), Some(part)) => why.contains(part),
            (end, part) => end.is_none() && part.is_none(),
        };
        assert!(found, "{texts:?}: {end:?}, expected {expected:?}");
    }

    #[test]
    fn what_can_be_true_is_drawn() {
        check(
            &[
                "init a u 1",
                "update a u 2 from 1",
                "sync a u 2",
                "delete a u 3",
                "add a v 4",
            ],
            None,
        );
        check(
            &[
                "add a u 9",
                "update a u 10 from 9",
                "lost a u 10",
                "add a v 4",
            ],
            None,
        );
    }

    #[test]
    fn what_cannot_be_true_is_not() {
        check(&["add a u 1", "add a u 1"], Some("there already"));
        check(&["update a u 1 from 0"], Some("not there"));
        check(&["delete a u 1"], Some("not there"));
        check(
            &["add a u 1", "delete a u 2", "delete a u 2"],
            Some("not there"),
        );
        check(&["add a u 1", "update a u 2 from 0"], Some("old version"));
        check(&["add a u 1", "update a u 2"], Some("without the old"));
        check(
            &["add a u 1", "update a v 2 from 1"],
            Some("not deleted first"),
        );
        check(&["add a u 1", "delete a v 2"], Some("not deleted first"));
        check(
            &["add a u 1", "update a u 1 from 1"],
            Some("nothing changed"),
        );
        check(&["add a u 10", "update a u 9 from 10"], Some("newer"));
        check(&["add a u 1", "lost a u 2"], Some("last state"));
        check(&["add a u 1", "sync a u 2"], Some("repetition"));
    }

    #[test]
    fn the_beginning_ends_once() {
        let mut picture = EventModel::default();
        picture.synced().unwrap();
        assert!(picture.synced().is_err());
        assert!(picture.draw(&delivered("init a u 1")).is_err());
        picture.draw(&delivered("add a u 1")).unwrap();
    }

    #[test]
    fn each_difference_has_a_line() {
        let item = |name: &str, uid: &str, version: &str| {
            serde_json::json!({"metadata":
                {"namespace": "n", "name": name, "uid": uid, "resourceVersion": version}})
        };
        let items = [
            item("a", "u", "1"),
            item("b", "v", "2"),
            item("c", "w", "3"),
        ];
        let truth = Truth::of_list(&serde_json::json!({ "items": items })).unwrap();
        let mut picture = EventModel::default();
        for text in ["add n/a u 1", "add n/b x 2", "add n/d y 1"] {
            picture.draw(&delivered(text)).unwrap();
        }
        let delivered = picture.compare(&truth).unwrap_err().to_string();
        let keys: Vec<&str> = delivered.lines().map(|line| &line[..3]).collect();
        assert_eq!(keys, ["n/b", "n/c", "n/d"], "{delivered}");
    }

    #[test]
    fn lines_are_read() {
        let line = r#"{"event":"update","time":"t","initial":null,"namespace":"a","name":"x","uid":"u",
            "resourceVersion":"3","oldResourceVersion":"2","finalStateUnknown":null}"#;
        assert_eq!(
            Line::read(line),
            Ok(Line::Delivered(delivered("update a/x u 3 from 2")))
        );
        assert_eq!(Line::read(r#"{"event":"synced"}"#), Ok(Line::Synced));
        assert!(Line::read(r#"{"event":"add","name":"x"}"#).is_err());
        assert!(Line::read("hello").is_err());
    }
}
