//! One replica of an operator that writes while it leads: each write carries its term.
//!
//! ```text
//! flags of an operator, --name NAME → ConfigMap default/beats: annotations name, uid, term, count
//! ```

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform_operator::{Error, Flags, Operator, When};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    operator: Flags,
    /// The replica's name.
    #[arg(long)]
    name: String,
    /// The ConfigMap that it writes to.
    #[arg(long, default_value = "beats")]
    object: String,
    /// Milliseconds between an answer and the next write.
    #[arg(long, default_value_t = 20)]
    pause_ms: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    kinform_operator::main(run).await
}

async fn run(args: Args) -> Result<(), Error> {
    let operator = Operator::builder("replica")
        .flags(&args.operator)
        .try_default()
        .await?;
    let (of_task, writer) = (operator.clone(), Writer::new(&args));
    operator.task("beats", When::Leading, move |stop| {
        beat(of_task.clone(), writer.clone(), stop)
    })?;
    operator.run().await
}

/// The part of a write that is the same each time.
#[derive(Clone, Debug)]
struct Writer {
    name: String,
    object: String,
    pause: Duration,
}

impl Writer {
    fn new(args: &Args) -> Self {
        Self {
            name: args.name.clone(),
            object: args.object.clone(),
            pause: Duration::from_millis(args.pause_ms),
        }
    }
}

/// Writes as fast as the server answers, with a short pause.
async fn beat(
    operator: Operator,
    writer: Writer,
    stop: kinform::CancellationToken,
) -> Result<(), kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced(operator.client(), "default");
    let mut count = 0_u64;
    while !stop.is_cancelled() {
        let Some(term) = operator.term() else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        count += 1;
        let patch = json!({"metadata": {"annotations": {
            "name": writer.name,
            "uid": term.uid,
            "term": term.version.to_string(),
            "count": count.to_string(),
        }}});
        // A write that is refused or lost is the matter of the guard; the next one tells.
        let _ = maps
            .patch(
                &writer.object,
                &PatchParams::default(),
                &Patch::Merge(&patch),
            )
            .await;
        tokio::time::sleep(writer.pause).await;
    }
    Ok(())
}
