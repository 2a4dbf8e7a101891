//! The measurement of a port: both columns, one after the other, and the table.
//!
//! ```text
//! ports --port NAME --kube-runtime PROGRAM --kinform PROGRAM --source FOLDER [--quick] ─▶ a table on stdout
//! ```
//!
//! `cargo xtask ports` builds the programs and runs this. Fails if the column on kinform missed a
//! change; other rows that do not hold are printed as they are.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use harness::documents::Documents;
use harness::hosts::Hosts;
use harness::measure::{Parts, Plan, measure};
use harness::table::{Measured, table};
use harness::{Column, Port, StageError, lines};

/// Measures a port's two programs.
#[derive(Debug, Parser)]
struct Args {
    /// The port.
    #[arg(long, value_enum)]
    port: Name,
    /// The program on kube-runtime.
    #[arg(long)]
    kube_runtime: PathBuf,
    /// The program on kinform.
    #[arg(long)]
    kinform: PathBuf,
    /// The folder of the port's source.
    #[arg(long)]
    source: PathBuf,
    /// Other numbers of objects, rising.
    #[arg(long, value_delimiter = ',')]
    objects: Option<Vec<usize>>,
    /// Runs at one time on kube-runtime, where 0 is no limit, as its default is; 64 by default, as
    /// kinform's column has workers.
    #[arg(long)]
    concurrency: Option<u16>,
    /// The starts alone: memory, and the time to the first run.
    #[arg(long)]
    starts_only: bool,
    /// Small amounts, in two minutes.
    #[arg(long)]
    quick: bool,
}

/// The name of a port.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    Documents,
    Hosts,
}

/// The lines of the files of a folder, without those in further folders.
fn lines_of(folder: &Path) -> Result<usize, StageError> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            sum += lines::count(&std::fs::read_to_string(path)?);
        }
    }
    Ok(sum)
}

async fn run<P: Port>(args: &Args) -> Result<bool, StageError> {
    let mut plan = if args.quick { Plan::quick() } else { P::plan() };
    if let Some(objects) = &args.objects {
        plan.sizes.clone_from(objects);
    }
    if let Some(concurrency) = args.concurrency {
        plan.concurrency = concurrency;
    }
    if args.starts_only {
        plan.parts = Parts::Starts;
    }
    let shared = lines_of(&args.source)?;
    let mut all = Vec::new();
    for column in Column::ALL {
        let (program, file) = match column {
            Column::KubeRuntime => (&args.kube_runtime, "bin/kube_runtime.rs"),
            Column::Kinform => (&args.kinform, "bin/kinform.rs"),
        };
        let source = std::fs::read_to_string(args.source.join(file))?;
        let tell = |step: &str| eprintln!("ports: {step}");
        let figures = measure::<P>(column, program, &plan, tell).await?;
        eprintln!("ports: {}: {figures:?}", column.name());
        all.push(Measured {
            lines: lines::count(&source),
            figures,
        });
    }
    let [theirs, ours] = &all[..] else {
        return Err("two columns were measured".into());
    };
    println!("{}", table(shared, theirs, ours));
    let missed = &ours.figures.trouble.missed;
    if !missed.is_empty() {
        eprintln!("ports: kinform missed {missed:?}");
    }
    Ok(missed.is_empty())
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let ended = match args.port {
        Name::Documents => run::<Documents>(&args).await,
        Name::Hosts => run::<Hosts>(&args).await,
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ports: {error}");
            ExitCode::FAILURE
        }
    }
}
