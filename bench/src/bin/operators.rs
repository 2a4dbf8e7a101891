//! Measures operators and writes the results: `cargo xtask bench operators`.
//!
//! ```text
//! operators [--objects N ..] ─▶ scenarios, one after the other ─▶ bench/results/operators.json
//!    └─ operators replica | blocked | losses | overhead: the parts, as processes of their own
//! ```

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use kinform_bench::operators::cluster::Cluster;
use kinform_bench::operators::overhead::By;
use kinform_bench::operators::process::{Process, tell};
use kinform_bench::operators::takeover::Takeover;
use kinform_bench::operators::{Timings, blocked, fairness, losses, overhead, replica};
use kinform_bench::row::Figures;
use kinform_bench::subject::Failed;
use nix::sys::signal::Signal;

/// Measures what stands around controllers.
#[derive(Debug, Parser)]
struct Arguments {
    /// A part, in a process of its own; without one, everything is measured.
    #[command(subcommand)]
    part: Option<Part>,
    /// Objects in the caches of replicas, and keys of the large tenant.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Take-overs after SIGTERM.
    #[arg(long, default_value_t = 10)]
    stops: usize,
    /// Take-overs after `kill -9`, for each set of timings.
    #[arg(long, default_value_t = 3)]
    crashes: usize,
    /// Seconds for which every worker thread is blocked; ten minutes is the goal's.
    #[arg(long, default_value_t = 60)]
    blocked_seconds: u64,
    /// Reconciles of each part; turns of all parts.
    #[arg(long, default_value_t = 200_000)]
    reconciles: usize,
    /// Turns of the parts of a controller; the median counts.
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Losses of a lease in one process.
    #[arg(long, default_value_t = 1_000)]
    losses: usize,
    /// Only scenarios whose name begins so; may be given several times.
    #[arg(long)]
    only: Vec<String>,
    /// Take-overs on this server instead of an embedded one; its objects stay there.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The repository's `bench/`.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// A replica of an operator.
    Replica { timings: Timings, objects: usize },
    /// A replica whose threads are blocked.
    Blocked { objects: usize, seconds: u64 },
    /// Elections that lose their leases.
    Losses { rounds: usize },
    /// Reconciles of a controller.
    Overhead { by: By, reconciles: usize },
}

fn main() -> Result<(), Failed> {
    // An error means that one was chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = Arguments::parse();
    if let Some(Part::Blocked { objects, seconds }) = arguments.part {
        return blocked::run(objects, Duration::from_secs(seconds));
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(async {
        match arguments.part {
            Some(Part::Replica { timings, objects }) => replica::run(timings, objects).await,
            Some(Part::Losses { rounds }) => losses::run(rounds).await,
            Some(Part::Overhead { by, reconciles }) => {
                tell("ns", overhead::ns_a_reconcile(by, reconciles).await?);
                Ok(())
            }
            Some(Part::Blocked { .. }) | None => Bench::new(arguments).await?.run().await,
        }
    })
}

/// The scenarios and what they found.
struct Bench {
    arguments: Arguments,
    home: tempfile::TempDir,
    figures: Figures,
}

impl Bench {
    async fn new(arguments: Arguments) -> Result<Self, Failed> {
        let (only, directory) = (arguments.only.clone(), arguments.directory.clone());
        Ok(Self {
            figures: Figures::new("operators", only, directory).await,
            home: tempfile::tempdir()?,
            arguments,
        })
    }

    async fn run(mut self) -> Result<(), Failed> {
        self.takeovers().await?;
        if self.figures.are_wanted_of("renewals-while-blocked") {
            self.blocked().await?;
        }
        if self.figures.are_wanted_of("overhead") {
            self.overhead().await?;
        }
        if self.figures.are_wanted_of("small-tenant") {
            let runs = vec![fairness::service_times(self.arguments.objects).await?];
            self.figures
                .add("small-tenant", ("service_times", "count"), runs)?;
        }
        if self.figures.are_wanted_of("losses") {
            self.losses().await?;
        }
        Ok(())
    }

    async fn cluster(&self) -> Result<Cluster, Failed> {
        Cluster::embedded(self.home.path()).await
    }

    async fn takeovers(&mut self) -> Result<(), Failed> {
        let (stops, crashes) = (self.arguments.stops, self.arguments.crashes);
        let objects = self.arguments.objects;
        let ends = [
            ("takeover-sigterm", Signal::SIGTERM, Timings::Default, stops),
            ("takeover-kill", Signal::SIGKILL, Timings::Default, crashes),
            (
                "takeover-kill-quick",
                Signal::SIGKILL,
                Timings::Quick,
                crashes,
            ),
        ];
        let wanted = ends
            .into_iter()
            .filter(|(name, ..)| self.figures.are_wanted_of(name));
        let wanted: Vec<_> = wanted.collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let (cluster, kind) = match &self.arguments.kubeconfig {
            Some(kubeconfig) => (Cluster::of(kubeconfig).await?, "-real"),
            None => (self.cluster().await?, ""),
        };
        cluster.fill(objects).await?;
        for (name, signal, timings, runs) in wanted {
            let takeover = Takeover {
                signal,
                timings,
                runs,
                objects,
            };
            let seconds = takeover.seconds(&cluster).await?;
            self.figures
                .add(&format!("{name}{kind}"), ("seconds", "s"), seconds)?;
        }
        Ok(())
    }

    async fn blocked(&mut self) -> Result<(), Failed> {
        let cluster = self.cluster().await?;
        cluster.fill(1_000).await?;
        let span = Duration::from_secs(self.arguments.blocked_seconds);
        let found = blocked::renewals(&cluster, self.home.path(), 1_000, span).await?;
        let name = "renewals-while-blocked";
        self.figures
            .add(name, ("renewals", "count"), vec![found.renewed as f64])?;
        self.figures
            .add(name, ("lost", "count"), vec![found.lost as f64])
    }

    async fn overhead(&mut self) -> Result<(), Failed> {
        let reconciles = self.arguments.reconciles.to_string();
        let mut runs = [(); By::ALL.len()].map(|()| Vec::new());
        // In turns, so that what else the machine does meets all alike.
        for _ in 0..self.arguments.turns {
            for (by, runs) in By::ALL.into_iter().zip(&mut runs) {
                let mut process = Process::start(None, &["overhead", by.name(), &reconciles])?;
                runs.push(process.wait_for("ns").await?);
                process.ended().await?;
            }
        }
        let without = &runs[0];
        let over = |with: &Vec<f64>| with.iter().zip(without).map(|(w, o)| w - o).collect();
        let over: Vec<Vec<f64>> = runs.iter().map(over).collect();
        for (by, (runs, over)) in By::ALL.into_iter().zip(runs.into_iter().zip(over)) {
            let name = format!("overhead-{}", by.name());
            self.figures
                .add(&name, ("cpu_ns_per_reconcile", "ns"), runs)?;
            self.figures.add(&name, ("cpu_ns_over_hand", "ns"), over)?;
        }
        Ok(())
    }

    async fn losses(&mut self) -> Result<(), Failed> {
        let cluster = self.cluster().await?;
        cluster.fill(0).await?;
        let found = losses::bytes_a_loss(&cluster, self.arguments.losses).await?;
        let (bytes, memory) = found;
        self.figures
            .add("losses", ("bytes_per_loss", "B"), vec![bytes])?;
        self.figures.add("losses", ("resident_bytes", "B"), memory)
    }
}
