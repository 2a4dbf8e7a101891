//! One invalid write, the same for every server.
//!
//! ```text
//! dice, subject ──▶ Write ──with what a server stored──▶ Sent
//! ```
//!
//! All writes are dry runs: a server that accepts one does not change.

use kinform_testkit::checks::stage::StageError;
use serde_json::{Value, json};

use super::change::{self, Edit};
use super::object::{Sent, Subject};
use crate::dice::Dice;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

/// Queries with a parameter that the server rejects.
const QUERIES: [&str; 6] = [
    "dryRun=Some",
    "dryRun=All&fieldValidation=Maybe",
    "dryRun=All&fieldManager=%00",
    "dryRun=All&force=true",
    "dryRun=All&dryRun=Most",
    "dryRun=All&fieldManager=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

/// Selectors, most of them malformed.
const SELECTORS: [&str; 14] = [
    "labelSelector=a%20in",
    "labelSelector=a%20in%20(b",
    "labelSelector=%21",
    "labelSelector=a%3D%3D%3Db",
    "labelSelector=a%3E%3Db",
    "labelSelector=a%2Fb%2Fc",
    "labelSelector=a%3D-b-",
    "labelSelector=Not%20Valid%21",
    "labelSelector=a%20notin%20()",
    "labelSelector=x%3Ey",
    "fieldSelector=spec.bogus%3D1",
    "fieldSelector=metadata.name",
    "fieldSelector=metadata.name%3E1",
    "fieldSelector=metadata.name%3Da%2Cmetadata.labels%3Db",
];

/// The kind of invalid write.
#[derive(Clone, Debug)]
enum How {
    Create(Edit),
    Update(Edit),
    /// Of the part below this, by a patch of this type.
    Patch(Edit, &'static str),
    /// A JSON patch.
    Operations(Value),
    Delete(Value),
    Collection(&'static str),
    /// A write that only its query makes invalid.
    Query(&'static str),
}

/// One invalid write.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// The subject's index in the list of all.
    pub(super) subject: usize,
    /// The write in a word or two: `pod update remove:spec.containers`.
    pub(super) name: String,
    query: String,
    how: How,
}

impl Write {
    /// A random write of a subject; `stored` is the first server's object.
    pub(super) fn of(dice: &mut Dice, at: usize, subject: &Subject, stored: &Value) -> Self {
        let (how, word) = match dice.below(if subject.is_stored { 16 } else { 6 }) {
            0 => (How::Create(Edit::of_identity(dice)), "create"),
            1..6 => (How::Create(Edit::of(dice, &subject.given, &[])), "create"),
            6 => (How::Update(Edit::of_identity(dice)), "update"),
            7..10 => (How::Update(Edit::of(dice, stored, OWN)), "update"),
            10..13 => (patch(dice, subject, stored), "patch"),
            13 => (How::Delete(options(dice)), "delete"),
            14 => (How::Collection(dice.pick(&SELECTORS)), "deletecollection"),
            _ => (How::Query(dice.pick(&QUERIES)), "update"),
        };
        let (what, about_members) = match &how {
            How::Create(edit) | How::Update(edit) => (edit.to_string(), edit.is_about_members()),
            How::Patch(edit, media) => {
                let kind = media.trim_start_matches("application/");
                let kind = kind.trim_end_matches("-patch+json");
                (format!("{kind} {edit}"), edit.is_about_members())
            }
            How::Operations(operations) => (operations.to_string(), false),
            How::Delete(options) => (options.to_string(), false),
            How::Collection(words) | How::Query(words) => ((*words).to_owned(), false),
        };
        let validation = match about_members {
            true => dice.pick(&["Strict", "Warn", "", "Ignore"]),
            false => dice.pick(&["", "", "", "Strict"]),
        };
        let query = match (&how, validation) {
            (How::Query(query), _) => (*query).to_owned(),
            (How::Collection(_) | How::Delete(_), _) | (_, "") => "dryRun=All".to_owned(),
            (_, validation) => format!("dryRun=All&fieldValidation={validation}"),
        };
        Self {
            subject: at,
            name: format!("{} {word} {what}", subject.name),
            query,
            how,
        }
    }

    /// The request, for the server that has `stored`.
    pub(super) fn on(&self, subject: &Subject, stored: &Value) -> Result<Sent, StageError> {
        let one = format!("{}?{}", subject.path(), self.query);
        let collection = format!("{}?{}", subject.collection, self.query);
        let (method, path, media, body) = match &self.how {
            How::Create(edit) => {
                let mut given = subject.given.clone();
                if subject.is_stored {
                    let name = given["metadata"]["name"].as_str().unwrap_or_default();
                    given["metadata"]["name"] = json!(format!("{name}-n"));
                }
                ("POST", collection, JSON, change::text(&edit.on(&given)))
            }
            How::Update(edit) => ("PUT", one, JSON, change::text(&edit.on(stored))),
            How::Patch(edit, media) => {
                let body = part(edit, &edit.on(stored));
                ("PATCH", one, *media, change::text(&body))
            }
            How::Operations(operations) => ("PATCH", one, OPERATIONS, operations.to_string()),
            How::Delete(options) => ("DELETE", subject.path(), JSON, options.to_string()),
            How::Collection(selector) => {
                let path = format!("{collection}&{selector}");
                ("DELETE", path, JSON, String::new())
            }
            How::Query(_) => ("PUT", one, JSON, stored.to_string()),
        };
        Ok(Sent {
            method,
            path,
            media,
            body,
        })
    }
}

/// Members that a server chooses; [`Edit::of_identity`] makes the changes of them.
const OWN: &[&str] = &[
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/creationTimestamp",
];

/// A patch that brings a changed part of an object, or operations on it.
fn patch(dice: &mut Dice, subject: &Subject, stored: &Value) -> How {
    let mut parts = stored.clone();
    if let Some(parts) = parts.as_object_mut() {
        parts.remove("status");
    }
    let skips = [OWN, &["/metadata", "/spec", "/metadata/managedFields"]].concat();
    let edit = Edit::of(dice, &parts, &skips);
    let is_custom = subject.name == "gadget";
    match dice.below(4) {
        0 => {
            let operation =
                dice.pick(&["replace", "add", "remove", "test", "move", "copy", "jump"]);
            let from = dice.pick(&["/metadata/name", "/spec", "/none", "none"]);
            How::Operations(json!([{"op": operation, "path": edit.at(), "from": from,
                "value": change::scalar(dice)}]))
        }
        1 => How::Patch(edit, MERGE),
        _ => How::Patch(edit, if is_custom { MERGE } else { STRATEGIC }),
    }
}

/// The part of a changed object that a patch needs: the changed member, or the one of its metadata.
fn part(edit: &Edit, object: &Value) -> Value {
    let top = edit.top();
    if top != "metadata" {
        return json!({ top: object[top] });
    }
    let name = edit.at().split('/').nth(2).unwrap_or_default();
    json!({"metadata": {name: object["metadata"][name]}})
}

fn options(dice: &mut Dice) -> Value {
    let mut options = [
        json!({"propagationPolicy": "Sideways"}),
        json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
        json!({"propagationPolicy": 1}),
        json!({"gracePeriodSeconds": -5}),
        json!({"gracePeriodSeconds": "soon"}),
        json!({"preconditions": {"uid": "other"}}),
        json!({"preconditions": {"resourceVersion": "1"}}),
        json!({"preconditions": {"resourceVersion": "many"}}),
        json!({"preconditions": []}),
        json!({"kind": "Pod", "apiVersion": "v1"}),
        json!({"kind": "DeleteOptions", "apiVersion": "v9"}),
        json!({"dryRun": "All"}),
        json!({"dryRun": ["Half"]}),
        json!({"dryRun": ["All", "Half"]}),
    ];
    let mut options = options[dice.below(14) as usize].take();
    if options["dryRun"].is_null() {
        options["dryRun"] = json!(["All"]);
    }
    options
}
