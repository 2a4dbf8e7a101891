//! `kinform story`: an object and what it owns, as they change, one line a fact.
//!
//! ```text
//! TYPE/NAME → types of its tree, workloads, events → informers → Family (who belongs) → Teller → lines
//! ```
//!
//! Types that own or are owned now are watched, and those that workloads consist of; `--types` adds
//! others. A type that this user may not watch is named once and left out. The story ends with the
//! object: the exit code is then 1.
//!
//! * `facts.rs`: two versions to facts, pure; `family.rs`: which objects belong, pure.
//!
//! Upstream counterpart: none; the idea is kubespy's `trace`.

mod facts;
mod family;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream, FuturesUnordered};
use jiff::Timestamp;
use kinform::source::Wire;
use kinform::{Informer, InformerFactory, Notification, Obj};
use kube_core::DynamicObject;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use self::facts::{Teller, of_event};
use self::family::Family;
use crate::args::looking::{LineOutput, StoryArgs};
use crate::catalogue::ResourceEntry;
use crate::discovery::Discovery;
use crate::exit::{Ending, Failure};
use crate::one::{One, text};
use crate::output::table::padded;
use crate::signals::Signals;
use crate::sync::synced;
use crate::terminal::{Out, escaped_json};
use crate::tree::scan::{is_of_interest, scan};
use crate::watch::{elapsed, failure};

/// Types that workloads consist of, as `plural.group`.
const WORKLOADS: [(&str, &str); 9] = [
    ("deployments", "apps"),
    ("replicasets", "apps"),
    ("statefulsets", "apps"),
    ("daemonsets", "apps"),
    ("jobs", "batch"),
    ("cronjobs", "batch"),
    ("pods", ""),
    ("persistentvolumeclaims", ""),
    ("services", ""),
];
/// The time that is waited for the end of what the object owned.
const EPILOGUE: Duration = Duration::from_secs(2);
/// Columns of a line: time, object.
const WIDTHS: [usize; 2] = [12, 44];

/// A change, with the place of its type.
type Heard = (usize, Notification<DynamicObject>);

/// Tells the story until a signal, the end of the time, or the end of the object.
pub(crate) async fn run(args: StoryArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let mut elapsed = Box::pin(elapsed(args.run_for));
    let (one, types) = tokio::select! {
        biased;
        ending = signals.ending() => return Ok(ending),
        () = &mut elapsed => return Ok(Ending::NeverSynced),
        found = set_up(&args) => found?,
    };
    let factory = InformerFactory::builder(one.connection.client.clone())
        .wire(Wire::Json)
        .build();
    let informers: Vec<Informer<DynamicObject>> = types
        .iter()
        .map(|entry| {
            let info = one.connection.info(entry, &one.select, None);
            factory.select::<DynamicObject>(info).build()
        })
        .collect();
    let mut heard = listen(&informers)?;
    factory.start().map_err(failure)?;
    let mut syncing: FuturesUnordered<_> = informers.iter().map(synced).collect();
    let mut story = Story::new(&args, &one, &types);
    let outcome = loop {
        let over = story.over;
        tokio::select! {
            biased;
            ending = signals.ending() => break Ok(ending),
            () = &mut elapsed => break Ok(Ending::Done),
            () = until(over) => break Err(one.gone()),
            Some(result) = syncing.next() => if let Err(failure) = result {
                let (message, _) = failure.parts();
                crate::progress!("left out: {message}");
                if message.starts_with(&informers[0].resource().to_string()) {
                    break Err(failure);
                }
            },
            batch = heard.next() => {
                let Some(batch) = batch else { break Ok(Ending::Done) };
                for (place, change) in batch {
                    story.hear(place, &change)?;
                }
                story.out.flush()?;
                if story.over.is_some() && story.family.len() == 0 {
                    break Err(one.gone());
                }
            }
        }
    };
    drop(syncing);
    factory.shutdown_within(Duration::from_secs(1)).await;
    outcome
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// The object, and the types to watch: its own first.
async fn set_up(args: &StoryArgs) -> Result<(One, Vec<ResourceEntry>), Failure> {
    let one = One::find(&args.of).await?;
    let discovery = Discovery::new(&one.connection.client, &one.connection.address);
    let catalogue = discovery.everything().await?;
    let all: Vec<ResourceEntry> = catalogue
        .readable()
        .into_iter()
        .filter(|entry| is_of_interest(entry))
        .cloned()
        .collect();
    let found = scan(&one.connection.client, &all, one.namespace().as_deref()).await;
    let mut owned = HashSet::from([text(&one.object, "/metadata/uid").to_owned()]);
    let mut kinds = HashSet::new();
    loop {
        let before = owned.len();
        for node in &found.nodes {
            if node.owners.iter().any(|owner| owned.contains(&owner.uid))
                && owned.insert(node.uid.clone())
            {
                kinds.insert(node.kind);
            }
        }
        if owned.len() == before {
            break;
        }
    }
    let is_workload = |entry: &ResourceEntry| {
        WORKLOADS.contains(&(entry.gvr.resource.as_str(), entry.gvr.group.as_str()))
    };
    let mut types = vec![one.entry.clone()];
    types.extend(one.connection.resolve(&args.types).await?);
    types.extend(
        all.iter()
            .enumerate()
            .filter(|(kind, entry)| kinds.contains(kind) || is_workload(entry))
            .map(|(_, entry)| entry.clone()),
    );
    let events = catalogue
        .readable()
        .into_iter()
        .find(|entry| is_events(entry))
        .cloned();
    types.extend(events);
    let mut seen = HashSet::new();
    types.retain(|entry| {
        let is_watched = entry.verbs.iter().any(|verb| verb == "watch");
        is_watched && seen.insert(entry.gvr.clone())
    });
    Ok((one, types))
}

fn is_events(entry: &ResourceEntry) -> bool {
    entry.gvr.resource == "events" && entry.gvr.group.is_empty()
}

fn listen(
    informers: &[Informer<DynamicObject>],
) -> Result<BoxStream<'static, Vec<Heard>>, Failure> {
    let mut streams: Vec<BoxStream<'static, Heard>> = Vec::new();
    for (at, informer) in informers.iter().enumerate() {
        let changes = informer.changes().map_err(failure)?;
        streams.push(changes.map(move |change| (at, change)).boxed());
    }
    Ok(stream::select_all(streams).ready_chunks(256).boxed())
}

/// A fact as a line of `-o json`.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    kind: &'a str,
    namespace: Option<&'a str>,
    name: &'a str,
    uid: &'a str,
    fact: &'a str,
}

/// An object that was heard of: the place of its type, and its JSON.
type Member = (usize, Value, &'static str);

struct Story<'a> {
    output: LineOutput,
    types: &'a [ResourceEntry],
    target: String,
    out: Out,
    teller: Teller,
    family: Family<Member>,
    /// Events that were told, with their number of times.
    events: HashMap<String, String>,
    /// The end of the epilogue, once the object is gone.
    over: Option<Instant>,
}

impl<'a> Story<'a> {
    fn new(args: &StoryArgs, one: &One, types: &'a [ResourceEntry]) -> Self {
        let target = text(&one.object, "/metadata/uid").to_owned();
        Self {
            output: args.output,
            types,
            out: Out::stdout(),
            teller: Teller::default(),
            family: Family::of(&target),
            target,
            events: HashMap::new(),
            over: None,
        }
    }

    fn hear(&mut self, place: usize, change: &Notification<DynamicObject>) -> Result<(), Failure> {
        // Stored objects were validated when they came; only a number out of range could fail here.
        let read = |object: &Obj<DynamicObject>| {
            serde_json::from_slice::<Value>(&object.to_json()).unwrap_or_default()
        };
        let entry = &self.types[place];
        match change {
            Notification::Added(added) if is_events(entry) => {
                match added.is_initial() {
                    // Old events are history, not news.
                    true => self.remember(&read(added.object())),
                    false => self.event(&read(added.object())),
                }
            }
            Notification::Updated { new, .. } if is_events(entry) => self.event(&read(new)),
            Notification::Added(added) => {
                let word = if added.is_initial() {
                    "is there"
                } else {
                    "created"
                };
                self.appear(place, added.object(), read(added.object()), word)
            }
            Notification::Updated { old, new } => {
                let (before, after) = (read(old), read(new));
                if !self.family.has(new.uid()) {
                    return self.appear(place, new, after, "joins");
                }
                let facts = self.teller.change(&entry.kind, &before, &after);
                self.tell(&entry.kind, &after, &facts)
            }
            Notification::Deleted(deleted) if !is_events(entry) => {
                let object = deleted.object();
                if !self.family.forget(object.uid()) {
                    return Ok(());
                }
                if object.uid() == self.target {
                    self.over = Some(Instant::now() + EPILOGUE);
                }
                self.tell(&entry.kind, &read(object), &["deleted".to_owned()])
            }
            _ => Ok(()),
        }
    }

    fn appear(
        &mut self,
        place: usize,
        object: &Obj<DynamicObject>,
        json: Value,
        word: &'static str,
    ) -> Result<(), Failure> {
        let owners: Vec<String> = object
            .owner_references()
            .into_iter()
            .map(|owner| owner.uid)
            .collect();
        for (place, json, word) in self.family.hear(object.uid(), &owners, (place, json, word)) {
            let kind = &self.types[place].kind;
            let facts = self.teller.first(kind, &json, word);
            self.tell(kind, &json, &facts)?;
        }
        Ok(())
    }

    fn remember(&mut self, event: &Value) -> Result<(), Failure> {
        self.events
            .insert(text(event, "/metadata/uid").to_owned(), of_event(event));
        Ok(())
    }

    /// Tells an event of a member, unless it was told in these words.
    fn event(&mut self, event: &Value) -> Result<(), Failure> {
        let of = ["/involvedObject", "/regarding"];
        let part = |name: &str| {
            let texts = of.iter().map(|of| text(event, &format!("{of}/{name}")));
            texts
                .max_by_key(|text| text.len())
                .unwrap_or_default()
                .to_owned()
        };
        if !self.family.has(&part("uid")) {
            return Ok(());
        }
        let fact = of_event(event);
        let told = self
            .events
            .insert(text(event, "/metadata/uid").to_owned(), fact.clone());
        if told.as_ref() == Some(&fact) {
            return Ok(());
        }
        let object = serde_json::json!({"metadata":
            {"name": part("name"), "namespace": part("namespace"), "uid": part("uid")}});
        self.tell(&part("kind"), &object, &[fact])
    }

    fn tell(&mut self, kind: &str, object: &Value, facts: &[String]) -> Result<(), Failure> {
        let now = Timestamp::now();
        let name = text(object, "/metadata/name");
        for fact in facts {
            let line = match self.output {
                LineOutput::Wide => {
                    let time = now.strftime("%H:%M:%S%.3f").to_string();
                    padded(&[time, format!("{kind}/{name}"), fact.clone()], &WIDTHS)
                }
                LineOutput::Json => {
                    let line = Line {
                        time: format!("{now:.6}"),
                        kind,
                        namespace: Some(text(object, "/metadata/namespace"))
                            .filter(|it| !it.is_empty()),
                        name,
                        uid: text(object, "/metadata/uid"),
                        fact,
                    };
                    let json = serde_json::to_string(&line).map_err(std::io::Error::from)?;
                    escaped_json(&json).into_owned()
                }
            };
            self.out.text(&(line + "\n"))?;
        }
        Ok(())
    }
}
