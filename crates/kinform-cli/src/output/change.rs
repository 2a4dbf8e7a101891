//! Changes on stdout, in the requested form.
//!
//! ```text
//! Notification → json: a Line | wide: a padded line | diff: a head and the changed fields
//! ```
//!
//! Written through a buffer; [`Printer::flush`] when no further change is ready, so that a reader
//! sees each change soon and a burst costs few system calls.

use std::time::Duration;

use clap::ValueEnum;
use jiff::Timestamp;
use kinform::{Notification, Obj};
use kinform_core::delta::{Quarantine, QuarantineOrigin};
use kube_core::DynamicObject;
use serde::Serialize;
use serde_json::Value;

use super::diff::Differ;
use super::line::{Event, Line};
use super::table::padded;
use crate::catalogue::ResourceEntry;
use crate::exit::Failure;
use crate::terminal::{Out, escaped_json};

/// Columns of `wide`: time, event, type, key, version.
const WIDTHS: [usize; 5] = [12, 6, 20, 40, 10];

/// The output formats of `watch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WatchOutput {
    /// One JSON object a line
    Json,
    /// One padded line a change
    Wide,
    /// The changed fields; secrets' values as digests
    Diff,
}

/// The words for changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventWords {
    /// As handlers hear them: ADD, UPDATE, DELETE.
    Handler,
    /// As a server sends them: ADDED, MODIFIED, DELETED; in JSON, events with their objects.
    Server,
}

/// A change of an object, as far as it is printed.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) event: Event,
    pub(crate) object: &'a Obj<DynamicObject>,
    /// The state before an update.
    pub(crate) old: Option<&'a Obj<DynamicObject>>,
    pub(crate) initial: Option<bool>,
    pub(crate) final_state_unknown: Option<bool>,
}

impl<'a> Change<'a> {
    /// A notification that tells of an object.
    pub(crate) fn of(notification: &'a Notification<DynamicObject>) -> Option<Self> {
        let change = |event, object| Self {
            event,
            object,
            old: None,
            initial: None,
            final_state_unknown: None,
        };
        Some(match notification {
            Notification::Added(added) => Self {
                initial: Some(added.is_initial()),
                ..change(Event::Add, added.object())
            },
            Notification::Updated { old, new } => Self {
                old: Some(old),
                ..change(Event::Update, new)
            },
            Notification::Deleted(deleted) => Self {
                final_state_unknown: Some(deleted.is_final_state_unknown()),
                ..change(Event::Delete, deleted.object())
            },
            // A resync is no change, and this command requests none.
            _ => return None,
        })
    }
}

/// Writes changes to stdout.
#[derive(Debug)]
pub(crate) struct Printer {
    form: WatchOutput,
    words: EventWords,
    out: Out,
    differ: Differ,
}

impl Printer {
    /// Writes in this form.
    pub(crate) fn new(form: WatchOutput, words: EventWords) -> Self {
        Self {
            form,
            words,
            out: Out::stdout(),
            differ: Differ::default(),
        }
    }

    /// Returns whether lines of JSON are written that are no events of a server.
    fn is_told(&self) -> bool {
        self.form == WatchOutput::Json && self.words == EventWords::Handler
    }

    /// Writes text as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.out.text(text)?;
        Ok(())
    }

    /// Flushes the buffer to the reader.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        // A slow reader blocks this thread; other tasks may continue on others.
        tokio::task::block_in_place(|| self.out.flush())?;
        Ok(())
    }

    /// Writes one object as a line of JSON.
    pub(crate) fn json(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        let mut json = serde_json::to_string(line).map_err(std::io::Error::from)?;
        json.push('\n');
        self.out.text(&escaped_json(&json))?;
        Ok(())
    }

    /// Prints a change.
    pub(crate) fn change(
        &mut self,
        entry: &ResourceEntry,
        change: &Change<'_>,
    ) -> Result<(), Failure> {
        let Change {
            event, object, old, ..
        } = *change;
        match (self.form, self.words) {
            (WatchOutput::Json, EventWords::Server) => self.frame(change),
            (WatchOutput::Json, EventWords::Handler) => {
                let mut line = of_type(entry, Line::new(event, time(&Timestamp::now())));
                line.namespace = object.namespace().map(str::to_owned);
                line.name = Some(object.name().to_owned());
                line.uid = Some(object.uid().to_owned());
                line.resource_version = Some(object.resource_version().to_owned());
                line.old_resource_version = old.map(|old| old.resource_version().to_owned());
                line.initial = change.initial;
                line.final_state_unknown = change.final_state_unknown;
                self.json(&line)
            }
            (WatchOutput::Wide, _) => self.wide(entry, event, object),
            (WatchOutput::Diff, _) => self.diff(entry, event, object, old),
        }
    }

    /// An event of a server, as `kubectl get --watch -o json --output-watch-events` prints it.
    fn frame(&mut self, change: &Change<'_>) -> Result<(), Failure> {
        let object = serde_json::from_slice::<Value>(&change.object.to_json());
        let object = object.map_err(std::io::Error::from)?;
        let kind = word(change.event, EventWords::Server);
        self.json(&serde_json::json!({"type": kind, "object": object}))
    }

    fn wide(
        &mut self,
        entry: &ResourceEntry,
        event: Event,
        object: &Obj<DynamicObject>,
    ) -> Result<(), Failure> {
        let cells = [
            clock(&Timestamp::now()),
            word(event, self.words).to_owned(),
            entry.title(),
            object.key().to_string(),
            object.resource_version().to_owned(),
        ];
        self.out.text(&(padded(&cells, &WIDTHS) + "\n"))?;
        Ok(())
    }

    fn diff(
        &mut self,
        entry: &ResourceEntry,
        event: Event,
        object: &Obj<DynamicObject>,
        old: Option<&Obj<DynamicObject>>,
    ) -> Result<(), Failure> {
        self.wide(entry, event, object)?;
        let Some(old) = old else { return Ok(()) };
        let read = |object: &Obj<DynamicObject>| serde_json::from_slice::<Value>(&object.to_json());
        // Stored objects were validated when they came; only a number out of range could fail here.
        let (Ok(before), Ok(after)) = (read(old), read(object)) else {
            return Ok(());
        };
        for field in self.differ.fields(&entry.kind, &before, &after) {
            let side = |value: Option<String>| value.unwrap_or_else(|| "(absent)".to_owned());
            let (path, before) = (field.path, side(field.before));
            let after = side(field.after);
            self.out
                .text(&format!("    {path}   {before} → {after}\n"))?;
        }
        Ok(())
    }

    /// Prints that a type's first list is complete.
    pub(crate) fn synced(&mut self, entry: &ResourceEntry, version: &str) -> Result<(), Failure> {
        if !self.is_told() {
            return Ok(());
        }
        let mut line = of_type(entry, Line::new(Event::Synced, time(&Timestamp::now())));
        line.resource_version = Some(version.to_owned());
        self.json(&line)
    }

    /// Prints a failure that will be retried.
    pub(crate) fn error(
        &mut self,
        entry: &ResourceEntry,
        at: &Timestamp,
        reason: &str,
        message: &str,
        retry_in: Option<Duration>,
    ) -> Result<(), Failure> {
        if !self.is_told() {
            return Ok(());
        }
        let mut line = of_type(entry, Line::new(Event::Error, time(at)));
        line.reason = Some(reason.to_owned());
        line.message = Some(message.to_owned());
        line.retry_in_ms =
            retry_in.map(|retry| u64::try_from(retry.as_millis()).unwrap_or(u64::MAX));
        self.json(&line)
    }

    /// Prints an object that is quarantined until its next version.
    pub(crate) fn unreadable(
        &mut self,
        entry: &ResourceEntry,
        at: &Timestamp,
        object: &Quarantine,
    ) -> Result<(), Failure> {
        let message = left_out(object);
        let rest = match object.origin {
            QuarantineOrigin::Duplicate => "",
            _ => "; it is left out until its next version",
        };
        crate::progress!("{}: {message}{rest}", entry.title());
        if !self.is_told() {
            return Ok(());
        }
        let mut line = of_type(entry, Line::new(Event::Error, time(at)));
        let key = object.key.as_ref();
        line.namespace = key.and_then(|key| key.namespace()).map(str::to_owned);
        line.name = key.map(|key| key.name().to_owned());
        line.resource_version.clone_from(&object.version);
        let reason = match object.origin {
            QuarantineOrigin::Duplicate => "Duplicate",
            _ => "Undecodable",
        };
        line.reason = Some(reason.to_owned());
        line.message = Some(message);
        self.json(&line)
    }
}

fn of_type(entry: &ResourceEntry, mut line: Line) -> Line {
    line.group = Some(entry.gvr.group.clone());
    line.version = Some(entry.gvr.version.clone());
    line.resource = Some(entry.gvr.resource.clone());
    line
}

/// The word for a change.
pub(crate) fn word(event: Event, words: EventWords) -> &'static str {
    match (event, words) {
        (Event::Add, EventWords::Handler) => "ADD",
        (Event::Update, EventWords::Handler) => "UPDATE",
        (Event::Delete, EventWords::Handler) => "DELETE",
        (Event::Add, EventWords::Server) => "ADDED",
        (Event::Update, EventWords::Server) => "MODIFIED",
        (Event::Delete, EventWords::Server) => "DELETED",
        (Event::Synced, _) => "SYNCED",
        (Event::Error, _) => "ERROR",
        (Event::Summary, _) => "SUMMARY",
    }
}

/// RFC 3339 with microseconds.
fn time(at: &Timestamp) -> String {
    format!("{at:.6}")
}

/// The time of day, in UTC, with milliseconds.
fn clock(at: &Timestamp) -> String {
    at.strftime("%H:%M:%S%.3f").to_string()
}

/// One line about a quarantined object.
pub(crate) fn left_out(object: &Quarantine) -> String {
    let key = object.key.as_ref();
    let shown = key.map_or_else(|| "an object".to_owned(), ToString::to_string);
    let Quarantine { path, reason, .. } = object;
    match object.origin {
        QuarantineOrigin::Duplicate => format!("{shown} {reason}"),
        _ => format!("{shown} cannot be read at {path}: {reason}"),
    }
}
