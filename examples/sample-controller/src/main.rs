//! The sample controller as a whole operator: webhooks, leader election, probes, metrics, ordered stop.
//!
//! ```text
//! flags → operator → definition of Foo → webhooks, controller → SIGTERM: drain, release, flush
//! ```

use std::process::ExitCode;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Parser};
use kinform_operator::leader::pod_namespace;
use kinform_operator::{Error, Flags, Operator};
use sample_controller::webhooks;

/// Keeps a Deployment for every Foo.
#[derive(Debug, Parser)]
#[command(name = "sample-controller", version)]
struct Args {
    #[command(flatten)]
    operator: Flags,
    /// Serves webhooks for Foos; by default in a pod, and with --webhook-cert-path. Without that flag
    /// their certificate is kept in a Secret of the pod's namespace, and its authority in the webhook
    /// configurations.
    #[arg(long, env = "ENABLE_WEBHOOKS", value_name = "BOOL", num_args = 0..=1,
          default_missing_value = "true", require_equals = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    enable_webhooks: Option<bool>,
}

#[tokio::main]
async fn main() -> ExitCode {
    // TLS is the program's choice. An error means that one was chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    kinform_operator::main(run).await
}

async fn run(args: Args) -> Result<(), Error> {
    let operator = Operator::builder(sample_controller::COMPONENT)
        .flags(&args.operator)
        .try_default()
        .await?;
    sample_controller::install_definition(operator.unguarded())
        .await
        .map_err(|error| Error::of("cannot install the definition of Foo", error))?;
    let files = operator.webhook_certificate();
    let is_served = || files.is_some() || pod_namespace().is_ok();
    if args.enable_webhooks.unwrap_or_else(is_served) {
        let certificates = match files {
            Some(files) => files,
            None => webhooks::certificates(operator.unguarded())?,
        };
        operator.serve_webhooks(webhooks::all()?, certificates)?;
    }
    let (factory, events) = (operator.factory(), operator.events().clone());
    operator.add(match (operator.share(), operator.shard_client()) {
        (Some(share), Some(client)) => {
            sample_controller::sharded_reconciler(factory, client, events, &share)
        }
        _ => sample_controller::reconciler(factory, operator.client(), events),
    })?;
    operator.run().await
}
