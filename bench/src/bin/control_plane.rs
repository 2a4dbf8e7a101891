//! Measures the embedded server and its controllers, and writes the results:
//! `cargo xtask bench control-plane`.
//!
//! ```text
//! control_plane [--only NAME] ─▶ scenarios, one after the other ─▶ bench/results/control-plane.json
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kinform_apiserver::{Server, User};
use kinform_bench::control_plane::creates::{CONNECTIONS, a_second, micros_each};
use kinform_bench::control_plane::deployments::{all_available, one_available};
use kinform_bench::control_plane::hooks::Hook;
use kinform_bench::control_plane::served::Served;
use kinform_bench::operators::cluster::Cluster;
use kinform_bench::row::{Figures, median};
use kinform_bench::subject::Failed;
use kinform_bench::subject::latency::now_micros;
use kinform_controlplane::{ControlPlane, Selection, client_of};
use kube::api::{Api, DeleteParams, PostParams};

/// Measures the embedded server and its controllers.
#[derive(Debug, Parser)]
struct Arguments {
    /// Runs of what takes a second or less; the median counts.
    #[arg(long, default_value_t = 11)]
    turns: usize,
    /// Runs of what takes longer.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Deployments of the crowd, five pods each.
    #[arg(long, default_value_t = 1_000)]
    deployments: usize,
    /// Nodes of the crowd.
    #[arg(long, default_value_t = 200)]
    nodes: usize,
    /// Creations of each run over many connections.
    #[arg(long, default_value_t = 40_000)]
    creations: usize,
    /// Creations of each run with and without a webhook.
    #[arg(long, default_value_t = 2_000)]
    reviewed: usize,
    /// Only scenarios whose name begins so; may be given several times.
    #[arg(long)]
    only: Vec<String>,
    /// Also create objects on this server, for comparison; they stay there.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The program `kinform`; by default the one beside this one.
    #[arg(long)]
    kinform: Option<PathBuf>,
    /// The repository's `bench/`.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    // An error means that one was chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = Arguments::parse();
    let kinform = match &arguments.kinform {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("kinform"),
    };
    let (only, directory) = (arguments.only.clone(), arguments.directory.clone());
    let bench = Bench {
        home: tempfile::tempdir()?,
        figures: Figures::new("control-plane", only, directory).await,
        next: usize::try_from(now_micros())?,
        kinform,
        arguments,
    };
    bench.run().await
}

/// The scenarios and what they found.
struct Bench {
    arguments: Arguments,
    kinform: PathBuf,
    home: tempfile::TempDir,
    figures: Figures,
    /// The number of the next object. Objects of an earlier run may still be on another server.
    next: usize,
}

impl Bench {
    async fn run(mut self) -> Result<(), Failed> {
        if self.figures.are_wanted_of("available") {
            self.available().await?;
        }
        if self.figures.are_wanted_of("crowd") {
            self.crowd().await?;
        }
        if self.figures.are_wanted_of("webhook") {
            self.webhook().await?;
        }
        if self.figures.are_wanted_of("creates") {
            self.creates().await?;
        }
        Ok(())
    }

    /// Takes this many numbers of objects; returns the first.
    fn numbers(&mut self, count: usize) -> usize {
        self.next += count;
        self.next - count
    }

    async fn serve(&self, flags: &[&str]) -> Result<Served, Failed> {
        Served::start(&self.kinform, self.home.path(), flags).await
    }

    /// From the start of the process, and from the creation, to a Deployment of three that is available.
    async fn available(&mut self) -> Result<(), Failed> {
        let mut seconds = Vec::new();
        for _ in 0..self.arguments.turns {
            let served = self.serve(&["--controllers"]).await?;
            one_available(&served.cluster.client, "first").await?;
            seconds.push(served.started.elapsed().as_secs_f64());
            served.stop().await?;
        }
        self.figures
            .add("available-from-start", ("seconds", "s"), seconds)?;
        let server = Server::builder()
            .plain()
            .with_kubelets()
            .with_namespace_content()
            .in_process();
        let client = |name: &str| {
            let service = server.service_as(User::new(name).with_group("system:masters"));
            client_of(move |request| {
                let service = service.clone();
                async move { service.call(request).await }
            })
        };
        let running = ControlPlane::new(client, &Selection::all())?
            .start()
            .await?;
        let client = client("system:admin");
        let mut seconds = Vec::new();
        for turn in 0..=self.arguments.turns {
            let started = Instant::now();
            one_available(&client, &format!("turn-{turn}")).await?;
            seconds.push(started.elapsed().as_secs_f64());
        }
        running.stop().await?;
        // The first one fills caches of compiled rules.
        self.figures.add(
            "available-in-process",
            ("seconds", "s"),
            seconds.split_off(1),
        )
    }

    /// Many Deployments at once.
    async fn crowd(&mut self) -> Result<(), Failed> {
        let (nodes, deployments) = (self.arguments.nodes, self.arguments.deployments);
        let (mut cpu, mut wall, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.arguments.runs {
            let served = self.serve(&["--controllers"]).await?;
            let before = served.cpu_seconds()?;
            let started = Instant::now();
            all_available(&served.cluster.client, nodes, (deployments, 5)).await?;
            wall.push(started.elapsed().as_secs_f64());
            cpu.push(served.cpu_seconds()? - before);
            memory.push(served.peak_bytes()? as f64);
            served.stop().await?;
        }
        let name = format!("crowd-{deployments}x5");
        self.figures.add(&name, ("cpu_seconds", "s"), cpu)?;
        self.figures.add(&name, ("wall_seconds", "s"), wall)?;
        self.figures.add(&name, ("peak_bytes", "B"), memory)
    }

    /// A creation without a webhook, with one that does not match, and with one that is asked.
    async fn webhook(&mut self) -> Result<(), Failed> {
        let served = self.serve(&[]).await?;
        let client = &served.cluster.client;
        served.cluster.fill(0).await?;
        let hook = Hook::start().await?;
        let hooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let count = self.arguments.reviewed;
        let mut runs = [const { Vec::new() }; 3];
        micros_each(client, self.numbers(count), count / 4).await?;
        // In turns, so that what else the machine does meets all alike.
        for _ in 0..self.arguments.turns {
            for (resource, runs) in [None, Some("secrets"), Some("configmaps")]
                .into_iter()
                .zip(&mut runs)
            {
                let made = match resource {
                    None => None,
                    Some(resource) => {
                        let configuration = serde_json::from_value(hook.configuration(resource))?;
                        Some(hooks.create(&PostParams::default(), &configuration).await?)
                    }
                };
                // One that opens the connection.
                micros_each(client, self.numbers(1), 1).await?;
                let micros = micros_each(client, self.numbers(count), count).await?;
                runs.push(median(&micros));
                if let Some(name) = made.and_then(|made| made.metadata.name) {
                    hooks.delete(&name, &DeleteParams::default()).await?;
                }
            }
        }
        let [without, unmatched, asked] = runs;
        let over = |with: &[f64]| with.iter().zip(&without).map(|(w, o)| w - o).collect();
        let share = |with: &[f64]| with.iter().zip(&without).map(|(w, o)| w / o).collect();
        let (asked_over, unmatched_share) = (over(&asked), share(&unmatched));
        served.stop().await?;
        self.figures
            .add("webhook-none", ("micros", "us"), without)?;
        self.figures
            .add("webhook-unmatched", ("of_none", "x"), unmatched_share)?;
        self.figures
            .add("webhook-asked", ("micros_over_none", "us"), asked_over)
    }

    /// Creations a second: in memory, on disk, and by another server.
    async fn creates(&mut self) -> Result<(), Failed> {
        let creations = self.arguments.creations;
        let folder = self.home.path().join("data");
        let data_dir = format!("--data-dir={}", folder.display());
        let flags: [(&str, Vec<&str>); 3] = [
            ("creates-memory", vec![]),
            ("creates-disk-unsynced", vec![&data_dir, "--fsync=false"]),
            ("creates-disk", vec![&data_dir]),
        ];
        let mut runs = [const { Vec::new() }; 4];
        let peer = match &self.arguments.kubeconfig {
            Some(kubeconfig) => Some(Cluster::of(kubeconfig).await?),
            None => None,
        };
        for _ in 0..self.arguments.runs {
            for ((_, flags), runs) in flags.iter().zip(&mut runs) {
                clear(&folder)?;
                let flags: Vec<OsString> = flags.iter().map(OsString::from).collect();
                let served = Served::start(&self.kinform, self.home.path(), &flags).await?;
                served.cluster.fill(0).await?;
                let (client, warm) = (&served.cluster.client, CONNECTIONS * 10);
                a_second(client, self.numbers(warm), warm).await?;
                runs.push(a_second(client, self.numbers(creations), creations).await?);
                served.stop().await?;
            }
            if let Some(peer) = &peer {
                peer.fill(0).await?;
                let fewer = creations / 4;
                runs[3].push(a_second(&peer.client, self.numbers(fewer), fewer).await?);
            }
        }
        let [memory, unsynced, synced, others] = runs;
        for ((name, _), runs) in flags.iter().zip([memory, unsynced, synced]) {
            let ratios: Vec<f64> = runs.iter().zip(&others).map(|(r, o)| r / o).collect();
            self.figures
                .add(name, ("creates_per_second", "1/s"), runs)?;
            if !ratios.is_empty() {
                self.figures.add(name, ("over_real", "x"), ratios)?;
            }
        }
        match others.is_empty() {
            true => Ok(()),
            false => self
                .figures
                .add("creates-real", ("creates_per_second", "1/s"), others),
        }
    }
}

fn clear(folder: &Path) -> Result<(), Failed> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
