//! `kinform diff --attach`: the versions of an object that a running program kept.
//!
//! ```text
//! look (the program keeps versions from now on) ─ time ─▶ look ─▶ fields by version, exit code 0 or 1
//! ```
//!
//! The program keeps ten versions of an object, from the first look of anybody until nobody has looked
//! for five minutes. It hides the values of Secrets itself.
//!
//! Upstream counterpart: the exit codes of `kubectl diff`.

use std::time::Duration;

use kinform_operator::inspect::{ObjectView, VersionRow};
use serde_json::json;

use crate::args::looking::{DiffArgs, LineOutput};
use crate::attach::{Attach, Kept};
use crate::exit::{Ending, Failure};
use crate::signals::Signals;
use crate::terminal::{Out, escaped_json, visible};
use crate::watch::elapsed;

/// The time between two looks: the program forgets versions that nobody looks at.
const LOOK: Duration = Duration::from_secs(60);

/// Prints the versions.
pub(super) async fn run(args: DiffArgs, program: &str) -> Result<Ending, Failure> {
    let attach = Attach::of(Some(program))?;
    let mut signals = Signals::listen()?;
    let shown = async {
        let namespace = args.of.namespace.as_deref();
        let kept = Kept::find(&attach, &args.of.object, namespace).await?;
        let mut view = kept.view(&attach).await?;
        if args.run_for.is_some() {
            let mut elapsed = Box::pin(elapsed(args.run_for));
            let mut looks = tokio::time::interval(LOOK);
            loop {
                tokio::select! {
                    biased;
                    () = &mut elapsed => break,
                    _ = looks.tick() => {
                        kept.view(&attach).await?;
                    }
                }
            }
            view = kept.view(&attach).await?;
        }
        print(args.output, &view)
    };
    tokio::select! {
        biased;
        ending = signals.ending() => Ok(ending),
        shown = shown => shown,
    }
}

fn print(output: LineOutput, view: &ObjectView) -> Result<Ending, Failure> {
    let mut out = Out::stdout();
    let changed = || {
        view.versions
            .iter()
            .filter(|version| !version.changes.is_empty())
    };
    for version in changed().rev() {
        for line in lines(output, version) {
            out.text(&(line + "\n"))?;
        }
    }
    out.flush()?;
    crate::progress!(
        "the program keeps {} versions of {} {:?}",
        view.versions.len(),
        view.resource,
        view.name
    );
    match changed().next() {
        None => Ok(Ending::Done),
        Some(_) => Err(Failure::said(1)),
    }
}

fn lines(output: LineOutput, version: &VersionRow) -> Vec<String> {
    let number = version.resource_version.as_deref();
    let mut lines = Vec::new();
    if output == LineOutput::Wide {
        let of = number.map_or("deleted".to_owned(), |number| format!("version {number}"));
        lines.push(visible(&format!("{} {of}", version.seen)).into_owned());
    }
    for change in &version.changes {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "(absent)".to_owned());
        lines.push(match output {
            LineOutput::Wide => {
                let (before, after) = (side(&change.before), side(&change.after));
                visible(&format!("  {}   {before} → {after}", change.path)).into_owned()
            }
            LineOutput::Json => {
                let line = json!({
                    "seen": version.seen,
                    "resourceVersion": number,
                    "path": change.path,
                    "before": change.before,
                    "after": change.after,
                });
                escaped_json(&line.to_string()).into_owned()
            }
        });
    }
    lines
}
