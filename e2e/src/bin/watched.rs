//! A program with an inspector, which does on command what its views have to show.
//!
//! ```text
//! stdin, a word a line ─▶ Watched ─▶ stdout: url URL, then done WORD | failed WORD: why
//! ```
//!
//! It ends at the word `end`, and at the end of its input.

use std::process::ExitCode;

use clap::Parser;
use kinform_e2e::watched::{Size, Watched};
use kinform_operator::{Error, Flags};
use tokio::io::{AsyncBufReadExt as _, BufReader};

#[derive(Debug, Parser)]
struct Args {
    /// Widgets at the start.
    #[arg(long, default_value_t = 1_000)]
    widgets: usize,
    /// Changes of widgets a second.
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// The inspector's port; 0 is a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    // Sets the log up, before the program runs.
    #[command(flatten)]
    log: Flags,
}

#[tokio::main]
async fn main() -> ExitCode {
    kinform_operator::main(run).await
}

async fn run(args: Args) -> Result<(), Error> {
    let size = Size {
        widgets: args.widgets,
        rate: args.rate,
        port: args.port,
    };
    let watched = Watched::start(size).await;
    let watched = watched.map_err(|error| Error::of("start", error))?;
    println!("url {}", watched.url());
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(word)) = lines.next_line().await {
        match word.trim() {
            "" => {}
            "end" => break,
            word => match watched.obey(word).await {
                Ok(()) => println!("done {word}"),
                Err(error) => println!("failed {word}: {error}"),
            },
        }
    }
    watched.end().await;
    println!("ended");
    Ok(())
}
