//! The embedded server as a process that can be killed: over plain HTTP, with one user.
//!
//! ```text
//! --listen ADDRESS --token-file FILE ──▶ serves until it is killed; it keeps nothing
//! ```

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use kinform_apiserver::Server;

#[derive(Debug, Parser)]
struct Args {
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    token_file: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let tokens = std::fs::read_to_string(args.token_file)?;
    let builder = Server::builder().listen(args.listen).plain();
    let server = builder.token_file(&tokens)?.start().await?;
    std::future::pending::<()>().await;
    server.stop().await;
    Ok(())
}
