//! The controller of documents on kube-runtime.
//!
//! ```text
//! watch ─▶ kube-runtime's Controller ─▶ reconcile ─▶ finalizer ─▶ apply │ cleanup
//!                                           └─▶ Observed ─▶ pages: /, /health, /metrics
//! ```
//!
//! Upstream counterpart: `controller-rs:src/controller.rs`, `controller-rs:src/main.rs`.

use std::process::ExitCode;
use std::sync::Arc;

use documents::document::{self, CONTROLLER, FINALIZER};
use documents::{Document, DocumentStatus};
use futures::StreamExt as _;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::watcher;
use kube::{Client, Resource as _, ResourceExt as _};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::json;
use tracing_subscriber::EnvFilter;
use unchanged::Observed;
use unchanged::web::{self, Page};

/// The context of each run.
struct State {
    client: Client,
    recorder: Recorder,
    observed: Observed,
}

/// The reason why a document could not be reconciled.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the title is illegal")]
    Illegal,
    #[error("cannot record an event")]
    Event(#[source] kube::Error),
    #[error("cannot write the status")]
    Status(#[source] kube::Error),
    // Boxed: it holds an error of this type.
    #[error("cannot keep the finalizer")]
    Finalizer(#[source] Box<finalizer::Error<Error>>),
}

async fn reconcile(document: Arc<Document>, state: Arc<State>) -> Result<Action, Error> {
    let run = state.observed.run(&*document);
    let namespace = document.namespace().unwrap_or_default();
    let documents: Api<Document> = Api::namespaced(state.client.clone(), &namespace);
    let done = finalizer(&documents, FINALIZER, document, |event| async {
        match event {
            finalizer::Event::Apply(document) => apply(&documents, &document, &state).await,
            finalizer::Event::Cleanup(document) => cleanup(&document, &state).await,
        }
    })
    .await;
    run.finish(done.map_err(|error| Error::Finalizer(Box::new(error))))
}

async fn apply(
    documents: &Api<Document>,
    document: &Document,
    state: &State,
) -> Result<Action, Error> {
    let name = document.name_any();
    if document.wants_hiding() {
        let note = format!("hides {name}");
        publish(document, state, "HideRequested", "Hiding", note).await?;
    }
    if document.is_illegal() {
        return Err(Error::Illegal);
    }
    let hidden = document.spec.hide;
    let patch = Patch::Apply(json!({
        "apiVersion": Document::api_version(&()),
        "kind": Document::kind(&()),
        "status": DocumentStatus { hidden },
    }));
    let params = PatchParams::apply(CONTROLLER).force();
    let written = documents.patch_status(&name, &params, &patch).await;
    written.map_err(Error::Status)?;
    Ok(Action::requeue(document::check_back()))
}

async fn cleanup(document: &Document, state: &State) -> Result<Action, Error> {
    let note = format!("deletes {}", document.name_any());
    publish(document, state, "DeleteRequested", "Deleting", note).await?;
    Ok(Action::await_change())
}

async fn publish(
    document: &Document,
    state: &State,
    reason: &str,
    action: &str,
    note: String,
) -> Result<(), Error> {
    let event = Event {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        note: Some(note),
        action: action.to_owned(),
        secondary: None,
    };
    let about = document.object_ref(&());
    let published = state.recorder.publish(&event, &about);
    published.await.map_err(Error::Event)
}

fn error_policy(document: Arc<Document>, error: &Error, _: Arc<State>) -> Action {
    tracing::warn!(document = document.name_any(), ?error, "a run failed");
    Action::requeue(document::check_back())
}

/// The pages of the port.
fn page(path: &str, observed: &Observed, metrics: &Registry) -> Option<Page> {
    match path {
        "/" => Some(("application/json", observed.diagnostics().to_string())),
        "/health" => Some(("application/json", json!("healthy").to_string())),
        "/metrics" => {
            let mut body = String::new();
            text::encode(&mut body, metrics).ok()?;
            Some(("application/openmetrics-text; version=1.0.0", body))
        }
        _ => None,
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    unchanged::listable::<Document>(client.clone()).await?;
    let observed = Observed::new(CONTROLLER);
    let mut registry = Registry::default();
    observed.register(&mut registry);
    let registry = Arc::new(registry);
    let shown = observed.clone();
    let pages = web::serve(move |path| page(path, &shown, &registry));
    let state = State {
        recorder: Recorder::new(client.clone(), Reporter::from(CONTROLLER)),
        client: client.clone(),
        observed,
    };
    let config = watcher::Config::default().any_semantic();
    let controller = Controller::new(Api::<Document>::all(client), config)
        .with_config(Config::default().concurrency(unchanged::concurrency()))
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::new(state))
        .for_each(|_| std::future::ready(()));
    tokio::select! {
        biased;
        () = controller => Ok(()),
        failed = pages => Ok(failed?),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    log.with_ansi(false).with_writer(std::io::stderr).init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
