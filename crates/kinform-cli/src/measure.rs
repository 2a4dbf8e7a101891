//! `kinform measure`: the cost of caching a type, measured before deployment.
//!
//! ```text
//! types → a process each (so that its numbers are its own) → informer, synced → Measurement
//! ```
//!
//! The parent only starts children and prints; a child runs with `--in-process`. Every figure is
//! the child's: its CPU time, its memory, its allocator.

use std::collections::HashSet;
use std::ffi::OsString;
use std::process::Stdio;
use std::time::{Duration, Instant};

use clap::CommandFactory as _;
use futures::StreamExt as _;
use kinform::source::Wire;
use kinform::{Informer, InformerFactory, ReflectorOptions, ReportEvent, Reports, StreamingList};
use kinform_core::{Encoding, FieldWeight, FieldWeights, Projection};
use kube_core::DynamicObject;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::args::Cli;
use crate::args::reading::{EncodingArg, MeasureArgs, MeasureOutput, ModeArg};
use crate::connect::{Connection, split_types};
use crate::exit::{Ending, Failure};
use crate::output::table::Table;
use crate::signals::Signals;
use crate::sync::synced;
use crate::terminal::{Out, escaped_json};
use crate::watch::failure;
use crate::{process, progress};

/// The figures measured of one type; `docs/cli.md` defines each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Measurement {
    resource: String,
    objects: u64,
    wire_bytes: u64,
    cache_bytes: u64,
    bytes_per_object: f64,
    sync_seconds: f64,
    cpu_seconds: f64,
    rss_bytes: u64,
    peak_rss_bytes: u64,
    peak_over_steady: f64,
    encoding: String,
    mode: String,
    managed_fields_bytes: u64,
    size_p50: u64,
    size_p99: u64,
    size_max: u64,
    fields: Vec<Field>,
    projection_saves_bytes: u64,
}

/// One of the heaviest fields of a type.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Field {
    path: String,
    bytes: u64,
    share: f64,
    kept: bool,
}

/// The fields that every object of a cache has, whatever is dropped.
const IDENTITY: [&str; 4] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
];

/// The number of fields in the table.
const FIELDS: usize = 10;

/// Measures each type and prints.
pub(crate) async fn run(args: MeasureArgs) -> Result<Ending, Failure> {
    built_for(&args)?;
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        ending = signals.ending() => Ok(ending),
        printed = print(&args) => printed.map(|()| Ending::Done),
    }
}

/// Refuses flags whose feature this program was built without.
fn built_for(args: &MeasureArgs) -> Result<(), Failure> {
    let flags = [
        (args.typed, cfg!(feature = "typed"), "typed"),
        (args.compressed, cfg!(feature = "compressed"), "compressed"),
    ];
    match flags.iter().find(|(asked, built, _)| *asked && !built) {
        None => Ok(()),
        Some((.., name)) => Err(Failure::usage(format!(
            "measure --{name}: this program was built without the feature `{name}`"
        ))
        .with_hint(format!("cargo install kinform-cli --features {name}"))),
    }
}

async fn print(args: &MeasureArgs) -> Result<(), Failure> {
    let mut out = Out::stdout();
    let mut measured = Vec::new();
    for kind in &split_types(&args.types) {
        let measurement = if args.in_process {
            measure(args, kind).await?
        } else {
            in_a_child(kind).await?
        };
        if args.output == MeasureOutput::Json {
            let line = serde_json::to_string(&measurement)
                .map_err(|error| Failure::new(error.to_string()))?;
            out.text(&escaped_json(&line))?;
            out.text("\n")?;
            out.flush()?;
        }
        measured.push(measurement);
    }
    if args.output == MeasureOutput::Wide {
        out.text(&table(&measured))?;
        out.flush()?;
    }
    Ok(())
}

/// Asks a child to end with its parent: a child that was killed could not end its own children.
struct EndWithParent(Option<u32>);

impl Drop for EndWithParent {
    fn drop(&mut self) {
        use nix::sys::signal::{Signal, kill};
        let id = self.0.and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id {
            // It may have ended by itself meanwhile.
            let _ = kill(nix::unistd::Pid::from_raw(id), Signal::SIGTERM);
        }
    }
}

/// The same command line for one type, in a process of its own.
async fn in_a_child(kind: &str) -> Result<Measurement, Failure> {
    let this = std::env::current_exe()?;
    // `output()` would swallow the child's stderr.
    let child = Command::new(this)
        .args(child_words(std::env::args_os().skip(1), kind))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let ends = EndWithParent(child.id());
    let output = child.wait_with_output().await?;
    // It has ended, and its number may be another process's.
    std::mem::forget(ends);
    if !output.status.success() {
        // The child has printed the reason.
        return Err(Failure::said(
            output
                .status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(1),
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| {
        Failure::new(format!(
            "measuring {kind}: the child's answer cannot be read: {error}"
        ))
    })
}

/// The parent's arguments with its types replaced by one; flags stay as they were typed.
fn child_words(words: impl Iterator<Item = OsString>, kind: &str) -> Vec<OsString> {
    let mut child: Vec<OsString> = vec![
        "measure".into(),
        "--in-process".into(),
        "--output=json".into(),
        kind.into(),
    ];
    let flags = flags_with_values();
    let mut words = words.skip_while(|word| word != "measure").skip(1);
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        if !text.starts_with('-') {
            continue;
        }
        let is_output = text.starts_with("-o") || text.starts_with("--output");
        let takes_value = flags.contains(&text);
        let value = if takes_value { words.next() } else { None };
        if !is_output {
            child.push(word);
            child.extend(value);
        }
    }
    child
}

/// The flags of the command whose value is the next word.
fn flags_with_values() -> HashSet<String> {
    let command = Cli::command();
    let measure = command.find_subcommand("measure");
    let flags = measure.into_iter().flat_map(clap::Command::get_arguments);
    flags
        .filter(|flag| flag.get_action().takes_values())
        .flat_map(|flag| {
            let long = flag.get_long().map(|long| format!("--{long}"));
            let short = flag.get_short().map(|short| format!("-{short}"));
            long.into_iter().chain(short)
        })
        .collect()
}

async fn measure(args: &MeasureArgs, kind: &str) -> Result<Measurement, Failure> {
    let connection = Connection::open(&args.cluster).await?;
    let entry = connection.resolve(&[kind.to_owned()]).await?.remove(0);
    let mut options = ReflectorOptions::new();
    if args.mode == ModeArg::List {
        options = options.with_streaming_list(StreamingList::Never);
    }
    let factory = InformerFactory::builder(connection.client.clone())
        .reflector(options)
        .wire(match args.encoding {
            EncodingArg::Auto | EncodingArg::Protobuf => Wire::Auto,
            EncodingArg::Json => Wire::Json,
        })
        .build();
    let select = factory.select(connection.info(&entry, &args.select, None));
    #[cfg(feature = "compressed")]
    let select = match args.compressed {
        true => select.storage(kinform::Storage::Compressed),
        false => select,
    };
    let informer = select.build();
    let mut reports = informer.reports();
    let (before, peak) = (process::live_bytes(), process::Peak::watch());
    let cpu_before = process::usage().cpu;
    let started = Instant::now();
    factory.start().map_err(failure)?;
    let syncing = vec![(entry.title(), informer.clone())];
    let progress = tokio::spawn(progress::tell(connection.client.clone(), syncing));
    let result = synced(&informer).await;
    progress.abort();
    result?;
    #[cfg(feature = "typed")]
    if args.typed {
        crate::typed::decode_and_keep(&entry, &informer);
    }
    let sync_seconds = started.elapsed().as_secs_f64();
    let usage = process::usage();
    let (live, peak) = (process::live_bytes(), peak.bytes());
    let cache_bytes = live.saturating_sub(before);
    let stats = informer.stats();
    let mode = mode_used(args.mode, &mut reports);
    if args.mode == ModeArg::Stream && mode == "list" {
        return Err(Failure::new(format!(
            "{}: {} has no streaming lists",
            entry.title(),
            connection.address
        ))
        .with_hint("--mode auto falls back to pages"));
    }
    let mut sizes = Vec::new();
    let mut encoding = "json";
    for object in informer.list().objects() {
        sizes.push(object.byte_len() as u64);
        if object.encoding() == Encoding::Protobuf {
            encoding = "protobuf";
        }
    }
    if args.encoding == EncodingArg::Protobuf && encoding == "json" && !sizes.is_empty() {
        let message = format!("{}: the server has no protobuf of it", entry.title());
        return Err(Failure::new(message).with_hint("--encoding auto takes JSON then"));
    }
    sizes.sort_unstable();
    let (fields, projection_saves_bytes) = fields(&informer, stats.managed_fields_bytes);
    let measurement = Measurement {
        resource: entry.title(),
        objects: stats.objects,
        wire_bytes: stats.wire_bytes,
        cache_bytes,
        bytes_per_object: if stats.objects == 0 {
            0.0
        } else {
            cache_bytes as f64 / stats.objects as f64
        },
        sync_seconds,
        cpu_seconds: usage.cpu.saturating_sub(cpu_before).as_secs_f64(),
        rss_bytes: usage.rss_bytes,
        peak_rss_bytes: usage.peak_rss_bytes,
        peak_over_steady: peak as f64 / live.max(1) as f64,
        encoding: encoding.to_owned(),
        mode: mode.to_owned(),
        managed_fields_bytes: stats.managed_fields_bytes,
        size_p50: percentile(&sizes, 50),
        size_p99: percentile(&sizes, 99),
        size_max: percentile(&sizes, 100),
        fields,
        projection_saves_bytes,
    };
    factory.shutdown_within(Duration::from_secs(2)).await;
    Ok(measurement)
}

/// The heaviest fields, and the saving of a cache without those that can be dropped.
fn fields(informer: &Informer<DynamicObject>, managed_bytes: u64) -> (Vec<Field>, u64) {
    let listing = informer.list();
    let mut weights = FieldWeights::new();
    listing.iter().for_each(|object| weights.add(object.raw()));
    let total = weights.total() + managed_bytes;
    let share = |bytes: u64| bytes as f64 / total.max(1) as f64;
    let kept = weights.largest(FIELDS);
    let mut fields: Vec<Field> = kept
        .iter()
        .map(|field| Field {
            path: field.path.to_string(),
            bytes: field.bytes,
            share: share(field.bytes),
            kept: true,
        })
        .collect();
    if managed_bytes > 0 {
        fields.push(Field {
            path: "metadata.managedFields".to_owned(),
            bytes: managed_bytes,
            share: share(managed_bytes),
            kept: false,
        });
    }
    fields.sort_by_key(|field| std::cmp::Reverse(field.bytes));
    fields.truncate(FIELDS);
    let can_go = |field: &&FieldWeight| {
        let path = field.path.to_string();
        let is_told = fields.iter().any(|told| told.path == path);
        is_told && !IDENTITY.contains(&path.as_str())
    };
    let dropped = kept.iter().filter(can_go);
    let projection = dropped.fold(Projection::new(), |projection, field| {
        projection.drop_path(field.path.clone())
    });
    let saved = listing.iter().map(|object| {
        let less = object.raw().narrowed(&projection);
        less.map_or(0, |less| {
            object.raw().heap_size().saturating_sub(less.heap_size()) as u64
        })
    });
    (fields, saved.sum())
}

/// The mode of the first list, from the reports about it.
fn mode_used(asked: ModeArg, reports: &mut Reports) -> &'static str {
    if asked == ModeArg::List {
        return "list";
    }
    while let Some(Some(report)) = futures::FutureExt::now_or_never(reports.next()) {
        if matches!(report.event, ReportEvent::FellBack { .. }) {
            return "list";
        }
    }
    "stream"
}

/// The percentile of sorted sizes, by nearest rank.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

fn table(measured: &[Measurement]) -> String {
    let mut table = Table::new(&[
        "RESOURCE",
        "OBJECTS",
        "WIRE",
        "CACHE",
        "PER OBJECT",
        "SYNC",
        "CPU",
        "PEAK RSS",
        "MANAGED FIELDS",
        "ENCODING",
        "MODE",
    ]);
    for m in measured {
        let mega = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        table.push(vec![
            m.resource.clone(),
            m.objects.to_string(),
            mega(m.wire_bytes),
            mega(m.cache_bytes),
            format!("{:.0} B", m.bytes_per_object),
            format!("{:.2} s", m.sync_seconds),
            format!("{:.2} s", m.cpu_seconds),
            mega(m.peak_rss_bytes),
            mega(m.managed_fields_bytes),
            m.encoding.clone(),
            m.mode.clone(),
        ]);
    }
    let mut text = table.render();
    for m in measured.iter().filter(|m| !m.fields.is_empty()) {
        text.push('\n');
        text.push_str(&field_table(m).render());
    }
    text
}

/// A table of the sizes of one type's heaviest fields.
fn field_table(m: &Measurement) -> Table {
    let title = format!("FIELDS OF {}", m.resource);
    let mut table = Table::new(&[&title, "BYTES", "SHARE", "KEPT"]);
    for field in &m.fields {
        table.push(vec![
            field.path.clone(),
            field.bytes.to_string(),
            format!("{:.1}%", field.share * 100.0),
            if field.kept { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let saves = format!("{:.1} MB", m.projection_saves_bytes as f64 / 1e6);
    let without = "without those that are kept, a cache saves".to_owned();
    table.push(vec![without, saves, String::new(), String::new()]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let sizes: Vec<u64> = (1..=200).collect();
        assert_eq!(
            (
                percentile(&sizes, 50),
                percentile(&sizes, 99),
                percentile(&sizes, 100)
            ),
            (100, 198, 200)
        );
        assert_eq!(percentile(&[], 50), 0);
        assert_eq!(percentile(&[7], 50), 7);
    }

    #[test]
    fn a_child_gets_one_type_and_the_same_flags() {
        let words = [
            "measure",
            "pods",
            "-A",
            "nodes",
            "-o",
            "wide",
            "--token",
            "t",
            "--mode=list",
            "--certificate-authority",
            "ca",
            "--insecure-skip-tls-verify",
            "-l",
            "a=b",
        ];
        let child = child_words(words.iter().map(OsString::from), "nodes");
        assert_eq!(
            child,
            [
                "measure",
                "--in-process",
                "--output=json",
                "nodes",
                "-A",
                "--token",
                "t",
                "--mode=list",
                "--certificate-authority",
                "ca",
                "--insecure-skip-tls-verify",
                "-l",
                "a=b"
            ]
        );
    }
}
