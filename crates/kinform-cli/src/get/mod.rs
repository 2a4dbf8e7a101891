//! `kinform get`: objects out of a synced cache, by selector or index; or one by its name.
//!
//! ```text
//! words ──request──▶ types ─┬─ no names: informer (+ index) ──synced──▶ objects ─┬─print──▶ stdout
//!                           └─ names: a GET each ───────────────────────▶ object ─┘
//! ```
//!
//! It prints the objects that an informer with these flags would hold at this moment, and ends. A
//! name is fetched by itself, since the right to get one object is enough for it.

mod object;
mod print;
mod request;

use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use kinform::source::{SourceError, SourceErrorKind, Wire, fetch};
use kinform::{Index, Informer, InformerFactory, Obj, ReportEvent, Reports};
use kube_core::DynamicObject;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use self::object::Shown;
use self::print::{Group, Root};
use self::request::Request;
use crate::args::GetArgs;
use crate::catalogue::ResourceEntry;
use crate::connect::Connection;
use crate::exit::{Ending, Failure};
use crate::output::change::left_out;
use crate::signals::Signals;
use crate::sync::synced;
use crate::terminal::Out;
use crate::watch::failure;

/// BOUND: the size of one object as JSON; a server stores 1.5 MiB, and escapes may multiply it.
const MAX_OBJECT: usize = 64 << 20;
/// BOUND: requests for an object that a server puts off.
const MAX_TRIES: usize = 10;
/// BOUND: the wait between two of them.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Prints the objects.
pub(crate) async fn run(args: GetArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        ending = signals.ending() => Ok(ending),
        printed = print(&args) => printed.map(|()| Ending::Done),
    }
}

async fn print(args: &GetArgs) -> Result<(), Failure> {
    let requests = Request::parse(&args.words)?;
    let names = || requests.iter().flat_map(|request| &request.names);
    if args.by.is_some() && names().next().is_some() {
        return Err(Failure::usage("--by looks objects up, so it takes no NAME"));
    }
    let connection = Connection::open(&args.cluster).await?;
    let kinds: Vec<String> = requests
        .iter()
        .map(|request| request.kind.clone())
        .collect();
    let entries = connection.resolve(&kinds).await?;
    // All fields of the server are printed, also those that this version does not know.
    let factory = InformerFactory::builder(connection.client.clone())
        .wire(Wire::Json)
        .build();
    let cx = Context {
        args,
        connection: &connection,
        factory: &factory,
    };
    let (mut groups, mut missing) = (Vec::new(), None);
    let mut wanted = Vec::new();
    for (entry, request) in entries.into_iter().zip(&requests) {
        wanted.push((cx.informers(&entry, request)?, entry, request));
    }
    factory.start().map_err(failure)?;
    for (informers, entry, request) in wanted {
        let (objects, failed) = cx.objects(&entry, request, informers).await?;
        if objects.is_empty() && failed.is_empty() && request.names.is_empty() {
            crate::progress!("no {} found", entry.title());
        }
        for failure in failed {
            // The last one is the command's.
            if let Some(before) = missing.replace(failure) {
                crate::stderr::failure(&before);
            }
        }
        groups.push(Group { entry, objects });
    }
    let root = match names().count() {
        1 => Root::Object,
        _ => Root::List,
    };
    if missing.is_none() || groups.iter().any(|group| !group.objects.is_empty()) {
        print::print(args.output.as_ref(), &groups, root, &mut Out::stdout())?;
    }
    factory.shutdown_within(Duration::from_secs(2)).await;
    missing.map_or(Ok(()), Err)
}

/// An informer that was asked for.
struct Cached {
    informer: Informer<DynamicObject>,
    /// The index to read it by.
    lookup: Option<Lookup>,
    reports: Reports,
}

struct Context<'a> {
    args: &'a GetArgs,
    connection: &'a Connection,
    factory: &'a InformerFactory,
}

impl Context<'_> {
    /// Returns whether names are looked up in all namespaces or among selected objects, which no GET
    /// can do.
    fn is_search(&self) -> bool {
        let select = &self.args.select;
        select.all_namespaces || select.selector.is_some() || select.field_selector.is_some()
    }

    /// The informers of a type: one, or one for each name that is searched for.
    fn informers(&self, entry: &ResourceEntry, request: &Request) -> Result<Vec<Cached>, Failure> {
        let names: Vec<Option<&str>> = match request.names.as_slice() {
            [] => vec![None],
            names if self.is_search() => names.iter().map(|name| Some(name.as_str())).collect(),
            _ => Vec::new(),
        };
        let made = names.into_iter().map(|name| {
            let info = self.connection.info(entry, &self.args.select, name);
            let informer = self.factory.select::<DynamicObject>(info).build();
            let by = self.args.by.as_deref();
            let lookup = by.map(|by| Lookup::new(&informer, by)).transpose()?;
            let reports = informer.reports();
            Ok(Cached {
                informer,
                lookup,
                reports,
            })
        });
        made.collect()
    }

    /// The objects, and a failure for each name that has none.
    async fn objects(
        &self,
        entry: &ResourceEntry,
        request: &Request,
        mut informers: Vec<Cached>,
    ) -> Result<(Vec<Shown>, Vec<Failure>), Failure> {
        let (mut shown, mut missing) = (Vec::new(), Vec::new());
        for (place, cached) in informers.iter_mut().enumerate() {
            let informer = &cached.informer;
            if let Err(failure) = synced(informer).await {
                // The objects of other types are printed all the same.
                missing.push(failure);
                continue;
            }
            while let Some(Some(report)) = cached.reports.next().now_or_never() {
                if let ReportEvent::Quarantined(object) = &report.event {
                    crate::progress!("{}: {}", entry.title(), left_out(object));
                }
            }
            let mut objects: Vec<Obj<DynamicObject>> = match &cached.lookup {
                Some(lookup) => lookup.objects(informer),
                None => informer.list().to_objs(),
            };
            if let (Some(name), true) = (request.names.get(place), objects.is_empty()) {
                missing.push(Failure::new(format!(
                    "{} {name:?} not found",
                    entry.title()
                )));
            }
            objects.sort_by_cached_key(|object| {
                let namespace = object.namespace().map(str::to_owned);
                (namespace, object.name().to_owned())
            });
            shown.extend(objects.into_iter().map(Shown::Cached));
        }
        if informers.is_empty() {
            for name in &request.names {
                match self.fetch(entry, name).await {
                    Ok(object) => shown.push(object),
                    Err(error) => missing.push(error),
                }
            }
        }
        Ok((shown, missing))
    }

    /// Fetches one object.
    async fn fetch(&self, entry: &ResourceEntry, name: &str) -> Result<Shown, Failure> {
        let title = entry.title();
        // kubectl: path.IsValidPathSegmentName
        if matches!(name, "." | "..") || name.contains(['/', '%']) {
            return Err(Failure::usage(format!(
                "{title} {name:?}: this cannot be a name"
            )));
        }
        let info = self.connection.info(entry, &self.args.select, None);
        let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
        let path = format!("{}/{name}", entry.gvr.path(info.namespace.as_deref()));
        let mut tries = 0;
        let body = loop {
            tries += 1;
            let error = match fetch(&self.connection.client, &path, MAX_OBJECT).await {
                Ok(body) => break body,
                Err(error) => error,
            };
            match error.retry_after() {
                Some(wait) if tries < MAX_TRIES => tokio::time::sleep(wait.min(MAX_WAIT)).await,
                _ => return Err(refused(&title, &error)),
            }
        };
        serde_json::from_slice(&body)
            .map(Shown::fetched)
            .map_err(|error| Failure::new(format!("{title}: GET {path} is not JSON: {error}")))
    }
}

fn refused(title: &str, error: &SourceError) -> Failure {
    let words = error.status().map(|status| status.message.clone());
    let words = words.filter(|words| !words.is_empty());
    let failure = Failure::new(match (error.is_not_found(), words) {
        // The server names type and object.
        (true, Some(words)) => words,
        (_, words) => format!("{title}: {}", words.unwrap_or_else(|| error.to_string())),
    });
    match error.kind() {
        _ if error.is_unauthorized() => {
            failure.with_hint("the token or certificate is wrong or has expired")
        }
        _ if error.is_forbidden() => {
            failure.with_hint("this needs the right to get the object; choose another user with --context, --user or --token")
        }
        SourceErrorKind::NotKubernetes => {
            failure.with_hint("a proxy or login page in between?")
        }
        _ => failure,
    }
}

/// `--by INDEX=VALUE`.
enum Lookup {
    Namespace(String),
    Index(kinform::IndexReader<DynamicObject>, String),
}

impl Lookup {
    fn new(informer: &Informer<DynamicObject>, by: &str) -> Result<Self, Failure> {
        let (index, value) = by.split_once('=').ok_or_else(|| {
            Failure::usage(format!("--by {by:?}: INDEX=VALUE expected"))
                .with_hint("INDEX is namespace, label:KEY, owner, or a path as spec.nodeName")
        })?;
        let index = match index {
            "namespace" => return Ok(Self::Namespace(value.to_owned())),
            "owner" => Index::owner(),
            _ => match index.strip_prefix("label:") {
                Some(key) => Index::label(key),
                None => Index::path(index),
            },
        };
        let reader = informer
            .add_index(index)
            .map_err(|error| Failure::usage(format!("--by {by:?}: {error}")))?;
        Ok(Self::Index(reader, value.to_owned()))
    }

    fn objects(&self, informer: &Informer<DynamicObject>) -> Vec<Obj<DynamicObject>> {
        match self {
            Self::Namespace(namespace) => informer.snapshot().in_namespace(namespace).to_objs(),
            Self::Index(reader, value) => reader.get(value).to_objs(),
        }
    }
}
