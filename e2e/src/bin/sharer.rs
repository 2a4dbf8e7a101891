//! One replica of a sharded operator: it writes each of its keys again and again, with the term in which
//! it is a member.
//!
//! ```text
//! flags of an operator, --name NAME → labelled ConfigMaps: annotations name, uid, term, seen, beat
//!                                   → stderr: a line for each key whose object is gone
//! ```
//!
//! `seen` repeats `data.wish`, so that a test can tell when a change was answered; `beat` is another one
//! in each write.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Action, Controller, Ctx, ObjectKey, Target};
use kinform_e2e::sharing::{LABEL, gone_line};
use kinform_operator::{Error, Flags, Operator};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

/// Reconciles at a time.
const WORKERS: usize = 8;
/// The time that each takes.
const WORK: Duration = Duration::from_millis(1);
/// The time that a careless write is on its way.
const LATE: Duration = Duration::from_millis(300);

#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    operator: Flags,
    /// The replica's name.
    #[arg(long)]
    name: String,
    /// Milliseconds between two writes to a key that does not change.
    #[arg(long, default_value_t = 1_000)]
    period_ms: u64,
    /// Writes without a guard, some time after the term was looked up: what the test must notice.
    #[arg(long)]
    careless: bool,
}

/// The context of each reconcile.
struct State {
    name: String,
    operator: Operator,
    period: Duration,
    is_careless: bool,
    count: AtomicU64,
    // BOUND: as many as there are keys in the test.
    written: Mutex<HashMap<ObjectKey, Instant>>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    kinform_operator::main(run).await
}

async fn run(args: Args) -> Result<(), Error> {
    let operator = Operator::builder("sharer").flags(&args.operator);
    let operator = operator.try_default().await?;
    let share = operator.share().ok_or_else(|| {
        let why = std::io::Error::other("--shards is missing");
        Error::of("a sharer shares", why)
    })?;
    let maps = operator.factory().select(Target::<ConfigMap>::new());
    let maps = maps.labels(LABEL).share(&share).build();
    let state = State {
        name: args.name,
        operator: operator.clone(),
        period: Duration::from_millis(args.period_ms),
        is_careless: args.careless,
        count: AtomicU64::default(),
        written: Mutex::default(),
    };
    let controller = Controller::of(&maps).sharded(&share).workers(WORKERS);
    let controller = controller.context(state).on_gone(gone);
    operator.add(controller.reconciling(reconcile))?;
    operator.run().await
}

async fn gone(key: ObjectKey, _: Ctx<State>) -> Result<Action, kinform::Error> {
    eprintln!("{}", gone_line(&key.to_string()));
    Ok(Action::await_change())
}

async fn reconcile(map: Arc<ConfigMap>, cx: Ctx<State>) -> Result<Action, kube::Error> {
    tokio::time::sleep(WORK).await;
    let wish = map.data.as_ref().and_then(|data| data.get("wish"));
    let wish = wish.cloned().unwrap_or_default();
    let is_answered = map.annotations().get("seen") == Some(&wish);
    let key = cx.key().clone();
    let last = cx.written().get(&key).copied();
    if let Some(rest) = last.and_then(|last| cx.period.checked_sub(last.elapsed()))
        && is_answered
    {
        return Ok(Action::requeue(rest));
    }
    // A replica that is no member any more is stopped at the next await.
    let Some(term) = cx.operator.shard_term() else {
        return Ok(Action::requeue(WORK));
    };
    let patch = json!({"metadata": {"annotations": {
        "name": cx.name,
        "uid": term.uid,
        "term": term.transitions.to_string(),
        "seen": wish,
        "beat": format!("{}-{}", cx.name, cx.count.fetch_add(1, Ordering::Relaxed)),
    }}});
    let (name, namespace) = (map.name_any(), map.namespace().unwrap_or_default());
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    if cx.is_careless {
        let maps: Api<ConfigMap> = Api::namespaced(cx.operator.unguarded(), &namespace);
        // Nobody waits for it, and no end of a term ends it.
        tokio::spawn(async move {
            tokio::time::sleep(LATE).await;
            let _ = maps.patch(&name, &params, &patch).await;
        });
        cx.written().insert(key, Instant::now());
        return Ok(Action::requeue(cx.period));
    }
    let client = cx.client();
    let client = client.map_err(|error| kube::Error::Service(error.into()))?;
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    match maps.patch(&name, &params, &patch).await {
        Ok(_) => {}
        // Deleted meanwhile.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Action::await_change()),
        Err(error) => return Err(error),
    }
    cx.written().insert(key, Instant::now());
    Ok(Action::requeue(cx.period))
}

impl State {
    fn written(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectKey, Instant>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
