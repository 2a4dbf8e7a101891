//! A recorded story: what a user did, and what watches saw in between.
//!
//! ```text
//! testdata/controlplane/NAME.jsonl ─▶ steps: a request, the changes after it, up to the next request
//! ```

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

/// A change of an object, as a watch told it.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// Plural of the resource.
    pub(super) resource: String,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub(super) kind: String,
    pub(super) object: Value,
}

/// A request of the user, or a note about what the recorder did by itself.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) content_type: String,
    pub(super) body: Value,
    pub(super) status: u16,
}

impl Act {
    /// Returns whether no request was sent.
    pub(super) fn is_note(&self) -> bool {
        self.status == 0
    }
}

/// A request and what followed.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) at: Duration,
    pub(super) act: Act,
    pub(super) changes: Vec<Change>,
}

/// A whole story.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) namespace: String,
    pub(super) steps: Vec<Step>,
    /// The time of its last line.
    pub(super) end: Duration,
}

fn act(line: &Value) -> Act {
    let (method, path) = line["client"].as_str().unwrap().split_once(' ').unwrap();
    let content_type = line["contentType"].as_str().unwrap_or("application/json");
    Act {
        method: method.to_owned(),
        path: path.to_owned(),
        content_type: content_type.to_owned(),
        body: line["body"].clone(),
        status: u16::try_from(line["status"].as_u64().unwrap_or(0)).unwrap(),
    }
}

impl Story {
    pub(super) fn read(name: &str) -> Self {
        let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        path.push(format!("../../testdata/controlplane/{name}.jsonl"));
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let head = lines.next().unwrap();
        let mut story = Self {
            namespace: head["namespace"].as_str().unwrap().to_owned(),
            steps: Vec::new(),
            end: Duration::ZERO,
        };
        let mut changes = Vec::new();
        for mut line in lines {
            let at = Duration::from_secs_f64(line["t"].as_f64().unwrap());
            story.end = story.end.max(at);
            if line["client"].is_string() {
                let (act, changes) = (act(&line), Vec::new());
                story.steps.push(Step { at, act, changes });
                continue;
            }
            let change = Change {
                resource: line["resource"].as_str().unwrap().to_owned(),
                kind: line["type"].as_str().unwrap().to_owned(),
                object: line["object"].take(),
            };
            changes.push((at, change));
        }
        // Lines are in the order of versions; the request of a delete has none.
        for (at, change) in changes {
            let step = story.steps.iter_mut().rev().find(|step| step.at <= at);
            step.unwrap().changes.push(change);
        }
        story
    }

    /// The same story, this many times as slow.
    pub(super) fn slower(mut self, times: u32) -> Self {
        for step in &mut self.steps {
            step.at *= times;
        }
        self.end *= times;
        self
    }

    /// The resources whose changes were recorded.
    pub(super) fn resources(&self) -> Vec<String> {
        let changes = self.steps.iter().flat_map(|step| &step.changes);
        let mut all: Vec<_> = changes.map(|change| change.resource.clone()).collect();
        all.sort();
        all.dedup();
        all
    }
}
