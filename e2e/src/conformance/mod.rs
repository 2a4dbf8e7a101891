//! Behaviour of an API server that clients can observe, written once and checked on both servers.
//!
//! ```text
//! rows ──▶ Probe (a namespace of its own) ──▶ embedded server ─▶ Outcome, transcript ┐
//!      └─▶ Probe                          ──▶ real server     ─▶ Outcome, transcript ┴▶ Report
//! ```
//!
//! A row is a small function that sends requests and asserts the answers. A row that fails on the
//! real server is wrong. A row that fails on the embedded server, or whose transcripts differ
//! between the two, is a difference. It must be listed in `docs/server-differences.md` with its
//! reason, or the run fails. A listed difference that no longer exists fails too, so the list
//! cannot outlive its reasons. Real servers of older versions have a list of their own there.
//!
//! | file | subject |
//! |---|---|
//! | `list`, `watch`, `select` | reading: versions, pages, streams, selectors |
//! | `error`, `form` | refusals; the forms of answers |
//! | `create`, `update`, `patch`, `delete` | writing |
//! | `kinds`, `definition`, `discovery` | tables over kinds; custom resources; discovery documents |
//! | `builtin`, `start` | rules of single built-in kinds; what a server has from the start |
//! | `warning` | warnings to clients |
//! | `history` | expired versions: run last and alone |
//!
//! Upstream counterpart: `kubernetes:test/e2e/apimachinery`,
//! `kubernetes:test/integration/apiserver`.

mod builtin;
mod create;
mod definition;
mod delete;
mod discovery;
mod error;
mod form;
mod history;
mod kinds;
mod list;
pub(crate) mod mask;
mod patch;
mod probe;
mod report;
mod select;
mod start;
mod update;
mod warning;
mod watch;

use std::time::Instant;

use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use kinform_testkit::checks::stage::StageError;

use crate::servers::{Host, Servers};

use probe::{Failure, Probe};
pub use report::{Difference, Report};

/// One thing to observe.
#[derive(Clone, Copy)]
struct Row {
    /// A sentence, in snake case: the function's name.
    name: &'static str,
    /// The place where upstream promises it.
    cites: &'static str,
    act: for<'a> fn(&'a Probe) -> BoxFuture<'a, Result<(), Failure>>,
}

/// Rows from functions: `rows![function: "upstream's place", ..]`.
macro_rules! rows {
    ($($name:ident: $cites:literal),+ $(,)?) => {
        &[$($crate::conformance::Row {
            name: stringify!($name),
            cites: $cites,
            act: |probe| Box::pin($name(probe)),
        }),+]
    };
}
use rows;

/// Rows that are one request and its refusal:
/// `refusals![name: "where"; "GET" "path" => 400 "Reason" "words of the message", ..]`, with
/// `"media type" "body"` after the path of a write.
macro_rules! refusals {
    ($($name:ident: $cites:literal; $method:literal $path:literal $($media:literal $body:literal)?
        => $code:literal $reason:literal $words:literal),+ $(,)?) => {
        &[$($crate::conformance::Row {
            name: stringify!($name),
            cites: $cites,
            act: |probe| Box::pin(async move {
                let question = $crate::conformance::probe::Question {
                    $(media: Some($media), body: $body.as_bytes(),)?
                    ..$crate::conformance::probe::Question::new($method, $path)
                };
                probe.ask(question).await?.says($code, $reason, $words)?;
                Ok(())
            }),
        }),+]
    };
}
use refusals;

/// BOUND: rows that run side by side on a server.
const WIDTH: usize = 12;

/// The result of a row on one server.
#[derive(Debug)]
struct Outcome {
    result: Result<(), Failure>,
    /// The answers it received, with parts masked that differ between any two servers.
    transcript: Vec<String>,
}

/// The rows to run, and the real server's version.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// A part of their names.
    pub row: String,
    /// The version of the real server, such as `1.34.4`, if it is older than the newest.
    pub older: Option<String>,
}

/// Runs the wanted rows on all servers, and compares.
///
/// # Errors
/// A server cannot be reached at all.
pub async fn run(servers: &Servers, asked: &Wanted) -> Result<Report, StageError> {
    let began = Instant::now();
    let wanted = |rows: &[&[Row]]| -> Vec<Row> {
        let all = rows.iter().flat_map(|rows| rows.iter().copied());
        all.filter(|row| row.name.contains(&asked.row)).collect()
    };
    let rows = wanted(&[
        list::ROWS,
        list::REFUSALS,
        watch::ROWS,
        watch::REFUSALS,
        select::ROWS,
        error::REFUSALS,
        error::ROWS,
        form::ROWS,
        create::ROWS,
        create::REFUSALS,
        update::ROWS,
        patch::ROWS,
        patch::REFUSALS,
        delete::ROWS,
        kinds::ROWS,
        builtin::ROWS,
        start::ROWS,
        definition::ROWS,
        discovery::ROWS,
        warning::ROWS,
    ]);
    let alone = wanted(&[history::ROWS]);
    let embedded = on(servers.embedded(), &rows, &alone);
    let (embedded, real) = match servers.real() {
        Some(host) => {
            let (embedded, real) = futures::future::join(embedded, on(host, &rows, &alone)).await;
            (embedded?, Some(real?))
        }
        None => (embedded.await?, None),
    };
    let rows: Vec<Row> = rows.into_iter().chain(alone).collect();
    Ok(Report::new(&rows, asked, embedded, real, began.elapsed()))
}

/// The rows on one server: most side by side, the rest one after the other.
async fn on(host: &Host, rows: &[Row], alone: &[Row]) -> Result<Vec<Outcome>, StageError> {
    let one = |(number, row): (usize, Row), kind: &'static str| {
        let probe = Probe::new(host, format!("{kind}-{number}"));
        async move {
            let probe = probe?;
            let result = match probe.begin().await {
                Ok(()) => (row.act)(&probe).await,
                Err(why) => Err(why),
            };
            Ok(Outcome {
                result,
                transcript: probe.transcript(),
            })
        }
    };
    let side_by_side = stream::iter(rows.iter().copied().enumerate())
        .map(|row| one(row, "row"))
        .buffered(WIDTH);
    let mut outcomes: Vec<Result<Outcome, StageError>> = side_by_side.collect().await;
    for row in alone.iter().copied().enumerate() {
        outcomes.push(one(row, "alone").await);
    }
    outcomes.into_iter().collect()
}
