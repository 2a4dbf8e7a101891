//! Runs an example: `kinform-examples NAME [--context CONTEXT]`.
//!
//! ```text
//! NAME ─▶ ALL ─▶ on an embedded server | on the context's cluster ─▶ lines on the terminal
//! ```

use std::io::Write as _;
use std::process::ExitCode;

use kinform::CancellationToken;
use kinform_examples::start::{Failure, Out, on_cluster, on_embedded};
use kinform_examples::{ALL, Example};

const USAGE: &str = "usage: kinform-examples NAME [--context CONTEXT]; without a NAME: the list";

#[tokio::main]
async fn main() -> ExitCode {
    // TLS is the program's choice. An error means that one was chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (name, context) = match words.as_slice() {
        [] | ["--help" | "-h"] => return list(),
        [name] => (*name, None),
        [name, "--context", context] | ["--context", context, name] => (*name, Some(*context)),
        _ => return refuse(USAGE, 2),
    };
    let Some(example) = ALL.iter().find(|example| example.name == name) else {
        return refuse(&format!("there is no example {name:?}; {USAGE}"), 2);
    };
    match run(example, context).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error.to_string(), 1),
    }
}

/// Runs it until it ends. After ctrl-C it has time to end in order on a cluster; a second ctrl-C ends
/// the process.
async fn run(example: &Example, context: Option<&str>) -> Result<(), Failure> {
    let (out, stop) = (Out::to(std::io::stdout()), CancellationToken::new());
    let Some(context) = context else {
        return tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => Ok(()),
            ran = on_embedded(example, out) => ran.map(drop),
        };
    };
    let running = on_cluster(example, context.to_owned(), out, stop.clone());
    let ended = async {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.cancel();
        }
        let _ = tokio::signal::ctrl_c().await;
    };
    tokio::select! {
        biased;
        ran = running => ran,
        () = ended => Ok(()),
    }
}

fn list() -> ExitCode {
    let mut out = std::io::stdout().lock();
    for example in &ALL {
        // A reader that has gone, as `head`, is no error.
        let _ = writeln!(out, "{:18} {}", example.name, example.about);
    }
    ExitCode::SUCCESS
}

fn refuse(why: &str, code: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{why}");
    ExitCode::from(code)
}
