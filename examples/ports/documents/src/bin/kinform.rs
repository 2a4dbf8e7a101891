//! The controller of documents on kinform.
//!
//! ```text
//! informer ─▶ Controller, which keeps the finalizer ─▶ reconcile │ cleanup
//! Operator: probes, metrics, events, flags, signals      └─▶ Observed ─▶ metrics, page /
//! ```
//!
//! Upstream counterpart: `controller-rs:src/controller.rs`, `controller-rs:src/main.rs`.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use documents::Document;
use documents::document::{self, CONTROLLER, FINALIZER};
use kinform::events::EventRecorder;
use kinform::{Action, Controller, Ctx, Limiter};
use kinform_operator::{Flags, Operator, When};
use kube::ResourceExt as _;
use unchanged::{Observed, web};

/// Documents that are reconciled at one time; the other column has as many when it is measured.
const WORKERS: usize = 64;

/// Hides documents.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    operator: Flags,
}

/// The context of each run.
struct State {
    events: EventRecorder,
    observed: Observed,
}

/// The reason why a document could not be reconciled.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the title is illegal")]
    Illegal,
    #[error("cannot write the status")]
    Status(#[source] kinform::Error),
}

async fn reconcile(document: Arc<Document>, cx: Ctx<State>) -> Result<Action, Error> {
    let run = cx.observed.run(&*document);
    run.finish(hide(&document, &cx).await)
}

async fn hide(document: &Arc<Document>, cx: &Ctx<State>) -> Result<Action, Error> {
    if document.wants_hiding() {
        let note = format!("hides {}", document.name_any());
        let events = cx.events.for_object(&**document).action("Hiding");
        events.normal("HideRequested", &note);
    }
    if document.is_illegal() {
        return Err(Error::Illegal);
    }
    let written = cx.status(document, |status| status.hidden = document.spec.hide);
    written.await.map_err(Error::Status)?;
    Ok(Action::requeue(document::check_back()))
}

async fn cleanup(document: Arc<Document>, cx: Ctx<State>) -> Result<(), Error> {
    let run = cx.observed.run(&*document);
    let note = format!("deletes {}", document.name_any());
    let events = cx.events.for_object(&*document).action("Deleting");
    events.normal("DeleteRequested", &note);
    run.finish(Ok(()))
}

async fn run(args: Args) -> Result<(), kinform_operator::Error> {
    let operator = Operator::builder(CONTROLLER).flags(&args.operator);
    let operator = operator.try_default().await?;
    let failed = |error| kinform_operator::Error::of("cannot list documents", error);
    unchanged::listable::<Document>(operator.unguarded())
        .await
        .map_err(failed)?;
    let observed = Observed::new(CONTROLLER);
    let shown = observed.clone();
    operator.register_metrics(|registry| observed.register(registry));
    let state = State {
        events: operator.events().clone(),
        observed,
    };
    let controller = Controller::of(&operator.informer::<Document>())
        .named(CONTROLLER)
        .context(state)
        .workers(WORKERS)
        .limiter(Limiter::exponential(
            document::check_back(),
            document::check_back(),
        ))
        .ignore_own_echo()
        .finalizer(FINALIZER, cleanup);
    operator.add(controller.reconciling(reconcile))?;
    operator.task("pages", When::Always, move |stop| {
        let shown = shown.clone();
        let page = move |path: &str| {
            (path == "/").then(|| ("application/json", shown.diagnostics().to_string()))
        };
        async move {
            stop.run_until_cancelled(web::serve(page))
                .await
                .unwrap_or(Ok(()))
        }
    })?;
    operator.run().await
}

#[tokio::main]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    kinform_operator::main(run).await
}
