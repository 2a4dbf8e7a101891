//! The sample controller as a whole operator: leader election, probes, metrics, ordered stop.
//!
//! ```text
//! flags → operator → definition of Foo → controller → SIGTERM: drain, release, flush
//! ```

use std::process::ExitCode;

use clap::Parser;
use kinform_operator::{Error, Flags, Operator};

/// Keeps a Deployment for every Foo.
#[derive(Debug, Parser)]
#[command(name = "sample-controller", version)]
struct Args {
    #[command(flatten)]
    operator: Flags,
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
    operator.add(sample_controller::reconciler(
        operator.factory(),
        operator.client(),
        operator.events().clone(),
    ))?;
    operator.run().await
}
