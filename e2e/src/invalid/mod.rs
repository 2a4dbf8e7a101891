//! Invalid writes, sent to both servers.
//!
//! ```text
//! seed ──▶ [Write] ──┬──▶ real server     ─▶ Said ┐
//!   valid objects ───┴──▶ embedded server ─▶ Said ┴▶ Report: codes, words
//! ```
//!
//! Valid objects of the built-in kinds and of a definition are created on both servers. Then random
//! edits remove members, duplicate them, and give them other types, values, names, versions and
//! selectors, and each server reports the error. The embedded server has to refuse each write that
//! the real one refuses, with the same code; differences are listed in `docs/server-differences.md`
//! with their reasons.
//!
//! | file | content |
//! |---|---|
//! | `object` | the valid objects, and requests |
//! | `change`, `write` | the errors |
//! | `report` | the results |

mod change;
mod object;
mod report;
mod write;

use futures::{StreamExt as _, stream};
use kinform_testkit::checks::stage::StageError;
use kube_client::Client;
use serde_json::Value;

use crate::dice::Dice;
use crate::servers::{Host, Servers};

use object::{Said, Subject, ask, create};
pub use report::Report;
use write::Write;

/// BOUND: writes on their way to a server.
const WIDTH: usize = 8;

/// Sends `count` writes to both servers and compares; `None` without the real one.
///
/// # Errors
/// A valid object is refused, or a server cannot be asked.
pub async fn run(servers: &Servers, seed: u64, count: usize) -> Result<Option<Report>, StageError> {
    let Some(real) = servers.real() else {
        return Ok(None);
    };
    let subjects = Subject::all()?;
    let theirs = create(real, &subjects).await?;
    let ours = create(servers.embedded(), &subjects).await?;
    let mut dice = Dice::new(seed);
    let (mut writes, mut at) = (Vec::new(), 0);
    // In turn, so that each kind has its share.
    while writes.len() < count {
        let subject = &subjects[at % subjects.len()];
        if !subject.is_ground() {
            let at = at % subjects.len();
            writes.push(Write::of(&mut dice, at, subject, &theirs[at]));
        }
        at += 1;
    }
    let (theirs, ours) = futures::future::join(
        send(real, &writes, &subjects, &theirs),
        send(servers.embedded(), &writes, &subjects, &ours),
    )
    .await;
    let mut report = Report::new(seed);
    for (write, (real, ours)) in writes.iter().zip(theirs?.iter().zip(&ours?)) {
        report.write(&write.name, real.as_ref(), ours.as_ref());
    }
    Ok(Some(report))
}

/// Sends all writes to one server; `None` for writes that it does not answer at the second attempt.
async fn send(
    host: &Host,
    writes: &[Write],
    subjects: &[Subject],
    stored: &[Value],
) -> Result<Vec<Option<Said>>, StageError> {
    let client = host.client()?;
    let one = |write: &Write| {
        let sent = write.on(&subjects[write.subject], &stored[write.subject]);
        let client: Client = client.clone();
        async move {
            let sent = sent?;
            if let Ok(said) = ask(&client, &sent).await {
                return Ok(Some(said));
            }
            Ok(ask(&client, &sent).await.ok())
        }
    };
    let said = stream::iter(writes).map(one).buffered(WIDTH);
    let said: Vec<Result<Option<Said>, StageError>> = said.collect().await;
    said.into_iter().collect()
}
