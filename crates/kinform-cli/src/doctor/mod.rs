//! `kinform doctor`: finds out whether informers will work here, and what to do if not.
//!
//! ```text
//! kubeconfig → certificates → /version (connection, credentials, version, clock) → discovery
//!   → each type: list, streaming list, watch from its version → Check.. → lines, exit code
//! ```
//!
//! It reads only, asks for metadata rather than objects, and ends within 10 s: a check that has no
//! answer by then is a problem, too. Requests go through an informer's client, so proxies, tokens and
//! certificates are those that an informer has.
//!
//! * `probe.rs`: requests; `verdict.rs`: facts to verdicts, pure; `check.rs`: a verdict and its lines.

mod check;
mod probe;
pub(crate) mod verdict;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use kinform::source::SourceErrorKind;
use kube_client::Config;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use self::check::Check;
use self::probe::{Named, Probe, Reply, Stream, Unanswered};
use self::verdict::{Scope, ServerVersion};
use crate::args::checking::DoctorArgs;
use crate::args::cluster::SelectArgs;
use crate::args::looking::LineOutput;
use crate::catalogue::{Meaning, ResourceEntry};
use crate::cluster;
use crate::connect::{Connection, split_types};
use crate::discovery::Discovery;
use crate::exit::{Ending, Failure};
use crate::signals::Signals;
use crate::terminal::{Out, escaped_json};

/// The time of all checks together.
const ALL: Duration = Duration::from_millis(9_300);
/// The time of the first request, and of discovery.
const FIRST: Duration = Duration::from_secs(2);
/// The time of a list.
const LIST: Duration = Duration::from_secs(2);
/// The time after which the server ends a streaming list, in seconds, and the doctor's own limit.
const STREAM: (u32, Duration) = (3, Duration::from_millis(4_200));
/// The same for a watch that resumes: an answer, not an event, is waited for.
const RESUME: (u32, Duration) = (1, Duration::from_millis(2_000));
/// BOUND: objects of a list that is compared with a streaming list.
const COMPARED: usize = 2_000;
/// BOUND: types that are checked at a time.
const AT_ONCE: usize = 4;
/// Servers compress replies that are larger than this.
const PACKED_FROM: usize = 128 << 10;

const JSON: &str = "application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

/// Makes the checks and prints them.
pub(crate) async fn run(args: DoctorArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        ending = signals.ending() => Ok(ending),
        healthy = examine(&args) => match healthy? {
            0 => Ok(Ending::Done),
            _ => Err(Failure::said(1)),
        },
    }
}

/// Returns how many problems there are.
async fn examine(args: &DoctorArgs) -> Result<usize, Failure> {
    let mut report = Report {
        form: args.output,
        out: Out::stdout(),
        problems: 0,
        checks: 0,
    };
    let deadline = Instant::now() + ALL;
    let mut made = Box::pin(checks(args).ready_chunks(16));
    loop {
        match timeout_at(deadline, made.next()).await {
            Ok(Some(checks)) => {
                for check in checks {
                    report.print(&check)?;
                }
            }
            Ok(None) => break,
            Err(_) => {
                let remedy = "the server or the network is slow: look at the API server's load, or name fewer types";
                let check =
                    Check::problem("time", "not all checks were answered within 9 s", remedy);
                report.print(&check)?;
                break;
            }
        }
    }
    match report.problems {
        0 => crate::progress!("{} checks, no problem", report.checks),
        1 => crate::progress!("{} checks, 1 problem", report.checks),
        problems => crate::progress!("{} checks, {problems} problems", report.checks),
    }
    Ok(report.problems)
}

struct Report {
    form: LineOutput,
    out: Out,
    problems: usize,
    checks: usize,
}

impl Report {
    fn print(&mut self, check: &Check) -> Result<(), Failure> {
        self.checks += 1;
        self.problems += usize::from(check.is_problem());
        match self.form {
            LineOutput::Wide => self.out.text(&check.lines())?,
            LineOutput::Json => {
                let json = serde_json::to_string(check).map_err(std::io::Error::from)?;
                self.out.text(&(escaped_json(&json) + "\n"))?;
            }
        }
        self.out.flush()?;
        Ok(())
    }
}

/// All checks, in the order in which they are made; a failure that makes the rest vain ends them.
fn checks(args: &DoctorArgs) -> impl futures::Stream<Item = Check> {
    let first = stream::once(general(args));
    first.flat_map(move |general| {
        let General { checks, connection } = general;
        let made = stream::iter(checks);
        let Some(connection) = connection else {
            return made.boxed_local();
        };
        let types = split_types(&args.types);
        let of_types = stream::iter(types).map(move |word| {
            let connection = std::rc::Rc::clone(&connection);
            async move { of_type(args, &connection, &word).await }
        });
        made.chain(of_types.buffered(AT_ONCE).flat_map(stream::iter))
            .boxed_local()
    })
}

/// The checks of the server as a whole, and the connection if the rest makes sense.
struct General {
    checks: Vec<Check>,
    connection: Option<std::rc::Rc<Connection>>,
}

async fn general(args: &DoctorArgs) -> General {
    let mut checks = Vec::new();
    let ended = |checks| General {
        checks,
        connection: None,
    };
    let config = match cluster::config(&args.cluster).await {
        Ok(config) => config,
        Err(failure) => return ended(vec![of_failure("configuration", &failure)]),
    };
    checks.extend(certificates(&config));
    let proxy = config.proxy_url.as_ref().map(ToString::to_string);
    let connection = match Connection::open(&args.cluster).await {
        Ok(connection) => connection,
        Err(failure) => return ended(vec![of_failure("configuration", &failure)]),
    };
    let probe = Probe {
        client: &connection.client,
    };
    let reply = match probe.get("/version", JSON, "identity", FIRST).await {
        Ok(reply) => reply,
        Err(error) => {
            checks.push(verdict::unanswered(&error, proxy.as_deref()));
            return ended(checks);
        }
    };
    checks.push(verdict::clock(reply.clock));
    if let Some(refused) = verdict::refused(&reply) {
        checks.push(refused);
        return ended(checks);
    }
    let Ok(version) = serde_json::from_slice::<ServerVersion>(&reply.body) else {
        let error = Unanswered {
            kind: SourceErrorKind::NotKubernetes,
            message: format!("{}: GET /version is not JSON", connection.address),
        };
        checks.push(verdict::unanswered(&error, proxy.as_deref()));
        return ended(checks);
    };
    checks.insert(0, Check::ok("connection", connection.address.clone()));
    checks.push(verdict::version(&version));
    if let Some(proxy) = proxy.or(reply.via) {
        checks.push(Check::note("proxy", format!("requests go through {proxy}")));
    }
    General {
        checks,
        connection: Some(std::rc::Rc::new(connection)),
    }
}

/// A failure with its hint as a problem.
fn of_failure(check: &'static str, failure: &Failure) -> Check {
    let (message, hint) = failure.parts();
    let remedy = hint.unwrap_or("correct the kubeconfig: `kubectl config view` shows it");
    Check::problem(check, message, remedy)
}

/// The certificates of the configuration: of the client, and of the authorities.
fn certificates(config: &Config) -> Vec<Check> {
    let now = Timestamp::now();
    let mut found = Vec::new();
    let until = |der: &[u8]| {
        let (_, parsed) = x509_parser::parse_x509_certificate(der).ok()?;
        Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
    };
    for der in config.root_cert.iter().flatten() {
        if let Some(until) = until(der) {
            found.push(verdict::certificate(
                "the authority of the kubeconfig",
                until,
                now,
            ));
        }
    }
    let auth = &config.auth_info;
    let inline = auth
        .client_certificate_data
        .as_ref()
        .map(|data| data.as_bytes().to_vec());
    let pem = match (&auth.client_certificate, inline) {
        (_, Some(data)) => decoded(&data),
        (Some(path), None) => crate::files::read(path.as_ref(), 1 << 20)
            .ok()
            .map(String::into_bytes),
        (None, None) => None,
    };
    let pem = pem.and_then(|pem| {
        x509_parser::pem::parse_x509_pem(&pem)
            .ok()
            .map(|(_, pem)| pem.contents)
    });
    if let Some(until) = pem.and_then(|der| until(&der)) {
        found.push(verdict::certificate("the client's certificate", until, now));
    }
    found
}

/// PEM in base64, as a kubeconfig has it.
fn decoded(data: &[u8]) -> Option<Vec<u8>> {
    use base64::Engine as _;
    let data: Vec<u8> = data
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    base64::engine::general_purpose::STANDARD.decode(data).ok()
}

/// The checks of one type.
async fn of_type(args: &DoctorArgs, connection: &Connection, word: &str) -> Vec<Check> {
    let discovery = Discovery::new(&connection.client, &connection.address);
    let entry = match tokio::time::timeout(FIRST, discovery.look_up(word)).await {
        Err(_) => {
            let remedy = "an aggregated API may be down: `kubectl get apiservices` names it";
            return vec![Check::problem("discovery", "no answer within 2 s", remedy).of(word)];
        }
        Ok(Err(failure)) => return vec![of_failure("discovery", &failure).of(word)],
        Ok(Ok(Meaning::Known(entry))) => entry,
        Ok(Ok(Meaning::Awaited { .. } | Meaning::Unknown)) => return vec![verdict::missing(word)],
    };
    let select = SelectArgs {
        namespace: args.namespace.clone(),
        all_namespaces: args.all_namespaces,
        ..SelectArgs::default()
    };
    let info = connection.info(&entry, &select, None);
    let kind = Type {
        probe: Probe {
            client: &connection.client,
        },
        entry: &entry,
        namespace: info.namespace.as_deref(),
        title: entry.title(),
        path: entry.gvr.path(info.namespace.as_deref()),
    };
    kind.check().await
}

/// A type to check.
struct Type<'a> {
    probe: Probe<'a>,
    entry: &'a ResourceEntry,
    namespace: Option<&'a str>,
    title: String,
    path: String,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: probe::Metadata,
    #[serde(default)]
    items: Vec<Named>,
}

impl Type<'_> {
    fn scope(&self) -> Scope<'_> {
        Scope {
            namespace: self.namespace,
            title: &self.title,
        }
    }

    async fn check(&self) -> Vec<Check> {
        let (listed, streamed) = futures::join!(self.list(""), self.stream());
        let mut checks = vec![verdict::list(self.scope(), &listed)];
        if !self.entry.verbs.iter().any(|verb| verb == "watch") {
            let remedy = "an informer cannot follow it: read it by `kinform get`, or poll";
            checks.push(
                Check::problem("watch", "the server offers no watch of this type", remedy)
                    .of(&self.title),
            );
            return checks;
        }
        match streamed {
            Err(error) => checks.push(
                Check::problem("watch", error.message, "try again: the connection broke")
                    .of(&self.title),
            ),
            Ok(stream) => checks.extend(self.of_stream(&stream).await),
        }
        // What was found out by the first watch is not asked again.
        let is_known = checks.iter().any(|check| check.is_problem());
        let list = listed.ok().filter(|reply| reply.code == 200);
        if let Some(reply) = list.filter(|_| !is_known) {
            checks.extend(self.of_list(&reply).await);
        }
        checks
    }

    /// A page of metadata.
    async fn list(&self, more: &str) -> Result<Reply, Unanswered> {
        let path = format!("{}?limit={COMPARED}{more}", self.path);
        self.probe.get(&path, METADATA_LIST, "identity", LIST).await
    }

    /// A streaming list, or a watch with initial events where the server has none.
    async fn stream(&self) -> Result<Stream, Unanswered> {
        let (seconds, limit) = STREAM;
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds={seconds}",
            self.path
        );
        self.probe.watch(&path, METADATA, limit).await
    }

    async fn of_stream(&self, stream: &Stream) -> Vec<Check> {
        let scope = self.scope();
        if matches!(stream.code, 400 | 422) {
            return vec![verdict::streaming(scope, stream, None)];
        }
        if let Some(refused) = verdict::refused_watch(scope, stream) {
            return vec![refused];
        }
        if let Some(held) = verdict::buffering(scope, stream) {
            return vec![held];
        }
        let watched = Check::ok("watch", "allowed, and events come at once").of(&self.title);
        let listed = match &stream.end {
            Some(version) => self.keys_at(version).await,
            None => None,
        };
        vec![watched, verdict::streaming(scope, stream, listed.as_ref())]
    }

    /// The keys at a version; `None` if they are too many, or the version is gone.
    async fn keys_at(&self, version: &str) -> Option<BTreeSet<String>> {
        let more = format!("&resourceVersion={version}&resourceVersionMatch=Exact");
        let reply = self.list(&more).await.ok()?;
        let list: List = serde_json::from_slice(&reply.body).ok()?;
        let is_whole = reply.code == 200 && list.metadata.next.is_empty();
        is_whole.then(|| list.items.iter().map(Named::key).collect())
    }

    /// The checks that begin with a list: the history, and compression.
    async fn of_list(&self, reply: &Reply) -> Vec<Check> {
        let mut checks = Vec::new();
        let Ok(list) = serde_json::from_slice::<List>(&reply.body) else {
            let error = Unanswered {
                kind: SourceErrorKind::NotKubernetes,
                message: format!("GET {} is not JSON", self.path),
            };
            return vec![verdict::unanswered(&error, None).of(&self.title)];
        };
        let (seconds, limit) = RESUME;
        let version = &list.metadata.resource_version;
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}",
            self.path
        );
        if let Ok(stream) = self.probe.watch(&path, METADATA, limit).await
            && matches!(stream.code, 0 | 200 | 410)
        {
            checks.push(verdict::history(self.scope(), &stream));
        }
        if reply.body.len() > PACKED_FROM {
            let path = format!("{}?limit={COMPARED}", self.path);
            let packed = self.probe.get(&path, METADATA_LIST, "gzip", LIST).await;
            checks.extend(packed.ok().map(|reply| {
                let check = match reply.is_packed {
                    true => Check::ok("compression", "large lists come compressed"),
                    false => Check::note("compression", "large lists come uncompressed: the feature APIResponseCompression is off, or a proxy unpacks them"),
                };
                check.of(&self.title)
            }));
        }
        checks
    }
}
