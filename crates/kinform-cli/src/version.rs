//! `kinform version`: the versions of this program and of the server.
//!
//! ```text
//! GET /version → { clientVersion, serverVersion } → lines | JSON | YAML
//! ```
//!
//! The client's version is printed even if the server does not answer; the exit code is then 1.
//!
//! Upstream counterpart: `kubectl version`.

use kinform::source::fetch;
use kinform_apiserver::write_yaml;
use serde_json::{Value, json};

use crate::args::checking::{DocumentOutput, VersionArgs};
use crate::connect::Connection;
use crate::exit::{Ending, Failure};
use crate::signals::Signals;
use crate::terminal::{Out, escaped_json, visible};

/// BOUND: bytes of the server's reply.
const MAX_REPLY: usize = 64 << 10;
/// The time that the server has.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Prints the versions.
pub(crate) async fn run(args: VersionArgs) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let asked = async {
        match args.client {
            true => Ok(None),
            false => server(&args).await.map(Some),
        }
    };
    let server = tokio::select! {
        biased;
        ending = signals.ending() => return Ok(ending),
        server = asked => server,
    };
    let known = server.as_ref().ok().and_then(Option::as_ref);
    print(args.output, known)?;
    server.map(|_| Ending::Done)
}

async fn server(args: &VersionArgs) -> Result<Value, Failure> {
    let connection = Connection::open(&args.cluster).await?;
    let address = &connection.address;
    let fetched = tokio::time::timeout(PATIENCE, fetch(&connection.client, "/version", MAX_REPLY));
    let hint = "`kinform doctor` finds out why";
    let body = match fetched.await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return Err(Failure::new(format!("{address}: {error}")).with_hint(hint)),
        Err(_) => {
            return Err(Failure::new(format!("{address}: no answer within 10 s")).with_hint(hint));
        }
    };
    serde_json::from_slice(&body)
        .map_err(|error| Failure::new(format!("{address}: GET /version: {error}")).with_hint(hint))
}

fn print(output: Option<DocumentOutput>, server: Option<&Value>) -> Result<(), Failure> {
    let mut out = Out::stdout();
    let client = env!("CARGO_PKG_VERSION");
    let mut whole = json!({"clientVersion": {
        "gitVersion": format!("v{client}"),
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    }});
    if let Some(server) = server {
        whole["serverVersion"] = server.clone();
    }
    match output {
        None => {
            out.text(&format!("Client Version: v{client}\n"))?;
            let name = server.and_then(|server| server["gitVersion"].as_str());
            if let Some(name) = name {
                out.text(&format!("Server Version: {}\n", visible(name)))?;
            }
        }
        Some(DocumentOutput::Json) => {
            let text = serde_json::to_string_pretty(&whole).map_err(std::io::Error::from)?;
            out.text(&(escaped_json(&text) + "\n"))?;
        }
        Some(DocumentOutput::Yaml) => out.text(&write_yaml(&whole))?,
    }
    out.flush()?;
    Ok(())
}
