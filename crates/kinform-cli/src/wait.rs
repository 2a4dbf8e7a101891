//! `kinform wait`: ends when objects meet a condition, exist, or are gone.
//!
//! ```text
//! words → informers → changes ──Target | Where──▶ a line for each object that is met → exit code
//! ```
//!
//! Objects that were selected rather than named are those of the first list. An object that goes away
//! meanwhile is a failure, unless that was waited for. The time counts from the start, so a server
//! that does not answer is bounded by it, too.
//!
//! Upstream counterpart: `kubectl:pkg/cmd/wait`.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream, FuturesUnordered};
use kinform::source::Wire;
use kinform::{Informer, InformerFactory, Notification, Obj};
use kinform_api::ObjectKey;
use kube_core::DynamicObject;
use tokio::time::Instant;

use crate::args::looking::WaitArgs;
use crate::catalogue::ResourceEntry;
use crate::connect::Connection;
use crate::exit::{Ending, Failure};
use crate::expression::Where;
use crate::get::object::Shown;
use crate::get::print::{self, Group, Root, singular};
use crate::request::Request;
use crate::signals::Signals;
use crate::sync::synced;
use crate::target::Target;
use crate::terminal::{Out, visible};
use crate::watch::failure;

/// BOUND: objects that the message of a timeout names.
const MAX_NAMED: usize = 10;

/// The condition of the flags.
enum Condition {
    Target(Target),
    Where(Box<Where>),
}

impl Condition {
    fn is_met_by(&self, object: &Obj<DynamicObject>) -> Result<bool, Failure> {
        let told = |why| Failure::new(format!("{}: {why}", object.key()));
        match self {
            Self::Where(expression) => expression.selects(object),
            Self::Target(target) => {
                let json = serde_json::from_slice(&object.to_json());
                let json = json.map_err(|error| told(error.to_string()))?;
                target.is_met_by(&json).map_err(told)
            }
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Self::Target(Target::Delete))
    }

    fn is_creation(&self) -> bool {
        matches!(self, Self::Target(Target::Create))
    }
}

/// The objects of a type that are waited for.
struct Place {
    entry: ResourceEntry,
    informer: Informer<DynamicObject>,
    /// The object, if it was named.
    name: Option<String>,
    /// The objects that do not meet the condition yet; `None` until the first list is there.
    open: Option<BTreeSet<ObjectKey>>,
}

/// Waits until each object meets the condition.
pub(crate) async fn run(args: WaitArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let deadline = Instant::now() + args.timeout;
    tokio::select! {
        biased;
        ending = signals.ending() => Ok(ending),
        waited = wait(&args, deadline) => waited.map(|()| Ending::Done),
    }
}

async fn wait(args: &WaitArgs, deadline: Instant) -> Result<(), Failure> {
    let condition = match (&args.target, &args.expression) {
        (_, Some(text)) => Condition::Where(Box::new(Where::parse(text)?)),
        (target, None) => Condition::Target(target.clone().unwrap_or(Target::Create)),
    };
    let requests = Request::parse(&args.words)?;
    refuse_unselected(args, &requests)?;
    // A check without waiting needs answers, too.
    let patience = deadline.max(Instant::now() + Duration::from_secs(10));
    let set_up = tokio::time::timeout_at(patience, set_up(args, &requests)).await;
    let (factory, mut places) = set_up.map_err(|_| timed_out(&[]))??;
    let mut heard = listen(&places)?;
    factory.start().map_err(failure)?;
    let informers: Vec<_> = places.iter().map(|place| place.informer.clone()).collect();
    let mut syncing: FuturesUnordered<_> = informers.iter().map(synced).collect();
    let limit = match args.timeout.is_zero() {
        true => patience,
        false => deadline,
    };
    let mut watching = Watching {
        args,
        condition: &condition,
        out: Out::stdout(),
    };
    let outcome = loop {
        if places.iter().all(Place::is_done) {
            break Ok(());
        }
        if args.timeout.is_zero() && places.iter().all(|place| place.open.is_some()) {
            break Err(timed_out(&places));
        }
        tokio::select! {
            biased;
            Some(synced) = syncing.next() => if let Err(failure) = synced { break Err(failure) },
            () = tokio::time::sleep_until(limit) => break Err(timed_out(&places)),
            change = heard.next() => {
                let Some((place, change)) = change else { break Err(timed_out(&places)) };
                if let Err(failure) = watching.hear(&mut places[place], &change) {
                    break Err(failure);
                }
            }
        }
    };
    drop(syncing);
    factory.shutdown_within(Duration::from_secs(2)).await;
    outcome
}

/// A type alone selects nothing: it may be a name that was forgotten.
fn refuse_unselected(args: &WaitArgs, requests: &[Request]) -> Result<(), Failure> {
    let select = &args.select;
    let is_selected = args.all || select.selector.is_some() || select.field_selector.is_some();
    let has_names = requests.iter().any(|request| !request.names.is_empty());
    match (is_selected, has_names) {
        (false, false) => Err(Failure::usage("no object is named")
            .with_hint("TYPE/NAME names one; -l, --field-selector or --all select some")),
        (true, true) => Err(Failure::usage(
            "-l, --field-selector and --all take no NAME",
        )),
        _ if has_names && select.all_namespaces => Err(Failure::usage(
            "an object is named in one namespace, so -A takes no NAME",
        )),
        _ => Ok(()),
    }
}

async fn set_up(
    args: &WaitArgs,
    requests: &[Request],
) -> Result<(InformerFactory, Vec<Place>), Failure> {
    let connection = Connection::open(&args.cluster).await?;
    let kinds: Vec<String> = requests
        .iter()
        .map(|request| request.kind.clone())
        .collect();
    let entries = connection.resolve(&kinds).await?;
    let factory = InformerFactory::builder(connection.client.clone())
        .wire(Wire::Json)
        .build();
    let mut places = Vec::new();
    for (entry, request) in entries.iter().zip(requests) {
        let names: Vec<Option<String>> = match request.names.as_slice() {
            [] => vec![None],
            names => names.iter().cloned().map(Some).collect(),
        };
        for name in names {
            let info = connection.info(entry, &args.select, name.as_deref());
            places.push(Place {
                entry: entry.clone(),
                informer: factory.select::<DynamicObject>(info).build(),
                name,
                open: None,
            });
        }
    }
    Ok((factory, places))
}

type Heard = BoxStream<'static, (usize, Notification<DynamicObject>)>;

fn listen(places: &[Place]) -> Result<Heard, Failure> {
    let mut streams = Vec::new();
    for (at, place) in places.iter().enumerate() {
        let changes = place.informer.changes().map_err(failure)?;
        streams.push(changes.map(move |change| (at, change)).boxed());
    }
    Ok(stream::select_all(streams).boxed())
}

impl Place {
    fn is_done(&self) -> bool {
        self.open.as_ref().is_some_and(BTreeSet::is_empty)
    }
}

struct Watching<'a> {
    args: &'a WaitArgs,
    condition: &'a Condition,
    out: Out,
}

impl Watching<'_> {
    fn hear(
        &mut self,
        place: &mut Place,
        change: &Notification<DynamicObject>,
    ) -> Result<(), Failure> {
        match change {
            Notification::Synced => self.begin(place),
            Notification::Added(added) => self.look(place, added.object()),
            Notification::Updated { new, .. } => self.look(place, new),
            Notification::Deleted(deleted) => {
                let object = deleted.object();
                let was_open = match &mut place.open {
                    Some(open) => open.remove(&object.key()),
                    // The first list had it.
                    None => self.condition.is_deletion(),
                };
                match was_open {
                    false => Ok(()),
                    true if self.condition.is_deletion() => self.met(&place.entry, object),
                    true => Err(gone(&place.entry, object)),
                }
            }
            _ => Ok(()),
        }
    }

    /// The first list is there: the objects to wait for are known.
    fn begin(&mut self, place: &mut Place) -> Result<(), Failure> {
        if place.open.is_some() {
            return Ok(());
        }
        let objects = place.informer.list().to_objs();
        place.open = Some(objects.iter().map(Obj::key).collect());
        if objects.is_empty() && !self.condition.is_deletion() {
            let title = place.entry.title();
            return match (&place.name, self.condition.is_creation()) {
                (name, true) => {
                    // A key that no object has keeps the place open until an object comes.
                    let wanted = ObjectKey::new(None, name.as_deref().unwrap_or("*"));
                    place.open = Some(BTreeSet::from([wanted]));
                    Ok(())
                }
                (Some(name), false) => Err(Failure::new(format!("{title} {name:?} not found"))
                    .with_hint("`--for=create` waits for an object that comes later")),
                (None, false) => Err(Failure::new(format!("no {title} are selected"))
                    .with_hint("`--for=create` waits until there is one")),
            };
        }
        objects
            .iter()
            .try_for_each(|object| self.look(place, object))
    }

    fn look(&mut self, place: &mut Place, object: &Obj<DynamicObject>) -> Result<(), Failure> {
        let Some(open) = place.open.as_mut() else {
            return Ok(());
        };
        let key = object.key();
        if self.condition.is_creation() {
            // The first object that comes is enough.
            if !open.is_empty() {
                open.clear();
                return self.met(&place.entry, object);
            }
            return Ok(());
        }
        if open.contains(&key) && self.condition.is_met_by(object)? {
            open.remove(&key);
            return self.met(&place.entry, object);
        }
        Ok(())
    }

    fn met(&mut self, entry: &ResourceEntry, object: &Obj<DynamicObject>) -> Result<(), Failure> {
        if self.args.output.is_some() {
            let group = Group {
                entry: entry.clone(),
                objects: vec![Shown::Cached(object.clone())],
            };
            let output = self.args.output.as_ref();
            return print::print(output, &[group], Root::Object, &mut self.out);
        }
        let line = format!("{}/{} condition met", singular(entry), object.name());
        self.out.text(&visible(&line))?;
        self.out.text("\n")?;
        self.out.flush()?;
        Ok(())
    }
}

fn gone(entry: &ResourceEntry, object: &Obj<DynamicObject>) -> Failure {
    let message = format!(
        "{} {:?} was deleted while it was waited for",
        entry.title(),
        object.name()
    );
    Failure::new(message).with_hint("`--for=delete` waits for that")
}

/// The failure at the end of the time, in kubectl's words.
fn timed_out(places: &[Place]) -> Failure {
    let mut open = Vec::new();
    for place in places {
        let title = place.entry.title();
        match (&place.open, &place.name) {
            (None, Some(name)) => open.push(format!("{title}/{name}")),
            (None, None) => open.push(title),
            (Some(keys), Some(name)) if !keys.is_empty() => open.push(format!("{title}/{name}")),
            (Some(keys), _) => {
                open.extend(keys.iter().map(|key| format!("{title}/{}", key.name())))
            }
        }
    }
    let more = open.len().saturating_sub(MAX_NAMED);
    open.truncate(MAX_NAMED);
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let failure = match open.is_empty() {
        true => Failure::new("timed out before the server said what it serves"),
        false => Failure::new(format!(
            "timed out waiting for the condition on {}{more}",
            open.join(", ")
        )),
    };
    failure.with_hint(
        "--timeout gives it more time; `kinform story TYPE/NAME` tells what happens meanwhile",
    )
}
