//! `kinform diff`: what changes in one object from now on.
//!
//! ```text
//! the object now ─┐
//! its last version ┴─ compared at the end of the time ──▶ changed fields, exit code 0 (none) or 1
//! --attach: attached.rs
//! ```
//!
//! Noise is left out and secrets' values are digests, as in `watch -o diff`. A change that was taken
//! back is no difference; stderr says how many versions there were.
//!
//! Upstream counterpart: the exit codes of `kubectl diff`.

mod attached;

use futures::StreamExt as _;
use kinform::source::Wire;
use kinform::{InformerFactory, Notification};
use kube_core::DynamicObject;
use serde::Serialize;
use serde_json::Value;

use crate::args::looking::{DiffArgs, LineOutput};
use crate::exit::{Ending, Failure};
use crate::one::One;
use crate::output::diff::{Differ, Field};
use crate::signals::Signals;
use crate::sync::synced;
use crate::terminal::{Out, escaped_json};
use crate::watch::{elapsed, failure};

/// Watches the object and prints the difference.
pub(crate) async fn run(args: DiffArgs) -> Result<Ending, Failure> {
    if let Some(program) = args.attach.clone() {
        return attached::run(args, &program).await;
    }
    let mut signals = Signals::listen()?;
    let mut elapsed = Box::pin(elapsed(args.run_for));
    let one = tokio::select! {
        biased;
        ending = signals.ending() => return Ok(ending),
        () = &mut elapsed => return Ok(Ending::NeverSynced),
        one = One::find(&args.of) => one?,
    };
    let factory = InformerFactory::builder(one.connection.client.clone())
        .wire(Wire::Json)
        .build();
    let info = one
        .connection
        .info(&one.entry, &one.select, Some(&one.name));
    let informer = factory.select::<DynamicObject>(info).build();
    let mut changes = informer.changes().map_err(failure)?;
    factory.start().map_err(failure)?;
    let first = without_managers(&one.object);
    let mut seen = Seen {
        last: first.clone(),
        versions: 0,
        is_there: false,
        is_synced: false,
    };
    let ending = {
        let mut syncing = Box::pin(synced(&informer));
        loop {
            tokio::select! {
                biased;
                ending = signals.ending() => break ending,
                () = &mut elapsed => break Ending::Done,
                change = changes.next() => match change {
                    Some(change) => seen.hear(&one, &change)?,
                    None => break Ending::Done,
                },
                result = &mut syncing, if !seen.is_synced => {
                    result?;
                    seen.is_synced = true;
                }
            }
        }
    };
    factory
        .shutdown_within(std::time::Duration::from_secs(1))
        .await;
    crate::progress!(
        "{} new versions of {} {:?}",
        seen.versions,
        one.entry.title(),
        one.name
    );
    let fields = Differ::default().fields(&one.entry.kind, &first, &seen.last);
    print(args.output, &fields)?;
    match (ending, fields.is_empty()) {
        (Ending::Done, false) => Err(Failure::said(1)),
        (ending, _) => Ok(ending),
    }
}

struct Seen {
    last: Value,
    versions: u64,
    /// The watch has shown the object.
    is_there: bool,
    is_synced: bool,
}

impl Seen {
    fn hear(&mut self, one: &One, change: &Notification<DynamicObject>) -> Result<(), Failure> {
        let object = match change {
            Notification::Added(added) => added.object(),
            Notification::Updated { new, .. } => new,
            Notification::Deleted(_) => return Err(one.gone()),
            // It was deleted between the first read and the watch.
            Notification::Synced if !self.is_there => return Err(one.gone()),
            _ => return Ok(()),
        };
        self.is_there = true;
        let object = serde_json::from_slice::<Value>(&object.to_json());
        let object = object.map_err(|error| Failure::new(format!("{}: {error}", one.name)))?;
        if object.pointer("/metadata/uid") != self.last.pointer("/metadata/uid") {
            return Err(one.gone());
        }
        if object.pointer("/metadata/resourceVersion")
            != self.last.pointer("/metadata/resourceVersion")
        {
            self.versions += 1;
        }
        self.last = object;
        Ok(())
    }
}

/// The object as a cache keeps it.
fn without_managers(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}

/// A line of `-o json`.
#[derive(Serialize)]
struct Line<'a> {
    path: &'a str,
    before: Option<&'a str>,
    after: Option<&'a str>,
}

fn print(output: LineOutput, fields: &[Field]) -> Result<(), Failure> {
    let mut out = Out::stdout();
    for field in fields {
        let text = match output {
            LineOutput::Wide => {
                let side =
                    |value: &Option<String>| value.clone().unwrap_or_else(|| "(absent)".to_owned());
                format!(
                    "{}   {} → {}",
                    field.path,
                    side(&field.before),
                    side(&field.after)
                )
            }
            LineOutput::Json => {
                let line = Line {
                    path: &field.path,
                    before: field.before.as_deref(),
                    after: field.after.as_deref(),
                };
                let json = serde_json::to_string(&line).map_err(std::io::Error::from)?;
                escaped_json(&json).into_owned()
            }
        };
        out.text(&(text + "\n"))?;
    }
    out.flush()?;
    Ok(())
}
