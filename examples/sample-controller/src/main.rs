//! The sample controller for the cluster that the kubeconfig (or the pod's service account) names.

use std::process::ExitCode;

use kinform::InformerFactory;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error, "sample-controller ends");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failed> {
    let client = Client::try_default().await?;
    sample_controller::install_definition(client.clone()).await?;
    let factory = InformerFactory::new(client.clone());
    let controller = sample_controller::SampleController::new(&factory, client);
    factory.start()?;
    let ended = controller
        .shutdown_on_signal()
        .run(CancellationToken::new())
        .await;
    factory.shutdown().await;
    Ok(ended?)
}
