//! `kinform why`: the reasons for which a running program reconciles an object.
//!
//! ```text
//! --attach URL ─▶ object view (waiting keys, last runs, their causes), problems ─▶ lines | JSON
//! ```
//!
//! It reads what the program's inspector keeps anyway, and asks no API server.
//!
//! Upstream counterpart: none.

use kinform_operator::inspect::{CauseList, ObjectView, Problem, Problems};
use serde_json::json;

use crate::args::inspecting::WhyArgs;
use crate::args::looking::LineOutput;
use crate::attach::{Attach, Kept};
use crate::exit::{Ending, Failure};
use crate::signals::Signals;
use crate::terminal::{Out, escaped_json, visible};
use crate::top::{cause_text, ms};

/// Prints the reasons.
pub(crate) async fn run(args: WhyArgs) -> Result<Ending, Failure> {
    let attach = Attach::of(args.attach.as_deref())?;
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        ending = signals.ending() => Ok(ending),
        printed = print(&attach, &args) => printed.map(|()| Ending::Done),
    }
}

async fn print(attach: &Attach, args: &WhyArgs) -> Result<(), Failure> {
    let kept = Kept::find(attach, &args.object, args.namespace.as_deref()).await?;
    let view = kept.view(attach).await?;
    let problems: Problems = attach.view("problems", &[]).await?;
    let is_of = |problem: &&Problem| {
        problem.name.as_deref() == Some(&view.name) && problem.namespace == view.namespace
    };
    let problems: Vec<&Problem> = problems.problems.iter().filter(is_of).collect();
    let mut out = Out::stdout();
    match args.output {
        LineOutput::Json => {
            let line = json!({
                "resource": view.resource,
                "namespace": view.namespace,
                "name": view.name,
                "isStored": view.is_stored,
                "waiting": view.waiting,
                "runs": view.runs,
                "problems": problems,
            });
            out.text(&(escaped_json(&line.to_string()).into_owned() + "\n"))?;
        }
        LineOutput::Wide => {
            for line in lines(&view, &problems) {
                out.text(&(visible(&line).into_owned() + "\n"))?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

fn lines(view: &ObjectView, problems: &[&Problem]) -> Vec<String> {
    let key = |namespace: Option<&str>, name: &str| match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    };
    let mut lines = vec![format!(
        "{} {}: {}",
        view.resource,
        key(view.namespace.as_deref(), &view.name),
        if view.is_stored {
            "cached"
        } else {
            "not in the cache"
        },
    )];
    for problem in problems {
        lines.push(format!("  {}: {}", problem.kind, problem.message));
        lines.push(format!("    {}", problem.advice));
    }
    for row in &view.waiting {
        let wait = &row.key;
        lines.push(format!(
            "  waiting in {}: for {}, {}, priority {}, {} failures in a row",
            row.controller,
            match &*wait.waits_for {
                "itself" => "its run that goes on",
                "time" => "its time",
                _ => "a worker",
            },
            ms(Some(wait.ms)),
            wait.priority,
            wait.failures,
        ));
        lines.extend(causes(&wait.causes));
    }
    for run in &view.runs {
        lines.push(format!(
            "  {} {} {} {} after {}",
            run.started,
            run.controller,
            key(run.namespace.as_deref(), &run.name),
            run.outcome,
            ms(Some(run.took_ms)),
        ));
        lines.extend(causes(&run.causes));
    }
    if view.waiting.is_empty() && view.runs.is_empty() {
        lines.push(
            "  no controller of the program has it in a queue, or reconciled it lately".to_owned(),
        );
    }
    lines
}

fn causes(list: &CauseList) -> Vec<String> {
    let line = |cause| format!("    since {}", cause_text(cause));
    let mut lines: Vec<String> = list.causes.iter().map(line).collect();
    let told: u64 = list.causes.iter().map(|cause| cause.merged + 1).sum();
    if list.total > told {
        lines.push(format!("    and {} causes before", list.total - told));
    }
    if list.are_own {
        lines.push("    all of them are writes of the controller itself".to_owned());
    }
    lines
}
