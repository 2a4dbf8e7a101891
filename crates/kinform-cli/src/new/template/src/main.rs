//! The program: flags, leader election, probes, metrics, signals, and the controller among them.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use kinform_operator::{Error, Flags, Operator};
use kube::CustomResourceExt as _;

use ::gizmo_operator::{NAME, api, controller};

/// Keeps a ConfigMap for every Gizmo.
#[derive(Debug, Parser)]
#[command(name = NAME, version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(flatten)]
    operator: Flags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints the definition of the custom resource as YAML
    Crd,
}

#[tokio::main]
async fn main() -> ExitCode {
    // TLS is the program's choice. An error means that one was chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    kinform_operator::main(run).await
}

async fn run(args: Args) -> Result<(), Error> {
    if let Some(Command::Crd) = args.command {
        return print_definition();
    }
    let operator = Operator::builder(NAME)
        .flags(&args.operator)
        .try_default()
        .await?;
    operator.add(controller(&operator))?;
    operator.run().await
}

fn print_definition() -> Result<(), Error> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
        Error::of("cannot print the definition", error)
    };
    let yaml = serde_saphyr::to_string(&api::Gizmo::crd()).map_err(|error| failed(error.into()))?;
    let printed = std::io::stdout().write_all(yaml.as_bytes());
    printed.map_err(|error| failed(error.into()))
}
