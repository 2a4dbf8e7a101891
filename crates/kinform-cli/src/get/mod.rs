//! `kinform get`: objects out of a synced cache, by selector or index; or one by its name.
//!
//! ```text
//! words ──request──▶ types ─┬─ no names: informer (+ index) ──synced──▶ objects ─┬─print──▶ stdout
//!                           └─ names: a GET each ───────────────────────▶ object ─┘
//! ```
//!
//! It prints the objects that an informer with these flags would hold at this moment, and ends. A
//! name is fetched by itself, since the right to get one object is enough for it.

pub(crate) mod object;
pub(crate) mod print;

use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use kinform::source::Wire;
use kinform::{DiskCache, Index, Informer, InformerFactory, Obj, ReportEvent, Reports};
use kube_core::DynamicObject;
use tokio_util::task::AbortOnDropHandle;

use self::object::Shown;
use self::print::{Group, Root};

use crate::args::reading::GetArgs;
use crate::catalogue::ResourceEntry;
use crate::connect::Connection;
use crate::exit::{Ending, Failure};
use crate::expression::Where;
use crate::one;
use crate::output::change::left_out;
use crate::progress;
use crate::request::Request;
use crate::signals::Signals;
use crate::sync::synced;
use crate::terminal::Out;
use crate::watch::failure;

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
    let expression = args.expression.as_deref().map(Where::parse).transpose()?;
    let names = || requests.iter().flat_map(|request| &request.names);
    if args.by.is_some() && names().next().is_some() {
        return Err(Failure::usage("--by looks objects up, so it takes no NAME"));
    }
    let connection = Connection::open(&args.cluster).await?;
    let kinds = requests.iter().map(|request| request.kind.clone());
    let entries = connection.resolve(&kinds.collect::<Vec<_>>()).await?;
    // All fields of the server are printed, also those that this version does not know.
    let factory = InformerFactory::builder(connection.client.clone())
        .wire(Wire::Json)
        .disk_cache(args.cache_dir.as_ref().map(DiskCache::in_dir))
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
    let syncing = wanted.iter().flat_map(|(cached, entry, _)| {
        let title = entry.title();
        let informers = cached.iter();
        informers.map(move |cached| (title.clone(), cached.informer.clone()))
    });
    // Ends with this function, however that ends.
    let _progress = AbortOnDropHandle::new(tokio::spawn(progress::tell(
        connection.client.clone(),
        syncing.collect(),
    )));
    for (informers, entry, request) in wanted {
        let (mut objects, failed) = cx.objects(&entry, request, informers).await?;
        if let Some(expression) = &expression {
            let mut selected = Vec::with_capacity(objects.len());
            for object in objects {
                if expression.accepts(object.json()?.as_ref())? {
                    selected.push(object);
                }
            }
            objects = selected;
        }
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
                match one::fetch(self.connection, entry, &self.args.select, name).await {
                    Ok(object) => shown.push(Shown::fetched(object)),
                    Err(error) => missing.push(error),
                }
            }
        }
        Ok((shown, missing))
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
